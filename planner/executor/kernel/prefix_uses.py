"""What the rebalancing of cache pools sees: prefixes by where they were used, and hits of what it has moved."""

from planner.executor.compiled import compiled_apart
from planner.executor.kernel.records import NONE, World


@compiled_apart
def saw_prompt(w: World, site: int, r: int) -> None:
    """A prompt was prefilled at a site: it used the prefix that it hit, and its own full blocks are one now."""
    request, rule, first = w.requests[r], w.cache_rule[0], w.block_offsets[r]
    n_hit = -(-request.cached_tokens // rule.block_tokens)
    n = min(request.prompt_tokens // rule.block_tokens, w.block_offsets[r + 1] - first)
    if n_hit > 0:
        _count(w, site, w.blocks[first + n_hit - 1])
    if n > n_hit:
        _count(w, site, w.blocks[first + n - 1])


@compiled_apart
def _count(w: World, site: int, end: int) -> None:
    used = w.used[site, end]
    if used.n == 0:
        used.next = w.uses[site].newest
        w.uses[site].newest = end
    used.n += 1


@compiled_apart
def saw_hit(w: World, site: int, first: int, n: int, cached_tokens: int) -> None:
    """A prefill begins from the prefix blocks[first:first + n]: count what of it only a move brought.

    Where a state at its end is needed, and was moved, that is all of it; else the blocks that were.
    """
    rule, tokens = w.cache_rule[0], 0
    if n == 0:
        return
    if rule.state_blocks > 0:
        tokens = cached_tokens if w.entries[site, rule.n_blocks + w.blocks[first + n - 1]].is_moved == 1 else 0
    else:
        for at in range(first, first + n):
            tokens += rule.block_tokens * w.entries[site, w.blocks[at]].is_moved
        tokens = min(tokens, cached_tokens)
    if tokens > 0:
        w.rebalancer[0].n_hits += 1
        w.rebalancer[0].hit_tokens += tokens


@compiled_apart
def forget_uses(w: World) -> None:
    """What was seen up to now counts no longer."""
    for site in range(w.uses.shape[0]):
        end = w.uses[site].newest
        while end != NONE:
            following = w.used[site, end].next
            w.used[site, end].n = 0
            end = following
        w.uses[site].newest, w.uses[site].looked_evicted = NONE, w.caches[site].n_evicted
