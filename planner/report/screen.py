"""The first screen of a plan: what to buy, what it costs, whether its promise is kept, and why nothing else."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from math import inf
from typing import TYPE_CHECKING

from planner.notes import code_of
from planner.report import bottleneck_text, formats, words
from planner.report.table import Table
from planner.report.terminal import compact, labelled
from planner.results import Baseline, Fleet, Latency, LinkPlan, Plan, PoolPlan, Serving
from planner.units import DASH, HOURS_PER_MONTH, percent, usd

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDE = 100
"""Columns from which on a screen has fewer lines."""
LINES, NARROW_LINES = 30, 40
"""Most lines on so many columns, and on fewer."""
ROWS, ALTERNATIVES, BINDING = 8, 3, 2
"""Most pools and links, other fleets, and constraints."""
LONGEST, LONGER = 160, 280
"""Characters of an answer that are printed on a screen, and of what is not to be bought."""
MOST_PLACES = 8
"""Accelerators by kind and site that are listed one by one."""
MOST_BEYOND_PERCENT = 25
"""Of prompts outside measured lengths, that goes without a word beside the decision."""
SHARE = re.compile(r"(\d+(?:\.\d+)?) % of the prompts")
NARROWER = ((), ("layout",), ("layout", "does"), ("layout", "does", ">USD/h each"))
"""Columns of the fleet that are left out, as few as keep its rows on a line each."""
NAIVE = "naive-heterogeneous-pd"
DECISIVE = (
    "value-beyond-usual",
    "cheaper-fleet",
    "not-settled",
    "price-missing",
    "own-points",
    "queue-saturated",
    "lengths-extrapolated",
    "beyond-calibration",
    "nearly-full",
    "times-not-measured",
)
"""Codes of the notes that may change what is bought, the gravest first; others follow in their own order."""


def plan_screen(plan: Plan, columns: int, count: "Callable[[Iterable[RenderableType]], int]") -> "list[RenderableType]":
    """A plan on one screen.

    Args:
        plan: the answer of `planner optimize`.
        columns: width of the terminal.
        count: lines that parts take there.

    Returns:
        What to print, in order: notes last, as many as the screen has lines for.
    """
    left = _most_lines(columns)
    parts = [
        labelled(f"{plan.scenario}: {recommendation_text(plan)}", answers(plan, shortened)),
        min(
            (compact(fleet_table(plan, without)) for without in NARROWER),
            key=lambda table: count([table] if table else []),
        ),
        compact(latency_table(plan)),
    ]
    found = [part for part in parts if part is not None]
    binds = [labelled("", [("binds", line)]) for line in _binding(plan)]
    tables = (compact(alternatives_table(plan, n)) for n in range(ALTERNATIVES, 0, -1))
    found += next(([t] for t in tables if t is not None and count([*found, t, *binds]) <= left), [])
    found += _fitting(binds, left - count(found), count)
    doubt = doubtful_lengths(plan)
    others = (note for note in plan.notes if note.rpartition(" (note:")[0] not in doubt)
    return with_notes(found, others, "everything else: --details, or --section NAME", columns, count)


def with_notes(
    parts: "list[RenderableType]",
    notes: Iterable[str],
    rest: str,
    columns: int,
    count: "Callable[[Iterable[RenderableType]], int]",
) -> "list[RenderableType]":
    """Parts, as many notes as the screen has lines for, those that may change a decision first, and where the rest is.

    Args:
        parts: what stands above the notes.
        notes: what to know of an answer.
        rest: what else there is, and how it is asked for.
        columns: width of the terminal.
        count: lines that parts take there.
    """
    known = {code: place for place, code in enumerate(DECISIVE)}
    ordered = sorted(notes, key=lambda note: known.get(code_of(note) or "", len(known)))
    lines = [labelled("", [("note", formats.sentence(note))]) for note in ordered]
    shown = _fitting(lines, _most_lines(columns) - count(parts), count)
    hidden = len(lines) - len(shown)
    more = f"{hidden} more note{'s' * (hidden != 1)} and " if hidden else ""
    return [*parts, *shown, labelled("", [("more", f"{more}{rest}")])]


def _most_lines(columns: int) -> int:
    """Lines of a screen but for the last, which says where the rest is."""
    return (LINES if columns >= WIDE else NARROW_LINES) - 1


def _fitting(
    parts: "list[RenderableType]", lines: int, count: "Callable[[Iterable[RenderableType]], int]"
) -> "list[RenderableType]":
    """As many of the first parts as so many lines hold."""
    n = len(parts)
    while n and count(parts[:n]) > lines:
        n -= 1
    return parts[:n]


def recommendation_text(plan: Plan) -> str:
    """The kind of serving to choose, in a few words."""
    kind = recommended_serving(plan)
    if is_broken(plan):
        return "no plan that was run keeps the promise"
    if kind is None:
        found = f"the best that was found is served {words.SERVING[plan.serving]}" if plan.serving else "undecided"
        return f"{found}; another kind is not ruled out"
    if fleet_to_buy(plan) is plan:
        return f"served best {words.SERVING[kind]}, as planned"
    return f"served best {words.SERVING[kind]}, and not by the pools that the scenario states"


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
    return min(of_kind, key=lambda other: merit(plan, other), default=plan)


def comparable_fleets(plan: Plan) -> list[Baseline]:
    """Fleets beside the plan that do what it is for, but for the plan itself, and its pools put to worse use."""
    asked = (other for other in plan.baselines if other.name != NAIVE and does_the_same(plan, other))
    return [other for other in asked if (other.serving, _bought(other)) != (plan.serving, _bought(plan))]


def obtainable_fleets(plan: Plan) -> list[Baseline]:
    """Those of them that can be had."""
    return [other for other in comparable_fleets(plan) if not other.beyond_stock]


def does_the_same(plan: Plan, other: Fleet) -> bool:
    """True if a fleet serves the plan's demand, or costs no more where the rate or the TTFT counts."""
    ours, theirs = plan.cost.usd_per_hour, other.cost.usd_per_hour
    if plan.objective == "min-cost":
        return theirs is not None and other.most_req_per_s >= words.FULL * plan.throughput_req_per_s
    if ours is None or theirs is None:
        return other.n_accelerators <= plan.n_accelerators
    return theirs * words.FULL <= ours


