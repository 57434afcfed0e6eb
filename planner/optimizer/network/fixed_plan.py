"""A network that is built already: the sizes and ports of a plan, to serve as much of the same demand as they can."""

from dataclasses import replace

from planner.optimizer.problem import LinkSpec, PoolSpec, Problem
from planner.optimizer.sized import sized_problem, within
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
    return sized_problem(problem, solution.operations[0].n_instances, solution.ports)


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
    n = pool.max_instances + 1
    return with_pool(problem, index, within(pool, n, n))
