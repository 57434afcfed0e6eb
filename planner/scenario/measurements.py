"""Measured and published figures that a scenario states beside its question."""

from typing import Annotated, Literal

from pydantic import Field

from planner.profiles import MeasuredInstance
from planner.ranges import Name, NonNegative, Positive
from planner.schema import StrictModel


class Measurement(MeasuredInstance):
    """A measured instance that the scenario itself states."""

    model: Name | None = None
    """Name under [models] of the model that was measured; absent: the default, [model]."""


class ObservedLatency(StrictModel):
    """Latency that users of a running system saw; `planner validate` shows it beside the prediction."""

    ttft_mean_s: NonNegative | None = None
    """Mean time to first token."""
    ttft_p50_s: NonNegative | None = None
    """The time to first token that half of the requests do not exceed."""
    ttft_p90_s: NonNegative | None = None
    """The time to first token that 90 % of the requests do not exceed."""
    ttft_p99_s: NonNegative | None = None
    """The time to first token that 99 % of the requests do not exceed."""
    tpot_mean_s: NonNegative | None = None
    """Mean time per output token after the first."""
    source: str
    """What was measured, where and when."""

    @property
    def figures(self) -> dict[str, float]:
        """Measured figures, by the names that plans have for them [s]."""
        return {name: value for name, value in self if isinstance(value, float)}


class Claim(StrictModel):
    """A published figure held against the plan."""

    what: str
    """The quantity, in words."""
    metric: str
    """Where the answer states it: a plan, then its fields, such as `plan.pools.prfaas.n_instances`. A plan is `plan`, a
    capacity rule (`mean-length.max_throughput_req_per_s`) or a comparison; `A / B` divides two of them."""
    published: Annotated[float, Field(ge=-1e12, le=1e12)]
    """The published figure."""
    unit: str = ""
    """Its unit."""
    source: str
    """Citation."""
    kind: Literal["input", "result"] = "result"
    """Whether the figure went into the scenario or comes out of it."""
    tolerance: Positive | None = None
    """Relative difference that still counts as reproduced."""
    note: str = ""
    """Why they differ, where they do."""
