"""Faults: instances that crash, restart or slow down, links that fail or carry others, and what becomes of requests."""

from planner.executor.compiled import compiled_apart, compiled_extra, compiled_within
from planner.executor.kernel.admission import admit_request
from planner.executor.kernel.batch import count_admitted, stop_decoding
from planner.executor.kernel.cache import end_transfer
from planner.executor.kernel.decode import admit_waiting, catch_up, reschedule, schedule_completion
from planner.executor.kernel.departures import drop
from planner.executor.kernel.event_queue import cancel, schedule
from planner.executor.kernel.link import count_capacity, remove_transfer, settle, share_link
from planner.executor.kernel.lists import pop, take_out
from planner.executor.kernel.prefill import arrive_at_prefill, wake
from planner.executor.kernel.rebalance import give_up
from planner.executor.kernel.records import (
    BACKGROUND,
    CRASH,
    DECODE_CRASH,
    DECODE_RESTART,
    DECODE_SLOW,
    DECODES,
    DOWN,
    DROPPED,
    FAULT,
    FINISHED,
    LEAVES,
    LINK_HEALTH,
    MIXED_BEGIN,
    MIXED_CRASH,
    MIXED_RESTART,
    MIXED_SLOW,
    NONE,
    PREFILLS,
    RESTART,
    SHARED_QUEUE,
    SLOW,
    STRANDED,
    TOO_OFTEN,
    UP,
    WARMS,
    Record,
)
from planner.executor.kernel.roles import enter_role, leave_role
from planner.executor.kernel.state import SimulationState


@compiled_extra(None)
def strike(w: SimulationState) -> None:
    """The next fault."""
    clock = w.clock[0]
    fault = w.faults[clock.next_fault]
    clock.next_fault += 1
    if clock.next_fault < w.faults.shape[0]:
        schedule(w, clock.fault_actor, FAULT, w.faults[clock.next_fault].time_s)
    if strike_unit(w, fault.kind, fault.index, fault.value):
        return
    if fault.kind == CRASH:
        crash(w, fault.index)
    elif fault.kind == RESTART:
        restart(w, fault.index)
    elif fault.kind == SLOW:
        w.instances[fault.index].slowdown = fault.value  # of what begins from now on
    elif fault.kind == LINK_HEALTH or fault.kind == BACKGROUND:
        change_link(w, fault.index, fault.kind == LINK_HEALTH, fault.value)
    elif fault.kind >= MIXED_CRASH:
        strike_mixed(w, fault.kind, fault.index, fault.value)
    else:
        strike_decode(w, fault.kind, fault.index, fault.value)


@compiled_within
def strike_unit(w: SimulationState, kind: int, index: int, value: float) -> bool:
    """Strike the unit that a fault is of, whatever role it has now; False if it is of none that may change its role."""
    if w.units.shape[0] == 0 or kind >= LINK_HEALTH:
        return False
    is_prefill = kind in (CRASH, RESTART, SLOW)
    u = w.instances[index].unit if is_prefill else w.decoders[index].unit
    if u == NONE:
        return False
    if kind in (CRASH, DECODE_CRASH):
        crash_unit(w, u)
    elif kind in (RESTART, DECODE_RESTART):
        restart_unit(w, u)
    else:
        w.instances[w.units[u].instance].slowdown = value
        slow_decode(w, w.units[u].decoder, value)
    return True


@compiled_within
def crash_unit(w: SimulationState, u: int) -> None:
    """A unit is gone; one that was changing its role has nothing left to drain, and comes back in the new one."""
    unit = w.units[u]
    if unit.is_down == 1:
        return
    unit.is_down = 1
    if unit.state == WARMS:
        cancel(w, w.scheduler[0].first_unit + u)
        enter_role(w.units, w.scheduler, u, w.clock[0].now_s)
        return
    if unit.is_decode == 1:
        crash_decode(w, unit.decoder)
    else:
        crash(w, unit.instance)
    if unit.state == LEAVES:
        leave_role(w.units, w.scheduler, u, w.clock[0].now_s)
        enter_role(w.units, w.scheduler, u, w.clock[0].now_s)


@compiled_within
def restart_unit(w: SimulationState, u: int) -> None:
    """A unit is back, and empty."""
    unit = w.units[u]
    if unit.is_down == 0:
        return
    unit.is_down, w.instances[unit.instance].slowdown = 0, 1.0
    serve(w, u)


