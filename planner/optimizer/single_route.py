"""Fleets whose requests all take one route: the best threshold of given sizes, by closed forms."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.capacity import exact_loads, first_thresholds, threshold_loads
from planner.optimizer.network.period_operation import Decoding, Flow, PeriodOperation
from planner.optimizer.problem import Arc, Problem, Stream
from planner.optimizer.problem_parts import Part
from planner.optimizer.routed_capacity import highest_req_per_s, rate_limits, spend_of
from planner.optimizer.settings import ROUTE_SETTINGS
from planner.optimizer.sized import Sizing
from planner.optimizer.solution import Solution, objective_unit
from planner.optimizer.work import ROUNDING_OF_SUMS
from planner.results.plan import Sweep
from planner.ties import first_largest

CAPACITY_GAP, CAPACITY_TARGET = 1e-5, 1e-4
"""Gap at which a search by capacity alone stops in one period, and one that counts as none there,"""
SLO_GAP, ROUNDING = 1e-3, 1.01
"""and the gap of goodput and of the least TTFT, with its rounding."""
BUDGET_SLACK = 1e-6
"""Of a budget, the solver's tolerance."""
N_SWEEP = 241
MOST_REQ_PER_S = 1e15
"""A million times the highest demand that a scenario may state: what would allow more limits nothing."""


@dataclass(frozen=True)
class RoutedSolution:
    """Sizes, a threshold and how good they are proven to be."""

    sizing: Sizing
    threshold_tokens: float
    highest_req_per_s: float
    """The most the plan can serve [req/s]."""
    req_per_s: float
    """The rate the plan is for [req/s]."""
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
        threshold_tokens: the threshold [tokens].
    """
    loads = exact_loads(problem, threshold_tokens)
    highest, demand = highest_req_per_s(problem, sizing, loads), problem.demand_req_per_s
    if highest <= 0 or (problem.is_min_cost and demand is not None and highest < demand * (1 - 1e-9)):
        return None
    rate = demand if problem.is_min_cost and demand is not None else highest
    budget, spend = problem.scenario.budget_usd_per_hour, spend_of(problem, sizing, loads, rate)
    if budget is not None and spend > budget * (1 + BUDGET_SLACK):
        return None
    objective = spend if problem.is_min_cost else highest
    return RoutedSolution(sizing, threshold_tokens, highest, rate, objective, objective)


def best_threshold(problem: Problem, sizing: Sizing, start_tokens: float) -> float:
    """The threshold that lets given sizes serve the highest rate [tokens].

    Args:
        start_tokens: the one to keep where none is to be chosen, or where it decides what use costs [tokens].
    """
    is_free = problem.scenario.routing.threshold_tokens == "free"
    if not (problem.route.is_split and is_free) or (problem.is_min_cost and problem.charges_use):
        return start_tokens
    return _best_threshold(problem, sizing)


def _best_threshold(problem: Problem, sizing: Sizing) -> float:
    """Zoom into the best of a fine grid until the bracket is a point.

    Decode does not depend on the threshold: where it alone limits the rate, the threshold still balances prefill.
    """
    route = problem.route
    mix = problem.classes[route.request_class].mix
    low, high = mix.support
    grid = route.thresholds_that_fit(
        np.concatenate([first_thresholds(problem, route), mix.split_points(low, high, 512)])
    )
    while True:
        k = _best_index(problem, sizing, grid)
        low, high = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
        inner = mix.split_points(low, high, ROUTE_SETTINGS.zoom_points)
        if len(inner) == 0 or high - low <= ROUTE_SETTINGS.zoom_width * max(high, 1.0) or np.isin(inner, grid).all():
            return float(grid[k])
        grid = np.unique(np.concatenate([[low, grid[k], high], inner]))


def _best_index(problem: Problem, sizing: Sizing, thresholds: NDArray[np.float64]) -> int:
    route = problem.route
    limits = rate_limits(problem, sizing, threshold_loads(problem, route, thresholds))
    decode = problem.pools[route.decode].name
    return first_largest(np.min([limit for name, limit in limits.items() if name != decode], axis=0))


def most_of_sizes(problem: Problem, sizing: Sizing, solution: RoutedSolution) -> float:
    """Highest rate of fixed sizes, thresholds chosen for it whatever traffic then costs [req/s].

    Args:
        problem: a problem with one route.
        sizing: instances and ports.
        solution: a plan, whose threshold is kept where nothing else decides.
    """
    scenario = problem.scenario.model_copy(update={"objective": "max-throughput", "budget_usd_per_hour": None})
    problem = replace(problem, scenario=scenario)
    threshold = best_threshold(problem, sizing, solution.threshold_tokens)
    return highest_req_per_s(problem, sizing, exact_loads(problem, threshold))


def sweep(problem: Problem, solution: RoutedSolution) -> Sweep | None:
    """The highest rate by threshold at the sizes of a plan; None unless its route has a threshold to choose.

    Args:
        problem: the question.
        solution: its plan.
    """
    if not problem.has_one_route or not problem.route.is_split:
        return None
    mix = problem.classes[0].mix
    low, high = mix.support
    grid = np.geomspace(max(low, 1.0), high, N_SWEEP)
    thresholds = problem.route.thresholds_that_fit(np.append(grid, np.clip(solution.threshold_tokens, low, high)))
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


def at_best_threshold(
    problem: Problem, sizing: Sizing, threshold_tokens: float, bound: float | None = None
) -> Solution | None:
    """The plan of some sizes at the best threshold of their route, by capacity alone; None where they do not do.

    Args:
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
        best = replace(best, bound=better(bound * objective_unit(problem), best.objective))
    return solution_of_routes(problem, best)


def solution_of_routes(problem: Problem, routed: RoutedSolution) -> Solution:
    """The threshold and the rate of a plan as what happens in every period.

    Args:
        problem: a problem with one route.
        routed: its plan.
    """
    sizes, unit, route = routed.sizing.n_instances, objective_unit(problem), problem.route
    stream = problem.streams.index(Stream(route.request_class, problem.pools[route.decode].site))
    flows, decodings = _flows(problem, routed, stream), (Decoding(stream, route.decode, routed.req_per_s),)
    return Solution(
        operations=tuple(PeriodOperation(p, sizes, flows, decodings) for p in range(len(problem.periods))),
        ports=routed.sizing.n_ports,
        scale=routed.req_per_s / problem.mean_req_per_s,
        objective=routed.objective / unit,
        bound=routed.bound / unit,
        target=_target(problem, routed),
        highest_req_per_s=routed.highest_req_per_s,
        goodput_req_per_s=routed.goodput,
        routed=routed,
    )


def _target(problem: Problem, routed: RoutedSolution) -> float:
    """Gap that counts as none: goodput and TTFT are proven less closely than capacity."""
    return CAPACITY_TARGET if routed.goodput is None and not problem.is_min_ttft else ROUNDING * SLO_GAP


def _flows(problem: Problem, routed: RoutedSolution, stream: int) -> tuple[Flow, ...]:
    """Flows of the stream to every prefill pool."""
    route, t = problem.route, routed.threshold_tokens
    long = float(problem.classes[route.request_class].mix.long_fraction(t))
    ends: tuple[tuple[Part, int | None, int | None, float], ...] = (
        ("long", route.long, route.long_link, long),
        ("short", route.short, route.short_link, 1.0 - long),
    )
    return tuple(
        Flow(stream, part, Arc(pool, link), t, routed.req_per_s)
        for part, pool, link, fraction in ends
        if pool is not None and fraction > ROUNDING_OF_SUMS
    )
