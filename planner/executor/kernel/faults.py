"""Faults: instances that crash, restart or slow down, links that fail or carry others, and what becomes of requests."""

from planner.executor.compiled import compiled_apart, compiled_extra, compiled_within
from planner.executor.kernel.admission import admit_request
from planner.executor.kernel.cache import end_transfer
from planner.executor.kernel.calendar import plan, unplan
from planner.executor.kernel.decode import admit, catch_up, count_inside, plan_again, plan_steps, release
from planner.executor.kernel.link import count_capacity, remove_flow, settle, share
from planner.executor.kernel.lists import pop
from planner.executor.kernel.prefill import arrive_at_prefill, wake
from planner.executor.kernel.rebalance import give_up
from planner.executor.kernel.records import (
    BACKGROUND,
    CRASH,
    DECODE_CRASH,
    DECODE_RESTART,
    DECODE_SLOW,
    DOWN,
    DROPPED,
    FAULT,
    FINISHED,
    LEAVES,
    LINK_HEALTH,
    NONE,
    RESTART,
    SHARED_QUEUE,
    SLOW,
    STRANDED,
    TOO_OFTEN,
    UP,
    WARMS,
    World,
)
from planner.executor.kernel.roles import enter_role, leave_role


@compiled_extra(None)
def happens(w: World) -> None:
    """The next fault."""
    clock = w.clock[0]
    fault = w.faults[clock.next_fault]
    clock.next_fault += 1
    if clock.next_fault < w.faults.shape[0]:
        plan(w, clock.troubles, FAULT, w.faults[clock.next_fault].time_s)
    if happens_to_unit(w, fault.kind, fault.index, fault.value):
        return
    if fault.kind == CRASH:
        crash(w, fault.index)
    elif fault.kind == RESTART:
        restart(w, fault.index)
    elif fault.kind == SLOW:
        w.instances[fault.index].slowdown = fault.value  # of what begins from now on
    elif fault.kind == LINK_HEALTH or fault.kind == BACKGROUND:
        change_link(w, fault.index, fault.kind == LINK_HEALTH, fault.value)
    else:
        trouble_decode(w, fault.kind, fault.index, fault.value)


@compiled_within
def happens_to_unit(w: World, kind: int, index: int, value: float) -> bool:
    """Whether a fault is that of a unit that may change its role: it strikes the unit, whichever role that has now."""
    if w.units.shape[0] == 0 or kind in (LINK_HEALTH, BACKGROUND):
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
def crash_unit(w: World, u: int) -> None:
    """A unit is gone; one that was changing its role has nothing left to drain, and comes back in the new one."""
    unit = w.units[u]
    if unit.is_down == 1:
        return
    unit.is_down = 1
    if unit.state == WARMS:
        unplan(w, w.scheduler[0].first_unit + u)
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
def restart_unit(w: World, u: int) -> None:
    """A unit is back, and empty."""
    unit = w.units[u]
    if unit.is_down == 0:
        return
    unit.is_down, w.instances[unit.instance].slowdown = 0, 1.0
    serve(w, u)


@compiled_apart
def serve(w: World, u: int) -> None:
    """A unit takes work in its role; what waited for instances of the other role goes to it as well."""
    unit = w.units[u]
    if unit.is_decode == 1:
        w.decoders[unit.decoder].is_up = UP
        admit(w, unit.decoder)
        plan_steps(w, unit.decoder)
        return
    pool, slowdown = w.pools[w.instances[unit.instance].pool], w.instances[unit.instance].slowdown
    restart(w, unit.instance)
    w.instances[unit.instance].slowdown = slowdown
    if pool.dispatch != SHARED_QUEUE:
        for other in range(pool.first, pool.first + pool.n):
            if w.instances[other].is_up != UP:
                hand_on(w, other)


@compiled_apart
def trouble_decode(w: World, kind: int, d: int, value: float) -> None:
    """A fault of a decode instance."""
    if kind == DECODE_CRASH:
        crash_decode(w, d)
    elif kind == DECODE_RESTART and w.decoders[d].is_up == DOWN:
        w.decoders[d].is_up = UP
        admit(w, d)
        plan_steps(w, d)
    elif kind == DECODE_SLOW:
        slow_decode(w, d, value)


