"""A case: a plan with everything a cost report shows beside it."""

from typing import Literal

from planner.results.executed import Executed
from planner.results.plan import Plan
from planner.results.studies import Front, Hour, Sensitivity
from planner.schema import StrictModel


class LengthProfile(StrictModel):
    """The requests in figures."""

    mean_total_tokens: float
    mean_uncached_tokens: float
    mean_output_tokens: float
    cached_fraction: float
    """Share of prompt tokens found in the prefix cache [-]."""
    quantiles_tokens: dict[str, float]
    """Uncached length at p10, p50, p90, p99 [tokens]."""
    lengths_tokens: tuple[float, ...]
    """Uncached lengths at which the next field is stated, ascending [tokens]."""
    cumulative_fraction: tuple[float, ...]
    """Share of requests up to each length [-]."""


class ServiceCurve(StrictModel):
    """Prefill seconds and KV bytes of one pool's instances by length."""

    pool: str
    hardware: str
    basis: Literal["measured", "calibrated", "inferred", "datasheet"]
    source: str
    how: str | None
    """How the figures were inferred, where they were."""
    tokens: tuple[float, ...]
    prefill_s: tuple[float, ...]
    kv_gbps: tuple[float, ...]
    """KV throughput: bytes handed over per second of prefill [Gbps]."""
    measured_tokens: tuple[float, ...]
    """Lengths of the points the curve goes through [tokens]."""
    measured_s: tuple[float, ...]
    """Seconds at those points [s]."""


class ComparedPlan(StrictModel):
    """A variant of the scenario and its plan."""

    name: str
    title: str
    plan: Plan | None
    failure: str | None = None
    """Why there is no plan."""


class ClaimResult(StrictModel):
    """A published figure beside the planner's."""

    what: str
    metric: str
    published: float
    planned: float | None
    difference: float | None
    """Planned over published, less one [-]."""
    unit: str
    kind: Literal["input", "result"]
    tolerance: float | None
    holds: bool | None
    """Whether the difference is within the tolerance; None where no tolerance is stated."""
    source: str
    note: str


class PriceRatios(StrictModel):
    """The verdict by price ratio: what the same money buys of the homogeneous fleet."""

    long_hardware: str
    """Accelerator of the pool for long prompts; its price varies."""
    home_hardware: str
    """Accelerator of the homogeneous fleet; its price stays."""
    home_usd_per_accelerator_hour: float
    stated_ratio: float
    """Ratio of the scenario's own prices [-]."""
    ratios: tuple[float, ...]
    equal_cost_accelerators: tuple[int, ...]
    """Homogeneous accelerators for the rent of the plan's accelerators."""
    equal_cost_gain: tuple[float, ...]
    """Plan over that fleet, less one [-]."""
    equal_bill_gain: tuple[float, ...] | None
    """The same for the whole bill, link included [-]; None without a link price."""
    break_even_cost: float | None
    """Least ratio at which the equal-cost fleet serves as much as the plan; None when there is none up to 10."""
    break_even_bill: float | None


class Turn(StrictModel):
    """A value of an input beyond which the decision is another."""

    value: float
    decision: bool | None
    """The decision beyond it; None where there is no plan."""


class BreakEvenResult(StrictModel):
    """Where the decision turns along one uncertain input."""

    key: str
    """Key of the scenario."""
    title: str
    """The input in words, with its unit."""
    decides: str
    """"verdict", or the comparison that the plan is held against."""
    stated: float
    low: float
    high: float
    decision: bool | None
    """The decision at the stated value; None where there is no plan."""
    below: Turn | None
    """Nearest turn below the stated value; None: none down to `low`."""
    above: Turn | None
    """Nearest turn above it; None: none up to `high`."""
    gap: float = 0.0
    """Largest distance to their bounds of the plans compared [-]; where it counts, a turn is no better known."""
    is_found: bool = True
    """Whether every plan that was needed was found in the time; otherwise nothing else is known."""


class CaseFront(StrictModel):
    """A front that the scenario asks for."""

    title: str
    set: dict[str, str]
    """Keys of the scenario that are changed for it, and their values as text."""
    front: Front


class SourceNote(StrictModel):
    """A figure that went in, and where it comes from."""

    what: str
    basis: str
    source: str


class Case(StrictModel):
    """Everything a report shows."""

    name: str
    title: str
    notes: str
    """Assumptions in Markdown, from the scenario."""
    plan: Plan
    other_rule: Plan | None
    """The plan under the other capacity rule; None when it has none."""
    rule_shortfall: float | None
    """How far the mean-length plan, really run, falls short of its promise under exact work [-]."""
    requests: LengthProfile
    curves: tuple[ServiceCurve, ...]
    comparisons: tuple[ComparedPlan, ...]
    claims: tuple[ClaimResult, ...]
    break_even: tuple[BreakEvenResult, ...] = ()
    not_varied: tuple[str, ...] = ()
    """Assumed inputs that no break-even was looked for."""
    price_ratios: PriceRatios | None
    executed: Executed | None = None
    """The plan run request by request; None where the scenario does not ask for it."""
    fronts: tuple[CaseFront, ...] = ()
    """Cost against what it buys."""
    sensitivity: Sensitivity | None = None
    """The plan with every input off; None where it was not asked for."""
    hours: tuple[Hour, ...] = ()
    """The plan hour by hour, where its scenario has one demand and a day is asked for."""
    hours_source: str = ""
    """Where the shape of that day comes from."""
    inputs: tuple[SourceNote, ...]
    sources: tuple[str, ...]
