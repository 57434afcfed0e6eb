"""Search strategies: one route under a promise by sizes in order, all else as a network; one type of answer."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from math import sqrt

import numpy as np

from planner.errors import InputError, UndecidedError
from planner.optimizer.layout_candidates import N_KINDS
from planner.optimizer.network.columns import most_scale
from planner.optimizer.network.cost import plan_cost
from planner.optimizer.network.period_operation import PeriodOperation, classes_missing_slo
from planner.optimizer.network.search import network_search
from planner.optimizer.problem import Demand, Problem
from planner.optimizer.resolution import widened
from planner.optimizer.settings import ROUTE_SETTINGS
from planner.optimizer.single_route import (
    CAPACITY_GAP,
    CAPACITY_TARGET,
    at_best_threshold,
    solution_of_routes,
)
from planner.optimizer.sized import Sizing, sized_problem, within
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
ONE_KIND_PART = 0.2
"""Of the time, what the plan with colocated pools alone may take, and that without any, where both are offered."""
LEAST_TIME_S = 0.1
WIDER = 16
"""How many times more instances are tried where a limit that the demand sets may bind."""
RATE_TOLERANCE, CLOSE_TOLERANCE = 1e-6, 1e-7
"""A rate this close to the best counts as equal when cost decides; the second where capacity alone settles it."""
NOTHING = 1e-9
"""A scale of the demand at which nothing is served."""
ROUNDING = 1.01
"""Of a gap that counts as none."""


def best_solution(
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
    deadline = work_s() + time_limit_s
    with wall_limit(time_limit_s):
        peak = _busiest_period(problem)
        with suppress(UndecidedError):
            found = None if peak is None else best_solution(peak, time_limit_s, gap, laxer, most_sizings)
            whole = None if peak is None or found is None else _in_every_period(problem, peak, found)
            if peak is not None and (found is None or whole is not None):
                return whole
        wider = _wider(problem)
        if wider is not None and problem.has_one_route:  # to which wide limits make no difference
            return _searched(wider, time_limit_s, gap, laxer, most_sizings)
        found = _searched(problem, max(deadline - work_s(), LEAST_TIME_S), gap, laxer, most_sizings)
        if wider is not None and _is_bound(problem, wider, found):
            found = _searched(wider, max(deadline - work_s(), LEAST_TIME_S), gap, laxer, most_sizings)
    return found


def _busiest_period(problem: Problem) -> Problem | None:
    """The problem of the busiest period, where what serves that serves all: of one stream whose use costs nothing.

    None where there is one period, or another may ask for something else.
    """
    is_same = len(problem.streams) == len(problem.demands) == 1 and not problem.has_sizes_by_period
    if len(problem.periods) == 1 or not is_same or problem.charges_use or problem.scenario.spare.survive:
        return None
    (demand,) = problem.demands
    p = demand.req_per_s.index(max(demand.req_per_s))
    only = demand._replace(req_per_s=(demand.req_per_s[p],))
    return replace(problem, periods=(problem.periods[p],), demands=(only,))


def _in_every_period(problem: Problem, peak: Problem, found: Solution) -> Solution | None:
    """A plan of the busiest period in all of them, at the same threshold; None where another breaks its promise."""
    (one,), (most,) = found.operations, peak.demands[0].req_per_s
    rates = problem.demands[0].req_per_s
    operations = tuple(one.scaled_to(p, [rate / most]) for p, rate in enumerate(rates))
    others = [operation for operation, rate in zip(operations, rates, strict=True) if rate < most]
    if classes_missing_slo(problem, others, found.ports):
        return None
    part = problem.mean_req_per_s / peak.mean_req_per_s
    highest, goodput = (x and x * part for x in (found.highest_req_per_s, found.goodput_req_per_s))
    return replace(found, operations=operations, highest_req_per_s=highest, goodput_req_per_s=goodput, routed=None)


def _wider(problem: Problem) -> Problem | None:
    """The problem with more instances than its demand seems to leave any use for; None where that changes nothing.

    Under a promise no number of instances is of no use for sure: bursts may ask for any.
    """
    if not problem.is_min_cost or not any(spec.ttft_s is not None for spec in problem.classes):
        return None
    return widened(problem, WIDER)


def _is_bound(problem: Problem, wider: Problem, found: Solution | None) -> bool:
    """True if a limit that the demand alone sets leaves no plan, or all of a pool that it may have."""
    guessed = [i for i, pool in enumerate(problem.pools) if wider.pools[i].max_instances > pool.max_instances]
    if found is None:
        return bool(guessed)
    return any(one.n_instances[i] >= problem.pools[i].max_instances for one in found.operations for i in guessed)


def _searched(
    problem: Problem, time_limit_s: float, gap: float, laxer: Solution | None, most_sizings: int
) -> Solution | None:
    """The same of a problem that nothing excludes at once."""
    if problem.has_one_route and not problem.is_capacity_only:
        routed = routed_search(problem, time_limit_s, most_sizings)
        return None if routed is None else solution_of_routes(problem, routed)
    if problem.is_capacity_only:
        found = _found_in_network(problem, time_limit_s, gap if gap > GAP_TARGET else CAPACITY_GAP, laxer)
        return found and _at_highest_rate(problem, replace(found, target=CAPACITY_TARGET), time_limit_s)
    return _found_in_network(problem, time_limit_s, gap, laxer)


def _at_highest_rate(problem: Problem, found: Solution, time_limit_s: float) -> Solution:
    """The same sizes with the thresholds under which they serve most, where those decide nothing else."""
    if problem.has_one_route:
        threshold = next(flow.threshold_tokens for flow in found.operations[0].flows)
        best = at_best_threshold(problem, Sizing(found.operations[0].n_instances, found.ports), threshold, found.bound)
        return best or found
    if not problem.is_min_cost or problem.charges_use:
        return found
    ports = [j for j, own in enumerate(found.ports) if any(own)]
    try:
        most = best_solution(sized_problem(problem, found.operations[0].n_instances, found.ports), time_limit_s)
    except UndecidedError:
        return found
    if most is None or most.scale < 1:
        return found
    (one,) = most.at(1 / most.scale).operations
    flows = (
        f if f.arc.link is None else f._replace(arc=f.arc._replace(link=ports[f.arc.link])) for f in one.flows
    )  # links without ports were left out
    at_demand = PeriodOperation(0, found.operations[0].n_instances, tuple(flows), one.decodings)
    return replace(found, operations=(at_demand,), highest_req_per_s=most.scale * problem.mean_req_per_s)


def _found_in_network(problem: Problem, time_limit_s: float, gap: float, laxer: Solution | None) -> Solution | None:
    """The best plan of a network, by what is sought; of plans as good as each other the one of one kind of serving."""
    deadline = work_s() + time_limit_s
    start = _of_one_kind(problem, time_limit_s, gap) if _has_both_kinds(problem) else None
    found = _found_from(problem, max(deadline - work_s(), LEAST_TIME_S), gap, laxer, start)
    if start is None or (found is not None and not _is_as_good(problem, start, found)):
        return found
    # What is proven of one kind alone says nothing of both.
    open_bound = 0.0 if problem.is_min_cost or problem.is_min_ttft else most_scale(problem)
    return replace(start, bound=open_bound if found is None else found.bound)


def _has_both_kinds(problem: Problem) -> bool:
    """True if a plan may decode in batches with prompts, and apart from them."""
    used = [pool for pool in problem.pools if pool.decodes and not pool.is_empty]
    return problem.has_batches and any(pool.batching is None for pool in used)


def _of_one_kind(problem: Problem, time_limit_s: float, gap: float) -> Solution | None:
    """The best of the plans with colocated pools alone, and of those without any; None where none was found."""
    best: Solution | None = None
    for is_joint in (True, False):
        pools = tuple(
            within(pool, 0, 0) if pool.decodes and (pool.batching is not None) != is_joint else pool
            for pool in problem.pools
        )
        one = replace(problem, pools=pools)
        if any(pool.min_instances for pool in problem.pools) or not all(
            any(map(one.has_pools, demand.streams)) for demand in problem.demands if any(demand.req_per_s)
        ):
            continue  # some demand, or a stated size, needs both
        try:
            found = best_solution(one, ONE_KIND_PART * time_limit_s, gap)
        except UndecidedError:
            continue
        if found is not None and (best is None or not _is_as_good(problem, best, found)):
            best = found
    return best and replace(best, routed=None, highest_req_per_s=None, goodput_req_per_s=None)


def _is_as_good(problem: Problem, one: Solution, other: Solution) -> bool:
    """True if a plan is at least as good as another."""
    sign = 1 if problem.is_min_cost or problem.is_min_ttft else -1
    return sign * one.objective <= sign * other.objective


def _found_from(
    problem: Problem, time_limit_s: float, gap: float, laxer: Solution | None, start: Solution | None
) -> Solution | None:
    """The same, from a plan that is known already, if there is one."""
    if problem.is_min_ttft:
        from planner.optimizer.network.ttft_bisection import GAP as BISECTION_GAP  # loads where it is asked for
        from planner.optimizer.network.ttft_bisection import least_ttft_by_bisection

        least = least_ttft_by_bisection(problem, time_limit_s)
        return None if least is None else least.as_solution(ROUNDING * BISECTION_GAP)
    if problem.is_followed and problem.is_min_cost:
        return _following(problem, time_limit_s, gap)
    if problem.is_min_cost and laxer is not None:
        gap = max(gap, laxer.gap + AGAIN_GAP)
        return network_search(problem, time_limit_s, gap, start, bound=laxer.bound)
    deadline = work_s() + time_limit_s
    found = network_search(problem, time_limit_s if problem.is_min_cost else FASTEST_PART * time_limit_s, gap, start)
    if found is None or found.scale <= NOTHING:
        return None
    if problem.is_min_cost:
        return found
    found = _faster(problem, found, work_s() + FASTER_PART * max(deadline - work_s(), 0.0))
    return _cheapest_as_fast(problem, found, deadline, gap)


def _following(problem: Problem, time_limit_s: float, gap: float) -> Solution | None:
    """The plan of a problem with pools that are rented by the period: it begins with the one that rents at all times,
    so that it is never dearer."""
    deadline = work_s() + time_limit_s
    pools = tuple(replace(pool, by_period=None) for pool in problem.pools)
    try:
        always = best_solution(replace(problem, pools=pools), ALWAYS_PART * time_limit_s, gap)
    except UndecidedError:
        always = None
    found = network_search(problem, max(deadline - work_s(), 0.0), min(gap, FOLLOWING_GAP), always)
    return None if found is None or found.scale <= NOTHING else replace(found, always=always)


def _faster(problem: Problem, found: Solution, deadline: float) -> Solution:
    """A plan that serves more within its promises, if there is one, by bisection over the rate.

    At a given rate a plan is found more surely than the highest rate is: thresholds and allowances suit one rate.
    """
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
    tolerance = CLOSE_TOLERANCE if problem.is_capacity_only else RATE_TOLERANCE
    scale, left_s = found.scale * (1 - tolerance), deadline - work_s()
    if not (problem.is_priced or problem.is_capacity_only) or left_s <= 0:
        return found
    asked = problem.demanding(scale * problem.mean_req_per_s, "min-cost")
    usd = plan_cost(problem, found.operations, found.ports)
    known = replace(found.at(1 - tolerance), scale=1.0, objective=usd)
    try:
        cheaper = network_search(asked, left_s, gap, known)
    except UndecidedError:
        return found
    if cheaper is None or cheaper.objective >= usd:
        return found
    return replace(found, operations=cheaper.operations, ports=cheaper.ports, scale=scale, objective=scale)


def _is_reached(problem: Problem, demand: Demand) -> bool:
    """True if requests of a demand have pools to go to, or none come."""
    return any(map(problem.has_pools, demand.streams)) or not any(demand.req_per_s)


def may_be_in_time(problem: Problem) -> bool:
    """True if enough requests of every class could have their first token as promised, each alone where it is faster.

    Args:
        problem: the question.

    Valid:
        A necessary condition: waits, and the transfer of what is prefilled elsewhere, come on top.
    """
    return next(too_slow_alone(problem), None) is None


def too_slow_alone(problem: Problem) -> Iterator[tuple[float, float]]:
    """Classes that no fleet keeps in time: the fraction whose prefill alone takes longer than promised, and that [s].

    Args:
        problem: the question.
    """
    for c, spec in enumerate(problem.classes):
        if spec.ttft_s is None:
            continue
        arcs = [problem.arcs[q] for q, stream in enumerate(problem.streams) if stream.request_class == c]
        pools = [problem.pools[i] for i in {arc.pool for parts in arcs for part in parts.values() for arc in part}]
        total, cached, weights = spec.mix.atoms(N_KINDS)
        times = [pool.rates.prefill.seconds(total, cached) for pool in pools if pool.rates.prefill is not None]
        late = float(weights[np.min(times, axis=0) > spec.ttft_s].sum()) if times else 0.0
        if late > spec.late_allowed + 1 / N_KINDS:
            yield late, spec.ttft_s


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
