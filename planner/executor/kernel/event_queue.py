"""The event queue: the next event of every actor in a binary heap by (time, kind, sequence)."""

from planner.executor.compiled import compiled, compiled_apart
from planner.executor.kernel.records import NONE, Records
from planner.executor.kernel.state import SimulationState


@compiled
def is_before(actors: Records, a: int, b: int) -> bool:
    """True if the event of one actor comes before another's; ties go by kind, then by who planned first."""
    if actors[a].time_s != actors[b].time_s:
        return actors[a].time_s < actors[b].time_s
    if actors[a].kind != actors[b].kind:
        return actors[a].kind < actors[b].kind
    return actors[a].sequence < actors[b].sequence


@compiled
def schedule(w: SimulationState, actor: int, kind: int, time_s: float) -> None:
    """Schedule an actor's next event, in place of the one it had."""
    clock, actors = w.clock[0], w.actors
    clock.sequence += 1
    actors[actor].time_s, actors[actor].kind, actors[actor].sequence = time_s, kind, clock.sequence
    place = actors[actor].place
    if place == NONE:
        place = clock.n_scheduled
        clock.n_scheduled += 1
        _put(w, place, actor)
    if not _rises(w, place):
        _sinks(w, place)


@compiled
def cancel(w: SimulationState, actor: int) -> None:
    """Take an actor's event off the queue, if it has one."""
    clock, place = w.clock[0], w.actors[actor].place
    if place == NONE:
        return
    clock.n_scheduled -= 1
    w.actors[actor].place = NONE
    if place < clock.n_scheduled:
        _put(w, place, w.heap[clock.n_scheduled])
        if not _rises(w, place):
            _sinks(w, place)


@compiled_apart
def n_own_events(scheduler: Records, rebalancer: Records, actors: Records) -> int:
    """Looks and decisions that are planned: with nothing else planned, nothing will ever happen."""
    n = 0
    for actor in (scheduler[0].look, scheduler[0].decision, rebalancer[0].actor):
        if actors[actor].place != NONE:
            n += 1
    return n


@compiled
def _put(w: SimulationState, place: int, actor: int) -> None:
    w.heap[place] = actor
    w.actors[actor].place = place


@compiled
def _rises(w: SimulationState, place: int) -> bool:
    actor, start = w.heap[place], place
    while place > 0:
        above = (place - 1) >> 1
        if not is_before(w.actors, actor, w.heap[above]):
            break
        _put(w, place, w.heap[above])
        place = above
    _put(w, place, actor)
    return place < start


@compiled
def _sinks(w: SimulationState, place: int) -> None:
    actor, size = w.heap[place], w.clock[0].n_scheduled
    while 2 * place + 1 < size:
        below = 2 * place + 1
        if below + 1 < size and is_before(w.actors, w.heap[below + 1], w.heap[below]):
            below += 1
        if not is_before(w.actors, w.heap[below], actor):
            break
        _put(w, place, w.heap[below])
        place = below
    _put(w, place, actor)
