"""What holds the rate down: the pools and links at their limit, and the worth of one more unit of each."""

from dataclasses import replace
from math import isfinite
from time import monotonic

import numpy as np

from planner.optimizer.capacity import exact_loads, threshold_loads
from planner.optimizer.evaluate import highest_rate, rate_limits, single_route
from planner.optimizer.formulation import Sizing
from planner.optimizer.problem import PlanningProblem
from planner.optimizer.search import Solution, best_thresholds
from planner.results import Bottleneck, Sweep
from planner.scenario import LinkTier

TIME_LIMIT_S = 10.0
NO_GAIN = 1e-6
N_SWEEP = 241


def bottlenecks(problem: PlanningProblem, solution: Solution) -> tuple[Bottleneck, ...]:
    """Pools and links of which one more unit would raise the highest rate, most valuable first.

    Equation:
        shadow price = R(n_i + 1) - R(n_i), both with the thresholds that serve most, other integers fixed; for links
        per Gbps

    Args:
        problem: the resolved scenario.
        solution: sizes and thresholds.

    Returns:
        Constraints with a price above zero, in req/s per instance or per Gbps.

    Source:
        Right-hand-side ranging by re-solving; a derivative would be zero or undefined at a kink.
    """
    base = most_of_sizes(problem, solution.sizing, solution)
    found = [
        Bottleneck(
            constraint=f"pools.{pool.name}.n_instances",
            shadow_price=most_of_sizes(problem, _one_more_instance(solution.sizing, i), solution) - base,
            unit="req/s per instance",
        )
        for i, pool in enumerate(problem.pools)
    ]
    found += [
        Bottleneck(
            constraint=f"links.{link.name}.capacity_gbps",
            shadow_price=_most_with_one_more_gbps(problem, solution, i) - base,
            unit="req/s per Gbps",
        )
        for i, link in enumerate(problem.links)
    ]
    worth = [b for b in found if b.shadow_price > NO_GAIN * base]
    return tuple(sorted(worth, key=lambda b: -b.shadow_price))


def _one_more_instance(sizing: Sizing, pool: int) -> Sizing:
    return replace(sizing, n_instances=tuple(n + (i == pool) for i, n in enumerate(sizing.n_instances)))


def most_of_sizes(problem: PlanningProblem, sizing: Sizing, solution: Solution) -> float:
    """Highest rate of fixed sizes, thresholds chosen for it whatever traffic then costs [req/s]."""
    scenario = problem.scenario.model_copy(update={"objective": "max-throughput", "budget_usd_per_hour": None})
    problem, deadline = replace(problem, scenario=scenario), monotonic() + TIME_LIMIT_S
    thresholds = best_thresholds(problem, sizing, solution.thresholds_tokens, deadline)
    return highest_rate(problem, sizing, exact_loads(problem, thresholds), TIME_LIMIT_S).rate


def _most_with_one_more_gbps(problem: PlanningProblem, solution: Solution, link: int) -> float:
    links, ports = list(problem.links), list(solution.sizing.n_ports)
    links[link] = replace(links[link], tiers=(*links[link].tiers, LinkTier(capacity_gbps=1.0)))
    ports[link] = (*ports[link], 1)
    sizing = replace(solution.sizing, n_ports=tuple(ports))
    return most_of_sizes(replace(problem, links=tuple(links)), sizing, solution)


def sweep(problem: PlanningProblem, solution: Solution) -> Sweep | None:
    """The highest rate by threshold at the sizes of a solution; None unless one route has a threshold to choose."""
    if not single_route(problem) or not problem.routes[0].is_split:
        return None
    mix = problem.classes[0].mix
    low, high = mix.support
    grid = np.geomspace(max(low, 1.0), high, N_SWEEP)
    thresholds = np.unique(np.append(grid, np.clip(solution.thresholds_tokens[0], low, high)))
    loads = threshold_loads(problem, problem.routes[0], thresholds)
    limits = rate_limits(problem, solution.sizing, loads)
    return Sweep(
        threshold_tokens=tuple(thresholds.tolist()),
        offload_fraction=tuple(loads.long_fraction.tolist()),
        limits_req_per_s={name: tuple(map(_finite, limit.tolist())) for name, limit in limits.items()},
    )


def _finite(rate: float) -> float | None:
    return rate if isfinite(rate) else None
