"""Transfers over a link: what prefill has produced is sent at a max-min fair share, over one or several connections.

A transfer whose backlog is empty sends what its prefill produces, no more; the others share what is left, each as much
per connection as any other and none beyond the limit of its connections. Between changes all rates are constant, so the
next change is known exactly. The move of a prefix between cache pools, one at a time, is a transfer of one connection
that uses no more than a fraction of the link.
"""

from math import floor, inf

from planner.executor.compiled import compiled, compiled_apart, compiled_extra
from planner.executor.kernel.event_queue import cancel, schedule
from planner.executor.kernel.lists import push
from planner.executor.kernel.records import DELIVERY, LINK_CHANGE, NONE, TRAVELS, Records
from planner.executor.kernel.state import SimulationState

SETTLED = -1.0
ROUNDING = 4e-16
"""Relative error of a time: what a link sends in so small a part of the clock's time counts as nothing."""


@compiled
def settle(w: SimulationState, k: int) -> None:
    """Bring a link's transfers up to now at the rates they had."""
    link, now_s = w.links[k], w.clock[0].now_s
    passed_s = now_s - link.settled_s
    if passed_s <= 0:
        return
    sent = 0.0
    for f in range(link.n_flows):
        flow = w.flows[k, f]
        flow.backlog_bytes += (flow.made_bytes_per_s - flow.rate_bytes_per_s) * passed_s
        if flow.backlog_bytes <= 1.0 + flow.rate_bytes_per_s * now_s * ROUNDING:
            flow.backlog_bytes = 0.0
        sent += flow.rate_bytes_per_s * passed_s
    if link.is_moving == 1:
        sent += _settle_move(w, k, now_s, passed_s)
    link.sent_bytes += sent
    _watch_peak(w, k, now_s, sent / passed_s)
    link.settled_s = now_s


@compiled_extra(0.0)
def _settle_move(w: SimulationState, k: int, now_s: float, passed_s: float) -> float:
    """Bytes that a move has sent in so long a time."""
    link = w.links[k]
    sent = min(link.move_bytes_per_s * passed_s, link.move_bytes)
    link.move_bytes -= sent
    if link.move_bytes <= 1.0 + link.move_bytes_per_s * now_s * ROUNDING:
        sent, link.move_bytes = sent + link.move_bytes, 0.0
    link.moved_bytes += sent
    return float(sent)


@compiled
def _watch_peak(w: SimulationState, k: int, now_s: float, bytes_per_s: float) -> None:
    """Add what was sent since the last change to windows of fixed length, and keep the fullest."""
    link, width_s = w.links[k], w.clock[0].window_s
    since_s = link.settled_s
    while now_s >= link.window_s + width_s:
        end_s = link.window_s + width_s
        link.window_bytes += bytes_per_s * (end_s - since_s)
        link.peak_bytes_per_s = max(link.peak_bytes_per_s, link.window_bytes / width_s)
        link.window_s, link.window_bytes, since_s = end_s, 0.0, end_s
        if now_s >= link.window_s + width_s:  # whole windows at one rate are all alike
            link.peak_bytes_per_s = max(link.peak_bytes_per_s, bytes_per_s)
            link.window_s += floor((now_s - link.window_s) / width_s) * width_s
            since_s = link.window_s
    link.window_bytes += bytes_per_s * (now_s - since_s)


@compiled_apart
def free_bytes_per_s(links: Records, k: int) -> float:
    """Bandwidth that transfers could have now: what others leave, but not less than the fair share of a single one."""
    link = links[k]
    there = link.bytes_per_s * link.health
    if link.background_bytes_per_s <= 0:
        return float(there)
    fair = there * link.n_connections / (link.n_connections + link.background_connections)
    return float(max(there - link.background_bytes_per_s, fair))


@compiled_apart
def count_capacity(links: Records, k: int, now_s: float) -> None:
    """Bring what a link could have carried up to now; to be called before that changes."""
    link = links[k]
    link.could_bytes += free_bytes_per_s(links, k) * (now_s - link.could_since_s)
    link.could_since_s = now_s


@compiled
def share_link(w: SimulationState, k: int) -> None:
    """Give every transfer its rate, and plan the link's next change; the link must be settled."""
    link = w.links[k]
    weight = link.n_connections
    most = weight * link.connection_bytes_per_s
    left, weights, smallest = link.bytes_per_s * link.health, 0.0, inf
    for f in range(link.n_flows):
        flow = w.flows[k, f]
        flow.limit_bytes_per_s = most if flow.backlog_bytes > 0 else min(most, flow.made_bytes_per_s)
        weights += weight
        smallest = min(smallest, flow.limit_bytes_per_s)
    background = link.background_bytes_per_s
    if background > 0:
        weights += link.background_connections
    if link.is_moving == 1:
        left -= _share_of_move(w, k, left)
    _fill(w, k, left, weights, background)
    _schedule_change(w, k)


