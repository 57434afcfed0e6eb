"""Plan and opponent beside each other: whether they are judged by one measure, by how much one wins, and in words."""

from planner.comparison.one_site import ROUNDING
from planner.results import Baseline, Fleet, Latency
from planner.scenario import Scenario, Slo
from planner.units import number

HOMOGENEOUS = "homogeneous-pd"
COLOCATED = ("cheapest-colocated", "equal-bill-colocated", "colocated", "local-colocated")
"""Names of fleets of the accelerators that decode, in one batch: three whatever the stock, and the best within it."""


def is_fair(scenario: Scenario, plan: Fleet, other: Baseline) -> bool:
    """Whether a fleet does what the plan is for: serves its demand, or costs no more where the rate or TTFT counts."""
    if scenario.objective == "min-cost":
        return (
            other.most_req_per_s >= (1 - ROUNDING) * plan.throughput_req_per_s and other.cost.usd_per_hour is not None
        )
    ours, theirs = plan.cost.usd_per_hour, other.cost.usd_per_hour
    return ours is None or theirs is None or theirs <= (1 + ROUNDING) * ours


def judged_by(scenario: Scenario, plan: Fleet, other: Baseline) -> tuple[float, float] | None:
    """What plan and opponent are judged by: rates, bills, or TTFT; None where one is unknown."""
    if scenario.objective == "min-cost":
        found = (plan.cost.usd_per_hour, other.cost.usd_per_hour)
    elif scenario.objective == "min-ttft":
        found = (ttft_s(scenario, plan.latency), ttft_s(scenario, other.latency))
    else:
        found = (plan.most_req_per_s, other.most_req_per_s)
    ours, theirs = found
    return None if ours is None or theirs is None else (ours, theirs)


def margins(scenario: Scenario, plan: Fleet, gap: float, other: Baseline) -> tuple[float, float, float]:
    """The margin, and the least and greatest that it may be within the bounds of plan and opponent."""
    values = judged_by(scenario, plan, other)
    if values is None:
        return 0.0, 0.0, 0.0
    ours, theirs = values
    if scenario.objective == "max-throughput":
        return ours / theirs - 1, ours / (theirs * (1 + other.gap)) - 1, ours * (1 + gap) / theirs - 1
    least = theirs * (1 - other.gap)
    return 1 - ours / theirs, 1 - ours / least if least > 0 else -1.0, 1 - ours * (1 - gap) / theirs


def margin_key(scenario: Scenario, plan: Fleet, other: Baseline) -> float:
    """How strong an opponent is."""
    return -margins(scenario, plan, 0.0, other)[0]


def figures(scenario: Scenario, plan: Fleet, other: Baseline) -> str:
    """What plan and opponent do, beside each other."""
    if scenario.objective == "min-cost":
        bills = f"{number(plan.cost.usd_per_hour, 4)} USD/h against {number(other.cost.usd_per_hour, 4)}"
        return f"serves the demand for {bills} for {other.title}"
    if scenario.objective == "min-ttft":
        name, values = f"P{_percentile(scenario)}", judged_by(scenario, plan, other)
        ours, theirs = values or (None, None)
        demand = f"serves {number(plan.throughput_req_per_s)} req/s"
        return f"{demand} with a {name} TTFT of {number(ours)} s against {number(theirs)} with {other.title}"
    rates = f"{number(plan.most_req_per_s)} req/s at most against {number(other.most_req_per_s)}"
    left_out = "" if plan.cost.usd_per_hour is not None else _left_out(plan, other)
    return f"serves {rates} with {other.title}{left_out}"


def _percentile(scenario: Scenario) -> int:
    """The percentile of the answers that is nearest to the one asked for."""
    return min((50, 90, 99), key=lambda n: abs(n - (scenario.slo or Slo()).ttft_percentile))


def ttft_s(scenario: Scenario, latency: Latency) -> float | None:
    found: float | None = getattr(latency, f"ttft_p{_percentile(scenario)}_s")
    return found


def _left_out(plan: Fleet, other: Baseline) -> str:
    """What a comparison without all prices does not count."""
    counted = "accelerators by number alone" if other.name == HOMOGENEOUS else "accelerators alone"
    return f", counting {counted}: no price of {', '.join(plan.cost.missing_prices)}"
