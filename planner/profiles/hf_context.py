"""The longest context that a config states: its positions, times what RoPE scaling makes of them."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from planner.profiles.hf_config import HfConfig

POSITIONS = "max_position_embeddings"
COUNTED: tuple[str, ...] = ("default", "llama3", "longrope", "su", "mrope")
"""Kinds of RoPE scaling that the positions of a config count already."""
MOST_TOKENS = 10**9


def context_limit_tokens(config: HfConfig) -> int | None:
    """Longest context of a config [tokens]; None where it states no positions, a problem where they make no sense.

    Equation:
        yarn: original_max_position_embeddings factor; linear, dynamic: max_position_embeddings factor; else as stated

    Source:
        `_get_and_verify_max_len` of vLLM; `rope_scaling` of Transformers. Positions of Gemma 3 are scaled already.
    """
    positions = config.optional(POSITIONS)
    if positions is None or positions > MOST_TOKENS:
        if positions is not None:
            config.refuse(POSITIONS, f"is {positions}", f"at most {MOST_TOKENS}")
        return None
    if str(config.data.get("model_type")).startswith("gemma3"):
        return positions
    return max([positions if found is None else found for found in _scaled(config, positions)], default=positions)


def _scaled(config: HfConfig, positions: int) -> Iterator[int | None]:
    """Positions of a config under each of its scalings; None where it leaves them, or is faulty."""
    key = "rope_scaling" if config.data.get("rope_scaling") else "rope_parameters"
    stated = config.get(key)
    if not isinstance(stated, Mapping):
        return
    kinds = [stated] if _kind(stated) else [part for part in stated.values() if isinstance(part, Mapping)]
    for part in kinds:
        yield None if _kind(part) in (None, *COUNTED) else _times(config, key, part, positions)


def _kind(scaling: Mapping[str, Any]) -> str | None:
    found = scaling.get("rope_type", scaling.get("type"))
    return None if found is None else str(found)


def _times(config: HfConfig, key: str, scaling: Mapping[str, Any], positions: int) -> int | None:
    factor, start = scaling.get("factor", 1.0), scaling.get("original_max_position_embeddings")
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not (isfinite(factor) and factor > 0):
        config.refuse(f"{key}.factor", f"is {str(factor)[:40]}", "a number above 0")
        return None
    if _kind(scaling) != "yarn" or not isinstance(start, int) or isinstance(start, bool) or start < 1:
        start = positions
    return int(min(start * factor, MOST_TOKENS))
