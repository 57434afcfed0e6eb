"""Operators of recurrent layers: projections, short convolution, and the recurrence by chunks or by token."""

from collections.abc import Iterator

import numpy as np

from planner.profiles import GdnLayers, KdaLayers, LightningLayers, Mamba1Layers, Mamba2Layers
from planner.roofline.kv_cache import (
    CONVOLUTION_BYTES_PER_VALUE,
    STATE_BYTES_PER_VALUE,
    conv_channels,
    state_values,
    tap_values,
)
from planner.roofline.operator import ACTIVATION_BYTES, FloatArray, Operator, gemm_operator
from planner.roofline.sequences import Sequences

RecurrentLayers = KdaLayers | GdnLayers | LightningLayers | Mamba1Layers | Mamba2Layers
CHUNK_TOKENS = 64
"""Tokens of one chunk of a chunkwise recurrence."""
SCAN_FLOP = 9
"""Of Mamba's selective scan, per channel, state value and token."""


def recurrent_projections(group: RecurrentLayers, hidden: int, rows: FloatArray, width: float) -> Iterator[Operator]:
    """Matrix products of a recurrent layer.

    Args:
        group: recurrent layers.
        hidden: width of the residual stream.
        rows: tokens of the pass.
        width: bytes per weight [B].

    Yields:
        Operators of one layer; products that read the same input are one.

    Source:
        Kimi Linear (2025); Qwen3-Next; Lightning Attention-2 (2024); Gu and Dao 2023, 2024.

    >>> group = LightningLayers(kind="lightning", n_layers=1, n_heads=64, head_dim=128)
    >>> [(operator.gemm.n, operator.gemm.k) for operator in recurrent_projections(group, 8192, np.ones(1), 2.0)]
    [(32768, 8192), (8192, 8192)]
    """
    for name, n, k in _products(group, hidden):
        yield gemm_operator(name, group.n_layers, rows, n, k, width, "attention", "heads")


def _products(group: RecurrentLayers, hidden: int) -> list[tuple[str, int, int]]:
    """Name, columns and depth of each product."""
    match group:
        case KdaLayers():
            return _kda_products(group, hidden)
        case GdnLayers():
            values = group.n_value_heads * group.value_head_dim
            n = group.conv_channels + values + 2 * group.n_value_heads
            return [("in_proj", n, hidden), ("out_proj", hidden, values)]
        case LightningLayers():
            inner = group.n_heads * group.head_dim
            return [("in_proj", 4 * inner, hidden), ("out_proj", hidden, inner)]
        case Mamba1Layers():
            inner, rank = group.inner_size, group.dt_rank
            inside = [("x_proj", rank + 2 * group.state_size, inner), ("dt_proj", inner, rank)]
            return [("in_proj", 2 * inner, hidden), *inside, ("out_proj", hidden, inner)]
        case Mamba2Layers():
            inner = group.inner_size
            return [("in_proj", inner + group.conv_channels + group.n_heads, hidden), ("out_proj", hidden, inner)]


def _kda_products(group: KdaLayers, hidden: int) -> list[tuple[str, int, int]]:
    inner, dim = group.n_heads * group.head_dim, group.head_dim
    gate = inner if group.full_rank_gate else dim
    ups = [("decay_b_proj", inner, dim)] + ([] if group.full_rank_gate else [("gate_b_proj", inner, dim)])
    n = 3 * inner + dim + gate + group.n_heads
    return [("in_proj", n, hidden), *ups, ("o_proj", hidden, inner)]


def recurrent_mixing(group: RecurrentLayers, sequences: Sequences) -> Iterator[Operator]:
    """Short convolution, if the kind has one, and the recurrence.

    Yields:
        Operators of one layer.
    """
    if not isinstance(group, LightningLayers):
        yield _convolution(group, sequences)
    yield recurrence(group, sequences)


def _convolution(group: KdaLayers | GdnLayers | Mamba1Layers | Mamba2Layers, sequences: Sequences) -> Operator:
    """FLOP = 2 kernel channels per token; taps are read and written."""
    channels, rows = conv_channels(group), sequences.rows
    taps = tap_values(group) * CONVOLUTION_BYTES_PER_VALUE
    return Operator(
        "short_conv",
        "convolution",
        group.n_layers,
        flop=2.0 * group.conv_kernel * channels * rows,
        weight_bytes=np.full_like(rows, 2.0 * group.conv_kernel * channels),
        activation_bytes=2 * ACTIVATION_BYTES * channels * rows,
        kv_bytes=taps * _state_passes(sequences),
        split="heads",
        n_kv_shards=channels,
        part="attention",
    )


