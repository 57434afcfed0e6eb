"""The decision of a plan in words: what to buy, what it costs, whether its promise is kept, and why nothing else."""

import re
from collections.abc import Callable, Iterator
from math import inf

from planner.notes import code_of
from planner.report import formats, phrases
from planner.results.fleet_merit import does_the_same, merit, nearest_percentile, ttft_s
from planner.results.plan import Baseline, Fleet, Plan, Serving
from planner.units import DASH, HOURS_PER_MONTH, usd

LONGEST, LONGER = 160, 280
"""Characters of an answer that are printed on a screen, and of what is not to be bought."""
MOST_PLACES = 8
"""Accelerators by kind and site that are listed one by one."""
MOST_BEYOND_PERCENT = 25
"""Of prompts outside measured lengths, that goes without a word beside the decision."""
SHARE = re.compile(r"(\d+(?:\.\d+)?) % of the prompts")
NAIVE = "naive-heterogeneous-pd"


def recommendation_text(plan: Plan) -> str:
    """The kind of serving to choose, in a few words."""
    kind = recommended_serving(plan)
    if is_broken(plan):
        return "no plan that was run keeps the promise"
    if kind is None:
        found = f"the best that was found is served {phrases.SERVING[plan.serving]}" if plan.serving else "undecided"
        return f"{found}; another kind is not ruled out"
    if fleet_to_buy(plan) is plan:
        return f"served best {phrases.SERVING[kind]}, as planned"
    return f"served best {phrases.SERVING[kind]}, and not by the pools that the scenario states"


def is_broken(plan: Plan) -> bool:
    """True if a run showed that the promise is not kept."""
    return plan.slo_run is not None and plan.slo_run.decided is True and plan.slo_run.holds is False


def recommended_serving(plan: Plan) -> Serving | None:
    """The kind of serving that the verdict recommends; older plans say of one kind alone whether it is worth it."""
    return plan.verdict.recommendation or ("separate-sites" if plan.verdict.worth_it else None)


def fleet_to_buy(plan: Plan) -> Plan | Baseline:
    """The fleet to buy: the plan, or the best fleet beside it of the kind of serving that is recommended."""
    kind = recommended_serving(plan)
    if kind is None or plan.serving == kind:
        return plan
    of_kind = [other for other in obtainable_fleets(plan) if other.serving == kind]
    return min(of_kind, key=lambda other: rank(plan, other), default=plan)


def comparable_fleets(plan: Plan) -> list[Baseline]:
    """Fleets beside the plan that do what it is for, but for the plan itself, and its pools put to worse use."""
    asked = (other for other in plan.baselines if other.name != NAIVE and does_the_same(plan.objective, plan, other))
    return [other for other in asked if (other.serving, _bought(other)) != (plan.serving, _bought(plan))]


def obtainable_fleets(plan: Plan) -> list[Baseline]:
    """Those of them that can be had."""
    return [other for other in comparable_fleets(plan) if not other.beyond_stock]


def rank(plan: Plan, fleet: Fleet) -> float:
    """Key that fleets are sorted by, the best first and those of an unknown figure last."""
    value = merit(plan.objective, fleet, _percentile(plan))
    if value is None:
        return inf
    return -value if plan.objective == "max-throughput" else value


def _percentile(plan: Plan) -> float:
    """The percentile of TTFT that a class is promised first."""
    return next((c.slo["ttft_percentile"] for c in plan.classes if c.slo and "ttft_percentile" in c.slo), 90.0)


