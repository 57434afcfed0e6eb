"""Physical size of a request's cache: what the ranks of an instance hold, copies and padding included."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.profiles import (
    AttentionLayers,
    GdnLayers,
    GqaLayers,
    KdaLayers,
    LightningLayers,
    Mamba1Layers,
    Mamba2Layers,
    MlaLayers,
    ModelProfile,
    SwaLayers,
)
from planner.roofline.kv_cache import BYTES_PER_VALUE, kv_values_per_token, layer_index_bytes, layer_state_bytes
from planner.roofline.stages import mixers_by_stage

BLOCK_TOKENS = 64
"""Tokens of one cache block; a request occupies whole blocks."""
LATENT_VALUES_PER_SCALE = 128
"""Sparse attention's fp8 cache scales that many latent values together, and leaves positions in bf16."""


def kv_bytes_per_rank(
    model: ModelProfile,
    tokens: ArrayLike,
    kv_precision: str = "bf16",
    *,
    tp_size: int = 1,
    pp_size: int = 1,
    block_tokens: int = BLOCK_TOKENS,
) -> NDArray[np.float64]:
    """Cache and state of one request on one of the ranks that hold it.

    Equation:
        heads of a rank: ceil(heads / tp), so that they are copied where tp exceeds them; MLA latents and index keys
        are whole on every rank; lengths are rounded up to blocks; the stage whose layers keep most counts

    Args:
        model: a model whose attention shapes are known.
        tokens: request lengths [tokens], any shape.
        kv_precision: number format of the attention cache.
        tp_size: ranks that share the request's attention; under attention data parallelism those of one replica.
        pp_size: pipeline stages.
        block_tokens: tokens of a cache block.

    Returns:
        Bytes on a rank of the fullest stage [B], the shape of tokens.

    Valid:
        Stages of consecutive layers, as many on each as whole layers allow.

    Source:
        Head copies: kvcache-ai/Mooncake, SGLang benchmark, Qwen3-235B at TP8; fp8 sparse layout of 656 bytes:
        deepseek-ai/FlashMLA.

    >>> from planner.profiles import model_profile
    >>> kv_bytes_per_rank(model_profile("qwen3-235b"), [1024, 1025], tp_size=8).tolist()
    [49283072.0, 52363264.0]
    """
    length = np.asarray(tokens, float)
    layers = []
    for group in model.architecture.attention:
        held = _padded(np.minimum(length, _window(group)), block_tokens)
        shard = layer_shard(group, tp_size)
        layers.append(layer_bytes_per_token(shard, kv_precision) * held + layer_state_bytes(shard))
    counts = mixers_by_stage(model.architecture, pp_size)
    return np.asarray(np.tensordot(counts, np.stack(layers), axes=1).max(axis=0))


def physical_kv_bytes(
    model: ModelProfile,
    tokens: ArrayLike,
    kv_precision: str = "bf16",
    *,
    tp_size: int = 1,
    block_tokens: int = BLOCK_TOKENS,
) -> NDArray[np.float64]:
    """Cache and state of one request over all the ranks that hold it.

    Equation:
        tp kv_bytes_per_rank

    Args:
        model: a model whose attention shapes are known.
        tokens: request lengths [tokens], any shape.
        kv_precision: number format of the attention cache.
        tp_size: ranks that share the request's attention.
        block_tokens: tokens of a cache block.

    Returns:
        Physical bytes [B], the shape of tokens.

    Source:
        As `kv_bytes_per_rank`.

    >>> from planner.profiles import model_profile
    >>> float(physical_kv_bytes(model_profile("qwen3-235b"), 1024, tp_size=8))
    394264576.0
    """
    per_rank = kv_bytes_per_rank(model, tokens, kv_precision, tp_size=tp_size, block_tokens=block_tokens)
    return np.asarray(tp_size * per_rank)


def physical_kv_bytes_per_token(model: ModelProfile, kv_precision: str = "bf16", *, tp_size: int = 1) -> float:
    """Physical bytes that one more token takes over all ranks, once past every window, padding aside.

    Args:
        model: a model whose attention shapes are known.
        kv_precision: number format of the attention cache.
        tp_size: ranks that share the request's attention.

    Returns:
        Bytes per token [B].

    Source:
        As `kv_bytes_per_rank`.

    >>> from planner.profiles import model_profile
    >>> physical_kv_bytes_per_token(model_profile("qwen3-235b"), tp_size=8)
    385024.0
    """
    groups = [group for group in model.architecture.attention if not isinstance(group, SwaLayers)]
    per_rank = sum(g.n_layers * layer_bytes_per_token(layer_shard(g, tp_size), kv_precision) for g in groups)
    return tp_size * per_rank


def layer_bytes_per_token(group: AttentionLayers, kv_precision: str = "bf16") -> float:
    """Physical bytes that one layer keeps per token: KV, and index keys where attention is sparse [B].

    >>> from planner.profiles import model_profile
    >>> layer_bytes_per_token(model_profile("glm-5").architecture.attention[0], "fp8")
    788.0
    """
    width = BYTES_PER_VALUE[kv_precision]
    if not isinstance(group, MlaLayers) or group.indexer is None:
        return kv_values_per_token(group) * width
    index = layer_index_bytes(group.indexer)
    if kv_precision != "fp8":
        return kv_values_per_token(group) * width + index
    return group.kv_lora_rank * (1 + 4 / LATENT_VALUES_PER_SCALE) + 2 * group.qk_rope_head_dim + index


def layer_shard(group: AttentionLayers, tp_size: int) -> AttentionLayers:
    """Part of a layer that one of tp_size ranks caches: its share of the heads that keep something, at least one.

    >>> from planner.profiles import GqaLayers
    >>> layer_shard(GqaLayers(kind="gqa", n_layers=1, n_heads=64, n_kv_heads=4, head_dim=128), 8).n_kv_heads
    1
    """
    counts = {name: -(-getattr(group, name) // tp_size) for name in _sharded_counts(group)}
    return group.model_copy(update=counts)


def _sharded_counts(group: AttentionLayers) -> tuple[str, ...]:
    match group:
        case GqaLayers() | SwaLayers():
            return ("n_kv_heads",)
        case KdaLayers() | LightningLayers():
            return ("n_heads",)
        case GdnLayers():
            return ("n_key_heads", "n_value_heads")
        case Mamba1Layers():
            return ("inner_size",)
        case Mamba2Layers():
            return ("n_heads", "n_groups")
        case MlaLayers():
            return ()


def _window(group: AttentionLayers) -> float:
    return float(group.window) if isinstance(group, SwaLayers) else np.inf


def _padded(tokens: NDArray[np.float64], block_tokens: int) -> NDArray[np.float64]:
    return np.asarray(np.ceil(tokens / block_tokens) * block_tokens)
