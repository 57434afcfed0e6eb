"""Conversions of units between the roles: who drains, and what happens when a unit is ready in its new role."""

from planner.executor.compiled import compiled_apart, compiled_within
from planner.executor.kernel.faults import reassign, serve
from planner.executor.kernel.records import DRAINS, LEAVES, NONE, SERVES, SHARED_QUEUE, UP, Records
from planner.executor.kernel.roles import enter_role, may_be_drained
from planner.executor.kernel.state import SimulationState


@compiled_within
def convert(w: SimulationState, direction: int) -> None:
    """Let the least busy unit of a role drain: towards prefill with direction 1, towards decode with -1.

    The last instance that serves in a role stays.
    """
    u = least_busy(w, direction)
    if u == NONE:
        return
    unit = w.units[u]
    unit.state = LEAVES
    if direction > 0:
        w.decoders[unit.decoder].is_up = DRAINS
        may_be_drained(w, u)
        return
    instance, pool = w.instances[unit.instance], w.pools[w.instances[unit.instance].pool]
    instance.is_up, instance.free_at_s = DRAINS, 0.0
    pool.n_up -= 1
    if pool.dispatch == SHARED_QUEUE:
        pool.n_idle -= 1 - instance.is_busy
    else:
        reassign(w, unit.instance)
    may_be_drained(w, u)


@compiled_within
def least_busy(w: SimulationState, direction: int) -> int:
    """The unit that serves with the fewest requests, of a role that keeps another one that does; or NONE."""
    best, least, n_serving = NONE, 0, 0
    for u in range(w.units.shape[0]):
        unit = w.units[u]
        if not serves(w.units, w.instances, w.decoders, u, direction > 0):
            continue
        n_serving += 1
        if direction > 0:
            n = w.decoders[unit.decoder].batch + w.decoders[unit.decoder].n_joining
        else:
            n = w.instances[unit.instance].is_busy + w.instances[unit.instance].n_transfers
        if best == NONE or n < least:
            best, least = u, n
    return best if n_serving > 1 else NONE


@compiled_apart
def serves(units: Records, instances: Records, decoders: Records, u: int, is_decode: bool) -> bool:
    """True if a unit is up, in a role, and takes work."""
    unit = units[u]
    if unit.state != SERVES or unit.is_down == 1 or (unit.is_decode == 1) != is_decode:
        return False
    if is_decode:
        return bool(decoders[unit.decoder].is_up == UP)
    return bool(instances[unit.instance].is_up == UP)


@compiled_within
def is_ready(w: SimulationState, u: int) -> None:
    """A unit has warmed up and serves in its new role."""
    enter_role(w.units, w.scheduler, u, w.clock[0].now_s)
    serve(w, u)