def decision_rows(plan: Plan, shorten: Callable[[str, int], str] = lambda text, _: text) -> Iterator[tuple[str, str]]:
    """Answers to what a person who decides asks first, each after the name of its question.

    Args:
        plan: the answer of `planner optimize`.
    """
    fleet, is_doubtful = fleet_to_buy(plan), plan.slo_run is not None and plan.slo_run.holds is False
    if is_doubtful:
        yield "promise", promise_text(plan, fleet)
    yield "buy", shopping_list(fleet)
    yield "cost", bill(fleet)
    yield "serves", phrases.throughput(plan) if fleet is plan else _serves(plan, fleet)
    if phrases.has_choice_of_place(plan) and fleet is plan:
        yield "threshold", shorten(phrases.threshold(plan), LONGEST)
    if not is_doubtful and (plan.certified is None or plan.slo_run is not None):
        yield "promise", promise_text(plan, fleet)
    if plan.certified is not None:
        n, each = plan.certified.n_replications, plan.certified.n_requests
        yield "certified", f"kept in {n} runs of {each:,} requests together, and with the system kept full"
    yield "instead", shorten(instead(plan, fleet), LONGER)
    if doubt := doubtful_lengths(plan):
        yield "doubt", shorten(doubt, LONGEST)


def _serves(plan: Plan, fleet: Fleet) -> str:
    """The rate of a fleet that is not the plan, beside the demand where that is given."""
    most = f"{formats.figure(fleet.most_req_per_s)} req/s at most"
    return f"{formats.figure(plan.throughput_req_per_s)} req/s, of {most}" if plan.objective == "min-cost" else most


def shortened(text: str, most: int) -> str:
    """A text of so many characters at most, cut between words where it is longer.

    >>> shortened("word word", 20), shortened("word " * 30, 20)
    ('word word', 'word word word ... (--details)')
    """
    return text if len(text) <= most else f"{text[:most].rpartition(' ')[0]} ... (--details)"


def shopping_list(fleet: Fleet) -> str:
    """Accelerators by site, and links.

    Returns:
        For example `32 h200-sxm at remote, 64 h20-141gb at local, wan 100 Gbps`.
    """
    counts = _bought(fleet)
    bought = [f"{n:,} {hardware} at {site}" for (hardware, site), n in counts.items()]
    rented = [link for link in fleet.links if link.capacity_gbps > 0]
    links = [f"{link.name} {phrases.ports(link)}" for link in rented]
    if len(bought) + len(links) <= MOST_PLACES:
        return ", ".join(bought + links)
    n_sites = len({site for _, site in counts})
    total = f"{len(rented)} links of {sum(link.capacity_gbps for link in rented):,.0f} Gbps together"
    return f"{phrases.accelerators(fleet)} at {n_sites} sites; {total}"


def _bought(fleet: Fleet) -> dict[tuple[str, str], int]:
    """Accelerators by kind and site, where there are any."""
    counts: dict[tuple[str, str], int] = {}
    for pool in (pool for pool in fleet.pools if pool.n_accelerators):
        key = pool.hardware, pool.site
        counts[key] = counts.get(key, 0) + pool.n_accelerators
    return counts


def bill(fleet: Fleet) -> str:
    """The bill per hour, per month and per million tokens, and what is bought for it."""
    cost = fleet.cost
    if cost.usd_per_hour is None:
        missing = ", ".join(cost.missing_prices)
        return f"unknown{f': not stated: {missing}' if missing else ''}"
    bought = "" if cost.purchase_usd is None else f"; accelerators bought for {cost.purchase_usd:,.0f} USD"
    return (
        f"{usd(cost.usd_per_hour)} USD/h, {monthly(cost.usd_per_hour)} USD a month; "
        f"{formats.figure(cost.usd_per_million_input_tokens)} USD per million input tokens{bought}"
    )


def monthly(usd_per_hour: float | None) -> str:
    """A bill of a month of 730 hours.

    >>> monthly(182.5), monthly(None)
    ('133,225', '–')
    """
    return DASH if usd_per_hour is None else f"{usd_per_hour * HOURS_PER_MONTH:,.0f}"


