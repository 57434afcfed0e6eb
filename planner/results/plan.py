"""The plan: the answer of `planner optimize`, field for field what `--format json` prints."""

from typing import Any, Literal

from pydantic import Field

from planner.notes import Note
from planner.ranges import (
    Counted,
    Format,
    Fraction,
    LayoutName,
    LossName,
    Name,
    PoolName,
    PoolRatio,
    ProfileName,
    Quantity,
    Repository,
    Signed,
    SloKey,
    StackName,
)
from planner.results.certified import Certified
from planner.results.current import Current
from planner.results.plan_parts import Bottleneck, Cost, CostBand, EngineSettings, Latency, PlanInputs, Schedule
from planner.results.slo_run import SloRun
from planner.schema import StrictModel

SELDOM = ("certified", "slo_run", "current", "schedule", "inputs", "engine")
"""Fields that are not printed where they say nothing."""


class PoolPlan(StrictModel):
    """One pool at the operating point."""

    name: PoolName
    site: Name
    hardware: ProfileName
    role: Literal["prefill", "decode", "colocated"]
    prompts: Literal["long", "short"] | None
    """Which prompts a prefill pool takes; None for one that takes both, and for others."""
    n_instances: Counted
    n_accelerators: Counted
    capacity_req_per_s: Quantity
    """Requests of its kind the pool can serve [1/s]."""
    offered_req_per_s: Quantity
    """Requests sent to it at the operating point [1/s]."""
    utilization: Quantity
    usd_per_hour: Quantity | None
    basis: Literal["measured", "calibrated", "inferred", "datasheet"]
    """Where its service times come from."""
    accelerators_per_instance: Counted | None = None
    """Accelerators of one instance; like all that follows None where nobody said."""
    layout: LayoutName | None = None
    """Parallel layout of an instance, such as `tp=8,ep=1,dp=1,pp=1`."""
    stack: StackName | None = None
    """Serving software that its times are of, at its version."""
    precision: Format | None = None
    """Weights and matrix products."""
    kv_precision: Format | None = None
    """Attention KV cache."""
    batch_limit: Counted | None = None
    """Most sequences that an instance decodes together; None for prefill, which is one prompt at a time."""
    tokens_per_pass: Counted | None = None
    """Most tokens of a pass on an attention replica of a colocated instance; None for other roles."""
    model: ProfileName | None = None
    """Model that it serves, as `models` and classes call it."""
    engine: EngineSettings | None = None
    """What its engine is told, so that it has the memory planned; None where its times were measured."""

    @property
    def key(self) -> str:
        """Name of the scenario's pool that it was made of: what sets apart several made of one comes after a space."""
        return self.name.partition(" ")[0]

    @property
    def marks(self) -> tuple[str, ...]:
        """Marks that tell it from others made of the same pool, such as its layout; none where there is no other."""
        return tuple(self.name.split(" ")[1:])

    def in_period(self, now: "PeriodPool") -> "PoolPlan":
        """The pool with the instances that it has in a period, and what these have to do."""
        each = self.n_accelerators // self.n_instances if self.n_instances else 0
        return self.model_copy(
            update={
                "n_instances": now.n_instances,
                "n_accelerators": now.n_instances * each,
                "offered_req_per_s": now.offered_req_per_s,
                "utilization": now.utilization,
            }
        )


class LinkPlan(StrictModel):
    """One link at the operating point."""

    name: Name
    from_site: Name = Field(serialization_alias="from")
    to_site: Name = Field(serialization_alias="to")
    capacity_gbps: Quantity
    n_ports: Counted
    port_gbps: Quantity | None
    """Size of the ports rented, or None when sizes are mixed."""
    ports_by_tier: tuple[Counted, ...] = Field(default=(), exclude=True)
    """Ports rented of every size on offer."""
    mean_gbps: Quantity
    utilization: Quantity
    usd_per_hour: Quantity | None
    round_trip_ms: Quantity | None = None
    """Round-trip time; None where nobody said."""


class Drafts(StrictModel):
    """Tokens that are drafted for a model in every decode step."""

    draft_tokens: Counted
    """How many."""
    acceptance: tuple[Fraction, ...]
    """Probability that each is accepted, given that those before it were, as the plan counts with it."""
    model: ProfileName | None
    """Name of the profile of the model that drafts; None: the model's own MTP layers."""
    checkpoints: tuple[Repository, ...] = ()
    """Repositories that it is published in."""


