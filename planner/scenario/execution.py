"""Settings of a run by `planner simulate`: what the plan itself does not say of the system and its surroundings."""

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from planner.errors import did_you_mean
from planner.ranges import NonNegative, Positive, Seconds, Seed
from planner.schema import FieldError as StatedFault
from planner.schema import StrictModel, raise_faults
from planner.workload.lengths import Lengths

BLOCK_TOKENS = 512
"""Tokens of a block, as traces record them."""
Gbps = Annotated[float, Field(ge=1e-6, le=1e9)]
Interval = Annotated[float, Field(ge=1e-3, le=1e7)]
"""Time between two things that a run does again and again [s]."""
Rate = Annotated[float, Field(ge=0, le=1e6)]
Connections = Annotated[int, Field(ge=1, le=10_000)]


class LinkExecution(StrictModel):
    """Use of a link by transfers and by others."""

    connections: Connections = 1
    """TCP connections of one transfer; a link is shared evenly among connections."""
    connection_gbps: Gbps | None = None
    """Most that one connection carries; absent: the whole link."""
    background_gbps: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    """Traffic of others that wants to be on the link all the time."""
    background_connections: Connections = 1
    """Connections of that traffic, each with the same claim as any other."""
    spare_gbps: Gbps | None = None
    """Bandwidth in the run where the plan leaves the link out because no cache is handed on over it: prefixes may take
    it. Its rent is in no bill. Absent: what the plan leaves out is not there."""


class Fault(StrictModel):
    """Something that happens to an instance or a link, once in every replication."""

    kind: Literal["crash", "slow", "link-loss", "brownout", "background"]
    """crash: an instance is gone with all it holds, until it restarts; slow: it takes longer; link-loss and brownout: a
    link carries nothing, or a fraction; background: others want to send so much on it."""
    at_s: Annotated[float, Field(ge=0, le=1e9)]
    """When it begins, after the start of the run."""
    duration_s: Seconds | None = None
    """How long it lasts; absent: to the end."""
    pool: str | None = None
    """Pool of the instance that crashes or slows down."""
    instance: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Which instance of the pool, from 0."""
    link: str | None = None
    """Link that fails or carries others."""
    slowdown: Annotated[float, Field(ge=1e-3, le=1e6)] | None = None
    """Seconds over those of a sound instance; required by slow."""
    left_fraction: Annotated[float, Field(ge=1e-6, lt=1)] | None = None
    """Bandwidth that is left; required by brownout."""
    background_gbps: Annotated[float, Field(ge=0, le=1e9)] | None = None
    """Traffic of others; required by background."""

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Self:
        needs = {"slow": "slowdown", "brownout": "left_fraction", "background": "background_gbps"}.get(self.kind)
        where = "pool" if self.kind in ("crash", "slow") else "link"
        faults = [
            StatedFault((key,), f"is required by a fault of kind {self.kind}")
            for key in (where, needs)
            if key is not None and getattr(self, key) is None
        ]
        raise_faults(faults)
        return self


class PoolExecution(StrictModel):
    """Properties of a pool's instances that the plan does not need to know."""

    mean_days_between_crashes: Annotated[float, Field(ge=1e-4, le=1e6)] | None = None
    """Of every instance, at random; absent: none but those stated."""
    restart_s: Seconds = 300.0
    """How long a crash at random takes to mend."""

    memory_gb: Positive | None = None
    """Memory of an instance for caches and states; absent: what weights leave of it, unlimited where that is not
    known, or for decode where it was measured."""
    batch_limit: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Most sequences in the batch of a decode instance; absent: what memory and the limit on its step allow."""
    instances_of: str | None = None
    """Prefill pool on whose instances this one's requests are computed, in one queue with that pool's; their caches
    still leave from this pool's site. Absent: on instances of its own."""


class GammaArrivals(StrictModel):
    """Independent gaps between arrivals, more or less even than those of independent users."""

    kind: Literal["gamma"]
    squared_cv: Annotated[float, Field(ge=1e-4, le=1000)]
    """Squared coefficient of variation of the gaps: 1 is Poisson, above it bursts, below it regularity."""


