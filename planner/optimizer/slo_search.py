"""The search under an SLO on TTFT, or for the least TTFT: sizes in the order of capacity, each with a bound.

Capacity bounds goodput, and more instances or ports never lower it unless they crowd a link, where smaller sizes are
looked at as well. So a program proposes the best sizes by capacity, their goodput is found, and they and all smaller
ones are fathomed; until what capacity allows the rest is no better.
"""

from dataclasses import replace
from math import inf

from planner.errors import UndecidedError
from planner.optimizer.capacity import exact_loads
from planner.optimizer.goodput import best_goodput_up_to
from planner.optimizer.least_ttft import LeastTtftFleet, filled_with_budget, floor_s, least_ttft_up_to, trimmed
from planner.optimizer.network.proposals import Proposals
from planner.optimizer.problem import Problem
from planner.optimizer.routed_capacity import highest_req_per_s
from planner.optimizer.settings import ROUTE_SETTINGS
from planner.optimizer.single_route import SLO_GAP, RoutedSolution
from planner.optimizer.sized import Sizing
from planner.optimizer.slo_attainment import FleetUnderSlo, least_slo_ttft_s
from planner.optimizer.slo_cheapest import cheapest
from planner.optimizer.slo_plans import solution, with_exact_goodput
from planner.optimizer.time_limit import nothing_found
from planner.work_clock import work_s

LEAST_TIME_S = 0.1
NOTHING = 1e-9
"""Part of a rate that is rounding."""


def search(
    problem: Problem, time_limit_s: float = 60.0, most_sizings: int = ROUTE_SETTINGS.most_sizings
) -> RoutedSolution | None:
    """The best plan within the scenario's SLO on TTFT, or of the least TTFT, and its bound; None when no plan exists.

    Args:
        time_limit_s: seconds after which the best plan so far is returned with its gap.
        most_sizings: sizes that are looked at for the least cost under a promise.

    Raises:
        UndecidedError: when time is up, or so many sizes are looked at, without a plan.
    """
    deadline = work_s() + time_limit_s
    if _breaks_idle(problem):
        return None
    if problem.is_min_ttft:
        return _least_ttft(problem, deadline)
    found = cheapest(problem, deadline, most_sizings) if problem.is_min_cost else _fastest(problem, deadline)
    return found and with_exact_goodput(problem, found)


def _breaks_idle(problem: Problem) -> bool:
    """True if even an idle fleet breaks the promise; a TTFT without waiting does not depend on instances."""
    slo = problem.slo
    ports = tuple(tuple(tier.max_ports for tier in link.tiers) for link in problem.links)
    widest = Sizing((1,) * len(problem.pools), ports)
    return slo is not None and slo.ttft_s is not None and least_slo_ttft_s(problem, widest) > slo.ttft_s


def _fastest(problem: Problem, deadline: float) -> RoutedSolution | None:
    """The sizes with the highest goodput."""
    best: RoutedSolution | None = None
    proposals, proven = Proposals.of(problem), 0.0
    for n_fathomed in range(1, ROUTE_SETTINGS.most_sizings + 1):
        least = best.objective if best else 0.0
        try:
            answer = proposals.best(max(deadline - work_s(), LEAST_TIME_S))
        except UndecidedError:
            if best is None:
                raise
            answer = None
        if answer is None or answer.bound <= least * (1 + SLO_GAP):
            return best and _proven(best, max(proven, least))
        sizing = _filled(problem, answer.sizing)
        at, found = best_goodput_up_to(problem, sizing, deadline, least)
        proven = max(proven, found.bound)
        if found.rate > least:
            best = solution(problem, at, found, found.rate)
        proposals.settle(sizing)
        if work_s() > deadline or n_fathomed == ROUTE_SETTINGS.most_sizings:
            return best and _proven(best, max(proven, answer.bound))
    return best


def _least_ttft(problem: Problem, deadline: float) -> RoutedSolution | None:
    """The sizes with the least TTFT at the demand: in the order of capacity, each with its proven least TTFT."""
    demand, slo = problem.demand_req_per_s or 0.0, problem.slo
    best: tuple[Sizing, LeastTtftFleet] | None = None
    proposals, n_fathomed = Proposals.of(problem), 0
    bound = most = inf if slo is None or slo.ttft_s is None else slo.ttft_s * (1 + SLO_GAP / 10)
    while (answer := _serving(proposals, demand, n_fathomed, deadline)) is not None:
        if answer == UNDECIDED:
            if best is None:
                sizes = f"{ROUTE_SETTINGS.most_sizings} sizes in the order of capacity"
                raise nothing_found(is_time_up=work_s() >= deadline, looked_at=sizes)
            bound = floor_s(problem, demand, work_s() + ROUTE_SETTINGS.floor_limit_s)
            break
        sizing = filled_with_budget(problem, _filled(problem, answer))
        at, found = least_ttft_up_to(problem, sizing, demand, deadline, most)
        bound = min(bound, found.bound_s)
        if found.ttft_s < most:
            best, most = (at, found), found.ttft_s
        proposals.settle(sizing)
        n_fathomed += 1
    return None if best is None else _least_ttft_solution(problem, *best, min(bound, most))


UNDECIDED = Sizing((), ())
"""Said in place of sizes where time or patience is up."""


def _serving(proposals: Proposals, demand: float, n_fathomed: int, deadline: float) -> Sizing | None:
    """The best sizes by capacity that serve the demand and are not settled; None when there are none."""
    if work_s() > deadline or n_fathomed == ROUTE_SETTINGS.most_sizings:
        return UNDECIDED
    try:
        answer = proposals.best(deadline - work_s())
    except UndecidedError:
        return UNDECIDED
    return None if answer is None or answer.bound < demand * (1 - NOTHING) else answer.sizing


def _least_ttft_solution(problem: Problem, sizing: Sizing, found: LeastTtftFleet, bound_s: float) -> RoutedSolution:
    demand, t = problem.demand_req_per_s or 0.0, found.threshold_tokens
    sizing = trimmed(problem, sizing, found, demand)
    ttft_s = FleetUnderSlo(problem, sizing).percentile_s(t, t, demand)
    highest = highest_req_per_s(problem, sizing, exact_loads(problem, t))
    return RoutedSolution(sizing, t, highest, demand, ttft_s, min(bound_s, ttft_s))


def _filled(problem: Problem, sizing: Sizing) -> Sizing:
    """The sizes with whatever the limits leave room for: it never lowers goodput, and settles more at once."""
    if problem.scenario.budget_usd_per_hour is not None or problem.ratio is not None:
        return sizing
    n = list(sizing.n_instances)
    for i, pool in enumerate(problem.pools):
        room = [pool.max_instances - n[i]]
        for inventory in problem.inventories:
            if i in inventory.pools:
                used = sum(n[j] * problem.pools[j].n_accelerators for j in inventory.pools)
                room.append((inventory.n_accelerators - used) // pool.n_accelerators)
        n[i] += max(min(room, default=0), 0)
    ports = tuple(tuple(tier.max_ports for tier in link.tiers) for link in problem.links)
    return Sizing(tuple(n), ports)


def _proven(best: RoutedSolution, bound: float) -> RoutedSolution:
    return replace(best, bound=max(bound, best.objective))
