"""Rebalancing of cache pools: prefixes move to other sites before anybody asks for them there.

At every look, each link between two sites that prefill is offered what it might copy. First come prefixes that prompts
used at its source since the last look (made them, or began from them) and that its destination lacks, by the tokens of
prefill that the same uses would save there over the bytes that must be sent; not under ample bandwidth, where whoever
asks for one fetches it, so that a second copy is worth little. Behind them come the entries that a full source is about
to drop, as many as it dropped since the last look, where the destination has room to spare. One moves after the other,
over one connection. What it takes of the destination's pool is reserved while it travels; the source keeps nothing back
for it, and a copy of what was dropped there meanwhile is given up.

Source:
    Greedy by value over cost: Dantzig, Operations Research 5 (1957). Copies of what is in demand to where it is not:
    Mooncake (FAST 2025), replication of hot blocks. Forwarding before dropping: N-chance forwarding, Dahlin et al.,
    Cooperative Caching (OSDI 1994).
"""

from planner.executor.compiled import compiled_apart
from planner.executor.kernel.cache import make_room, n_held_blocks, put, renew
from planner.executor.kernel.calendar import n_own_events, plan
from planner.executor.kernel.curves import value
from planner.executor.kernel.link import settle, share
from planner.executor.kernel.prefix_uses import forget_uses
from planner.executor.kernel.records import MOVED, NONE, REBALANCE, World


@compiled_apart
def rebalance(w: World) -> None:
    """Look at what was used since the last time, offer it to the links, and set those to work that are idle."""
    own = w.rebalancer[0]
    for k in range(w.movers.shape[0]):
        w.movers[k].n_offers, w.movers[k].next_offer = 0, 0
        if w.movers[k].is_used == 1:
            if w.cache_rule[0].is_ample == 0:
                offer_used(w, k)
            if own.spills == 1:
                offer_spills(w, k)
            own.n_offered += w.movers[k].n_offers
    forget_uses(w)
    for k in range(w.movers.shape[0]):
        if w.movers[k].end == NONE:
            move_next(w, k)
    if w.clock[0].n_planned > n_own_events(w):
        plan(w, own.actor, REBALANCE, w.clock[0].now_s + own.interval_s)


@compiled_apart
def offer_used(w: World, k: int) -> None:
    """Offer a link the prefixes that were used at its source."""
    mover, least = w.movers[k], w.rebalancer[0].min_uses
    end = w.uses[mover.from_site].newest
    while end != NONE:
        used = w.used[mover.from_site, end]
        if used.n >= least and gain_tokens(w, k, end) > 0:
            worth = used.n * gain_tokens(w, k, end) / move_bytes(w, k, end)
            offer(w, k, worth, end, 0)
        end = used.next


@compiled_apart
def offer_spills(w: World, k: int) -> None:
    """Offer a link what its source will drop next: as many entries as it has dropped since the last look."""
    mover, rule = w.movers[k], w.cache_rule[0]
    source, entry = w.caches[mover.from_site], w.caches[mover.from_site].oldest
    for _ in range(source.n_evicted - w.uses[mover.from_site].looked_evicted):
        if entry == NONE:
            break
        # With states only their prefixes are of use; without, every block ends one.
        end = entry - rule.n_blocks if rule.state_blocks > 0 else entry
        if end >= 0 and w.used[mover.from_site, end].n == 0:
            gain = gain_tokens(w, k, end)
            if gain > 0 and move_blocks(w, k, end) <= free_blocks(w, mover.to_site):
                offer(w, k, -move_bytes(w, k, end) / gain, end, 1)
        entry = w.entries[mover.from_site, entry].newer


@compiled_apart
def offer(w: World, k: int, worth: float, end: int, is_spill: int) -> None:
    """Put an offer in its place among a link's, of which the best are kept."""
    mover, most = w.movers[k], w.offers.shape[1]
    if mover.n_offers == most and worth <= w.offers[k, most - 1].worth:
        return
    at = min(mover.n_offers, most - 1)
    while at > 0 and w.offers[k, at - 1].worth < worth:
        w.offers[k, at] = w.offers[k, at - 1]
        at -= 1
    found = w.offers[k, at]
    found.worth, found.end, found.is_spill = worth, end, is_spill
    mover.n_offers = min(mover.n_offers + 1, most)


@compiled_apart
def is_whole(w: World, site: int, end: int) -> bool:
    """Whether a site holds a prefix to its end, and the state there where one is needed."""
    prefix, rule = w.prefixes[end], w.cache_rule[0]
    if rule.state_blocks > 0 and w.entries[site, rule.n_blocks + end].is_in == 0:
        return False
    return n_held_blocks(w, site, prefix.first, prefix.first + prefix.n) == prefix.n


@compiled_apart
def gain_tokens(w: World, k: int, end: int) -> int:
    """Tokens of a prefix that could hit at a link's destination if they were sent, and cannot now."""
    mover, prefix, rule = w.movers[k], w.prefixes[end], w.cache_rule[0]
    if not is_whole(w, mover.from_site, end):
        return 0
    n = n_held_blocks(w, mover.to_site, prefix.first, prefix.first + prefix.n)
    if rule.state_blocks > 0:
        while n > 0 and w.entries[mover.to_site, rule.n_blocks + w.blocks[prefix.first + n - 1]].is_in == 0:
            n -= 1
    return int((prefix.n - n) * rule.block_tokens)


