"""A first plan that survives the loss of any instance: one without spare, plus one instance of every pool in use."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from planner.errors import UndecidedError
from planner.optimizer.problem import PoolSpec, Problem
from planner.optimizer.solution import Solution
from planner.scenario import Spare

Search = Callable[[Problem], Solution | None]


def with_one_more_each(problem: Problem, search: Search) -> tuple[Solution | None, float | None]:
    """A plan that survives the loss of any instance, and a bound of all such plans.

    Without one of its instances a pool is as large as in the plan without spare, and the others are larger: so every
    period is served within its SLOs with the same flows. Where stock, sizes or the budget leave no room, the plan
    without spare is sought again with one instance of every pool set aside.

    Args:
        problem: a problem whose plans survive the loss of any instance, and of nothing else.
        search: finds plans of a problem.

    Returns:
        The plan, None where none was found; and the bound, None where none is known.
    """
    bound = None
    for bare in _without_spare(problem):
        try:
            found = search(bare)
        except UndecidedError:
            continue
        if found is None:
            continue
        bound = found.bound if bound is None else bound
        if (spared := _one_more_each(problem, found)) is not None:
            return spared, bound
    return None, bound


def _without_spare(problem: Problem) -> Iterator[Problem]:
    """The problem without spare, then with an instance of every pool set aside."""
    scenario = problem.scenario.model_copy(update={"spare": Spare()})
    yield replace(problem, scenario=scenario)
    budget = scenario.budget_usd_per_hour
    if budget is not None:
        aside = sum((pool.usd_per_hour or 0.0) + pool.busy_usd_per_hour for pool in problem.pools)
        scenario = scenario.model_copy(update={"budget_usd_per_hour": max(budget - aside, 0.0)})
    inventories = tuple(
        replace(v, n_accelerators=max(v.n_accelerators - sum(problem.pools[i].n_accelerators for i in v.pools), 0))
        for v in problem.inventories
    )
    pools = tuple(map(_one_less, problem.pools))
    yield replace(problem, scenario=scenario, inventories=inventories, pools=pools)


def _one_less(pool: PoolSpec) -> PoolSpec:
    return replace(pool, min_instances=max(pool.min_instances - 1, 0), max_instances=max(pool.max_instances - 1, 0))


def _one_more_each(problem: Problem, bare: Solution) -> Solution | None:
    """The plan with an instance more of every pool in use, or of one that must not be smaller; None without room."""
    pools = problem.pools
    used = [any(one.n_instances[i] for one in bare.operations) for i in range(len(pools))]
    more = [
        max(int(is_used), pool.min_instances - min(one.n_instances[i] for one in bare.operations))
        for i, (pool, is_used) in enumerate(zip(pools, used, strict=True))
    ]
    operations = tuple(
        replace(one, n_instances=tuple(n + m for n, m in zip(one.n_instances, more, strict=True)))
        for one in bare.operations
    )
    if problem.families:
        return None  # their sizes are limited together
    sizes = [[one.n_instances[i] for one in operations] for i in range(len(pools))]
    if any(max(of_pool) > pool.max_instances for of_pool, pool in zip(sizes, pools, strict=True)):
        return None
    for stock in problem.inventories:
        held = (sum(one.n_instances[i] * pools[i].n_accelerators for i in stock.pools) for one in operations)
        if max(held) > stock.n_accelerators:
            return None
    usd = sum(m * (pool.usd_per_hour or 0.0) for m, pool in zip(more, pools, strict=True))
    if not problem.is_min_cost:
        return replace(bare, operations=operations)
    if not problem.is_priced:
        usd = float(sum(m * pool.n_accelerators for m, pool in zip(more, pools, strict=True)))
    budget = problem.scenario.budget_usd_per_hour
    if budget is not None and bare.objective + usd > budget:
        return None
    return replace(bare, operations=operations, objective=bare.objective + usd)
