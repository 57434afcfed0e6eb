"""Colocated pools: what a scenario may hold beside one, and what is not planned with one yet, though it can be run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.errors import InputProblem
from planner.schema import FieldError

if TYPE_CHECKING:
    from planner.scenario.question import Scenario


def colocated_faults(scenario: Scenario) -> Iterator[FieldError]:
    """Faults of a pool that prefills and decodes in one batch."""
    for name, pool in scenario.pools.items():
        if pool.role == "colocated" and pool.service_times == "measured":
            what = 'is "measured", and nobody measures passes with prompts and decoding sequences'
            yield FieldError(("pools", name, "service_times"), f'{what} ("roofline", or leave it out)')


def not_planned(scenario: Scenario) -> Iterator[InputProblem]:
    """Parts of a question that are not planned with a colocated pool; a plan of it that is written by hand can be run.

    Args:
        scenario: a scenario, with or without a colocated pool.
    """
    name = scenario.colocated_pool
    if name is None:
        return
    beside = f"with the colocated pools.{name}"
    if scenario.capacity_rule != "expected-work":
        what = f'is "{scenario.capacity_rule}", and passes of the colocated pools.{name} hold prompts of all lengths'
        yield scenario.problem(("capacity_rule",), what, '"expected-work"')
    if scenario.routing.role_conversion:
        what = f"is true {beside}, whose instances have both roles at all times"
        yield scenario.problem(("routing", "role_conversion"), what, "false")
