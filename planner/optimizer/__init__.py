"""A scenario to a problem in numbers, to a mixed-integer program, to a plan."""

from typing import TYPE_CHECKING

from planner.loading import on_first_use

if TYPE_CHECKING:
    from planner.optimizer.layout_choice import on_any_layout, planning_problem, posed
    from planner.optimizer.plan import (
        BestFleet,
        Outcome,
        at_rate,
        best_fleet,
        class_ttft,
        decided,
        explained,
        loaded_ttft,
        optimize,
        optimized,
        outcome,
        planned_at,
        sketched,
        solved,
    )
    from planner.optimizer.problem import LinkSpec, PoolSpec, Problem
    from planner.optimizer.resolution import resolved
    from planner.optimizer.sized import sized_problem, within
    from planner.optimizer.solution import Solution
    from planner.optimizer.strategies import searched
    from planner.optimizer.what_binds import shadow_prices

_LAZY = {
    "BestFleet": "plan",
    "LinkSpec": "problem",
    "Outcome": "plan",
    "PoolSpec": "problem",
    "Problem": "problem",
    "Solution": "solution",
    "at_rate": "plan",
    "best_fleet": "plan",
    "class_ttft": "plan",
    "decided": "plan",
    "explained": "plan",
    "loaded_ttft": "plan",
    "on_any_layout": "layout_choice",
    "optimize": "plan",
    "optimized": "plan",
    "outcome": "plan",
    "planned_at": "plan",
    "planning_problem": "layout_choice",
    "posed": "layout_choice",
    "resolved": "resolution",
    "searched": "strategies",
    "shadow_prices": "what_binds",
    "sized_problem": "sized",
    "sketched": "plan",
    "solved": "plan",
    "within": "sized",
}

__all__ = [
    "BestFleet",
    "LinkSpec",
    "Outcome",
    "PoolSpec",
    "Problem",
    "Solution",
    "at_rate",
    "best_fleet",
    "class_ttft",
    "decided",
    "explained",
    "loaded_ttft",
    "on_any_layout",
    "optimize",
    "optimized",
    "outcome",
    "planned_at",
    "planning_problem",
    "posed",
    "resolved",
    "searched",
    "shadow_prices",
    "sized_problem",
    "sketched",
    "solved",
    "within",
]

__getattr__ = on_first_use(__name__, _LAZY)
