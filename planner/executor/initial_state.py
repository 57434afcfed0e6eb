"""From a system to the records that the event loop runs on."""

from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.curves import Curve
from planner.executor.cache_pools import cache_fields, no_caches
from planner.executor.compilation import ABOUT_S, machine_code
from planner.executor.control import idle_control, scheduler_fields, units
from planner.executor.kernel.control_records import UNIT
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
    ROUTE,
    SHARED_QUEUE,
    SHORT_LINE,
    SHORTEST_WORK,
    SLOT,
    UP,
    Records,
)
from planner.executor.kernel.state import SimulationState
from planner.executor.passes import BatchingPool, colocated_fields
from planner.executor.prompt_blocks import PromptBlocks
from planner.executor.rebalancing import nothing_moved, rebalance_fields, stated_rebalance
from planner.executor.routes import route_table
from planner.executor.service import DecodeTimes
from planner.executor.systems import System
from planner.progress import FractionDone
from planner.results.plan import LinkPlan
from planner.roofline import BLOCK_TOKENS
from planner.scenario import LinkExecution
from planner.units import bytes_per_s

Floats = NDArray[np.float64]
DISPATCH = {"shared-queue": SHARED_QUEUE, "join-shortest-work": SHORTEST_WORK, "round-robin": ROUND_ROBIN}
PEAK_WINDOW_S = 1.0
"""A link's peak is the most it carries in a window of so long."""
N_SAMPLES = 512
EMPTY_QUEUE = (NONE, NONE, 0)
EVENTS_AT_ONCE = 250_000
ALL_S = 70
"""Seconds that compiling the loop with everything in it takes on one core of 2024."""


