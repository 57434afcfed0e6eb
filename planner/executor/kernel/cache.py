"""The prefix cache pool of each site: KV blocks that hit by longest prefix, states that hit at their exact length.

Both are entries of one pool of equal blocks, of which a state takes several; so do the caches that wait for their
transfer, which come first. The entry used least recently goes when a block is needed.
"""

from math import ceil

from planner.executor.compiled import compiled, compiled_apart, compiled_extra
from planner.executor.kernel.curves import value
from planner.executor.kernel.prefix_uses import moved_tokens, record_use
from planner.executor.kernel.records import NONE
from planner.executor.kernel.state import SimulationState


@compiled
def n_full_blocks(w: SimulationState, r: int, n_tokens: int) -> int:
    """Full blocks of a prompt's first tokens; what was generated before a crash has no block."""
    row = w.prompts[r].row
    most = min(n_tokens, w.requests[r].total_tokens) // w.cache_rule[0].block_tokens
    return min(most, w.block_offsets[row + 1] - w.block_offsets[row])


@compiled
def block_of(w: SimulationState, r: int, k: int) -> int:
    """Number of a block of a prompt."""
    return w.blocks[w.block_offsets[w.prompts[r].row] + k] + w.prompts[r].shift


@compiled
def n_prefix_blocks(w: SimulationState, site: int, r: int) -> int:
    """Leading full blocks of a prompt that a site holds."""
    n, most = 0, n_full_blocks(w, r, w.requests[r].total_tokens)
    while n < most and w.entries[site, block_of(w, r, n)].is_in == 1:
        n += 1
    return n


@compiled
def hit_tokens(w: SimulationState, site: int, r: int) -> int:
    """Tokens of a prompt that a site need not compute: the last one always is computed.

    Without states the longest prefix of blocks; with states the longest such prefix that has a state at its very end.
    """
    rule, n = w.cache_rule[0], n_prefix_blocks(w, site, r)
    most = w.requests[r].prompt_tokens - 1
    if rule.state_blocks == 0:
        return min(n * rule.block_tokens, most)
    while n > 0:
        if n * rule.block_tokens <= most and w.entries[site, rule.n_blocks + block_of(w, r, n - 1)].is_in == 1:
            return n * rule.block_tokens
        n -= 1
    return 0


@compiled_extra(None)
def use(w: SimulationState, site: int, r: int) -> None:
    """A prefill begins: take what its site's pool holds, and room for what is handed on."""
    hit(w, site, r)
    request, rule = w.requests[r], w.cache_rule[0]
    pool = w.pools[w.routes[request.route].prefill_pool]
    request.transfer_blocks = ceil(value(w.curves, pool.wire_curve, request.prompt_tokens) / rule.block_bytes)
    w.caches[site].transfer_blocks += request.transfer_blocks
    w.caches[site].used_blocks += request.transfer_blocks
    evict(w, site)


@compiled
def hit(w: SimulationState, site: int, r: int) -> None:
    """A prompt begins with what a site's pool holds of it, which was used last then."""
    request, rule = w.requests[r], w.cache_rule[0]
    cached = hit_tokens(w, site, r)
    request.cached_tokens = cached
    request.done_tokens = cached
    n = ceil(cached / rule.block_tokens)
    if n > 0 and rule.state_blocks > 0:
        renew(w, site, rule.n_blocks + block_of(w, r, n - 1))
    for k in range(n - 1, -1, -1):  # what a prefix begins with is newer than what follows
        renew(w, site, block_of(w, r, k))
    if w.rebalancer[0].is_on == 1:
        first, shift = w.block_offsets[w.prompts[r].row], w.prompts[r].shift
        tokens = moved_tokens(w.entries, w.cache_rule, w.blocks, site, first, n, shift)
        w.rebalancer[0].n_hits += 1 if tokens > 0 else 0
        w.rebalancer[0].hit_tokens += min(tokens, cached)