@compiled_apart
def slow_decode(w: World, d: int, value: float) -> None:
    """Steps of a decode instance take another time from the one on that is under way."""
    catch_up(w, d)
    w.decoders[d].slowdown = value
    plan_again(w, d)


@compiled_apart
def change_link(w: World, k: int, is_health: bool, value: float) -> None:
    """A link has another part of its bandwidth, or other traffic."""
    settle(w, k)
    count_capacity(w.links, k, w.clock[0].now_s)
    if is_health:
        w.links[k].health = value
        if value <= 0 and w.links[k].is_moving == 1:
            give_up(w, k)
    else:
        w.links[k].background_bytes_per_s = value
    share(w, k)


@compiled_apart
def crash(w: World, i: int) -> None:
    """A prefill instance is gone, with the prompts it computes and the caches it has not sent."""
    instance, pool = w.instances[i], w.pools[w.instances[i].pool]
    if instance.is_up == DOWN:
        return
    was_up = 1 if instance.is_up == UP else 0  # else it drained, and counts as neither up nor idle
    instance.is_up = DOWN
    pool.n_up -= was_up
    if instance.is_busy == 1:
        unplan(w, i)
        instance.busy_s += w.clock[0].now_s - instance.pass_start_s
        instance.is_busy = 0
    elif pool.dispatch == SHARED_QUEUE:
        pool.n_idle -= was_up
    r = instance.first
    instance.first, instance.last, instance.free_at_s = NONE, NONE, 0.0
    while r != NONE:
        following = w.requests[r].next
        if w.requests[r].flow == NONE:
            again(w, r)
        r = following
    lose_flows(w, i)
    if pool.dispatch != SHARED_QUEUE:
        hand_on(w, i)


@compiled_apart
def lose_flows(w: World, i: int) -> None:
    """Transfers of an instance break off."""
    instance = w.instances[i]
    for k in range(w.links.shape[0]):
        settle(w, k)
        f, is_changed = 0, False
        while f < w.links[k].n_flows:
            r = w.flows[k, f].request
            if w.requests[r].instance == i:
                remove_flow(w, k, f)
                is_changed = True
                again(w, r)
            else:
                f += 1
        if is_changed:
            share(w, k)
    instance.n_transfers, instance.used_bytes = 0, 0


@compiled_apart
def hand_on(w: World, i: int) -> None:
    """Requests that waited for an instance alone go to the others of its pool."""
    for q in (2 * i, 2 * i + 1):
        for _ in range(w.queues[q].n):
            r = pop(w.requests, w.queues, q)
            w.pools[w.instances[i].pool].n_waiting -= 1
            arrive_at_prefill(w, w.instances[i].pool, r)


@compiled_apart
def restart(w: World, i: int) -> None:
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
def crash_decode(w: World, d: int) -> None:
    """A decode instance is gone with the caches it held: its requests are prefilled again, what they have included."""
    decoder = w.decoders[d]
    if decoder.is_up == DOWN:
        return
    catch_up(w, d)
    unplan(w, w.clock[0].first_decoder + d)
    decoder.is_up = DOWN
    n_batch, r = decoder.batch, decoder.first
    decoder.batch, decoder.n_joining, decoder.first, decoder.last = 0, 0, NONE, NONE
    decoder.used_bytes, decoder.context_tokens = 0.0, 0.0
    for place in range(n_batch):
        slot = w.slots[d, place]
        left = slot.end_step - decoder.n_steps
        w.requests[slot.request].prompt_tokens += w.requests[slot.request].steps_left - left
        w.requests[slot.request].steps_left = left
        again(w, slot.request)
    while r != NONE:
        following = w.requests[r].next
        again(w, r)
        r = following


@compiled_apart
def again(w: World, r: int) -> None:
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
def drop(w: World, r: int, reason: int) -> None:
    """Give a request up."""
    w.requests[r].state, w.requests[r].reason = DROPPED, reason
    w.clock[0].n_dropped += 1
    if r < w.clock[0].next_arrival:
        count_inside(w, -1)
    release(w)


@compiled_apart
def strand(w: World) -> None:
    """Nothing can ever happen again: who is not finished never will be."""
    for r in range(w.requests.shape[0]):
        if w.requests[r].state != FINISHED and w.requests[r].state != DROPPED:
            drop(w, r, STRANDED)
    w.clock[0].n_due = 0
