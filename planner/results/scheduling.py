"""Worth of the executor's own scheduler: the answer of `planner schedulers`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from planner.notes import Note
from planner.results.run import Interval
from planner.schema import StrictModel

SchedulerName = Literal["static", "short-term", "long-term", "both"]


class LoadPattern(StrictModel):
    """Something that happens to the system."""

    name: str
    text: str
    """What it is, in words."""


class ScheduledRun(StrictModel):
    """The run of a plan under a pattern, with one kind of scheduling."""

    pattern: str
    scheduler: SchedulerName
    throughput_req_per_s: float
    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    n_dropped: int
    """Of all replications."""
    n_conversions: int
    """Instances that changed their role, of all replications."""
    threshold_low_tokens: float | None
    """Lowest that any replication set; None without one threshold that decides anything."""
    threshold_mean_tokens: float | None
    """Mean over time."""
    threshold_high_tokens: float | None
    mean_instances: dict[str, float]
    """In the role of each pool, while it was watched; those that change it count for neither."""
    intervals: dict[str, Interval]
    """95 % confidence intervals by metric; empty with a single replication."""


class SchedulerComparison(StrictModel):
    """The same plan under several patterns, each with every kind of scheduling on the same requests."""

    schema_version: Literal["planner.schedulers/1"] = Field(
        default="planner.schedulers/1", serialization_alias="schema"
    )
    scenario: str
    seed: int
    load: float
    """Offered rate over the rate that the plan is for, in the mean over a pattern."""
    n_requests: int
    """Of every run, all replications together."""
    n_replications: int
    patterns: tuple[LoadPattern, ...]
    runs: tuple[ScheduledRun, ...]
    notes: tuple[Note, ...] = ()
    """What was left out, and why."""

    def answer(self) -> dict[str, Any]:
        """The comparison as JSON prints it, what identifies it first."""
        fields = self.model_dump(mode="json", by_alias=True)
        return {"schema": fields.pop("schema"), **fields}

    def run(self, pattern: str, scheduler: SchedulerName) -> ScheduledRun:
        """The run under a pattern with a kind of scheduling; raises KeyError."""
        return {(run.pattern, run.scheduler): run for run in self.runs}[pattern, scheduler]


@dataclass(frozen=True, eq=False)
class ScheduledSeries:
    """The state of the first replication of a run, now and then; arrays of one length."""

    pattern: str
    scheduler: SchedulerName
    time_s: Any
    threshold_tokens: Any
    """None without one threshold that decides anything."""
    waiting: Mapping[str, Any]
    """Requests that wait, by prefill pool."""
