"""Fleets whose requests all take one route: the best threshold of given sizes, by closed forms."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.capacity import Loads, exact_loads, first_thresholds, threshold_loads
from planner.optimizer.network.period_operation import Decoding, Flow, PeriodOperation
from planner.optimizer.problem import Arc, Part, Problem, Stream
from planner.optimizer.routed_capacity import Operating, highest_rate, rate_limits, spend_of
from planner.optimizer.routes import Route
from planner.optimizer.settings import ROUTE_SETTINGS
from planner.optimizer.sized import Sizing
from planner.optimizer.solution import Solution, unit_of
from planner.optimizer.work import ROUNDING_OF_SUMS
from planner.ties import first_largest

CAPACITY_GAP, CAPACITY_TARGET = 1e-5, 1e-4
"""Gap at which a search by capacity alone stops in one period, and one that counts as none there,"""
SLO_GAP, ROUNDING = 1e-3, 1.01
"""and the gap of goodput and of the least TTFT, with its rounding."""
BUDGET_SLACK = 1e-6
"""Of a budget, the solver's tolerance."""


@dataclass(frozen=True)
class RoutedSolution:
    """Sizes, thresholds and how good they are proven to be."""

    sizing: Sizing
    thresholds_tokens: tuple[float, ...]
    """Threshold of every route."""
    loads: tuple[Loads, ...]
    """Loads of every route at its threshold."""
    highest: Operating
    """The most the plan can serve."""
    operating: Operating
    """The rate the plan is for."""
    objective: float
    """Rate [req/s] or spend."""
    bound: float
    """Proven bound of the objective over every threshold."""
    goodput: float | None = None
    """Rate at which the promise still holds [req/s]; None without one on TTFT."""

    @property
    def gap(self) -> float:
        """Relative distance of objective and bound."""
        return abs(self.bound - self.objective) / max(abs(self.objective), 1e-12)


def at_threshold(problem: Problem, sizing: Sizing, threshold_tokens: float) -> RoutedSolution | None:
    """The plan of some sizes at a threshold, by capacity alone; None where they do not serve the demand.

    Args:
        problem: a problem with one route.
        sizing: instances and ports.
        threshold_tokens: the threshold [tokens].
    """
    loads = tuple(exact_loads(problem, (threshold_tokens,)))
    highest, demand = highest_rate(problem, sizing, loads), problem.demand_req_per_s
    if highest.rate <= 0 or (problem.is_min_cost and demand is not None and highest.rate < demand * (1 - 1e-9)):
        return None
    operating = highest.scaled_to(demand) if problem.is_min_cost and demand is not None else highest
    budget = problem.scenario.budget_usd_per_hour
    if budget is not None and spend_of(problem, sizing, loads, operating) > budget * (1 + BUDGET_SLACK):
        return None
    objective = spend_of(problem, sizing, loads, operating) if problem.is_min_cost else highest.rate
    return RoutedSolution(sizing, (threshold_tokens,), loads, highest, operating, objective, objective)


def best_threshold(problem: Problem, sizing: Sizing, start_tokens: float) -> float:
    """The threshold that lets given sizes serve the highest rate [tokens].

    Args:
        problem: a problem with one route.
        sizing: instances and ports.
        start_tokens: the one to keep where none is to be chosen, or where it decides what use costs [tokens].
    """
    is_free = problem.scenario.routing.threshold_tokens == "free"
    if not (problem.routes[0].is_split and is_free) or (problem.is_min_cost and problem.charges_use):
        return start_tokens
    return _best_threshold(problem, sizing)


def _best_threshold(problem: Problem, sizing: Sizing) -> float:
    """Zoom into the best of a fine grid until the bracket is a point.

    Decode does not depend on the threshold: where it alone limits the rate, the threshold still balances prefill.
    """
    route = problem.routes[0]
    mix = problem.classes[route.request_class].mix
    low, high = mix.support
    grid = route.held(np.concatenate([first_thresholds(problem, route), mix.split_points(low, high, 512)]))
    while True:
        k = _best_index(problem, sizing, grid)
        low, high = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
        inner = mix.split_points(low, high, ROUTE_SETTINGS.zoom_points)
        if len(inner) == 0 or high - low <= ROUTE_SETTINGS.zoom_width * max(high, 1.0) or np.isin(inner, grid).all():
            return float(grid[k])
        grid = np.unique(np.concatenate([[low, grid[k], high], inner]))


