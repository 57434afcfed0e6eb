"""Plans as answers: pools, latency and cost of a solution, the fleets it is compared with, the verdict, and ways out.

Public modules:

    evaluation          a solution as pools, links, periods, classes, latency and cost
    homogeneous_fleets  fleets of one kind of accelerator, prefill and decode apart
    infeasibility       limits in the way of a plan, and remedies
    schedule            pools that are rented by the period, and what that and spare instances are worth
"""

from planner.comparison.plan import (
    best_fleet,
    decided,
    explained,
    optimize,
    optimized,
    sketched,
    solved,
)
from planner.comparison.planned import Planned
from planner.comparison.population import at_population_rate, posed_problem

__all__ = [
    "Planned",
    "at_population_rate",
    "best_fleet",
    "decided",
    "explained",
    "optimize",
    "optimized",
    "posed_problem",
    "sketched",
    "solved",
]
