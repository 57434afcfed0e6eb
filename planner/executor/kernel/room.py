"""Memory of prefill instances: a prompt holds room for its whole cache until the last byte of it has left."""

from math import ceil

from planner.executor.compiled import compiled
from planner.executor.kernel.curves import value
from planner.executor.kernel.state import SimulationState


@compiled
def held_bytes(w: SimulationState, i: int, r: int) -> int:
    """Memory that a prompt takes of an instance, in whole blocks; never more than there is, so that it may start."""
    pool = w.pools[w.instances[i].pool]
    tokens = ceil(w.requests[r].prompt_tokens / pool.room_block_tokens) * pool.room_block_tokens
    return min(int(value(w.curves, pool.held_curve, float(tokens))), pool.room_bytes)


@compiled
def has_room(w: SimulationState, i: int, r: int) -> bool:
    """True if a prompt fits beside those that an instance holds."""
    if w.pools[w.instances[i].pool].is_limited == 0:
        return True
    return bool(w.instances[i].used_bytes + held_bytes(w, i, r) <= w.pools[w.instances[i].pool].room_bytes)


@compiled
def occupy(w: SimulationState, i: int, r: int) -> None:
    """A prompt begins on an instance."""
    if w.pools[w.instances[i].pool].is_limited == 1:
        w.instances[i].used_bytes += held_bytes(w, i, r)


@compiled
def vacate(w: SimulationState, i: int, r: int) -> None:
    """The cache of a prompt has left an instance."""
    if w.pools[w.instances[i].pool].is_limited == 1:
        w.instances[i].used_bytes -= held_bytes(w, i, r)
