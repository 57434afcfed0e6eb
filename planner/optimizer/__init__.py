"""Capacity rows to a mixed-integer model to a plan."""

from typing import TYPE_CHECKING

from planner.loading import on_first_use
from planner.optimizer.fleet import class_plans
from planner.optimizer.latency import has_queueing_model, loaded_ttft
from planner.optimizer.plan import (
    Outcome,
    at_rate,
    decided,
    explained,
    optimize,
    optimized,
    outcome,
    planned_at,
    planned_fleet,
    solved,
)
from planner.optimizer.problem import PlanningProblem, planning_problem
from planner.optimizer.promised_search import search
from planner.optimizer.search import Solution

if TYPE_CHECKING:
    from planner.optimizer.exhaustive import exhaustive_search
    from planner.optimizer.network.answer import (
        network_at,
        network_decided,
        network_explained,
        network_outcome,
        network_plan,
        network_planned,
        network_quickest,
        network_sketch,
        network_solved,
        quickest_explained,
    )
    from planner.optimizer.network.problem import NetworkPool, NetworkProblem, network_problem
    from planner.optimizer.network.quickest import QuickestNetwork
    from planner.optimizer.network.solution import NetworkSolution

_LAZY = {
    "exhaustive_search": "exhaustive",
    "network_at": "network.answer",
    "network_decided": "network.answer",
    "network_explained": "network.answer",
    "network_outcome": "network.answer",
    "network_plan": "network.answer",
    "network_planned": "network.answer",
    "network_quickest": "network.answer",
    "network_sketch": "network.answer",
    "network_solved": "network.answer",
    "quickest_explained": "network.answer",
    "NetworkPool": "network.problem",
    "NetworkProblem": "network.problem",
    "network_problem": "network.problem",
    "QuickestNetwork": "network.quickest",
    "NetworkSolution": "network.solution",
}

__all__ = [
    "NetworkPool",
    "NetworkProblem",
    "NetworkSolution",
    "Outcome",
    "PlanningProblem",
    "QuickestNetwork",
    "Solution",
    "at_rate",
    "class_plans",
    "decided",
    "exhaustive_search",
    "explained",
    "has_queueing_model",
    "loaded_ttft",
    "network_at",
    "network_decided",
    "network_explained",
    "network_outcome",
    "network_plan",
    "network_planned",
    "network_problem",
    "network_quickest",
    "network_sketch",
    "network_solved",
    "optimize",
    "optimized",
    "outcome",
    "planned_at",
    "planned_fleet",
    "planning_problem",
    "quickest_explained",
    "search",
    "solved",
]

__getattr__ = on_first_use(__name__, _LAZY)
