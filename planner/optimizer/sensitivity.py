"""What holds the rate down: the pools and links at their limit, and the worth of one more unit of each."""

from dataclasses import replace

import numpy as np

from planner.optimizer.capacity import exact_loads, threshold_loads
from planner.optimizer.goodput import best_goodput
from planner.optimizer.least_ttft import least_ttft
from planner.optimizer.problem import Problem
from planner.optimizer.routed_capacity import highest_req_per_s, rate_limits
from planner.optimizer.single_route import SLO_GAP, RoutedSolution, best_threshold
from planner.optimizer.sized import Sizing
from planner.results import Bottleneck, Sweep
from planner.scenario import LinkTier
from planner.ties import SOLVED, largest_first
from planner.units import MILLI
from planner.work_clock import work_s

NO_GAIN = 1e-6
SLO_LIMIT_S = 600.0
"""Far beyond what shadow prices of a promise take: answers must not depend on how busy the machine is."""
N_SWEEP = 241
MOST_REQ_PER_S = 1e15
"""A million times the highest demand that a scenario may state: what would allow more limits nothing."""
LATER_MS = 100.0
"""A promise is made this much longer to see what a millisecond of it is worth."""


def bottlenecks(problem: Problem, solution: RoutedSolution) -> tuple[Bottleneck, ...]:
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
    if problem.is_min_ttft:
        return routed_ttft_bottlenecks(problem, solution)
    if solution.goodput is not None:
        return goodput_bottlenecks(problem, solution, solution.goodput)
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
    return tuple(largest_first(worth, lambda b: b.shadow_price, SOLVED))


def goodput_bottlenecks(problem: Problem, solution: RoutedSolution, base: float) -> tuple[Bottleneck, ...]:
    """Pools, links and the promise itself, of which one more unit would raise the goodput, most valuable first."""
    sizing, threshold = solution.sizing, solution.threshold_tokens
    found = [
        (f"pools.{pool.name}.n_instances", "req/s per instance", problem, _one_more_instance(sizing, i), 1.0)
        for i, pool in enumerate(problem.pools)
    ]
    found += [
        (f"links.{link.name}.capacity_gbps", "req/s per Gbps", *_one_more_gbps(problem, sizing, i), 1.0)
        for i, link in enumerate(problem.links)
    ]
    found.append(("slo.ttft_s", "req/s per ms", _later(problem), sizing, LATER_MS))
    limit, worth = work_s() + SLO_LIMIT_S, []
    for name, unit, other, more, n_more in found:
        least = base * (1 + (2 * SLO_GAP if n_more == 1 else NO_GAIN))
        rate = best_goodput(other, more, limit, least, threshold).rate
        if rate > least:
            worth.append(Bottleneck(constraint=name, shadow_price=(rate - base) / n_more, unit=unit))
    return tuple(largest_first(worth, lambda b: b.shadow_price, SOLVED))


def routed_ttft_bottlenecks(problem: Problem, solution: RoutedSolution) -> tuple[Bottleneck, ...]:
    """Pools and links of which one more unit would bring the first token sooner, in s per unit, most valuable first."""
    limit, sizing, demand = work_s() + SLO_LIMIT_S, solution.sizing, solution.req_per_s
    found = [
        (f"pools.{pool.name}.n_instances", "s per instance", problem, _one_more_instance(sizing, i))
        for i, pool in enumerate(problem.pools)
    ]
    found += [
        (f"links.{link.name}.capacity_gbps", "s per Gbps", *_one_more_gbps(problem, sizing, i))
        for i, link in enumerate(problem.links)
    ]
    prices = [
        Bottleneck(
            constraint=name,
            shadow_price=solution.objective - least_ttft(other, more, demand, limit).ttft_s,
            unit=unit,
        )
        for name, unit, other, more in found
    ]
    worth = [b for b in prices if b.shadow_price > 2 * SLO_GAP * solution.objective]
    return tuple(largest_first(worth, lambda b: b.shadow_price, SOLVED))


def _later(problem: Problem) -> Problem:
    """The problem with a promise that is LATER_MS longer."""
    (spec,) = problem.classes
    if spec.slo is None or spec.slo.ttft_s is None:
        raise ValueError("no promise on TTFT")
    longer = spec.slo.model_copy(update={"ttft_s": spec.slo.ttft_s + LATER_MS * MILLI})
    return replace(problem, classes=(replace(spec, slo=longer),))


def _one_more_instance(sizing: Sizing, pool: int) -> Sizing:
    return replace(sizing, n_instances=tuple(n + (i == pool) for i, n in enumerate(sizing.n_instances)))


def most_of_sizes(problem: Problem, sizing: Sizing, solution: RoutedSolution) -> float:
    """Highest rate of fixed sizes, thresholds chosen for it whatever traffic then costs [req/s]."""
    scenario = problem.scenario.model_copy(update={"objective": "max-throughput", "budget_usd_per_hour": None})
    problem = replace(problem, scenario=scenario)
    threshold = best_threshold(problem, sizing, solution.threshold_tokens)
    return highest_req_per_s(problem, sizing, exact_loads(problem, threshold))


def _most_with_one_more_gbps(problem: Problem, solution: RoutedSolution, link: int) -> float:
    return most_of_sizes(*_one_more_gbps(problem, solution.sizing, link), solution)


def _one_more_gbps(problem: Problem, sizing: Sizing, link: int) -> tuple[Problem, Sizing]:
    """The problem and its sizes with a port of 1 Gbps more."""
    links, ports = list(problem.links), list(sizing.n_ports)
    links[link] = replace(links[link], tiers=(*links[link].tiers, LinkTier(capacity_gbps=1.0)))
    ports[link] = (*ports[link], 1)
    return replace(problem, links=tuple(links)), replace(sizing, n_ports=tuple(ports))


def sweep(problem: Problem, solution: RoutedSolution) -> Sweep | None:
    """The highest rate by threshold at the sizes of a solution; None unless its route has a threshold to choose."""
    if not problem.has_one_route or not problem.route.is_split:
        return None
    mix = problem.classes[0].mix
    low, high = mix.support
    grid = np.geomspace(max(low, 1.0), high, N_SWEEP)
    thresholds = problem.route.held(np.append(grid, np.clip(solution.threshold_tokens, low, high)))
    loads = threshold_loads(problem, problem.route, thresholds)
    limits = rate_limits(problem, solution.sizing, loads)
    return Sweep(
        threshold_tokens=tuple(thresholds.tolist()),
        offload_fraction=tuple(loads.long_fraction.tolist()),
        limits_req_per_s={name: tuple(map(_limiting, limit.tolist())) for name, limit in limits.items()},
    )


def _limiting(req_per_s: float) -> float | None:
    """A rate that limits a fleet; None where so few prompts pass that the rate of all would be beyond any demand."""
    return req_per_s if req_per_s <= MOST_REQ_PER_S else None
