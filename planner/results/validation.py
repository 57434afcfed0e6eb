"""A plan's promises beside what came of them: the answer of `planner validate`."""

from typing import Any, Literal

from pydantic import Field

from planner.notes import Note
from planner.ranges import Counted, Quantity, Seed, Signed
from planner.schema import StrictModel


class Check(StrictModel):
    """One promise and its run."""

    metric: str
    predicted: Quantity
    executed: Quantity
    """Mean over replications."""
    ci_low: Signed | None
    """Its 95 % confidence interval; None with a single replication."""
    ci_high: Signed | None
    relative_error: Signed
    """Predicted over executed, less one [-]."""
    tolerance: Quantity
    """Relative error that is allowed [-]."""
    holds: bool
    """Whether the run bears it out: the whole interval, or without one the figure, is within the tolerance."""
    decided: bool
    """False where only a part of the interval is within the tolerance, or where the system has not settled in the run
    and the figure is still too low: the run is too short to tell."""
    enough_requests: Counted | None = None
    """About how many would do; None where it is decided, or where that cannot be said."""
    period: str | None = None
    """Period that was run, of a plan for several; None: all of them together, or the plan has one demand."""


class PeriodValidation(StrictModel):
    """One period of a plan for several: what its checks come to."""

    name: str
    demand_req_per_s: Quantity
    holds: bool
    decided: bool
    n_checks: Counted
    n_failed: Counted
    n_undecided: Counted


class Observation(StrictModel):
    """A latency that was measured on a running system, beside what the plan and its run say of it."""

    metric: str
    measured: Quantity
    predicted: Quantity | None
    executed: Quantity | None


class Validation(StrictModel):
    """Every promise of a plan held against a run."""

    schema_version: Literal["planner.validation/1"] = Field(
        default="planner.validation/1", serialization_alias="schema"
    )
    scenario: str
    holds: bool
    decided: bool
    """False where some promise is undecided; it holds only where all are decided and hold."""
    period: str | None = None
    """Period that was run, of a plan for several; None where all of them were."""
    periods: tuple[PeriodValidation, ...] = ()
    """Every period, where several were run: `checks` are of all together, then of each."""
    load: Quantity
    """Of the plan's rate; the promises are those at this load."""
    seed: Seed
    n_requests: Counted
    """Of the run at that load, in each period."""
    n_requests_full: Counted | None = None
    """Of the run with the system kept full; None where there was none."""
    most_requests: Counted
    """Up to which a run goes on while it does not decide."""
    checks: tuple[Check, ...]
    unpredicted: tuple[str, ...]
    """Metrics that the plan says nothing about."""
    observed: tuple[Observation, ...] = ()
    """What users of a running system saw, where the scenario states that; no promise of this plan."""
    notes: tuple[Note, ...] = ()
    """What the reader must know of the run at that load, such as that it is too short for its warm-up."""

    def answer(self) -> dict[str, Any]:
        """The validation as JSON prints it, what identifies it first."""
        fields = self.model_dump(mode="json", by_alias=True)
        return {"schema": fields.pop("schema"), **fields}

    @property
    def failed(self) -> tuple[Check, ...]:
        """Promises that were not kept."""
        return tuple(check for check in self.checks if check.decided and not check.holds)

    @property
    def undecided(self) -> tuple[Check, ...]:
        """Promises of which the run was too short to tell."""
        return tuple(check for check in self.checks if not check.decided)
