"""How a problem is searched: by routes where few say all, else as a network; the answer is of one type."""

from dataclasses import replace
from math import inf, sqrt

import numpy as np

from planner.errors import InputError, UndecidedError
from planner.optimizer.evaluation import Evaluation, unit_of
from planner.optimizer.goodput import GAP as GOODPUT_GAP
from planner.optimizer.layout_candidates import N_KINDS
from planner.optimizer.least_ttft import GAP as LEAST_TTFT_GAP
from planner.optimizer.network.period_operation import Decoding, Flow, PeriodOperation
from planner.optimizer.problem import Arc, Demand, Part, Problem, Stream
from planner.optimizer.routes import Route
from planner.optimizer.search import GAP_TARGET as CAPACITY_GAP
from planner.optimizer.search import RoutedSolution
from planner.optimizer.settings import ROUTE_SETTINGS
from planner.optimizer.slo_search import search as routed_search
from planner.optimizer.solution import ANY_PLAN, GAP_TARGET, Solution
from planner.work_clock import wall_limit, work_s

FASTEST_PART = 0.6
"""Of the time, what the search for the highest rate may take; the rest is for the cheapest plan that reaches it."""
FASTER_PART = 0.5
"""Of what that leaves, what looking for plans of higher rates may take, where times are promised;"""
MOST_RATES, CLOSE_RATE = 8, 5e-3
"""so many, or until they are this close."""
ALWAYS_PART = 0.4
"""Of the time, what the search for a plan that rents all pools at all times may take, where some follow the periods."""
FOLLOWING_GAP = 2e-3
"""Gap at which the search for a plan that follows the periods stops: hours cost little each, and are many."""
AGAIN_GAP = GAP_TARGET / 2
"""How much further from the bound of a laxer promise the plan of a stricter one may be, at least."""
RATE_TOLERANCE = 1e-6
"""A rate this close to the best counts as equal when cost decides."""
NOTHING = 1e-9
"""A scale of the demand at which nothing is served."""
ROUNDING = 1.01
"""Of a gap that counts as none."""


def searched(
    problem: Problem,
    time_limit_s: float,
    gap: float = GAP_TARGET,
    laxer: Solution | None = None,
    most_sizings: int = ROUTE_SETTINGS.most_sizings,
) -> Solution | None:
    """The best plan that was found and its bound, or None where it is proven that no plan exists.

    Args:
        problem: the question.
        time_limit_s: seconds after which the best plan so far is returned with its gap.
        gap: relative distance of plan and bound at which the search of a network stops.
        laxer: what was found for the same question with a laxer promise or a lower demand: its bound is one of this.
        most_sizings: sizes that a search by routes looks at for the least cost under a promise.

    Raises:
        InputError: a promise that there is no model for.
        UndecidedError: when time is up, or so many sizes are looked at, without a plan.
    """
    _check_has_queueing_model(problem)
    if not (all(_is_reached(problem, demand) for demand in problem.demands) and may_be_in_time(problem)):
        return None
    with wall_limit(time_limit_s):
        return _searched(problem, time_limit_s, gap, laxer, most_sizings)


def _searched(
    problem: Problem, time_limit_s: float, gap: float, laxer: Solution | None, most_sizings: int
) -> Solution | None:
    """The same of a problem that nothing excludes at once."""
    if problem.is_routed:
        routed = routed_search(problem, time_limit_s, most_sizings)
        return None if routed is None else solution_of_routes(problem, routed)
    # What searches networks loads when there is one.
    from planner.optimizer.network.search import network_search
    from planner.optimizer.network.ttft_bisection import GAP as BISECTION_GAP
    from planner.optimizer.network.ttft_bisection import least_ttft_by_bisection

    if problem.is_min_ttft:
        least = least_ttft_by_bisection(problem, time_limit_s)
        return None if least is None else least.as_solution(ROUNDING * BISECTION_GAP)
    if problem.is_followed and problem.is_min_cost:
        return _following(problem, time_limit_s, gap)
    if problem.is_min_cost and laxer is not None:
        gap = max(gap, laxer.gap + AGAIN_GAP)
        return network_search(problem, time_limit_s, gap, bound=laxer.bound)
    deadline = work_s() + time_limit_s
    found = network_search(problem, time_limit_s if problem.is_min_cost else FASTEST_PART * time_limit_s, gap)
    if found is None or found.scale <= NOTHING:
        return None
    if problem.is_min_cost:
        return found
    found = _faster(problem, found, work_s() + FASTER_PART * max(deadline - work_s(), 0.0))
    return _cheapest_as_fast(problem, found, deadline, gap)