def recurrence(group: RecurrentLayers, sequences: Sequences) -> Operator:
    """The recurrence itself: by chunks of 64 tokens in prefill, token by token in decode.

    Equation:
        per token in prefill: delta rule (KDA, GDN) heads (6 k v + C (3 k + 2 v) + C^2);
        Lightning heads (4 k v + C (k + v)); Mamba-2 heads (4 p s + C p) + groups C s; Mamba 9 channels s.
        In decode: 7, 5, 5 and 9 per state value. State is read and written in fp32; in prefill each chunk's state
        is written and read in bf16 as well

    Args:
        group: recurrent layers.
        sequences: the pass.

    Returns:
        The operator; its chunks follow one another whatever the number of ranks.

    Valid:
        Products of a chunk with a triangle count half. Kimi Linear's own formula, 6 T d^2 + 3 T C d + T C^2, has
        3 C d for 5 C d.

    Source:
        Yang et al. 2024 (chunkwise delta rule); Kimi Linear 2025, section 3; Dao and Gu 2024 (SSD); Gu and Dao 2023.

    >>> group = KdaLayers(kind="kda", n_layers=1, n_heads=1, head_dim=128, conv_kernel=4)
    >>> recurrence(group, Sequences.prefill([64, 128])).flop.tolist()
    [9175040.0, 18350080.0]
    """
    prefill = sequences.phase == "prefill"
    state = state_values(group)
    per_token = _chunk_flop(group) if prefill else _step_flop(group) * state
    chunk_states = 2.0 * state / CHUNK_TOKENS if prefill and not isinstance(group, Mamba1Layers) else 0.0
    values, n_heads = _values_and_heads(group)
    return Operator(
        "recurrence",
        "recurrence",
        group.n_layers,
        flop=float(per_token) * sequences.rows,
        weight_bytes=np.zeros_like(sequences.rows),
        activation_bytes=ACTIVATION_BYTES * (values + chunk_states) * sequences.rows,
        kv_bytes=state * STATE_BYTES_PER_VALUE * _state_passes(sequences),
        split="heads",
        n_shards=n_heads,
        n_kv_shards=n_heads,
        serial_steps=sequences.chunks(CHUNK_TOKENS),
    )


def _state_passes(sequences: Sequences) -> FloatArray:
    """Times the state of all sequences is read or written: read where there is one to begin from, and written once,
    or after every token that decode may have to go back to."""
    written = sequences.new_tokens if sequences.phase == "decode" else 1.0
    return sequences.n_sequences * (written + (sequences.cached_tokens > 0))


def _chunk_flop(group: RecurrentLayers) -> int:
    """FLOPs of all heads per token, by chunks."""
    chunk = CHUNK_TOKENS
    match group:
        case KdaLayers():
            return group.n_heads * _delta_chunk_flop(group.head_dim, group.head_dim)
        case GdnLayers():
            return group.n_value_heads * _delta_chunk_flop(group.key_head_dim, group.value_head_dim)
        case LightningLayers():
            return group.n_heads * (4 * group.head_dim**2 + 2 * chunk * group.head_dim)
        case Mamba1Layers():
            return SCAN_FLOP * state_values(group)
        case Mamba2Layers():
            shared = group.n_groups * chunk * group.state_size
            return 4 * state_values(group) + chunk * group.inner_size + shared


def _delta_chunk_flop(key: int, value: int) -> int:
    """One head: three products with the state; five within the chunk, by triangles; one inverse."""
    return 6 * key * value + CHUNK_TOKENS * (3 * key + 2 * value) + CHUNK_TOKENS**2


def _step_flop(group: RecurrentLayers) -> int:
    """FLOPs per state value and token: decay 1, read 2, write 2, and 2 to correct by the delta rule."""
    match group:
        case KdaLayers() | GdnLayers():
            return 7
        case LightningLayers() | Mamba2Layers():
            return 5
        case Mamba1Layers():
            return SCAN_FLOP


def _values_and_heads(group: RecurrentLayers) -> tuple[int, int]:
    """Values read and written per token, and the heads that ranks can share."""
    match group:
        case KdaLayers():
            return 5 * group.n_heads * group.head_dim, group.n_heads
        case GdnLayers():
            values = group.n_value_heads * group.value_head_dim
            return group.conv_channels + values + 2 * group.n_value_heads, group.n_value_heads
        case LightningLayers():
            return 4 * group.n_heads * group.head_dim, group.n_heads
        case Mamba1Layers():
            return 3 * group.inner_size + 2 * group.state_size, group.inner_size
        case Mamba2Layers():
            return group.conv_channels + group.inner_size + group.n_heads, group.n_heads
