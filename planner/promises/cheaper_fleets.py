"""Cheaper fleets than one that keeps its promise with room, which the latency model excludes by less than its error."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from planner.comparison import solved
from planner.errors import InfeasibleError, UndecidedError
from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import PoolSpec
from planner.optimizer.sized import within
from planner.promises.targets import LatencyTargets, as_asked, question_at_targets
from planner.promises.tighten import Attempt, PlanCandidate, PromiseSearch, as_stated
from planner.work_clock import work_s

ERRORS = ((50.0, 0.26), (90.0, 0.32), (100.0, 0.57))
"""Up to a percentile, relative error of the predicted TTFT in 95 % of cases: the tandem of latency_models.md [-]."""
LONGER_STEP = 0.25
"""How much longer than promised the time per token may be that is predicted of a colocated fleet that is run [-]. A run
decides: this only says which fleets have one."""
NOTHING = 1e-9
SEARCH_PART = 0.5
"""Of the time for runs, what finding cheaper fleets may take."""


def cheaper(search: PromiseSearch, kept: Attempt) -> list[PlanCandidate]:
    """Plans that cost less than one that is kept, the cheapest first: an instance less, or one swapped for another.

    Thresholds, ports and shares of each are the optimizer's, under a promise that is laxer by the error of its latency
    model. Half of the time that is left for runs may go into finding them.
    """
    targets, now = relaxed_targets(search), work_s()
    until = now + SEARCH_PART * (search.settings.deadline - now)
    laxer = kept.stated.stating(question_at_targets(search.scenario, targets))
    asked = replace(laxer, pools=tuple(map(_with_longer_steps, laxer.pools)))
    found = [one for n in _sizes(kept) if (one := _candidate(search, asked, n, targets, until)) is not None]
    less = (one for one in found if one.badness < kept.badness * (1 - NOTHING))
    return sorted(less, key=lambda one: one.badness)


def relaxed_targets(search: PromiseSearch) -> LatencyTargets:
    """Targets as promised, laxer by the error of the latency model."""
    asked = as_asked(search.scenario)
    slack = {}
    for name, ttft_s in asked.ttft_s.items():
        slo = search.scenario.slo_of(name)
        percentile = 100.0 if slo is None else slo.ttft_percentile
        slack[name] = ttft_s * (1 + next(error for most, error in ERRORS if percentile <= most))
    return replace(asked, ttft_s=slack)


def _with_longer_steps(pool: PoolSpec) -> PoolSpec:
    """A pool whose time per token in batches with prompts may be predicted longer than it is promised."""
    batching = pool.batching
    if batching is None or batching.engine.tpot_s is None:
        return pool
    engine = replace(batching.engine, tpot_s=batching.engine.tpot_s * (1 + LONGER_STEP))
    return replace(pool, batching=replace(batching, engine=engine, known={}))


def _sizes(kept: Attempt) -> Iterator[list[int]]:
    """Instances of every pool of fleets that are near and rent for less; first the same fleet, for fewer ports."""
    pools, sizes = kept.stated.pools, list(kept.served.largest_sizes)
    usd = [pool.usd_per_hour or 0.0 for pool in pools]
    free = [i for i, pool in enumerate(pools) if _is_free(pool)]
    yield sizes
    for i in free:
        if sizes[i] <= pools[i].min_instances:
            continue
        yield _moved(sizes, {i: -1})
        for j in free:
            if j != i and usd[j] < usd[i] and sizes[j] < pools[j].max_instances:
                yield _moved(sizes, {i: -1, j: 1})


def _is_free(pool: PoolSpec) -> bool:
    return pool.min_instances < pool.max_instances


def _moved(sizes: Sequence[int], more: Mapping[int, int]) -> list[int]:
    return [n + more.get(i, 0) for i, n in enumerate(sizes)]


def _candidate(
    search: PromiseSearch, asked: Problem, sizes: Sequence[int], targets: LatencyTargets, until: float
) -> PlanCandidate | None:
    """The plan of some sizes; None where there is none, or time is up."""
    left_s = until - work_s()
    if left_s <= 0:
        return None
    pools = (within(pool, n, n) if _is_free(pool) else pool for pool, n in zip(asked.pools, sizes, strict=True))
    problem = replace(asked, pools=tuple(pools))
    try:
        found = solved(problem, min(left_s, search.time_limit_s), is_explained=False)
    except (InfeasibleError, UndecidedError):
        return None
    return as_stated(search, targets, problem, replace(found, goodput_req_per_s=None))
