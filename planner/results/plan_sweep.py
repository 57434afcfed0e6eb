"""Plans over a grid of scenario keys: the answer of `planner sweep`."""

from typing import Any, Literal

from pydantic import Field

from planner.results.plan import Plan
from planner.schema import StrictModel


def sought(plan: Plan) -> float | None:
    """Figure that the objective of a plan is about: requests per second at most, USD per hour, or TTFT [s]."""
    if plan.objective == "max-throughput":
        return plan.most_req_per_s
    if plan.objective == "min-cost":
        return plan.cost.usd_per_hour
    return plan.bound / (1 - plan.gap) if plan.gap < 1 else None  # at the percentile that was asked for


class SweepPoint(StrictModel):
    """One point of the grid."""

    set: dict[str, str]
    """Keys that were changed and the values as they were written."""
    plan: Plan | None
    failure: str | None
    """Why there is no plan."""
    exit_code: int = 0
    """What `planner optimize` would exit with: 0 planned, 4 proven infeasible, 5 undecided, 3 bad input, 1 a bug."""


class PlanSweep(StrictModel):
    """One plan per point, in the order of the grid: the last key varies fastest."""

    schema_version: Literal["planner.sweep/1"] = Field(default="planner.sweep/1", serialization_alias="schema")
    scenario: str
    over: dict[str, tuple[str, ...]]
    """Values of every key."""
    points: tuple[SweepPoint, ...]
    """Those that were finished."""
    n_points: int
    """Points of the whole grid."""
    best: int | None
    """Index of the best of the points; None where none has a plan, or they have no common measure."""
    best_by: str
    """What makes a point the best."""

    @property
    def is_whole(self) -> bool:
        """True if every point of the grid was finished."""
        return len(self.points) == self.n_points

    @property
    def plans(self) -> list[Plan]:
        """Plans of the points that have one."""
        return [point.plan for point in self.points if point.plan is not None]

    @property
    def exit_code(self) -> int:
        """Exit code of the whole: 0 where every point is answered and one at least has a plan.

        A point that is proven infeasible is answered; what is not, a bug first, then bad input, then undecided,
        decides about the whole. 4 where no point has a plan.
        """
        codes = {point.exit_code for point in self.points}
        unanswered = next((code for code in (1, 3, 5) if code in codes), 0)
        return unanswered or (0 if self.plans or not self.points else 4)

    def answer(self) -> dict[str, Any]:
        """The sweep as JSON prints it: every plan as `planner optimize` would answer."""
        return {
            "schema": self.schema_version,
            "scenario": self.scenario,
            "over": {key: list(values) for key, values in self.over.items()},
            "n_points": self.n_points,
            "complete": self.is_whole,
            "best": self.best,
            "best_by": self.best_by,
            "points": [
                {
                    "set": p.set,
                    "plan": p.plan.answer() if p.plan else None,
                    "failure": p.failure,
                    "exit_code": p.exit_code,
                }
                for p in self.points
            ],
        }
