"""Plan and opponent beside each other: whether they are judged by one measure, by how much one wins, and in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.results.fleet_merit import merit, nearest_percentile
from planner.results.plan import Baseline, Fleet, Serving
from planner.scenario import Scenario, Slo
from planner.ties import largest
from planner.units import MILLI, number, percent

WORTHWHILE = 0.01
"""A gain below one per cent is less than the service times are known to."""
DECIMALS = 6
SLOWER = 1.05
"""Times the plan's time per token, from which on a slower one is pointed out."""
HOMOGENEOUS, SEPARATE, COLOCATED_ALONE = "homogeneous-pd", "without-colocated", "colocated-alone"
COLOCATED = ("cheapest-colocated", "equal-bill-colocated", "colocated", "local-colocated")
"""Names of fleets of the accelerators that decode, in one batch: three whatever the stock, and the best within it."""
TOGETHER = (*COLOCATED, COLOCATED_ALONE)
LOCAL = ("local-prefill", "mixed-home")
APART = ("cheapest-homogeneous-pd", "equal-bill-homogeneous-pd", "equal-cost-homogeneous-pd", HOMOGENEOUS, SEPARATE)
"""Names of fleets that keep prefill and decode apart."""
ALTERNATIVES = (*APART, *LOCAL, *TOGETHER)
"""Names of fleets that answer the same question: a verdict rests on these."""
PARTS = (SEPARATE, COLOCATED_ALONE, LOCAL[0])
"""Names of those that leave some pools or links of the question out: what no plan passes, they do not either."""


@dataclass(frozen=True)
class PlanComparison:
    """A plan beside the fleets that answer the same question."""

    scenario: Scenario
    """The question."""
    plan: Fleet
    gap: float
    """Relative distance of the plan's objective to its bound."""
    others: tuple[Baseline, ...] = ()
    """Fleets that it is compared with."""
    impossible: frozenset[str] = frozenset()
    """Names of those of which it is proven that there is no such fleet,"""
    unknown: frozenset[str] = frozenset()
    """and of those of which nothing was found in the time."""
    kinds: frozenset[Serving] = frozenset()
    """Kinds of serving that may be recommended."""
    cheaper: tuple[Baseline, ...] = ()
    """Fleets at home that can be had and serve a stated demand for less than the plan, the cheapest first."""


def value_of(scenario: Scenario, fleet: Fleet) -> float | None:
    """Figure to judge a fleet by, at the percentile that the scenario asks for; None where it is unknown."""
    return merit(scenario.objective, fleet, promised_percentile(scenario))


def judged_by(comparison: PlanComparison, other: Baseline) -> tuple[float, float] | None:
    """Figures that plan and opponent are judged by; None where one is unknown."""
    ours, theirs = (value_of(comparison.scenario, fleet) for fleet in (comparison.plan, other))
    return None if ours is None or theirs is None else (ours, theirs)


def margins(comparison: PlanComparison, other: Baseline) -> tuple[float, float, float]:
    """The margin, and the least and greatest that it may be within the bounds of plan and opponent."""
    values, gap = judged_by(comparison, other), comparison.gap
    if values is None:
        return 0.0, 0.0, 0.0
    ours, theirs = values
    if comparison.scenario.objective == "max-throughput":
        return ours / theirs - 1, ours / (theirs * (1 + other.gap)) - 1, ours * (1 + gap) / theirs - 1
    least = theirs * (1 - other.gap)
    return 1 - ours / theirs, 1 - ours / least if least > 0 else -1.0, 1 - ours * (1 - gap) / theirs


def performance_text(comparison: PlanComparison, other: Baseline) -> str:
    """Performance of plan and opponent, beside each other."""
    scenario, plan, slower = comparison.scenario, comparison.plan, _slower(comparison, other)
    if scenario.objective == "min-cost":
        bills = f"{number(plan.cost.usd_per_hour, 4)} USD/h against {number(other.cost.usd_per_hour, 4)}"
        return f"serves the demand for {bills} for {other.title}{slower}"
    if scenario.objective == "min-ttft":
        name, values = f"P{nearest_percentile(promised_percentile(scenario))}", judged_by(comparison, other)
        ours, theirs = values or (None, None)
        demand = f"serves {number(plan.throughput_req_per_s)} req/s"
        return f"{demand} with a {name} TTFT of {number(ours)} s against {number(theirs)} with {other.title}{slower}"
    rates = f"{number(plan.most_req_per_s)} req/s at most against {number(other.most_req_per_s)}"
    left_out = "" if plan.cost.usd_per_hour is not None else _left_out(plan, other)
    return f"serves {rates} with {other.title}{left_out}{slower}"


def _slower(comparison: PlanComparison, other: Baseline) -> str:
    """That tokens are slower where nothing limits them."""
    scenario = comparison.scenario
    ours, theirs = comparison.plan.latency.tpot_mean_s, other.latency.tpot_mean_s
    slos = [scenario.slo_of(name) for name in scenario.workloads]
    is_limited = any(slo is not None and slo.tpot_ms is not None for slo in slos)
    is_limited = is_limited or any(pool.tpot_ms is not None for pool in scenario.pools.values())
    if is_limited or ours is None or theirs is None or theirs <= SLOWER * ours:
        return ""
    apart, together = number(ours / MILLI), number(theirs / MILLI)
    return f", whose output tokens take {together} ms each against {apart} ms, as no slo.tpot_ms limits them"


def promised_percentile(scenario: Scenario) -> float:
    """Percentile of TTFT that a scenario asks for."""
    return (scenario.slo or Slo()).ttft_percentile


def _left_out(plan: Fleet, other: Baseline) -> str:
    """Items that a comparison without all prices does not count, in words."""
    counted = "accelerators by number alone" if other.name == HOMOGENEOUS else "accelerators alone"
    return f", counting {counted}: no price of {', '.join(plan.cost.missing_prices)}"


def strongest(comparison: PlanComparison, others: Sequence[Baseline], *, is_open: bool = False) -> Baseline:
    """The strongest of some opponents.

    Args:
        is_open: whether it is not decided between them: then the one that may be strongest.
    """
    return largest(others, lambda other: -margins(comparison, other)[1 if is_open else 0])


def signed(scenario: Scenario, margin: float) -> str:
    """A margin of the plan in words: more requests, or a lower bill or TTFT."""
    if scenario.objective == "max-throughput":
        return f"{'+' if margin >= 0 else ''}{percent(margin)}"
    return f"{percent(abs(margin))} {'less' if margin >= 0 else 'more'}"


def is_cheaper_for_the_demand(comparison: PlanComparison, other: Baseline) -> bool:
    """True if a fleet serves the demand that is stated beside a rate to be sought, for less than the plan costs."""
    scenario, ours, theirs = comparison.scenario, comparison.plan.cost.usd_per_hour, other.cost.usd_per_hour
    demand = scenario.demand_req_per_s
    if scenario.objective != "max-throughput" or demand is None or len(scenario.periods) > 1:
        return False
    return (
        ours is not None and theirs is not None and other.most_req_per_s >= demand and theirs < (1 - WORTHWHILE) * ours
    )


def stated_margin(comparison: PlanComparison, other: Baseline | None) -> float | None:
    """Gain of the plan over an opponent as an answer states it; None without one [fraction]."""
    if other is None:
        return None
    if is_cheaper_for_the_demand(comparison, other):
        return round(1 - (comparison.plan.cost.usd_per_hour or 0.0) / (other.cost.usd_per_hour or 1.0), DECIMALS)
    return round(margins(comparison, other)[0], DECIMALS)
