"""Which kind of serving is recommended: in one batch, prefill and decode apart, or apart in separate sites."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf
from typing import NamedTuple

from planner.comparison.alternative_hardware import has_one_site
from planner.comparison.margins import (
    ALTERNATIVES,
    LOCAL,
    PARTS,
    TOGETHER,
    WORTHWHILE,
    PlanComparison,
    is_cheaper_for_the_demand,
    judged_by,
    value_of,
)
from planner.results.fleet_merit import does_the_same
from planner.results.plan import Baseline, Serving
from planner.scenario import Scenario, is_burstier, uneven_arrivals
from planner.ties import largest_first

SIMPLEST_FIRST: tuple[Serving, ...] = ("colocated", "separate", "separate-sites")
APART: frozenset[Serving] = frozenset(SIMPLEST_FIRST[1:])
DOUBTFUL = "no run bore out that the colocated fleet keeps the promise"
EVEN = "colocated fleets are planned for independent users (Poisson), and requests arrive {}"


class MeritBounds(NamedTuple):
    """Merit of fleets of a kind, the more the better: a rate, or one over a bill or a TTFT."""

    reached: float
    """By the best that was found;"""
    bound: float
    """by none is this passed."""


def rivals(comparison: PlanComparison) -> list[Baseline]:
    """Fleets that do what the plan is for, on whatever stock."""
    scenario, plan = comparison.scenario, comparison.plan
    asked = (other for other in comparison.others if other.name in ALTERNATIVES)
    return [o for o in asked if does_the_same(scenario.objective, plan, o) and judged_by(comparison, o) is not None]


def recommended(comparison: PlanComparison) -> PlanComparison:
    """The comparison with the kinds of serving that may be the one to recommend; one kind: it is recommended.

    Equation:
        gain = a / b - 1 of rates, 1 - a / b of bills and TTFT; from the simplest kind on, a kind takes the place of a
        simpler one where its gain is above 1 % for all that both may reach, and joins it where that is not certain

    Args:
        comparison: the plan and what it is compared with.

    Returns:
        All kinds where the plan is compared with none of another kind. Where a demand is stated beside a rate to be
        sought, and fleets at home serve it for less than the plan, theirs: none was planned for the least bill.
    """
    at_home = (o for o in rivals(comparison) if not o.beyond_stock and o.serving != "separate-sites")
    enough = [o for o in at_home if is_cheaper_for_the_demand(comparison, o)]
    if enough:
        cheaper = tuple(largest_first(enough, lambda o: -(o.cost.usd_per_hour or 0.0)))
        return replace(comparison, kinds=frozenset(other.serving for other in cheaper), cheaper=cheaper)
    scenario, known = comparison.scenario, _merit_bounds(comparison)
    if len(known) == 1 and not comparison.impossible & set(ALTERNATIVES):
        return replace(comparison, kinds=frozenset(SIMPLEST_FIRST[: 2 if has_one_site(scenario) else 3]))
    return replace(comparison, kinds=best_kinds(scenario, known))


def best_kinds(scenario: Scenario, bounds: Mapping[Serving, MeritBounds]) -> frozenset[Serving]:
    """Kinds of serving that may be the one to recommend, by what each may reach; equation as of `recommended`.

    Args:
        scenario: the question, whose objective says what a gain is.
    """
    known = [kind for kind in SIMPLEST_FIRST if kind in bounds]
    found = frozenset(known[:1])
    for kind in known[1:]:
        found = frozenset().union(*(_better(scenario, kind, simpler, bounds) for simpler in found))
    return found


def _better(
    scenario: Scenario, kind: Serving, simpler: Serving, bounds: Mapping[Serving, MeritBounds]
) -> frozenset[Serving]:
    """Which of two kinds is better, or both where that is not certain."""
    ours, theirs = bounds[kind], bounds[simpler]
    if gain(scenario, ours.reached, theirs.bound) > WORTHWHILE:
        return frozenset({kind})
    is_certain = gain(scenario, ours.bound, theirs.reached) <= WORTHWHILE
    return frozenset({simpler} if is_certain else {simpler, kind})


def gain(scenario: Scenario, ours: float, theirs: float) -> float:
    """Gain of the first of two figures over the other [fraction]."""
    if ours <= 0 or theirs <= 0:
        return -inf if ours <= 0 else inf
    return ours / theirs - 1 if scenario.objective == "max-throughput" else 1 - theirs / ours


def _merit_bounds(comparison: PlanComparison) -> dict[Serving, MeritBounds]:
    """Merits of the fleets of every kind that can be had; a kind that nothing is known of is left out."""
    scenario, plan = comparison.scenario, comparison.plan
    found: dict[Serving, MeritBounds] = {}

    def join(kind: Serving, reached: float, bound: float) -> None:
        old = found.get(kind, MeritBounds(0.0, 0.0))
        found[kind] = MeritBounds(max(old.reached, reached), max(old.bound, bound))

    most, ours = inf, value_of(scenario, plan)
    if ours is not None:
        reached, most = _merits(scenario, ours, comparison.gap)
        join(plan.serving, reached, most)
    for other in (o for o in rivals(comparison) if not o.beyond_stock):
        reached, bound = _merits(scenario, value_of(scenario, other) or 0.0, other.gap)
        bound = max(min(bound, most), reached) if other.name in PARTS else bound
        join(other.serving, 0.0 if other.holds is False else reached, bound)
    for name in comparison.unknown & set(ALTERNATIVES):
        for kind in _kinds(scenario, name):
            join(kind, 0.0, most if name in PARTS else inf)
    if not has_one_site(scenario):
        join("separate-sites", 0.0, most)
    if is_planned_as_even(scenario) and ("colocated" in found or comparison.impossible & set(TOGETHER)):
        bound = found["colocated"].bound if "colocated" in found else 0.0
        found["colocated"] = MeritBounds(0.0, bound if is_burstier(scenario) else inf)
    return found


def is_planned_as_even(scenario: Scenario) -> bool:
    """True if times are promised to requests that arrive otherwise than colocated fleets are planned for: what these
    reach is then not known, and where arrivals are burstier the most that they may.
    """
    return bool(uneven_arrivals(scenario)) and (scenario.promises_latency or scenario.objective == "min-ttft")


def despite_doubts(comparison: PlanComparison, because: str) -> str:
    """Words of a verdict, with the arrivals, or the run, that leave it open where they do."""
    scenario, kinds = comparison.scenario, comparison.kinds
    is_even = is_planned_as_even(scenario)
    is_open = is_even or (comparison.plan.serving in APART and any(o.holds is False for o in comparison.others))
    if "colocated" not in kinds or len(kinds) == 1 or not is_open:
        return because
    said = EVEN.format(uneven_arrivals(scenario)) if is_even else DOUBTFUL
    return f"Not decided: {said}. As planned: {because.removeprefix('Not decided: ')}"


def _merits(scenario: Scenario, value: float, gap: float) -> MeritBounds:
    """Merit that a rate, bill or TTFT reaches, and the most within its gap."""
    if scenario.objective == "max-throughput":
        return MeritBounds(value, value * (1 + gap))
    reached = 1 / value if value > 0 else inf
    return MeritBounds(reached, reached / (1 - gap) if gap < 1 else inf)


def _kinds(scenario: Scenario, name: str) -> Iterator[Serving]:
    """Kinds that a fleet of a name may be of."""
    if name in TOGETHER or (name in LOCAL and scenario.colocated_pool is not None):
        yield "colocated"
    if name not in TOGETHER:
        yield "separate"