def promise_text(plan: Plan, fleet: Fleet) -> str:
    """Words on what is promised of latency, and what a run made of it."""
    if plan.slo_run is None:
        promised = any(c.slo for c in plan.classes)
        return "as predicted, not run" if promised else "none on latency (slo.ttft_s and slo.tpot_ms state one)"
    if fleet is plan:
        return phrases.slo_run(plan)
    was_run = "kept when it was run" if _holds(fleet) else "as predicted, not run"
    return f"{was_run}; of the stated pools {phrases.slo_run(plan)}"


def _holds(fleet: Fleet) -> bool | None:
    """Whether a run bore out the promise of a fleet beside the plan; None: none was asked for."""
    return fleet.holds if isinstance(fleet, Baseline) else None


def instead(plan: Plan, fleet: Plan | Baseline) -> str:
    """The best of what is not to be bought, with its figure, and what more stock would do."""
    others = [other for other in obtainable_fleets(plan) if other is not fleet]
    sentences = []
    if fleet is not plan:
        sentences.append(f"the stated pools {_does(plan, plan)}")
    elif others:
        best = min(others, key=lambda other: rank(plan, other))
        sentences.append(f"{best.title} {_does(plan, best)}")
    elif comparable_fleets(plan):
        sentences.append("nothing else that can be had does it")
    stocked = [other for other in comparable_fleets(plan) if other.beyond_stock]
    if fleet is plan and stocked and plan.serving == "separate-sites":
        best = min(stocked, key=lambda other: rank(plan, other))
        if not others or rank(plan, best) < min(rank(plan, other) for other in others):
            sentences.append(f"with more stock than stated {best.title} {_does(plan, best)}")
    return "; ".join(sentences) or _why_none(plan)


def _why_none(plan: Plan) -> str:
    """Why no fleet stands beside the plan: some could not be planned, or all that were do not do it."""
    if open_ := _reasons(plan, "no-baseline"):
        return f"nothing else was compared: {open_[0]}"
    if not (tried := _reasons(plan, "baseline-infeasible")):
        return "nothing else that was tried does it" if plan.baselines else "nothing else was compared"
    if len(tried) == 1:
        return f"another fleet does not do it: {tried[0]}"
    example = "for one, " if len(set(tried)) > 1 else ""
    return f"{len(tried)} other fleets were tried, and none does it: {example}{max(tried, key=len)}"


def _reasons(plan: Plan, code: str) -> list[str]:
    """Reasons of the notes on fleets to compare with of a code."""
    notes = (note for note in plan.notes if code_of(note) == code)
    return [note.partition(" to compare with: ")[2].rpartition(" (note:")[0] for note in notes]


def _does(plan: Plan, other: Fleet) -> str:
    """Performance of a fleet beside the plan, by what plans are judged by here."""
    cost = "" if other.cost.usd_per_hour is None else f" for {usd(other.cost.usd_per_hour)} USD/h"
    if plan.objective == "min-cost":
        is_strict = any(code_of(note) == "stricter-promise" for note in plan.notes)
        cost = f"would cost {'at most ' if is_strict and other is not plan else ''}{usd(other.cost.usd_per_hour)} USD/h"
        return f"{cost}, and no run bore out that it keeps the promise" if _holds(other) is False else cost
    if plan.objective == "min-ttft":
        percentile = _percentile(plan)
        within = formats.seconds(ttft_s(other.latency, percentile))
        return f"would have a P{nearest_percentile(percentile)} TTFT of {within}{cost}"
    return f"would serve {formats.figure(other.most_req_per_s)} req/s{cost}"


def doubtful_lengths(plan: Plan) -> str:
    """Prompts beyond measured lengths, where they are more than a quarter of a pool's."""
    told = [note for note in plan.notes if code_of(note) == "lengths-extrapolated"]
    shares = {note: SHARE.match(note) for note in told}  # of plans that another version wrote, too
    grave = [note for note, share in shares.items() if share and float(share[1]) > MOST_BEYOND_PERCENT]
    return "; ".join(note.rpartition(" (note:")[0] for note in grave)
