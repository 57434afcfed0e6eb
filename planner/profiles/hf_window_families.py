"""Families of Hugging Face models in which layers with windows stand between full ones."""

from planner.profiles import hf_head_families as by_heads
from planner.profiles.hf_config import HfConfig
from planner.profiles.hf_parts import (
    Table,
    alternating,
    dense_width,
    experts,
    heads,
    interleaved,
    layers_counted,
    placed,
    typed,
)


def mimo_v2_flash(config: HfConfig) -> Table:
    n_layers = config.integer("num_hidden_layers")
    pattern = "".join("FS"[bool(item)] for item in config.items("hybrid_layer_pattern", n_layers))
    full = heads(config, head_dim=config.integer("head_dim")) | {"symbol": "F"}
    full["v_head_dim"] = config.integer("v_head_dim")
    window: Table = {
        "kind": "swa",
        "symbol": "S",
        "window": config.integer("sliding_window"),
        "n_heads": config.integer("swa_num_attention_heads"),
        "n_kv_heads": config.integer("swa_num_key_value_heads"),
        "head_dim": config.integer("swa_head_dim"),
        "v_head_dim": config.integer("swa_v_head_dim"),
    }
    for group, key in ((full, "add_full_attention_sink_bias"), (window, "add_swa_attention_sink_bias")):
        if config.flag(key, False):
            group["sink"] = True
    sparse = config.items("moe_layer_freq", n_layers)
    n_dense = sparse.index(1) if 1 in sparse else len(sparse)
    if sparse != [0] * n_dense + [1] * (len(sparse) - n_dense):
        config.refuse("moe_layer_freq", f"is {sparse}", "dense layers first, then sparse ones")
    config.only("n_shared_experts", 0)
    moe = experts(config, "n_routed_experts", shared=0, dense=n_dense, router_bias=True)
    return dense_width(config, n_dense) | {
        "pattern": pattern,
        "moe": moe,
        "attention": layers_counted(pattern, full, window),
    }


def gpt_oss(config: HfConfig) -> Table:
    pattern = typed(config, {"sliding_attention": "S", "full_attention": "F"})
    full = heads(config, head_dim=config.integer("head_dim")) | {"symbol": "F", "sink": True}
    window = {"kind": "swa", "symbol": "S", "window": config.integer("sliding_window")}
    window |= {key: value for key, value in full.items() if key not in window}
    moe = experts(
        config,
        "num_local_experts",
        shared=0,
        dense=0,
        width="intermediate_size",
        router_bias=True,
        expert_bias=True,
    )
    return {"pattern": pattern, "moe": moe, "attention": layers_counted(pattern, full, window)}


def gemma2(config: HfConfig) -> Table:
    return _gemma(config, every=2, qk_norm=None)


def gemma3(config: HfConfig) -> Table:
    # Its published configs leave to the class what the class has by default (transformers 5.23).
    config.assume(num_attention_heads=8, num_key_value_heads=4, vocab_size=262_208)
    return _gemma(config, every=6, qk_norm="head")


def _gemma(config: HfConfig, every: int, qk_norm: str | None) -> Table:
    """Gemma: one full layer after some windows, norms after attention and MLP as well, tied embeddings."""
    config.assume(tie_word_embeddings=True, head_dim=256, sliding_window=4096)
    config.only("use_bidirectional_attention", False)
    attention = interleaved(config, heads(config, qk_norm=qk_norm), every)
    return {"intermediate_size": config.integer("intermediate_size"), "norms_per_layer": 4, **attention}


def gemma4(config: HfConfig) -> Table:
    """Gemma 4 of 26B and 31B: full layers have wider and fewer heads, whose values are their keys before norm and RoPE.

    With experts a dense MLP stands beside them in each layer, as a shared expert does, and layers have three norms more
    and a scale of what the router reads; the scales of experts count as the router's biases.
    """
    config.assume(tie_word_embeddings=True, head_dim=256, global_head_dim=512, sliding_window=512)
    config.only("hidden_size_per_layer_input", 0)
    config.only("num_kv_shared_layers", 0)
    config.only("use_double_wide_mlp", False)
    config.only("use_bidirectional_attention", "vision")
    config.ignore("vocab_size_per_layer_input")
    window = heads(config, qk_norm="head")
    full = window | {"head_dim": config.integer("global_head_dim")}
    if config.flag("attention_k_eq_v", False):
        full |= {"v_from_k": True, "n_kv_heads": config.integer("num_global_key_value_heads", "num_key_value_heads")}
    config.ignore("num_global_key_value_heads")
    attention = interleaved(config, full, 6, window)
    width = config.integer("intermediate_size")
    if not config.flag("enable_moe_block", False):
        return {"intermediate_size": width, "norms_per_layer": 4, **attention}
    moe = experts(config, "num_experts", shared=1, dense=0, per_token="top_k_experts", router_bias=True)
    return {"moe": moe | {"shared_expert_intermediate_size": width}, "norms_per_layer": 8, **attention}


def afmoe(config: HfConfig) -> Table:
    """Trinity: gated attention with windows, and norms after attention and MLP as well."""
    config.assume(first_k_dense_replace=config.get("num_dense_layers"))
    config.assume(global_attn_every_n_layers=4, moe_router_enable_expert_bias=True)
    config.ignore("num_dense_layers")
    every = config.integer("global_attn_every_n_layers")
    return by_heads.sparse(config, norms=4, qk_norm="head", every=every, output_gate=True)


def llama4(config: HfConfig) -> Table:
    """Llama 4: chunked attention but for every n-th layer, a shared expert, perhaps dense layers between."""
    config.assume(tie_word_embeddings=False, attention_chunk_size=8192, interleave_moe_layer_step=1)
    config.ignore("attn_scale", "attn_temperature_tuning", "floor_scale", "use_qk_norm", "for_llm_compression")
    n_layers, step = config.integer("num_hidden_layers"), config.integer("interleave_moe_layer_step")
    listed = config.get("moe_layers") is not None
    sparse = config.items("moe_layers") if listed else [*range(step - 1, n_layers, step)]
    moe = experts(config, "num_local_experts", shared=1, dense=0, width="intermediate_size")
    moe |= placed(config, "moe_layers" if listed else "interleave_moe_layer_step", sparse, n_layers)
    config.get("intermediate_size_mlp")
    dense = {"intermediate_size": config.integer("intermediate_size_mlp")} if len(sparse) < n_layers else {}
    full, pattern = heads(config), _llama4_pattern(config, n_layers)
    chunk = config.optional("attention_chunk_size")
    if chunk is None:
        return {**dense, "moe": moe, "attention": [full]}
    chunked = full | {"kind": "swa", "window": chunk, "chunked": True}
    return {**dense, "moe": moe, **alternating(pattern, full, chunked)}


def _llama4_pattern(config: HfConfig, n_layers: int) -> str:
    """Layers with rotary positions (1 in no_rope_layers, in spite of its name) are chunked, those without are full."""
    rotary = config.get("no_rope_layers")
    config.assume(no_rope_layer_interval=4)
    interval = config.integer("no_rope_layer_interval")
    if config.get("layer_types"):
        return typed(config, {"full_attention": "F", "chunked_attention": "S"})
    if rotary:
        return "".join("S" if item else "F" for item in config.items("no_rope_layers", n_layers))
    return "".join("S" if (layer + 1) % interval else "F" for layer in range(n_layers))