def merit(plan: Plan, fleet: Fleet) -> float:
    """Figure that fleets are ordered by, the better the smaller: a bill, a TTFT, or a rate with its sign changed."""
    if plan.objective == "min-cost":
        return fleet.cost.usd_per_hour or 0.0
    if plan.objective == "min-ttft":
        ttft_s = _promised_ttft_s(plan, fleet)
        return inf if ttft_s is None else ttft_s
    return -fleet.most_req_per_s


def _percentile(plan: Plan) -> int:
    """The percentile of TTFT that answers have, nearest to the one promised."""
    asked = next((c.slo["ttft_percentile"] for c in plan.classes if c.slo and "ttft_percentile" in c.slo), 90.0)
    return min(words.KNOWN_PERCENTILES, key=lambda p: abs(p - asked))


def _promised_ttft_s(plan: Plan, fleet: Fleet) -> float | None:
    """TTFT under load of a fleet at that percentile [s]; None: unknown, and never a time without waiting."""
    found: float | None = getattr(fleet.latency, f"ttft_p{_percentile(plan)}_s")
    return found


def answers(plan: Plan, shorten: Callable[[str, int], str] = lambda text, _: text) -> Iterator[tuple[str, str]]:
    """Answers to what a person who decides asks first, each after the name of its question.

    Args:
        plan: the answer of `planner optimize`.
        shorten: what is done to texts that may be long.
    """
    fleet, is_doubtful = fleet_to_buy(plan), plan.slo_run is not None and plan.slo_run.holds is False
    if is_doubtful:
        yield "promise", promise(plan, fleet)
    yield "buy", shopping_list(fleet)
    yield "cost", bill(fleet)
    yield "serves", words.throughput(plan) if fleet is plan else _serves(plan, fleet)
    if words.has_choice_of_place(plan) and fleet is plan:
        yield "threshold", shorten(words.threshold(plan), LONGEST)
    if not is_doubtful and (plan.certified is None or plan.slo_run is not None):
        yield "promise", promise(plan, fleet)
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
    links = [f"{link.name} {words.ports(link)}" for link in rented]
    if len(bought) + len(links) <= MOST_PLACES:
        return ", ".join(bought + links)
    n_sites = len({site for _, site in counts})
    total = f"{len(rented)} links of {sum(link.capacity_gbps for link in rented):,.0f} Gbps together"
    return f"{words.accelerators(fleet)} at {n_sites} sites; {total}"


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


def promise(plan: Plan, fleet: Fleet) -> str:
    """Words on what is promised of latency, and what a run made of it."""
    if plan.slo_run is None:
        promised = any(c.slo for c in plan.classes)
        return "as predicted, not run" if promised else "none on latency (slo.ttft_s and slo.tpot_ms state one)"
    return words.slo_run(plan) if fleet is plan else f"{words.slo_run(plan)} (of the stated pools)"


