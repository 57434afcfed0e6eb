"""Late requests as variables of bounds: how much work a pool may have where the pools of a class share them.

An SLO is a class's: a fraction of its requests may be late, in whichever pools. So one pool may be later than that with
a part of the class, and another less late. In bounds the late requests of a use are a column of their own. All late
requests of a class in a period together are at most the fraction that its SLO allows.

Equation:
    sum of f_u (b_u - w_u s_u l_u) <= C(n), for every choice of w_u > 0: busy instances b_u of every use u of a pool,
    late requests l_u [req/s], s_u the service that each counts with. With L_u(n, b) the least fraction of a use that is
    late in a pool of n instances of which b are busy, C_u(n) = max over b of b (1 - w_u L_u(n, b)), C the largest of
    the C_u and f_u the least of C(n) / C_u(n) over n

Proof:
    Late requests take s_u l_u >= b_u L_u(n, b) seconds of service per second, b all that is busy. So the left side is
    at most the sum of f_u b_u (1 - w_u L_u(n, b)). That is a mean of f_u b (1 - w_u L_u(n, b)) <= f_u C_u(n) <= C(n)
    with weights b_u / b. Rows over the class say how l_u is divided between pools.

Valid:
    L_u is that of a queue of the use alone, with the shortest waits that the closed form may stand for. Beside shorter
    services a use waits less: what a mix gains from that is less than what these waits leave open. Tests hold the rows
    against queues of services that differ by a factor of eleven, in pools of 1 to 12 instances.
"""

from collections.abc import Iterable, Mapping
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.network.cells import Array, Use, end_of, lengths_between
from planner.optimizer.network.loads import N_AT_ONCE, NetworkLoads
from planner.optimizer.network.shortest_waits import shortest_waits
from planner.queueing.staffing import QueuedRequests, late_fraction, most_busy_servers, most_timely_servers
from planner.work_clock import spend

SIZE_STEP = 4.0
"""Ratio of the sizes of pools at which rows are exact: between them they are within a part in a hundred."""
MOST_LATE = 0.5
"""Of the requests of a use, where the price of late ones is chosen."""
WAITING_LATE = 0.1
"""Of those that are in time without a wait, the part that is late there at the least."""
NEARBY = 0.995
"""Of a load: another one, to see how fast late requests become more."""
LEAST_SLOPE = 1e-9
TANGENT_S = 3e-4
"""What a tangent takes to be found [s]."""


class LateUse(NamedTuple):
    """A use, or the prompts between the ends of its cell on the same arc, with a size of its pool."""

    use: Use
    is_between: bool
    n_instances: float
    """At which the price of late requests is that of a pool as busy as may be."""


class Tangent(NamedTuple):
    """A limit of the load of a use that late requests raise."""

    limit: Array
    """C_u at sizes of the grid [count]."""
    busy_per_late: float
    """w_u s_u: busy instances that a late request per second makes up for [s]."""


def sizes_between(low: int, high: int) -> float:
    """The size at which a row for pools of some sizes is exact: a power of `SIZE_STEP` [count].

    >>> sizes_between(1, 1), sizes_between(1, 100), sizes_between(40, 60)
    (1.0, 16.0, 64.0)

    Args:
        low: least size of the pool [count].
        high: greatest size of the pool [count].
    """
    return float(SIZE_STEP ** np.ceil(np.log(max(low, 1) * max(high, 1)) / 2 / np.log(SIZE_STEP) - 0.5))


def least_late(loads: NetworkLoads, use: Use, is_between: bool) -> float:
    """Fraction of a use that is late in an idle pool [fraction].

    Args:
        is_between: whether it is about the prompts between the ends of its cell.
    """
    queue = _queue(loads, use, is_between)
    return 0.0 if queue is None else float(queue.weights[queue.slack_s < 0].sum())


def requests_of_use(loads: NetworkLoads, use: Use, is_between: bool) -> tuple[float, float]:
    """Fewest and most requests of a use per unit of its rate [-].

    Args:
        is_between: whether it is about the prompts between the ends of its cell; only their work is known then.
    """
    q, arc, part, cell = use
    if not is_between:
        return (loads.fraction(q, part, cell),) * 2
    service_s = late_service_s(loads, use, is_between)
    return (loads.between_s(q, arc, cell) / service_s if service_s > 0 else 0.0), inf


def late_service_s(loads: NetworkLoads, use: Use, is_between: bool) -> float:
    """Service that a late request counts with [s]: the mean of its part, or the longest between the ends of a cell.

    Args:
        is_between: whether it is about the prompts between the ends of its cell.
    """
    q, arc, part, cell = use
    if not is_between:
        fraction = loads.fraction(q, part, cell)
        return loads.work_s(q, arc, part, cell) / fraction if fraction > 0 else 0.0
    pool, mix = loads.problem.pools[arc.pool], loads.class_of(q).mix
    key = ("longest between", id(pool.rates), id(mix), cell.low_tokens, cell.high_tokens)
    if key not in loads.known:
        total, cached = lengths_between(mix, cell)
        loads.known[key] = float(np.max(pool.work.seconds(total, cached))) if total.size else 0.0
    return float(loads.known[key])


