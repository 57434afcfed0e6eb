"""Observations for the rebalancing of cache pools: prefixes by where they were used, and hits of what it has moved.

These functions take the few records that they need, as moves in `rebalance` do: what is compiled for the whole state
takes far longer to compile.
"""

from planner.executor.compiled import compiled_apart
from planner.executor.kernel.records import NONE, Records


@compiled_apart
def record_use(used: Records, uses: Records, site: int, end: int) -> None:
    """A prompt at a site made a prefix, or began from it."""
    if used[site, end].n == 0:
        used[site, end].next = uses[site].newest
        uses[site].newest = end
    used[site, end].n += 1


@compiled_apart
def moved_tokens(entries: Records, rule: Records, blocks: Records, site: int, first: int, n: int, shift: int) -> int:
    """Tokens of the prefix blocks[first:first + n], moved up by the shift, that a site holds by a move alone.

    Where a state at its end is needed, and was moved, that is all of it; else the blocks that were.
    """
    if n == 0:
        return 0
    if rule[0].state_blocks > 0:
        is_moved = entries[site, rule[0].n_blocks + blocks[first + n - 1] + shift].is_moved
        return int(n * rule[0].block_tokens * is_moved)
    tokens = 0
    for at in range(first, first + n):
        tokens += rule[0].block_tokens * entries[site, blocks[at] + shift].is_moved
    return tokens


@compiled_apart
def forget_uses(used: Records, uses: Records, caches: Records) -> None:
    """Forget the uses of prefixes that were seen up to now."""
    for site in range(uses.shape[0]):
        end = uses[site].newest
        while end != NONE:
            following = used[site, end].next
            used[site, end].n = 0
            end = following
        uses[site].newest, uses[site].looked_evicted = NONE, caches[site].n_evicted
