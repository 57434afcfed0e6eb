"""A plain compiled simulation of prefill, link and decode in a row, to hold the formulas of latency under load against.

It shares nothing with the executor: one loop over the next arrival, the next prefill that ends and the next transfer
that runs dry, and one over the steps of decode batches.
"""

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


BACKLOG, MADE, RATE, IS_OPEN, OWNER = range(5)
"""Columns of a table of transfers."""


@numba.njit(cache=True)
def share_out(flows, n):  # type: ignore[no-untyped-def]
    """Max-min fair rates: a flow without backlog wants what is made for it, one with backlog as much as there is."""
    left, unsettled, changed = 1.0, n, True
    flows[:n, RATE] = -1.0
    while changed and unsettled > 0:
        changed, level = False, left / unsettled
        for f in range(n):
            if flows[f, RATE] < 0 and flows[f, BACKLOG] <= 0 and flows[f, MADE] <= level:
                flows[f, RATE] = flows[f, MADE]
                left, unsettled, changed = left - flows[f, MADE], unsettled - 1, True
    for f in range(n):
        if flows[f, RATE] < 0:
            flows[f, RATE] = max(left, 0.0) / unsettled


@numba.njit(cache=True)
def first_dry(flows, n):  # type: ignore[no-untyped-def]
    """The flow that runs dry first, and in how many seconds."""
    dry, dry_s = -1, np.inf
    for f in range(n):
        drain = flows[f, RATE] - flows[f, MADE]
        if flows[f, BACKLOG] <= 0 and flows[f, IS_OPEN] == 0:
            return f, 0.0
        if flows[f, BACKLOG] > 0 and drain > 1e-12 and flows[f, BACKLOG] / drain < dry_s:
            dry, dry_s = f, flows[f, BACKLOG] / drain
    return dry, dry_s


@numba.njit(cache=True)
def started(job, ends, queue, ahead, service_s, now):  # type: ignore[no-untyped-def]
    """Give the next that waits to an idle instance: its place, or -1."""
    for i in range(len(job)):
        if job[i] < 0 and ahead[0] < ahead[1]:
            job[i] = queue[ahead[0]]
            ahead[0] += 1
            ends[i] = now + service_s[job[i]]
            return i
    return -1


@numba.njit(cache=True)
def tandem_run(n_instances, gaps_s, pool, service_s, link_s, n_layers):  # type: ignore[no-untyped-def]
    """Prefill of each request in its pool, first come first served, and its transfer layer by layer on one link.

    Args: instances of each pool; gap before each arrival; pool, prefill seconds and seconds on the link alone of each
    request; layers. Returns when each came, began, ended its prefill, and had its last byte there.
    """
    n, first = len(gaps_s), np.append(0, np.cumsum(n_instances))
    begin, end, there, arrive = np.empty(n), np.empty(n), np.full(n, np.nan), np.cumsum(gaps_s)
    queue, ahead = np.empty((len(n_instances), n), dtype=np.int64), np.zeros((len(n_instances), 2), np.int64)
    job, ends, flow_of = np.full(first[-1], -1), np.full(first[-1], np.inf), np.full(n, -1)
    flows, n_flows, now, coming, n_done = np.zeros((8192, 5)), 0, 0.0, 0, 0
    while n_done < n:
        share_out(flows, n_flows)
        dry, dry_s = first_dry(flows, n_flows)
        who, arrival_s = np.argmin(ends), arrive[coming] if coming < n else np.inf
        other_s = min(arrival_s, ends[who])
        at = min(other_s, now + dry_s)
        for f in range(n_flows):
            flows[f, BACKLOG] = max(flows[f, BACKLOG] + (flows[f, MADE] - flows[f, RATE]) * (at - now), 0.0)
        now = at
        if dry >= 0 and at < other_s:
            flows[dry, BACKLOG] = 0.0
            if flows[dry, IS_OPEN] == 0:
                there[int(flows[dry, OWNER])] = now
                n_done, n_flows = n_done + 1, n_flows - 1
                flows[dry] = flows[n_flows]
                flow_of[int(flows[dry, OWNER])] = dry
            continue
        if arrival_s <= ends[who]:
            p = pool[coming]
            queue[p, ahead[p, 1]] = coming
            ahead[p, 1], coming = ahead[p, 1] + 1, coming + 1
        else:
            r = job[who]
            end[r], ends[who], job[who] = now, np.inf, -1
            flows[flow_of[r], MADE], flows[flow_of[r], IS_OPEN] = 0.0, 0.0
            flows[flow_of[r], BACKLOG] += link_s[r] / n_layers
        for p in range(len(n_instances)):
            mine = slice(first[p], first[p + 1])
            i = started(job[mine], ends[mine], queue[p], ahead[p], service_s, now)
            if i >= 0:
                r = job[first[p] + i]
                begin[r], flow_of[r] = now, n_flows
                flows[n_flows, BACKLOG], flows[n_flows, IS_OPEN], flows[n_flows, OWNER] = 0.0, 1.0, r
                flows[n_flows, MADE] = link_s[r] * (n_layers - 1) / n_layers / service_s[r]
                n_flows += 1
    return arrive, begin, end, there


@numba.njit(cache=True)
def emptiest(size, joining):  # type: ignore[no-untyped-def]
    """The instance with the fewest sequences."""
    return np.argmin(size + joining)


@numba.njit(cache=True)
def step_done(left, size):  # type: ignore[no-untyped-def]
    """Take a token off every sequence of an instance: how many are left."""
    place = 0
    while place < size:
        left[place] -= 1
        if left[place] == 0:
            size -= 1
            left[place] = left[size]
        else:
            place += 1
    return size


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
            best = emptiest(size, n_joining)
            if size[best] + n_joining[best] >= limit:
                continue
            joining[best, n_joining[best]] = n_tokens[head]
            n_joining[best] += 1
            head += 1
            if size[best] > 0:
                continue
            d = best
        else:
            now = ends[d]
            size[d] = step_done(left[d], size[d])
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
