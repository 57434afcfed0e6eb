"""Keys of a config that say what single layers have: those that no family maps are refused, as they change counts."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from planner.errors import shown
from planner.profiles.hf_config import HfConfig
from planner.profiles.hf_parts import Table

BY_NAME = re.compile(
    r"(?:^|_)(?:freq|frequency|interval|layers|pattern|types|step|stride|period|indices|indexes|layer_ids?|layer_idx"
    r"|layer_offset|layer_index|layer_configs?|block_configs|layer_type|block_types?|layer_list|start_index|end_index"
    r"|dense_replace|layer_num_skipped|schedule|overrides?|per_layer(?:_\w+)?)$"
)
"""Names that say which layers have something, or how many of them."""
REVIEWED = re.compile(r"(?:^|_)mtp(?:_|$)|^(?:num_nextn_predict_layers|max_window_layers)$")
"""Keys with such names that are known not to matter: of MTP layers, which are counted by their number alone; and of
windows in upper layers, which each family with windows reads."""
OTHER_TOWERS = re.compile(
    r"(?:^|_)(?:vision|visual|audio|image|video|speech|talker|code2wav|projector)(?:_|$)|^(?:vit|thinker_speech)"
)
"""Tables and keys of images and sound, which a text model's profile leaves out."""
NEUTRAL = (None, False, 0, "", "full_attention", "attention", "full", "dense")
"""Values that leave every layer as it is: no layers, attention over all keys."""
EVERY = re.compile(r"(?:freq|frequency|interval|step|stride|period)$")
"""Names of which 1 means every layer."""
ALIKE = ("full_attention", "attention", "full")
FEWEST_LETTERS = 8
"""Shortest string that is taken for a pattern by its length alone."""


def refuse_by_layer(config: HfConfig, found: Table) -> None:
    """Refuse keys that say what single layers have and that nothing read, by their names or their lengths.

    Args:
        config: a config that its family has read.
        found: its architecture.
    """
    n_layers = int(found["n_layers"])
    _hold_mlps(config, found, n_layers)
    for path, value in _unread(config.data, [*config.unmapped()], n_layers):
        allowed = "absent: it says what single layers have, and no family counts it"
        config.refuse(path, f"is {shown(value)}", allowed)


def _unread(table: Mapping[str, Any], keys: Iterable[str], n_layers: int, path: str = "") -> Iterator[tuple[str, Any]]:
    """Keys of a table, and of those inside it, that speak of single layers."""
    for key in keys:
        value = table[key]
        if REVIEWED.search(key) or OTHER_TOWERS.search(key):
            continue
        if _is_by_layer(key, value, n_layers):
            yield path + key, value
        elif isinstance(value, dict):
            yield from _unread(value, value, n_layers, f"{path}{key}.")


def _is_by_layer(key: str, value: Any, n_layers: int) -> bool:
    is_named = bool(BY_NAME.search(key))
    if isinstance(value, list):
        if not value or all(item in ALIKE for item in value):
            return False
        return is_named or len(value) == n_layers > 1
    if isinstance(value, dict):
        return bool(value) and (is_named or all(str(name).isdigit() for name in value))
    if isinstance(value, str) and len(value) == n_layers >= FEWEST_LETTERS and not value.islower():
        return True
    if not is_named or value in NEUTRAL:
        return False
    return bool(value != (1 if EVERY.search(key) else n_layers))


def _hold_mlps(config: HfConfig, found: Table, n_layers: int) -> None:
    """A list of dense and sparse MLPs has to be what the other keys say of them."""
    moe = found.get("moe")
    period, offset = (moe or {}).get("layer_period", 1), (moe or {}).get("layer_offset", 0)
    first = (moe or {}).get("n_dense_first_layers", 0)
    sparse = [moe is not None and layer >= first and layer % period == offset for layer in range(n_layers)]
    for key, dense_or_sparse in (("mlp_layer_types", ("dense", "sparse")), ("is_moe_layer", (False, True))):
        listed = config.data.get(key)
        if isinstance(listed, list) and not found.get("mlp_only"):
            config.get(key)
            if listed != [dense_or_sparse[one] for one in sparse]:
                other = f"{sparse.count(True)} sparse layers, as the other keys have them"
                config.refuse(key, f"is {shown(listed)}", other)
