"""Two plans side by side: the answer of `planner diff`, field for field what `--format json` prints."""

from math import inf
from typing import Any, Literal

from pydantic import Field

from planner.ranges import Quantity, Signed
from planner.schema import StrictModel


class PlanSide(StrictModel):
    """One of the two plans."""

    name: str
    """What was asked for: a file, or a bundled scenario."""
    scenario: str
    status: Literal["optimal", "feasible"]
    gap: Signed
    """Relative distance of its objective to a proven bound [-]."""
    planner: str | None
    """Version that made it; None where the plan does not say."""


class FigureChange(StrictModel):
    """A figure of both plans; None where one of them does not have it."""

    name: str
    """Its field, which ends in its unit."""
    title: str
    unit: str
    before: Quantity | None
    after: Quantity | None
    is_changed: bool
    """Whether they differ by more than `noise_fraction`."""
    promised_before: Quantity | None = None
    """What is promised of it; None: nothing."""
    promised_after: Quantity | None = None

    @property
    def change(self) -> float | None:
        """After less before; None where either is unknown."""
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def change_fraction(self) -> float | None:
        """That change over the figure before; infinite from nothing."""
        if self.before is None or self.after is None:
            return None
        if self.before:
            return self.after / self.before - 1
        return inf if self.after else 0.0


class ValueChange(StrictModel):
    """A value of which the two plans have different ones; None where one of them has none."""

    key: str
    before: Any
    after: Any


class BindChange(StrictModel):
    """A constraint that binds in either plan, with what one more unit of it would gain; None where it does not bind."""

    constraint: str
    unit: str
    before: Signed | None
    after: Signed | None
    is_changed: bool


class PlanDiff(StrictModel):
    """Differences between two plans, and between the questions behind them."""

    schema_version: Literal["planner.diff/1"] = Field(default="planner.diff/1", serialization_alias="schema")
    before: PlanSide
    after: PlanSide
    is_changed: bool
    """Whether anything below is."""
    noise_fraction: Quantity
    """Nothing smaller is told as a change [-]: rounding where the fleet stays, else both gaps, and at most 0.01."""
    figures: tuple[FigureChange, ...]
    """Headline first; those that both plans lack are left out."""
    answers: tuple[ValueChange, ...]
    """What is decided differently: instances, ratio, thresholds, ports, layouts."""
    inputs: tuple[ValueChange, ...]
    """What was asked or supposed differently, and so caused the rest."""
    inputs_unknown: tuple[str, ...] = ()
    """Plans that do not carry their inputs; where there is one, no input can be compared."""
    binds: tuple[BindChange, ...]
    """What binds before and after, changed or not."""
    n_unchanged: int
    """Figures, decisions and binding constraints that are the same."""
    n_within_gaps: int
    """How many of those differ, by less than `noise_fraction`."""
    failed: tuple[str, ...] = ()
    """Conditions of `--fail-on` and `--exit-code` that do not hold or are not known, each with its figures."""

    @property
    def changed_figures(self) -> tuple[FigureChange, ...]:
        """Figures that differ by more than the noise."""
        return tuple(figure for figure in self.figures if figure.is_changed)

    def figure(self, name: str) -> FigureChange | None:
        """The figure of that name; None where neither plan has it."""
        return next((figure for figure in self.figures if figure.name == name), None)

    def answer(self) -> dict[str, Any]:
        """The difference as JSON prints it, what identifies it first."""
        fields = self.model_dump(mode="json", by_alias=True)
        return {"schema": fields["schema"], **fields}
