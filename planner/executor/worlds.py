"""From a system to the records that the event loop runs on."""

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.curves import Curve
from planner.executor.cache_pools import cache_fields
from planner.executor.control import scheduler_fields, units
from planner.executor.kernel.records import (
    ACTOR,
    CLOCK,
    DECODE_POOL,
    DECODER,
    DOWN,
    FAULT_RECORD,
    FLOW,
    INSTANCE,
    LINK,
    LONG_LINE,
    NONE,
    POOL,
    POOL_CURVES,
    QUEUE,
    ROUND_ROBIN,
    SHARED_QUEUE,
    SHORT_LINE,
    SHORTEST_WORK,
    SLOT,
    UNIT,
    UP,
    Records,
    World,
)
from planner.executor.prompt_blocks import PromptBlocks
from planner.executor.rebalancing import rebalance_fields, stated_rebalance
from planner.executor.routes import route_table
from planner.executor.service import DecodeTimes
from planner.executor.systems import System
from planner.results import LinkPlan
from planner.roofline import BLOCK_TOKENS
from planner.scenario import LinkExecution
from planner.units import bytes_per_s

Floats = NDArray[np.float64]
DISPATCH = {"shared-queue": SHARED_QUEUE, "join-shortest-work": SHORTEST_WORK, "round-robin": ROUND_ROBIN}
PEAK_WINDOW_S = 1.0
"""A link's peak is the most it carries in a window of so long."""
N_SAMPLES = 512
EMPTY_QUEUE = (NONE, NONE, 0)


def world(
    plan: System,
    requests: Records,
    warm_up: int = 0,
    cool_down: int | None = None,
    closed: int | None = None,
    faults: Records | None = None,
    blocks: PromptBlocks | None = None,
) -> World:
    """The records of a run, nothing happened yet.

    Args:
        plan: the system.
        requests: the requests, in order of arrival; changed by the run.
        warm_up: requests before the first that counts.
        cool_down: requests up to the last that counts; all if not given.
        closed: requests inside at any time, each that leaves letting the next one in; None: they arrive by themselves.
        faults: what happens to instances and links, in order of time; nothing if not given.
        blocks: blocks of every prompt, where the scenario has caches.
    """
    execution, n, sites = plan.scenario.execution, len(requests), list(plan.scenario.sites)
    has_fetches = execution.cache is not None
    links, fabrics = _links(plan)
    pools, routes, found = _pools(plan, sites), route_table(plan.ways), np.zeros(0, dtype=UNIT)
    instances = _instances(plan, fabrics)
    decoders, decode_pools = _decoders(plan, sites)
    links["is_watched"][[k for k in routes["link"][routes["is_long"] == 1] if k != NONE]] = execution.scheduler.is_on
    if plan.converts:
        found = units(plan.prefill, plan.decode, pools)
        instances["unit"][found["instance"]] = decoders["unit"][found["decoder"]] = np.arange(len(found))
    n_instances, n_links, n_decoders = len(instances), len(links), len(decoders)
    sample_at = _sample_at(n, warm_up, n if cool_down is None else cool_down)
    curves = [c for t in plan.prefill_times for c in (t.service.curve, t.wire_bytes, t.handoff_bytes, t.held_bytes)]
    most_batch = max((t.batch_limit for t in plan.decode_times), default=1)
    actors = _actors(n_instances, n_decoders, n_links, len(found), len(plan.links))
    n_flows = max(n_instances, 1) * (execution.max_transfers + _prompts_in_a_pass(plan))
    return World(
        requests=requests,
        routes=routes,
        thresholds=plan.thresholds_tokens,
        **scheduler_fields(
            plan.scenario, plan.thresholds_tokens, pools, found, n_instances + n_decoders + 2 * n_links + 2
        ),
        pools=pools,
        instances=instances,
        queues=_filled(2 * max(n_instances, 1), QUEUE, EMPTY_QUEUE),
        decode_pools=decode_pools,
        decoders=decoders,
        decode_queues=_filled(len(decode_pools), QUEUE, EMPTY_QUEUE),
        step_s=_step_table(plan.decode_times),
        slots=np.zeros((n_decoders, most_batch), dtype=SLOT),
        links=links,
        flows=np.zeros((n_links, (n if has_fetches else min(n_flows, n)) + 1), dtype=FLOW),
        deliveries=_filled(n_links, QUEUE, EMPTY_QUEUE),
        curves=curve_table(curves),
        faults=np.zeros(0, dtype=FAULT_RECORD) if faults is None else faults,
        **cache_fields(plan.scenario, plan.links, blocks),
        **rebalance_fields(
            plan.scenario, plan.prefill, plan.links, blocks, n_instances + n_decoders + 2 * n_links + 4 + len(found)
        ),
        actors=actors,
        heap=np.zeros(len(actors), dtype=np.int32),
        clock=_clock(n_instances, n_decoders, n_links, closed, execution.max_retries),
        sample_at=sample_at,
        samples=np.zeros((len(sample_at), sample_columns(plan, n_links))),
        extras=None if is_plain(plan, faults) else 0,
    )


