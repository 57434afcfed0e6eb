"""The event loop: the router, and one event after another in the order of time.

Python calls `start` and `advance`, by their machine code.

The state by reference: compiled functions hand on one pointer, not the hundreds of numbers that its arrays are.

numba passes a tuple of arrays as the pointer, size and strides of each, packed and unpacked at every call: that was
most of what there was to compile. Where the arrays lie never changes in a run, so that what is read through the pointer
may be kept in registers as before; the loads say so.
"""

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model

from planner.executor.compiled import compiled, compiled_apart, compiled_extra, compiled_within
from planner.executor.kernel.admission import admit_request, fetched
from planner.executor.kernel.cache import keep
from planner.executor.kernel.conversion import is_ready
from planner.executor.kernel.decode import arrive_at_decode, finish_steps
from planner.executor.kernel.departures import count_inside, think
from planner.executor.kernel.event_queue import cancel, schedule
from planner.executor.kernel.faults import drop_stranded, strike
from planner.executor.kernel.link import settle
from planner.executor.kernel.lists import pop
from planner.executor.kernel.mixed import finish_mixed, start_mixed
from planner.executor.kernel.observe import record_arrival
from planner.executor.kernel.prefill import finish_pass, link_changes, open_transfers
from planner.executor.kernel.rebalance import moved, rebalance
from planner.executor.kernel.records import (
    ARRIVAL,
    DECISION,
    DELIVERY,
    FAULT,
    LINK_CHANGE,
    LOOK,
    MIXED_BEGIN,
    MIXED_END,
    MOVED,
    NONE,
    PASS_END,
    PASS_OPENS,
    READY,
    REBALANCE,
    STEP_END,
    Numbers,
)
from planner.executor.kernel.roles import count_roles
from planner.executor.kernel.scheduler import decide, look
from planner.executor.kernel.state import SimulationState


def start(state: SimulationState) -> None:
    """Schedule the first arrival, or that of every user, and the first fault."""
    w = by_reference(state)
    for user in range(w.clock[0].n_users):
        think(w, user)
    if w.requests.shape[0] > 0 and w.clock[0].n_users == 0:
        schedule(w, w.clock[0].arrivals, ARRIVAL, w.requests[0].arrival_s)
    if w.faults.shape[0] > 0:
        schedule(w, w.clock[0].fault_actor, FAULT, w.faults[0].time_s)
    if w.scheduler[0].is_short_term == 1:
        schedule(w, w.scheduler[0].look, LOOK, w.scheduler[0].interval_s)
    if w.scheduler[0].is_long_term == 1:
        schedule(w, w.scheduler[0].decision, DECISION, w.scheduler[0].decision_interval_s)
    if w.rebalancer[0].is_on == 1:
        schedule(w, w.rebalancer[0].actor, REBALANCE, w.rebalancer[0].interval_s)


def advance(state: SimulationState, n_events: int) -> bool:
    """Let so many events happen; whether any is left to come.

    It ends with the last request, or when nothing can ever happen to those that are left.
    """
    w = by_reference(state)
    clock, n = w.clock[0], w.requests.shape[0]
    for _ in range(n_events):
        if clock.n_finished + clock.n_dropped == n:
            return False
        if clock.n_scheduled == 0:
            drop_stranded(w)
            return False
        actor = w.heap[0]
        if w.actors[actor].time_s < clock.now_s:
            clock.violations += 1
        clock.now_s = w.actors[actor].time_s
        clock.n_events += 1
        cancel(w, actor)
        handle_event(w, w.actors[actor].kind, w.actors[actor].index)
    return True


@compiled_within
def handle_event(w: SimulationState, kind: int, index: int) -> None:
    """One event."""
    if kind == ARRIVAL:
        arrivals(w, index)
    elif kind == PASS_END:
        finish_pass(w, index)
    elif kind == PASS_OPENS:
        open_transfers(w, index)
    elif kind == LINK_CHANGE:
        link_changes(w, index)
    elif kind == DELIVERY:
        deliver(w, index)
    elif kind == STEP_END:
        finish_steps(w, index)
    elif kind == MIXED_END:
        finish_mixed(w, index)
    elif kind == MIXED_BEGIN:
        start_mixed(w, index)
    elif kind == FAULT:
        strike(w)
    else:
        run_scheduler(w, kind, index)


