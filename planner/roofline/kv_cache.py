"""Logical size of what a prefill hands to decode: one copy, attention KV by token, recurrent state whole."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.curves import Curve
from planner.profiles import (
    AttentionLayers,
    GdnLayers,
    GqaLayers,
    Indexer,
    KdaLayers,
    LightningLayers,
    Mamba1Layers,
    Mamba2Layers,
    MlaLayers,
    ModelProfile,
    SwaLayers,
)

BYTES_PER_VALUE = {"bf16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5, "fp4": 0.5}
STATE_BYTES_PER_VALUE = 4.0
"""Recurrent state is kept in fp32 whatever the precision of the weights."""
CONVOLUTION_BYTES_PER_VALUE = 2.0
"""Convolution taps are kept in bf16."""
INDEX_BYTES_PER_SCALE = 4.0
"""An index key is fp8 with one fp32 scale per INDEX_VALUES_PER_SCALE values."""
INDEX_VALUES_PER_SCALE = 128


def kv_bytes_per_token(model: ModelProfile, kv_precision: str = "bf16") -> float:
    """Attention KV cache per token over all layers whose cache grows without limit.

    Equation:
        GQA: n_layers n_kv_heads (head_dim + v_head_dim) b;  MLA: n_layers (kv_lora_rank + qk_rope_head_dim) b;
        sliding windows and recurrent layers: 0

    Args:
        model: a model whose attention shapes are known.
        kv_precision: number format of the cache, which sets b, the bytes per value.

    Returns:
        Logical bytes per token [B].

    Raises:
        KeyError: for an unknown precision.

    Valid:
        One copy; heads replicated under tensor parallelism and index keys count in physical bytes only.

    Source:
        GQA: Ainslie et al. 2023; MLA: DeepSeek-V2 (2024), section 2.1; KDA: Kimi Linear (2025).

    >>> from planner.profiles import model_profile
    >>> kv_bytes_per_token(model_profile("prfaas-1t")), kv_bytes_per_token(model_profile("mimo-v2-flash"))
    (17280.0, 23040.0)
    """
    width, groups = BYTES_PER_VALUE[kv_precision], model.architecture.attention
    return sum(g.n_layers * kv_values_per_token(g) * width for g in groups if not isinstance(g, SwaLayers))


def kv_values_per_token(group: AttentionLayers) -> int:
    """Values that one attention layer caches per token, while they are in its window; none where it is recurrent.

    >>> from planner.profiles import model_profile
    >>> kv_values_per_token(model_profile("llama-3.1-8b").architecture.attention[0])
    2048
    """
    match group:
        case GqaLayers() | SwaLayers():
            return group.n_kv_heads * (group.head_dim + group.value_dim)
        case MlaLayers():
            return group.kv_lora_rank + group.qk_rope_head_dim
        case _:
            return 0


def recurrent_state_bytes(model: ModelProfile) -> float:
    """State of a request that does not grow with its length; sliding windows not included.

    Equation:
        sum over recurrent layers of 4 state values + 2 convolution taps; see `state_values` and `tap_values`

    Args:
        model: a model whose attention shapes are known.

    Returns:
        Logical bytes per request [B]: states in fp32, and the last conv_kernel - 1 inputs of convolutions in bf16.

    Valid:
        Any length from one token on.

    Source:
        Kimi Linear (2025), section 3; state and tap formats as SGLang 0.5.9 keeps them.

    >>> from planner.profiles import model_profile
    >>> recurrent_state_bytes(model_profile("prfaas-1t"))
    182353920.0
    """
    return sum(group.n_layers * layer_state_bytes(group) for group in model.architecture.attention)


def layer_state_bytes(group: AttentionLayers) -> float:
    """State and taps of one layer and request [B]."""
    return state_values(group) * STATE_BYTES_PER_VALUE + tap_values(group) * CONVOLUTION_BYTES_PER_VALUE


def state_values(group: AttentionLayers) -> int:
    """Values of one recurrent layer's state.

    Equation:
        KDA, Lightning: heads d^2;  GDN: value heads d_key d_value;  Mamba: channels x state;  Mamba-2: heads d state

    >>> from planner.profiles import model_profile
    >>> state_values(model_profile("jamba-v0.1").architecture.attention[0])
    131072
    """
    match group:
        case KdaLayers() | LightningLayers():
            return group.n_heads * group.head_dim**2
        case GdnLayers():
            return group.n_value_heads * group.key_head_dim * group.value_head_dim
        case Mamba1Layers() | Mamba2Layers():
            return group.inner_size * group.state_size
        case _:
            return 0


def tap_values(group: AttentionLayers) -> int:
    """Values that one layer's short convolution keeps: conv_kernel - 1 per channel."""
    match group:
        case KdaLayers() | GdnLayers() | Mamba1Layers() | Mamba2Layers():
            return conv_channels(group) * (group.conv_kernel - 1)
        case _:
            return 0


def conv_channels(group: KdaLayers | GdnLayers | Mamba1Layers | Mamba2Layers) -> int:
    """Channels of one layer's short convolution."""
    match group:
        case KdaLayers():
            return 3 * group.n_heads * group.head_dim
        case Mamba1Layers():
            return group.inner_size
        case GdnLayers() | Mamba2Layers():
            return group.conv_channels