def is_plain(plan: System, faults: Records | None) -> bool:
    """Whether nothing fails, is cached, is watched by a scheduler, or changes its role."""
    execution = plan.scenario.execution
    is_watched = execution.scheduler.is_on or plan.converts
    return execution.cache is None and not is_watched and (faults is None or len(faults) == 0)


def sample_columns(plan: System, n_links: int) -> int:
    """Columns of a sample."""
    return 4 + 3 * len(plan.prefill) + 4 * len(plan.decode) + 5 + 2 * n_links


def _prompts_in_a_pass(plan: System) -> int:
    return plan.scenario.execution.chunk_tokens + 1 if plan.scenario.prefill_batching == "chunked" else 1


def _filled(n: int, dtype: np.dtype[Any], row: tuple[Any, ...]) -> Records:
    records = np.zeros(n, dtype=dtype)
    records[:] = row
    return records


def _sample_at(n: int, warm_up: int, cool_down: int) -> NDArray[np.int64]:
    """Arrivals to take samples at: evenly spread, the first that counts and the last among them."""
    return np.unique(
        np.concatenate([np.linspace(0, max(n - 1, 0), N_SAMPLES), [warm_up, cool_down - 1]]).astype(np.int64)
    )


def _pools(plan: System, sites: Sequence[str]) -> Records:
    scenario, pools = plan.scenario, np.zeros(len(plan.prefill), dtype=POOL)
    is_chunked, first = scenario.prefill_batching == "chunked", 0
    priority = scenario.execution.priority_tokens
    for p, (spec, times, n) in enumerate(zip(plan.prefill, plan.prefill_times, plan.prefill_slots, strict=True)):
        pool, places = pools[p], times.service.places
        pool["first"], pool["n"] = first, n
        pool["n_idle"] = pool["n_up"] = spec.n_instances * places
        pool["site"] = sites.index(spec.site)
        pool["dispatch"], pool["is_chunked"] = DISPATCH[scenario.dispatch], is_chunked
        pool["chunk_tokens"] = scenario.execution.chunk_tokens
        pool["priority_tokens"] = -1.0 if priority is None else priority
        pool["max_transfers"], pool["n_layers"] = scenario.execution.max_transfers, times.n_layers
        for offset, curve in enumerate(POOL_CURVES):
            pool[curve] = len(POOL_CURVES) * p + offset
        pool["room_block_tokens"], pool["longest_tokens"] = BLOCK_TOKENS, inf
        if times.room is not None:
            pool["is_limited"], pool["room_bytes"] = 1, int(times.room.memory_bytes / places)
            pool["longest_tokens"] = times.room.longest_tokens
        pool["floor_s"] = times.service.floor_s
        pool["line"] = LONG_LINE if spec.prompts == "long" else SHORT_LINE
        first += n
    return pools


def _instances(plan: System, fabrics: Sequence[int]) -> Records:
    """A record per place: a place prefills by itself, for as long as if all places of its instance were taken."""
    instances, i = np.zeros(sum(plan.prefill_slots), dtype=INSTANCE), 0
    instances["slowdown"] = 1.0
    instances["first"] = instances["last"] = instances["unit"] = NONE
    for p, (spec, n, places) in enumerate(zip(plan.prefill, plan.prefill_slots, plan.places, strict=True)):
        for index in range(n):
            instances[i]["pool"], instances[i]["fabric"] = p, fabrics[i]
            instances[i]["is_up"] = UP if index < spec.n_instances * places else DOWN
            i += 1
    return instances