class DeployedModel(StrictModel):
    """A model that the fleet serves, as far as whoever deploys it has to know it."""

    name: ProfileName
    """Name of its profile."""
    checkpoints: tuple[Repository, ...] = ()
    """Repositories that it is published in, where its profile names any."""
    precision: Format
    """Weights, as the checkpoint stores them."""
    kv_precision: Format
    """Attention KV cache, as asked for."""
    has_recurrent_state: bool
    """Whether some of its layers keep a state of fixed size: a hybrid model."""
    has_experts: bool | None
    """Whether some of its layers are a mixture of experts; None where that is unpublished."""
    context_limit_tokens: Counted | None
    """Longest context; None where unknown."""
    drafts: Drafts | None = None
    """Tokens that are drafted for it; None: none are."""


Serving = Literal["separate-sites", "separate", "colocated"]
"""Kinds of serving: prefill in another site than decode, in pools apart from it, or in one batch with it."""


class Disaggregation(StrictModel):
    """Verdict on prefilling and decoding apart, against the same accelerators that do both in one batch, and why."""

    worth_it: bool
    """False too while it is not decided."""
    decided: bool
    """Whether it holds for every time that a pass may take, and within the proven bounds of both."""
    because: str
    margin_fraction: Signed | None = None
    """What the plan gains: more requests, or a lower bill or TTFT; None without a colocated fleet [-]."""
    opponent: str | None = None
    """Name of the baseline that it is judged against."""


class Verdict(StrictModel):
    """Which kind of serving is best here, whether prefill in another site is worth it, and why."""

    recommendation: Serving | None = None
    """Of the plan, or of a better fleet beside it; None: not decided."""
    worth_it: bool
    """Whether it is `separate-sites`; false too while it is not decided."""
    because: str
    decided: bool = True
    """Whether it holds for every plan and opponent within their proven bounds."""
    margin_fraction: Signed | None = None
    """What the plan gains over its strongest opponent: more requests, or a lower bill or TTFT; None without one [-]."""
    opponent: str | None = None
    """Name of the baseline that it is judged against: one that can be had."""
    disaggregation: Disaggregation | None = None
    """What prefill and decode apart are worth; None where no colocated fleet could be planned to compare with."""


Work = Literal["long", "short", "decode"]
PoolShares = dict[Work, dict[PoolName, Quantity]]
"""What each pool takes of the long prompts, of the short ones, and of decoding [-]."""


class ClassPlan(StrictModel):
    """One class of requests."""

    name: Name
    model: ProfileName
    share: Quantity
    slo: dict[SloKey, Quantity] | None = None
    """What is promised about its latency; None: nothing."""
    threshold_tokens: Signed | None
    latency: Latency
    mean_total_tokens: Quantity
    mean_uncached_tokens: Quantity
    mean_output_tokens: Quantity
    cached_fraction: Quantity
    """Share of prompt tokens found in the prefix cache [-]."""
    pool_shares: PoolShares = {}
    """What every pool takes, where the plan says; else it is in proportion to the pools' rates."""
    slo_run: SloRun | None = None
    """What a run made of its promise; None, and not printed, without one."""


class PeriodPool(StrictModel):
    """One pool in a period."""

    name: PoolName
    n_instances: Counted
    offered_req_per_s: Quantity
    """Requests sent to it [1/s]."""
    utilization: Quantity


class PeriodLink(StrictModel):
    """One link in a period."""

    name: Name
    mean_gbps: Quantity
    utilization: Quantity