def window_bytes(model: ModelProfile, tokens: ArrayLike, kv_precision: str = "bf16") -> NDArray[np.float64]:
    """Sliding-window KV cache of a request.

    Equation:
        sum over sliding-window layers of n_kv_heads (head_dim + v_head_dim) b min(l, window)

    Args:
        model: a model whose attention shapes are known.
        tokens: request lengths l [tokens], any shape.
        kv_precision: number format of the cache, which sets b.

    Returns:
        Logical bytes [B], the shape of tokens.

    Source:
        Sliding-window attention: Beltagy et al. 2020 (Longformer); Mistral 7B (2023).

    >>> from planner.profiles import model_profile
    >>> window_bytes(model_profile("mimo-v2-flash"), [64, 128, 4096]).tolist()
    [12779520.0, 25559040.0, 25559040.0]
    """
    length, width = np.asarray(tokens, float), BYTES_PER_VALUE[kv_precision]
    total = np.zeros_like(length)
    for group in model.architecture.attention:
        if isinstance(group, SwaLayers):
            total = total + group.n_layers * kv_values_per_token(group) * width * np.minimum(length, group.window)
    return total


def kv_bytes(model: ModelProfile, tokens: ArrayLike, kv_precision: str = "bf16") -> NDArray[np.float64]:
    """S_kv(l): logical bytes of a request of l tokens.

    Equation:
        S_kv(l) = recurrent_state_bytes + kv_bytes_per_token l + window_bytes(l)

    Args:
        model: a model whose attention shapes are known.
        tokens: request lengths l [tokens], any shape.
        kv_precision: number format of the attention cache.

    Returns:
        Logical bytes [B], the shape of tokens.

    Source:
        Prefill-as-a-Service (arXiv 2604.15039v2), Table 4.

    >>> from planner.profiles import model_profile
    >>> (kv_bytes(model_profile("prfaas-1t"), [1024, 8192]) / 2**20).round(1).tolist()
    [190.8, 308.9]
    """
    grown = kv_bytes_per_token(model, kv_precision) * np.asarray(tokens, float)
    return recurrent_state_bytes(model) + grown + window_bytes(model, tokens, kv_precision)


def kv_bytes_curve(model: ModelProfile, kv_precision: str = "bf16") -> Curve:
    """S_kv(l) as a curve, known everywhere: affine, with a bend at each sliding window.

    Args:
        model: a model whose attention shapes are known.
        kv_precision: number format of the attention cache.

    Returns:
        Curve over tokens [B], equal to `kv_bytes`.

    Source:
        Prefill-as-a-Service (arXiv 2604.15039v2), Table 4.

    >>> from planner.profiles import model_profile
    >>> round(float(kv_bytes_curve(model_profile("prfaas-1t"))(8192)) / 2**20, 1)
    308.9
    """
    windows = sorted({float(g.window) for g in model.architecture.attention if isinstance(g, SwaLayers)})
    slope = kv_bytes_per_token(model, kv_precision)
    if not windows:
        return Curve.affine(recurrent_state_bytes(model), slope)
    knots = np.array([0.0, *windows])
    values = kv_bytes(model, knots, kv_precision)
    slopes = np.append(np.diff(values) / np.diff(knots), slope)
    zeros = np.zeros_like(knots)
    inner = np.column_stack([values, slopes, zeros, zeros])
    return Curve(knots, np.vstack([inner[:1], inner]), (0.0, np.inf))


def index_key_bytes_per_token(model: ModelProfile) -> float:
    """Index keys of sparse attention per token over all layers, which logical bytes leave out and the wire carries.

    Equation:
        n_layers (head_dim + 4 head_dim / 128): fp8 values with an fp32 scale per 128

    Args:
        model: any model.

    Returns:
        Bytes per token [B]; 0 without sparse attention.

    Source:
        DeepSeek-V3.2 (2025), the lightning indexer; format as vLLM and SGLang keep it.

    >>> from planner.profiles import model_profile
    >>> index_key_bytes_per_token(model_profile("deepseek-v3.2")) / 61
    132.0
    """
    groups = [g for g in model.architecture.attention if isinstance(g, MlaLayers)]
    return sum(g.n_layers * layer_index_bytes(g.indexer) for g in groups if g.indexer)


def layer_index_bytes(indexer: Indexer) -> float:
    """Bytes of one layer's index key; 0 where it borrows what a layer below picked [B]."""
    return 0.0 if indexer.borrowed else indexer.head_dim * (1.0 + INDEX_BYTES_PER_SCALE / INDEX_VALUES_PER_SCALE)


def wire_bytes(model: ModelProfile, tokens: ArrayLike, kv_precision: str = "bf16") -> NDArray[np.float64]:
    """Traffic between sites of a request of l tokens: logical bytes and index keys.

    Args:
        model: a model whose attention shapes are known.
        tokens: request lengths l [tokens], any shape.

    Returns:
        Bytes [B], the shape of tokens.

    >>> from planner.profiles import model_profile
    >>> float(wire_bytes(model_profile("deepseek-v3.2"), 1)) / 61
    1284.0
    """
    return kv_bytes(model, tokens, kv_precision) + index_key_bytes_per_token(model) * np.asarray(tokens, float)