def _best_index(problem: Problem, sizing: Sizing, thresholds: NDArray[np.float64]) -> int:
    route = problem.routes[0]
    limits = rate_limits(problem, sizing, threshold_loads(problem, route, thresholds))
    decode = problem.pools[route.decode].name
    return first_largest(np.min([limit for name, limit in limits.items() if name != decode], axis=0))


def has_one_route(problem: Problem) -> bool:
    """Whether all requests take one route, so that closed forms say what sizes serve."""
    return problem.is_routed and len(problem.routes) == 1


def at_best_threshold(
    problem: Problem, sizing: Sizing, threshold_tokens: float, bound: float | None = None
) -> Solution | None:
    """The plan of some sizes at the best threshold of their route, by capacity alone; None where they do not do.

    Args:
        problem: a problem with one route.
        sizing: instances and ports.
        threshold_tokens: the one to keep where nothing else decides [tokens].
        bound: what no plan passes, in the unit of a solution; None: nothing is proven.
    """
    tried = dict.fromkeys([best_threshold(problem, sizing, threshold_tokens), threshold_tokens])
    plans = [plan for t in tried if (plan := at_threshold(problem, sizing, t)) is not None]
    if not plans:
        return None
    better = min if problem.is_min_cost else max
    best = better(plans, key=lambda plan: plan.objective)
    if bound is not None:  # which rounding must not put on the wrong side of the plan
        best = replace(best, bound=better(bound * unit_of(problem), best.objective))
    return solution_of_routes(problem, best)


def solution_of_routes(problem: Problem, routed: RoutedSolution) -> Solution:
    """Thresholds and rates by route as what happens in every period.

    Args:
        problem: a problem that `is_routed`.
        routed: its sizes, and a threshold and a rate for every route.
    """
    flows, decodings = _flows(problem, routed), _decodings(problem, routed)
    sizes = routed.sizing.n_instances
    unit = unit_of(problem)
    return Solution(
        operations=tuple(PeriodOperation(p, sizes, flows, decodings) for p in range(len(problem.periods))),
        ports=routed.sizing.n_ports,
        scale=routed.operating.rate / problem.mean_req_per_s,
        objective=routed.objective / unit,
        bound=routed.bound / unit,
        target=_target(problem, routed),
        highest_req_per_s=routed.highest.rate,
        goodput_req_per_s=routed.goodput,
        routed=routed,
    )


def _target(problem: Problem, routed: RoutedSolution) -> float:
    """Gap that counts as none: goodput and TTFT are proven less closely than capacity."""
    return CAPACITY_TARGET if routed.goodput is None and not problem.is_min_ttft else ROUNDING * SLO_GAP


def _flows(problem: Problem, routed: RoutedSolution) -> tuple[Flow, ...]:
    """What every prefill pool takes of every stream."""
    rates: dict[tuple[int, Part, Arc, float], float] = {}
    for route, rate, t in zip(problem.routes, routed.operating.route_rates, routed.thresholds_tokens, strict=True):
        stream = _stream(problem, route)
        mix = problem.classes[route.request_class].mix
        long = float(mix.long_fraction(t))
        ends: tuple[tuple[Part, int | None, int | None, float], ...] = (
            ("long", route.long, route.long_link, long),
            ("short", route.short, route.short_link, 1.0 - long),
        )
        for part, pool, link, fraction in ends:
            if pool is not None and rate > 0 and fraction > ROUNDING_OF_SUMS:
                key = stream, part, Arc(pool, link), t
                rates[key] = rates.get(key, 0.0) + rate
    return tuple(Flow(*key, rate) for key, rate in rates.items())


def _stream(problem: Problem, route: Route) -> int:
    """The stream that a route takes requests of."""
    return problem.streams.index(Stream(route.request_class, problem.pools[route.decode].site))


def _decodings(problem: Problem, routed: RoutedSolution) -> tuple[Decoding, ...]:
    """What every decode pool takes of every stream."""
    rates: dict[tuple[int, int], float] = {}
    for route, rate in zip(problem.routes, routed.operating.route_rates, strict=True):
        stream = _stream(problem, route)
        if rate > 0:
            rates[stream, route.decode] = rates.get((stream, route.decode), 0.0) + rate
    return tuple(Decoding(*key, rate) for key, rate in rates.items())
