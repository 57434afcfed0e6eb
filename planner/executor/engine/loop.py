"""Requests through instances, event by event: as many in flight as a closed loop keeps, or as they arrive."""

from planner.executor.compiled import compiled, compiled_entry
from planner.executor.engine.instance import begin_pass, end_pass, offer
from planner.executor.engine.records import NEVER, Engine, Records


@compiled_entry
def start(e: Engine, loop: Records, n_offered: int) -> None:
    """Offer the first requests at their arrivals to the first instance."""
    for r in range(n_offered):
        if not offer(e, 0, r, e.requests[r].arrival_s):
            loop[0].n_done += 1
    loop[0].next_request = n_offered


@compiled
def succeed(e: Engine, loop: Records) -> None:
    """Whoever had a request answered sends the next one, if there is one; a refused one is followed at once."""
    state = loop[0]
    while state.next_request < e.requests.shape[0]:
        r = state.next_request
        state.next_request += 1
        if offer(e, 0, r, state.now_s):
            return
        state.n_done += 1


@compiled_entry
def advance(e: Engine, loop: Records, n_passes: int) -> bool:
    """Let so many passes of the first instance happen; whether any request is left."""
    state, instance, n = loop[0], e.instances[0], e.requests.shape[0]
    for _ in range(n_passes):
        if instance.next_s == NEVER:
            return False
        state.now_s = instance.next_s
        n_done = end_pass(e, 0)
        state.n_done += n_done
        for _ in range(n_done):
            succeed(e, loop)
        begin_pass(e, 0, state.now_s)
    is_left: bool = state.n_done < n
    return is_left
