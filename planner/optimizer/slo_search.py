"""The search under an SLO on TTFT, or for the least TTFT: sizes in the order of capacity, each with a bound.

Capacity bounds goodput, and more instances or ports never lower it unless they crowd a link, where smaller sizes are
looked at as well. So a program proposes the best sizes by capacity, their goodput is found, and they and all smaller
ones are fathomed; until what capacity allows the rest is no better.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import inf
from time import monotonic

from planner.errors import UndecidedError
from planner.optimizer.capacity import exact_loads, first_intervals, interval_loads
from planner.optimizer.formulation import ProgramGoal, Sizing
from planner.optimizer.goodput import GAP, MOST_BUSY, Goodput, best_goodput_up_to
from planner.optimizer.least_ttft import LeastTtftFleet, filled_with_budget, floor_s, least_ttft_up_to, trimmed
from planner.optimizer.problem import Problem
from planner.optimizer.routed_capacity import Operating, highest_rate, rent_usd_per_hour, spend_of
from planner.optimizer.search import RoutedSolution, capacity_search
from planner.optimizer.settings import ROUTE_SETTINGS
from planner.optimizer.slo_attainment import FleetUnderSlo, least_decode_instances, least_slo_ttft_s
from planner.optimizer.solver import RoutedOptimum, solve


def search(problem: Problem, time_limit_s: float = 60.0) -> RoutedSolution | None:
    """The best plan within the scenario's SLO, if it states one, and its bound; None when no plan exists.

    Args:
        problem: the resolved scenario.
        time_limit_s: seconds after which the best plan so far is returned with its gap.

    Raises:
        UndecidedError: when time is up without a plan.
    """
    slo = problem.slo
    if not problem.is_min_ttft and (slo is None or slo.ttft_s is None):
        return capacity_search(problem, time_limit_s)
    deadline = monotonic() + time_limit_s
    if _breaks_idle(problem):
        return None
    if problem.is_min_ttft:
        return _least_ttft(problem, deadline)
    return _cheapest(problem, deadline) if problem.is_min_cost else _fastest(problem, deadline)


def _breaks_idle(problem: Problem) -> bool:
    """Whether even an idle fleet breaks the promise; a TTFT without waiting does not depend on instances."""
    slo = problem.slo
    ports = tuple(tuple(tier.max_ports for tier in link.tiers) for link in problem.links)
    widest = Sizing((1,) * len(problem.pools), ports)
    return slo is not None and slo.ttft_s is not None and least_slo_ttft_s(problem, widest) > slo.ttft_s


def _fastest(problem: Problem, deadline: float) -> RoutedSolution | None:
    """The sizes with the highest goodput."""
    best: RoutedSolution | None = None
    fathomed: list[Sizing] = []
    proven = 0.0
    for _ in range(ROUTE_SETTINGS.most_sizings):
        answer = _proposed(problem, ProgramGoal("rate", excluded=tuple(fathomed)), deadline, best)
        least = best.objective if best else 0.0
        if answer is None or answer.bound <= least * (1 + GAP):
            return best and _proven(best, max(proven, least))
        sizing = _filled(problem, answer.sizing)
        at, found = best_goodput_up_to(problem, sizing, deadline, least)
        proven = max(proven, found.bound)
        if found.rate > least:
            best = _solution(problem, at, found, found.rate)
        fathomed.append(sizing)
        if monotonic() > deadline or len(fathomed) == ROUTE_SETTINGS.most_sizings:
            return best and _proven(best, max(proven, answer.bound))
    return best


def _cheapest(problem: Problem, deadline: float) -> RoutedSolution | None:
    """The cheapest sizes whose goodput reaches the demand, tried in the order of what they cost at the least.

    Rent is that cost; where use is charged too, the thresholds that the promise leaves may cost more, and the search
    goes on until no other sizes can cost less.
    """
    demand = problem.demand_req_per_s or 0.0
    fathomed = [*_too_few_decode(problem, demand)]
    best: RoutedSolution | None = None
    bound = inf
    for _ in range(ROUTE_SETTINGS.most_sizings):
        if best is None and fathomed and monotonic() > deadline:
            raise UndecidedError("no fleet that keeps the promise was found in the time, and none is excluded")
        goal = ProgramGoal("spend", least_rate=demand, most_rate=demand, excluded=tuple(fathomed))
        answer = _proposed(problem, goal, deadline, best)
        if answer is None or (best and answer.bound >= best.objective / (1 + GAP)):
            return best and replace(best, bound=min(bound, best.objective))
        if best is None:
            at, found = best_goodput_up_to(problem, answer.sizing, deadline, demand / (1 + 2 * GAP))
            if found.rate >= demand:
                best = _solution(problem, at, found, demand)
            if found.bound >= demand:  # at the least within the tolerance of the proof: such sizes might do after all
                bound = min(bound, answer.bound)
        if best and problem.charges_use:
            best = _of_less_use(problem, answer.sizing, best)
        if best and (not problem.charges_use or monotonic() > deadline):
            return replace(best, bound=min(bound, best.objective))
        done = answer.sizing if best else _also_too_few(problem, answer.sizing, demand, deadline)
        fathomed.append(done)
    if best:
        return replace(best, bound=min(bound, best.objective))
    raise UndecidedError(
        f"{ROUTE_SETTINGS.most_sizings} sizes in the order of cost break the promise; "
        "allow a longer TTFT or state a lower demand"
    )


def _also_too_few(problem: Problem, sizing: Sizing, demand: float, deadline: float) -> Sizing:
    """Sizes that do not reach the demand, with all the decode that there can be if that does not help."""
    decode = problem.routes[0].decode
    n = tuple(
        (most or 0) if i == decode else n
        for i, (n, most) in enumerate(zip(sizing.n_instances, problem.size_limits, strict=True))
    )
    larger = replace(sizing, n_instances=n)
    return larger if best_goodput_up_to(problem, larger, deadline, demand / (1 + 2 * GAP))[1].bound < demand else sizing


def _too_few_decode(problem: Problem, demand: float) -> Iterator[Sizing]:
    """The largest sizes that are settled because their decode pool alone breaks the promise."""
    limits = [0 if most is None else most for most in problem.size_limits]
    decode = problem.routes[0].decode
    least = least_decode_instances(problem, demand, limits[decode])
    if least > 1:
        n = (least - 1 if i == decode else most for i, most in enumerate(limits))
        yield Sizing(tuple(n), tuple(tuple(tier.max_ports for tier in link.tiers) for link in problem.links))


def _of_less_use(problem: Problem, sizing: Sizing, best: RoutedSolution) -> RoutedSolution:
    """The cheapest plan of some sizes, over a grid of thresholds that keep the promise; or the best so far."""
    fleet, rate = FleetUnderSlo(problem, sizing), best.operating.rate
    plans = [
        _solution(problem, sizing, Goodput(rate, float(t), rate), rate)
        for t in first_intervals(problem, problem.routes[0])[1]
    ]
    for plan in sorted((p for p in plans if p.objective < best.objective), key=lambda p: p.objective):
        t, most = plan.thresholds_tokens[0], plan.highest.rate * MOST_BUSY
        if most >= rate and fleet.late_fraction(t, t, rate) <= fleet.late_allowed:
            return replace(plan, goodput=max(fleet.goodput_within(t, t, most, rate), rate))
    return best


def _least_ttft(problem: Problem, deadline: float) -> RoutedSolution | None:
    """The sizes with the least TTFT at the demand: in the order of capacity, each with its proven least TTFT."""
    demand, slo = problem.demand_req_per_s or 0.0, problem.slo
    best: tuple[Sizing, LeastTtftFleet] | None = None
    fathomed: list[Sizing] = []
    bound = most = inf if slo is None or slo.ttft_s is None else slo.ttft_s * (1 + GAP / 10)
    while (answer := _serving(problem, demand, fathomed, deadline)) is not None:
        if answer == UNDECIDED:
            if best is None:
                raise UndecidedError("no fleet that serves the demand was found in the time, and none is excluded")
            bound = floor_s(problem, demand, monotonic() + ROUTE_SETTINGS.floor_limit_s)
            break
        sizing = filled_with_budget(problem, _filled(problem, answer))
        at, found = least_ttft_up_to(problem, sizing, demand, deadline, most)
        bound = min(bound, found.bound_s)
        if found.ttft_s < most:
            best, most = (at, found), found.ttft_s
        fathomed.append(sizing)
    return None if best is None else _least_ttft_solution(problem, *best, min(bound, most))


UNDECIDED = Sizing((), ())
"""Said in place of sizes where time or patience is up."""


def _serving(problem: Problem, demand: float, fathomed: list[Sizing], deadline: float) -> Sizing | None:
    """The best sizes by capacity that serve the demand and are not settled; None when there are none."""
    if monotonic() > deadline or len(fathomed) == ROUTE_SETTINGS.most_sizings:
        return UNDECIDED
    loads = [interval_loads(problem, route, *first_intervals(problem, route)) for route in problem.routes]
    try:
        answer = solve(
            problem, loads, ProgramGoal("rate", least_rate=demand, excluded=tuple(fathomed)), deadline - monotonic()
        )
    except UndecidedError:
        return UNDECIDED
    return None if answer is None else answer.sizing


def _least_ttft_solution(problem: Problem, sizing: Sizing, found: LeastTtftFleet, bound_s: float) -> RoutedSolution:
    demand, thresholds = problem.demand_req_per_s or 0.0, (found.threshold_tokens,)
    sizing = trimmed(problem, sizing, found, demand)
    ttft_s = FleetUnderSlo(problem, sizing).percentile_s(*thresholds, *thresholds, demand)
    loads = tuple(exact_loads(problem, thresholds))
    highest = highest_rate(problem, sizing, loads)
    return RoutedSolution(
        sizing, thresholds, loads, highest, Operating(demand, (demand,)), ttft_s, min(bound_s, ttft_s)
    )


def _proposed(
    problem: Problem, goal: ProgramGoal, deadline: float, best: RoutedSolution | None
) -> RoutedOptimum | None:
    """The best sizes by capacity that are not settled; None when all are, or time is up with a plan at hand."""
    loads = [interval_loads(problem, route, *first_intervals(problem, route)) for route in problem.routes]
    try:
        return solve(problem, loads, goal, max(deadline - monotonic(), 0.1))
    except UndecidedError:
        if best is None:
            raise
        return None


def _filled(problem: Problem, sizing: Sizing) -> Sizing:
    """The sizes with whatever the limits leave room for: it never lowers goodput, and settles more at once."""
    if problem.scenario.budget_usd_per_hour is not None or problem.ratio is not None:
        return sizing
    n = list(sizing.n_instances)
    for i, pool in enumerate(problem.pools):
        room = [most - n[i] for most in (problem.size_limits[i], pool.stated_max_instances) if most is not None]
        for inventory in problem.inventories:
            if i in inventory.pools:
                used = sum(n[j] * problem.pools[j].n_accelerators for j in inventory.pools)
                room.append((inventory.n_accelerators - used) // pool.n_accelerators)
        n[i] += max(min(room, default=0), 0)
    ports = tuple(tuple(tier.max_ports for tier in link.tiers) for link in problem.links)
    return Sizing(tuple(n), ports)


def _solution(problem: Problem, sizing: Sizing, found: Goodput, rate: float) -> RoutedSolution:
    if not problem.is_min_cost:
        sizing = _with_cheapest_ports(problem, sizing, found)
    loads = tuple(exact_loads(problem, (found.threshold_tokens,)))
    highest = highest_rate(problem, sizing, loads)
    operating = Operating(rate, (rate,))
    objective = spend_of(problem, sizing, loads, operating) if problem.is_min_cost else rate
    thresholds = (found.threshold_tokens,)
    return RoutedSolution(sizing, thresholds, loads, highest, operating, objective, objective, goodput=found.rate)


def _with_cheapest_ports(problem: Problem, sizing: Sizing, found: Goodput) -> Sizing:
    """The least rent, or bandwidth, of ports that keeps the goodput at its threshold."""
    if problem.scenario.budget_usd_per_hour is not None:
        return sizing
    choices = [product(*(range(m + 1) for m in ports)) for ports in sizing.n_ports]
    options = [replace(sizing, n_ports=ports) for ports in product(*choices)]
    loads = exact_loads(problem, (found.threshold_tokens,))
    for option in sorted(options, key=lambda option: _port_spend(problem, option)):
        if highest_rate(problem, option, loads).rate * MOST_BUSY >= found.rate * (1 - 1e-9):
            fleet, t = FleetUnderSlo(problem, option), found.threshold_tokens
            if fleet.late_fraction(t, t, found.rate) <= fleet.late_allowed:
                return option
    return sizing


def _port_spend(problem: Problem, sizing: Sizing) -> tuple[float, float]:
    rent = sum(usd or 0.0 for _, usd in rent_usd_per_hour(problem, sizing))
    return rent, sum(link.gbps(ports) for link, ports in zip(problem.links, sizing.n_ports, strict=True))


def _proven(best: RoutedSolution, bound: float) -> RoutedSolution:
    return replace(best, bound=max(bound, best.objective))
