"""Plans in words: pools, latency and cost of a solution, the fleets it is compared with, the verdict, and ways out.

Modules: `plan` (a scenario to its plan), `evaluation` (a solution to its figures), `baselines` (fleets beside it, each
an ordinary question), `verdict` (where to prefill, and in which kind of pool), `infeasibility` (what would do instead).
"""

from planner.comparison.plan import (
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

__all__ = [
    "BestFleet",
    "Outcome",
    "at_rate",
    "best_fleet",
    "class_ttft",
    "decided",
    "explained",
    "loaded_ttft",
    "optimize",
    "optimized",
    "outcome",
    "planned_at",
    "sketched",
    "solved",
]