@compiled_apart
def serve(w: SimulationState, u: int) -> None:
    """A unit takes work in its role; what waited for instances of the other role goes to it as well."""
    unit = w.units[u]
    if unit.is_decode == 1:
        w.decoders[unit.decoder].is_up = UP
        admit_waiting(w, unit.decoder)
        schedule_completion(w, unit.decoder)
        return
    pool, slowdown = w.pools[w.instances[unit.instance].pool], w.instances[unit.instance].slowdown
    restart(w, unit.instance)
    w.instances[unit.instance].slowdown = slowdown
    if pool.dispatch != SHARED_QUEUE:
        for other in range(pool.first, pool.first + pool.n):
            if w.instances[other].is_up != UP:
                reassign(w, other)


@compiled_apart
def strike_decode(w: SimulationState, kind: int, d: int, value: float) -> None:
    """A fault of a decode instance."""
    if kind == DECODE_CRASH:
        crash_decode(w, d)
    elif kind == DECODE_RESTART and w.decoders[d].is_up == DOWN:
        w.decoders[d].is_up = UP
        admit_waiting(w, d)
        schedule_completion(w, d)
    elif kind == DECODE_SLOW:
        slow_decode(w, d, value)


@compiled_apart
def slow_decode(w: SimulationState, d: int, value: float) -> None:
    """Steps of a decode instance take another time from the one on that is under way."""
    catch_up(w, d)
    w.decoders[d].slowdown = value
    reschedule(w, d)


@compiled_apart
def change_link(w: SimulationState, k: int, is_health: bool, value: float) -> None:
    """A link has another part of its bandwidth, or other traffic."""
    settle(w, k)
    count_capacity(w.links, k, w.clock[0].now_s)
    if is_health:
        w.links[k].health = value
        if value <= 0 and w.links[k].is_moving == 1:
            give_up(w, k)
    else:
        w.links[k].background_bytes_per_s = value
    share_link(w, k)


@compiled_apart
def crash(w: SimulationState, i: int) -> None:
    """A prefill instance is gone, with the prompts it computes and the caches it has not sent."""
    instance, pool = w.instances[i], w.pools[w.instances[i].pool]
    if instance.is_up == DOWN:
        return
    was_up = 1 if instance.is_up == UP else 0  # else it drained, and counts as neither up nor idle
    instance.is_up = DOWN
    pool.n_up -= was_up
    if instance.is_busy == 1:
        cancel(w, i)
        instance.busy_s += w.clock[0].now_s - instance.pass_start_s
        instance.is_busy = 0
    elif pool.dispatch == SHARED_QUEUE:
        pool.n_idle -= was_up
    r = instance.first
    instance.first, instance.last, instance.free_at_s = NONE, NONE, 0.0
    while r != NONE:
        following = w.requests[r].next
        if w.requests[r].flow == NONE:
            retry(w, r)
        r = following
    lose_flows(w, i)
    if pool.dispatch != SHARED_QUEUE:
        reassign(w, i)


@compiled_apart
def lose_flows(w: SimulationState, i: int) -> None:
    """Transfers of an instance break off."""
    instance = w.instances[i]
    for k in range(w.links.shape[0]):
        settle(w, k)
        f, is_changed = 0, False
        while f < w.links[k].n_flows:
            r = w.flows[k, f].request
            if w.requests[r].instance == i:
                remove_transfer(w, k, f)
                is_changed = True
                retry(w, r)
            else:
                f += 1
        if is_changed:
            share_link(w, k)
    instance.n_transfers, instance.used_bytes = 0, 0


@compiled_apart
def reassign(w: SimulationState, i: int) -> None:
    """Requests that waited for an instance alone go to the others of its pool."""
    for q in (2 * i, 2 * i + 1):
        for _ in range(w.queues[q].n):
            r = pop(w.requests, w.queues[q])
            w.pools[w.instances[i].pool].n_waiting -= 1
            arrive_at_prefill(w, w.instances[i].pool, r)


@compiled_apart
def restart(w: SimulationState, i: int) -> None:
    """A prefill instance is back, and empty."""
    instance, pool = w.instances[i], w.pools[w.instances[i].pool]
    if instance.is_up != DOWN:
        return
    instance.is_up, instance.slowdown = UP, 1.0
    pool.n_up += 1
    if pool.dispatch == SHARED_QUEUE:
        pool.n_idle += 1
    wake(w, i)


