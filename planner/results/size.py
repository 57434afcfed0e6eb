"""The best fleets of either kind of serving beside each other: the answer of `planner size`, as JSON prints it."""

from typing import Any, Literal

from pydantic import Field

from planner.notes import Note
from planner.results.plan import Plan
from planner.schema import StrictModel


class ConsideredLayout(StrictModel):
    """A layout of which plans were compared, with the rent of whole instances without waits."""

    role: Literal["prefill", "decode", "colocated"]
    hardware: str
    layout: str
    tokens_per_pass: int | None
    """Most tokens of a pass on an attention replica; None but for colocated instances."""
    accelerators_per_instance: int
    capacity_req_per_s: float
    """Of an instance, without waiting."""
    usd_per_hour: float
    """Least rent of whole instances for the rate, without waiting."""


class SizeVerdict(StrictModel):
    """Verdict on disaggregation."""

    recommendation: Literal["colocated", "separate"] | None
    """Kind of serving of the cheapest fleet that keeps its promises; `separate` where part of the prompts are prefilled
    apart. None: not decided, or both cost the same."""
    worth_it: bool
    """Whether prefill and decode apart cost less; false while undecided."""
    decided: bool
    because: str
    margin_fraction: float | None = None
    """What they save of the bill of a colocated fleet; 0 where both cost the same, None where there is one of them."""


class Size(StrictModel):
    """The plan of a demand, as the best fleet of its kind, beside the best fleets of other kinds."""

    schema_version: Literal["planner.size/1"] = Field(default="planner.size/1", serialization_alias="schema")
    model: str
    hardware: tuple[str, ...]
    precision: str | None
    stack: str | None
    """Software of all fleets."""
    rate_req_per_s: float
    """Asked for, or that of the users at the plan."""
    users: int | None = None
    """Of a closed population; None where a rate is asked for."""
    think_s: float | None = None
    """Mean time that they think between an answer and the next request."""
    input_tokens_mean: float
    output_tokens_mean: float
    ttft_s: float | None
    tpot_s: float | None
    percentile: float
    colocated: Plan | None
    """The best fleet that prefills and decodes in one batch; None where there is none."""
    disaggregated: Plan | None
    """The best fleet of prefill and decode pools; None where there is none."""
    mixed: Plan | None = None
    """The plan where it has pools of both kinds and is better than either; else None."""
    disaggregation: SizeVerdict
    considered: tuple[ConsideredLayout, ...]
    notes: tuple[Note, ...]

    @property
    def fleets(self) -> dict[str, Plan]:
        """The fleets that there are, by their kind in words."""
        kinds = {"colocated": self.colocated, "prefill and decode": self.disaggregated, "mixed": self.mixed}
        return {name: plan for name, plan in kinds.items() if plan is not None}

    def answer(self) -> dict[str, Any]:
        """As JSON."""
        return self.model_dump(mode="json", by_alias=True)
