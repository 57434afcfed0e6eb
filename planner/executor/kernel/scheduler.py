"""The system's control of itself: thresholds that follow queues and links, roles that follow the load."""

from planner.executor.compiled import compiled_apart, compiled_within
from planner.executor.kernel.balance import (
    BalanceInputs,
    balanced_place,
    decode_rate,
    factor_of,
    place_of,
    prefill_rate,
)
from planner.executor.kernel.conversion import convert, serves
from planner.executor.kernel.event_queue import n_own_events, schedule
from planner.executor.kernel.link import count_capacity, free_bytes_per_s, settle
from planner.executor.kernel.records import DECISION, LONG_LINE, LOOK, SERVES, SHORT_LINE, Numbers, Records
from planner.executor.kernel.state import SimulationState

MOST_DOUBLINGS = 60.0
FADING = 0.75
"""What was observed counts so much after each decision."""
MOST_AT_ONCE = 0.1
"""Part of the units that may be on their way between roles, one at least."""


@compiled_within
def look(w: SimulationState) -> None:
    """The short term: a step of the thresholds towards where links and queues say that they should be.

    In proportion to the difference of the waits, not a step at a time for as long as there is one: a queue is the sum
    of what came before, and steps that add up as well would go on until it is gone, far too far.
    """
    control = w.scheduler[0]
    is_congested = look_at_links(w) > control.link_utilization
    long_s = wait_s(w.pools, w.lines, LONG_LINE) + unsent_s(w)
    longer_s = long_s - wait_s(w.pools, w.lines, SHORT_LINE)
    wanted = control.base * 2.0 ** min(max(longer_s / control.doubling_s, -MOST_DOUBLINGS), MOST_DOUBLINGS)
    if is_congested and abs(longer_s) <= control.tolerance_s:
        wanted = max(wanted, control.factor * control.step)
    factor = min(max(wanted, control.factor / control.step), control.factor * control.step)
    factor = min(max(factor, control.base / control.range), control.base * control.range)
    set_factor(w.scheduler, w.thresholds, w.base_thresholds, factor, w.clock[0].now_s)
    if w.clock[0].n_scheduled > n_own_events(w.scheduler, w.rebalancer, w.actors):
        schedule(w, control.look, LOOK, w.clock[0].now_s + control.interval_s)


@compiled_within
def look_at_links(w: SimulationState) -> float:
    """Part of what the fullest link could have carried since the last look that it did; 1 where it could carry none."""
    most = 0.0
    for k in range(w.links.shape[0]):
        link = w.links[k]
        if link.is_watched == 1:
            settle(w, k)
            count_capacity(w.links, k, w.clock[0].now_s)
            could = link.could_bytes - link.looked_could_bytes
            sent = link.sent_bytes - link.looked_sent_bytes
            most = max(most, sent / could if could > 0 else 1.0)
            link.looked_could_bytes, link.looked_sent_bytes = link.could_bytes, link.sent_bytes
    return most


@compiled_apart
def wait_s(pools: Records, lines: Numbers, line: int) -> float:
    """Seconds until the prompts that wait now have begun, in the pools of a line."""
    n_waiting = 0.0
    for p in range(pools.shape[0]):
        if pools[p].line == line:
            n_waiting += pools[p].n_waiting
    if n_waiting == 0 or lines[line, 0] == 0:
        return 0.0
    return float(n_waiting * lines[line, 3] / lines[line, 0] / max(n_up(pools, line), 1))


@compiled_within
def unsent_s(w: SimulationState) -> float:
    """Seconds in which the slowest link sends what is made and not sent; links are settled."""
    most_s = 0.0
    for k in range(w.links.shape[0]):
        if w.links[k].is_watched == 1:
            unsent = 0.0
            for f in range(w.links[k].n_flows):
                unsent += w.flows[k, f].backlog_bytes
            if unsent > 0:
                most_s = max(most_s, unsent / free_bytes_per_s(w.links, k))
    return most_s


@compiled_apart
def set_factor(scheduler: Records, thresholds: Numbers, planned: Numbers, factor: float, now_s: float) -> None:
    """Set the thresholds to a factor of those planned."""
    control = scheduler[0]
    control.factor_s += control.factor * (now_s - control.changed_s)
    control.factor, control.changed_s = factor, now_s
    control.lowest, control.highest = min(control.lowest, factor), max(control.highest, factor)
    for c in range(thresholds.shape[0]):
        thresholds[c] = planned[c] * factor


@compiled_within
def decide(w: SimulationState) -> None:
    """The long term: where a pool or link is nearly full, balance the thresholds, and convert if that serves more."""
    control, now_s = w.scheduler[0], w.clock[0].now_s
    passed_s = now_s - control.decided_s
    control.seen_s += passed_s
    bytes_per_s = could_bytes_per_s(w, passed_s)
    control.decided_s = now_s
    if min(control.seen, control.n_done) >= control.min_observed:
        if n_on_the_way(w) == 0:
            adapt_thresholds(w, bytes_per_s)
        fade(w)
    if w.clock[0].n_scheduled > n_own_events(w.scheduler, w.rebalancer, w.actors):
        schedule(w, control.decision, DECISION, now_s + control.decision_interval_s)


