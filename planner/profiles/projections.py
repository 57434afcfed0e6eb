"""Matrices of attention and recurrent layers, by the names that checkpoints give their modules."""

from typing import TypeVar

from planner.errors import InputError, InputProblem
from planner.profiles.layers import (
    AttentionLayers,
    GdnLayers,
    GqaLayers,
    KdaLayers,
    LightningLayers,
    Mamba1Layers,
    Mamba2Layers,
    MlaLayers,
    SwaLayers,
)

Value = TypeVar("Value")


def required(value: Value | None, key: str) -> Value:
    """A shape that must be known to count.

    Raises:
        InputError: it is not, which names the key; `missing_shapes` tells beforehand.
    """
    if value is None:
        raise InputError(
            InputProblem("architecture", key, "is unknown", "a shape, where parameters or FLOPs are counted")
        )
    return value


def projections(group: AttentionLayers, hidden: int) -> dict[str, int]:
    """Parameters of the matrices of one layer by the name of their module; norms, biases and convolutions left out.

    Raises:
        InputError: a shape is unknown.

    >>> projections(GqaLayers(kind="gqa", n_layers=1, n_heads=4, n_kv_heads=2, head_dim=8), 32)
    {'q_proj': 1024, 'k_proj': 512, 'v_proj': 512, 'o_proj': 1024}
    """
    match group:
        case GqaLayers() | SwaLayers():
            return _heads(group, hidden)
        case MlaLayers():
            return _latent(group, hidden) | _indexer(group, hidden)
        case KdaLayers():
            return _kda(group, hidden)
        case GdnLayers():
            values, n = group.n_value_heads * group.value_head_dim, 2 * group.n_value_heads
            inputs = {"in_proj_qkv": group.conv_channels, "in_proj_z": values, "in_proj_ba": n, "out_proj": values}
            return {name: n_columns * hidden for name, n_columns in inputs.items()}
        case LightningLayers():
            size = group.n_heads * group.head_dim * hidden
            return {"query_key_value": 3 * size, "g_proj": size, "dense": size}
        case Mamba1Layers():
            inner, state, rank = group.inner_size, group.state_size, group.dt_rank
            inside = {"x_proj": inner * (rank + 2 * state), "dt_proj": rank * inner}
            return {"in_proj": 2 * inner * hidden, **inside, "out_proj": inner * hidden}
        case Mamba2Layers():
            inner = group.inner_size
            columns = inner + group.conv_channels + group.n_heads
            return {"in_proj": columns * hidden, "out_proj": inner * hidden}


def _heads(group: GqaLayers | SwaLayers, hidden: int) -> dict[str, int]:
    """Queries with the gate, keys and values unless they are borrowed, output."""
    queries, out = group.n_heads * group.head_dim, group.n_heads * group.value_dim
    own = {"k_proj": group.n_kv_heads * group.head_dim}
    own |= {} if group.v_from_k else {"v_proj": group.n_kv_heads * group.value_dim}
    widths = {
        "q_proj": queries + (out if group.output_gate else 0),
        **({} if group.borrows_kv else own),
        "o_proj": out,
    }
    return {name: width * hidden for name, width in widths.items()}


def _latent(group: MlaLayers, hidden: int) -> dict[str, int]:
    """Compressed or plain queries, compressed keys and values, their expansion, output, gate."""
    n_heads, value = required(group.n_heads, "n_heads"), required(group.v_head_dim, "v_head_dim")
    nope, rope = required(group.qk_nope_head_dim, "qk_nope_head_dim"), group.qk_rope_head_dim
    queries, rank, out = n_heads * (nope + rope), group.q_lora_rank, n_heads * value
    return {
        **({"q_a_proj": hidden * rank, "q_b_proj": rank * queries} if rank else {"q_proj": hidden * queries}),
        "kv_a_proj_with_mqa": hidden * (group.kv_lora_rank + rope),
        "kv_b_proj": group.kv_lora_rank * n_heads * (nope + value),
        "o_proj": out * hidden,
        **({"g_proj": out * hidden} if group.output_gate else {}),
    }


def _indexer(group: MlaLayers, hidden: int) -> dict[str, int]:
    """Index queries from compressed queries, one index key, one weight per head."""
    indexer, rank = group.indexer, group.q_lora_rank
    if indexer is None or indexer.borrowed or rank is None:
        return {}
    width = indexer.n_heads * indexer.head_dim
    sizes = {"wq_b": rank * width, "wk": hidden * indexer.head_dim, "weights_proj": hidden * indexer.n_heads}
    return {f"indexer.{name}": size for name, size in sizes.items()}


def _kda(group: KdaLayers, hidden: int) -> dict[str, int]:
    """Queries, keys, values; decay; gate; beta; output."""
    width, rank = group.n_heads * group.head_dim, group.head_dim
    gate = {"g_proj": hidden * width} if group.full_rank_gate else {"g_a_proj": hidden * rank, "g_b_proj": rank * width}
    return {
        **dict.fromkeys(("q_proj", "k_proj", "v_proj"), hidden * width),
        "f_a_proj": hidden * rank,
        "f_b_proj": rank * width,
        **gate,
        "b_proj": hidden * group.n_heads,
        "o_proj": width * hidden,
    }
