"""Ports of every tier that make up the links of a finished plan."""

from itertools import product

from planner.optimizer import Problem
from planner.optimizer.problem import LinkSpec
from planner.results import LinkPlan, Plan

CLOSE = 1e-9


def ports_of_plan(problem: Problem, plan: Plan) -> tuple[tuple[int, ...], ...] | None:
    """Ports of every link by tier; None where they cannot be told.

    Args:
        problem: the question.
        plan: its plan.
    """
    found = [_ports(spec, link) for spec, link in zip(problem.links, plan.links, strict=True)]
    known = tuple(row for row in found if row is not None)
    return known if len(known) == len(found) else None


def _ports(spec: LinkSpec, link: LinkPlan) -> tuple[int, ...] | None:
    """Ports of every tier that make up a link of a plan, the cheapest where there are several ways."""
    ways = product(*(range(min(tier.max_ports, link.n_ports) + 1) for tier in spec.tiers))
    fitting = [row for row in ways if sum(row) == link.n_ports and abs(spec.gbps(row) - link.capacity_gbps) <= CLOSE]
    return min(fitting, key=lambda row: spec.ports_usd_per_hour(row) or 0.0, default=None)
