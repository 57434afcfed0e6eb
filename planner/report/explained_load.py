"""Statements on a plan's load and how busy that makes it, each line from the plan's own figures."""

from planner.report.cited_figures import Grounds, place_of
from planner.report.formats import EXACT, figure, listed, seconds
from planner.report.words import FULL, has_choice_of_place, takers
from planner.results import Plan
from planner.units import number, percent

BALANCED = 0.01
"""Utilisations that differ by less are told as equal [fraction]."""


def rate(plan: Plan, at: Grounds) -> str:
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


def busiest(plan: Plan, at: Grounds) -> str | None:
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
        pools = [(p.utilization, p.name, place_of("pools", p.name)) for p in plan.pools if p.offered_req_per_s]
        return pools + [(x.utilization, x.name, place_of("links", x.name)) for x in plan.links if x.mean_gbps]
    found: dict[str, tuple[float, str, str]] = {}
    for period in plan.periods:
        for kind, parts in (("pools", period.pools), ("links", period.links)):
            for part in parts:
                place = f"{place_of('periods', period.name)}.{place_of(kind, part.name)}"
                now = (part.utilization, f"{part.name} in {period.name}", place)
                found[part.name] = max(found.get(part.name, now), now)
    return [item for item in found.values() if item[0] > 0]


def threshold(plan: Plan, at: Grounds) -> str | None:
    """Where the threshold lies, and what it divides."""
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
    if has_choice_of_place(plan):
        return f"There is no threshold: {percent(at('offload_fraction'))} of the prompts are prefilled elsewhere."
    return None


def _balance(plan: Plan, at: Grounds) -> str:
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


def link(plan: Plan, at: Grounds) -> str | None:
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


def ttft(plan: Plan, at: Grounds) -> str | None:
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
