"""Capacity rows to a mixed-integer model to a plan."""

from planner.optimizer.exhaustive import exhaustive_search
from planner.optimizer.fleet import class_plans
from planner.optimizer.latency import has_queueing_model, loaded_ttft
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
