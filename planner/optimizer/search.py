"""The search: a threshold grid gives a plan, intervals between thresholds give a bound, and both close in.

1. The model on grid thresholds picks integers; the threshold is then refined exactly for those integers.
2. The model on threshold *intervals*, with loads that no threshold inside can undercut, bounds every plan.
3. The interval the bound chose is split, and its integers are refined as a further plan, until bound and plan meet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.errors import UndecidedError
from planner.optimizer.capacity import (
    Loads,
    exact_loads,
    first_intervals,
    first_thresholds,
    interval_loads,
    split_interval,
    threshold_loads,
)
from planner.optimizer.formulation import ProgramGoal, Sizing, most_rate
from planner.optimizer.problem import Problem
from planner.optimizer.routed_capacity import Operating, highest_rate, rate_limits, single_route, spend_of
from planner.optimizer.settings import ROUTE_SETTINGS
from planner.optimizer.solver import RoutedOptimum, solve
from planner.optimizer.time_limit import nothing_found
from planner.ties import first_largest
from planner.work_clock import work_s

GAP_TARGET = 1e-5
SOLVER_SLACK = 1e-6
"""Thresholds are chosen for this much more than the demand, so that they serve it despite the solver's tolerance."""
RATE_TOLERANCE = 1e-7
"""A rate this close to the best counts as equal when spend decides."""


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


def capacity_search(problem: Problem, time_limit_s: float = 60.0) -> RoutedSolution | None:
    """The best plan by capacity alone and its bound, or None when no plan exists.

    Args:
        problem: the resolved scenario.
        time_limit_s: seconds after which the best plan so far is returned with its gap.

    Raises:
        UndecidedError: when time is up without a plan.
    """
    deadline = work_s() + time_limit_s
    best = _best_on_grid(problem, deadline)
    best = _closed_in(problem, best, deadline)
    return best and _cheapest_as_fast(problem, best, deadline)


def capacity_bound(problem: Problem, time_limit_s: float) -> float | None:
    """What the objective of no plan passes, by capacity alone and before thresholds are cut; None: there is no plan.

    Args:
        problem: the resolved scenario, which does not seek the least TTFT.
        time_limit_s: seconds for the one program there is to solve.

    Raises:
        UndecidedError: when time is up without a bound.
    """
    cells = [interval_loads(problem, route, *first_intervals(problem, route)) for route in problem.routes]
    found = solve(problem, cells, _main_goal(problem), time_limit_s)
    return None if found is None or _serves_nothing(problem, found) else found.bound


def first_plan(problem: Problem, time_limit_s: float) -> RoutedSolution | None:
    """A plan by capacity alone on the first grid of thresholds, without a proof; None proves nothing.

    Args:
        problem: the resolved scenario.
        time_limit_s: seconds for the one program there is to solve.

    Raises:
        UndecidedError: when time is up without a plan.
    """
    return _best_on_grid(problem, work_s() + time_limit_s)


def _best_on_grid(problem: Problem, deadline: float) -> RoutedSolution | None:
    loads = [threshold_loads(problem, route, first_thresholds(problem, route)) for route in problem.routes]
    answer = solve(problem, loads, _main_goal(problem), deadline - work_s())
    return _refined(problem, answer, loads, deadline) if answer else None


def _main_goal(problem: Problem) -> ProgramGoal:
    demand = problem.demand_req_per_s
    if problem.is_min_cost and demand is not None:
        return ProgramGoal("spend", least_rate=demand, most_rate=demand)
    return ProgramGoal("rate")


def _closed_in(problem: Problem, best: RoutedSolution | None, deadline: float) -> RoutedSolution | None:
    """Tighten the bound, and the plan with every sizing the bound proposes, until they meet; None when proven empty."""
    cells = [interval_loads(problem, route, *first_intervals(problem, route)) for route in problem.routes]
    tried = {best.sizing} if best else set()
    proven = 0.0 if problem.is_min_cost else most_rate(problem, problem.size_limits)
    for _ in range(ROUTE_SETTINGS.max_rounds):
        try:
            bound = solve(problem, cells, _main_goal(problem), max(deadline - work_s(), 0.1))
        except UndecidedError:
            break
        if bound is None or (best is None and _serves_nothing(problem, bound)):
            return best
        if bound.sizing not in tried:
            tried.add(bound.sizing)
            best = _better(problem, best, _refined(problem, bound, cells, deadline))
        proven = max(proven, bound.bound) if problem.is_min_cost else min(proven, bound.bound)
        split = _split(problem, cells, bound)
        if split is None or (best and _bounded(problem, best, proven).gap <= GAP_TARGET):
            break
        cells = split
    if best is None:
        raise nothing_found(is_time_up=work_s() >= deadline, looked_at=f"{ROUTE_SETTINGS.max_rounds} rounds")
    return _bounded(problem, best, proven)


