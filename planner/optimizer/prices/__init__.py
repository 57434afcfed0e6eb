"""Shadow prices: one list of raised limits, valued by closed forms, by programs or by searches for the least TTFT."""

from planner.optimizer.prices.routed import routed_prices
from planner.optimizer.problem import Problem
from planner.optimizer.solution import Solution
from planner.results.plan_parts import Bottleneck

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
        return routed_prices(problem, solution.routed)
    if problem.is_min_ttft:
        from planner.optimizer.prices.least_ttft import ttft_prices

        return ttft_prices(problem, solution, SHARE_OF_TIME * time_limit_s)
    from planner.optimizer.prices.programs import program_prices

    return program_prices(problem, solution, SHARE_OF_TIME * time_limit_s)
