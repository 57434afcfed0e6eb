"""Colocated serving beside prefill and decode pools: the answer of `planner size`, as `--format json` prints it."""

from typing import Any, Literal

from pydantic import Field

from planner.notes import Note
from planner.schema import StrictModel

Way = Literal["colocated", "disaggregated"]


class SizedSloRun(StrictModel):
    """A promise on a time, as predicted and as run."""

    metric: Literal["ttft", "tpot"]
    basis: Literal["executed", "predicted"]
    holds: bool | None
    """Whether the run keeps it, its whole interval; None where nothing was run."""
    decided: bool
    """False where the promise lies within the interval: the run is too short to tell; or where nothing was run."""
    requests: int
    """That counted, of all replications."""
    seed: int | None
    percentile: float
    """Of the requests that it is kept for; 100 where no step may exceed it."""
    promised_s: float
    predicted_s: float | None
    """By the model of queues; None where it has no steady state."""
    executed_s: float | None
    ci_low_s: float | None
    ci_high_s: float | None
    """The 95 % interval over replications."""


class SizedPool(StrictModel):
    """Identical instances."""

    name: str
    role: Literal["prefill", "decode", "colocated"]
    hardware: str
    stack: str
    """Software that its times are of."""
    layout: str
    tokens_per_pass: int | None
    """Most tokens of a pass on an attention replica; None for decode."""
    accelerators_per_instance: int
    n_instances: int
    n_accelerators: int
    capacity_req_per_s: float
    """Most requests per second of the pool, within the limit on the time per token."""
    utilization: float
    """Rate over that."""
    batch: int | None
    """Most sequences that decode at once on an instance; None for prefill."""


class SizedCost(StrictModel):
    """The bill of a fleet."""

    usd_per_hour: float | None
    usd_per_million_input_tokens: float | None
    usd_per_million_output_tokens: float | None


class SizedLatency(StrictModel):
    """Predicted times under load; None where unknown."""

    ttft_mean_s: float | None
    ttft_p50_s: float | None
    ttft_p90_s: float | None
    ttft_p99_s: float | None
    tpot_mean_s: float | None


class SizedFleet(StrictModel):
    """The cheapest fleet of its kind that keeps the promises."""

    pools: tuple[SizedPool, ...]
    n_accelerators: int
    cost: SizedCost
    latency: SizedLatency
    binds: str
    """What holds its size up."""
    slo_run: SizedSloRun | None
    """Promise on the time to first token; None where there is none."""
    tpot_run: SizedSloRun | None
    """Promise on the time per output token; None where there is none."""


class ConsideredWay(StrictModel):
    """A layout that was looked at, and the estimate that it was ranked by."""

    role: Literal["prefill", "decode", "colocated"]
    hardware: str
    stack: str
    """Software that its times are of."""
    layout: str
    tokens_per_pass: int | None
    accelerators_per_instance: int
    capacity_req_per_s: float
    """Of an instance, without waiting."""
    usd_per_hour: float
    """Least rent of whole instances for the rate, without waiting."""


class SizeVerdict(StrictModel):
    """Whether to disaggregate."""

    worth_it: bool
    """Whether prefill and decode pools cost less; false while undecided."""
    decided: bool
    because: str
    margin_fraction: float | None = None
    """What they save of the bill of a colocated pool; 0 where both cost the same, None where there is one of them."""


class Size(StrictModel):
    """Both ways to serve a demand."""

    schema_version: Literal["planner.size/1"] = Field(default="planner.size/1", serialization_alias="schema")
    model: str
    hardware: tuple[str, ...]
    precision: str
    stack: str | None
    """Software of both fleets; None where they have not the same, which their pools say."""
    rate_req_per_s: float
    input_tokens_mean: float
    output_tokens_mean: float
    ttft_s: float | None
    tpot_s: float | None
    percentile: float
    colocated: SizedFleet | None
    disaggregated: SizedFleet | None
    disaggregation: SizeVerdict
    considered: tuple[ConsideredWay, ...]
    notes: tuple[Note, ...]

    def answer(self) -> dict[str, Any]:
        """As JSON."""
        return self.model_dump(mode="json", by_alias=True)
