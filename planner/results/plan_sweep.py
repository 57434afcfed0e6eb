"""Plans over a grid of scenario keys: the answer of `planner sweep`."""

from typing import Any, Literal

from pydantic import Field

from planner.results.plan import Plan
from planner.schema import StrictModel


class SweepPoint(StrictModel):
    """One point of the grid."""

    set: dict[str, str]
    """Keys that were changed and the values as they were written."""
    plan: Plan | None
    failure: str | None
    """Why there is no plan."""


class PlanSweep(StrictModel):
    """One plan per point, in the order of the grid: the last key varies fastest."""

    schema_version: Literal["planner.sweep/1"] = Field(default="planner.sweep/1", serialization_alias="schema")
    scenario: str
    over: dict[str, tuple[str, ...]]
    """Values of every key."""
    points: tuple[SweepPoint, ...]

    def answer(self) -> dict[str, Any]:
        """The sweep as JSON prints it: every plan as `planner optimize` would answer."""
        return {
            "schema": self.schema_version,
            "scenario": self.scenario,
            "over": {key: list(values) for key, values in self.over.items()},
            "points": [
                {"set": p.set, "plan": p.plan.answer() if p.plan else None, "failure": p.failure} for p in self.points
            ],
        }
