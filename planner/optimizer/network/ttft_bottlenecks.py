"""What one more of a limit takes off the least TTFT of a network: its search again, from the attained TTFT on."""

from collections.abc import Iterator
from dataclasses import replace
from math import sqrt
from typing import NamedTuple

from planner.errors import UndecidedError
from planner.optimizer.network.fixed_plan import with_pool
from planner.optimizer.network.raised_limits import (
    cheapest_instance_usd_per_hour,
    more_budget,
    more_inventory,
    one_more_port,
)
from planner.optimizer.network.search import network_search
from planner.optimizer.network.ttft_bisection import GAP, SHORTEST_TTFT_S, with_ttft_slo
from planner.optimizer.problem import Problem
from planner.optimizer.settings import SETTINGS
from planner.optimizer.solution import ANY_PLAN, Solution
from planner.results import Bottleneck, PlannedAgain
from planner.ties import SOLVED, largest_first
from planner.work_clock import work_s

FIRST_STEP = 2 * GAP
"""First part to take off the attained TTFT: smaller gains are within the gap of both."""


class _Step(NamedTuple):
    """A limit raised by one step."""

    constraint: str
    unit: str
    n_more: float
    problem: Problem


def ttft_bottlenecks(problem: Problem, found: Solution, limit_s: float) -> tuple[Bottleneck, ...]:
    """What one more step of every limit takes off the least TTFT, most first.

    Equation:
        (x(limits) - x(limits + d)) / d, x the least TTFT that is attained: d an instance, a port, or the price of an
        instance

    Args:
        problem: the resolved scenario with the objective min-ttft.
        found: its plan.
        limit_s: time for all limits together [s]; limits that do not fit in are left out.

    Returns:
        Seconds at the percentile asked for, per unit of the limit, for gains beyond the gap. `planned_again` says how
        much the whole step takes off: at least from the bound, below which nothing was attained without it, to the TTFT
        that is attained with it; at most to the next TTFT, for which no plan was found.

    Source:
        Sensitivity by solving again (Bertsimas and Tsitsiklis 1997, chapter 5).
    """
    deadline, prices = work_s() + limit_s, []
    if found.gap > FIRST_STEP and (own := _lowered_ttft_s(problem, found, deadline)) is not None:
        found = replace(found, objective=own[0], bound=own[1])  # what a second search finds is no gain of a limit
    for step in _steps(problem, found):
        again = _lowered_ttft_s(step.problem, found, deadline)
        if again is not None:
            least_s, most_s = max(found.bound - again[0], 0.0), found.objective - again[1]
            prices.append(
                Bottleneck(
                    constraint=step.constraint,
                    shadow_price=(found.objective - again[0]) / step.n_more,
                    unit=step.unit,
                    planned_again=PlannedAgain(n_more=step.n_more, least=least_s, most=most_s),
                )
            )
    return tuple(largest_first(prices, lambda b: b.planned_again.most if b.planned_again else 0.0, SOLVED))


def _steps(problem: Problem, found: Solution) -> Iterator[_Step]:
    """Every limit raised by one step: stated sizes, inventories, ports and the budget."""
    for i, pool in enumerate(problem.pools):
        stated = problem.scenario.pools[pool.key]
        if (
            pool.key == pool.name
            and pool.max_instances > 0
            and (stated.n_instances, stated.max_instances) != ("free", None)
        ):
            yield _Step(f"pools.{pool.name}.n_instances", "s per instance", 1.0, _one_more(problem, i))
    for v, inventory in enumerate(problem.inventories):
        if inventory.pools:
            n = min(problem.pools[i].n_accelerators for i in inventory.pools)
            name = f"sites.{inventory.site}.accelerators.{inventory.hardware}"
            yield _Step(name, "s per accelerator", n, more_inventory(problem, found, v, n))
    for j, link in enumerate(problem.links):
        least = min(range(len(link.tiers)), key=lambda k: link.tiers[k].capacity_gbps)
        gbps = link.tiers[least].capacity_gbps
        yield _Step(f"links.{link.name}.capacity_gbps", "s per Gbps", gbps, one_more_port(problem, j, least))
    budget, usd = problem.scenario.budget_usd_per_hour, cheapest_instance_usd_per_hour(problem, found)
    if budget is not None and usd:
        yield _Step("budget_usd_per_hour", "s per USD/h", usd, more_budget(problem, found, budget + usd))


def _one_more(problem: Problem, index: int) -> Problem:
    """The problem with one more instance of a pool whose size, or largest size, the scenario states."""
    pool = problem.pools[index]
    is_fixed = problem.scenario.pools[pool.key].n_instances != "free"
    least = pool.min_instances + is_fixed
    return with_pool(problem, index, replace(pool, min_instances=least, max_instances=pool.max_instances + 1))


def _lowered_ttft_s(problem: Problem, found: Solution, deadline: float) -> tuple[float, float] | None:
    """The least TTFT found attained, and the greatest below it found missed [s]; None where little is gained.

    Shorter TTFTs are tried in steps that double, then by bisection between the last one attained and the first one
    missed.
    """
    attained_s, step = found.objective, FIRST_STEP
    while _attains(problem, attained_s / (1 + step), deadline):
        attained_s, step = attained_s / (1 + step), 2 * step
        if attained_s <= SHORTEST_TTFT_S:
            return attained_s, 0.0
    if attained_s == found.objective:
        return None
    missed_s = attained_s / (1 + step)
    while attained_s > missed_s * (1 + GAP) and work_s() < deadline:
        middle_s = sqrt(attained_s * missed_s)
        if _attains(problem, middle_s, deadline):
            attained_s = middle_s
        else:
            missed_s = middle_s
    return attained_s, missed_s


def _attains(problem: Problem, ttft_s: float, deadline: float) -> bool:
    """Whether a plan under an SLO was found in a part of the time that is left."""
    left_s = deadline - work_s()
    if left_s <= 0:
        return False
    try:
        return (
            network_search(with_ttft_slo(problem, ttft_s), SETTINGS.ttft_step_time_share * left_s, ANY_PLAN) is not None
        )
    except UndecidedError:
        return False
