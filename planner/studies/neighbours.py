"""Cheaper fleets than one that keeps its promise with room, which the latency model excludes by less than its error."""

from collections.abc import Iterator
from dataclasses import replace

from planner.comparison import solved
from planner.errors import InfeasibleError, UndecidedError
from planner.optimizer.problem import Problem
from planner.studies.handed import Handed, as_asked, searched
from planner.studies.rounds import Candidate, Search, Tried, as_stated
from planner.work_clock import work_s

ERRORS = ((50.0, 0.26), (90.0, 0.32), (100.0, 0.57))
"""Up to a percentile, relative error of the predicted TTFT in 95 % of cases: the tandem of latency_models.md [-]."""
NOTHING = 1e-9
SEARCH_PART = 0.5
"""Of the time for runs, what finding cheaper fleets may take."""


def cheaper(search: Search, kept: Tried) -> list[Candidate]:
    """Plans that cost less than one that is kept, the cheapest first: an instance less, or one swapped for another.

    Thresholds, ports and shares of each are the optimizer's, under a promise that is laxer by the error of its latency
    model. Half of the time that is left for runs may go into finding them.

    Args:
        search: what is asked for.
        kept: the plan.
    """
    handed, now = lax(search), work_s()
    until = now + SEARCH_PART * (search.judge.deadline - now)
    found = [one for sizes in _sizes(kept) if (one := _candidate(search, sizes, handed, until)) is not None]
    less = (one for one in found if one.badness < kept.badness * (1 - NOTHING))
    return sorted(less, key=lambda one: one.badness)


def lax(search: Search) -> Handed:
    """What is promised, and the error of the latency model more."""
    asked = as_asked(search.scenario)
    slack = {}
    for name, ttft_s in asked.ttft_s.items():
        slo = search.scenario.slo_of(name)
        percentile = 100.0 if slo is None else slo.ttft_percentile
        slack[name] = ttft_s * (1 + next(error for most, error in ERRORS if percentile <= most))
    return replace(asked, ttft_s=slack)


def _sizes(kept: Tried) -> Iterator[dict[str, int]]:
    """Instances by pool of every fleet that is near and rents for less; first the same fleet, for fewer ports."""
    problem, plan = kept.stated, kept.plan
    n = {pool.name: pool.n_instances for pool in plan.pools}
    usd = {pool.name: pool.usd_per_hour or 0.0 for pool in problem.pools}
    free = [pool for pool in problem.pools if pool.name in n and pool.name == pool.key]
    yield _stated(problem, n)
    for one in free:
        if n[one.name] <= one.min_instances:
            continue
        less = {**n, one.name: n[one.name] - 1}
        yield _stated(problem, less)
        for other in free:
            if other.name != one.name and usd[other.name] < usd[one.name] and n[other.name] < other.max_instances:
                yield _stated(problem, {**less, other.name: n[other.name] + 1})


def _stated(problem: Problem, n: dict[str, int]) -> dict[str, int]:
    """Sizes as keys of the scenario, of pools that are free to have them."""
    free = (p for p in problem.pools if p.name in n and p.name == p.key and p.min_instances < p.max_instances)
    return {f"pools.{pool.key}.n_instances": n[pool.name] for pool in free}


def _candidate(search: Search, sizes: dict[str, int], handed: Handed, until: float) -> Candidate | None:
    """The plan of some sizes; None where there is none, or time is up."""
    left_s = until - work_s()
    if left_s <= 0:
        return None
    try:
        problem = search.problem(searched(search.scenario.varied(sizes), handed))
        found = solved(problem, min(left_s, search.time_limit_s), is_explained=False)
    except (InfeasibleError, UndecidedError):
        return None
    return as_stated(search, handed, problem, replace(found, goodput_req_per_s=None))
