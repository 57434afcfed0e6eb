"""A scenario to a problem in numbers, to a mixed-integer program, to a plan."""

from typing import TYPE_CHECKING

from planner.loading import on_first_use
from planner.optimizer.layout_choice import on_any_layout, planning_problem
from planner.optimizer.plan import (
    Outcome,
    at_rate,
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
from planner.optimizer.shadow_prices import shadow_prices
from planner.optimizer.sized import sized_problem, within
from planner.optimizer.solution import Solution
from planner.optimizer.strategies import searched

if TYPE_CHECKING:
    from planner.optimizer.exhaustive import exhaustive_search

_LAZY = {"exhaustive_search": "exhaustive"}

__all__ = [
    "LinkSpec",
    "Outcome",
    "PoolSpec",
    "Problem",
    "Solution",
    "at_rate",
    "class_ttft",
    "decided",
    "exhaustive_search",
    "explained",
    "loaded_ttft",
    "on_any_layout",
    "optimize",
    "optimized",
    "outcome",
    "planned_at",
    "planning_problem",
    "resolved",
    "searched",
    "shadow_prices",
    "sized_problem",
    "sketched",
    "solved",
    "within",
]

__getattr__ = on_first_use(__name__, _LAZY)