@compiled_apart
def move_bytes(w: World, k: int, end: int) -> float:
    """Bytes of a move on the wire: the blocks that lack at the destination, and the state if it does."""
    mover, prefix, rule = w.movers[k], w.prefixes[end], w.cache_rule[0]
    n = n_held_blocks(w, mover.to_site, prefix.first, prefix.first + prefix.n)
    state = value(w.curves, mover.wire_curve, 0.0)
    if rule.state_blocks > 0 and w.entries[mover.to_site, rule.n_blocks + end].is_in == 1:
        state = 0.0
    whole = value(w.curves, mover.wire_curve, float(prefix.n * rule.block_tokens))
    return whole - value(w.curves, mover.wire_curve, float(n * rule.block_tokens)) + state


@compiled_apart
def move_blocks(w: World, k: int, end: int) -> int:
    """Blocks of a pool that a move takes."""
    mover, prefix, rule = w.movers[k], w.prefixes[end], w.cache_rule[0]
    n = prefix.n - n_held_blocks(w, mover.to_site, prefix.first, prefix.first + prefix.n)
    has_state = rule.state_blocks > 0 and w.entries[mover.to_site, rule.n_blocks + end].is_in == 0
    return int(n + (rule.state_blocks if has_state else 0))


@compiled_apart
def free_blocks(w: World, site: int) -> int:
    """Blocks of a pool that nothing takes; none where transfers overdraw it."""
    return int(max(w.caches[site].capacity_blocks - w.caches[site].used_blocks, 0))


@compiled_apart
def move_next(w: World, k: int) -> None:
    """Begin the best move that a link was offered and that still makes sense."""
    mover = w.movers[k]
    while mover.next_offer < mover.n_offers and w.links[k].health > 0:
        found = w.offers[k, mover.next_offer]
        mover.next_offer += 1
        if makes_sense(w, k, found.end, found.is_spill):
            begin_move(w, k, found.end)
            return


@compiled_apart
def makes_sense(w: World, k: int, end: int, is_spill: int) -> bool:
    """Whether a prefix is still at the source, not yet at the destination or on its way there, and has room there."""
    mover = w.movers[k]
    for other in range(w.movers.shape[0]):
        if w.movers[other].end == end and w.movers[other].to_site == mover.to_site:
            return False
    cache = w.caches[mover.to_site]
    room = free_blocks(w, mover.to_site) if is_spill == 1 else cache.capacity_blocks - cache.transfer_blocks
    return gain_tokens(w, k, end) > 0 and move_blocks(w, k, end) <= room


@compiled_apart
def begin_move(w: World, k: int, end: int) -> None:
    """Take transfer blocks at the destination, as what is to come needs them, and send."""
    mover, prefix = w.movers[k], w.prefixes[end]
    size = move_bytes(w, k, end)
    mover.end, mover.reserved_blocks = end, move_blocks(w, k, end)
    mover.n_held = n_held_blocks(w, mover.to_site, prefix.first, prefix.first + prefix.n)
    mover.has_state = 1 if mover.reserved_blocks > prefix.n - mover.n_held else 0
    for at in range(prefix.first + mover.n_held - 1, prefix.first - 1, -1):  # what it joins must be there when it comes
        renew(w, mover.to_site, w.blocks[at])
    reserve(w, mover.to_site, mover.reserved_blocks)
    settle(w, k)
    w.links[k].is_moving, w.links[k].move_bytes, w.links[k].move_bytes_per_s = 1, size, 0.0
    share(w, k)


@compiled_apart
def reserve(w: World, site: int, n_blocks: int) -> None:
    """Take so many blocks of a pool for what is on its way, or give them back."""
    w.caches[site].transfer_blocks += n_blocks
    w.caches[site].used_blocks += n_blocks
    make_room(w, site)


@compiled_apart
def sent_move(w: World, k: int) -> None:
    """The last byte of a move is on its way; the link is settled, and shared anew by who calls."""
    if not is_whole(w, w.movers[k].from_site, w.movers[k].end):
        give_up(w, k)
        move_next(w, k)
        return
    w.links[k].is_moving, w.links[k].move_bytes_per_s = 0, 0.0
    plan(w, w.rebalancer[0].first_mover + k, MOVED, w.clock[0].now_s + w.links[k].half_round_trip_s)


@compiled_apart
def moved(w: World, k: int) -> None:
    """A prefix arrives: it is in the pool from now on, and the link moves the next."""
    mover, rule = w.movers[k], w.cache_rule[0]
    site, prefix = mover.to_site, w.prefixes[mover.end]
    reserve(w, site, -mover.reserved_blocks)
    if mover.has_state == 1:
        put_moved(w, site, rule.n_blocks + mover.end)
    for at in range(prefix.first + prefix.n - 1, prefix.first + mover.n_held - 1, -1):
        put_moved(w, site, w.blocks[at])
    w.rebalancer[0].n_moved += 1
    mover.end = NONE
    move_next(w, k)


@compiled_apart
def put_moved(w: World, site: int, entry: int) -> None:
    """An entry has come by a move; one that the site has made meanwhile stays its own."""
    if w.entries[site, entry].is_in == 1:
        renew(w, site, entry)
        return
    put(w, site, entry)
    if w.entries[site, entry].is_in == 1:  # and not dropped at once, because transfers overdraw the pool
        w.entries[site, entry].is_moved = 1
        w.rebalancer[0].n_entries += 1


@compiled_apart
def give_up(w: World, k: int) -> None:
    """A move that is not sent whole was in vain; the link is settled, and shared anew by who calls."""
    mover = w.movers[k]
    w.links[k].is_moving, w.links[k].move_bytes, w.links[k].move_bytes_per_s = 0, 0.0, 0.0
    reserve(w, mover.to_site, -mover.reserved_blocks)
    mover.end = NONE
    w.rebalancer[0].n_dropped += 1
