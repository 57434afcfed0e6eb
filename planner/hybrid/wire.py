"""Caches as the bytes that travel and are kept: latents and taps in bf16, recurrent states in fp32, layer by layer."""

import numpy as np

from planner.errors import InputError, InputProblem
from planner.hybrid.arrays import from_host, n_values, to_host
from planner.hybrid.cache import LatentCache, LayerCache, RequestCache
from planner.hybrid.numerics import from_bf16, to_bf16
from planner.profiles import KdaLayers, MlaLayers

STATE_BYTES_PER_VALUE = 4
BF16_BYTES = 2


def latent_bytes_per_token(group: KdaLayers | MlaLayers) -> int:
    """Size of one layer's latents per token [B]: (kv_lora_rank + qk_rope_head_dim) 2, nothing for KDA."""
    return BF16_BYTES * (group.kv_lora_rank + group.qk_rope_head_dim) if isinstance(group, MlaLayers) else 0


def state_bytes(group: KdaLayers | MlaLayers) -> int:
    """Size of one layer's state per request, whatever its length [B].

    Equation:
        4 heads d^2 + 2 (conv_kernel - 1) 3 heads d for KDA, nothing for MLA

    Args:
        group: layers of one kind.

    Returns:
        Bytes of one layer.

    Source:
        Kimi Linear (2025), section 3; formats as SGLang keeps them.
    """
    if isinstance(group, MlaLayers):
        return 0
    inner = group.n_heads * group.head_dim
    return STATE_BYTES_PER_VALUE * inner * group.head_dim + BF16_BYTES * 3 * inner * (group.conv_kernel - 1)


def layer_payload(layer: LayerCache, first_token: int = 0) -> bytes:
    """One layer of a request as bytes: its latents from a token on, or its state and taps whole.

    Args:
        first_token: first token of the latents, whose earlier ones the receiver has.
    """
    if isinstance(layer, LatentCache):
        return to_bf16(layer.values[first_token:]).astype("<u2", copy=False).tobytes()
    state = to_host(layer.state).astype("<f4", copy=False).tobytes()
    return state + to_bf16(layer.taps).astype("<u2", copy=False).tobytes()


def take_payload(layer: LayerCache, payload: bytes | memoryview) -> None:
    """Put one layer's bytes into its cache: latents after those that are there, a state in place of what is there.

    Raises:
        InputError: the payload is not as long as the layer's shape asks for.
    """
    if isinstance(layer, LatentCache):
        _take_latents(layer, payload)
        return
    size = n_values(layer.state) * STATE_BYTES_PER_VALUE
    expected = size + n_values(layer.taps) * BF16_BYTES
    if len(payload) != expected:
        raise InputError(InputProblem("payload", "state", f"has {len(payload)} bytes", f"{expected} for this layer"))
    layer.state[:] = from_host(np.frombuffer(payload[:size], "<f4").reshape(layer.state.shape), layer.state)
    taps = np.frombuffer(payload[size:], "<u2").astype(np.uint16, copy=False)
    layer.taps = from_host(from_bf16(taps).reshape(layer.taps.shape), layer.taps)


def _take_latents(layer: LatentCache, payload: bytes | memoryview) -> None:
    width = layer.buffer.shape[1]
    if len(payload) % (width * BF16_BYTES):
        allowed = f"a multiple of {width * BF16_BYTES}"
        raise InputError(InputProblem("payload", "latents", f"has {len(payload)} bytes", allowed))
    bits = np.frombuffer(payload, "<u2").astype(np.uint16, copy=False)
    layer.append(from_host(from_bf16(bits).reshape(-1, width), layer.buffer))


def cache_bytes(cache: RequestCache) -> int:
    """Size of a request's payloads [B], without making them."""
    latents = sum(BF16_BYTES * layer.n_tokens * layer.buffer.shape[1] for layer in cache.latents)
    values = sum(STATE_BYTES_PER_VALUE * n_values(layer.state) for layer in cache.states)
    taps = sum(BF16_BYTES * n_values(layer.taps) for layer in cache.states)
    return int(latents + values + taps)
