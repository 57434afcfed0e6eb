"""Colocated pools: what a question with one may hold beside it, and what is not planned with one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.schema import Fault

if TYPE_CHECKING:
    from planner.scenario.parts import Pool
    from planner.scenario.question import Scenario


def colocated_faults(scenario: Scenario) -> Iterator[Fault]:
    """What does not fit a pool that prefills and decodes in one batch; nothing where there is none."""
    name = scenario.colocated_pool
    if name is None:
        return
    yield from _colocated_pool_faults(name, scenario.pools[name])
    for other, pool in scenario.pools.items():
        if other != name:
            yield from _beside_faults(scenario, name, other, pool)
    prefill = [other for other, pool in scenario.pools.items() if pool.role == "prefill"]
    for other in prefill[1:]:
        what = f'is "prefill", and pools.{prefill[0]} takes the long prompts beside the colocated pools.{name}'
        yield Fault(("pools", other, "role"), f"{what} (one prefill pool at most)")
    yield from _question_faults(scenario, name, bool(prefill))


def _colocated_pool_faults(name: str, pool: Pool) -> Iterator[Fault]:
    if pool.service_times == "measured":
        what = 'is "measured", and nobody measures passes with prompts and decoding sequences'
        yield Fault(("pools", name, "service_times"), f'{what} ("roofline", or leave it out)')


def _beside_faults(scenario: Scenario, name: str, other: str, pool: Pool) -> Iterator[Fault]:
    """What does not fit of another pool."""
    home, key = scenario.pools[name], ("pools", other)
    beside = f"beside the colocated pools.{name}"
    if pool.role != "prefill":
        what = f'is "{pool.role}" {beside}, which decodes all requests of its model'
        yield Fault((*key, "role"), f'{what} ("prefill" at another site with a link to it, for long prompts)')
        return
    links = [(link.from_site, link.to_site) for link in scenario.links.values()]
    if pool.site == home.site:
        what = f"is '{pool.site}', where pools.{name} takes the prompts that stay"
        yield Fault((*key, "site"), f"{what} (another site with a link to '{home.site}', for long prompts)")
    elif (pool.site, home.site) not in links:
        what = f"is '{pool.site}', from which no link leads to '{home.site}'"
        yield Fault((*key, "site"), f"{what} (a site with a link to it)")
    if pool.prompts == "short":
        yield Fault((*key, "prompts"), f'is "short" {beside}, which takes the short ones ("long", or leave it out)')
    if pool.model != home.model:
        yield Fault((*key, "model"), f"is another one than that of pools.{name} (one model, or no colocated pool)")


def _question_faults(scenario: Scenario, name: str, is_split: bool) -> Iterator[Fault]:
    """What is not planned with a colocated pool."""
    beside = f"with the colocated pools.{name}"
    if scenario.periods:
        yield Fault(("periods",), f"are not planned {beside} (one demand at all times)")
    for other, pool in scenario.pools.items():
        everyone = tuple(c for c in scenario.workloads if scenario.model_of(c) == pool.model)
        if pool.classes and set(pool.classes) != set(everyone):
            yield Fault(("pools", other, "classes"), f"are not all of its model's {beside} (all, or leave it out)")
    for key, value, planned in (
        (("routing", "prefill_to_decode"), scenario.routing.prefill_to_decode, "free"),
        (("capacity_rule",), scenario.capacity_rule, "expected-work"),
        (("dispatch",), scenario.dispatch, "shared-queue"),
        (("prefill_batching",), scenario.prefill_batching, "one-at-a-time"),
    ):
        if value != planned:
            yield Fault(key, f'is "{value}", which is not planned {beside} ("{planned}")')
    if scenario.routing.role_conversion:
        yield Fault(("routing", "role_conversion"), f"is true, which is not planned {beside} (false)")
    if "site" in scenario.spare.survive:
        yield Fault(("spare", "survive"), f'names "site", which is not planned {beside} ("instance" and "link")')
    if is_split and len(scenario.workloads) > 1 and scenario.routing.thresholds != "per-model":
        what = f"is {scenario.routing.thresholds}, and classes share the threshold of a prefill pool {beside}"
        yield Fault(("routing", "thresholds"), f'{what} ("per-model")')
