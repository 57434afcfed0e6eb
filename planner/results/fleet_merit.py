"""Fleets beside each other: which of them do the same job, and the figure that an objective judges them by."""

from planner.results.plan import Fleet
from planner.results.plan_parts import Latency

PERCENTILES = (50, 90, 99)
"""Of TTFT, that answers state."""
ROUNDING = 1e-6
"""Relative difference of bills and rates that is rounding [-]."""


def does_the_same(objective: str, plan: Fleet, other: Fleet) -> bool:
    """True if a fleet does what a plan is for: serves its demand, or costs no more where the rate or the TTFT counts.

    Without all prices it has no more accelerators.

    Args:
        objective: what the plan is best at.
        plan: the planned fleet.
        other: the fleet beside it.
    """
    ours, theirs = plan.cost.usd_per_hour, other.cost.usd_per_hour
    if objective == "min-cost":
        return theirs is not None and other.most_req_per_s >= (1 - ROUNDING) * plan.throughput_req_per_s
    if ours is None or theirs is None:
        return other.n_accelerators <= plan.n_accelerators
    return theirs <= (1 + ROUNDING) * ours


def nearest_percentile(asked: float) -> int:
    """The percentile of TTFT that answers state, nearest to one that is asked for.

    >>> nearest_percentile(95), nearest_percentile(80.0)
    (99, 90)
    """
    return min(PERCENTILES, key=lambda percentile: abs(percentile - asked))


def ttft_s(latency: Latency, percentile: float) -> float | None:
    """TTFT under load at the stated percentile nearest to one [s]; None: unknown."""
    found: float | None = getattr(latency, f"ttft_p{nearest_percentile(percentile)}_s")
    return found


def merit(objective: str, fleet: Fleet, percentile: float) -> float | None:
    """Figure that a fleet is judged by: its bill [USD/h], its TTFT [s], or its rate [1/s]; None where it is unknown.

    Args:
        objective: what is sought.
        fleet: the fleet.
        percentile: of the TTFT that is promised.
    """
    if objective == "min-cost":
        return fleet.cost.usd_per_hour
    return ttft_s(fleet.latency, percentile) if objective == "min-ttft" else fleet.most_req_per_s
