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

from typing import NamedTuple

from numpy import int32
from numpy.typing import NDArray

from planner.executor.compiled import compiled, compiled_apart, compiled_extra, compiled_within
from planner.executor.kernel.cache import evict, put, renew
from planner.executor.kernel.curves import value
from planner.executor.kernel.event_queue import n_own_events, schedule
from planner.executor.kernel.link import settle, share_link
from planner.executor.kernel.prefix_uses import forget_uses
from planner.executor.kernel.records import MOVED, NONE, REBALANCE, Numbers, Records
from planner.executor.kernel.state import SimulationState


@compiled_within
def rebalance(w: SimulationState) -> None:
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
    forget_uses(w.used, w.uses, w.caches)
    for k in range(w.movers.shape[0]):
        if w.movers[k].end == NONE:
            move_next(w, k)
    if w.clock[0].n_scheduled > n_own_events(w.scheduler, w.rebalancer, w.actors):
        schedule(w, own.actor, REBALANCE, w.clock[0].now_s + own.interval_s)


@compiled_within
def offer_used(w: SimulationState, k: int) -> None:
    """Offer a link the prefixes that were used at its source."""
    site, h = w.movers[k].from_site, holdings(w)
    end = w.uses[site].newest
    while end != NONE:
        n = w.used[site, end].n
        gain = gain_tokens(h, k, end) if n >= w.rebalancer[0].min_uses else 0
        if gain > 0:
            insert_offer(w.offers, w.movers, k, n * gain / move_bytes(h, k, end), end, 0)
        end = w.used[site, end].next


@compiled_within
def offer_spills(w: SimulationState, k: int) -> None:
    """Offer a link what its source will drop next: as many entries as it has dropped since the last look."""
    mover, rule, h = w.movers[k], w.cache_rule[0], holdings(w)
    site, entry = mover.from_site, w.caches[mover.from_site].oldest
    for _ in range(w.caches[site].n_evicted - w.uses[site].looked_evicted):
        if entry == NONE:
            break
        # With states only their prefixes are of use; without, every block ends one.
        end = entry - rule.n_blocks if rule.state_blocks > 0 else entry
        if end >= 0 and w.used[site, end].n == 0:
            gain = gain_tokens(h, k, end)
            if gain > 0 and move_blocks(h, k, end) <= free_blocks(w.caches, mover.to_site):
                insert_offer(w.offers, w.movers, k, -move_bytes(h, k, end) / gain, end, 1)
        entry = w.entries[site, entry].newer


@compiled_apart
def move_next(w: SimulationState, k: int) -> None:
    """Begin the best move that a link was offered and that still makes sense: the prefix is at the source, not yet at
    the destination, and there is room."""
    mover, h = w.movers[k], holdings(w)
    while mover.next_offer < mover.n_offers and w.links[k].health > 0:
        found = w.offers[k, mover.next_offer]
        mover.next_offer += 1
        if gain_tokens(h, k, found.end) == 0 or is_under_way(w.movers, mover.to_site, found.end):
            continue
        cache = w.caches[mover.to_site]
        room = cache.capacity_blocks - cache.transfer_blocks
        if found.is_spill == 1:
            room = free_blocks(w.caches, mover.to_site)
        if move_blocks(h, k, found.end) <= room:
            begin_move(w, k, found.end)
            return


@compiled_within
def begin_move(w: SimulationState, k: int, end: int) -> None:
    """Take transfer blocks at the destination, as what is to come needs them, and send."""
    mover, prefix, h = w.movers[k], w.prefixes[end], holdings(w)
    size, site = move_bytes(h, k, end), mover.to_site
    mover.end, mover.reserved_blocks, mover.n_held = end, move_blocks(h, k, end), n_held(h, site, end)
    mover.has_state = 1 if lacks_state(h, site, end) else 0
    for at in range(prefix.first + mover.n_held - 1, prefix.first - 1, -1):  # what it joins must be there when it comes
        renew(w, site, w.blocks[at] + prefix.shift)
    reserve(w, site, mover.reserved_blocks)
    settle(w, k)
    w.links[k].is_moving, w.links[k].move_bytes, w.links[k].move_bytes_per_s = 1, size, 0.0
    share_link(w, k)


@compiled_within
def reserve(w: SimulationState, site: int, n_blocks: int) -> None:
    """Take so many blocks of a pool for what is on its way, or give them back."""
    w.caches[site].transfer_blocks += n_blocks
    w.caches[site].used_blocks += n_blocks
    evict(w, site)


@compiled_extra(None)
def sent_move(w: SimulationState, k: int) -> None:
    """The last byte of a move is on its way; the link is settled, and shared anew by who calls."""
    if not is_whole(holdings(w), w.movers[k].from_site, w.movers[k].end):
        give_up(w, k)
        move_next(w, k)
        return
    w.links[k].is_moving, w.links[k].move_bytes_per_s = 0, 0.0
    schedule(w, w.rebalancer[0].first_mover + k, MOVED, w.clock[0].now_s + w.links[k].half_round_trip_s)


