"""Capacity rows to a mixed-integer model to a plan."""

from planner.optimizer.exhaustive import exhaustive_search
from planner.optimizer.fleet import class_plans
from planner.optimizer.latency import has_queueing_model, loaded_ttft
from planner.optimizer.network.answer import network_decided, network_outcome, network_plan, network_planned
from planner.optimizer.network.problem import NetworkProblem, network_problem
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
    "NetworkProblem",
    "Outcome",
    "PlanningProblem",
    "Solution",
    "at_rate",
    "class_plans",
    "decided",
    "exhaustive_search",
    "explained",
    "has_queueing_model",
    "loaded_ttft",
    "network_decided",
    "network_outcome",
    "network_plan",
    "network_planned",
    "network_problem",
    "optimize",
    "optimized",
    "outcome",
    "planned_at",
    "planned_fleet",
    "planning_problem",
    "search",
    "solved",
]
