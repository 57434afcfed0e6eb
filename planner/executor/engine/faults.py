"""Faults of instances: they crash, come back empty, or make slower passes; what a crash leaves goes to the others.

A load without faults is compiled without all of this.
"""

from planner.executor.compiled import compiled, compiled_apart, compiled_extra
from planner.executor.engine.batch import stop_decoding
from planner.executor.engine.lists import pop, push
from planner.executor.engine.records import (
    COMING,
    CRASHES,
    DECODES,
    DROPPED,
    NEVER,
    NONE,
    PREFILLS,
    RESTARTS,
    Engine,
    Records,
)


@compiled_extra(False)
def faults_strike(e: Engine, loop: Records, until_s: float) -> bool:
    """Let all faults of the next moment happen if it comes by a moment; whether it did.

    Whoever has lost an instance is then sent to one that is up, or waits until one is.
    """
    state = loop[0]
    if state.next_fault >= e.faults.shape[0] or state.n_done == e.requests.shape[0]:
        return False
    now_s = e.faults[state.next_fault].time_s
    if now_s > until_s:
        return False
    while state.next_fault < e.faults.shape[0] and e.faults[state.next_fault].time_s == now_s:
        fault = e.faults[state.next_fault]
        strike(e, loop, fault.kind, fault.index, fault.value, now_s)
        state.next_fault += 1
    state.now_s = now_s
    return True


@compiled
def strike(e: Engine, loop: Records, kind: int, i: int, value: float, now_s: float) -> None:
    """A fault of an instance."""
    if kind == CRASHES:
        crash(e, loop, i, now_s)
    elif kind == RESTARTS:
        restart(e, i, now_s)
    else:
        e.instances[i].slowdown = value  # of passes that begin from now on


@compiled_apart
def crash(e: Engine, loop: Records, i: int, now_s: float) -> None:
    """An instance is gone with the caches that it held, in the midst of its pass."""
    instance = e.instances[i]
    if instance.is_down == 1:
        return
    if instance.in_pass == 1:
        instance.busy_s -= instance.next_s - now_s
    instance.is_down, instance.in_pass, instance.next_s = 1, 0, NEVER
    for k in range(instance.first, instance.first + instance.n):
        empty(e, loop, k, now_s)
    while instance.inbox.n > 0:
        r = instance.inbox.first
        instance.inbox.first = e.requests[r].after
        instance.inbox.n -= 1
        send_back(e, loop, r, now_s)
    instance.inbox.last = NONE
    instance.n_inside, instance.n_unseen, instance.host_free_s = 0, 0, 0.0


@compiled
def empty(e: Engine, loop: Records, k: int, now_s: float) -> None:
    """A replica loses all it holds; those that were admitted go first, then those that waited."""
    replica = e.replicas[k]
    r = replica.admitted.first
    while r != NONE:
        following = e.requests[r].after
        if e.requests[r].state == DECODES:
            stop_decoding(e, k, r)
        send_back(e, loop, r, now_s)
        r = following
    while replica.waiting.n > 0:
        send_back(e, loop, pop(e.requests, replica.waiting), now_s)
    for chain in (replica.admitted, replica.prompts):
        chain.first, chain.last, chain.n = NONE, NONE, 0
    replica.partial, replica.is_decoding = NONE, 0
    replica.used_tokens, replica.context_tokens, replica.pass_tokens, replica.pass_keys = 0.0, 0.0, 0.0, 0.0


@compiled
def send_back(e: Engine, loop: Records, r: int, now_s: float) -> None:
    """A request has lost its instance; with a cache there it starts again, or is dropped if that is too often.

    The tokens that it has made are part of its prompt. One that waited has lost nothing but its place.
    """
    request = e.requests[r]
    has_begun = request.begun_s >= 0
    if request.state == PREFILLS or request.state == DECODES or (request.is_standing == 1 and not has_begun):
        request.n_retries += 1
    if request.is_standing == 1 and not has_begun:
        request.made_tokens = 0
    request.is_standing, request.chunk_tokens = 0, 0
    if request.n_retries > loop[0].max_retries:
        request.state, request.done_s = DROPPED, now_s
        loop[0].n_done += 1
        loop[0].n_due += 1
        return
    request.state = COMING
    wait_for_instance(e, loop, r)


@compiled_extra(None)
def wait_for_instance(e: Engine, loop: Records, r: int) -> None:
    """A request is at no instance; it goes to one as soon as one is up."""
    e.requests[r].instance, e.requests[r].replica = NONE, NONE
    push(e.requests, loop[0].adrift, r)


@compiled_apart
def restart(e: Engine, i: int, now_s: float) -> None:
    """An instance is back, empty and as fast as ever."""
    instance = e.instances[i]
    if instance.is_down == 1:
        instance.is_down, instance.slowdown, instance.host_free_s = 0, 1.0, now_s