class PeriodPlan(StrictModel):
    """A period of the day at its demand."""

    name: Name
    hours: Quantity
    demand_req_per_s: Quantity
    offload_fraction: Quantity
    """Share of the requests that are longer than their threshold, and leave their site or go to a pool for such [-]."""
    thresholds: dict[Name, dict[Name, Quantity | None]]
    """By class and by the site that decodes: requests with more uncached tokens may leave; None: none do [tokens]."""
    decoded_req_per_s: dict[Name, dict[Name, Quantity]] = {}
    """By class and by the site that decodes: their rate; absent: each class is decoded where it arrives [1/s]."""
    pool_shares: dict[Name, dict[Name, PoolShares]] = {}
    """By class and by the site that decodes."""
    pools: tuple[PeriodPool, ...]
    links: tuple[PeriodLink, ...]
    latency: Latency
    """Of all requests of the period."""
    use_usd_per_hour: Quantity
    """Power of busy instances and traffic by volume, which change with the demand."""

    @property
    def most_used(self) -> float:
        """Utilisation of the busiest pool or link [fraction]."""
        used = [pool.utilization for pool in self.pools] + [link.utilization for link in self.links]
        return max(used, default=0.0)


class Fleet(StrictModel):
    """Sizes, routing and operating point: what a plan and a baseline have in common."""

    threshold_tokens: Signed | None
    """Prompts with more uncached tokens go to the pool for long prompts; None with several thresholds, or none."""
    offload_fraction: Quantity
    """Share of the requests above their threshold [-]."""
    throughput_req_per_s: Quantity
    """Rate that every other figure is stated at [1/s]."""
    max_throughput_req_per_s: Quantity
    """Rate at which the first pool or link is full [1/s]."""
    goodput_req_per_s: Quantity | None = None
    """Highest rate at which the promise on TTFT still holds; None without one [1/s]."""
    pools: tuple[PoolPlan, ...]
    """Every pool with its instances."""
    links: tuple[LinkPlan, ...]
    """Every link between sites with its ports."""
    latency: Latency
    """TTFT and TPOT at the stated rate."""
    cost: Cost
    """The bill of everything."""

    def pool(self, name: str) -> PoolPlan:
        """The pool of that name; raises KeyError."""
        return {pool.name: pool for pool in self.pools}[name]

    @property
    def most_req_per_s(self) -> float:
        """The most it serves as asked: its goodput, or without a promise on TTFT its highest rate."""
        return self.max_throughput_req_per_s if self.goodput_req_per_s is None else self.goodput_req_per_s

    @property
    def most_used(self) -> float:
        """Utilisation of the busiest pool or link [fraction]."""
        used = [pool.utilization for pool in self.pools] + [link.utilization for link in self.links]
        return max(used, default=0.0)

    @property
    def n_accelerators(self) -> int:
        """Accelerators in all pools."""
        return sum(pool.n_accelerators for pool in self.pools)

    @property
    def serving(self) -> "Serving":
        """The kind of serving that it is: where prompts are computed."""
        if any(link.mean_gbps > 0 for link in self.links):
            return "separate-sites"
        used = {pool.role for pool in self.pools if pool.offered_req_per_s > 0}
        return "colocated" if "colocated" in used and "prefill" not in used else "separate"

    @property
    def n_instances(self) -> dict[str, int]:
        """Instances by pool of the scenario, over its layouts."""
        found: dict[str, int] = {}
        for pool in self.pools:
            found[pool.key] = found.get(pool.key, 0) + pool.n_instances
        return found


class Baseline(Fleet):
    """Another way to serve the same requests."""

    name: str
    title: str
    ratio: Signed
    """Plan over baseline, in requests per second at most, as promised [-]."""
    changes: tuple[str, ...] = ()
    """What makes it the plan, each as `--set` takes it; empty where it is another question altogether."""
    beyond_stock: tuple[str, ...] = ()
    """What it takes more of than the scenario says can be had, each with what it takes; no verdict rests on such."""
    gap: Signed = 0.0
    """Relative distance of its objective to a proven bound [-]; of passes that are composed of measured prefill and
    decode times at least what perfect overlap of both would gain."""
    holds: bool | None = None
    """Whether a run bore out that it keeps what is promised; None: none was asked for. A cheaper fleet is run where no
    model predicts its times well."""


class Sweep(StrictModel):
    """Most throughput by threshold, and by each pool alone, for the sizes of the plan."""

    threshold_tokens: tuple[Signed, ...]
    offload_fraction: tuple[Quantity, ...]
    limits_req_per_s: dict[str, tuple[Quantity | None, ...]]
    """Rate each pool or link would allow alone [1/s]; None where nothing is asked of it, or hardly anything."""


