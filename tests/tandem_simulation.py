"""A plain compiled simulation of prefill, link and decode in a row, to hold the formulas of latency under load against.

It shares nothing with the executor: one loop over the next arrival, the next prefill that ends and the next transfer
that runs dry, and decode places by the recursion of Kiefer and Wolfowitz (1955).
"""

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@numba.njit(cache=True)
def shared_out(backlog, made, is_open, rate, n_flows, capacity):  # type: ignore[no-untyped-def]
    """Max-min fair rates: a flow without backlog wants what is made for it, one with backlog as much as there is."""
    left, unsettled = capacity, n_flows
    for f in range(n_flows):
        rate[f] = -1.0
    changed = True
    while changed and unsettled > 0:
        changed, level = False, left / unsettled
        for f in range(n_flows):
            if rate[f] < 0 and backlog[f] <= 0 and made[f] <= level:
                rate[f] = made[f]
                left, unsettled, changed = left - made[f], unsettled - 1, True
    for f in range(n_flows):
        if rate[f] < 0:
            rate[f] = max(left, 0.0) / unsettled


@numba.njit(cache=True)
def tandem_run(n_instances, gaps_s, pool, service_s, link_s, n_layers):  # type: ignore[no-untyped-def]
    """Prefill of each request in its pool, first come first served, and its transfer layer by layer on one link.

    Args: instances of each pool; gap before each arrival; pool, prefill seconds and seconds on the link alone of each
    request; layers. Returns when each prefill began and ended, and when its last byte was there.
    """
    n, n_pools, total = len(gaps_s), len(n_instances), n_instances.sum()
    begin, end, there = np.empty(n), np.empty(n), np.full(n, np.nan)
    arrive = np.cumsum(gaps_s)
    queue, head, tail = np.empty((n_pools, n), dtype=np.int64), np.zeros(n_pools, np.int64), np.zeros(n_pools, np.int64)
    job, ends = np.full(total, -1), np.full(total, np.inf)
    first = np.zeros(n_pools + 1, np.int64)
    for p in range(n_pools):
        first[p + 1] = first[p] + n_instances[p]
    most = 4096
    backlog, made, rate = np.zeros(most), np.zeros(most), np.zeros(most)
    is_open, owner, flow_of = np.zeros(most, np.bool_), np.zeros(most, np.int64), np.full(n, -1)
    n_flows, now, coming, n_done = 0, 0.0, 0, 0
    while n_done < n and n_flows < most - 2:
        shared_out(backlog, made, is_open, rate, n_flows, 1.0)
        dry, dry_s = -1, np.inf
        for f in range(n_flows):
            drain = rate[f] - made[f]
            if backlog[f] <= 0 and not is_open[f]:
                dry, dry_s = f, 0.0
            elif backlog[f] > 0 and drain > 1e-12 and backlog[f] / drain < dry_s:
                dry, dry_s = f, backlog[f] / drain
        who = np.argmin(ends)
        arrival_s = arrive[coming] if coming < n else np.inf
        at = min(arrival_s, ends[who], now + dry_s)
        for f in range(n_flows):
            backlog[f] = max(backlog[f] + (made[f] - rate[f]) * (at - now), 0.0)
        now = at
        if dry >= 0 and at < min(arrival_s, ends[who]):
            backlog[dry] = 0.0
            if not is_open[dry]:
                there[owner[dry]] = now
                n_done += 1
                n_flows -= 1
                backlog[dry], made[dry], is_open[dry] = backlog[n_flows], made[n_flows], is_open[n_flows]
                owner[dry] = owner[n_flows]
                flow_of[owner[dry]] = dry
            continue
        if arrival_s <= ends[who]:
            p = pool[coming]
            queue[p, tail[p]] = coming
            tail[p] += 1
            coming += 1
        else:
            r = job[who]
            end[r], ends[who], job[who] = now, np.inf, -1
            f = flow_of[r]
            made[f], is_open[f] = 0.0, False
            backlog[f] += link_s[r] / n_layers
        for p in range(n_pools):
            for i in range(first[p], first[p + 1]):
                if job[i] < 0 and head[p] < tail[p]:
                    r = queue[p, head[p]]
                    head[p] += 1
                    job[i], begin[r], ends[i] = r, now, now + service_s[r]
                    backlog[n_flows], is_open[n_flows], owner[n_flows] = 0.0, True, r
                    made[n_flows] = link_s[r] * (n_layers - 1) / n_layers / service_s[r]
                    flow_of[r] = n_flows
                    n_flows += 1
    return arrive, begin, end, there


@numba.njit(cache=True)
def places_run(n_places, arrive_s, hold_s):  # type: ignore[no-untyped-def]
    """Wait of each request for one of some places, first come first served."""
    free, wait = np.zeros(n_places), np.empty(len(arrive_s))
    for r in range(len(arrive_s)):
        i = np.argmin(free)
        begin = max(free[i], arrive_s[r])
        wait[r], free[i] = begin - arrive_s[r], begin + hold_s[r]
    return wait


@numba.njit(cache=True)
def batches_run(n_instances, arrive_s, n_tokens, step_s):  # type: ignore[no-untyped-def]
    """Wait of each request for a place in the batches of some instances, step by step, each joining the emptiest.

    `step_s[b]` is the step of a batch of b; who comes while a step runs enters at its end, but has its place at once.
    """
    n, limit = len(arrive_s), len(step_s) - 1
    left = np.zeros((n_instances, limit), np.int64)
    size, joining = np.zeros(n_instances, np.int64), np.zeros((n_instances, limit), np.int64)
    n_joining, ends = np.zeros(n_instances, np.int64), np.full(n_instances, np.inf)
    wait, head, coming = np.zeros(n), 0, 0
    while head < n:
        d = np.argmin(ends)
        if coming < n and arrive_s[coming] <= ends[d]:
            now, coming = arrive_s[coming], coming + 1
            if coming - 1 > head:
                continue
            best = 0
            for i in range(n_instances):
                if size[i] + n_joining[i] < size[best] + n_joining[best]:
                    best = i
            if size[best] + n_joining[best] >= limit:
                continue
            joining[best, n_joining[best]] = n_tokens[head]
            n_joining[best] += 1
            head += 1
            if size[best] > 0:
                continue
            d = best
        else:
            now, place = ends[d], 0
            while place < size[d]:
                left[d, place] -= 1
                if left[d, place] == 0:
                    size[d] -= 1
                    left[d, place] = left[d, size[d]]
                else:
                    place += 1
        for j in range(n_joining[d]):
            left[d, size[d]] = joining[d, j]
            size[d] += 1
        n_joining[d] = 0
        while size[d] < limit and head < coming:
            left[d, size[d]] = n_tokens[head]
            wait[head] = now - arrive_s[head]
            size[d], head = size[d] + 1, head + 1
        ends[d] = now + step_s[size[d]] if size[d] > 0 else np.inf
    return wait
