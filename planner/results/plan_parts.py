"""Parts of a plan: schedule, bottlenecks, engine settings, inputs, latency and cost."""

from typing import Any, Literal

from planner.ranges import Counted, Fraction, Name, PoolName, Quantity, Signed
from planner.schema import StrictModel


class Replicas(StrictModel):
    """A pool in a period."""

    period: Name
    begins_h: Quantity
    """From the beginning of the first period [h]."""
    hours: Quantity
    n_instances: Counted
    starts: Counted
    """Of these, those that the period before does not have."""


class PoolSchedule(StrictModel):
    """A pool that is rented by the period."""

    pool: PoolName
    least_time_up_h: Quantity
    start_up_s: Quantity
    """How long before a period its starts are rented."""
    replicas: tuple[Replicas, ...]
    """In every period, in order."""
    usd_per_hour: Quantity | None
    """Rent on average, start-ups included."""


class Schedule(StrictModel):
    """Pools that follow the periods, and what that saves."""

    pools: tuple[PoolSchedule, ...]
    peak_usd_per_hour: Quantity | None
    """The bill of the best fleet that is rented at all times; None where none was found."""
    saved_usd_per_hour: Signed | None
    """What following saves of it."""
    saved_fraction: Signed | None


class PlannedAgain(StrictModel):
    """Gain from more of a constraint when the fleet was planned again with it, in whole instances."""

    n_more: Signed
    """Units of the constraint that were added."""
    least: Signed
    """Gain of all of them together that is proven, in the objective's unit."""
    most: Signed
    """Gain beyond which there is none, or beyond which none was found; the solver leaves a little open."""


class Bottleneck(StrictModel):
    """A constraint that holds the rate down, and what one more unit of it would add."""

    constraint: str
    shadow_price: Signed
    unit: str
    basis: Literal["planned-again", "linear-program"] = "planned-again"
    """Whether the price was found by planning again, or is that of a linear program at the plan's thresholds."""
    planned_again: PlannedAgain | None = None
    """What confirms the price of a linear program; None: nothing was found in the time."""


class EngineSettings(StrictModel):
    """Settings of an engine under which an instance holds the caches of a plan."""

    accounting: Literal["vllm", "sglang", "trtllm"] | None = None
    """Engine whose own accounting the memory was counted by; None: no engine's, a part of all memory."""
    memory_fraction: Fraction
    """Part of an accelerator's memory, in the sense of that engine."""
    tokens_per_pass: Counted
    """Most tokens of a pass on an attention replica [tokens]."""
    most_running: Counted | None
    """Most sequences that an attention replica admits at once; None: the stack does not say."""
    longest_tokens: Counted | None
    """Longest request whose cache fits beside the weights; None: any length does [tokens]."""


Inputs = dict[str, Any]
"""Values by key, as TOML writes the key: `links.wan.tiers[0].usd_per_hour`."""


class PlanInputs(StrictModel):
    """The question behind a plan; no text that is for readers only, and no key at its default."""

    planner: str
    """Version of the planner."""
    scenario: Inputs
    """Keys of the scenario that a plan may depend on."""
    profiles: dict[str, Inputs] = {}
    """Figures of every profile in use, by its kind and name; long lists by their digest."""
    data: dict[str, str] = {}
    """Digest of every trace, by the name that the scenario has for it."""


class Latency(StrictModel):
    """Time to first token and time per output token; None where unknown."""

    ttft_mean_s: Quantity | None
    ttft_p50_s: Quantity | None
    ttft_p90_s: Quantity | None
    ttft_p99_s: Quantity | None
    ttft_unloaded_mean_s: Quantity | None
    ttft_unloaded_p90_s: Quantity | None
    tpot_mean_s: Quantity | None


class Cost(StrictModel):
    """Rent, power and charges of everything in the plan; None when a price is missing."""

    usd_per_hour: Quantity | None
    usd_per_million_input_tokens: Quantity | None
    usd_per_million_output_tokens: Quantity | None
    usd_per_thousand_requests: Quantity | None = None
    accelerators_usd_per_hour: Quantity | None
    """The accelerators alone, without the link."""
    electricity_usd_per_hour: Quantity | None = None
    """What of that is electricity, where sites price it apart; None where none does."""
    purchase_usd: Quantity | None = None
    """What accelerators are bought for, of those whose bill is a purchase over years; None: all are rented [USD]."""
    missing_prices: tuple[str, ...] = ()
    """What has no price in the scenario."""


class CostBand(StrictModel):
    """Band of the plan's cost where an input is as uncertain as it is known to be: the best plan at both ends of it."""

    rests_on: str
    """The input, in words."""
    pools: tuple[PoolName, ...]
    """Pools that it is about."""
    low_usd_per_hour: Quantity | None
    """At the end where it costs less; None where there is no plan, or none was found in the time."""
    high_usd_per_hour: Quantity | None
    low_usd_per_million_input_tokens: Quantity | None
    """The same per million tokens, which changes with the rate where that is what is sought."""
    high_usd_per_million_input_tokens: Quantity | None
    no_plan: str | None = None
    """Why one end has no bill, where that is so."""
