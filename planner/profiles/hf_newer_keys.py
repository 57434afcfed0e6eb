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


def earlier_keys(data: Mapping[str, Any]) -> tuple[Keys, set[str]]:
    """What published configs would state, and the newer keys that it was taken from.

    >>> earlier_keys({"model_type": "qwen3_moe", "num_local_experts": 128})
    ({'num_experts': 128}, {'num_local_experts'})
    """
    translate = FAMILIES.get(str(data.get("model_type")), _nothing)
    found, taken = translate(data)
    return {key: value for key, value in found.items() if data.get(key) is None}, taken


def _nothing(_: Mapping[str, Any]) -> tuple[Keys, set[str]]:
    return {}, set()


def _experts(data: Mapping[str, Any]) -> tuple[Keys, set[str]]:
    earlier, newer = EXPERTS
    return ({earlier: data[newer]}, {newer}) if newer in data else ({}, set())


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
    "qwen2_moe": _experts,
    "qwen3_moe": _experts,
    "qwen3_next": _experts,
    "nemotron_h": _nemotron_h,
    "kimi_linear": _kimi_linear,
}