@compiled_within
def moved(w: SimulationState, k: int) -> None:
    """A prefix arrives: it is in the pool from now on, and the link moves the next."""
    mover, rule = w.movers[k], w.cache_rule[0]
    site, prefix = mover.to_site, w.prefixes[mover.end]
    reserve(w, site, -mover.reserved_blocks)
    if mover.has_state == 1:
        put_moved(w, site, rule.n_blocks + mover.end)
    for at in range(prefix.first + prefix.n - 1, prefix.first + mover.n_held - 1, -1):
        put_moved(w, site, w.blocks[at] + prefix.shift)
    w.rebalancer[0].n_moved += 1
    mover.end = NONE
    move_next(w, k)


@compiled_apart
def put_moved(w: SimulationState, site: int, entry: int) -> None:
    """An entry has come by a move; one that the site has made meanwhile stays its own."""
    if w.entries[site, entry].is_in == 1:
        renew(w, site, entry)
        return
    put(w, site, entry)
    if w.entries[site, entry].is_in == 1:  # and not dropped at once, because transfers overdraw the pool
        w.entries[site, entry].is_moved = 1
        w.rebalancer[0].n_entries += 1


@compiled_apart
def give_up(w: SimulationState, k: int) -> None:
    """A move that is not sent whole was in vain; the link is settled, and shared anew by who calls."""
    mover = w.movers[k]
    w.links[k].is_moving, w.links[k].move_bytes, w.links[k].move_bytes_per_s = 0, 0.0, 0.0
    reserve(w, mover.to_site, -mover.reserved_blocks)
    mover.end = NONE
    w.rebalancer[0].n_dropped += 1


class Holdings(NamedTuple):
    """The part of the state that says who holds what."""

    entries: Records
    blocks: NDArray[int32]
    prefixes: Records
    cache_rule: Records
    movers: Records
    curves: Numbers


@compiled
def holdings(w: SimulationState) -> Holdings:
    """Who holds what now."""
    return Holdings(w.entries, w.blocks, w.prefixes, w.cache_rule, w.movers, w.curves)


@compiled_apart
def n_held(h: Holdings, site: int, end: int) -> int:
    """Leading blocks of a prefix that a site holds."""
    prefix, n = h.prefixes[end], 0
    while n < prefix.n and h.entries[site, h.blocks[prefix.first + n] + prefix.shift].is_in == 1:
        n += 1
    return n


@compiled_apart
def is_whole(h: Holdings, site: int, end: int) -> bool:
    """True if a site holds a prefix to its end, and the state there where one is needed."""
    return bool(n_held(h, site, end) == h.prefixes[end].n and not lacks_state(h, site, end))


@compiled_apart
def lacks_state(h: Holdings, site: int, end: int) -> bool:
    """True if a state is needed at the end of a prefix and a site has none."""
    rule = h.cache_rule[0]
    return bool(rule.state_blocks > 0 and h.entries[site, rule.n_blocks + end].is_in == 0)


@compiled_apart
def gain_tokens(h: Holdings, k: int, end: int) -> int:
    """Tokens of a prefix that could hit at a link's destination if they were sent, and cannot now."""
    mover, prefix, rule = h.movers[k], h.prefixes[end], h.cache_rule[0]
    if not is_whole(h, mover.from_site, end):
        return 0
    n = n_held(h, mover.to_site, end)
    while n > 0 and lacks_state(h, mover.to_site, h.blocks[prefix.first + n - 1] + prefix.shift):
        n -= 1
    return int((prefix.n - n) * rule.block_tokens)


@compiled_apart
def move_bytes(h: Holdings, k: int, end: int) -> float:
    """Bytes of a move on the wire: the blocks that lack at the destination, and the state if it does."""
    mover, prefix, rule = h.movers[k], h.prefixes[end], h.cache_rule[0]
    held = float(n_held(h, mover.to_site, end) * rule.block_tokens)
    size = value(h.curves, mover.wire_curve, float(prefix.n * rule.block_tokens)) - value(
        h.curves, mover.wire_curve, held
    )
    if rule.state_blocks > 0 and not lacks_state(h, mover.to_site, end):
        return float(size)
    return float(size + value(h.curves, mover.wire_curve, 0.0))


@compiled_apart
def move_blocks(h: Holdings, k: int, end: int) -> int:
    """Blocks of a pool that a move takes."""
    to_site = h.movers[k].to_site
    n = h.prefixes[end].n - n_held(h, to_site, end)
    return int(n + (h.cache_rule[0].state_blocks if lacks_state(h, to_site, end) else 0))


@compiled_apart
def free_blocks(caches: Records, site: int) -> int:
    """Blocks of a pool that nothing takes; none where transfers overdraw it."""
    return int(max(caches[site].capacity_blocks - caches[site].used_blocks, 0))


@compiled_apart
def insert_offer(offers: Records, movers: Records, k: int, worth: float, end: int, is_spill: int) -> None:
    """Put an offer in its place among a link's, of which the best are kept."""
    mover, most = movers[k], offers.shape[1]
    if mover.n_offers == most and worth <= offers[k, most - 1].worth:
        return
    at = min(mover.n_offers, most - 1)
    while at > 0 and offers[k, at - 1].worth < worth:
        offers[k, at] = offers[k, at - 1]
        at -= 1
    found = offers[k, at]
    found.worth, found.end, found.is_spill = worth, end, is_spill
    mover.n_offers = min(mover.n_offers + 1, most)


@compiled_apart
def is_under_way(movers: Records, to_site: int, end: int) -> bool:
    """True if a prefix is on its way to a site."""
    found = False
    for other in range(movers.shape[0]):
        found = found or (movers[other].end == end and movers[other].to_site == to_site)
    return found