@compiled_within
def could_bytes_per_s(w: SimulationState, passed_s: float) -> float:
    """Mean bandwidth since the last decision, of all links that long prompts' caches take [B/s]."""
    total = 0.0
    for k in range(w.links.shape[0]):
        if w.links[k].is_watched == 1:
            settle(w, k)
            count_capacity(w.links, k, w.clock[0].now_s)
            total += w.links[k].could_bytes - w.links[k].decided_could_bytes
            w.links[k].decided_could_bytes = w.links[k].could_bytes
    return total / passed_s


@compiled_within
def adapt_thresholds(w: SimulationState, bytes_per_s: float) -> None:
    """Where arrivals come near to what can be served: balance the thresholds, and convert if that serves more."""
    control, seen = w.scheduler[0], BalanceInputs(w.scheduler, w.lines, w.bins, w.pools, w.decode_pools)
    n_long, n_short, n_decode = n_up(w.pools, LONG_LINE), n_up(w.pools, SHORT_LINE), n_decoding(w)
    most_decoded = decode_rate(seen, n_decode)
    now = min(prefill_rate(seen, place_of(control.base), n_short, n_long, bytes_per_s), most_decoded)
    if n_short + n_decode < 2 or control.seen / control.seen_s <= control.busy_fraction * now:
        control.n_wanted = 0
        return
    place = balanced_place(seen, n_short, n_long, bytes_per_s)
    balanced = min(prefill_rate(seen, place, n_short, n_long, bytes_per_s), most_decoded)
    if balanced > (1.0 + control.min_gain) * now:
        control.base, now = factor_of(place), balanced
        if control.is_short_term == 0:
            set_factor(w.scheduler, w.thresholds, w.base_thresholds, control.base, w.clock[0].now_s)
    control.req_per_s = now
    wanted = best_n_short(seen, n_short + n_decode, n_long, bytes_per_s)
    if split_rate(seen, wanted, n_short + n_decode, n_long, bytes_per_s) <= (1.0 + control.min_gain) * balanced:
        wanted = n_short
    want(w, wanted - n_short)


@compiled_apart
def best_n_short(seen: BalanceInputs, n: int, n_long: int, bytes_per_s: float) -> int:
    """Units to prefill with: with more of them prefill is faster and decode slower, so the best is where they meet."""
    low, high = 1, n - 1  # the fewest with which prefill is no slower than decode, if any
    while low < high:
        middle = (low + high) >> 1
        place = balanced_place(seen, middle, n_long, bytes_per_s)
        if prefill_rate(seen, place, middle, n_long, bytes_per_s) < decode_rate(seen, n - middle):
            low = middle + 1
        else:
            high = middle
    if low > 1 and split_rate(seen, low - 1, n, n_long, bytes_per_s) >= split_rate(seen, low, n, n_long, bytes_per_s):
        return low - 1
    return low


@compiled_apart
def split_rate(seen: BalanceInputs, n_short: int, n: int, n_long: int, bytes_per_s: float) -> float:
    """Rate that so many of the units in prefill would serve, thresholds balanced [1/s]."""
    place = balanced_place(seen, n_short, n_long, bytes_per_s)
    return min(prefill_rate(seen, place, n_short, n_long, bytes_per_s), decode_rate(seen, n - n_short))


@compiled_within
def want(w: SimulationState, more_prefill: int) -> None:
    """Note a wish to convert so many units, below 0 from prefill to decode; act when it lasts."""
    control = w.scheduler[0]
    direction = 1 if more_prefill > 0 else -1
    if more_prefill == 0:
        control.n_wanted = 0
        return
    control.n_wanted = control.n_wanted + 1 if direction == control.direction else 1
    control.direction = direction
    if control.n_wanted >= control.n_decisions:
        control.n_wanted = 0
        for _ in range(min(abs(more_prefill), max(int(MOST_AT_ONCE * w.units.shape[0]), 1))):
            convert(w, direction)


@compiled_apart
def n_up(pools: Records, line: int) -> int:
    """Prefill instances that take work, of the pools for short or for long prompts."""
    n = 0
    for p in range(pools.shape[0]):
        if pools[p].line == line:
            n += pools[p].n_up
    return n


@compiled_within
def n_decoding(w: SimulationState) -> int:
    """Units that take requests to decode."""
    n = 0
    for u in range(w.units.shape[0]):
        if serves(w.units, w.instances, w.decoders, u, True):
            n += 1
    return n


@compiled_within
def n_on_the_way(w: SimulationState) -> int:
    """Units that are leaving a role or warming up."""
    n = 0
    for u in range(w.units.shape[0]):
        if w.units[u].state != SERVES:
            n += 1
    return n


@compiled_within
def fade(w: SimulationState) -> None:
    """Let what was observed count less."""
    control = w.scheduler[0]
    control.seen, control.seen_s = control.seen * FADING, control.seen_s * FADING
    control.n_done, control.done_tokens = control.n_done * FADING, control.done_tokens * FADING
    control.n_left, control.left_bytes = control.n_left * FADING, control.left_bytes * FADING
    for row in range(w.lines.shape[0]):
        for column in range(w.lines.shape[1]):
            w.lines[row, column] *= FADING
    for row in range(w.bins.shape[0]):
        w.bins[row, 0] *= FADING
        w.bins[row, 1] *= FADING
