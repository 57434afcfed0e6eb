"""The highest rate at which fleets of given sizes are within an SLO on TTFT, over every threshold, with a bound."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from math import inf

import numpy as np

from planner.optimizer.capacity import first_intervals, interval_loads, split_interval
from planner.optimizer.problem import Problem
from planner.optimizer.routed_capacity import rate_limits
from planner.optimizer.settings import ROUTE_SETTINGS
from planner.optimizer.single_route import SLO_GAP
from planner.optimizer.sized import Sizing
from planner.optimizer.slo_attainment import SATURATED, Array, FleetUnderSlo
from planner.ties import exceeds, first_largest
from planner.work_clock import work_s

MOST_BUSY = 0.98
"""Greatest use of decode and links under an SLO: beyond it their waits grow without bound."""


@dataclass(frozen=True)
class Goodput:
    """The highest rate within an SLO on TTFT."""

    rate: float
    """The best that was found [req/s]; 0 where no rate is within the SLO."""
    threshold_tokens: float
    """Threshold that reaches it [tokens]."""
    bound: float
    """No threshold reaches more than this [req/s]."""


def best_goodput(
    problem: Problem,
    sizing: Sizing,
    deadline: float,
    least: float = 0.0,
    start_tokens: float | None = None,
    enough: float = inf,
    is_roomy: bool = False,
) -> Goodput:
    """The highest rate at which fixed sizes are within the SLO, over every threshold, with a bound.

    Intervals of thresholds wait in a heap by their bound: what capacity allows, then what the SLO might. The best
    interval is tried at a threshold inside and cut, until nothing left in the heap can do better.

    Args:
        problem: a problem with one route and an SLO on TTFT.
        sizing: instances and ports.
        deadline: `work_s()` time to stop at.
        least: rate below which the answer does not matter [req/s].
        start_tokens: threshold to try first, such as the best of similar sizes; None: one that balances prefill.
        enough: rate beyond which the answer does not matter [req/s].
        is_roomy: whether links stretch no transfers, as if they were wide enough.

    Returns:
        The goodput, its threshold and its bound; where it is enough, no bound is known.

    Source:
        Branch and bound (Land and Doig 1960).
    """
    fleet, order = FleetUnderSlo(problem, sizing, is_roomy), count()
    start = balanced_threshold(problem, sizing) if start_tokens is None else start_tokens
    best = _tried_at(fleet, Goodput(0.0, 0.0, 0.0), start, enough)
    heap: list[tuple[float, int, float, float]] = []

    def add(lows: Array, highs: Array, most: float) -> None:
        for low, high, bound in zip(lows, highs, capacity_under_slo(problem, sizing, lows, highs), strict=True):
            heappush(heap, (-min(bound, most), next(order), float(low), float(high)))

    add(*first_threshold_cells(problem), inf)
    while heap:
        if best.rate >= enough:
            return replace(best, bound=inf)
        negative, _, low, high = heappop(heap)
        better = max(best.rate, least) * (1 + SLO_GAP)
        if -negative <= better or work_s() > deadline:
            return replace(best, bound=max(-negative, better))
        if not fleet.may_meet_slo(low, high, max(better, -negative * ROUTE_SETTINGS.least_part)):
            continue
        best = _tried(fleet, best, low, high, min(-negative, enough))
        if low < high:
            mix = problem.classes[0].mix
            lows, highs = split_interval(mix, low, high, ROUTE_SETTINGS.split_parts)
            if len(lows) > 1:
                add(lows, highs, -negative)
    return replace(best, bound=max(best.rate, least) * (1 + SLO_GAP))


def sizings_to_bound(problem: Problem, sizing: Sizing) -> Iterator[Sizing]:
    """Sizes whose best plans bound those of some sizes and of all smaller ones.

    Where instances can fill a link together, more of them send more at once, and every transfer is stretched further:
    such sizes come one by one, down to those that cannot.
    """
    waiting, seen = [sizing], {sizing}
    while waiting:
        sizing = waiting.pop()
        yield sizing
        fleet = FleetUnderSlo(problem, sizing)
        if not fleet.may_fill_a_link():
            continue
        for pool in sorted({pool for senders in fleet.senders.values() for pool in senders}):
            n = tuple(m - (i == pool) for i, m in enumerate(sizing.n_instances))
            fewer = replace(sizing, n_instances=n)
            if n[pool] > 0 and fewer not in seen:
                waiting.append(fewer)
                seen.add(fewer)


def best_goodput_up_to(
    problem: Problem, sizing: Sizing, deadline: float, least: float = 0.0, enough: float = inf
) -> tuple[Sizing, Goodput]:
    """The best goodput of some sizes and of all smaller ones, with a bound for all of them.

    Args:
        deadline: `work_s()` time to stop at.
        least: rate below which the answer does not matter [req/s].
        enough: rate beyond which it does not either [req/s].

    Returns:
        The sizes that reach it, and the goodput [req/s]; the bound is `sizing`'s own and that of every smaller one.
    """
    at, best, bound = sizing, Goodput(0.0, 0.0, 0.0), 0.0
    for smaller in sizings_to_bound(problem, sizing):
        if bound > 0 and work_s() > deadline:  # capacity bounds what is left: it never falls with the sizes
            return at, replace(best, bound=max(capacity_under_slo(problem, sizing, *first_threshold_cells(problem))))
        found = best_goodput(problem, smaller, deadline, max(least, best.rate), enough=enough)
        bound = max(bound, found.bound)
        if exceeds(found.rate, best.rate):
            at, best = smaller, found
        if best.rate >= enough:
            break
        if smaller is sizing and FleetUnderSlo(problem, sizing).may_fill_a_link():
            matters = max(least, best.rate)
            most = best_goodput(problem, sizing, deadline, matters, enough=enough, is_roomy=True).bound
            if most <= matters * (1 + SLO_GAP):  # smaller sizes would do no better if they left the link to each other
                return at, replace(best, bound=max(bound, most))
    return at, replace(best, bound=bound)


def first_threshold_cells(problem: Problem) -> tuple[Array, Array]:
    """A few wide intervals that together hold every threshold: those that matter are cut soon enough."""
    lows, highs = first_intervals(problem, problem.route)
    step = -(-len(lows) // ROUTE_SETTINGS.first_cells)
    return lows[::step], np.append(highs[step - 1 : len(highs) - 1 : step], highs[-1])


def _tried(fleet: FleetUnderSlo, best: Goodput, low: float, high: float, most: float) -> Goodput:
    """The better of a plan and a threshold from the middle of an interval, or the interval's own if it is one."""
    inner = fleet.problem.classes[0].mix.split_points(low, high, 1) if low < high else np.array([low])
    return _tried_at(fleet, best, float(inner[len(inner) // 2]) if len(inner) else high, most)


def _tried_at(fleet: FleetUnderSlo, best: Goodput, threshold: float, most: float) -> Goodput:
    exact = capacity_under_slo(fleet.problem, fleet.sizing, np.array([threshold]), np.array([threshold]))[0]
    rate = fleet.goodput_at(threshold, min(exact, most), best.rate)
    return Goodput(rate, threshold, rate) if exceeds(rate, best.rate) else best


def balanced_threshold(problem: Problem, sizing: Sizing) -> float:
    """Threshold that serves most by prefill capacity: where the search begins [tokens]."""
    _, highs = first_intervals(problem, problem.route)
    limits = rate_limits(problem, sizing, interval_loads(problem, problem.route, highs, highs))
    decode = problem.pools[problem.route.decode].name
    prefill = np.min([limit for name, limit in limits.items() if name != decode], axis=0)
    return float(highs[first_largest(prefill)])


def capacity_under_slo(problem: Problem, sizing: Sizing, lows: Array, highs: Array) -> list[float]:
    """Rate that fits any threshold of each interval, decode and links at most MOST_BUSY [req/s]."""
    limits = rate_limits(problem, sizing, interval_loads(problem, problem.route, lows, highs))
    prefill = {pool.name for pool in problem.pools if pool.role == "prefill"}
    found = [limit * (SATURATED if name in prefill else MOST_BUSY) for name, limit in limits.items()]
    return [float(rate) for rate in np.min(found, axis=0)]
