"""Fleets with prefill and decode apart on one kind of accelerators, where requests are decoded: as questions, and what
those of any size serve."""

from collections.abc import Iterator, Sequence
from math import floor

import numpy as np
from numpy.typing import NDArray

from planner.comparison.home import decoding_sites
from planner.errors import InputError
from planner.optimizer.capacity import decode_s, threshold_loads
from planner.optimizer.problem import Problem
from planner.optimizer.resolution import resolved_problem
from planner.optimizer.routes import Route
from planner.scenario import Objective, Pool, Routing, Scenario

PREFILL, DECODE = "pd-p", "pd-d"


def homogeneous(scenario: Scenario, n_accelerators: int | None) -> Scenario:
    """The scenario on the hardware that decodes at every site, without any other.

    Args:
        n_accelerators: fleet of one site to get the most out of; None keeps the demand and seeks the cheapest fleet.

    Returns:
        A scenario with the pools `pd-p` and `pd-d`, and another pair for every further site and model.

    Raises:
        InputError: a fleet of so many accelerators is asked for, and requests are decoded at several sites.
    """
    sites, home = decoding_sites(scenario), home_pool(scenario)
    if len(sites) > 1 and n_accelerators is not None:
        what = f"requests are decoded at several sites: {', '.join(sites)}"
        raise InputError(scenario.problem(("pools",), what, "one site that decodes"))
    stock = {} if n_accelerators is None else {home.hardware: n_accelerators}
    return scenario.model_copy(
        update={
            "objective": "min-cost" if n_accelerators is None else objective_of_given(scenario),
            "budget_usd_per_hour": None,
            "routing": Routing(n_candidates=scenario.routing.n_candidates),
            "sites": {name: scenario.sites[name].model_copy(update={"accelerators": stock}) for name in sites},
            "pools": dict(_pairs(scenario)),
            "links": {},
        }
    )


def home_pool(scenario: Scenario) -> Pool:
    """The first pool that decodes: its site and hardware are those of fleets of one kind."""
    return next(pool for pool in scenario.pools.values() if pool.role == "decode")


def first_decoders(scenario: Scenario) -> dict[str, Pool]:
    """The first decode pool of every site and model, by what tells it from the others: "" where it is alone."""
    first: dict[tuple[str, str | None], Pool] = {}
    for pool in scenario.pools.values():
        if pool.role == "decode":
            first.setdefault((pool.site, pool.model), pool)
    (site, model), *others = first
    several_sites = any(other != site for other, _ in others)
    found = {}
    for (at, of), pool in first.items():
        parts = at if several_sites and at != site else None, None if of == model else of or "default"
        found["".join(f"-{part}" for part in parts if part)] = pool
    return found


def _pairs(scenario: Scenario) -> Iterator[tuple[str, Pool]]:
    """A prefill and a decode pool of every model at every site, on the hardware that decodes there first."""
    hardware: dict[str, str] = {}
    for suffix, pool in first_decoders(scenario).items():
        kind = hardware.setdefault(pool.site, pool.hardware)
        same = {"hardware": kind, "n_instances": "free", "min_instances": 0, "max_instances": None}
        decode = pool.model_copy(update=same | {"classes": ()})
        yield PREFILL + suffix, decode.model_copy(update={"role": "prefill", "prompts": "short", "tpot_ms": None})
        yield DECODE + suffix, decode


def objective_of_given(scenario: Scenario) -> Objective:
    """Objective of a given fleet: the least TTFT where the scenario seeks that, else the highest rate."""
    return "min-ttft" if scenario.objective == "min-ttft" else "max-throughput"


def affordable_accelerators(usd_per_hour: float, usd_per_accelerator_hour: float, n_per_instance: int) -> int:
    """Accelerators in whole instances that a rent pays for.

    >>> affordable_accelerators(160.0, 1.25, 8)
    128
    """
    return n_per_instance * floor(usd_per_hour / (usd_per_accelerator_hour * n_per_instance) + 1e-9)


def homogeneous_fleet(problem: Problem) -> Problem:
    """Homogeneous fleets of any size as one question, whose pools may have any of the layouts that are open.

    Args:
        problem: the resolved scenario, whose decode pool names the hardware.

    Raises:
        InputError: the decode pool's hardware has no prefill times.
        InfeasibleError: no layout of it holds the prompts.
    """
    return resolved_problem(homogeneous(problem.scenario.with_open_layouts(), 0), classes=problem.classes)


def homogeneous_rates(fleet: Problem, n_accelerators: NDArray[np.int64]) -> NDArray[np.float64]:
    """Highest rate of homogeneous fleets by trying every layout of both roles and every split into them.

    Equation:
        max over layouts and k of min(k / W, floor((n - k a) / b) / D), with W and D the instance-seconds of prefill and
        decode per request, and a and b the accelerators of their instances

    Args:
        fleet: as `homogeneous_fleet` finds it.
        n_accelerators: accelerators n of each fleet, shape (m,).

    Returns:
        Requests per second [1/s], shape (m,); 0 for fewer than an instance of each role.

    Source:
        Prefill-as-a-Service (arXiv 2604.15039v2): min of Theta_pd_p and Theta_pd_d.
    """
    pairs: dict[tuple[int | None, int], list[Route]] = {}
    for route in fleet.routes:
        pairs.setdefault((route.short, route.decode), []).append(route)
    n = np.asarray(n_accelerators)
    # A pair of layouts of which one does not hold the prompts of a class has no route of it.
    rates = [_rates_of_splits(fleet, routes, n) for routes in pairs.values() if len(routes) == len(fleet.classes)]
    return np.asarray(np.max(rates, axis=0))


def _rates_of_splits(fleet: Problem, routes: Sequence[Route], n: NDArray[np.int64]) -> NDArray[np.float64]:
    work_s = decoding_s = 0.0
    for route in routes:
        share, mix = fleet.classes[route.request_class].share, fleet.classes[route.request_class].mix
        work_s += share * float(threshold_loads(fleet, route, np.array([mix.support[1]])).short_s[0])
        decoding_s += share * decode_s(fleet, route)
    per_prefill, per_decode = (fleet.pools[i or 0].n_accelerators for i in (routes[0].short, routes[0].decode))
    k = np.arange(int(np.max(n)) // per_prefill + 1)
    left = (n[:, np.newaxis] - k * per_prefill) // per_decode
    rates = np.minimum(k / work_s, np.maximum(left, 0) / decoding_s)
    return np.asarray(rates.max(axis=1))