class FreeRouting(StrictModel):
    """Gain over one threshold from sending each length bin wherever it fits best."""

    max_throughput_req_per_s: Quantity
    gain: Signed
    """Relative gain over the plan [-]."""
    n_bins: Counted


class Plan(Fleet):
    """The planner's answer to a scenario."""

    schema_version: Literal["planner.plan/1"] = Field(default="planner.plan/1", serialization_alias="schema")
    scenario: Name
    """Name of the question."""
    objective: Literal["max-throughput", "min-cost", "min-ttft"]
    """What the plan is best at."""
    status: Literal["optimal", "feasible"]
    """`optimal`: proven best, up to the gap; `feasible`: the best that the search found in its
    time and its number of steps."""
    gap: Signed
    """How far the plan may be from the best one: relative distance of its objective to `bound` [-]."""
    bound: Signed
    """No plan is better than this, at any threshold: requests per second, USD per hour, or with min-ttft seconds."""
    capacity_rule: Literal["mean-length", "expected-work"]
    models: tuple[DeployedModel, ...] = ()
    """Every model that is served."""
    prefill_to_decode: PoolRatio | None
    """Instances of prefill for short prompts to instances of decode."""
    cost_band: CostBand | None = None
    """What the cost may be with what is known of the error of predicted times; None where nothing is, or not asked."""
    bottlenecks: tuple[Bottleneck, ...]
    """What binds, and what one more unit of it would bring."""
    verdict: Verdict
    """Whether prefill in another site is worth it."""
    classes: tuple[ClassPlan, ...]
    """Every class of requests."""
    periods: tuple[PeriodPlan, ...] = ()
    """Every period of the day, in order; none where demand does not change."""
    schedule: Schedule | None = None
    """Instances by period of the pools that are rented so; None where none is."""
    survives: tuple[LossName, ...] = ()
    """Single losses after which what is left still serves the demand as promised, such as `link:wan`."""
    baselines: tuple[Baseline, ...]
    """Other fleets for the same requests."""
    free_routing: FreeRouting | None
    """What more than one threshold would gain; None where that was not asked."""
    sweep: Sweep | None = Field(exclude=True)
    notes: tuple[Note, ...] = ()
    """What the reader must know to use the figures."""
    certified: Certified | None = None
    """What a run bore out, where `--certify` asked for one."""
    slo_run: SloRun | None = None
    """What a run made of the promise that is nearest to breaking; None, and not printed, without one."""
    current: Current | None = None
    """The fleet that stands beside it, where `--current` names one."""
    inputs: PlanInputs | None = None
    """What it was made from; None where the plan stands beside its question, as in a report."""

    def period(self, name: str) -> PeriodPlan:
        """The period of that name; raises KeyError."""
        return {period.name: period for period in self.periods}[name]

    def in_period(self, period: PeriodPlan) -> Fleet:
        """The fleet in a period: its sizes, what pools and links have to do, and its latency, at its own demand."""
        pools = tuple(pool.in_period(now) for pool, now in zip(self.pools, period.pools, strict=True))
        links = tuple(
            link.model_copy(update={"mean_gbps": now.mean_gbps, "utilization": now.utilization})
            for link, now in zip(self.links, period.links, strict=True)
        )
        return Fleet(
            threshold_tokens=None,
            offload_fraction=period.offload_fraction,
            throughput_req_per_s=period.demand_req_per_s,
            max_throughput_req_per_s=period.demand_req_per_s / (period.most_used or 1.0),
            pools=pools,
            links=links,
            latency=period.latency,
            cost=self.cost,
        )

    def baseline(self, name: str) -> Baseline:
        """The baseline of that name; raises KeyError."""
        return {baseline.name: baseline for baseline in self.baselines}[name]

    def answer(self) -> dict[str, Any]:
        """The plan as JSON prints it, what identifies it first."""
        fields = self.model_dump(mode="json", by_alias=True)
        pools = [pool for fleet in (fields, *fields["baselines"]) for pool in fleet["pools"]]
        for part in (fields, *fields["classes"], *pools):
            for name in SELDOM:
                if part.get(name, part) is None:
                    del part[name]
        first = ("schema", "scenario", "objective", "status", "gap", "bound", "capacity_rule")
        return {**{key: fields[key] for key in first}, **fields}
