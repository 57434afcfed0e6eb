"""Operators of attention layers: projections and the attention itself, for GQA, sliding windows, MLA and sparse MLA."""

from collections.abc import Iterable, Iterator

import numpy as np

from planner.profiles import GqaLayers, MlaLayers, SwaLayers
from planner.profiles.projections import required
from planner.roofline.kv_cache import BYTES_PER_VALUE, kv_values_per_token, layer_index_bytes
from planner.roofline.operator import ACTIVATION_BYTES, TILE_QUERIES, FloatArray, Operator, Tiles, gemm_operator
from planner.roofline.sequences import Sequences


def head_projections(group: GqaLayers | SwaLayers, hidden: int, rows: FloatArray, width: float) -> Iterator[Operator]:
    """Projections of attention by heads: one product for queries, keys, values and gate, one for the output.

    Args:
        group: layers of GQA or sliding windows.
        hidden: width of the residual stream.
        rows: tokens of the pass.
        width: bytes per weight [B].

    Yields:
        Operators of one layer.

    Source:
        Fused as SGLang and vLLM do (QKVParallelLinear).

    >>> group = GqaLayers(kind="gqa", n_layers=1, n_heads=32, n_kv_heads=8, head_dim=128)
    >>> [operator.gemm.n for operator in head_projections(group, 4096, np.ones(1), 2.0)]
    [6144, 4096]
    """
    out = group.n_heads * group.value_dim
    own_kv = 0 if group.borrows_kv else kv_values_per_token(group)
    n = group.n_heads * group.head_dim + own_kv + (out if group.output_gate else 0)
    yield gemm_operator("qkv_proj", group.n_layers, rows, n, hidden, width, "attention", "heads")
    yield gemm_operator("o_proj", group.n_layers, rows, hidden, out, width, "attention", "heads")


def head_attention(group: GqaLayers | SwaLayers, sequences: Sequences, kv_precision: str = "bf16") -> Operator:
    """Attention by heads, over all keys or a window.

    Equation:
        FLOP = 2 heads (d_qk + d_v) pairs; cache read once per token in reach, written once per new token.
        Chunked windows: pairs and reach of their own in prefill, those of sliding ones in decode, where the
        sequences of a batch stand anywhere in their chunks: an upper bound

    Args:
        group: layers of GQA or sliding windows.
        sequences: the pass.
        kv_precision: number format of the cache.

    Returns:
        The operator, without softmax FLOPs, which other units compute.

    Valid:
        Kernels that skip masked blocks (FlashAttention-2, 2023).

    Source:
        Dao 2023, section 3; per query c + (n + 1) / 2 keys.

    >>> group = GqaLayers(kind="gqa", n_layers=1, n_heads=32, n_kv_heads=8, head_dim=128)
    >>> float(head_attention(group, Sequences.decode(1, 1000)).flop)
    16384000.0
    """
    window = float(group.window) if isinstance(group, SwaLayers) else np.inf
    chunked = isinstance(group, SwaLayers) and group.chunked and sequences.phase == "prefill"
    pairs = sequences.chunked_pairs(window) if chunked else sequences.pairs(window)
    read = sequences.chunked_read_tokens(window) if chunked else sequences.read_tokens(window)
    per_token = kv_values_per_token(group) * BYTES_PER_VALUE[kv_precision]
    return Operator(
        "window_attention" if isinstance(group, SwaLayers) else "attention",
        "attention",
        group.n_layers,
        flop=2.0 * group.n_heads * (group.head_dim + group.value_dim) * pairs,
        weight_bytes=np.zeros_like(sequences.rows),
        activation_bytes=ACTIVATION_BYTES * group.n_heads * (group.head_dim + group.value_dim) * sequences.rows,
        kv_bytes=per_token * (read + sequences.rows),
        split="heads",
        n_shards=group.n_heads,
        n_kv_shards=group.n_kv_heads,
        tiles=_tiles(sequences, pairs, group.head_dim + group.value_dim, window),
    )


def _tiles(sequences: Sequences, pairs: FloatArray, n_values: int, window: float = np.inf) -> Tiles | None:
    """Tiles of attention over keys and values of so many values together; None in decode, whose kernels split keys."""
    if sequences.phase == "decode":
        return None
    keys = np.minimum(sequences.new_tokens + sequences.cached_tokens, window + TILE_QUERIES)
    return Tiles(pairs / np.maximum(sequences.rows, 1e-9), 2.0 * n_values * TILE_QUERIES * keys)


def mla_projections(group: MlaLayers, hidden: int, rows: FloatArray, width: float) -> Iterator[Operator]:
    """Projections of latent attention but for those of the latents, which depend on the phase.

    Args:
        group: layers of MLA, all shapes known.
        hidden: width of the residual stream.
        rows: tokens of the pass.
        width: bytes per weight [B].

    Yields:
        Operators of one layer. What makes latents is whole on every rank.

    Raises:
        InputError: a shape is unknown.

    Source:
        DeepSeek-V2 (2024), section 2.1; fused as SGLang does (fused_qkv_a_proj).
    """
    n_heads, value = required(group.n_heads, "n_heads"), required(group.v_head_dim, "v_head_dim")
    queries = n_heads * (required(group.qk_nope_head_dim, "qk_nope_head_dim") + group.qk_rope_head_dim)
    latent, rank = group.kv_lora_rank + group.qk_rope_head_dim, group.q_lora_rank
    n, out = group.n_layers, n_heads * value
    if rank:
        yield gemm_operator("qkv_a_proj", n, rows, rank + latent, hidden, width, "attention", "none")
        yield gemm_operator("q_b_proj", n, rows, queries, rank, width, "attention", "heads")
    else:
        yield gemm_operator("kv_a_proj", n, rows, latent, hidden, width, "attention", "none")
        yield gemm_operator("q_proj", n, rows, queries, hidden, width, "attention", "heads")
    if group.output_gate:
        yield gemm_operator("gate_proj", n, rows, out, hidden, width, "attention", "heads")
    yield gemm_operator("o_proj", n, rows, hidden, out, width, "attention", "heads")
    if group.indexer and not group.indexer.borrowed and rank:
        index = group.indexer
        n_columns = index.n_heads * index.head_dim
        yield gemm_operator("index_q_proj", n, rows, n_columns, rank, width, "attention", "none")
        yield gemm_operator("index_k_proj", n, rows, index.head_dim + index.n_heads, hidden, width, "attention", "none")


