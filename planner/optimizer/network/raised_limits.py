"""The limits of a network, each raised: the perturbations whose effect on the objective is a shadow price."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from planner.optimizer.network.fixed_plan import one_more_instance, with_link, with_pool
from planner.optimizer.problem import ClassSpec, Inventory, Problem
from planner.optimizer.solution import Solution
from planner.scenario import LinkTier
from planner.units import MILLI

LATER_MS = 100.0
"""Milliseconds added to the TTFT of an SLO for the price of one millisecond,"""
LATER_FRACTION = 0.1
"""and the part of it that is added to see what whole instances gain from it."""
PORT_GBPS = 10.0
"""The smallest port on the market: the step of a link, whose price is for 1 Gbps."""


class RaisedLimit(NamedTuple):
    """A limit that is raised: a little for a linear program, and by a step that whole instances can use."""

    constraint: str
    unit: str
    """Unit of the gain per unit of the limit."""
    marginal_amount: float
    marginal: Problem
    step_amount: float
    step: Problem


def more_capacity(fixed: Problem, solution: Solution) -> Iterator[RaisedLimit]:
    """Every pool in use with one more instance, and every link with 1 and 10 Gbps more, all else fixed.

    Args:
        fixed: the network at the sizes and ports of the plan.
        solution: the plan.
    """
    for i, (pool, n) in enumerate(zip(fixed.pools, solution.operations[0].n_instances, strict=True)):
        if n:
            more = one_more_instance(fixed, i)
            yield RaisedLimit(f"pools.{pool.shown_name}.n_instances", "req/s per instance", 1.0, more, 1.0, more)
    for j, link in enumerate(fixed.links):
        one, ten = (
            with_link(fixed, j, replace(link, tiers=(*link.tiers, LinkTier(capacity_gbps=gbps, usd_per_hour=0.0))))
            for gbps in (1.0, PORT_GBPS)
        )
        yield RaisedLimit(f"links.{link.name}.capacity_gbps", "req/s per Gbps", 1.0, one, PORT_GBPS, ten)


def more_allowed(problem: Problem, solution: Solution) -> Iterator[RaisedLimit]:
    """Every limit that the question states, raised: demand, inventories, ports, sizes, budget, SLOs.

    Args:
        problem: the resolved scenario.
        solution: its plan.
    """
    unit = "USD/h" if problem.is_min_cost else "req/s"
    if problem.is_min_cost:
        more = _more_demand(problem)
        yield RaisedLimit("demand_req_per_s", "USD/h per req/s", 1.0, more, 1.0, more)
        yield from _more_ports(problem)
        yield from _more_of_pools(problem, solution)
    yield from _more_accelerators(problem, solution, unit)
    yield from _more_budget(problem, solution)
    yield from _longer_slos(problem, unit)


def _more_demand(problem: Problem) -> Problem:
    """The demand of all periods, scaled so that its mean is one request per second higher."""
    factor = 1 + 1 / problem.mean_req_per_s
    demands = tuple(d._replace(req_per_s=tuple(r * factor for r in d.req_per_s)) for d in problem.demands)
    return replace(problem, demands=demands)


def _more_accelerators(problem: Problem, solution: Solution, unit: str) -> Iterator[RaisedLimit]:
    """An accelerator more in every inventory, and as many more as make an instance."""
    for v, inventory in enumerate(problem.inventories):
        if not inventory.pools:
            continue
        step_amount = min(problem.pools[i].n_accelerators for i in inventory.pools)
        marginal, step = (more_inventory(problem, solution, v, n) for n in (1, step_amount))
        name = f"sites.{inventory.site}.accelerators.{inventory.hardware}"
        yield RaisedLimit(name, f"{unit} per accelerator", 1.0, marginal, step_amount, step)


def more_inventory(problem: Problem, solution: Solution, index: int, n_accelerators: int) -> Problem:
    """The problem with a larger inventory, and room for it in the pools that draw on it.

    Args:
        problem: the resolved scenario.
        solution: its plan.
        index: the inventory.
        n_accelerators: accelerators that are added [count].
    """
    inventory = problem.inventories[index]
    more: Inventory = replace(inventory, n_accelerators=inventory.n_accelerators + n_accelerators)
    others = (*problem.inventories[:index], more, *problem.inventories[index + 1 :])
    return _with_room(replace(problem, inventories=others), solution, inventory.pools)


def largest_sizes(problem: Problem, solution: Solution) -> list[int]:
    """Most instances of every pool in any period of a plan, shape (pools,) [count].

    Args:
        problem: the resolved scenario.
        solution: its plan.
    """
    return [max(one.n_instances[i] for one in solution.operations) for i in range(len(problem.pools))]


def _with_room(problem: Problem, solution: Solution, pools: Sequence[int]) -> Problem:
    """One more instance in pools at their limit, unless the scenario itself states that limit.

    Other pools keep their limit, so that their part of a relaxed program stays the same.
    """
    sizes = largest_sizes(problem, solution)
    for i in pools:
        pool = problem.pools[i]
        stated = problem.scenario.pools[pool.key]
        if sizes[i] == pool.max_instances and stated.n_instances == "free" and stated.max_instances is None:
            problem = with_pool(problem, i, replace(pool, max_instances=pool.max_instances + 1))
    return problem


def _more_ports(problem: Problem) -> Iterator[RaisedLimit]:
    for j in range(len(problem.links)):
        for k, tier in enumerate(problem.links[j].tiers):
            more = one_more_port(problem, j, k)
            name = f"links.{problem.links[j].name}.tiers[{k}].max_ports"
            yield RaisedLimit(name, f"USD/h per port of {tier.capacity_gbps:g} Gbps", 1.0, more, 1.0, more)


def one_more_port(problem: Problem, index: int, tier: int) -> Problem:
    """The problem with one more port of a size on offer for a link.

    Args:
        problem: the resolved scenario.
        index: the link.
        tier: the size of its ports.
    """
    link = problem.links[index]
    more = link.tiers[tier].model_copy(update={"max_ports": link.tiers[tier].max_ports + 1})
    return with_link(problem, index, replace(link, tiers=(*link.tiers[:tier], more, *link.tiers[tier + 1 :])))


def _more_of_pools(problem: Problem, solution: Solution) -> Iterator[RaisedLimit]:
    """Pools that are as large as the scenario itself lets them be, with an instance more."""
    for i, (pool, n) in enumerate(zip(problem.pools, largest_sizes(problem, solution), strict=True)):
        stated = problem.scenario.pools[pool.key]
        if pool.key != pool.name or n < pool.max_instances or stated.max_instances != n:
            continue
        more = with_pool(problem, i, replace(pool, max_instances=pool.max_instances + 1))
        yield RaisedLimit(f"pools.{pool.name}.max_instances", "USD/h per instance", 1.0, more, 1.0, more)


def _more_budget(problem: Problem, solution: Solution) -> Iterator[RaisedLimit]:
    """A dollar an hour more to spend, and what the cheapest instance in use costs."""
    budget, usd = problem.scenario.budget_usd_per_hour, cheapest_instance_usd_per_hour(problem, solution)
    if budget is None or problem.is_min_cost or not usd:
        return
    marginal, step = (more_budget(problem, solution, budget + more) for more in (1.0, usd))
    yield RaisedLimit("budget_usd_per_hour", "req/s per USD/h", 1.0, marginal, usd, step)


def cheapest_instance_usd_per_hour(problem: Problem, solution: Solution) -> float:
    """Price of a busy instance of the cheapest pool in use [USD/h]; 0 where prices are missing.

    Args:
        problem: the resolved scenario.
        solution: its plan.
    """
    used = [p for p, n in zip(problem.pools, largest_sizes(problem, solution), strict=True) if n]
    return min(((p.usd_per_hour or 0.0) + p.busy_usd_per_hour for p in used), default=0.0)


def more_budget(problem: Problem, solution: Solution, usd_per_hour: float) -> Problem:
    """The problem with another budget, and room for it in the pools.

    Args:
        problem: the resolved scenario.
        solution: its plan.
        usd_per_hour: the budget [USD/h].
    """
    scenario = problem.scenario.model_copy(update={"budget_usd_per_hour": usd_per_hour})
    return _with_room(replace(problem, scenario=scenario), solution, range(len(problem.pools)))


def _longer_slos(problem: Problem, unit: str) -> Iterator[RaisedLimit]:
    for c, spec in enumerate(problem.classes):
        if spec.ttft_s is not None:
            step_amount = LATER_FRACTION * spec.ttft_s / MILLI
            marginal, step = (_with_longer_ttft(problem, c, spec, ms) for ms in (LATER_MS, step_amount))
            key = " and ".join(f"classes.{member.name}.slo.ttft_s" for member in spec.members)
            yield RaisedLimit(key, f"{unit} per ms", LATER_MS, marginal, step_amount, step)


def _with_longer_ttft(problem: Problem, index: int, spec: ClassSpec, ms: float) -> Problem:
    """The problem with a longer TTFT in the SLO of one class."""
    if spec.slo is None or spec.slo.ttft_s is None:
        raise ValueError("no SLO on TTFT")
    slo = spec.slo.model_copy(update={"ttft_s": spec.slo.ttft_s + ms * MILLI})
    return replace(problem, classes=(*problem.classes[:index], replace(spec, slo=slo), *problem.classes[index + 1 :]))
