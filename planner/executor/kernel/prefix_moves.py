"""Gain and cost of a move of a prefix between cache pools."""

from typing import NamedTuple

from numpy import int32
from numpy.typing import NDArray

from planner.executor.compiled import compiled, compiled_apart
from planner.executor.kernel.curves import value
from planner.executor.kernel.records import Numbers, Records, World


class Holdings(NamedTuple):
    """The part of the world that says who holds what."""

    entries: Records
    blocks: NDArray[int32]
    prefixes: Records
    cache_rule: Records
    movers: Records
    curves: Numbers


@compiled
def holdings(w: World) -> Holdings:
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
def offer(offers: Records, movers: Records, k: int, worth: float, end: int, is_spill: int) -> None:
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
