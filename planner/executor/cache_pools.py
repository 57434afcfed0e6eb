"""The prefix cache pools of a system, empty, and the rule they follow."""

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.executor.kernel.control_records import CACHE, CACHE_RULE, ENTRY
from planner.executor.kernel.records import NONE, PROMPT
from planner.executor.prompt_blocks import PromptBlocks
from planner.results.plan import LinkPlan
from planner.roofline import index_key_bytes_per_token, kv_bytes_per_token, recurrent_state_bytes, window_bytes
from planner.scenario import Scenario
from planner.units import GB
from planner.workload.traces import BLOCK_TOKENS

UNLIMITED = 2**62
FAR_TOKENS = 10**9
"""A length beyond every window."""


def no_caches(n_sites: int = 0) -> dict[str, Any]:
    """The fields of a state that are about caches, where nothing is kept."""
    caches = np.zeros(n_sites, dtype=CACHE)
    caches["newest"] = caches["oldest"] = NONE
    return {
        "cache_rule": np.zeros(1, dtype=CACHE_RULE),
        "caches": caches,
        "entries": np.zeros((n_sites, 1), dtype=ENTRY),
        "blocks": np.zeros(1, dtype=np.int32),
        "block_offsets": np.zeros(1, dtype=np.int64),
        "prompts": np.zeros(0, dtype=PROMPT),
        "site_links": np.full((n_sites, n_sites), NONE, dtype=np.int32),
    }


def cache_fields(scenario: Scenario, plans: Sequence[LinkPlan], blocks: PromptBlocks | None) -> dict[str, Any]:
    """The fields of a state that are about caches.

    Args:
        blocks: blocks of every prompt; None where nothing is kept.
    """
    sites = list(scenario.sites)
    fields = no_caches(len(sites))
    rule, caches = fields["cache_rule"], fields["caches"]
    for k, link in enumerate(plans):
        if link.capacity_gbps > 0:
            fields["site_links"][sites.index(link.from_site), sites.index(link.to_site)] = k
    if blocks is not None and scenario.execution.cache is not None:
        n_blocks = blocks.n_numbers
        block, state = block_bytes(scenario, blocks.block_tokens), state_bytes(scenario)
        rule["is_on"], rule["is_ample"] = 1, scenario.execution.cache.bandwidth == "ample"
        rule["block_tokens"], rule["n_blocks"], rule["block_bytes"] = blocks.block_tokens, n_blocks, block
        rule["state_blocks"] = ceil(state / block) if scenario.execution.cache.exact_states else 0
        rule["interval_blocks"] = scenario.execution.cache.state_interval_tokens // blocks.block_tokens
        limits = scenario.execution.cache.capacity_gb
        caches["capacity_blocks"] = [int(limits[s] * GB / block) if s in limits else UNLIMITED for s in sites]
        fields["entries"] = np.zeros((len(sites), max(2 * n_blocks, 1)), dtype=ENTRY)
    if blocks is not None:
        fields |= {"blocks": blocks.values, "block_offsets": blocks.offsets, "prompts": blocks.prompts}
    return fields


def block_bytes(scenario: Scenario, block_tokens: int = BLOCK_TOKENS) -> float:
    """Bytes of a block: the attention KV of its tokens, index keys included; of a state where there is none [B]."""
    model = scenario.model_profile
    per_token = kv_bytes_per_token(model, scenario.model.kv_precision) + index_key_bytes_per_token(model)
    return per_token * block_tokens if per_token > 0 else state_bytes(scenario)


def state_bytes(scenario: Scenario) -> float:
    """Bytes of what is reusable at its exact length only: recurrent states and sliding windows [B]."""
    model = scenario.model_profile
    windows: NDArray[np.float64] = window_bytes(model, FAR_TOKENS, scenario.model.kv_precision)
    return recurrent_state_bytes(model) + float(windows)