def instead(plan: Plan, fleet: Plan | Baseline) -> str:
    """The best of what is not to be bought, with its figure, and what more stock would do."""
    others = [other for other in obtainable_fleets(plan) if other is not fleet]
    sentences = []
    if fleet is not plan:
        sentences.append(f"the stated pools {_does(plan, plan)}")
    elif others:
        best = min(others, key=lambda other: merit(plan, other))
        sentences.append(f"{best.title} {_does(plan, best)}")
    elif comparable_fleets(plan):
        sentences.append("nothing else that can be had does it")
    stocked = [other for other in comparable_fleets(plan) if other.beyond_stock]
    if fleet is plan and stocked and plan.serving == "separate-sites":
        best = min(stocked, key=lambda other: merit(plan, other))
        if not others or merit(plan, best) < min(merit(plan, other) for other in others):
            sentences.append(f"with more stock than stated {best.title} {_does(plan, best)}")
    return "; ".join(sentences) or _why_none(plan)


def _why_none(plan: Plan) -> str:
    """Why no fleet stands beside the plan."""
    missing = [note for note in plan.notes if code_of(note) == "no-baseline"]
    if not missing:
        return "nothing else that was tried does it" if plan.baselines else "nothing else was compared"
    why = missing[0].partition(" to compare with: ")[2].rpartition(" (note:")[0]
    tried = f"{len(missing)} other fleets were tried" if len(missing) > 1 else "another fleet was tried"
    return (
        f"{tried}, and none does it: {why}" if why.startswith("such a fleet") else f"nothing else was compared: {why}"
    )


def _does(plan: Plan, other: Fleet) -> str:
    """Performance of a fleet beside the plan, by what plans are judged by here."""
    cost = "" if other.cost.usd_per_hour is None else f" for {usd(other.cost.usd_per_hour)} USD/h"
    if plan.objective == "min-cost":
        is_strict = any(code_of(note) == "stricter-promise" for note in plan.notes)
        return f"would cost {'at most ' if is_strict and other is not plan else ''}{usd(other.cost.usd_per_hour)} USD/h"
    if plan.objective == "min-ttft":
        return f"would have a P{_percentile(plan)} TTFT of {formats.seconds(_promised_ttft_s(plan, other))}{cost}"
    return f"would serve {formats.figure(other.most_req_per_s)} req/s{cost}"


def doubtful_lengths(plan: Plan) -> str:
    """Prompts beyond measured lengths, where they are more than a quarter of a pool's."""
    told = [note for note in plan.notes if code_of(note) == "lengths-extrapolated"]
    shares = {note: SHARE.match(note) for note in told}  # of plans that another version wrote, too
    grave = [note for note, share in shares.items() if share and float(share[1]) > MOST_BEYOND_PERCENT]
    return "; ".join(note.rpartition(" (note:")[0] for note in grave)


def fleet_table(plan: Plan, without: Collection[str] = ()) -> Table:
    """Every pool and link in use: where, how many, how it runs, how busy it is, and what it and each of it cost.

    Args:
        plan: the plan.
        without: headings of columns to leave out; a layout that nobody stated is left out in any case.
    """
    stated = "pool" if fleet_to_buy(plan) is plan else "stated pool"
    headings = (stated, "at", "instances", "layout", "does", ">busy", ">USD/h", ">USD/h each")
    rows = [_pool_row(pool) for pool in plan.pools if pool.n_instances]
    rows += [_link_row(link) for link in plan.links if link.capacity_gbps > 0]
    more = len(rows) - ROWS
    if more > 1:
        rows = [*rows[: ROWS - 1], (f"{more + 1} more", *[""] * (len(headings) - 1))]
    apart = {"traffic": words.traffic_usd_per_hour(plan), "total": plan.cost.usd_per_hour}
    if plan.cost.electricity_usd_per_hour:
        apart = {"electricity": plan.cost.electricity_usd_per_hour, **apart}
    within = {"electricity": "of it"}
    rows += [(what, within.get(what, ""), *[""] * 4, usd(value), "") for what, value in apart.items() if value]
    unstated = {"layout"} if all(pool.layout is None for pool in plan.pools) else set()
    kept = [i for i, heading in enumerate(headings) if heading not in {*without, *unstated}]
    caption = f"{words.cost_band(plan).removeprefix('. ')}." if plan.cost_band else ""
    return Table.of("", [headings[i] for i in kept], ([row[i] for i in kept] for row in rows), caption)


def _pool_row(pool: PoolPlan) -> tuple[str, ...]:
    n, bill = pool.n_instances, pool.usd_per_hour
    return (
        pool.name,
        pool.site,
        f"{n} x {pool.n_accelerators // n} {pool.hardware}",
        words.how_run(pool) or DASH,
        words.pool_kind(pool).replace(" prompts", ""),
        percent(pool.utilization),
        usd(bill),
        usd(None if bill is None else bill / n),
    )