def tangents(loads: NetworkLoads, late_uses: Iterable[LateUse]) -> Mapping[LateUse, Tangent]:
    """Limits of many uses at once, remembered by the coefficients."""
    keys = {late: _key(loads, late) for late in dict.fromkeys(late_uses)}
    waiting: dict[tuple[float, int], dict[tuple[object, ...], tuple[QueuedRequests, float]]] = {}
    for late, key in keys.items():
        if key in loads.known:
            continue
        queue = _queue(loads, late.use, late.is_between)
        if queue is None:
            loads.known[key] = loads.most_stable, 0.0
        else:
            at = late.n_instances, loads.problem.pools[late.use.arc.pool].rates.places
            waiting.setdefault(at, {})[key] = queue, _aimed(loads, late, queue)
    for (n, places), of_size in waiting.items():
        _find(loads, n, places, of_size)
    found = {}
    for late, key in keys.items():
        limit, weight = loads.known[key]
        found[late] = Tangent(limit, weight * late_service_s(loads, late.use, late.is_between))
    return found


def _find(
    loads: NetworkLoads, n: float, places: int, of_size: Mapping[tuple[object, ...], tuple[QueuedRequests, float]]
) -> None:
    """Tangents of pools whose instances prefill so many prompts at once: every place is a server."""
    factors, peakedness = loads.optimistic_waits(places)
    size = np.array([n * places])
    at_size = shortest_waits(size, peakedness) if loads.is_optimistic else 1.0
    keys = list(of_size)
    for some in (keys[i : i + N_AT_ONCE] for i in range(0, len(keys), N_AT_ONCE)):
        queues, aimed = zip(*(of_size[key] for key in some), strict=True)
        batch = QueuedRequests.batch(queues)
        busy = most_busy_servers(size, batch, np.array(aimed), at_size, peakedness)
        late, nearby = (x * late_fraction(size, x, batch, at_size) for x in (busy, NEARBY * busy))
        slopes = np.maximum((late - nearby) / np.maximum((1 - NEARBY) * busy, LEAST_SLOPE), LEAST_SLOPE)[:, 0]
        limits = most_timely_servers(loads.grid * places, batch, 1 / slopes, factors, peakedness) / places
        limits = np.minimum(limits, loads.most_stable)
        spend(TANGENT_S * len(some))
        loads.known.update(zip(some, zip(limits, (1 / slopes).tolist(), strict=True), strict=True))


def _aimed(loads: NetworkLoads, late: LateUse, queue: QueuedRequests) -> float:
    """Fraction of a use that is late where the price of late requests is chosen: any choice gives a valid row."""
    q, _, part, cell = late.use
    anyhow = float(queue.weights[queue.slack_s < 0].sum())
    fraction = 1.0 if late.is_between else max(loads.fraction(q, part, cell), LEAST_SLOPE)
    return max(min(loads.late_allowed(q) / fraction, MOST_LATE), anyhow + WAITING_LATE * (1 - anyhow))


def _key(loads: NetworkLoads, late: LateUse) -> tuple[object, ...]:
    (q, arc, part, cell), is_between, n = late
    c = loads.problem.streams[q].request_class
    ends = (
        cell.low_tokens if part == "long" or is_between else 0.0,
        cell.high_tokens if is_between else end_of(part, cell),
    )
    return ("tangent", c, loads.arc_keys[arc], part, *ends, is_between, n)


def _queue(loads: NetworkLoads, use: Use, is_between: bool) -> QueuedRequests | None:
    """A use as its queue sees it; None where none of it can be late."""
    q, arc, part, cell = use
    key = ("late queue", *_key(loads, LateUse(use, is_between, 0.0)))
    if key not in loads.known:
        loads.known[key] = _queue_between(loads, use) if is_between else loads.queued(q, arc, part, cell)
    found: QueuedRequests | None = loads.known[key]
    return found


def _queue_between(loads: NetworkLoads, use: Use) -> QueuedRequests | None:
    """Prompts between the ends of a cell: each may wait as long as the one with most slack."""
    q, arc, part, cell = use
    total, cached = lengths_between(loads.class_of(q).mix, cell)
    service = loads.problem.pools[arc.pool].rates.prefill
    if service is None or not total.size:
        return None
    service_s = np.asarray(service.seconds(total, cached))
    slack_s: NDArray[np.float64] = loads.slo_ttft_s(q) - service_s - loads.transfer_s(arc, total, cached, service_s)
    mean_s, scv = loads.queued_service(q, arc, part, cell) or (float(service_s.min()), 0.0)
    gaps = loads.class_arrival_scv(loads.class_of(q))
    return QueuedRequests(mean_s, scv, np.array([float(slack_s.max())]), np.ones(1), gaps)