def mla_attention(
    group: MlaLayers, parts: Iterable[Sequences], width: float, kv_precision: str = "bf16"
) -> Iterator[Operator]:
    """Latent attention: expanded to heads in prefill, absorbed into queries and outputs in decode or when sparse.

    Args:
        group: layers of MLA, all shapes known.
        parts: sequences of the pass.
        width: bytes per weight [B].
        kv_precision: number format of the cache.

    Yields:
        Operators of one layer: those of the latents, the indexer's, the attention.

    Raises:
        InputError: a shape is unknown.

    Valid:
        Sparse attention is absorbed at any length; DeepSeek's own prefill expands below top_k tokens, which
        costs a third as much attention there.

    Source:
        DeepSeek-V2 (2024), section 2.1 (absorption); DeepSeek-V3.2 (2025), section 2 (sparse, in MQA form).
    """
    for sequences in parts:
        if group.indexer and not group.indexer.borrowed:
            yield _index_scores(group, sequences)
        absorbed = sequences.phase == "decode" or group.indexer is not None
        yield from (_absorbed if absorbed else _expanded)(group, sequences, width, kv_precision)


def _expanded(group: MlaLayers, sequences: Sequences, width: float, kv_precision: str) -> Iterator[Operator]:
    """FLOP = 2 heads (d_nope + d_rope + d_v) pairs, after one product that expands every latent in reach."""
    n_heads, value = required(group.n_heads, "n_heads"), required(group.v_head_dim, "v_head_dim")
    nope, rope = required(group.qk_nope_head_dim, "qk_nope_head_dim"), group.qk_rope_head_dim
    columns, rows = n_heads * (nope + value), sequences.context_rows
    yield gemm_operator("kv_b_proj", group.n_layers, rows, columns, group.kv_lora_rank, width, "attention", "heads")
    per_token = kv_values_per_token(group) * BYTES_PER_VALUE[kv_precision]
    queries_and_out = n_heads * (nope + rope + value)
    yield Operator(
        "mla_attention",
        "attention",
        group.n_layers,
        flop=2.0 * queries_and_out * sequences.pairs(),
        weight_bytes=np.zeros_like(rows),
        activation_bytes=ACTIVATION_BYTES * queries_and_out * (sequences.rows + sequences.context_rows),
        kv_bytes=per_token * sequences.context_rows,
        split="heads",
        n_shards=n_heads,
        n_kv_shards=1,
        tiles=_tiles(sequences, sequences.pairs(), nope + rope + value),
    )


def _absorbed(group: MlaLayers, sequences: Sequences, width: float, kv_precision: str) -> Iterator[Operator]:
    """FLOP = 2 heads (2 rank + d_rope) pairs, between two products per head that move queries to latents and back."""
    n_heads, value = required(group.n_heads, "n_heads"), required(group.v_head_dim, "v_head_dim")
    nope, rank, rope = required(group.qk_nope_head_dim, "qk_nope_head_dim"), group.kv_lora_rank, group.qk_rope_head_dim
    rows, n = sequences.rows, group.n_layers
    yield gemm_operator("q_absorb", n, rows, rank, nope, width, "attention", "heads", n_heads)
    yield gemm_operator("v_absorb", n, rows, value, rank, width, "attention", "heads", n_heads)
    pairs = sequences.pairs(group.indexer.top_k if group.indexer else np.inf)
    read = np.minimum(sequences.context_rows, pairs)
    per_token = kv_values_per_token(group) * BYTES_PER_VALUE[kv_precision]
    yield Operator(
        "sparse_attention" if group.indexer else "mla_attention",
        "attention",
        n,
        flop=2.0 * n_heads * (2 * rank + rope) * pairs,
        weight_bytes=np.zeros_like(rows),
        activation_bytes=ACTIVATION_BYTES * n_heads * (2 * rank + rope) * rows,
        kv_bytes=per_token * (read + rows),
        split="heads",
        n_shards=n_heads,
        n_kv_shards=1,
    )


def _index_scores(group: MlaLayers, sequences: Sequences) -> Operator:
    """FLOP = heads (2 d + 2) pairs: a dot product, a weight and a sum per index head, over every key."""
    index = group.indexer
    if index is None:
        raise ValueError("dense attention has no index")
    rows, pairs = sequences.rows, sequences.pairs()
    return Operator(
        "index_scores",
        "attention",
        group.n_layers,
        flop=index.n_heads * (2.0 * index.head_dim + 2.0) * pairs,
        weight_bytes=np.zeros_like(rows),
        activation_bytes=ACTIVATION_BYTES * index.n_heads * index.head_dim * rows,
        kv_bytes=layer_index_bytes(index) * (sequences.context_rows + rows),
        split="none",
        n_shards=1,
        n_kv_shards=1,
    )