def _serves_nothing(problem: Problem, bound: RoutedOptimum) -> bool:
    """Whether the bound proves that no fleet within the limits serves any request."""
    return not problem.is_min_cost and bound.bound <= SOLVER_SLACK


def _bounded(problem: Problem, best: RoutedSolution, bound: float) -> RoutedSolution:
    """A plan with its bound, which the solver's tolerance must not put on the wrong side of it."""
    return replace(best, bound=(min if problem.is_min_cost else max)(bound, best.objective))


def _better(problem: Problem, old: RoutedSolution | None, new: RoutedSolution | None) -> RoutedSolution | None:
    if old is None or new is None:
        return new or old
    gain = old.objective - new.objective if problem.is_min_cost else new.objective - old.objective
    return new if gain > 0 else old


def _split(problem: Problem, cells: Sequence[Loads], bound: RoutedOptimum) -> list[Loads] | None:
    """The cells with every chosen interval cut into parts; None when each chosen one is a single threshold."""
    result, changed = list(cells), False
    for r, (route, k) in enumerate(zip(problem.routes, bound.chosen, strict=True)):
        if k is None or cells[r].low_tokens[k] == cells[r].high_tokens[k]:
            continue
        mix = problem.classes[route.request_class].mix
        ends = split_interval(mix, cells[r].low_tokens[k], cells[r].high_tokens[k], ROUTE_SETTINGS.parts_per_split)
        result[r] = cells[r].without(k).joined(interval_loads(problem, route, *ends))
        changed = True
    return result if changed else None


def _refined(problem: Problem, answer: RoutedOptimum, loads: Sequence[Loads], deadline: float) -> RoutedSolution | None:
    """The best plan with the integers of an answer; None when they cannot serve the demand after all."""
    start = [_start(candidates, k) for candidates, k in zip(loads, answer.chosen, strict=True)]
    thresholds = best_thresholds(problem, answer.sizing, start, deadline)
    return _solution(problem, answer.sizing, thresholds, deadline)


def _start(candidates: Loads, chosen: int | None) -> float:
    k = chosen if chosen is not None else candidates.n_candidates // 2
    return float(candidates.high_tokens[k])


def _solution(problem: Problem, sizing: Sizing, thresholds: Sequence[float], deadline: float) -> RoutedSolution | None:
    loads = tuple(exact_loads(problem, thresholds))
    highest = highest_rate(problem, sizing, loads, max(deadline - work_s(), 1.0))
    demand = problem.demand_req_per_s
    if highest.rate <= 0 or (problem.is_min_cost and demand is not None and highest.rate < demand * (1 - 1e-9)):
        return None
    operating = highest.scaled_to(demand) if problem.is_min_cost and demand is not None else highest
    budget = problem.scenario.budget_usd_per_hour
    if budget is not None and spend_of(problem, sizing, loads, operating) > budget * (1 + SOLVER_SLACK):
        return None
    objective = spend_of(problem, sizing, loads, operating) if problem.is_min_cost else highest.rate
    return RoutedSolution(sizing, tuple(thresholds), loads, highest, operating, objective, objective)


def best_thresholds(problem: Problem, sizing: Sizing, start: Sequence[float], deadline: float) -> tuple[float, ...]:
    """Thresholds that let fixed sizes serve the highest rate; for one route by zooming, else by the model.

    Args:
        problem: the resolved scenario.
        sizing: instances and ports.
        start: thresholds to start from, one per route [tokens].
        deadline: `work_s()` time to stop at.

    Returns:
        One threshold per route [tokens]; those to start from where none better was found in the time.
    """
    if not any(route.is_split for route in problem.routes) or problem.scenario.routing.threshold_tokens != "free":
        return tuple(start)
    if single_route(problem) and not (problem.is_min_cost and problem.charges_use):
        return (_best_threshold(problem, sizing),)
    return _zoomed_by_model(problem, sizing, start, deadline)


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