class BurstArrivals(StrictModel):
    """Poisson arrivals whose rate switches between calm and bursts, at random."""

    kind: Literal["bursts"]
    rate_factor: Annotated[float, Field(gt=1, le=1e6)]
    """Rate in a burst over that in calm."""
    mean_calm_s: Annotated[float, Field(ge=1e-3, le=1e9)]
    """Mean length of calm."""
    mean_burst_s: Annotated[float, Field(ge=1e-3, le=1e9)]
    """Mean length of a burst."""


class DiurnalArrivals(StrictModel):
    """Poisson arrivals whose rate follows the time of day; the load is the mean over a whole period."""

    kind: Literal["diurnal"]
    period_s: Annotated[float, Field(ge=1e-3, le=1e9)] = 86_400.0
    """Length of the day; the run begins with it, and runs into the next ones."""
    swing_fraction: Annotated[float, Field(gt=0, le=1)] | None = None
    """Of a sinusoid that begins at its lowest: how far lowest and highest rate are from the mean, over the mean."""
    factors: Annotated[tuple[Rate, ...], Field(min_length=2, max_length=10_000)] | None = None
    """Rates of equal parts of the day, such as 24 of an hour each, in any unit: only their proportion counts."""

    @model_validator(mode="after")
    def _has_one_shape(self) -> Self:
        if (self.swing_fraction is None) == (self.factors is None):
            raise_faults([StatedFault(("swing_fraction",), "is given beside factors, or neither is (one of the two)")])
        if self.factors is not None and sum(self.factors) <= 0:
            raise_faults([StatedFault(("factors",), "are all 0 (one above 0 at least)")])
        return self


class RecordedArrivals(StrictModel):
    """The times of the trace of the only class, from a row on that each replication draws, round and round."""

    kind: Literal["recorded"]
    at_own_rate: bool = False
    """Whether the trace's own rate holds whatever the load says; false stretches its times to the load."""


class Sessions(StrictModel):
    """Requests are turns of conversations: a prompt is all that was said before, the answers too, and new text. First
    prompts and answers are as long as the workload says; whether anything is found again is up to `cache`."""

    mean_turns: Annotated[float, Field(ge=1, le=10_000)]
    """Mean number of turns, geometric; fewer where prompts would get too long."""
    new_tokens: Lengths
    """New text of every turn but the first."""
    mean_gap_s: Annotated[float, Field(ge=1e-3, le=1e9)]
    """Mean time between a turn and the next, exponential, from arrival to arrival; turns do not wait for answers."""
    max_tokens: Annotated[float, Field(ge=1, le=1e9)] = 131_072.0
    """Longest prompt: a session ends before it would be longer."""


class CacheRebalance(StrictModel):
    """Copies prefixes between the pools of sites that prefill before anybody asks for them there: those in use (under
    scarce bandwidth) by the tokens of prefill that they would save over their bytes, then those about to be dropped."""

    interval_s: Interval = 30.0
    """Time between two looks at what was used; what was not begun by the next one is weighed anew."""
    link_fraction: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Most that it uses of each link; less where the fair share of one connection is less."""
    min_uses: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Prompts that must have made or hit a prefix at its site since the last look for it to be copied."""
    spill: bool = True
    """Whether what a full pool is about to drop goes to one with free room, after what is in use."""


class PrefixCache(StrictModel):
    """A pool of cache blocks per site that the run fills and empties, instead of the hits that the workload states."""

    capacity_gb: dict[str, Annotated[float, Field(ge=1e-9, le=1e12)]] = {}
    """Room for prefixes, states and caches to be sent, by site; a site that is not named has no limit."""
    bandwidth: Literal["scarce", "ample"] = "scarce"
    """scarce: the prefix that the site of the short prompts holds decides about the way; ample: the longest prefix of
    any site does, and is fetched where a link leads there."""
    state_interval_tokens: Annotated[int, Field(ge=0, le=100_000_000, multiple_of=BLOCK_TOKENS)] = 0
    """Distance at which recurrent or window states are kept beside that of a prompt's last full block; 0: only that."""
    exact_states: bool = True
    """Whether a hit needs the state of exactly its length, as hybrid models do; false looks at the KV blocks alone."""
    rebalance: CacheRebalance | None = None
    """Prefixes that move between the pools by themselves; absent: they stay, or are fetched under ample bandwidth."""


