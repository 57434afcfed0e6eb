"""Memory of a prefill instance for caches, and the prompts that it can hold at all.

The optimizer counts by itself; only the roofline's bytes are shared.
"""

from dataclasses import dataclass
from math import ceil

from planner.curves import Curve
from planner.profiles import MeasuredInstance, SwaLayers
from planner.roofline import BLOCK_TOKENS, MemoryFit, ServedModel, kv_bytes_per_rank, longest_request
from planner.units import GB

ENDS = (1 << 17, 1 << 18)
"""Lengths beyond every window: from there on bytes grow evenly."""


@dataclass(frozen=True, eq=False)
class Room:
    """Memory of a prefill instance for the caches of its prompts."""

    memory_bytes: float
    """Of a rank, those of all replicas together [B]."""
    held: Curve
    """What a prompt takes of it by length, in whole blocks [B]."""
    longest_tokens: float
    """Longest prompt that one replica holds [tokens]."""


def prefill_room(served: ServedModel, measured: MeasuredInstance | None, memory_gb: float | None) -> Room:
    """Room of a prefill instance beside the weights.

    Args:
        served: the model on the instance.
        measured: whose times are used instead, if any: what somebody ran on it fits.
        memory_gb: room that the scenario states [GB]; None: as counted.

    Returns:
        Room of the instance; a prompt lies on one of its data-parallel replicas.
    """
    layout, held = served.layout, _held(served)
    replica = max(served.memory.cache_bytes, 0.0) if memory_gb is None else memory_gb * GB / layout.dp_size
    longest = longest_request(served.cached_model, MemoryFit(replica, 0.0, 0.0), layout, served.kv_precision)
    ran = None if measured is None or measured.basis != "measured" or memory_gb is not None else measured.prefill
    if ran is not None and ran.tokens[-1] > longest:
        longest, replica = ran.tokens[-1], float(held(ran.tokens[-1] + BLOCK_TOKENS))
    return Room(layout.dp_size * replica, held, longest)


def _held(served: ServedModel) -> Curve:
    """Cache and state on a rank: straight between the ends of windows, where lengths are whole blocks."""
    windows = [group.window for group in served.cached_model.architecture.attention if isinstance(group, SwaLayers)]
    tokens = sorted({BLOCK_TOKENS, *(ceil(window / BLOCK_TOKENS) * BLOCK_TOKENS for window in windows), *ENDS})
    layout = served.layout
    sizes = {"tp_size": layout.tp_size, "pp_size": layout.pp_size}
    return Curve.linear(tokens, kv_bytes_per_rank(served.cached_model, tokens, served.kv_precision, **sizes).tolist())
