"""Keys as transformers 5 writes them, under the names that published configs have: a family is read one way only."""

from collections.abc import Callable, Mapping
from typing import Any

Keys = dict[str, Any]

NEMOTRON_LAYERS = {
    "linear_attention": "M",
    "mamba": "M",
    "moe": "E",
    "full_attention": "*",
    "attention": "*",
    "mlp": "-",
}
EXPERTS = ("num_experts", "num_local_experts")
MTP = {"mtp_layers_block_type"}
"""What predicted tokens are made by; counted by num_nextn_predict_layers."""


RENAMED: Mapping[str, Mapping[str, str]] = {
    "chatglm": {
        "num_layers": "num_hidden_layers",
        "padded_vocab_size": "vocab_size",
        "ffn_hidden_size": "intermediate_size",
        "multi_query_group_num": "num_key_value_heads",
        "kv_channels": "head_dim",
        "seq_length": "max_position_embeddings",
        "add_qkv_bias": "attention_bias",
        "add_bias_linear": "mlp_bias",
    },
    "dbrx": {
        "d_model": "hidden_size",
        "n_heads": "num_attention_heads",
        "n_layers": "num_hidden_layers",
        "max_seq_len": "max_position_embeddings",
        "attn_config.kv_n_heads": "num_key_value_heads",
        "ffn_config.ffn_hidden_size": "intermediate_size",
        "ffn_config.moe_num_experts": "num_experts",
        "ffn_config.moe_top_k": "num_experts_per_tok",
    },
    "exaone": {"num_layers": "num_hidden_layers"},
    "internlm2": {"bias": "attention_bias"},
}
"""Keys of families that name what all have in their own way; those of an inner table with its name before."""


def earlier_keys(data: Mapping[str, Any]) -> tuple[Keys, set[str]]:
    """Keys that published configs would state, and the newer keys that they were taken from.

    >>> earlier_keys({"model_type": "qwen3_moe", "num_local_experts": 128})
    ({'num_experts': 128}, {'num_local_experts'})
    """
    kind = str(data.get("model_type"))
    found, taken = FAMILIES.get(kind, _nothing)(data)
    for name, ours in RENAMED.get(kind, {}).items():
        outer, _, inner = name.rpartition(".")
        table = data.get(outer) if outer else data
        if isinstance(table, Mapping) and inner in table:
            found, taken = found | {ours: table[inner]}, taken | {outer or inner}
    return {key: value for key, value in found.items() if data.get(key) is None}, taken


def _nothing(_: Mapping[str, Any]) -> tuple[Keys, set[str]]:
    return {}, set()


def _experts(data: Mapping[str, Any]) -> tuple[Keys, set[str]]:
    earlier, newer = EXPERTS
    return ({earlier: data[newer]}, {newer}) if newer in data else ({}, set())


def _gemma4(data: Mapping[str, Any]) -> tuple[Keys, set[str]]:
    """Shapes of full layers, where a table of layers has them alike for all of these."""
    table, kinds = data.get("per_layer_config"), data.get("layer_types")
    if not isinstance(table, dict) or not table or not isinstance(kinds, list):
        return {}, set()
    full = [layer for layer, kind in enumerate(kinds) if kind == "full_attention"]
    own, *others = table.values()
    names = {"head_dim": "global_head_dim"}
    if data.get("attention_k_eq_v") is True:
        names["num_key_value_heads"] = "num_global_key_value_heads"
    is_alike = isinstance(own, dict) and own.keys() <= names.keys() and all(one == own for one in others)
    if (
        not is_alike
        or [int(layer) for layer in table if layer.isdecimal() and len(layer) < 6] != full
        or len(table) != len(full)
    ):
        return {}, set()
    return {names[key]: value for key, value in own.items()}, {"per_layer_config"}


def _nemotron_h(data: Mapping[str, Any]) -> tuple[Keys, set[str]]:
    kinds = data.get("layers_block_type")
    if not isinstance(kinds, list) or not all(kind in NEMOTRON_LAYERS for kind in kinds):
        return {}, set()
    letters = "".join(NEMOTRON_LAYERS[kind] for kind in kinds)
    return {"hybrid_override_pattern": letters, "num_hidden_layers": len(kinds)}, {"layers_block_type", *MTP}


def _kimi_linear(data: Mapping[str, Any]) -> tuple[Keys, set[str]]:
    kinds, mlps = data.get("layer_types"), data.get("mlp_layer_types")
    if not isinstance(kinds, list) or set(kinds) - {"linear_attention", "full_attention"}:
        return {}, set()
    linear = {
        "full_attn_layers": [i for i, kind in enumerate(kinds, 1) if kind == "full_attention"],
        "kda_layers": [i for i, kind in enumerate(kinds, 1) if kind == "linear_attention"],
        "num_heads": data.get("linear_num_heads"),
        "head_dim": data.get("linear_head_dim"),
        "short_conv_kernel_size": data.get("linear_conv_kernel_dim"),
    }
    found: Keys = {"linear_attn_config": linear}
    taken = {"layer_types", "linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim", "qk_head_dim"}
    if isinstance(mlps, list) and mlps:
        n_dense = next((i for i, kind in enumerate(mlps) if kind != "dense"), len(mlps))
        if all(kind == "sparse" for kind in mlps[n_dense:]):  # else it stays unread, and is told
            found |= {"first_k_dense_replace": n_dense, "moe_layer_freq": 1}
            taken.add("mlp_layer_types")
    return found, taken


FAMILIES: Mapping[str, Callable[[Mapping[str, Any]], tuple[Keys, set[str]]]] = {
    **dict.fromkeys(("gemma4", "gemma4_text"), _gemma4),
    **dict.fromkeys(("qwen2_moe", "qwen3_moe", "qwen3_next", "qwen3_vl_moe", "qwen3_vl_moe_text"), _experts),
    "nemotron_h": _nemotron_h,
    "kimi_linear": _kimi_linear,
}
