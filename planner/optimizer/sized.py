"""Fleets of given sizes: what they serve, and the cheapest ones within other limits on their sizes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import LinkSpec, PoolSpec

FREE = {"n_instances": "free", "min_instances": 0, "max_instances": None}
"""No limits of several pools together."""


@dataclass(frozen=True)
class Sizing:
    """Integers of a plan: instances per pool, and ports per link and tier."""

    n_instances: tuple[int, ...]
    n_ports: tuple[tuple[int, ...], ...]


def full_sizing(problem: Problem) -> Sizing:
    """Every pool and port at its own limit."""
    ports = tuple(tuple(tier.max_ports for tier in link.tiers) for link in problem.links)
    return Sizing(tuple(pool.max_instances for pool in problem.pools), ports)


def is_within_limits(problem: Problem, n_instances: Sequence[int]) -> bool:
    """True if inventories, the budget for instances alone and the ratio allow sizes, limits of each pool apart.

    Args:
        n_instances: instances of every pool, shape (pools,) [count].
    """
    pools, budget, ratio = problem.pools, problem.scenario.budget_usd_per_hour, problem.ratio
    stocked = all(
        sum(n_instances[i] * pools[i].n_accelerators for i in v.pools) <= v.n_accelerators for v in problem.inventories
    )
    rent = sum(n * (pool.usd_per_hour or 0.0) for n, pool in zip(n_instances, pools, strict=True))
    sizes = list(zip(n_instances, pools, strict=True))
    prefill, decode = sum(n for n, pool in sizes if pool.takes_short), sum(n for n, p in sizes if p.role == "decode")
    balanced = ratio is None or prefill * ratio[1] == decode * ratio[0]
    return stocked and balanced and (budget is None or rent <= budget + 1e-9)


def sized_problem(problem: Problem, n_instances: Sequence[int], ports: Sequence[Sequence[int]]) -> Problem:
    """The problem of given sizes and ports, to serve as much of the same demand as they can.

    Args:
        problem: the resolved scenario, or one like it with other rates, prices or times. Roles must be fixed.
        n_instances: instances of every pool, shape (pools,) [count].
        ports: of every tier of every link [count].

    Returns:
        A problem of the same pools, streams and demands, without budget, stock and ratio. Pools without instances are
        closed, links without ports are gone.
    """
    pools = tuple(within(pool, n, n) for pool, n in zip(problem.pools, n_instances, strict=True))
    links = tuple(with_ports(link, own) for link, own in zip(problem.links, ports, strict=True) if any(own))
    routing = problem.scenario.routing.model_copy(update={"prefill_to_decode": "free"})
    changes = {"objective": "max-throughput", "budget_usd_per_hour": None, "routing": routing}
    stated = {name: pool.model_copy(update=FREE) for name, pool in problem.scenario.pools.items()}
    scenario = problem.scenario.model_copy(update={**changes, "pools": stated})
    return replace(problem, scenario=scenario, pools=pools, links=links, inventories=())


def within(pool: PoolSpec, low: int, high: int) -> PoolSpec:
    """A pool with other limits on its instances.

    Args:
        pool: the pool.
        low: fewest instances [count].
        high: most instances [count].
    """
    by_period = None if low == high else pool.by_period
    return replace(pool, min_instances=low, max_instances=high, stated_max_instances=high, by_period=by_period)


def with_ports(link: LinkSpec, ports: Sequence[int]) -> LinkSpec:
    """A link with given ports of its tiers alone.

    Args:
        ports: of every tier [count].
    """
    tiers = zip(link.tiers, ports, strict=True)
    return replace(link, tiers=tuple(tier.model_copy(update={"max_ports": m}) for tier, m in tiers if m))
