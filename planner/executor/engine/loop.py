"""Requests through instances, event by event: as many in flight as a closed loop keeps, or as they arrive."""

from planner.executor.compiled import compiled, compiled_apart, compiled_entry, compiled_extra
from planner.executor.engine.faults import faults_strike, wait_for_instance
from planner.executor.engine.instance import begin_pass, end_pass, offer
from planner.executor.engine.lists import pop
from planner.executor.engine.records import NEVER, NONE, Engine, Records

WAITING_WEIGHT = 4
"""Of a request that waits over one that runs, as vLLM balances its replicas: 4 waiting + running."""


@compiled_entry
def start(e: Engine, loop: Records, n_offered: int) -> None:
    """Offer the first requests of a closed loop at their arrivals."""
    for r in range(n_offered):
        if not send(e, loop, r, e.requests[r].arrival_s):
            loop[0].n_done += 1
    loop[0].next_request = n_offered


@compiled
def chosen(e: Engine, r: int) -> int:
    """The instance that a request is sent to: the one stated, else the first of the least load; NONE: all are down."""
    stated: int = e.requests[r].instance
    if stated != NONE and e.instances[stated].is_down == 0:
        return stated
    best, least = NONE, 0
    for i in range(e.instances.shape[0]):
        if e.instances[i].is_down == 1:
            continue
        found = weighted_load(e, i)
        if best == NONE or found < least:
            best, least = i, found
    return best


@compiled
def send(e: Engine, loop: Records, r: int, now_s: float) -> bool:
    """Offer a request to an instance; where none is up it waits. False where memory could never hold it."""
    i = chosen(e, r)
    if i == NONE:
        wait_for_instance(e, loop, r)
        return True
    return offer(e, i, r, now_s)


@compiled
def weighted_load(e: Engine, i: int) -> int:
    """Requests of an instance, those that wait to be admitted counted WAITING_WEIGHT times.

    Requests of one length that begin in one pass end in one too; if all counted alike, the instance that they leave
    would get as many at once again.
    """
    instance = e.instances[i]
    n: int = instance.n_inside + WAITING_WEIGHT * instance.inbox.n
    for k in range(instance.first, instance.first + instance.n):
        n += (WAITING_WEIGHT - 1) * e.replicas[k].waiting.n
    return n


@compiled
def succeed(e: Engine, loop: Records) -> None:
    """Whoever had a request answered sends the next one, if there is one; a refused one is followed at once."""
    state = loop[0]
    while state.next_request < e.requests.shape[0]:
        r = state.next_request
        state.next_request += 1
        e.requests[r].arrival_s = state.now_s
        if send(e, loop, r, state.now_s):
            return
        state.n_done += 1


@compiled
def earliest(e: Engine) -> int:
    """The instance that something happens to first; of several the one of the lowest number."""
    best = 0
    for i in range(1, e.instances.shape[0]):
        if e.instances[i].next_s < e.instances[best].next_s:
            best = i
    return best


@compiled
def arrive(e: Engine, loop: Records, until_s: float) -> bool:
    """Offer the next request of an open loop if it comes by a moment; whether it did."""
    state = loop[0]
    r = state.next_request
    if state.is_open == 0 or r >= e.requests.shape[0] or e.requests[r].arrival_s > until_s:
        return False
    state.next_request += 1
    if not send(e, loop, r, e.requests[r].arrival_s):
        state.n_done += 1
    return True


@compiled
def next_event_s(e: Engine, loop: Records, i: int) -> float:
    """When the earliest instance, or an arrival before it, changes something."""
    state, then_s = loop[0], e.instances[i].next_s
    if state.is_open == 1 and state.next_request < e.requests.shape[0]:
        then_s = min(then_s, e.requests[state.next_request].arrival_s)
    soonest: float = then_s
    return soonest


@compiled_apart
def look_up_to(e: Engine, loop: Records, until_s: float) -> None:
    """Write down the seconds spent in passes at every moment before an event."""
    state = loop[0]
    while state.next_look < e.looks.shape[0] and e.looks[state.next_look, 0] < until_s:
        at_s, busy_s = e.looks[state.next_look, 0], 0.0
        for i in range(e.instances.shape[0]):
            instance = e.instances[i]
            busy_s += instance.busy_s - (instance.next_s - at_s if instance.in_pass == 1 else 0.0)
        e.looks[state.next_look, 1] = busy_s
        state.next_look += 1


@compiled_extra(False)
def troubles(e: Engine, loop: Records, i: int) -> bool:
    """Whether faults came before all else; who lost an instance to them is sent to another one."""
    state, then_s = loop[0], next_event_s(e, loop, i)
    if state.next_fault < e.faults.shape[0] and state.next_look < e.looks.shape[0]:
        look_up_to(e, loop, min(then_s, e.faults[state.next_fault].time_s))
    if not faults_strike(e, loop, then_s):
        return False
    n = state.adrift.n
    for _ in range(n):
        if not send(e, loop, pop(e.requests, state.adrift), state.now_s):
            state.n_done += 1
            state.n_due += 1
    while state.n_due > 0:
        state.n_due -= 1
        if state.is_open == 0:
            succeed(e, loop)
    return True


@compiled_entry
def advance(e: Engine, loop: Records, n_events: int) -> bool:
    """Let so many passes and arrivals happen; whether any request is left."""
    state, n = loop[0], e.requests.shape[0]
    for _ in range(n_events):
        i = earliest(e)
        if troubles(e, loop, i):
            continue
        if state.next_look < e.looks.shape[0]:
            look_up_to(e, loop, next_event_s(e, loop, i))
        if arrive(e, loop, e.instances[i].next_s):
            continue
        if e.instances[i].next_s == NEVER:
            return False
        state.now_s = e.instances[i].next_s
        n_done = end_pass(e, i)
        state.n_done += n_done
        if state.is_open == 0:
            for _ in range(n_done):
                succeed(e, loop)
        begin_pass(e, i, state.now_s)
    is_left: bool = state.n_done < n
    return is_left
