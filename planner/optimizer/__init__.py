"""Capacity rows to a mixed-integer model to a plan."""

from planner.optimizer.exhaustive import exhaustive_search
from planner.optimizer.network.answer import network_plan, network_planned
from planner.optimizer.network.problem import NetworkProblem, network_problem
from planner.optimizer.plan import Outcome, decided, optimize, optimized, outcome, planned_fleet
from planner.optimizer.problem import PlanningProblem, planning_problem
from planner.optimizer.promised_search import search
from planner.optimizer.search import Solution

__all__ = [
    "NetworkProblem",
    "Outcome",
    "PlanningProblem",
    "Solution",
    "decided",
    "exhaustive_search",
    "network_plan",
    "network_planned",
    "network_problem",
    "optimize",
    "optimized",
    "outcome",
    "planned_fleet",
    "planning_problem",
    "search",
]
