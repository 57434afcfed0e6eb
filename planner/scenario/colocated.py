"""Colocated pools: what a scenario may hold beside one, and what is not planned with one yet, though it can be run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.errors import Problem
from planner.schema import Fault

if TYPE_CHECKING:
    from planner.scenario.parts import Pool
    from planner.scenario.question import Scenario


def colocated_faults(scenario: Scenario) -> Iterator[Fault]:
    """What does not fit a pool that prefills and decodes in one batch."""
    for name, pool in scenario.pools.items():
        if pool.role == "colocated" and pool.service_times == "measured":
            what = 'is "measured", and nobody measures passes with prompts and decoding sequences'
            yield Fault(("pools", name, "service_times"), f'{what} ("roofline", or leave it out)')


def not_planned(scenario: Scenario) -> Iterator[Problem]:
    """What is not planned with a colocated pool; a plan of it that is written by hand can be run.

    Args:
        scenario: a scenario with a colocated pool.
    """
    name = scenario.colocated_pool
    if name is None:
        return
    for other, pool in scenario.pools.items():
        if other != name:
            yield from _beside(scenario, name, other, pool)
    prefill = [other for other, pool in scenario.pools.items() if pool.role == "prefill"]
    for other in prefill[1:]:
        what = f'is "prefill", and pools.{prefill[0]} takes the long prompts beside the colocated pools.{name}'
        yield scenario.problem(("pools", other, "role"), what, "one prefill pool at most")
    yield from _of_question(scenario, name, bool(prefill))


def _beside(scenario: Scenario, name: str, other: str, pool: Pool) -> Iterator[Problem]:
    """What is not planned of another pool."""
    home, key = scenario.pools[name], ("pools", other)
    beside = f"beside the colocated pools.{name}"
    if pool.role != "prefill":
        what = f'is "{pool.role}" {beside}, which is planned to decode all requests of its model'
        allowed = '"prefill" at another site with a link to it, for long prompts'
        yield scenario.problem((*key, "role"), what, allowed)
        return
    links = [(link.from_site, link.to_site) for link in scenario.links.values()]
    if pool.site == home.site:
        what = f"is '{pool.site}', where pools.{name} is planned to take the prompts that stay"
        allowed = f"another site with a link to '{home.site}', for long prompts"
        yield scenario.problem((*key, "site"), what, allowed)
    elif (pool.site, home.site) not in links:
        what = f"is '{pool.site}', from which no link leads to '{home.site}'"
        yield scenario.problem((*key, "site"), what, "a site with a link to it")
    if pool.prompts == "short":
        what = f'is "short" {beside}, which is planned to take the short ones'
        yield scenario.problem((*key, "prompts"), what, '"long", or leave it out')
    if pool.model != home.model:
        what = f"is another one than that of pools.{name}"
        yield scenario.problem((*key, "model"), what, "one model, or no colocated pool")


def _of_question(scenario: Scenario, name: str, is_split: bool) -> Iterator[Problem]:
    """What is not planned of the question."""
    beside = f"with the colocated pools.{name}"
    if scenario.periods:
        yield scenario.problem(("periods",), f"are not planned {beside}", "one demand at all times")
    for other, pool in scenario.pools.items():
        everyone = tuple(c for c in scenario.workloads if scenario.model_of(c) == pool.model)
        if pool.classes and set(pool.classes) != set(everyone):
            what = f"are not all of its model's {beside}"
            yield scenario.problem(("pools", other, "classes"), what, "all, or leave it out")
    for key, value, planned in (
        (("routing", "prefill_to_decode"), scenario.routing.prefill_to_decode, "free"),
        (("capacity_rule",), scenario.capacity_rule, "expected-work"),
        (("dispatch",), scenario.dispatch, "shared-queue"),
        (("prefill_batching",), scenario.prefill_batching, "one-at-a-time"),
    ):
        if value != planned:
            yield scenario.problem(key, f'is "{value}", which is not planned {beside}', f'"{planned}"')
    if scenario.routing.role_conversion:
        yield scenario.problem(("routing", "role_conversion"), f"is true, which is not planned {beside}", "false")
    if "site" in scenario.spare.survive:
        what = f'names "site", which is not planned {beside}'
        yield scenario.problem(("spare", "survive"), what, '"instance" and "link"')
    if is_split and len(scenario.workloads) > 1 and scenario.routing.thresholds != "per-model":
        what = f"is {scenario.routing.thresholds}, and classes share the threshold of a prefill pool {beside}"
        yield scenario.problem(("routing", "thresholds"), what, '"per-model"')
