"""What one more of every limit is worth: by exact search over thresholds where few routes say all, else by programs."""

from planner.optimizer.problem import Problem
from planner.optimizer.sensitivity import bottlenecks
from planner.optimizer.solution import Solution
from planner.results import Bottleneck

SHARE_OF_TIME = 0.5
"""Of the time, what the linear programs of shadow prices may take, and again what confirms them."""


def shadow_prices(problem: Problem, solution: Solution, time_limit_s: float) -> tuple[Bottleneck, ...]:
    """Limits of which one more would raise the objective, most valuable first.

    Args:
        problem: the question.
        solution: its plan.
        time_limit_s: time for all of them [s].
    """
    if solution.routed is not None:
        return bottlenecks(problem, solution.routed)
    from planner.optimizer.network.marginal_values import network_bottlenecks
    from planner.optimizer.network.ttft_bottlenecks import ttft_bottlenecks

    if problem.is_min_ttft:
        return ttft_bottlenecks(problem, solution, SHARE_OF_TIME * time_limit_s)
    return network_bottlenecks(problem, solution, SHARE_OF_TIME * time_limit_s)
