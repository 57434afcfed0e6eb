"""How a plan is run by `planner simulate`: what the plan itself does not say of the system and its surroundings."""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from planner.errors import did_you_mean
from planner.schema import Fault as StatedFault
from planner.schema import StrictModel, raise_faults

BLOCK_TOKENS = 512
"""Tokens of a block, as traces record them."""
Gbps = Annotated[float, Field(gt=0, le=1e9)]
Connections = Annotated[int, Field(ge=1, le=10_000)]


class LinkExecution(StrictModel):
    """How transfers use a link, and who else does."""

    connections: Connections = 1
    """TCP connections of one transfer; a link is shared evenly among connections."""
    connection_gbps: Gbps | None = None
    """Most that one connection carries; absent: the whole link."""
    background_gbps: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    """Traffic of others that wants to be on the link all the time."""
    background_connections: Connections = 1
    """Connections of that traffic, each with the same claim as any other."""


class Fault(StrictModel):
    """Something that happens to an instance or a link, once in every replication."""

    kind: Literal["crash", "slow", "link-loss", "brownout", "background"]
    """crash: an instance is gone with all it holds, until it restarts; slow: it takes longer; link-loss and brownout: a
    link carries nothing, or a fraction; background: others want to send so much on it."""
    at_s: Annotated[float, Field(ge=0, le=1e9)]
    """When it begins, after the start of the run."""
    duration_s: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """How long it lasts; absent: to the end."""
    pool: str | None = None
    """Pool of the instance that crashes or slows down."""
    instance: Annotated[int, Field(ge=0)] = 0
    """Which instance of the pool, from 0."""
    link: str | None = None
    """Link that fails or carries others."""
    slowdown: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Seconds over those of a sound instance; required by slow."""
    left_fraction: Annotated[float, Field(gt=0, lt=1)] | None = None
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
    """What a pool's instances have that the plan does not need to know."""

    mean_days_between_crashes: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Of every instance, at random; absent: none but those stated."""
    restart_s: Annotated[float, Field(gt=0, le=1e9)] = 300.0
    """How long a crash at random takes to mend."""

    memory_gb: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Memory of a decode instance for caches and states; absent: the roofline's, unlimited where it was measured."""
    batch_limit: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Most sequences in the batch of a decode instance; absent: what memory and the limit on its step allow."""
    instances_of: str | None = None
    """Prefill pool on whose instances this one's requests are computed, in one queue with that pool's; their caches
    still leave from this pool's site. Absent: on instances of its own."""


class GammaArrivals(StrictModel):
    """Independent gaps between arrivals, more or less even than those of independent users."""

    kind: Literal["gamma"]
    squared_cv: Annotated[float, Field(gt=0, le=1000)]
    """Squared coefficient of variation of the gaps: 1 is Poisson, above it bursts, below it regularity."""


class BurstArrivals(StrictModel):
    """Poisson arrivals whose rate switches between calm and bursts, at random."""

    kind: Literal["bursts"]
    rate_factor: Annotated[float, Field(gt=1, le=1e6)]
    """Rate in a burst over that in calm."""
    mean_calm_s: Annotated[float, Field(gt=0, le=1e9)]
    """Mean length of calm."""
    mean_burst_s: Annotated[float, Field(gt=0, le=1e9)]
    """Mean length of a burst."""


class RecordedArrivals(StrictModel):
    """The times of the trace of the only class, again from its start."""

    kind: Literal["recorded"]
    at_own_rate: bool = False
    """Whether the trace's own rate holds whatever the load says; false stretches its times to the load."""


class PrefixCache(StrictModel):
    """A pool of cache blocks per site that the run fills and empties, instead of the hits that the workload states."""

    capacity_gb: dict[str, Annotated[float, Field(gt=0, le=1e12)]] = {}
    """Room for prefixes, states and caches to be sent, by site; a site that is not named has no limit."""
    bandwidth: Literal["scarce", "ample"] = "scarce"
    """scarce: the prefix that the site of the short prompts holds decides about the way; ample: the longest prefix of
    any site does, and is fetched where a link leads there."""
    state_interval_tokens: Annotated[int, Field(ge=0, le=100_000_000, multiple_of=BLOCK_TOKENS)] = 0
    """Distance at which recurrent or window states are kept beside that of a prompt's last full block; 0: only that."""
    exact_states: bool = True
    """Whether a hit needs the state of exactly its length, as hybrid models do; false looks at the KV blocks alone."""


class Execution(StrictModel):
    """How the plan is run."""

    warm_up_fraction: Annotated[float, Field(ge=0, lt=0.9)] = 0.1
    """First part of the requests, which is run and not counted."""
    cool_down_fraction: Annotated[float, Field(ge=0, lt=0.9)] = 0.05
    """Last part of the requests, which is run and not counted."""
    chunk_tokens: Annotated[int, Field(ge=16, le=10_000_000)] = 8192
    """Most prompt tokens of one pass, with prefill_batching = "chunked"."""
    priority_tokens: Annotated[float, Field(ge=0)] | None = None
    """Requests with at most so many uncached tokens are prefilled before others of their pool; absent: in order."""
    max_transfers: Annotated[int, Field(ge=1, le=1_000_000)] = 64
    """Unsent caches of whole prompts that an instance keeps; with more it starts no prompt."""
    arrivals: Annotated[GammaArrivals | BurstArrivals | RecordedArrivals, Field(discriminator="kind")] | None = None
    """How requests arrive in the run; absent: as the workload states, which is what the plan counts on."""
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


def execution_faults(
    execution: Execution, pools: Mapping[str, Any], links: Collection[str], sites: Collection[str]
) -> Iterator[StatedFault]:
    """What does not fit the rest of the scenario.

    Args:
        execution: how the plan is run.
        pools: pools of the scenario, by name.
        links: names of its links.
        sites: names of its sites.
    """
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
        for key in ("hardware", "accelerators_per_instance", "service_times", "stack", "layout", "time_factor")
    )
