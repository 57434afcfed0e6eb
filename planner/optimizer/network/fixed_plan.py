"""A network that is built already: the sizes and ports of a plan, to serve as much of the same demand as they can."""

from dataclasses import replace

from planner.optimizer.problem import LinkSpec, PoolSpec, Problem
from planner.optimizer.solution import Solution


def fixed_plan_problem(problem: Problem, solution: Solution) -> Problem:
    """The problem of the sizes and ports of a plan, which asks for the most of the demand's profile.

    Args:
        problem: the resolved scenario, or one like it with other rates, prices or times.
        solution: the plan whose sizes and ports are fixed. Roles must be fixed.

    Returns:
        A problem of the same pools, streams and demands. Pools without instances are closed, links without ports are
        gone.
    """
    sizes = solution.operations[0].n_instances
    pools = tuple(_sized(pool, n) for pool, n in zip(problem.pools, sizes, strict=True))
    links = []
    for link, ports in zip(problem.links, solution.ports, strict=True):
        tiers = [t.model_copy(update={"max_ports": m}) for t, m in zip(link.tiers, ports, strict=True) if m]
        links += [replace(link, tiers=tuple(tiers))] if tiers else []
    free = {"n_instances": "free", "min_instances": 0, "max_instances": None}  # limits of several pools together
    stated = {name: pool.model_copy(update=free) for name, pool in problem.scenario.pools.items()}
    changes = {"objective": "max-throughput", "budget_usd_per_hour": None, "pools": stated}
    scenario = problem.scenario.model_copy(update=changes)
    return replace(problem, scenario=scenario, pools=pools, links=tuple(links), inventories=())


def with_link(problem: Problem, index: int, link: LinkSpec) -> Problem:
    """The problem with one link replaced.

    Args:
        problem: the problem.
        index: the link.
        link: its replacement.
    """
    return replace(problem, links=(*problem.links[:index], link, *problem.links[index + 1 :]))


def with_pool(problem: Problem, index: int, pool: PoolSpec) -> Problem:
    """The problem with one pool replaced.

    Args:
        problem: the problem.
        index: the pool.
        pool: its replacement.
    """
    return replace(problem, pools=(*problem.pools[:index], pool, *problem.pools[index + 1 :]))


def one_more_instance(problem: Problem, index: int) -> Problem:
    """The problem with one more instance of a pool of fixed size.

    Args:
        problem: the problem.
        index: the pool.
    """
    pool = problem.pools[index]
    return with_pool(problem, index, _sized(pool, pool.max_instances + 1))


def _sized(pool: PoolSpec, n_instances: int) -> PoolSpec:
    return replace(pool, min_instances=n_instances, max_instances=n_instances, stated_max_instances=n_instances)
