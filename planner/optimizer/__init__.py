"""Capacity rows to a mixed-integer model to a plan."""

from planner.optimizer.exhaustive import exhaustive_search
from planner.optimizer.plan import decided, optimize, optimized, planned_fleet
from planner.optimizer.problem import PlanningProblem, planning_problem
from planner.optimizer.promised_search import search
from planner.optimizer.search import Solution

__all__ = [
    "PlanningProblem",
    "Solution",
    "decided",
    "exhaustive_search",
    "optimize",
    "optimized",
    "planned_fleet",
    "planning_problem",
    "search",
]