class ShortTermScheduler(StrictModel):
    """Moves the thresholds every few seconds: up where long prompts wait longer or their link is congested, down where
    short ones wait longer and the link is free, else back to where they were."""

    interval_s: Interval = 5.0
    """Time between two looks at queues and link."""
    doubling_s: Annotated[float, Field(ge=1e-3, le=1e6)] = 20.0
    """By how much longer long prompts wait, in queues and for the link, where their thresholds are to be twice as high;
    half as high where short ones wait so much longer."""
    step_fraction: Annotated[float, Field(gt=0, le=10)] = 0.25
    """At one look thresholds change by a factor of 1 plus this at most."""
    range_factor: Annotated[float, Field(gt=1, le=1000)] = 4.0
    """Most that thresholds may be above or below those of the plan, or of the long-term scheduler."""
    link_utilization: Annotated[float, Field(gt=0, le=1)] = 0.9
    """A link is congested that carried more of what it could since the last look."""
    wait_tolerance_s: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    """Difference between the waits up to which a congested link raises the thresholds by a step."""


class LongTermScheduler(StrictModel):
    """Converts instances between prefill and decode, and balances thresholds, where something is persistently the
    bottleneck; from what it observes, by the paper's balance equations."""

    interval_s: Interval = 300.0
    """Time between two decisions; what was observed counts three quarters as much after each."""
    warm_up_s: Annotated[float, Field(ge=0, le=1e6)] = 60.0
    """Time from the end of an instance's last work in one role until it serves in the other."""
    busy_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.7
    """Of the rate at which the first pool or link saturates: with fewer arrivals nothing is changed."""
    min_gain_fraction: Annotated[float, Field(ge=0, le=10)] = 0.05
    """Least gain of that rate for which thresholds are balanced anew, or an instance is converted."""
    n_decisions: Annotated[int, Field(ge=1, le=1000)] = 2
    """Decisions in a row that must want the same conversion before it is made."""
    min_observed: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """Requests that must have been observed before anything is decided."""


class Scheduler(StrictModel):
    """The system's own control while it runs; each part is off where its table is absent."""

    short_term: ShortTermScheduler | None = None
    """Thresholds that follow queues and links; absent: they stay as planned."""
    long_term: LongTermScheduler | None = None
    """Roles and thresholds that follow the load; absent: roles stay as planned."""

    @property
    def is_on(self) -> bool:
        """True if anything is controlled."""
        return self.short_term is not None or self.long_term is not None


Part = Annotated[float, Field(gt=0, lt=1)]


class ReportedRuns(StrictModel):
    """Runs of the plan that `planner report` makes, to show what comes of it beside what was promised."""

    loads: Annotated[tuple[Part, ...], Field(min_length=1, max_length=20)]
    """Parts of the highest rate, ascending: at each the plan is run, and once more with the system kept full."""
    n_requests: Annotated[int, Field(ge=100, le=100_000_000)] = 400_000
    """Requests of every run, all replications together."""
    n_replications: Annotated[int, Field(ge=2, le=1000)] = 4
    """Independent runs, for confidence intervals."""
    seed: Seed = 0
    """The same seed gives the same report."""
    scheduler_load: Part | None = None
    """Part of the highest rate at which kinds of scheduling are compared under bursts, a day and a brownout; absent:
    they are not."""

    @model_validator(mode="after")
    def _has_ascending_loads(self) -> Self:
        if any(low >= high for low, high in pairwise(self.loads)):
            raise_faults([StatedFault(("loads",), "do not ascend (each above the one before)")])
        return self


