"""The rebalancing of a system's cache pools, before anything has moved."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from planner.errors import InputError
from planner.executor.kernel.control_records import MOVER, REBALANCER
from planner.executor.kernel.records import NONE, OFFER, POOL_CURVES, PREFIX, USED, USES, Records
from planner.executor.prompt_blocks import PromptBlocks
from planner.results.plan import LinkPlan, PoolPlan
from planner.scenario import CacheRebalance, Scenario

N_OFFERS = 256
"""Moves at the most that a link is offered at a look; few links carry so many between two looks."""


def check_rebalance(scenario: Scenario, prefill: Sequence[PoolPlan], links: Sequence[LinkPlan]) -> None:
    """Nothing, where there is something to rebalance or nobody asks for it.

    Raises:
        InputError: it is asked for, and no link leads from one site that prefills to another.
    """
    if stated_rebalance(scenario) is None or any(_joins(prefill, link) for link in links):
        return
    what = "has nothing to move: no link of the plan leads from one site that prefills to another"
    allowed = "a plan with such a link, or no rebalance"
    raise InputError(scenario.problem(("execution", "cache", "rebalance"), what, allowed))


def stated_rebalance(scenario: Scenario) -> CacheRebalance | None:
    """Rebalancing of the scenario's caches, if there is one."""
    return None if scenario.execution.cache is None else scenario.execution.cache.rebalance


def nothing_moved(first_actor: int) -> dict[str, Any]:
    """The fields of a state that are about moves of prefixes, where nothing is moved; its first actor as below."""
    own = np.zeros(1, dtype=REBALANCER)
    own["actor"], own["first_mover"] = first_actor, first_actor + 1
    empty = {"movers": MOVER, "prefixes": PREFIX, "uses": USES}
    fields = {name: np.zeros(0, dtype=dtype) for name, dtype in empty.items()}
    return {"rebalancer": own, **fields, "offers": np.zeros((0, 0), OFFER), "used": np.zeros((0, 0), USED)}


def rebalance_fields(
    scenario: Scenario,
    prefill: Sequence[PoolPlan],
    plans: Sequence[LinkPlan],
    blocks: PromptBlocks | None,
    first_actor: int,
) -> dict[str, Any]:
    """The fields of a state that are about moves of prefixes between cache pools.

    Args:
        blocks: blocks of every prompt; None where nothing is kept.
        first_actor: of the rebalancing's own: the look, then one per link.
    """
    fields, stated, sites = nothing_moved(first_actor), stated_rebalance(scenario), list(scenario.sites)
    own = fields["rebalancer"]
    if stated is None or blocks is None:
        return fields
    own["is_on"], own["spills"], own["min_uses"] = 1, stated.spill, stated.min_uses
    own["interval_s"] = stated.interval_s
    prefixes, uses = _prefixes(blocks), np.zeros(len(sites), dtype=USES)
    uses["newest"] = NONE
    return {
        "rebalancer": own,
        "movers": _movers(sites, prefill, plans),
        "offers": np.zeros((len(plans), N_OFFERS), dtype=OFFER),
        "prefixes": prefixes,
        "used": np.zeros((len(sites), len(prefixes)), dtype=USED),
        "uses": uses,
    }


def _joins(prefill: Sequence[PoolPlan], link: LinkPlan) -> bool:
    """True if a link leads from one site that prefills to another."""
    return link.capacity_gbps > 0 and {link.from_site, link.to_site} <= {pool.site for pool in prefill}


def _movers(sites: Sequence[str], prefill: Sequence[PoolPlan], plans: Sequence[LinkPlan]) -> Records:
    """One per link; of two links between the same sites the last moves, which is also the one that prefixes are fetched
    over. Bytes are those of the first pool at the destination, as for what it fetches."""
    movers = np.zeros(len(plans), dtype=MOVER)
    movers["end"] = NONE
    last = {(link.from_site, link.to_site): k for k, link in enumerate(plans) if _joins(prefill, link)}
    for (from_site, to_site), k in last.items():
        movers[k]["is_used"] = 1
        movers[k]["from_site"], movers[k]["to_site"] = sites.index(from_site), sites.index(to_site)
        pool = next(p for p, pool in enumerate(prefill) if pool.site == to_site)
        movers[k]["wire_curve"] = len(POOL_CURVES) * pool + POOL_CURVES.index("wire_curve")
    return movers


def _prefixes(blocks: PromptBlocks) -> Records:
    """Where the prefix that ends with a block stands: in the first prompt that has it; shape (blocks,)."""
    found = np.zeros(blocks.n_numbers, dtype=PREFIX)
    for shift in np.unique(blocks.prompts["shift"]):
        mine = blocks.prompts["row"][blocks.prompts["shift"] == shift]
        rows = mine[np.sort(np.unique(mine, return_index=True)[1])]  # each once, in the order of their requests
        starts, counts = blocks.offsets[rows], np.diff(blocks.offsets)[rows]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = np.repeat(starts, counts)
        numbers, at = np.unique(blocks.values[starts + within], return_index=True)
        found["first"][numbers + shift], found["n"][numbers + shift] = starts[at], within[at] + 1
        found["shift"][numbers + shift] = shift
    return found
