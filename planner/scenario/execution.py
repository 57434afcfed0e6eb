"""How a plan is run by `planner simulate`: what the plan itself does not say of the system and its surroundings."""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from planner.errors import did_you_mean
from planner.schema import Fault, StrictModel

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


class PoolExecution(StrictModel):
    """What a pool's instances have that the plan does not need to know."""

    memory_gb: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Memory of a decode instance for caches and states; absent: the roofline's, unlimited where it was measured."""


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
    links: dict[str, LinkExecution] = {}
    """Transfers and other traffic, by link."""
    pools: dict[str, PoolExecution] = {}
    """Further limits, by pool."""


def execution_faults(execution: Execution, pools: Mapping[str, Any], links: Collection[str]) -> Iterator[Fault]:
    """What does not fit the rest of the scenario.

    Args:
        execution: how the plan is run.
        pools: pools of the scenario, by name.
        links: names of its links.
    """
    for name in execution.links:
        if name not in links:
            yield Fault(("execution", "links", name), f"is no link of the scenario ({did_you_mean(name, links)})")
    for name in execution.pools:
        if name not in pools:
            yield Fault(("execution", "pools", name), f"is no pool of the scenario ({did_you_mean(name, pools)})")