def _zoomed_by_model(problem: Problem, sizing: Sizing, start: Sequence[float], deadline: float) -> tuple[float, ...]:
    """Repeatedly offer the model finer thresholds around the last choice."""
    current, goal, problem = list(start), _zoom_goal(problem, sizing), _without_size_limits(problem)
    widths = [float(np.ptp(problem.classes[r.request_class].mix.support)) for r in problem.routes]
    for _ in range(ROUTE_SETTINGS.zoom_rounds):
        offers = [_around(problem, r, t, width) for r, (t, width) in enumerate(zip(current, widths, strict=True))]
        loads = [threshold_loads(problem, route, offer) for route, offer in zip(problem.routes, offers, strict=True)]
        try:
            answer = solve(problem, loads, goal, max(deadline - work_s(), 1.0))
        except UndecidedError:
            break
        if answer is None:
            break
        found = zip(current, offers, answer.chosen, strict=True)
        current = [t if k is None else float(offer[k]) for t, offer, k in found]
        widths = [width / ROUTE_SETTINGS.zoom_factor for width in widths]
    return tuple(current)


def _without_size_limits(problem: Problem) -> Problem:
    """The problem for sizes that are settled: what limited them has done its part, a budget for use has not."""
    routing = problem.scenario.routing.model_copy(update={"prefill_to_decode": "free"})
    budget = problem.scenario.budget_usd_per_hour if problem.charges_use and not problem.is_min_cost else None
    scenario = problem.scenario.model_copy(update={"budget_usd_per_hour": budget, "routing": routing})
    return replace(problem, scenario=scenario, inventories=())


def _zoom_goal(problem: Problem, sizing: Sizing) -> ProgramGoal:
    """What thresholds of fixed sizes are for: cheap use where that is the objective and priced, else a high rate.

    Decode is given room to spare: where it alone limits the rate, the thresholds still balance prefill.
    """
    demand = problem.demand_req_per_s
    if not problem.is_min_cost and problem.scenario.budget_usd_per_hour is not None and problem.charges_use:
        return ProgramGoal("rate", sizing=sizing)
    roomy = replace(
        sizing,
        n_instances=tuple(
            n * ROUTE_SETTINGS.decode_room if pool.role == "decode" else n
            for n, pool in zip(sizing.n_instances, problem.pools, strict=True)
        ),
    )
    if problem.is_min_cost and demand is not None and problem.charges_use:
        rate = demand * (1 + SOLVER_SLACK)
        return ProgramGoal("spend", sizing=roomy, least_rate=rate, most_rate=rate)
    return ProgramGoal("rate", sizing=roomy)


def _around(problem: Problem, index: int, centre: float, width: float) -> NDArray[np.float64]:
    route = problem.routes[index]
    if not route.is_split:
        return np.array([centre])
    mix = problem.classes[route.request_class].mix
    return route.held(
        np.append(mix.split_points(centre - width, centre + width, ROUTE_SETTINGS.zoom_points - 1), centre)
    )


def _cheapest_as_fast(problem: Problem, best: RoutedSolution, deadline: float) -> RoutedSolution:
    """Among plans as fast as the best, the cheapest: a search for the least spend at the rate found."""
    if problem.is_min_cost:
        return best
    asked = problem.demanding(best.objective * (1 - RATE_TOLERANCE), "min-cost")
    first = found = _solution(asked, best.sizing, best.thresholds_tokens, deadline)
    offers = [
        np.union1d(first_thresholds(problem, route), [t])
        for route, t in zip(problem.routes, best.thresholds_tokens, strict=True)
    ]
    loads = [threshold_loads(problem, route, offer) for route, offer in zip(problem.routes, offers, strict=True)]
    try:
        answer = solve(asked, loads, _main_goal(asked), deadline - work_s())
        found = _better(asked, found, _refined(asked, answer, loads, deadline) if answer else None)
        found = _closed_in(asked, found, deadline)
    except UndecidedError:
        pass
    if found is None or (first is not None and found.objective >= first.objective):
        return best
    other = _solution(problem, found.sizing, found.thresholds_tokens, deadline)
    if other is None:
        return best
    return replace(other, bound=max(best.bound, other.objective))