def _link_row(link: LinkPlan) -> tuple[str, ...]:
    bill = link.usd_per_hour
    each = None if bill is None or not link.n_ports else bill / link.n_ports
    where = f"{link.from_site} to {link.to_site}"
    return link.name, where, words.ports(link), DASH, "link", percent(link.utilization), usd(bill), usd(each)


def latency_table(plan: Plan) -> Table:
    """Times, each in the column of what it is: promised, executed, predicted under load, or without waiting."""
    run, latency = plan.slo_run, plan.latency
    rows: list[tuple[str, tuple[float | None, ...]]] = []
    if run is not None and run.promised_s is not None:
        asked = f"TTFT P{run.percentile:g}"
        rows.append((asked, (run.promised_s, run.executed_s, run.predicted_s, _alone(latency, run.percentile))))
    else:
        rows.append(("TTFT P90", (None, None, latency.ttft_p90_s, latency.ttft_unloaded_p90_s)))
    if run is not None and run.tpot is not None:
        tpot = run.tpot
        rows.append((f"TPOT P{run.percentile:g}", (tpot.promised_s, tpot.executed_s, tpot.predicted_s, None)))
    else:
        rows.append(("TPOT mean", (None, None, latency.tpot_mean_s, None)))
    used = [row for row in rows if any(value is not None for value in row[1])]
    columns = ["promised", "executed", "predicted under load", "without waiting"]
    kept = [i for i in range(4) if any(values[i] is not None for _, values in used)]
    headings = ["latency", *(f">{columns[i]}" for i in kept)]
    return Table.of("", headings, ((name, *(formats.seconds(values[i]) for i in kept)) for name, values in used))


def _alone(latency: Latency, percentile: float) -> float | None:
    return latency.ttft_unloaded_p90_s if percentile == 90 else None


def alternatives_table(plan: Plan, n: int) -> Table:
    """The best of the other fleets, those that can be had first.

    Args:
        plan: the plan that they stand beside.
        n: most fleets.
    """
    others = sorted(comparable_fleets(plan), key=lambda other: (bool(other.beyond_stock), merit(plan, other)))
    rows = (
        (
            words.other_fleet(other),
            formats.figure(other.most_req_per_s),
            usd(other.cost.usd_per_hour),
            formats.times(other.ratio),
        )
        for other in others[:n]
    )
    return Table.of("", ("other fleets", ">req/s at most", ">USD/h", ">plan serves"), rows)


def other_fleets_table(plan: Plan) -> Table:
    """Every other fleet: its accelerators and layouts, what it serves and costs, and its TPOT."""
    rows = (
        (
            words.other_fleet(other),
            _instances(other),
            formats.figure(other.most_req_per_s),
            usd(other.cost.usd_per_hour),
            formats.seconds(other.latency.tpot_mean_s),
            formats.times(other.ratio),
        )
        for other in plan.baselines
    )
    headings = ("other fleets", "instances", ">req/s at most", ">USD/h", ">TPOT", ">plan serves")
    return Table.of("", headings, rows)


def _instances(fleet: Fleet) -> str:
    """Instances of every pool in use, and how they run."""
    return ", ".join(_runs(pool) for pool in fleet.pools if pool.n_instances)


def _runs(pool: PoolPlan) -> str:
    """Instances of a pool with their accelerators, layout and role."""
    n = pool.n_instances
    how = f" {how}" if (how := words.how_run(pool)) else ""
    return f"{n} x {pool.n_accelerators // n} {pool.hardware}{how} ({words.pool_kind(pool).replace(' prompts', '')})"


def growth_table(plan: Plan, grown: Plan, fraction: float) -> Table:
    """The plan beside that of a grown demand, and what it costs more; with how instances run, where that differs."""
    now_run, then_run = ([(pool.name, words.how_run(pool)) for pool in one.pools] for one in (plan, grown))

    def row(name: str, one: Plan) -> tuple[str, ...]:
        bill = one.cost.usd_per_hour
        now = plan.cost.usd_per_hour
        more = DASH if bill is None or not now else formats.signed_percent(bill / now - 1)
        rate = formats.figure(one.throughput_req_per_s)
        sizes = words.named_sizes(one) if now_run == then_run else _instances(one)
        return name, rate, sizes, usd(bill), monthly(bill), more

    rows = [row("now", plan), row(f"{formats.signed_percent(fraction)}", grown)]
    headings = ("demand", ">req/s", "instances", ">USD/h", ">USD a month", ">more")
    return Table.of("", headings, rows, f"promise then: {promise(grown, grown)}")


def _binding(plan: Plan) -> list[str]:
    return [formats.sentence(bottleneck_text.bottleneck(item)) for item in plan.bottlenecks[:BINDING]]
