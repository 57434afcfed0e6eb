"""Exact evaluation of fixed sizes and thresholds: the highest rate, who limits it, what it costs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.capacity import Loads, decode_s
from planner.optimizer.problem import Problem
from planner.optimizer.sized import Sizing
from planner.units import GB, SECONDS_PER_HOUR, bytes_per_s

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Operating:
    """A rate and how it is spread."""

    rate: float
    """Requests per second over all classes [1/s]."""
    route_rates: tuple[float, ...]
    """Rate of each route [1/s]."""

    def scaled_to(self, rate: float) -> "Operating":
        """The same spread at another rate."""
        factor = rate / self.rate if self.rate > 0 else 0.0
        return Operating(rate, tuple(factor * r for r in self.route_rates))


def single_route(problem: Problem) -> bool:
    """Whether one class takes one route, so that closed forms do without a solver."""
    return len(problem.routes) == 1


def pool_work_s(problem: Problem, loads: Sequence[Loads], pool: int) -> list[Array]:
    """Instance-seconds in a pool per request of each route, one array over its candidates [s]."""
    return [
        candidates.long_s * (route.long == pool)
        + candidates.short_s * (route.short == pool)
        + decode_s(problem, route) * (route.decode == pool) * np.ones(candidates.n_candidates)
        for route, candidates in zip(problem.routes, loads, strict=True)
    ]


def link_bytes(problem: Problem, loads: Sequence[Loads], link: int) -> list[Array]:
    """Bytes on a link per request of each route, one array over its candidates [B]."""
    return [
        candidates.long_bytes * (route.long_link == link) + candidates.short_bytes * (route.short_link == link)
        for route, candidates in zip(problem.routes, loads, strict=True)
    ]


def rate_limits(problem: Problem, sizing: Sizing, loads: Loads) -> dict[str, Array]:
    """Rate that each pool and link alone would allow a single route, by candidate.

    Equation:
        n_i / W_i(t) for a pool, B_l / S_l(t) for a link, (budget - rent) / use(t) where traffic or work is charged;
        the route carries the least of them

    Args:
        problem: a problem with one route.
        sizing: instances and ports.
        loads: loads of the route, n candidates.

    Returns:
        Pool or link name, or `budget` -> rates [req/s], shape (n,), inf where nothing is asked of it.

    Source:
        Prefill-as-a-Service (arXiv 2604.15039v2): Lambda_max = min(Theta_prfaas / p, Theta_pd_p / (1 - p), Theta_pd_d).
    """
    limits = {}
    for i, pool in enumerate(problem.pools):
        limits[pool.name] = _quotient(sizing.n_instances[i], pool_work_s(problem, [loads], i)[0])
    for i, link in enumerate(problem.links):
        capacity = bytes_per_s(link.gbps(sizing.n_ports[i]))
        limits[link.name] = _quotient(capacity, link_bytes(problem, [loads], i)[0])
    budget = problem.scenario.budget_usd_per_hour
    if budget is not None and problem.charges_use:
        left = budget - sum(usd or 0.0 for _, usd in rent_usd_per_hour(problem, sizing))
        limits["budget"] = _quotient(max(left, 0.0), _use_usd_per_hour(problem, loads))
    return limits


def _use_usd_per_hour(problem: Problem, loads: Loads) -> Array:
    """Charges per hour for the traffic and the work of one request a second of a single route, by candidate."""
    usd = np.zeros(loads.n_candidates)
    for i, link in enumerate(problem.links):
        usd += SECONDS_PER_HOUR / GB * link.usd_per_gb * link_bytes(problem, [loads], i)[0]
    for i, pool in enumerate(problem.pools):
        usd += pool.busy_usd_per_hour * pool_work_s(problem, [loads], i)[0]
    return usd


def _quotient(capacity: float, per_request: Array) -> Array:
    with np.errstate(over="ignore"):  # a request asks so little of it that no number is great enough: no limit
        return np.where(per_request > 0, capacity / np.where(per_request > 0, per_request, 1.0), inf)


def highest_rate(problem: Problem, sizing: Sizing, loads: Sequence[Loads]) -> Operating:
    """The highest rate of given sizes and a threshold, of a problem with one route."""
    rate = float(min(limit[0] for limit in rate_limits(problem, sizing, loads[0]).values()))
    return Operating(rate, (rate,))


def link_mean_bytes_per_s(problem: Problem, loads: Sequence[Loads], operating: Operating) -> tuple[float, ...]:
    """Mean traffic on every link [B/s]."""
    return tuple(_weighted(operating, link_bytes(problem, loads, i)) for i in range(len(problem.links)))


def _weighted(operating: Operating, per_request: Sequence[Array]) -> float:
    return sum(rate * float(x[0]) for rate, x in zip(operating.route_rates, per_request, strict=True))


def rent_usd_per_hour(problem: Problem, sizing: Sizing) -> Iterator[tuple[str, float | None]]:
    """Rent of every pool and link of a sizing [USD/h]; None where a price is missing."""
    for pool, n in zip(problem.pools, sizing.n_instances, strict=True):
        yield pool.name, 0.0 if n == 0 else None if pool.usd_per_hour is None else n * pool.usd_per_hour
    for link, ports in zip(problem.links, sizing.n_ports, strict=True):
        yield link.name, link.ports_usd_per_hour(ports)


def busy_usd_per_hour(problem: Problem, loads: Sequence[Loads], operating: Operating) -> tuple[float, ...]:
    """Power of every pool for its work, beyond what it draws idle [USD/h].

    Equation:
        sum of w_r W_ir busy_i: the instances of a pool that are at work, on average, by what each then costs more
    """
    return tuple(
        pool.busy_usd_per_hour * _weighted(operating, pool_work_s(problem, loads, i))
        for i, pool in enumerate(problem.pools)
    )


def traffic_usd_per_hour(problem: Problem, loads: Sequence[Loads], operating: Operating) -> float:
    """Charges by volume on all links [USD/h]."""
    sent = link_mean_bytes_per_s(problem, loads, operating)
    return SECONDS_PER_HOUR * sum(b / GB * link.usd_per_gb for b, link in zip(sent, problem.links, strict=True))


def spend_of(problem: Problem, sizing: Sizing, loads: Sequence[Loads], operating: Operating) -> float:
    """The `spend` of the formulation, exactly: USD per hour, or accelerators where a price is missing."""
    if problem.is_priced:
        rent = sum(usd or 0.0 for _, usd in rent_usd_per_hour(problem, sizing))
        power = sum(busy_usd_per_hour(problem, loads, operating))
        return rent + power + traffic_usd_per_hour(problem, loads, operating)
    used = sum(n * pool.n_accelerators for n, pool in zip(sizing.n_instances, problem.pools, strict=True))
    bandwidth = sum(link.gbps(m) for link, m in zip(problem.links, sizing.n_ports, strict=True))
    return used + 1e-6 * bandwidth
