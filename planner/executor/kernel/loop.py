"""The event loop: the router, and one event after another in the order of time.

Python calls `start` and `advance`, by their machine code.
"""

from planner.executor.compiled import compiled, compiled_extra, compiled_within
from planner.executor.kernel.admission import admit_request, fetched
from planner.executor.kernel.cache import keep
from planner.executor.kernel.conversion import is_ready
from planner.executor.kernel.decode import arrive_at_decode, finish_steps
from planner.executor.kernel.departures import count_inside, think
from planner.executor.kernel.event_queue import cancel, schedule
from planner.executor.kernel.faults import drop_stranded, strike
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
    PASS_END,
    PASS_OPENS,
    READY,
    REBALANCE,
    STEP_END,
    World,
)
from planner.executor.kernel.reference import by_reference
from planner.executor.kernel.samples import sample
from planner.executor.kernel.scheduler import decide, look


def start(world: World) -> None:
    """Schedule the first arrival, or that of every user, and the first fault."""
    w = by_reference(world)
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


def advance(world: World, n_events: int) -> bool:
    """Let so many events happen; whether any is left to come.

    It ends with the last request, or when nothing can ever happen to those that are left.
    """
    w = by_reference(world)
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
def handle_event(w: World, kind: int, index: int) -> None:
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
        control(w, kind, index)


@compiled_extra(None)
def control(w: World, kind: int, index: int) -> None:
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
def arrivals(w: World, user: int) -> None:
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
def arrive(w: World) -> None:
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
def observe_arrival(w: World, r: int) -> None:
    """Let the scheduler see the uncached length of a request that arrives."""
    uncached = w.requests[r].prompt_tokens - w.requests[r].cached_tokens
    record_arrival(w.scheduler, w.bins, uncached, w.base_thresholds[w.requests[r].request_class])


@compiled_extra(None, "separate", is_apart=False)
def deliver(w: World, k: int) -> None:
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
def arrive_from_afar(w: World, r: int) -> None:
    """A prompt's cache is at the decode site, which keeps its full blocks, and the state where it ends with a block."""
    request = w.requests[r]
    if not request.first_token_s >= 0:
        request.kv_end_s = w.clock[0].now_s
    if w.cache_rule[0].is_on == 1:
        is_aligned = request.prompt_tokens % w.cache_rule[0].block_tokens == 0
        keep(w, w.decode_pools[w.routes[request.route].decode_pool].site, r, request.prompt_tokens, is_aligned)
    arrive_at_decode(w, r)