def _following(problem: Problem, time_limit_s: float, gap: float) -> Solution | None:
    """The plan of a problem with pools that are rented by the period: it begins with the one that rents at all times,
    so that it is never dearer."""
    from planner.optimizer.network.search import network_search

    deadline = work_s() + time_limit_s
    pools = tuple(replace(pool, by_period=None) for pool in problem.pools)
    try:
        always = searched(replace(problem, pools=pools), ALWAYS_PART * time_limit_s, gap)
    except UndecidedError:
        always = None
    found = network_search(problem, max(deadline - work_s(), 0.0), min(gap, FOLLOWING_GAP), always)
    return None if found is None or found.scale <= NOTHING else replace(found, always=always)


def _faster(problem: Problem, found: Solution, deadline: float) -> Solution:
    """A plan that serves more within its promises, if there is one, by bisection over the rate.

    At a given rate a plan is found more surely than the highest rate is: thresholds and allowances suit one rate.
    """
    from planner.optimizer.network.search import network_search

    if not problem.is_priced or not any(c.ttft_s is not None for c in problem.classes):
        return found
    low, high = found.scale, max(found.bound, found.scale)
    top = high  # above, nothing was found
    for left in range(MOST_RATES, 0, -1):
        if top - low <= CLOSE_RATE * top or work_s() > deadline:
            break
        middle = sqrt(low * top)
        asked = problem.demanding(middle * problem.mean_req_per_s, "min-cost")
        try:
            faster = network_search(asked, (deadline - work_s()) / left, ANY_PLAN)
        except UndecidedError:
            top = middle
            continue
        if faster is None:
            top = high = middle
        else:
            low = middle
            found = replace(found, operations=faster.operations, ports=faster.ports, scale=low, objective=low)
    return replace(found, bound=high)


def _cheapest_as_fast(problem: Problem, found: Solution, deadline: float, gap: float) -> Solution:
    """Among plans as fast as one that was found, the cheapest that is found until a deadline."""
    from planner.optimizer.network.search import network_search

    scale, left_s = found.scale * (1 - RATE_TOLERANCE), deadline - work_s()
    if not problem.is_priced or left_s <= 0:
        return found
    asked = problem.demanding(scale * problem.mean_req_per_s, "min-cost")
    try:
        cheaper = network_search(asked, left_s, gap)
    except UndecidedError:
        return found
    if cheaper is None or cheaper.objective >= _usd_per_hour(problem, found):
        return found
    return replace(found, operations=cheaper.operations, ports=cheaper.ports, scale=scale, objective=scale)


def _usd_per_hour(problem: Problem, solution: Solution) -> float:
    """The bill of a solution of a problem with all prices [USD/h]."""
    usd: float | None = Evaluation(problem, solution).fleet()["cost"].usd_per_hour
    return inf if usd is None else usd


def _is_reached(problem: Problem, demand: Demand) -> bool:
    """Whether requests of a demand have pools to go to."""
    return any(map(problem.has_pools, demand.streams)) or not any(demand.req_per_s)


def may_be_in_time(problem: Problem) -> bool:
    """Whether enough requests of every class could have their first token as promised, each alone where it is faster.

    Args:
        problem: the question.

    Valid:
        A necessary condition: waits, and the transfer of what is prefilled elsewhere, come on top.
    """
    for c, spec in enumerate(problem.classes):
        if spec.ttft_s is None:
            continue
        arcs = [problem.arcs[q] for q, stream in enumerate(problem.streams) if stream.request_class == c]
        pools = [problem.pools[i] for i in {arc.pool for parts in arcs for part in parts.values() for arc in part}]
        total, cached, weights = spec.mix.atoms(N_KINDS)
        times = [pool.rates.prefill.seconds(total, cached) for pool in pools if pool.rates.prefill is not None]
        if times and float(weights[np.min(times, axis=0) > spec.ttft_s].sum()) > spec.late_allowed + 1 / N_KINDS:
            return False
    return True


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
    if problem.is_min_ttft:
        return ROUNDING * LEAST_TTFT_GAP
    return 10 * CAPACITY_GAP if routed.goodput is None else ROUNDING * GOODPUT_GAP


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
            if pool is not None and rate > 0 and fraction > 0:
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


def _check_has_queueing_model(problem: Problem) -> None:
    """Raises InputError for a promise on TTFT, or the least TTFT, under a discipline whose waits are not known."""
    scenario, promised = problem.scenario, [c.name for c in problem.classes if c.ttft_s is not None]
    if problem.has_queueing_model or not (promised or problem.is_min_ttft):
        return
    key = ("objective",) if problem.is_min_ttft else ("slo",)
    asks = "asks for the least" if problem.is_min_ttft else "promises a"
    what = f"{asks} TTFT, but there is no queueing model of this dispatch and prefill_batching"
    allowed = "dispatch = shared-queue, prefill_batching = one-at-a-time; or optimize --certify, which runs the plan"
    raise InputError(scenario.problem(key, what, allowed))