@compiled_extra(0.0)
def _share_of_move(w: SimulationState, k: int, left: float) -> float:
    """The rate of a move beside all others: what the rest then share evenly is theirs without it."""
    link, flows, background = w.links[k], w.flows, w.links[k].background_bytes_per_s
    most = min(link.connection_bytes_per_s, left * link.move_fraction) if link.move_bytes > 0 else 0.0
    level, before = 0.0, -1.0
    while level > before:
        before, rest, weights = level, left, 0.0
        for f in range(link.n_flows):
            if flows[k, f].limit_bytes_per_s > level * link.n_connections:
                weights += link.n_connections
            else:
                rest -= flows[k, f].limit_bytes_per_s
        if background > level * link.background_connections:
            weights += link.background_connections
        else:
            rest -= background
        if most > level:
            weights += 1.0
        else:
            rest -= most
        level = rest / weights if weights > 0 else inf
    link.move_bytes_per_s = min(most, level)
    return float(link.move_bytes_per_s)


@compiled
def _fill(w: SimulationState, k: int, left: float, weights: float, background: float) -> None:
    """Water-filling: whoever wants no more than the common level gets what it wants, until all others get the level."""
    link = w.links[k]
    weight, is_background_open, changed = link.n_connections, background > 0, True
    while changed and weights > 0:
        changed = False
        level = left / weights
        if is_background_open and background <= level * link.background_connections:
            left, weights = left - background, weights - link.background_connections
            is_background_open, changed = False, True
            continue
        for f in range(link.n_flows):
            flow = w.flows[k, f]
            if 0 <= flow.limit_bytes_per_s <= level * weight:
                flow.rate_bytes_per_s = flow.limit_bytes_per_s
                left, weights = left - flow.limit_bytes_per_s, weights - weight
                flow.limit_bytes_per_s, changed = SETTLED, True
    for f in range(link.n_flows):
        flow = w.flows[k, f]
        if flow.limit_bytes_per_s >= 0:
            flow.rate_bytes_per_s = max(left, 0.0) / weights * weight


@compiled
def _schedule_change(w: SimulationState, k: int) -> None:
    """The next change by itself: a backlog, or a move, that runs out."""
    link, first_s = w.links[k], inf
    for f in range(link.n_flows):
        flow = w.flows[k, f]
        drain = flow.rate_bytes_per_s - flow.made_bytes_per_s
        if flow.backlog_bytes > 0 and drain > 0:
            first_s = min(first_s, flow.backlog_bytes / drain)
        elif flow.backlog_bytes == 0 and flow.is_open == 0:
            first_s = 0.0
    if link.is_moving == 1:
        first_s = min(first_s, _move_s(w.links, k))
    actor = w.clock[0].first_link + k
    if first_s < inf:
        schedule(w, actor, LINK_CHANGE, w.clock[0].now_s + first_s)
    else:
        cancel(w, actor)


@compiled_apart
def _move_s(links: Records, k: int) -> float:
    """Seconds until a move is sent at its rate."""
    link = links[k]
    if link.move_bytes == 0:
        return 0.0
    return float(link.move_bytes / link.move_bytes_per_s) if link.move_bytes_per_s > 0 else inf


@compiled
def start_transfer(w: SimulationState, k: int, r: int) -> int:
    """A new transfer, empty and open; the link must be settled."""
    f: int = w.links[k].n_flows
    w.links[k].n_flows += 1
    flow = w.flows[k, f]
    flow.request, flow.is_open, flow.backlog_bytes = r, 1, 0.0
    flow.made_bytes_per_s, flow.rate_bytes_per_s = 0.0, 0.0
    w.requests[r].flow = f
    return f


@compiled
def remove_transfer(w: SimulationState, k: int, f: int) -> None:
    """Take a transfer out; the last one takes its place."""
    w.links[k].n_flows -= 1
    last = w.links[k].n_flows
    w.requests[w.flows[k, f].request].flow = NONE
    if f != last:
        w.flows[k, f] = w.flows[k, last]
        w.requests[w.flows[k, f].request].flow = f


@compiled
def finish_transfer(w: SimulationState, k: int) -> int:
    """Take out one transfer that is closed and empty, and send it on its way: its request, or NONE."""
    for f in range(w.links[k].n_flows):
        flow = w.flows[k, f]
        if flow.is_open == 0 and flow.backlog_bytes == 0:
            r: int = flow.request
            remove_transfer(w, k, f)
            w.requests[r].state = TRAVELS
            w.requests[r].due_s = w.clock[0].now_s + w.links[k].half_round_trip_s
            push(w.requests, w.deliveries[k], r)
            if w.deliveries[k].n == 1:
                schedule(w, w.clock[0].first_delivery + k, DELIVERY, w.requests[r].due_s)
            return r
    return NONE
