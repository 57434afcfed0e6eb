"""Exact evaluation of fixed sizes and thresholds: the highest rate, who limits it, what it costs."""

from collections.abc import Iterator
from math import inf

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.capacity import RouteLoads, decode_s
from planner.optimizer.problem import Problem
from planner.optimizer.sized import Sizing
from planner.units import GB, SECONDS_PER_HOUR, bytes_per_s

Array = NDArray[np.float64]


def pool_work_s(problem: Problem, loads: RouteLoads, pool: int) -> Array:
    """Instance-seconds in a pool per request [s], shape (candidates,)."""
    route = problem.route
    prefill_s = loads.long_s * (route.long == pool) + loads.short_s * (route.short == pool)
    return np.asarray(prefill_s + decode_s(problem, route) * (route.decode == pool))


def link_bytes(problem: Problem, loads: RouteLoads, link: int) -> Array:
    """Bytes on a link per request [B], shape (candidates,)."""
    route = problem.route
    return np.asarray(loads.long_bytes * (route.long_link == link) + loads.short_bytes * (route.short_link == link))


def rate_limits(problem: Problem, sizing: Sizing, loads: RouteLoads) -> dict[str, Array]:
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
        limits[pool.name] = _quotient(sizing.n_instances[i], pool_work_s(problem, loads, i))
    for i, link in enumerate(problem.links):
        capacity = bytes_per_s(link.gbps(sizing.n_ports[i]))
        limits[link.name] = _quotient(capacity, link_bytes(problem, loads, i))
    budget = problem.scenario.budget_usd_per_hour
    if budget is not None and problem.charges_use:
        left = budget - sum(usd or 0.0 for _, usd in unit_rents_usd_per_hour(problem, sizing))
        limits["budget"] = _quotient(max(left, 0.0), route_charges_usd_per_hour(problem, loads))
    return limits


def route_charges_usd_per_hour(problem: Problem, loads: RouteLoads) -> Array:
    """Charges per hour for the traffic and the work of one request a second of a single route, by candidate."""
    usd = np.zeros(loads.n_candidates)
    for i, link in enumerate(problem.links):
        usd += SECONDS_PER_HOUR / GB * link.usd_per_gb * link_bytes(problem, loads, i)
    for i, pool in enumerate(problem.pools):
        usd += pool.busy_usd_per_hour * pool_work_s(problem, loads, i)
    return usd


def _quotient(capacity: float, per_request: Array) -> Array:
    with np.errstate(over="ignore"):  # a request asks so little of it that no number is great enough: no limit
        return np.where(per_request > 0, capacity / np.where(per_request > 0, per_request, 1.0), inf)


def highest_req_per_s(problem: Problem, sizing: Sizing, loads: RouteLoads) -> float:
    """The highest rate of given sizes at one threshold [req/s]."""
    return float(min(limit[0] for limit in rate_limits(problem, sizing, loads).values()))


def unit_rents_usd_per_hour(problem: Problem, sizing: Sizing) -> Iterator[tuple[str, float | None]]:
    """Rent of every pool and link of a sizing [USD/h]; None where a price is missing."""
    for pool, n in zip(problem.pools, sizing.n_instances, strict=True):
        yield pool.name, 0.0 if n == 0 else None if pool.usd_per_hour is None else n * pool.usd_per_hour
    for link, ports in zip(problem.links, sizing.n_ports, strict=True):
        yield link.name, link.ports_usd_per_hour(ports)


def spend_of(problem: Problem, sizing: Sizing, loads: RouteLoads, req_per_s: float) -> float:
    """Cost of sizes at one threshold and a rate: USD per hour, or accelerators where a price is missing."""
    if problem.is_priced:
        rent = sum(usd or 0.0 for _, usd in unit_rents_usd_per_hour(problem, sizing))
        return rent + req_per_s * float(route_charges_usd_per_hour(problem, loads)[0])
    used = sum(n * pool.n_accelerators for n, pool in zip(sizing.n_instances, problem.pools, strict=True))
    bandwidth = sum(link.gbps(m) for link, m in zip(problem.links, sizing.n_ports, strict=True))
    return used + 1e-6 * bandwidth