def _decoders(plan: System, sites: Sequence[str]) -> tuple[Records, Records]:
    decoders, pools = np.zeros(sum(plan.decode_slots), dtype=DECODER), np.zeros(len(plan.decode), dtype=DECODE_POOL)
    first, decoders["slowdown"] = 0, 1.0
    decoders["first"] = decoders["last"] = decoders["unit"] = NONE
    for p, (spec, times, n) in enumerate(zip(plan.decode, plan.decode_times, plan.decode_slots, strict=True)):
        decoders["pool"][first : first + n] = p
        decoders["is_up"][first : first + n] = np.where(np.arange(n) < spec.n_instances, UP, DOWN)
        memory = times.memory_bytes, times.state_bytes, times.bytes_per_token
        pools[p] = (first, n, sites.index(spec.site), times.batch_limit, *memory)
        first += n
    return decoders, pools


def _step_table(times: Sequence[DecodeTimes]) -> Floats:
    """Steps of every decode pool by batch; beyond a pool's limit nothing is ever read."""
    table = np.ones((len(times), max(t.batch_limit for t in times) + 1, 2))
    for p, t in enumerate(times):
        table[p, : t.batch_limit + 1] = t.step_s
    return table


def _links(plan: System) -> tuple[Records, list[int]]:
    """Links between sites, then one per prefill instance whose site states a fabric; and each place's fabric."""
    rows, fabrics = [_link(plan, link) for link in plan.links], []
    for spec, n, places in zip(plan.prefill, plan.prefill_slots, plan.places, strict=True):
        fabric = plan.scenario.sites[spec.site].fabric_gbps
        for _ in range(n // places):
            fabrics += places * [NONE if fabric is None else len(rows)]
            if fabric is not None:
                rows.append((bytes_per_s(fabric), inf, 1.0, 0.0, 0.0, 1.0, 1.0, 0))
    links, moves = np.zeros(len(rows), dtype=LINK), stated_rebalance(plan.scenario)
    links["move_fraction"] = 0.0 if moves is None else moves.link_fraction
    names = LINK.names or ()
    for k, row in enumerate(rows):
        for name, value in zip(names, row, strict=False):
            links[k][name] = value
    return links, fabrics


def _link(plan: System, link: LinkPlan) -> tuple[float, ...]:
    stated = plan.scenario.links[link.name]
    used = plan.scenario.execution.links.get(link.name, LinkExecution())
    limit = inf if used.connection_gbps is None else bytes_per_s(used.connection_gbps)
    return (
        bytes_per_s(link.capacity_gbps),
        limit,
        float(used.connections),
        stated.round_trip_ms / 2e3,
        bytes_per_s(used.background_gbps),
        float(used.background_connections),
        1.0,
        float(stated.destination_holds_prefix),
    )


def curve_table(curves: Sequence[Curve]) -> Floats:
    """Curves as one array of pieces: upper end, centre, four coefficients; short curves are filled up with their tail.

    >>> curve_table([Curve.affine(1.0, 2.0)]).shape
    (1, 2, 6)
    """
    most = max((len(c.coefficients) for c in curves), default=1)
    table = np.zeros((len(curves), most, 6))
    for i, curve in enumerate(curves):
        n = len(curve.coefficients)
        table[i, :n, 0] = [*curve.knots, inf]
        table[i, :n, 1] = [curve.knots[0], *curve.knots]
        table[i, :n, 2:] = curve.coefficients
        table[i, n:] = table[i, n - 1]
    return table


def _actors(n_instances: int, n_decoders: int, n_links: int, n_units: int, n_movers: int) -> Records:
    sizes = (n_instances, n_decoders, n_links, n_links, 1, 1, 1, 1, n_units, 1, n_movers)
    actors = np.zeros(sum(sizes), dtype=ACTOR)
    actors["place"] = NONE
    actors["index"] = np.concatenate([np.arange(n) for n in sizes])
    return actors


def _clock(n_instances: int, n_decoders: int, n_links: int, closed: int | None, max_retries: int) -> Records:
    clock = np.zeros(1, dtype=CLOCK)
    clock["first_decoder"] = n_instances
    clock["first_link"] = n_instances + n_decoders
    clock["first_delivery"] = n_instances + n_decoders + n_links
    clock["arrivals"] = n_instances + n_decoders + 2 * n_links
    clock["troubles"] = n_instances + n_decoders + 2 * n_links + 1
    clock["max_retries"] = max_retries
    clock["window_s"] = PEAK_WINDOW_S
    if closed is not None:
        clock["is_closed"], clock["n_due"] = 1, closed
    return clock
