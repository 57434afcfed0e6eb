"""Cache of a request between tokens: recurrent states and convolution taps of KDA layers, latents of MLA layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.hybrid.arrays import HOST, FloatArray, namespace
from planner.profiles import KdaLayers, MlaLayers

LEAST_CAPACITY_TOKENS = 64


@dataclass(eq=False)
class KdaState:
    """One KDA layer of one request."""

    state: FloatArray
    """[heads, head_dim, head_dim]."""
    taps: FloatArray
    """Last inputs of the convolution, oldest first; values that bf16 can hold [conv_kernel - 1, channels]."""


@dataclass(eq=False)
class LatentCache:
    """One MLA layer of one request: per token the normed latent and the rotated key that all heads share."""

    buffer: FloatArray
    """[capacity, kv_lora_rank + qk_rope_head_dim]; values that bf16 can hold."""
    n_tokens: int = 0

    @property
    def values(self) -> FloatArray:
        """Latents of the tokens so far [tokens, width]."""
        return self.buffer[: self.n_tokens]

    def append(self, rows: FloatArray) -> None:
        """Latents of more tokens; room doubles where there is too little."""
        needed = self.n_tokens + len(rows)
        if needed > len(self.buffer):
            shape = (max(needed, 2 * len(self.buffer)), self.buffer.shape[1])
            grown = namespace(self.buffer).empty(shape, dtype=self.buffer.dtype, device=self.buffer.device)
            grown[: self.n_tokens] = self.values
            self.buffer = grown
        self.buffer[self.n_tokens : needed] = rows
        self.n_tokens = needed


LayerCache = KdaState | LatentCache


@dataclass(eq=False)
class RequestCache:
    """All layers of one request."""

    layers: list[LayerCache]
    n_tokens: int = 0
    """Tokens that every layer has seen."""

    @property
    def states(self) -> list[KdaState]:
        """KDA layers, in order."""
        return [layer for layer in self.layers if isinstance(layer, KdaState)]

    @property
    def latents(self) -> list[LatentCache]:
        """MLA layers, in order."""
        return [layer for layer in self.layers if isinstance(layer, LatentCache)]


def empty_cache(
    mixers: Sequence[KdaLayers | MlaLayers], dtype: Any = np.float32, like: FloatArray = HOST
) -> RequestCache:
    """The cache of a request before its first token.

    Args:
        dtype: format that is computed in, as the library names it.
        like: an array of that library, on the device that computes.
    """
    return RequestCache([_empty_layer(group, dtype, like) for group in mixers])


def _empty_layer(group: KdaLayers | MlaLayers, dtype: Any, like: FloatArray) -> LayerCache:
    xp, kind = namespace(like), {"dtype": dtype, "device": like.device}
    if isinstance(group, KdaLayers):
        dim, n_heads = group.head_dim, group.n_heads
        taps = xp.zeros((group.conv_kernel - 1, 3 * n_heads * dim), **kind)
        return KdaState(xp.zeros((n_heads, dim, dim), **kind), taps)
    width = group.kv_lora_rank + group.qk_rope_head_dim
    return LatentCache(xp.empty((LEAST_CAPACITY_TOKENS, width), **kind))
