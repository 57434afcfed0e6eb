"""Logical size of what a prefill hands to decode: one copy, attention KV by token, recurrent state whole."""

from planner.curves import Curve
from planner.profiles import AttentionLayers, ModelProfile

BYTES_PER_VALUE = {"bf16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5, "fp4": 0.5}
STATE_BYTES_PER_VALUE = 4.0
"""Recurrent state is kept in fp32 whatever the precision of the weights."""
CONVOLUTION_BYTES_PER_VALUE = 2.0
"""Convolution taps are kept in bf16."""


def kv_bytes_per_token(model: ModelProfile, kv_precision: str = "bf16") -> float:
    """Attention KV cache per token over all layers.

    Equation:
        GQA: 2 n_layers n_kv_heads head_dim b;  MLA: n_layers (kv_lora_rank + qk_rope_head_dim) b;  KDA: 0

    Args:
        model: a model whose attention shapes are known.
        kv_precision: number format of the cache, which sets b, the bytes per value.

    Returns:
        Logical bytes per token [B].

    Raises:
        KeyError: for an unknown precision.

    Valid:
        One copy; heads replicated under tensor parallelism count in physical bytes only.

    Source:
        GQA: Ainslie et al. 2023; MLA: DeepSeek-V2 (2024), section 2.1; KDA: Kimi Linear (2025).

    >>> from planner.profiles import model_profile
    >>> kv_bytes_per_token(model_profile("prfaas-1t"))
    17280.0
    """
    width = BYTES_PER_VALUE[kv_precision]
    return sum(group.n_layers * _kv_values_per_token(group) * width for group in model.architecture.attention)


def _kv_values_per_token(group: AttentionLayers) -> int:
    if group.kind == "gqa":
        return 2 * group.n_kv_heads * group.head_dim
    return group.kv_lora_rank + group.qk_rope_head_dim if group.kind == "mla" else 0


def recurrent_state_bytes(model: ModelProfile) -> float:
    """State of a request that does not grow with its length.

    Equation:
        KDA: n_layers n_heads head_dim (4 head_dim + 3 (conv_kernel - 1) 2)

    Args:
        model: a model whose attention shapes are known.

    Returns:
        Logical bytes per request [B]: head_dim x head_dim state per head in fp32, and the last conv_kernel - 1
        inputs of the query, key and value convolutions in bf16.

    Valid:
        Any length from one token on.

    Source:
        Kimi Linear (2025), section 3; state and tap formats as SGLang 0.5.9 keeps them.

    >>> from planner.profiles import model_profile
    >>> recurrent_state_bytes(model_profile("prfaas-1t"))
    182353920.0
    """
    return sum(group.n_layers * _state_bytes_per_layer(group) for group in model.architecture.attention)


def _state_bytes_per_layer(group: AttentionLayers) -> float:
    if group.kind != "kda":
        return 0.0
    channels = group.n_heads * group.head_dim
    taps = 3 * (group.conv_kernel - 1)
    return channels * (group.head_dim * STATE_BYTES_PER_VALUE + taps * CONVOLUTION_BYTES_PER_VALUE)


def kv_bytes_curve(model: ModelProfile, kv_precision: str = "bf16") -> Curve:
    """S_kv(l): bytes handed over after a prefill of l tokens.

    Equation:
        S_kv(l) = recurrent_state_bytes + kv_bytes_per_token l

    Args:
        model: a model whose attention shapes are known.
        kv_precision: number format of the attention cache.

    Returns:
        Curve over tokens [B].

    Source:
        Prefill-as-a-Service (arXiv 2604.15039v2), Table 4.

    >>> from planner.profiles import model_profile
    >>> round(float(kv_bytes_curve(model_profile("prfaas-1t"))(8192)) / 2**20, 1)
    308.9
    """
    return Curve.affine(recurrent_state_bytes(model), kv_bytes_per_token(model, kv_precision))
