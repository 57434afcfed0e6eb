"""Explanation of a plan's numbers in ten statements at the most, and those on its load."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from planner.report import explained_worth as worth
from planner.report.explained_worth import CitedFigures, item_place
from planner.report.formats import EXACT, figure, listed, seconds
from planner.report.phrases import EPSILON, FULL, has_choice_of_place, takers
from planner.report.table import Table
from planner.report.terminal import printed
from planner.results.explanation import ExplainedLine, Explanation, Topic
from planner.results.plan import Plan
from planner.units import number, percent

if TYPE_CHECKING:
    from rich.console import RenderableType

BALANCED = 0.01
"""Utilisations that differ by less are told as equal [fraction]."""


def explain_rate(plan: Plan, at: CitedFigures) -> str:
    """The rate that every other figure is stated at, and where it comes from."""
    stated = f"{figure(at('throughput_req_per_s'))} req/s"
    if plan.periods:
        busiest = max(plan.periods, key=lambda period: period.demand_req_per_s).name
        peak = figure(at(f"periods[{busiest}].demand_req_per_s"))
        stated += f", the mean over all periods; the highest demand is {peak} req/s, in {busiest}"
    if plan.goodput_req_per_s is not None and plan.throughput_req_per_s >= plan.goodput_req_per_s * (1 - EXACT):
        at("goodput_req_per_s")
        return f"The plan is for {stated}: the goodput, the highest rate at which the promise on TTFT holds."
    if plan.throughput_req_per_s >= plan.max_throughput_req_per_s * (1 - EXACT):
        at("max_throughput_req_per_s")
        return f"The plan is for {stated}: the highest rate that this fleet serves."
    goal = {
        "min-cost": ". It is the cheapest fleet found for it",
        "min-ttft": ". It has the shortest TTFT found for it",
    }
    return f"The plan is for the demand of {stated}{goal.get(plan.objective, '')}."


def explain_busiest(plan: Plan, at: CitedFigures) -> str | None:
    """The pools and links that are used most, in their busiest period."""
    used = sorted(_used(plan), reverse=True)
    if not used:
        return None
    full = [(value, name, place) for value, name, place in used if value >= FULL]
    if full:
        names = listed([name for _, name, place in full if at(f"{place}.utilization") is not None])
        text = f"{names} {'are' if len(full) > 1 else 'is'} full, so nothing more can be served at this threshold."
    else:
        value, name, place = used[0]
        at(f"{place}.utilization")
        text = f"Nothing is full. The busiest is {name} with {percent(value)}."
        if not plan.periods:
            most = figure(at("max_throughput_req_per_s"))
            text += f" The first pool or link would be full at {most} req/s."
    rest = used[max(len(full), 1) :]
    if rest:
        value, name, place = rest[0]
        at(f"{place}.utilization")
        text += f" Next is {name} with {percent(value)}."
    return text


def _used(plan: Plan) -> list[tuple[float, str, str]]:
    """Highest use, name and place in the plan of every pool and link that has something to do."""
    if not plan.periods:
        pools = [(p.utilization, p.name, item_place("pools", p.name)) for p in plan.pools if p.offered_req_per_s]
        return pools + [(x.utilization, x.name, item_place("links", x.name)) for x in plan.links if x.mean_gbps]
    found: dict[str, tuple[float, str, str]] = {}
    for period in plan.periods:
        for kind, parts in (("pools", period.pools), ("links", period.links)):
            for part in parts:
                place = f"{item_place('periods', period.name)}.{item_place(kind, part.name)}"
                now = (part.utilization, f"{part.name} in {period.name}", place)
                found[part.name] = max(found.get(part.name, now), now)
    return [item for item in found.values() if item[0] > 0]


def explain_threshold(plan: Plan, at: CitedFigures) -> str | None:
    """Where the threshold lies, and what it divides."""
    if not has_choice_of_place(plan):
        return None
    if not EPSILON < plan.offload_fraction < 1 - EPSILON:
        share, where = percent(at("offload_fraction")), takers(plan, "long") or "another pool"
        return f"There is no threshold: {share} of the prompts go to {where}."
    if plan.threshold_tokens is not None:
        text = (
            f"Prompts with more than {number(at('threshold_tokens'))} uncached tokens "
            f"({percent(at('offload_fraction'))} of all) go to {takers(plan, 'long') or 'another pool'}."
        )
        return text + _balance(plan, at)
    stated = _thresholds(plan)
    if stated:
        (least, low), (most, high) = min(stated), max(stated)
        at(low), at(high)
        share = percent(at("offload_fraction"))
        if least == most:
            return f"Prompts with more than {number(least)} uncached tokens may leave; {share} of all do."
        return (
            f"Thresholds lie between {number(least)} and {number(most)} uncached tokens, by class, site and period. "
            f"{share} of all prompts are longer."
        )
    return f"There is no threshold: {percent(at('offload_fraction'))} of the prompts are prefilled elsewhere."


def _balance(plan: Plan, at: CitedFigures) -> str:
    """Sentence on how equally busy the two sides of a threshold are; empty unless each is one pool."""
    sides = [[p for p in plan.pools if p.prompts == part and p.offered_req_per_s] for part in ("long", "short")]
    if any(len(side) != 1 for side in sides):
        return ""
    (far,), (near,) = sides
    used = [at(f"pools[{pool.name}].utilization") for pool in (far, near)]
    if abs(used[0] - used[1]) < BALANCED:
        return (
            f" There {far.name} and {near.name} are equally busy ({percent(used[0])} and {percent(used[1])}): "
            "a lower or higher threshold would overload one of them first."
        )
    return f" {far.name} is then {percent(used[0])} busy and {near.name} {percent(used[1])}."


def _thresholds(plan: Plan) -> list[tuple[float, str]]:
    """Every threshold of classes and periods [tokens], and its place."""
    found = [(c.threshold_tokens, f"classes[{c.name}].threshold_tokens") for c in plan.classes]
    found += [
        (tokens, f"periods[{period.name}].thresholds.{name}.{site}")
        for period in plan.periods
        for name, sites in period.thresholds.items()
        for site, tokens in sites.items()
    ]
    return [(tokens, place) for tokens, place in found if tokens is not None]


def explain_link(plan: Plan, at: CitedFigures) -> str | None:
    """The link that is used most."""
    used = [item for item in plan.links if item.mean_gbps]
    if not used:
        return None
    name = max(used, key=lambda item: item.utilization).name
    carried, capacity = number(at(f"links[{name}].mean_gbps")), number(at(f"links[{name}].capacity_gbps"))
    share = at(f"links[{name}].utilization")
    which = f"The busiest link, {name}," if len(used) > 1 else f"{name}"
    ends = "that is all it has" if share >= FULL else "it limits nothing on average"
    return f"{which} carries {carried} of {capacity} Gbps ({percent(share)}): {ends}."


def explain_ttft(plan: Plan, at: CitedFigures) -> str | None:
    """TTFT with and without waiting."""
    if plan.latency.ttft_unloaded_mean_s is None:
        return None
    alone = seconds(at("latency.ttft_unloaded_mean_s"))
    if plan.latency.ttft_mean_s is None:
        at("latency.ttft_mean_s")
        full = [pool.name for pool in plan.pools if pool.n_instances and pool.utilization >= FULL]
        why = f"the queue at {listed(full)} would only grow" if full else "this dispatch has no model of waits"
        return f"TTFT is {alone} on average without waiting. Under load it is unknown, because {why}."
    loaded, late = seconds(at("latency.ttft_mean_s")), seconds(at("latency.ttft_p90_s"))
    return f"TTFT is {loaded} on average and {late} at P90. Without waiting the mean would be {alone}."


MOST_LINES = 10
LINES: tuple[tuple[Topic, Callable[[Plan, CitedFigures], str | None]], ...] = (
    ("rate", explain_rate),
    ("busiest", explain_busiest),
    ("one more", worth.explain_one_more),
    ("threshold", explain_threshold),
    ("link", explain_link),
    ("TTFT", explain_ttft),
    ("promise", worth.explain_promise),
    ("cost", worth.explain_cost),
    ("other fleets", worth.explain_other_fleets),
    ("gap", worth.explain_gap),
    ("basis", worth.explain_basis),
)
"""In the order that they are read in."""
FIRST_LEFT_OUT: tuple[Topic, ...] = ("link",)
"""What gives way where there is more to say than fits: how busy links are stands with the busiest, too."""


def explanation(plan: Plan) -> Explanation:
    """Explanation of how the numbers of a plan hang together.

    Args:
        plan: the answer of `planner optimize`.

    Returns:
        At most ten statements, each with the figures of the plan that it rests on.
    """
    at, found = CitedFigures(plan), []
    for topic, line in LINES:
        text = line(plan, at)
        figures = at.cited_since_last()
        if text is not None:
            found.append(ExplainedLine(topic=topic, text=text, figures=figures))
    spare = FIRST_LEFT_OUT if len(found) > MOST_LINES else ()
    return Explanation(scenario=plan.scenario, lines=tuple(line for line in found if line.topic not in spare))


def explanation_tables(found: Explanation) -> list["RenderableType"]:
    """An explanation for people: what is said, and where the plan has the figures."""
    rows = ((line.topic, f"{line.text}\n({', '.join(g.figure for g in line.figures)})") for line in found.lines)
    caption = "in brackets: where the plan's JSON has the figures"
    table = printed(Table.of(f"how the numbers of {found.scenario} hang together", ("about", "because"), rows, caption))
    return [] if table is None else [table]
