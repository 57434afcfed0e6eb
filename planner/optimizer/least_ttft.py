"""The least TTFT at which a demand is served: over every threshold for fixed sizes, then over the sizes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from math import inf

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.capacity import split_interval
from planner.optimizer.goodput import balanced_threshold, capacity_under_slo, first_threshold_cells, sizings_to_bound
from planner.optimizer.problem import Problem
from planner.optimizer.routed_capacity import unit_rents_usd_per_hour
from planner.optimizer.settings import ROUTE_SETTINGS
from planner.optimizer.single_route import SLO_GAP
from planner.optimizer.sized import Sizing, full_sizing
from planner.optimizer.slo_attainment import FleetUnderSlo, least_slo_ttft_s
from planner.work_clock import work_s

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LeastTtftFleet:
    """The least TTFT of fixed sizes at a rate."""

    ttft_s: float
    """The stated percentile at the best threshold that was found [s]; inf where the rate is not served."""
    threshold_tokens: float
    """That threshold [tokens]."""
    bound_s: float
    """No threshold goes below this [s]; inf where it is proven that the rate is not served."""


def least_ttft(
    problem: Problem, sizing: Sizing, req_per_s: float, deadline: float, most_s: float = inf
) -> LeastTtftFleet:
    """The least TTFT of fixed sizes at a rate, at the promised percentile, over every threshold, and its proof.

    Intervals of thresholds wait in a heap by the least TTFT that any threshold inside might have. The best one is tried
    at a threshold inside and cut, until nothing left in the heap can do better.

    Args:
        problem: a problem with one route; its promise says which percentile, 90 without one.
        sizing: instances and ports.
        req_per_s: rate of the whole fleet [req/s].
        deadline: `work_s()` time to stop at.
        most_s: TTFT from which on the answer does not matter [s].

    Returns:
        TTFT, its threshold and its bound [s].

    Valid:
        As for `FleetUnderSlo.late_fraction`; decode and links at most MOST_BUSY.

    Source:
        Branch and bound (Land and Doig 1960).
    """
    fleet, order = FleetUnderSlo(problem, sizing), count()
    best = _tried(fleet, req_per_s, balanced_threshold(problem, sizing), LeastTtftFleet(inf, 0.0, inf))
    heap: list[tuple[float, int, float, float]] = []

    def add(lows: Array, highs: Array) -> None:
        for low, high, bound in _feasible_cells(fleet, req_per_s, lows, highs):
            heappush(heap, (bound, next(order), low, high))

    add(*first_threshold_cells(problem))
    while heap:
        bound, _, low, high = heappop(heap)
        if bound >= min(best.ttft_s * (1 - SLO_GAP), most_s) or work_s() > deadline:
            return replace(best, bound_s=min(bound, best.ttft_s))
        mix = problem.classes[0].mix
        inner = mix.split_points(low, high, 1) if low < high else np.array([low])
        best = _tried(fleet, req_per_s, float(inner[len(inner) // 2]) if len(inner) else high, best)
        if low < high:
            lows, highs = split_interval(mix, low, high, ROUTE_SETTINGS.split_parts)
            if len(lows) > 1:
                add(lows, highs)
    return replace(best, bound_s=best.ttft_s * (1 - SLO_GAP))


def _feasible_cells(
    fleet: FleetUnderSlo, req_per_s: float, lows: Array, highs: Array
) -> Iterator[tuple[float, float, float]]:
    """Intervals that capacity does not exclude, with the least TTFT of any threshold inside [tokens, tokens, s]."""
    capacities = capacity_under_slo(fleet.problem, fleet.sizing, lows, highs)
    for low, high, most in zip(lows.tolist(), highs.tolist(), capacities, strict=True):
        if most >= req_per_s and (bound := fleet.percentile_s(low, high, req_per_s)) < inf:
            yield low, high, bound


def _tried(fleet: FleetUnderSlo, req_per_s: float, threshold: float, best: LeastTtftFleet) -> LeastTtftFleet:
    at = np.array([threshold])
    if capacity_under_slo(fleet.problem, fleet.sizing, at, at)[0] < req_per_s:
        return best
    ttft_s = fleet.percentile_s(threshold, threshold, req_per_s)
    return LeastTtftFleet(ttft_s, threshold, ttft_s) if ttft_s < best.ttft_s else best


def floor_s(problem: Problem, req_per_s: float, deadline: float) -> float:
    """A TTFT that no sizes within the limits go below: every pool and port at its own limit at once [s]."""
    return least_ttft_up_to(problem, full_sizing(problem), req_per_s, deadline)[1].bound_s


def least_ttft_up_to(
    problem: Problem, sizing: Sizing, req_per_s: float, deadline: float, most_s: float = inf
) -> tuple[Sizing, LeastTtftFleet]:
    """The least TTFT of some sizes and of all smaller ones, with a bound for all of them; arguments as `least_ttft`.

    Returns:
        The sizes that reach it, and the TTFT; where time is up, the bound is that of an idle fleet.
    """
    at, best = sizing, LeastTtftFleet(inf, 0.0, inf)
    for i, smaller in enumerate(sizings_to_bound(problem, sizing)):
        if i > 0 and work_s() > deadline:
            return at, replace(best, bound_s=min(best.bound_s, least_slo_ttft_s(problem, sizing)))
        found = least_ttft(problem, smaller, req_per_s, deadline, min(most_s, best.ttft_s))
        bound_s = min(best.bound_s, found.bound_s)
        if found.ttft_s < best.ttft_s:
            at, best = smaller, found
        best = replace(best, bound_s=bound_s)
    return at, best


def filled_with_budget(problem: Problem, sizing: Sizing) -> Sizing:
    """The sizes with what is left of the budget in further instances, prefill for long prompts first.

    More instances seldom make a first token later; where work is charged, the rent alone does not tell what is left.
    """
    budget = problem.scenario.budget_usd_per_hour
    if budget is None or problem.ratio is not None or problem.charges_use:
        return sizing
    n = list(sizing.n_instances)
    left = budget - sum(usd or 0.0 for _, usd in unit_rents_usd_per_hour(problem, sizing))
    for i, pool in sorted(enumerate(problem.pools), key=lambda item: (item[1].role == "decode", item[1].prompts or "")):
        room = [int(left / pool.usd_per_hour + 1e-9)] if pool.usd_per_hour else []
        room.append(pool.max_instances - n[i])
        for inventory in problem.inventories:
            if i in inventory.pools:
                used = sum(n[j] * problem.pools[j].n_accelerators for j in inventory.pools)
                room.append((inventory.n_accelerators - used) // pool.n_accelerators)
        more = max(min(room, default=0), 0)
        n[i] += more
        left -= more * (pool.usd_per_hour or 0.0)
    return replace(sizing, n_instances=tuple(n))


def trimmed(problem: Problem, sizing: Sizing, found: LeastTtftFleet, req_per_s: float) -> Sizing:
    """The sizes without the instances and ports that the TTFT does not need at its threshold, the dearest first."""
    if problem.ratio is not None:
        return sizing
    order = sorted(range(len(problem.pools)), key=lambda i: -(problem.pools[i].usd_per_hour or 0.0))
    for i in order:
        while sizing.n_instances[i] > problem.pools[i].min_instances:
            n = tuple(m - (i == j) for j, m in enumerate(sizing.n_instances))
            if not _does(problem, replace(sizing, n_instances=n), found, req_per_s):
                break
            sizing = replace(sizing, n_instances=n)
    for index, ports in enumerate(sizing.n_ports):
        for tier, most in enumerate(ports):
            for m in range(most):
                row = tuple(m if j == tier else p for j, p in enumerate(sizing.n_ports[index]))
                fewer = replace(sizing, n_ports=(*sizing.n_ports[:index], row, *sizing.n_ports[index + 1 :]))
                if _does(problem, fewer, found, req_per_s):
                    sizing = fewer
                    break
    return sizing


def _does(problem: Problem, sizing: Sizing, found: LeastTtftFleet, req_per_s: float) -> bool:
    """True if sizes reach a TTFT at its threshold, but for rounding."""
    nothing = LeastTtftFleet(found.ttft_s * (1 + SLO_GAP / 10), found.threshold_tokens, 0.0)
    return _tried(FleetUnderSlo(problem, sizing), req_per_s, found.threshold_tokens, nothing) is not nothing