@compiled_extra(None)
def record_prompt(w: SimulationState, site: int, r: int) -> None:
    """A prompt was prefilled at a site: it used the prefix that it hit, and its own full blocks are one now."""
    request, n = w.requests[r], n_full_blocks(w, r, w.requests[r].prompt_tokens)
    n_hit = -(-request.cached_tokens // w.cache_rule[0].block_tokens)
    if n_hit > 0:
        record_use(w.used, w.uses, site, block_of(w, r, n_hit - 1))
    if n > n_hit:
        record_use(w.used, w.uses, site, block_of(w, r, n - 1))


@compiled
def end_transfer(w: SimulationState, r: int) -> None:
    """Give back the blocks of a hand-off that is over."""
    request = w.requests[r]
    if request.transfer_blocks == 0:
        return
    site = w.pools[w.routes[request.route].prefill_pool].site
    w.caches[site].transfer_blocks -= request.transfer_blocks
    w.caches[site].used_blocks -= request.transfer_blocks
    request.transfer_blocks = 0


@compiled_extra(None)
def keep(w: SimulationState, site: int, r: int, n_tokens: int, has_states: bool) -> None:
    """Put the full blocks of a prompt's first tokens in a pool, and the states that were kept on the way."""
    rule, n = w.cache_rule[0], n_full_blocks(w, r, n_tokens)
    for k in range(n, 0, -1):
        is_kept = k == n or (rule.interval_blocks > 0 and k % rule.interval_blocks == 0)
        if has_states and rule.state_blocks > 0 and is_kept:
            put(w, site, rule.n_blocks + block_of(w, r, k - 1))
        put(w, site, block_of(w, r, k - 1))


@compiled
def put(w: SimulationState, site: int, entry: int) -> None:
    """An entry is in the pool, and the newest."""
    if w.entries[site, entry].is_in == 1:
        renew(w, site, entry)
        return
    w.entries[site, entry].is_in = 1
    link_newest(w, site, entry)
    w.caches[site].used_blocks += entry_blocks(w, entry)
    evict(w, site)


@compiled
def entry_blocks(w: SimulationState, entry: int) -> int:
    """Blocks of the pool that an entry takes."""
    rule = w.cache_rule[0]
    return 1 if entry < rule.n_blocks else rule.state_blocks


@compiled_apart
def evict(w: SimulationState, site: int) -> None:
    """Drop the oldest entries until the rest fits; transfers are never dropped, so that they may leave no room."""
    cache = w.caches[site]
    while cache.used_blocks > cache.capacity_blocks and cache.oldest != NONE:
        entry = cache.oldest
        unlink(w, site, entry)
        w.entries[site, entry].is_in, w.entries[site, entry].is_moved = 0, 0
        cache.used_blocks -= entry_blocks(w, entry)
        cache.n_evicted += 1


@compiled
def renew(w: SimulationState, site: int, entry: int) -> None:
    """An entry that is in the pool becomes the newest."""
    if w.entries[site, entry].is_in == 1 and w.caches[site].newest != entry:
        unlink(w, site, entry)
        link_newest(w, site, entry)


@compiled
def link_newest(w: SimulationState, site: int, entry: int) -> None:
    """Put an entry at the new end of the list."""
    cache = w.caches[site]
    w.entries[site, entry].newer, w.entries[site, entry].older = NONE, cache.newest
    if cache.newest == NONE:
        cache.oldest = entry
    else:
        w.entries[site, cache.newest].newer = entry
    cache.newest = entry


@compiled
def unlink(w: SimulationState, site: int, entry: int) -> None:
    """Take an entry out of the list."""
    cache, newer, older = w.caches[site], w.entries[site, entry].newer, w.entries[site, entry].older
    if newer == NONE:
        cache.newest = older
    else:
        w.entries[site, newer].older = older
    if older == NONE:
        cache.oldest = newer
    else:
        w.entries[site, older].newer = newer
