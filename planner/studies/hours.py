"""The hours of a day for a fleet that is planned for the busiest one: how busy it is, how quick, and at what cost."""

from collections.abc import Sequence

from planner.comparison import Planned
from planner.optimizer import Problem, Solution
from planner.results import Fleet, Hour


def hours_of(problem: Problem, solution: Solution, factors: Sequence[float]) -> tuple[Hour, ...]:
    """A planned fleet at the demand of every hour, its sizes, ports and thresholds kept.

    Equation:
        lambda_h = factor_h lambda, everything else as planned; USD per token = USD per hour over that hour's tokens

    Args:
        problem: the resolved scenario, which states the demand of the busiest hour.
        solution: its plan.
        factors: demand of every hour over that demand [-].

    Returns:
        An hour for every factor, in order.

    Raises:
        ValueError: the scenario states no demand.
    """
    demand = problem.scenario.demand_req_per_s
    if demand is None:
        raise ValueError("hours are of a demand")
    return tuple(_hour(Planned(problem, solution).at(demand * factor)) for factor in factors)


def _hour(fleet: Fleet) -> Hour:
    used = {pool.name: pool.utilization for pool in fleet.pools if pool.n_instances}
    used |= {link.name: link.utilization for link in fleet.links if link.n_ports}
    return Hour(
        demand_req_per_s=fleet.throughput_req_per_s,
        utilization=used,
        ttft_mean_s=fleet.latency.ttft_mean_s,
        ttft_p90_s=fleet.latency.ttft_p90_s,
        usd_per_hour=fleet.cost.usd_per_hour,
        usd_per_million_input_tokens=fleet.cost.usd_per_million_input_tokens,
        usd_per_million_output_tokens=fleet.cost.usd_per_million_output_tokens,
    )