def simulation_state(
    plan: System,
    requests: Records,
    warm_up: int = 0,
    cool_down: int | None = None,
    users: int = 0,
    faults: Records | None = None,
    blocks: PromptBlocks | None = None,
) -> SimulationState:
    """The records of a run, nothing happened yet.

    Args:
        requests: the requests, in order of arrival; changed by the run.
        cool_down: requests up to the last that counts; all if not given.
        users: of a closed loop, who each send a request, wait until it has left, and think before the next, for as long
            as its `arrival_s` says; 0: requests arrive by themselves.
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
    batching = []
    for one in plan.colocated:
        mine = requests[plan.may_come(one, requests)]
        batching.append(one.batching(mine))
        decode_pools[one.way_out]["longest_tokens"] = one.longest_request(mine) - mine["output_tokens"].max(initial=1)
    actors = Actors(
        len(instances),
        len(decoders),
        len(links),
        sum(b.n_instances for b in batching),
        len(found),
        len(plan.links),
        users,
    )
    sample_at = _sample_at(n, warm_up, n if cool_down is None else cool_down)
    curves = [c for t in plan.prefill_times for c in (t.service.curve, t.wire_bytes, t.handoff_bytes, t.held_bytes)]
    most_batch = max((t.batch_limit for t in plan.decode_times), default=1)
    n_flows = max(len(instances), 1) * (execution.max_transfers + _prompts_in_a_pass(plan))
    return SimulationState(
        requests=requests,
        routes=routes,
        thresholds=plan.thresholds_tokens,
        **scheduler_fields(plan.scenario, plan.thresholds_tokens, pools, found, actors.first("scheduler")),
        pools=pools,
        instances=instances,
        queues=_filled(2 * max(len(instances), 1), QUEUE, EMPTY_QUEUE),
        decode_pools=decode_pools,
        decoders=decoders,
        decode_queues=_filled(len(decode_pools), QUEUE, EMPTY_QUEUE),
        step_s=_step_table(plan.decode_times),
        slots=np.zeros((len(decoders), most_batch), dtype=SLOT),
        **colocated_fields(batching, n, int(requests["output_tokens"].max(initial=1))),
        links=links,
        flows=np.zeros((len(links), (n if has_fetches else min(n_flows, n)) + 1), dtype=FLOW),
        deliveries=_filled(len(links), QUEUE, EMPTY_QUEUE),
        curves=curve_table(curves),
        faults=np.zeros(0, dtype=FAULT_RECORD) if faults is None else faults,
        **cache_fields(plan.scenario, plan.links, blocks),
        **rebalance_fields(plan.scenario, plan.prefill, plan.links, blocks, actors.first("rebalancer")),
        actors=actors.records,
        heap=np.zeros(len(actors.records), dtype=np.int32),
        clock=_clock(actors, execution.max_retries),
        sample_at=sample_at,
        samples=np.zeros((len(sample_at), sample_columns(plan, len(links)))),
        **_parts(not needs_no_extras(plan, faults), bool(batching), len(instances) + len(decoders) > 0),
    )


def colocated_state(
    requests: Records, pool: BatchingPool, users: int, faults: Records, max_retries: int
) -> SimulationState:
    """The records of a run of one colocated pool and nothing else, all requests of one class, nothing happened yet.

    Args:
        requests: in order of arrival; changed by the run.
        users: of a closed loop; 0: requests arrive by themselves.
    """
    doors, ways = np.zeros(1, dtype=POOL), np.zeros(1, dtype=DECODE_POOL)
    doors["n_up"], doors["longest_tokens"], ways["longest_tokens"] = pool.n_instances, inf, inf
    actors, thresholds = Actors(colocated=pool.n_instances, users=users), np.full(1, inf)
    return SimulationState(
        requests=requests,
        routes=np.array([(0, is_long, 0, NONE, 0, 1.0) for is_long in (0, 1)], dtype=ROUTE),
        thresholds=thresholds,
        **idle_control(thresholds, actors.first("scheduler")),
        pools=doors,
        instances=np.zeros(0, dtype=INSTANCE),
        queues=_filled(2, QUEUE, EMPTY_QUEUE),
        decode_pools=ways,
        decoders=np.zeros(0, dtype=DECODER),
        decode_queues=_filled(1, QUEUE, EMPTY_QUEUE),
        step_s=np.ones((1, 1, 2)),
        slots=np.zeros((0, 1), dtype=SLOT),
        **colocated_fields([pool], len(requests), int(np.max(requests["output_tokens"], initial=1))),
        links=np.zeros(0, dtype=LINK),
        flows=np.zeros((0, 1), dtype=FLOW),
        deliveries=_filled(0, QUEUE, EMPTY_QUEUE),
        curves=np.zeros((0, 1, 6)),
        faults=faults,
        **no_caches(),
        **nothing_moved(actors.first("rebalancer")),
        actors=actors.records,
        heap=np.zeros(len(actors.records), dtype=np.int32),
        clock=_clock(actors, max_retries),
        sample_at=np.zeros(0, dtype=np.int64),
        samples=np.zeros((0, 1)),
        **_parts(len(faults) > 0, True, False),
    )


def run_to_end(w: SimulationState, progress: FractionDone = lambda _: None) -> None:
    """Let every event happen; now and then say how far the arrivals are."""
    from planner.executor.kernel.loop import advance, start  # takes its time to load

    begin, go_on = machine_code({start: (w,), advance: (w, 0)}, ABOUT_S if w.extras is None else ALL_S)
    begin(w)
    while go_on(w, EVENTS_AT_ONCE):
        progress(int(w.clock[0]["n_finished"]) / max(len(w.requests), 1))


def needs_no_extras(plan: System, faults: Records | None) -> bool:
    """True if nothing fails, is cached, is watched by a scheduler, or changes its role."""
    execution = plan.scenario.execution
    is_watched = execution.scheduler.is_on or plan.converts
    return execution.cache is None and not is_watched and (faults is None or len(faults) == 0)


def _parts(has_extras: bool, has_batching: bool, is_separate: bool) -> dict[str, Any]:
    """The parts of the loop that a state needs: pools of one role, passes that mix, both, or all that there is."""
    return {
        "extras": 0 if has_extras else None,
        "mixes": 0 if has_extras or has_batching else None,
        "separate": 0 if has_extras or is_separate else None,
    }


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
        pool["room_block_tokens"], pool["longest_tokens"], pool["colocated"] = BLOCK_TOKENS, inf, NONE
        if times.room is not None:
            pool["is_limited"], pool["room_bytes"] = 1, int(times.room.memory_bytes / places)
            pool["longest_tokens"] = times.room.longest_tokens
        pool["floor_s"] = times.service.floor_s
        pool["line"] = LONG_LINE if spec.prompts == "long" else SHORT_LINE
        first += n
    for c, one in enumerate(plan.colocated):
        pools[one.way_in]["colocated"], pools[one.way_in]["n_up"] = c, one.pool.n_instances
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
        pools[p] = (first, n, sites.index(spec.site), times.batch_limit, *memory, NONE, inf)
        first += n
    for c, one in enumerate(plan.colocated):
        pools[one.way_out]["colocated"] = c
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


class Actors(NamedTuple):
    """Number of those that have events, of every kind, in the order of their numbers."""

    instances: int = 0
    decoders: int = 0
    links: int = 0
    colocated: int = 0
    units: int = 0
    movers: int = 0
    users: int = 0

    @property
    def sizes(self) -> dict[str, int]:
        """Actors by kind, in order: a link changes and delivers, a scheduler looks and decides."""
        return {
            "instances": self.instances,
            "decoders": self.decoders,
            "links": self.links,
            "deliveries": self.links,
            "colocated": self.colocated,
            "arrivals": 1,
            "faults": 1,
            "scheduler": 1,
            "decisions": 1,
            "units": self.units,
            "rebalancer": 1,
            "movers": self.movers,
            "users": self.users,
        }

    def first(self, kind: str) -> int:
        """Number of the first of a kind."""
        kinds = list(self.sizes)
        return sum(self.sizes[other] for other in kinds[: kinds.index(kind)])

    @property
    def records(self) -> Records:
        """All of them, none with an event."""
        actors = np.zeros(sum(self.sizes.values()), dtype=ACTOR)
        actors["place"] = NONE
        actors["index"] = np.concatenate([np.arange(n) for n in self.sizes.values()])
        return actors


def _clock(actors: Actors, max_retries: int) -> Records:
    clock = np.zeros(1, dtype=CLOCK)
    for field, kind in (
        ("first_decoder", "decoders"),
        ("first_link", "links"),
        ("first_delivery", "deliveries"),
        ("first_colocated", "colocated"),
        ("arrivals", "arrivals"),
        ("fault_actor", "faults"),
    ):
        clock[field] = actors.first(kind)
    clock["max_retries"] = max_retries
    clock["window_s"] = PEAK_WINDOW_S
    clock["n_users"], clock["first_user"] = actors.users, actors.first("users")
    return clock
