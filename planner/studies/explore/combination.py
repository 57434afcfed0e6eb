"""Arithmetic of the page on its tables, in Python: it adds, multiplies and interpolates.

`planner/report/explore/figures.js` does the same, function by function, and corrects latency by the exact nodes; tests
hold both against `planner optimize`.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import exp, inf, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.results.explorer import LinkTable, PoolTable, Tables, WaitTable
from planner.units import SECONDS_PER_HOUR

QUANTILES = {"ttft_p50_s": 0.5, "ttft_p90_s": 0.9, "ttft_p99_s": 0.99}
GBIT_PER_GB = 8.0
PER_MILLION = 1e6
STEPS = 28
"""Halvings of the range that a quantile lies in."""
LEAST = 1e-12
RARE = 1e-6
"""A wait for decode less likely than this is none."""
LEVELS = (1.0, 0.7, 0.45, 0.25, 0.12, 0.05, 0.02, 0.006)
"""Survivals between which a wait for decode is one value where it adds to another; finer in the tail."""


class Knobs(NamedTuple):
    """Settings that a reader chooses."""

    n_instances: tuple[int, ...]
    threshold_tokens: float
    req_per_s: float


class NodePosition(NamedTuple):
    """Where a value lies among ascending nodes: between a node and the next, and how far."""

    left: int
    part: float


class TabulatedWait(NamedTuple):
    """A wait between the nodes of its table."""

    waiting_fraction: float
    given_wait_s: float
    log_survival: tuple[float, ...]


def place(nodes: Sequence[float], value: float) -> NodePosition:
    """Where a value lies; outside, at the nearest end.

    >>> place((1.0, 2.0, 4.0), 3.0), place((1.0, 2.0), 9.0), place((5.0,), 7.0)
    (NodePosition(left=1, part=0.5), NodePosition(left=0, part=1.0), NodePosition(left=0, part=0.0))
    """
    if len(nodes) == 1:
        return NodePosition(0, 0.0)
    left = min(max(bisect_right(nodes, value) - 1, 0), len(nodes) - 2)
    return NodePosition(left, min(max((value - nodes[left]) / (nodes[left + 1] - nodes[left]), 0.0), 1.0))


def value_at(row: Sequence[float], at: NodePosition) -> float:
    """The value of a row at a place, on a straight line; at a node exactly its value."""
    if at.part == 0:
        return row[at.left]
    if at.part == 1:
        return row[at.left + 1]
    return row[at.left] + at.part * (row[at.left + 1] - row[at.left])


def log_place(nodes: Sequence[float], value: float) -> NodePosition:
    """`place` on a logarithmic scale; nodes are hit exactly."""
    found = place(nodes, value)
    if found.part in (0.0, 1.0):
        return found
    low, high = max(nodes[found.left], LEAST), max(nodes[found.left + 1], LEAST)
    return NodePosition(found.left, log(value / low) / log(high / low))


def busy(tables: Tables, knobs: Knobs) -> list[float]:
    """Busy instances of every pool over all of them [-]; more than 1 is too much."""
    fine = log_place(tables.fine_tokens, knobs.threshold_tokens)
    return [
        knobs.req_per_s * value_at(pool.work_s, fine) / n if n else (inf if value_at(pool.work_s, fine) > 0 else 0.0)
        for pool, n in zip(tables.pools, knobs.n_instances, strict=True)
    ]


def capacities(tables: Tables, knobs: Knobs) -> list[float | None]:
    """Requests of its kind that every pool serves [1/s], as a plan states them; None of one that takes none."""
    fine = log_place(tables.fine_tokens, knobs.threshold_tokens)
    return [
        n * value_at(pool.taken_fraction, fine) / work if (work := value_at(pool.work_s, fine)) > 0 else None
        for pool, n in zip(tables.pools, knobs.n_instances, strict=True)
    ]


def unit_limits(tables: Tables, knobs: Knobs) -> dict[str, float]:
    """Rate of all requests that each pool and link would allow alone [1/s]."""
    fine = log_place(tables.fine_tokens, knobs.threshold_tokens)
    found = {
        pool.name: n / work if (work := value_at(pool.work_s, fine)) > 0 else inf
        for pool, n in zip(tables.pools, knobs.n_instances, strict=True)
    }
    return found | {
        link.name: link.capacity_gbps / each if (each := value_at(link.gbps_per_req_per_s, fine)) > 0 else inf
        for link in tables.links
    }


def fleet_req_per_s(tables: Tables, knobs: Knobs) -> float:
    """Most that the sizes serve at the threshold [1/s]."""
    return min(unit_limits(tables, knobs).values())


def usd_per_hour(tables: Tables, knobs: Knobs) -> float | None:
    """Rent, power and traffic [USD/h]; None where a price is missing."""
    fine, total = log_place(tables.fine_tokens, knobs.threshold_tokens), 0.0
    for pool, n in zip(tables.pools, knobs.n_instances, strict=True):
        if n and pool.usd_per_instance_hour is None:
            return None
        work = knobs.req_per_s * value_at(pool.work_s, fine)
        total += n * (pool.usd_per_instance_hour or 0.0) + work * pool.busy_usd_per_hour
    for link in tables.links:
        if link.usd_per_hour is None:
            return None
        total += link.usd_per_hour + _traffic_usd(link, knobs.req_per_s * value_at(link.gbps_per_req_per_s, fine))
    return total


def _traffic_usd(link: LinkTable, gbps: float) -> float:
    return gbps / GBIT_PER_GB * SECONDS_PER_HOUR * link.usd_per_gb


def usd_per_million(tables: Tables, knobs: Knobs) -> tuple[float | None, float | None]:
    """USD per million input and output tokens."""
    usd = usd_per_hour(tables, knobs)
    if usd is None:
        return None, None
    each = PER_MILLION * usd / (knobs.req_per_s * SECONDS_PER_HOUR)
    total, output = tables.mean_total_tokens, tables.mean_output_tokens
    return (each / total if total > 0 else None), (each / output if output > 0 else None)


def combined(tables: Tables, knobs: Knobs) -> dict[str, float | None] | None:
    """Latency from the tables of the pools alone; None: a queue has no steady state."""
    used = busy(tables, knobs)
    if max(used) >= 1 or knobs.req_per_s >= fleet_req_per_s(tables, knobs):
        return None
    node = log_place(tables.node_tokens, knobs.threshold_tokens)
    fine = log_place(tables.fine_tokens, knobs.threshold_tokens)
    waits = [
        _wait(pool.waits, node if pool.role == "prefill" else NodePosition(0, 0.0), n, use)
        for pool, n, use in zip(tables.pools, knobs.n_instances, used, strict=True)
    ]
    paths, steps = [], []
    for path in tables.paths:
        share = value_at(path.share, fine)
        if share > 0:
            kinds = np.array([value_at(pair, _in(node)) for pair in _pairs(path.kinds_s, node)])
            paths.append((share, kinds, waits[path.prefill], waits[path.decode]))
            steps.append((share, _step_s(tables.pools[path.decode], knobs, used[path.decode], path.decode)))
    return _figures(tables, paths) | {"tpot_mean_s": _mean(steps)}


def _mean(values: Sequence[tuple[float, float | None]]) -> float | None:
    """Of values with their shares; None where one is unknown."""
    if not values or any(value is None for _, value in values):
        return None
    return sum(share * (value or 0.0) for share, value in values) / sum(share for share, _ in values)


Array = NDArray[np.float64]
Path = tuple[float, Array, "TabulatedWait | None", "TabulatedWait | None"]
"""Share, seconds by kind of request, and the waits for prefill and for a place in a batch."""


def _figures(tables: Tables, paths: Sequence[Path]) -> dict[str, float | None]:
    names, mean, ways = ("ttft_mean_s", *QUANTILES), 0.0, []
    for share, kinds, wait, last in paths:
        if wait is None or last is None:
            return dict.fromkeys(names)
        mean += share * (float(np.dot(tables.kind_weights, kinds)) + _mean_s(wait) + _mean_s(last))
        ways.append((share, kinds, wait, _values(tables.wait_multiples, last)))
    found: dict[str, float | None] = {"ttft_mean_s": mean}
    return found | {name: _quantile(tables, ways, 1 - q, mean) for name, q in QUANTILES.items()}


def _mean_s(wait: TabulatedWait) -> float:
    return wait.waiting_fraction * wait.given_wait_s


Way = tuple[float, Array, TabulatedWait, list[tuple[float, float]]]
"""A path whose wait for a place in a batch is a few values with their probabilities."""


def _quantile(tables: Tables, ways: Sequence[Way], allowed: float, guess: float) -> float:
    """Least time that no more than a fraction of requests exceed."""
    low, high = 0.0, guess
    while _late(tables, ways, high) > allowed:
        low, high = high, 2 * high
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _late(tables, ways, middle) > allowed else (low, middle)
    return high


def _late(tables: Tables, ways: Sequence[Way], x: float) -> float:
    """Fraction of requests whose first token takes longer than x."""
    return sum(
        share * part * float(np.dot(tables.kind_weights, _survival(tables.wait_multiples, wait, x - second - kinds)))
        for share, kinds, wait, after in ways
        for part, second in after
    )


def _survival(multiples: Sequence[float], wait: TabulatedWait, x: Array) -> Array:
    """P(W > x): its logarithm is a straight line between the multiples of the mean, and beyond them."""
    if wait.waiting_fraction <= 0:
        return (x < 0).astype(np.float64)
    scaled = x / wait.given_wait_s
    fall = (wait.log_survival[-1] - wait.log_survival[-2]) / (multiples[-1] - multiples[-2])
    beyond = np.maximum(scaled - multiples[-1], 0.0) * fall
    late = np.exp(np.interp(scaled, multiples, wait.log_survival) + beyond)
    return np.asarray(np.where(x < 0, 1.0, wait.waiting_fraction * late))


def _values(multiples: Sequence[float], wait: TabulatedWait) -> list[tuple[float, float]]:
    """A wait as a few values with their probabilities, its mean kept: means between levels of its survival."""
    if wait.waiting_fraction < RARE:
        return [(1.0, 0.0)]
    at = [0.0, *(_inverse(multiples, wait, level) for level in LEVELS[1:])]
    means = [_mean_between(*pair) for pair in pairwise(zip(LEVELS, at, strict=True))]
    fall = (wait.log_survival[-2] - wait.log_survival[-1]) / (multiples[-1] - multiples[-2])
    means.append(at[-1] + wait.given_wait_s / fall)
    parts = [a - b for a, b in pairwise((*LEVELS, 0.0))]
    scale = wait.given_wait_s / sum(part * mean for part, mean in zip(parts, means, strict=True))
    waited = [(wait.waiting_fraction * part, scale * mean) for part, mean in zip(parts, means, strict=True)]
    return [(1 - wait.waiting_fraction, 0.0), *waited]


def _mean_between(first: tuple[float, float], second: tuple[float, float]) -> float:
    """Mean of a wait between two levels of its survival, which falls exponentially in between."""
    (a, low), (b, high) = first, second
    if high <= low:
        return low
    span = (high - low) / log(a / b)
    return (a * (low + span) - b * (high + span)) / (a - b)


def _inverse(multiples: Sequence[float], wait: TabulatedWait, survival: float) -> float:
    """Wait that a fraction of those who wait exceed."""
    aim = log(survival)
    for i in range(1, len(multiples)):
        if wait.log_survival[i] <= aim:
            high, low = wait.log_survival[i - 1], wait.log_survival[i]
            part = (high - aim) / (high - low) if high > low else 0.0
            return wait.given_wait_s * (multiples[i - 1] + part * (multiples[i] - multiples[i - 1]))
    return wait.given_wait_s * multiples[-1]


def _wait(table: WaitTable | None, node: NodePosition, n: int, use: float) -> TabulatedWait | None:
    """The wait at a threshold, with n instances that are busy so far; None without a queueing model."""
    if table is None:
        return None
    size, load = place(table.n_instances, n), place(table.use, use)

    def at(values: Sequence[Sequence[Sequence[float]]]) -> float:
        return value_at(
            [value_at([value_at(row, load) for row in sizes], size) for sizes in _around(values, node)], _in(node)
        )

    given = exp(at(table.log_idle_wait)) / (1 - use)
    survival = tuple(
        at([[[x[k] for x in row] for row in sizes] for sizes in table.log_survival])
        for k in range(len(table.log_survival[0][0][0]))
    )
    waiting = exp(at(table.log_waiting))
    return TabulatedWait(min(waiting if use >= table.use[0] else waiting * use / table.use[0], 1.0), given, survival)


def _around(values: Sequence[Sequence[Sequence[float]]], node: NodePosition) -> list[Sequence[Sequence[float]]]:
    return [values[node.left], values[min(node.left + 1, len(values) - 1)]]


def _in(node: NodePosition) -> NodePosition:
    return NodePosition(0, node.part)


def _pairs(rows: Sequence[Sequence[float]], node: NodePosition) -> list[tuple[float, float]]:
    return list(zip(rows[node.left], rows[min(node.left + 1, len(rows) - 1)], strict=True))


def _step_s(pool: PoolTable, knobs: Knobs, use: float, decode: int) -> float | None:
    table = pool.waits
    if table is None:
        return None
    size, load = place(table.n_instances, knobs.n_instances[decode]), place(table.use, use)
    return value_at([value_at(row, load) for row in pool.step_s], size)
