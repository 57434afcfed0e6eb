"""Parts of a scenario: sites, pools, links, prices, variants and published figures."""

import re
from collections.abc import Iterator
from math import prod
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from planner.profiles import MOST_DRAFT_TOKENS, speculation_fault
from planner.ranges import Fraction, Heads, Name, NonNegative, Share, Title
from planner.schema import FieldError, StrictModel, raise_faults
from planner.workload.spec import Workload

CapacityRule = Literal["mean-length", "expected-work"]
Objective = Literal["max-throughput", "min-cost", "min-ttft"]
Loss = Literal["instance", "link", "site"]
Basis = Literal["quoted", "derived", "assumed"]
Free = Literal["free"]
# Upper limits are far beyond any fleet: they keep slips of the keyboard out of the solver's arithmetic.
Usd = Annotated[float, Field(ge=0, le=1e9)]
Amount = Annotated[float, Field(ge=1e-6, le=1e9)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Factor = Annotated[float, Field(ge=0, le=1e6)]
Precision = Literal["bf16", "fp8", "int8", "int4", "fp4"]
LayoutText = Annotated[str, Field(pattern=r"^(tp|ep|dp|pp)=[1-9]\d{0,4}(,(tp|ep|dp|pp)=[1-9]\d{0,4})*$")]
Layouts = Annotated[
    Annotated[tuple[LayoutText, ...], Tag("list")] | Annotated[Literal["auto"], Tag("auto")],
    Discriminator(lambda stated: "auto" if isinstance(stated, str) else "list"),
]
PassTokens = Annotated[int, Field(ge=16, le=10_000_000)]
PassSizes = Annotated[
    Annotated[tuple[PassTokens, ...], Field(max_length=16), Tag("list")] | Annotated[PassTokens, Tag("number")],
    Discriminator(lambda stated: "list" if isinstance(stated, list | tuple) else "number"),
]
_SIZES = re.compile(r"(tp|ep|dp|pp)=(\d+)")
HOURS_PER_YEAR = 8760.0
MOST_ACCELERATORS = 10_000_000

DEFAULT_CLASS = "all"


class ModelChoice(StrictModel):
    """A model that is served, and in which number formats."""

    profile: str
    """Model profile: a catalogue name, an alias, or a path to a TOML file."""
    precision: Precision | None = None
    """Weights and matrix products; by default the checkpoint's own."""
    kv_precision: Precision = "bf16"
    """Attention KV cache."""
    stack: str | None = None
    """Software stack of the roofline in all pools of this model that state none, as `predict --stack` takes it. By
    default the one that its measured pools ran under, where that is one and known; else the one calibrated best over
    the accelerators of all its pools."""
    n_experts_per_token: Heads | None = None
    """Experts that each token visits, to see what depends on it; by default the profile's."""
    draft_tokens: Annotated[int, Field(ge=0, le=MOST_DRAFT_TOKENS)] = 0
    """Tokens that are drafted per decode step and verified in it; 0: no speculative decoding. Pools that decode then
    have the roofline's service times: nobody says of measured steps whether they had drafts."""
    acceptance: Fraction | tuple[Fraction, ...] | None = None
    """Probability that a drafted token is accepted, given that those before it were: one number, or one per token."""
    draft_model: str | None = None
    """Profile of the model that drafts, on the same accelerators; by default the model's own MTP layers."""
    context_limit_tokens: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    """Longest prompt that it is served with, where that is not what the model is made for, as with RoPE scaling;
    longer prompts are refused. By default the profile's limit, which is only pointed out."""

    @model_validator(mode="after")
    def _says_what_is_accepted(self) -> Self:
        n, stated = self.draft_tokens, self.acceptance
        if n and stated is None:
            allowed = "how likely drafted tokens are accepted, such as 0.7"
            raise_faults([FieldError(("acceptance",), f"is required with draft_tokens = {n} ({allowed})")])
        if n and isinstance(stated, tuple) and (fault := speculation_fault(n, stated)):
            raise_faults([FieldError(("acceptance",), f"{fault[0]} ({fault[1]})")])
        return self


class Slo(StrictModel):
    """Promises about latency."""

    ttft_s: Amount | None = None
    """Longest time to first token that the stated percentage of requests may see."""
    ttft_percentile: Annotated[float, Field(gt=0, lt=100)] = 90.0
    """Percentage of requests that promises on TTFT and on the time per output token, or min-ttft, are about."""
    tpot_ms: Amount | None = None
    """Longest time per output token after the first, on average over those of a request, that the stated percentage of
    requests may see. No step of a decode pool, which is longest in a full batch, exceeds it."""

    @property
    def promises_something(self) -> bool:
        """True if it sets a limit; without one it only states the percentile that min-ttft is about."""
        return self.ttft_s is not None or self.tpot_ms is not None


class WorkloadClass(StrictModel):
    """One class of requests and its share of the total rate."""

    share: Share
    """Fraction of all requests; the shares of all classes add up to 1."""
    workload: Workload
    """Lengths, outputs, prefix hits and arrivals of this class."""
    model: Name | None = None
    """Name under [models] of the model that these requests are for; absent: the default, [model]."""
    sites: dict[Name, Share] = {}
    """Fraction of the requests by the site where they arrive and are decoded, adding up to 1; absent: any site that
    decodes their model."""
    slo: Slo | None = None
    """Promise on latency to this class; absent: the scenario's."""


class Period(StrictModel):
    """A part of the day, or of whatever time the demand repeats after, and its demand."""

    hours: Annotated[float, Field(ge=1e-3, le=HOURS_PER_YEAR)] = 1.0
    """How long it lasts [h]; what a period costs counts by its hours."""
    demand: Factor = 1.0
    """Factor on the rate of every class."""
    by_site: dict[Name, Factor] = {}
    """Further factor on what arrives at a site; 1 where none is given."""
    by_class: dict[Name, Factor] = {}
    """Further factor on the rate of a class; 1 where none is given."""


class Spare(StrictModel):
    """Losses that the plan must survive."""

    survive: tuple[Loss, ...] = ()
    """Kinds of losses, any one of which at a time leaves enough to serve the demand: one instance of any pool, one
    link, or one site with everything at it."""


class Routing(StrictModel):
    """Which prompts may leave the site."""

    threshold_tokens: NonNegative | Free = "free"
    """Requests with more uncached tokens are prefilled in the pool for long prompts; "free" lets the planner choose."""
    prefill_to_decode: Annotated[str, Field(pattern=r"^[1-9]\d{0,2}:[1-9]\d{0,2}$")] | Free = "free"
    """Instances of prefill for short prompts to instances of decode, such as "3:5"; "free" lets the planner choose."""
    n_candidates: Annotated[int, Field(ge=2, le=4096)] = 64
    """Thresholds on the first grid; the planner refines between them."""
    thresholds: Literal["per-class", "per-model"] = "per-class"
    """Whether every class has a threshold of its own, or all classes of a model share one."""
    role_conversion: bool = False
    """Whether the accelerators of one kind that serve a model at a site may change between prefill and decode from
    period to period; else roles are fixed."""


class Site(StrictModel):
    """A place with accelerators."""

    title: Title = ""
    """Name for people."""
    accelerators: dict[str, Annotated[int, Field(ge=0, le=10**12)]] = {}
    """Most accelerators of each kind that the pools of this site may use together; a kind not named is not limited."""
    usd_per_kwh: Usd | None = None
    """Price of electricity; absent means that power is in the prices of the accelerators."""
    pue: Annotated[float, Field(ge=1, le=5)] = 1.0
    """Power usage effectiveness: what the site draws over what its servers draw."""
    draw_fraction: Annotated[float, Field(ge=1e-3, le=1.5)] = 1.0
    """Mean draw of an accelerator over its TDP, of a busy one where idle_draw_fraction is given; above 1 to count its
    share of the server."""
    idle_draw_fraction: Annotated[float, Field(ge=0, le=1.5)] | None = None
    """Draw of an idle accelerator over its TDP, at most draw_fraction; absent: power does not depend on use."""
    power_source: str = ""
    """Citation of the price of electricity and the PUE."""
    fabric_gbps: Amount | None = None
    """Bandwidth per instance for the KV hand-off inside the site; absent means the hand-off is not counted."""

    @model_validator(mode="after")
    def _draws_least_when_idle(self) -> Self:
        idle, busy = self.idle_draw_fraction, self.draw_fraction
        if idle is not None and idle > busy:
            raise_faults([FieldError(("idle_draw_fraction",), f"is {idle:g} (at most draw_fraction, {busy:g})")])
        return self


class Pool(StrictModel):
    """Identical instances that serve one role at one site."""

    site: str
    """Name of the site."""
    hardware: str
    """Hardware profile: a catalogue name, an alias, or a path to a TOML file."""
    role: Literal["prefill", "decode", "colocated"]
    """What the instances do; "colocated" ones take prompts into the batch that decodes. Where a prefill pool reaches
    their site, they take prompts up to the threshold, and may decode those beyond it."""
    model: Name | None = None
    """Name under [models] of the model that they serve; absent: the default, [model]."""
    classes: tuple[Name, ...] = ()
    """Classes of requests that they serve; absent: every class of their model."""
    accelerators_per_instance: Annotated[int, Field(ge=1, le=10_000)] = 8
    """Accelerators that form one instance."""
    n_instances: Count | Free = "free"
    """How many instances; "free" lets the planner choose between the limits below."""
    min_instances: Count = 0
    """Fewest instances when the size is free."""
    max_instances: Count | None = None
    """Most instances when the size is free; absent means inventory, budget or demand set the limit."""
    rent: Literal["always", "by-period"] = "always"
    """Whether its instances are rented at all times, or in every period as many as that period takes: least cost then
    is that of the mean hour of the cycle that the periods are."""
    least_time_up_h: Annotated[float, Field(ge=0, le=HOURS_PER_YEAR)] = 0.0
    """Least time that an instance serves once it has started, where rent is by period."""
    start_up_s: Annotated[float, Field(ge=0, le=86_400)] = 0.0
    """Time that an instance is rented, and takes its accelerators, before it serves, where rent is by period."""
    service_times: Literal["measured", "roofline"] | None = None
    """Where prefill and decode seconds come from; by default what somebody measured, else the roofline."""
    stack: str | None = None
    """Software stack of the roofline, as `predict --stack` takes it; by default the one of all pools of its model."""
    precision: Precision | None = None
    """Weights and matrix products; by default those of its model."""
    kv_precision: Precision | None = None
    """Attention KV cache; by default that of its model."""
    layout: str | None = None
    """Parallel layout of the roofline, such as "tp=8,ep=1,dp=1,pp=1"; by default tensor parallel over the instance."""
    layouts: Layouts = ()
    """Parallel layouts of the roofline to choose from, instead of `layout`; where accelerators_per_instance is not
    stated, of any sizes. "auto": all that the model and the accelerator allow, of that size where it is stated."""
    tokens_per_pass: PassSizes | None = None
    """Most tokens of a pass of the roofline on an attention replica: of a prefill pool one number, of a colocated one
    also several to choose from. By default those of the stack; of a colocated pool also 2048 and 512, if fewer."""
    tpot_ms: Amount | None = None
    """Longest decode step: the roofline's batch is the largest within it and the memory; absent: within the memory.
    Of a colocated pool the longest time per token, in which the prompts of others count."""
    time_factor: Annotated[float, Field(ge=1e-3, le=1e3)] = 1.0
    """Factor on the seconds of prefill, or of a decode step: an engine that is slower or faster than what is known."""
    prompts: Literal["long", "short"] | None = None
    """Which prompts a prefill pool takes; by default "short" at a site that decodes and "long" elsewhere. Among many
    sites one that decodes and has links to others takes both: short ones of its own and long ones of any site."""

    @property
    def stated_size(self) -> int | None:
        """Accelerators per instance where the pool states them; None where they follow from a layout."""
        return self.accelerators_per_instance if "accelerators_per_instance" in self.model_fields_set else None

    def on_layout(self, layout: str | None) -> "Pool":
        """The pool on one of the layouts that it may choose from; None: on the only one it has."""
        if layout is None:
            return self
        size = {"accelerators_per_instance": n_accelerators(layout)}
        return self.model_copy(update={"layout": layout, "layouts": (), **(size if self.layouts else {})})

    @property
    def pass_sizes(self) -> tuple[int, ...]:
        """Tokens of a pass that it states; none where its stack decides."""
        stated = self.tokens_per_pass
        return (stated,) if isinstance(stated, int) else stated or ()

    def on_passes(self, tokens: int | None) -> "Pool":
        """The pool with passes of so many tokens; None: as its stack has them."""
        return self.model_copy(update={"tokens_per_pass": tokens})

    @model_validator(mode="after")
    def _limits_are_ordered(self) -> Self:
        if self.max_instances is not None and self.max_instances < self.min_instances:
            raise ValueError(f"max_instances {self.max_instances} is below min_instances {self.min_instances}")
        if self.role != "prefill" and self.prompts is not None:
            raise ValueError("prompts belongs to prefill pools only")
        if self.role == "prefill" and self.tpot_ms is not None:
            raise ValueError("tpot_ms belongs to decode and colocated pools only")
        if self.rent == "always" and (self.least_time_up_h or self.start_up_s):
            raise ValueError('least_time_up_h and start_up_s belong to pools with rent = "by-period"')
        raise_faults([*self._layout_faults(), *self._pass_faults()])
        return self

    def _pass_faults(self) -> Iterator[FieldError]:
        if self.tokens_per_pass is None:
            return
        if self.role == "decode":
            yield FieldError(("tokens_per_pass",), "is of a decode pool, which takes no prompts (leave it out)")
        elif self.tokens_per_pass == ():
            yield FieldError(("tokens_per_pass",), "is an empty list (one number at least, or leave it out)")
        elif self.role == "prefill" and not isinstance(self.tokens_per_pass, int):
            yield FieldError(("tokens_per_pass",), "is a list, and a prefill pool has one size of pass (one number)")
        elif self.service_times == "measured":
            what = "is given beside measured service times, which are of passes as they were"
            yield FieldError(("tokens_per_pass",), f'{what} (service_times = "roofline")')

    def _layout_faults(self) -> Iterator[FieldError]:
        if self.layouts and self.layout is not None:
            yield FieldError(("layouts",), "is given beside layout (one of the two)")
        for index, text in enumerate(() if self.layouts == "auto" else self.layouts):
            if _states_twice(text):
                yield FieldError(("layouts", index), f"is {text!r}, which states a size twice (each size once)")
            elif self.stated_size is not None and (n := n_accelerators(text)) != self.stated_size:
                allowed = f"{self.accelerators_per_instance}, as accelerators_per_instance"
                yield FieldError(("layouts", index), f"is {text!r}, {n} accelerators ({allowed})")


def n_accelerators(layout: str) -> int:
    """Accelerators of an instance with a layout: tp x dp x pp.

    >>> n_accelerators("tp=4,dp=2,ep=8")
    8
    """
    return prod(int(size) for key, size in _SIZES.findall(layout) if key != "ep")


def _states_twice(layout: str) -> bool:
    sizes = _SIZES.findall(layout)
    return len(dict(sizes)) < len(sizes)


class LinkTier(StrictModel):
    """A port size that can be rented."""

    capacity_gbps: Amount
    """Bandwidth of one port."""
    usd_per_hour: Usd | None = None
    """Rent of one port; absent means unknown."""
    max_ports: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Most ports of this size that may be bundled."""


class Link(StrictModel):
    """One direction of a connection between sites."""

    from_site: Annotated[str, Field(alias="from")]
    """Site where the KV cache is made."""
    to_site: Annotated[str, Field(alias="to")]
    """Site that decodes."""
    capacity_gbps: Amount | Free = "free"
    """Bandwidth; "free" lets the planner choose from the tiers."""
    tiers: tuple[LinkTier, ...] = ()
    """Port sizes on offer. A fixed capacity that equals a tier takes its rent."""
    usd_per_hour: Usd | None = None
    """Rent of a fixed capacity that is no tier; absent means unknown."""
    usd_per_gb: Usd = 0.0
    """Charge per gigabyte (1e9 bytes) sent."""
    round_trip_ms: Annotated[float, Field(ge=0, le=1e5)] = 0.0
    """Round-trip time."""
    destination_holds_prefix: bool = True
    """Whether the destination has the KV blocks of a prefix hit, so that only new blocks and the state are sent."""
    basis: Basis = "assumed"
    """Where the prices come from."""
    source: str = ""
    """Citation of the prices."""

    @model_validator(mode="after")
    def _has_a_capacity(self) -> Self:
        if self.capacity_gbps == "free" and not self.tiers:
            raise ValueError("needs capacity_gbps, or tiers to choose from")
        if self.from_site == self.to_site:
            raise ValueError("must join two different sites")
        return self

    def options(self) -> tuple[LinkTier, ...]:
        """Port sizes the planner may choose from; a fixed capacity is one port."""
        if self.capacity_gbps == "free":
            return self.tiers
        match = [tier for tier in self.tiers if tier.capacity_gbps == self.capacity_gbps]
        rent = match[0].usd_per_hour if match else self.usd_per_hour
        return (LinkTier(capacity_gbps=self.capacity_gbps, usd_per_hour=rent),)


class Price(StrictModel):
    """Cost of one accelerator, rented or bought."""

    usd_per_accelerator_hour: Usd | None = None
    """Rent of one accelerator; power is in it unless the site states usd_per_kwh."""
    purchase_usd: Amount | None = None
    """Price of one accelerator with its share of the server, where it is bought."""
    amortized_years: Amount | None = None
    """Years over which a purchase is written off evenly."""
    discount_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Off the rent or the purchase, as negotiated or for a commitment: 0.3 is 30 % less."""
    basis: Basis = "assumed"
    """quoted (somebody sells at it), derived (computed from published figures) or assumed."""
    source: str = ""
    """Citation, or how it was derived; an assumed price needs none."""

    @model_validator(mode="after")
    def _has_a_source(self) -> Self:
        if self.basis != "assumed" and not self.source:
            raise_faults([FieldError(("source",), f'is required of a {self.basis} price (or basis = "assumed")')])
        return self

    @model_validator(mode="after")
    def _is_rent_or_purchase(self) -> Self:
        if (self.usd_per_accelerator_hour is None) == (self.purchase_usd is None):
            raise ValueError("needs usd_per_accelerator_hour or purchase_usd, and not both")
        if (self.purchase_usd is None) != (self.amortized_years is None):
            raise ValueError("needs purchase_usd and amortized_years together")
        return self

    @property
    def hourly_usd(self) -> float:
        """Rent, or the purchase over its years, of one accelerator, less the discount [USD/h].

        >>> price = Price(purchase_usd=35040.0, amortized_years=4.0, basis="assumed", source="a server's eighth")
        >>> price.hourly_usd
        1.0
        """
        if self.paid_usd is not None and self.amortized_years is not None:
            return self.paid_usd / (self.amortized_years * HOURS_PER_YEAR)
        return (1 - self.discount_fraction) * (self.usd_per_accelerator_hour or 0.0)

    @property
    def paid_usd(self) -> float | None:
        """Purchase of one accelerator less the discount [USD]; None where it is rented."""
        return None if self.purchase_usd is None else (1 - self.discount_fraction) * self.purchase_usd


class Comparison(StrictModel):
    """A variant of the scenario, planned beside it."""

    title: Title
    """One line for the report."""
    set: dict[str, Any]
    """Keys of the scenario to change, as `--set` would."""