@compiled_extra(None)
def run_scheduler(w: SimulationState, kind: int, index: int) -> None:
    """An event of the scheduler, or of the rebalancing of caches."""
    if kind == LOOK:
        look(w)
    elif kind == DECISION:
        decide(w)
    elif kind == READY:
        is_ready(w, index)
    elif kind == REBALANCE:
        rebalance(w)
    elif kind == MOVED:
        moved(w, index)


@compiled
def arrivals(w: SimulationState, user: int) -> None:
    """The next request arrives, in a closed loop that of a user."""
    clock = w.clock[0]
    if clock.n_users > 0:
        w.requests[clock.next_arrival].arrival_s = clock.now_s
        w.requests[clock.next_arrival].user = user
        arrive(w)
        return
    arrive(w)
    if clock.next_arrival < w.requests.shape[0]:
        schedule(w, clock.arrivals, ARRIVAL, w.requests[clock.next_arrival].arrival_s)


@compiled
def arrive(w: SimulationState) -> None:
    """Let the next request in and route it."""
    clock = w.clock[0]
    r = clock.next_arrival
    while clock.next_sample < w.sample_at.shape[0] and w.sample_at[clock.next_sample] <= r:
        sample(w, clock.next_sample)
        clock.next_sample += 1
    clock.next_arrival += 1
    count_inside(w, 1)
    w.requests[r].prompt_tokens = w.requests[r].total_tokens
    w.requests[r].steps_left = w.requests[r].output_tokens - 1 + w.requests[r].extra_steps
    admit_request(w, r)
    if w.scheduler[0].is_on == 1:
        observe_arrival(w, r)


@compiled_extra(None)
def observe_arrival(w: SimulationState, r: int) -> None:
    """Let the scheduler see the uncached length of a request that arrives."""
    uncached = w.requests[r].prompt_tokens - w.requests[r].cached_tokens
    record_arrival(w.scheduler, w.bins, uncached, w.base_thresholds[w.requests[r].request_class])


@compiled_extra(None, "separate", is_apart=False)
def deliver(w: SimulationState, k: int) -> None:
    """The last byte of a request's cache arrives."""
    r = pop(w.requests, w.deliveries[k])
    if w.requests[r].is_fetching == 1:
        fetched(w, r)
    else:
        arrive_from_afar(w, r)
    if w.deliveries[k].n > 0:
        head = w.deliveries[k].first
        schedule(w, w.clock[0].first_delivery + k, DELIVERY, w.requests[head].due_s)


@compiled
def arrive_from_afar(w: SimulationState, r: int) -> None:
    """A prompt's cache is at the decode site, which keeps its full blocks, and the state where it ends with a block."""
    request = w.requests[r]
    if not request.first_token_s >= 0:
        request.kv_end_s = w.clock[0].now_s
    if w.cache_rule[0].is_on == 1:
        is_aligned = request.prompt_tokens % w.cache_rule[0].block_tokens == 0
        keep(w, w.decode_pools[w.routes[request.route].decode_pool].site, r, request.prompt_tokens, is_aligned)
    arrive_at_decode(w, r)


class StateReference(types.Type):
    """Pointer to a state that stays where it is."""

    def __init__(self, state: Any) -> None:
        self.state = state
        super().__init__(name=f"reference({state.name})")

    def field(self, name: str) -> Any:
        """Type of a field."""
        return self.state.types[self.state.fields.index(name)]


@register_model(StateReference)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, known: StateReference) -> None:
        super().__init__(manager, known, manager[known.state].get_value_type().as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):
    key = StateReference

    def _resolve(self, known: StateReference, name: str) -> Any:
        return known.field(name) if name in known.state.fields else None

    generic_resolve = cast(Any, _resolve)


@lower_getattr_generic(StateReference)
def _field(_: Any, builder: Any, known: StateReference, pointer: Any, name: str) -> Any:
    """A field, read number by number."""
    place = cgutils.gep_inbounds(builder, pointer, 0, known.state.fields.index(name))
    return _loaded(builder, place)


