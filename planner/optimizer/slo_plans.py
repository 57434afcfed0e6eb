"""Common parts of searches under an SLO on TTFT: sizes by capacity, and plans of sizes with a known goodput."""

from dataclasses import replace
from itertools import product

import numpy as np

from planner.optimizer.capacity import exact_loads
from planner.optimizer.goodput import MOST_BUSY, Goodput, capacity_under_slo
from planner.optimizer.problem import Problem
from planner.optimizer.routed_capacity import highest_req_per_s, spend_of, unit_rents_usd_per_hour
from planner.optimizer.single_route import RoutedSolution
from planner.optimizer.sized import Sizing
from planner.optimizer.slo_attainment import FleetUnderSlo
from planner.roots import EXACT


def solution(problem: Problem, sizing: Sizing, found: Goodput, rate: float) -> RoutedSolution:
    """The plan of some sizes at the threshold of their goodput, for a rate."""
    if not problem.is_min_cost:
        sizing = _with_cheapest_ports(problem, sizing, found)
    t, loads = found.threshold_tokens, exact_loads(problem, found.threshold_tokens)
    objective = spend_of(problem, sizing, loads, rate) if problem.is_min_cost else rate
    highest = highest_req_per_s(problem, sizing, loads)
    return RoutedSolution(sizing, t, highest, rate, objective, objective, goodput=found.rate)


def with_exact_goodput(problem: Problem, plan: RoutedSolution) -> RoutedSolution:
    """A plan with the goodput of its sizes at its threshold to the last digit that is printed, as any search has it."""
    t, known = plan.threshold_tokens, plan.goodput or 0.0
    most = capacity_under_slo(problem, plan.sizing, np.array([t]), np.array([t]))[0]
    rate = FleetUnderSlo(problem, plan.sizing).goodput_at(t, most, known, EXACT)
    if rate <= known:
        return plan
    same = solution(problem, plan.sizing, Goodput(rate, t, rate), plan.req_per_s if problem.is_min_cost else rate)
    return replace(same, bound=plan.bound if problem.is_min_cost else max(plan.bound, rate))


def _with_cheapest_ports(problem: Problem, sizing: Sizing, found: Goodput) -> Sizing:
    """The least rent, or bandwidth, of ports that keeps the goodput at its threshold."""
    if problem.scenario.budget_usd_per_hour is not None:
        return sizing
    choices = [product(*(range(m + 1) for m in ports)) for ports in sizing.n_ports]
    options = [replace(sizing, n_ports=ports) for ports in product(*choices)]
    loads = exact_loads(problem, found.threshold_tokens)
    for option in sorted(options, key=lambda option: _port_spend(problem, option)):
        if highest_req_per_s(problem, option, loads) * MOST_BUSY >= found.rate * (1 - 1e-9):
            fleet, t = FleetUnderSlo(problem, option), found.threshold_tokens
            if fleet.late_fraction(t, t, found.rate) <= fleet.late_allowed:
                return option
    return sizing


def _port_spend(problem: Problem, sizing: Sizing) -> tuple[float, float]:
    rent = sum(usd or 0.0 for _, usd in unit_rents_usd_per_hour(problem, sizing))
    return rent, sum(link.gbps(ports) for link, ports in zip(problem.links, sizing.n_ports, strict=True))
