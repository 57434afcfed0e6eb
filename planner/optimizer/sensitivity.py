"""What holds the rate down: the pools and links at their limit, and the worth of one more unit of each."""

from collections.abc import Iterator
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
    """Pools, links and the promise itself, of which one more unit would raise the rate or bring the first token sooner,
    most valuable first.

    Equation:
        shadow price = R(n_i + 1) - R(n_i), R the highest rate, or under a promise the goodput, both with the thresholds
        that serve most, other integers fixed; for links per Gbps. Of the least TTFT what it falls by

    Args:
        problem: the resolved scenario.
        solution: sizes and thresholds.

    Returns:
        Constraints with a price above zero, in req/s or s per instance, per Gbps, or per ms of the promise.

    Source:
        Right-hand-side ranging by re-solving; a derivative would be zero or undefined at a kink.
    """
    return tuple(largest_first([*_prices(problem, solution)], lambda b: b.shadow_price, SOLVED))


def _prices(problem: Problem, solution: RoutedSolution) -> Iterator[Bottleneck]:
    """The price of every limit that is worth more than what is sought is known to, by its closed form."""
    limit, sizing = work_s() + SLO_LIMIT_S, solution.sizing
    unit = "s" if problem.is_min_ttft else "req/s"
    raised = [
        (f"pools.{pool.name}.n_instances", "instance", problem, _one_more_instance(sizing, i), 1.0)
        for i, pool in enumerate(problem.pools)
    ]
    raised += [
        (f"links.{link.name}.capacity_gbps", "Gbps", *_one_more_gbps(problem, sizing, i), 1.0)
        for i, link in enumerate(problem.links)
    ]
    if not problem.is_min_ttft and solution.goodput is not None:
        raised.append(("slo.ttft_s", "ms", _later(problem), sizing, LATER_MS))
    is_searched = problem.is_min_ttft or solution.goodput is not None
    base = solution.objective if problem.is_min_ttft else solution.goodput
    base = most_of_sizes(problem, sizing, solution) if base is None else base
    for name, of, other, more, n_more in raised:
        least = base * (2 * SLO_GAP if is_searched and n_more == 1 else NO_GAIN)
        gained = _gained(other, more, solution, base, least, limit)
        if gained > least:
            yield Bottleneck(constraint=name, shadow_price=gained / n_more, unit=f"{unit} per {of}")


def _gained(
    problem: Problem, sizing: Sizing, solution: RoutedSolution, base: float, least: float, limit: float
) -> float:
    """How much more a raised limit serves than the base, or how much sooner; of a goodput, if more than the least."""
    if problem.is_min_ttft:
        return base - least_ttft(problem, sizing, solution.req_per_s, limit).ttft_s
    if solution.goodput is None:
        return most_of_sizes(problem, sizing, solution) - base
    return best_goodput(problem, sizing, limit, base + least, solution.threshold_tokens).rate - base


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
