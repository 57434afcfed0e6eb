"""Colocated pools kept full: what they do at the most, and requests that come as fast as that."""

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.executor.colocated.pools import Colocated
from planner.executor.engine.run import EngineRun, engine_run
from planner.executor.kernel.records import NONE, Records, World

Floats = NDArray[np.float64]
N_TO_FILL = 20_000
"""Requests at least, beside TURNS times those in flight, of a run that shows what a full instance does."""
TURNS = 8
COUNTED = 0.4, 0.95
"""Where the answers of such a run that count begin, and end [fraction]."""


class Full(NamedTuple):
    """What an instance does at the most."""

    in_flight: int
    """Requests that keep it so."""
    req_per_s: float


class Paced(NamedTuple):
    """Requests of a closed loop; one value for each."""

    arrival_s: Floats
    instances: NDArray[np.int_]
    """That each was sent to, from 0: of instances that are as busy, arrivals alone do not tell."""


def full_instance(one: Colocated, requests: Records, is_standing: NDArray[np.bool_]) -> Full:
    """What an instance does with all it can hold, or with as much as its limit on the time per token allows.

    Args:
        one: its pool.
        requests: that reach the pool, in order; they are offered again from the first as long as more are needed.
        is_standing: whether their prompts were computed elsewhere.
    """
    most = 2 * one.most_inside
    rows = np.arange(max(N_TO_FILL, TURNS * most)) % len(requests)
    asked, is_standing = requests[rows], is_standing[rows]
    load = one.load(asked, is_standing)
    rules = one.rules(load)
    times = one.times(load, rules)

    def run(in_flight: int) -> tuple[float, float]:
        n = max(N_TO_FILL, TURNS * in_flight)
        found = engine_run(rules, times, one.load(asked[:n], is_standing[:n], concurrency=in_flight))
        return closed_loop(found)

    limit_s = one.engine.tpot_s
    low, (rate, tpot_s) = most, run(most)
    if limit_s is None or tpot_s <= limit_s:
        return Full(most, rate)
    low, high, rate = 1, most, run(1)[0]
    while high - low > max(low // 50, 1):  # the time per token grows with those in flight
        middle = (low + high) // 2
        found, tpot_s = run(middle)
        if tpot_s <= limit_s:
            low, rate = middle, found
        else:
            high = middle
    return Full(low, rate)


def closed_loop(found: EngineRun) -> tuple[float, float]:
    """Answers per second of a closed loop [1/s], and the mean time per token after the first [s]."""
    order = np.argsort(found.done_s, kind="stable")
    first, last = (int(part * (len(order) - 1)) for part in COUNTED)
    span_s = found.done_s[order[last]] - found.done_s[order[first]]
    tpot_s = found.tpot_s[order[first : last + 1]]
    known = tpot_s[np.isfinite(tpot_s)]
    return (last - first) / span_s if span_s > 0 else inf, float(known.mean()) if known.size else 0.0


def paced_s(one: Colocated, w: World, faults: Records, max_retries: int, in_flight: int | None = None) -> Paced:
    """Arrivals of a closed loop through a colocated pool, each with the last token of another request.

    Args:
        one: the pool, which all requests reach.
        w: records of a run of all that is before it, which has ended; its times do not matter.
        faults: what happens to instances.
        max_retries: how often a request starts again after crashes.
        in_flight: requests inside; None: as many as keep it full.
    """
    rows, is_standing = one.entering(w)
    asked = w.requests[rows]
    n = in_flight or full_instance(one, asked, is_standing).in_flight * one.pool.n_instances
    load = one.load(asked, is_standing, concurrency=n, faults=faults, max_retries=max_retries)
    rules = one.rules(load)
    found = engine_run(rules, one.times(load, rules), load, one.pool.n_instances)
    instances = np.full(len(w.requests), NONE)
    instances[rows] = found.instances
    return Paced(np.maximum.accumulate(np.interp(np.arange(len(w.requests)), rows, found.arrival_s)), instances)
