"""Shadow prices of the least TTFT of a network: its search again with a raised limit, from the attained TTFT on."""

from dataclasses import replace
from math import sqrt

from planner.errors import UndecidedError
from planner.optimizer.network.search import network_search
from planner.optimizer.network.ttft_bisection import GAP, SHORTEST_TTFT_S, with_ttft_slo
from planner.optimizer.prices.raised_limits import stated_limits
from planner.optimizer.problem import Problem
from planner.optimizer.settings import SETTINGS
from planner.optimizer.solution import ANY_PLAN, Solution
from planner.results.plan_parts import Bottleneck, PlannedAgain
from planner.ties import SOLVED, largest_first
from planner.work_clock import work_s

FIRST_STEP = 2 * GAP
"""First part to take off the attained TTFT: smaller gains are within the gap of both."""


def ttft_prices(problem: Problem, found: Solution, limit_s: float) -> tuple[Bottleneck, ...]:
    """Reduction of the least TTFT by one more step of each limit, most first.

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
    for more in stated_limits(problem, found):
        again = _lowered_ttft_s(more.step, found, deadline)
        if again is not None:
            least_s, most_s = max(found.bound - again[0], 0.0), found.objective - again[1]
            prices.append(
                Bottleneck(
                    constraint=more.constraint,
                    shadow_price=(found.objective - again[0]) / more.step_amount,
                    unit=more.unit,
                    planned_again=PlannedAgain(n_more=more.step_amount, least=least_s, most=most_s),
                )
            )
    return tuple(largest_first(prices, lambda b: b.planned_again.most if b.planned_again else 0.0, SOLVED))


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
    """True if a plan under an SLO was found in a part of the time that is left."""
    left_s = deadline - work_s()
    if left_s <= 0:
        return False
    try:
        return (
            network_search(with_ttft_slo(problem, ttft_s), SETTINGS.ttft_step_time_share * left_s, ANY_PLAN) is not None
        )
    except UndecidedError:
        return False
