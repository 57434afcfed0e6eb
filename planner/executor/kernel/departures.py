"""Requests that leave: finished, or dropped; in a closed loop users send the next."""

from planner.executor.compiled import compiled, compiled_apart, compiled_extra
from planner.executor.kernel.event_queue import schedule
from planner.executor.kernel.observe import record_finish
from planner.executor.kernel.records import ARRIVAL, DROPPED, FINISHED
from planner.executor.kernel.state import SimulationState


@compiled
def count_inside(w: SimulationState, change: int) -> None:
    """Requests inside change by one: bring their time integral up to date first."""
    clock = w.clock[0]
    clock.inside_s += clock.n_inside * (clock.now_s - clock.changed_s)
    clock.changed_s = clock.now_s
    clock.n_inside += change


@compiled
def first_token(w: SimulationState, r: int) -> None:
    """The decode side has accepted the request: what prefill made of its first token is out, once."""
    if not w.requests[r].first_token_s >= 0:
        w.requests[r].first_token_s = w.clock[0].now_s


@compiled
def finish(w: SimulationState, r: int) -> None:
    """A request has its last token."""
    clock = w.clock[0]
    w.requests[r].state, w.requests[r].finish_s = FINISHED, clock.now_s
    clock.n_finished += 1
    if w.scheduler[0].is_on == 1:
        observe_finish(w, r)
    count_inside(w, -1)
    release(w, r)


@compiled_extra(None)
def observe_finish(w: SimulationState, r: int) -> None:
    """Let the scheduler see that a request has its last token."""
    record_finish(w.scheduler, w.requests[r].steps_left)


@compiled_apart
def drop(w: SimulationState, r: int, reason: int) -> None:
    """Give a request up."""
    w.requests[r].state, w.requests[r].reason = DROPPED, reason
    w.clock[0].n_dropped += 1
    if r < w.clock[0].next_arrival:
        count_inside(w, -1)
        release(w, r)


@compiled
def release(w: SimulationState, r: int) -> None:
    """In a closed loop the user of a request that leaves thinks of the next one."""
    if w.clock[0].n_users > 0:
        think(w, w.requests[r].user)


@compiled
def think(w: SimulationState, user: int) -> None:
    """A user thinks before the next request, if there is one left to be sent."""
    clock = w.clock[0]
    if clock.n_thoughts < w.requests.shape[0]:
        thought_s = w.requests[clock.n_thoughts].arrival_s
        clock.n_thoughts += 1
        schedule(w, clock.first_user + user, ARRIVAL, clock.now_s + thought_s)