def _loaded(builder: Any, place: Any) -> Any:
    """The value at a place that is never written again."""
    kind = place.type.pointee
    if isinstance(kind, ir.LiteralStructType | ir.ArrayType):
        value = ir.Constant(kind, ir.Undefined)
        for i in range(len(kind)):
            value = builder.insert_value(value, _loaded(builder, cgutils.gep_inbounds(builder, place, 0, i)), i)
        return value
    found = builder.load(place)
    found.set_metadata("invariant.load", builder.module.add_metadata([]))
    return found


def _by_reference(_: Any, state: Any) -> Any:
    def pointer(_: Any, builder: Any, __: Any, given: Any) -> Any:
        place = cgutils.alloca_once(builder, given[0].type)
        builder.store(given[0], place)
        return place

    return StateReference(state)(state), pointer


by_reference = cast(Callable[[SimulationState], SimulationState], intrinsic(_by_reference))
"""A state as the functions of the event loop hand it on; it stays where it is as long as the caller runs."""


@compiled_apart
def sample(w: SimulationState, row: int) -> None:
    """Columns: time, requests inside, their time integral, finished; of each prefill pool waiting, busy and busy
    seconds; of each decode pool waiting, batch, tokens and sequence-seconds, of a colocated one who was admitted and no
    tokens; of the scheduler its factor on the
    thresholds, units in prefill and in decode, and unit-seconds in either; of each link transfers and bytes.
    """
    clock, out = w.clock[0], w.samples[row]
    out[0], out[1], out[3] = clock.now_s, clock.n_inside, clock.n_finished
    out[2] = clock.inside_s + clock.n_inside * (clock.now_s - clock.changed_s)
    at = 4
    for p in range(w.pools.shape[0]):
        out[at], out[at + 1], out[at + 2] = w.pools[p].n_waiting, 0.0, 0.0
        if w.pools[p].colocated != NONE:
            sample_passes(w, w.pools[p].colocated, out, at)
        for i in range(w.pools[p].first, w.pools[p].first + w.pools[p].n):
            instance = w.instances[i]
            out[at + 1] += instance.is_busy
            out[at + 2] += instance.busy_s + (clock.now_s - instance.pass_start_s if instance.is_busy == 1 else 0.0)
        at += 3
    for p in range(w.decode_pools.shape[0]):
        out[at], out[at + 1], out[at + 2], out[at + 3] = w.decode_queues[p].n, 0.0, 0.0, 0.0
        if w.decode_pools[p].colocated != NONE:
            sample_batches(w, w.decode_pools[p].colocated, out, at)
        for d in range(w.decode_pools[p].first, w.decode_pools[p].first + w.decode_pools[p].n):
            decoder = w.decoders[d]
            passed_s = clock.now_s - decoder.anchor_s if decoder.batch > 0 else 0.0
            out[at + 1] += decoder.batch + decoder.n_joining
            out[at + 2] += decoder.n_tokens
            out[at + 3] += decoder.slot_s + decoder.batch * passed_s
        at += 4
    control = w.scheduler[0]
    count_roles(w.scheduler, clock.now_s)
    out[at], out[at + 1], out[at + 2] = control.factor, control.n_prefill, control.n_decode
    out[at + 3], out[at + 4] = control.prefill_s, control.decode_s
    at += 5
    for k in range(w.links.shape[0]):
        settle(w, k)
        out[at], out[at + 1] = w.links[k].n_flows, w.links[k].sent_bytes
        at += 2


@compiled_extra(None, "mixes")
def sample_passes(w: SimulationState, c: int, out: Numbers, at: int) -> None:
    """Instances of a colocated pool in a pass, and seconds of passes of all."""
    for i in range(w.colocated_pools[c].first, w.colocated_pools[c].first + w.colocated_pools[c].n):
        instance = w.colocated[i]
        out[at + 1] += instance.in_pass
        out[at + 2] += instance.busy_s - (instance.end_s - w.clock[0].now_s if instance.in_pass == 1 else 0.0)


@compiled_extra(None, "mixes")
def sample_batches(w: SimulationState, c: int, out: Numbers, at: int) -> None:
    """Who waits for a colocated pool, who is in its batches, and sequence-seconds in them."""
    pool = w.colocated_pools[c]
    out[at], out[at + 1] = w.pools[pool.door].n_waiting, pool.n_admitted
    out[at + 3] = pool.slot_s + pool.n_admitted * (w.clock[0].now_s - pool.changed_s)
