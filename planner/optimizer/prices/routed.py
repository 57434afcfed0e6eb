"""Shadow prices of one route, by closed forms: the rate of raised sizes, or under a promise the goodput or the TTFT."""

from collections.abc import Iterator
from dataclasses import replace

from planner.optimizer.goodput import best_goodput
from planner.optimizer.least_ttft import least_ttft
from planner.optimizer.prices.raised_limits import fleet_limits, longer_slos
from planner.optimizer.problem import Problem
from planner.optimizer.single_route import SLO_GAP, RoutedSolution, most_of_sizes
from planner.optimizer.sized import Sizing, full_sizing, within
from planner.results.plan_parts import Bottleneck
from planner.ties import SOLVED, largest_first
from planner.work_clock import work_s

NO_GAIN = 1e-6
SLO_LIMIT_S = 600.0
"""Far beyond what shadow prices of a promise take: answers must not depend on how busy the machine is."""


def routed_prices(problem: Problem, solution: RoutedSolution) -> tuple[Bottleneck, ...]:
    """Pools, links and the promise itself, of which one more unit would raise the rate or bring the first token sooner,
    most valuable first.

    Equation:
        shadow price = R(n_i + 1) - R(n_i), R the highest rate, or under a promise the goodput, both with the thresholds
        that serve most, other integers fixed; for links per Gbps. Of the least TTFT what it falls by

    Args:
        problem: the resolved scenario.
        solution: sizes and thresholds.

    Returns:
        Constraints with a price above zero, in req/s or s per instance, per Gbps, or per ms of the promise.

    Source:
        Right-hand-side ranging by re-solving; a derivative would be zero or undefined at a kink.
    """
    return tuple(largest_first([*_prices(problem, solution)], lambda b: b.shadow_price, SOLVED))


def _prices(problem: Problem, solution: RoutedSolution) -> Iterator[Bottleneck]:
    """The price of every limit that is worth more than what is sought is known to."""
    deadline, fleet = work_s() + SLO_LIMIT_S, _fleet(problem, solution.sizing)
    raised = [*fleet_limits(fleet, range(len(problem.pools)))]
    if not problem.is_min_ttft and solution.goodput is not None:
        raised += longer_slos(fleet, "req/s")
    is_searched = problem.is_min_ttft or solution.goodput is not None
    base = solution.objective if problem.is_min_ttft else solution.goodput
    base = most_of_sizes(problem, solution.sizing, solution) if base is None else base
    for more in raised:
        least = base * (2 * SLO_GAP if is_searched and more.marginal_amount == 1 else NO_GAIN)
        question = _question(problem, fleet, more.marginal)
        gained = _gained(question, full_sizing(more.marginal), solution, base, least, deadline)
        if gained > least:
            price = gained / more.marginal_amount
            yield Bottleneck(constraint=more.constraint, shadow_price=price, unit=more.unit)


def _fleet(problem: Problem, sizing: Sizing) -> Problem:
    """The question with the sizes and ports of a plan as its limits."""
    pools = tuple(within(pool, n, n) for pool, n in zip(problem.pools, sizing.n_instances, strict=True))
    links = []
    for link, ports in zip(problem.links, sizing.n_ports, strict=True):
        tiers = zip(link.tiers, ports, strict=True)
        links.append(replace(link, tiers=tuple(tier.model_copy(update={"max_ports": m}) for tier, m in tiers)))
    return replace(problem, pools=pools, links=tuple(links))


def _question(problem: Problem, fleet: Problem, raised: Problem) -> Problem:
    """The question with a raised limit of its fleet beside the sizes.

    Where sizes alone are raised that is the question itself, with all that is known of its queues.
    """
    is_larger = raised.pools is not fleet.pools
    return problem if is_larger else replace(problem, links=raised.links, classes=raised.classes)


def _gained(
    question: Problem, sizing: Sizing, solution: RoutedSolution, base: float, least: float, deadline: float
) -> float:
    """Gain of a raised limit over the base, in rate or in TTFT; of a goodput, if more than the least."""
    if question.is_min_ttft:
        return base - least_ttft(question, sizing, solution.req_per_s, deadline).ttft_s
    if solution.goodput is None:
        return most_of_sizes(question, sizing, solution) - base
    return best_goodput(question, sizing, deadline, base + least, solution.threshold_tokens).rate - base