@compiled_apart
def crash_decode(w: SimulationState, d: int) -> None:
    """A decode instance is gone with the caches it held: its requests are prefilled again, what they have included."""
    decoder = w.decoders[d]
    if decoder.is_up == DOWN:
        return
    catch_up(w, d)
    cancel(w, w.clock[0].first_decoder + d)
    decoder.is_up = DOWN
    n_batch, r = decoder.batch, decoder.first
    decoder.batch, decoder.n_joining, decoder.first, decoder.last = 0, 0, NONE, NONE
    decoder.used_bytes, decoder.context_tokens = 0.0, 0.0
    for place in range(n_batch):
        slot = w.slots[d, place]
        left = slot.end_step - decoder.n_steps
        w.requests[slot.request].prompt_tokens += w.requests[slot.request].steps_left - left
        w.requests[slot.request].steps_left = left
        retry(w, slot.request)
    while r != NONE:
        following = w.requests[r].next
        retry(w, r)
        r = following


@compiled_extra(None, "mixes")
def strike_mixed(w: SimulationState, kind: int, i: int, value: float) -> None:
    """A fault of a colocated instance."""
    instance = w.colocated[i]
    if kind == MIXED_CRASH:
        crash_mixed(w, i)
    elif kind == MIXED_RESTART and instance.is_down == 1:
        instance.is_down, instance.slowdown, instance.host_free_s = 0, 1.0, w.clock[0].now_s
        w.pools[w.colocated_pools[instance.pool].door].n_up += 1
        schedule(w, w.clock[0].first_colocated + i, MIXED_BEGIN, w.clock[0].now_s)
    elif kind == MIXED_SLOW:
        instance.slowdown = value  # of passes that begin from now on


@compiled_apart
def crash_mixed(w: SimulationState, i: int) -> None:
    """A colocated instance is gone with the caches that it held, in the midst of its pass.

    Those that were admitted go first, then those that waited.
    """
    instance = w.colocated[i]
    if instance.is_down == 1:
        return
    if instance.in_pass == 1:
        instance.busy_s -= instance.end_s - w.clock[0].now_s
    cancel(w, w.clock[0].first_colocated + i)
    w.pools[w.colocated_pools[instance.pool].door].n_up -= 1
    instance.is_down, instance.in_pass, instance.n_inside, instance.n_unseen, instance.host_free_s = 1, 0, 0, 0, 0.0
    for k in range(instance.first, instance.first + instance.n):
        empty(w, k, w.colocated_pools[instance.pool])
    while instance.inbox.n > 0:
        r = instance.inbox.first
        take_out(w.sequences, instance.inbox, r)
        send_back(w, r, w.colocated_pools[instance.pool])


@compiled_apart
def empty(w: SimulationState, k: int, rules: Record) -> None:
    """A replica loses all that it holds."""
    replica, r = w.replicas[k], w.replicas[k].admitted.first
    while r != NONE:
        if w.requests[r].state == DECODES:
            stop_decoding(w, k, r)
        r = w.sequences[r].after
    r = replica.admitted.first
    for chain in (replica.admitted, replica.prompts):
        chain.first, chain.last, chain.n = NONE, NONE, 0
    replica.partial, replica.is_decoding = NONE, 0
    replica.used_tokens, replica.context_tokens, replica.pass_tokens, replica.pass_keys = 0.0, 0.0, 0.0, 0.0
    while r != NONE:
        following = w.sequences[r].after
        count_admitted(w, rules, -1)
        send_back(w, r, rules)
        r = following
    while replica.waiting.n > 0:
        send_back(w, pop(w.requests, replica.waiting), rules)


@compiled_apart
def send_back(w: SimulationState, r: int, rules: Record) -> None:
    """A request has lost its instance: with a cache there it starts again, else it has lost nothing but its place.

    The tokens that it has made are part of its prompt.
    """
    request, sequence = w.requests[r], w.sequences[r]
    w.pools[rules.door].n_waiting -= 1
    has_cache = request.state == PREFILLS or request.state == DECODES
    has_cache = has_cache or (sequence.is_standing == 1 and sequence.is_begun == 0)
    if sequence.is_begun == 1:
        request.prompt_tokens += sequence.made_tokens
        request.steps_left -= sequence.made_tokens
    sequence.is_standing, sequence.chunk_tokens = 0, 0
    if has_cache:
        retry(w, r)
    else:
        admit_request(w, r)


@compiled_apart
def retry(w: SimulationState, r: int) -> None:
    """Start a request again, or drop it if that has happened too often."""
    request = w.requests[r]
    request.n_retries += 1
    request.flow, request.next = NONE, NONE
    end_transfer(w, r)
    if request.n_retries > w.clock[0].max_retries:
        drop(w, r, TOO_OFTEN)
        return
    admit_request(w, r)


@compiled_apart
def drop_stranded(w: SimulationState) -> None:
    """Nothing can ever happen again: who is not finished never will be."""
    for r in range(w.requests.shape[0]):
        if w.requests[r].state != FINISHED and w.requests[r].state != DROPPED:
            drop(w, r, STRANDED)
