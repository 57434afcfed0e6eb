"""A scenario to a problem in numbers, to a mixed-integer program, to a plan."""

from typing import TYPE_CHECKING

from planner.loading import on_first_use

if TYPE_CHECKING:
    from planner.optimizer.layout_choice import on_any_layout, planning_problem, posed
    from planner.optimizer.prices import shadow_prices
    from planner.optimizer.problem import LinkSpec, PoolSpec, Problem
    from planner.optimizer.resolution import resolved
    from planner.optimizer.sized import sized_problem, within
    from planner.optimizer.solution import Solution
    from planner.optimizer.strategies import searched

_LAZY = {
    "LinkSpec": "problem",
    "PoolSpec": "problem",
    "Problem": "problem",
    "Solution": "solution",
    "on_any_layout": "layout_choice",
    "planning_problem": "layout_choice",
    "posed": "layout_choice",
    "resolved": "resolution",
    "searched": "strategies",
    "shadow_prices": "prices",
    "sized_problem": "sized",
    "within": "sized",
}

__all__ = [
    "LinkSpec",
    "PoolSpec",
    "Problem",
    "Solution",
    "on_any_layout",
    "planning_problem",
    "posed",
    "resolved",
    "searched",
    "shadow_prices",
    "sized_problem",
    "within",
]

__getattr__ = on_first_use(__name__, _LAZY)
