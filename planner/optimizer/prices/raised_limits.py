"""Raised limits: the perturbations of a question, or of a fleet, whose effect on the objective is a shadow price."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import ClassSpec, LinkSpec, PoolSpec
from planner.optimizer.sized import within
from planner.optimizer.solution import Solution
from planner.scenario import LinkTier
from planner.units import MILLI

Item = TypeVar("Item")
LATER_MS = 100.0
"""Milliseconds added to the TTFT of an SLO for the price of one millisecond,"""
LATER_FRACTION = 0.1
"""and the part of it that is added to see what whole instances gain from it."""
PORT_GBPS = 10.0
"""The smallest port on the market: the step of a link, whose price is for 1 Gbps."""


class RaisedLimit(NamedTuple):
    """A limit that is raised: a little for a price at the margin, and by a step that whole instances can use."""

    constraint: str
    unit: str
    """Unit of the gain per unit of the limit."""
    marginal_amount: float
    marginal: Problem
    step_amount: float
    step: Problem


def fleet_limits(fleet: Problem, pools: Iterable[int]) -> Iterator[RaisedLimit]:
    """Pools of a fleet with one more instance, and its links with 1 and 10 Gbps more, all else fixed.

    Args:
        fleet: a problem in which sizes and ports are those of a fleet; its gain is a rate, or a shorter TTFT.
    """
    gain = "s" if fleet.is_min_ttft else "req/s"
    for i in pools:
        pool = fleet.pools[i]
        n = pool.max_instances + 1
        more = _with_pool(fleet, i, within(pool, n, n))
        yield RaisedLimit(f"pools.{pool.shown_name}.n_instances", f"{gain} per instance", 1.0, more, 1.0, more)
    for j, link in enumerate(fleet.links):
        one, ten = (
            _with_link(fleet, j, replace(link, tiers=(*link.tiers, LinkTier(capacity_gbps=gbps, usd_per_hour=0.0))))
            for gbps in (1.0, PORT_GBPS)
        )
        yield RaisedLimit(f"links.{link.name}.capacity_gbps", f"{gain} per Gbps", 1.0, one, PORT_GBPS, ten)


def stated_limits(problem: Problem, solution: Solution) -> Iterator[RaisedLimit]:
    """Every limit that the question states, raised: demand, ports, sizes, inventories, budget, SLOs."""
    gain = "USD/h" if problem.is_min_cost else "s" if problem.is_min_ttft else "req/s"
    if problem.is_min_cost:
        more = _more_demand(problem)
        yield RaisedLimit("demand_req_per_s", f"{gain} per req/s", 1.0, more, 1.0, more)
        yield from _more_ports(problem, gain)
    if problem.must_serve_req_per_s is not None:
        yield from _larger_pools(problem, solution, gain)
    yield from _more_accelerators(problem, solution, gain)
    if problem.is_min_ttft:
        yield from _wider_links(problem, gain)
    if not problem.is_min_cost:
        yield from _more_budget(problem, solution, gain)
    yield from longer_slos(problem, gain)


def longer_slos(problem: Problem, gain: str) -> Iterator[RaisedLimit]:
    """The TTFT of every SLO, 100 ms and a tenth longer."""
    for c, spec in enumerate(problem.classes):
        if spec.ttft_s is not None:
            step_ms = LATER_FRACTION * spec.ttft_s / MILLI
            marginal, step = (_with_longer_ttft(problem, c, spec, ms) for ms in (LATER_MS, step_ms))
            stated = [f"classes.{member.name}.slo.ttft_s" for member in spec.members if problem.scenario.classes]
            key = " and ".join(stated or ["slo.ttft_s"])
            yield RaisedLimit(key, f"{gain} per ms", LATER_MS, marginal, step_ms, step)


def _with_longer_ttft(problem: Problem, index: int, spec: ClassSpec, ms: float) -> Problem:
    """The problem with a longer TTFT in the SLO of one class."""
    if spec.slo is None or spec.slo.ttft_s is None:
        raise ValueError("no SLO on TTFT")
    slo = spec.slo.model_copy(update={"ttft_s": spec.slo.ttft_s + ms * MILLI})
    return replace(problem, classes=_replaced(problem.classes, index, replace(spec, slo=slo)))


def _more_demand(problem: Problem) -> Problem:
    """The demand of all periods, scaled so that its mean is one request per second higher."""
    factor = 1 + 1 / problem.mean_req_per_s
    demands = tuple(d._replace(req_per_s=tuple(r * factor for r in d.req_per_s)) for d in problem.demands)
    return replace(problem, demands=demands)


def _more_ports(problem: Problem, gain: str) -> Iterator[RaisedLimit]:
    """One more port of every size of every link."""
    for j, link in enumerate(problem.links):
        for k, tier in enumerate(link.tiers):
            more, name = _one_more_port(problem, j, k), f"links.{link.name}.tiers[{k}].max_ports"
            yield RaisedLimit(name, f"{gain} per port of {tier.capacity_gbps:g} Gbps", 1.0, more, 1.0, more)


def _wider_links(problem: Problem, gain: str) -> Iterator[RaisedLimit]:
    """One more of the smallest port of every link."""
    for j, link in enumerate(problem.links):
        smallest = min(range(len(link.tiers)), key=lambda k: link.tiers[k].capacity_gbps)
        gbps, more = link.tiers[smallest].capacity_gbps, _one_more_port(problem, j, smallest)
        yield RaisedLimit(f"links.{link.name}.capacity_gbps", f"{gain} per Gbps", gbps, more, gbps, more)


def _one_more_port(problem: Problem, index: int, tier: int) -> Problem:
    link = problem.links[index]
    more = link.tiers[tier].model_copy(update={"max_ports": link.tiers[tier].max_ports + 1})
    return _with_link(problem, index, replace(link, tiers=_replaced(link.tiers, tier, more)))


def _larger_pools(problem: Problem, solution: Solution, gain: str) -> Iterator[RaisedLimit]:
    """Pools that are as large as the scenario itself lets them be, with an instance more.

    With cost as the objective a stated size is no limit, and left out: another instance has to be paid for.
    """
    for i, (pool, n) in enumerate(zip(problem.pools, solution.largest_sizes, strict=True)):
        stated = problem.scenario.pools[pool.key]
        is_fixed = stated.n_instances != "free"
        field = "n_instances" if is_fixed else "max_instances"
        if pool.key != pool.name or n == 0 or n != getattr(stated, field) or (is_fixed and problem.is_min_cost):
            continue
        least, most = pool.min_instances + is_fixed, pool.max_instances + 1
        more = _with_pool(problem, i, replace(pool, min_instances=least, max_instances=most))
        yield RaisedLimit(f"pools.{pool.name}.{field}", f"{gain} per instance", 1.0, more, 1.0, more)


def _more_accelerators(problem: Problem, solution: Solution, gain: str) -> Iterator[RaisedLimit]:
    """An accelerator more in every inventory, and as many more as make an instance."""
    for v, inventory in enumerate(problem.inventories):
        if not inventory.pools:
            continue
        n_step = min(problem.pools[i].n_accelerators for i in inventory.pools)
        marginal, step = (_with_accelerators(problem, solution, v, n) for n in (1, n_step))
        name = f"sites.{inventory.site}.accelerators.{inventory.hardware}"
        yield RaisedLimit(name, f"{gain} per accelerator", 1.0, marginal, n_step, step)


def _with_accelerators(problem: Problem, solution: Solution, index: int, n_more: int) -> Problem:
    """The problem with a larger inventory, and room for it in the pools that draw on it."""
    inventory = problem.inventories[index]
    larger = replace(inventory, n_accelerators=inventory.n_accelerators + n_more)
    inventories = _replaced(problem.inventories, index, larger)
    return _with_room(replace(problem, inventories=inventories), solution, inventory.pools)


def _more_budget(problem: Problem, solution: Solution, gain: str) -> Iterator[RaisedLimit]:
    """A dollar an hour more to spend, and what a busy instance of the cheapest pool in use costs."""
    budget = problem.scenario.budget_usd_per_hour
    used = [pool for pool, n in zip(problem.pools, solution.largest_sizes, strict=True) if n]
    usd = min(((pool.usd_per_hour or 0.0) + pool.busy_usd_per_hour for pool in used), default=0.0)
    if budget is None or not usd:
        return
    marginal, step = (_with_budget(problem, solution, budget + more) for more in (1.0, usd))
    yield RaisedLimit("budget_usd_per_hour", f"{gain} per USD/h", 1.0, marginal, usd, step)


def _with_budget(problem: Problem, solution: Solution, usd_per_hour: float) -> Problem:
    """The problem with another budget, and room for it in the pools."""
    scenario = problem.scenario.model_copy(update={"budget_usd_per_hour": usd_per_hour})
    return _with_room(replace(problem, scenario=scenario), solution, range(len(problem.pools)))


def _with_room(problem: Problem, solution: Solution, pools: Sequence[int]) -> Problem:
    """One more instance in pools at their limit, unless the scenario itself states that limit.

    Other pools keep their limit, so that their part of a relaxed program stays the same.
    """
    for i in pools:
        pool = problem.pools[i]
        stated = problem.scenario.pools[pool.key]
        is_full = solution.largest_sizes[i] == pool.max_instances
        if is_full and stated.n_instances == "free" and stated.max_instances is None:
            problem = _with_pool(problem, i, replace(pool, max_instances=pool.max_instances + 1))
    return problem


def _with_pool(problem: Problem, index: int, pool: PoolSpec) -> Problem:
    return replace(problem, pools=_replaced(problem.pools, index, pool))


def _with_link(problem: Problem, index: int, link: LinkSpec) -> Problem:
    return replace(problem, links=_replaced(problem.links, index, link))


def _replaced(items: tuple[Item, ...], index: int, item: Item) -> tuple[Item, ...]:
    """The items with another one at an index."""
    return (*items[:index], item, *items[index + 1 :])
