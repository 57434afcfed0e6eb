"""Explanation of how the numbers of a plan hang together, line by line, each with the figures it rests on."""

from typing import Any, Literal

from pydantic import Field

from planner.schema import StrictModel

Topic = Literal[
    "rate", "busiest", "one more", "threshold", "link", "TTFT", "promise", "cost", "other fleets", "gap", "basis"
]


class Ground(StrictModel):
    """A figure of the plan that a line rests on."""

    figure: str
    """Where the plan's JSON has it; items of a list by their name, as in `pools[pd-p].utilization`."""
    value: Any
    """As the plan states it; null is unknown, or nothing asked."""


class ExplainedLine(StrictModel):
    """One line of an explanation."""

    topic: Topic
    text: str
    figures: tuple[Ground, ...]
    """Every figure of the plan that the text rests on."""


class Explanation(StrictModel):
    """Explanation of how the numbers of a plan hang together: at most ten statements."""

    schema_version: Literal["planner.explanation/1"] = Field(
        default="planner.explanation/1", serialization_alias="schema"
    )
    scenario: str
    lines: tuple[ExplainedLine, ...]

    def answer(self) -> dict[str, Any]:
        """The explanation as JSON prints it, what identifies it first."""
        return self.model_dump(mode="json", by_alias=True)