class Execution(StrictModel):
    """Settings of the plan's run."""

    warm_up_fraction: Annotated[float, Field(ge=0, lt=0.9)] = 0.1
    """First part of the requests, which is run and not counted."""
    cool_down_fraction: Annotated[float, Field(ge=0, lt=0.9)] = 0.05
    """Last part of the requests, which is run and not counted."""
    chunk_tokens: Annotated[int, Field(ge=16, le=10_000_000)] = 8192
    """Most prompt tokens of one pass, with prefill_batching = "chunked"."""
    priority_tokens: NonNegative | None = None
    """Requests with at most so many uncached tokens are prefilled before others of their pool; absent: in order."""
    max_transfers: Annotated[int, Field(ge=1, le=1_000_000)] = 64
    """Unsent caches of whole prompts that an instance keeps; with more it starts no prompt."""
    arrivals: (
        Annotated[GammaArrivals | BurstArrivals | DiurnalArrivals | RecordedArrivals, Field(discriminator="kind")]
        | None
    ) = None
    """How requests arrive in the run; absent: as the workload states, which is what the plan counts on."""
    sessions: Sessions | None = None
    """Turns of conversations instead of independent requests, at the same rate; absent: independent, or as recorded."""
    scheduler: Scheduler = Scheduler()
    """What the system changes by itself while it runs; by default nothing."""
    cache: PrefixCache | None = None
    """Prefix caches; absent: the hits that the workload states."""
    max_retries: Annotated[int, Field(ge=0, le=100)] = 3
    """How often a request is started again after crashes before it is dropped."""
    faults: tuple[Fault, ...] = ()
    """What happens to instances and links."""
    links: dict[str, LinkExecution] = {}
    """Transfers and other traffic, by link."""
    pools: dict[str, PoolExecution] = {}
    """Further limits, by pool."""
    report: ReportedRuns | None = None
    """Runs that the report of the scenario shows; absent: none, and a report needs no executor."""

    @model_validator(mode="after")
    def _arrives_in_one_way(self) -> Self:
        if self.sessions is not None and self.arrivals is not None:
            raise_faults([StatedFault(("sessions",), "is given beside arrivals (one of the two)")])
        return self


def execution_faults(
    execution: Execution, pools: Mapping[str, Any], links: Collection[str], sites: Collection[str]
) -> Iterator[StatedFault]:
    """Faults between the settings of the run and the rest of the scenario."""
    for name in execution.links:
        if name not in links:
            yield StatedFault(("execution", "links", name), f"is no link of the scenario ({did_you_mean(name, links)})")
    for index, fault in enumerate(execution.faults):
        for kind, known in (("pool", pools), ("link", links)):
            named = getattr(fault, kind)
            if named is not None and named not in known:
                what = f"is '{named}', no {kind} of the scenario ({did_you_mean(named, known)})"
                yield StatedFault(("execution", "faults", index, kind), what)
    for name in execution.cache.capacity_gb if execution.cache else ():
        if name not in sites:
            what = f"is no site of the scenario ({did_you_mean(name, sites)})"
            yield StatedFault(("execution", "cache", "capacity_gb", name), what)
    for name in execution.pools:
        if name not in pools:
            yield StatedFault(("execution", "pools", name), f"is no pool of the scenario ({did_you_mean(name, pools)})")
    yield from _host_faults(execution, pools)


def _host_faults(execution: Execution, pools: Mapping[str, Any]) -> Iterator[StatedFault]:
    """Pools on other pools' instances: these must be there, of the same kind, and on their own."""
    for name, stated in execution.pools.items():
        host, key = stated.instances_of, ("execution", "pools", name, "instances_of")
        if host is None or name not in pools:
            continue
        if host not in pools or host == name:
            yield StatedFault(key, f"is '{host}', no other pool of the scenario ({did_you_mean(host, pools)})")
        elif (used := execution.pools.get(host)) is not None and used.instances_of is not None:
            yield StatedFault(key, f"is '{host}', which has no instances of its own (a pool that has)")
        elif "decode" in (pools[name].role, pools[host].role) or not _are_alike(pools[name], pools[host]):
            yield StatedFault(
                key, f"is '{host}', whose instances are of another kind (a prefill pool on that hardware)"
            )


def _are_alike(one: Any, other: Any) -> bool:
    return all(
        getattr(one, key) == getattr(other, key)
        for key in ("model", "hardware", "accelerators_per_instance", "service_times", "stack", "layout", "time_factor")
    )
