"""Plans in words: pools, latency and cost of a solution, the fleets it is compared with, the verdict, and ways out.

Modules: `plan` (a scenario to its plan), `evaluation` (a solution to its figures), `baselines` (fleets beside it, each
an ordinary question), `verdict` (where to prefill, and in which kind of pool), `infeasibility` (what would do instead).
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
from planner.comparison.population import at_population_rate, planning_problem

__all__ = [
    "Planned",
    "at_population_rate",
    "best_fleet",
    "decided",
    "explained",
    "optimize",
    "optimized",
    "planning_problem",
    "sketched",
    "solved",
]
