"""Families of Hugging Face models with recurrent layers."""

from planner.profiles.hf_config import HfConfig
from planner.profiles.hf_parts import (
    Table,
    counted,
    dense_width,
    experts,
    experts_with_bias,
    heads,
    latent_heads,
    typed,
    with_dense_first,
)


def qwen3_next(config: HfConfig) -> Table:
    n_layers = config.integer("num_hidden_layers")
    config.only("mlp_only_layers", [])
    config.only("decoder_sparse_step", 1)
    config.only("attn_output_gate", True)
    config.get("intermediate_size")
    gdn = {
        "kind": "gdn",
        "symbol": "L",
        "n_key_heads": config.integer("linear_num_key_heads"),
        "n_value_heads": config.integer("linear_num_value_heads"),
        "key_head_dim": config.integer("linear_key_head_dim"),
        "value_head_dim": config.integer("linear_value_head_dim"),
        "conv_kernel": config.integer("linear_conv_kernel_dim"),
    }
    full = heads(config, qk_norm="head") | {"symbol": "F", "output_gate": True}
    if config.get("layer_types"):
        pattern = typed(config, {"linear_attention": "L", "full_attention": "F"})
        config.get("full_attention_interval")
    else:
        interval = config.integer("full_attention_interval")
        pattern = "".join("F" if layer % interval == interval - 1 else "L" for layer in range(n_layers))
    moe = experts(config, "num_experts", shared=1, dense=0, shared_expert_gate=True)
    moe["shared_expert_intermediate_size"] = config.integer("shared_expert_intermediate_size")
    return {"pattern": pattern, "moe": moe, "attention": counted(pattern, gdn, full)}


def kimi_linear(config: HfConfig) -> Table:
    n_layers, linear = config.integer("num_hidden_layers"), config.table("linear_attn_config")
    full = {int(layer) for layer in linear.items("full_attn_layers")}
    pattern = "".join("A" if layer in full else "K" for layer in range(1, n_layers + 1))
    expected = [layer for layer in range(1, n_layers + 1) if layer not in full]
    if sorted(linear.items("kda_layers")) != expected:
        config.refuse(
            "linear_attn_config.kda_layers", "and full_attn_layers do not share all layers", "each once, from 1"
        )
    kda = {
        "kind": "kda",
        "symbol": "K",
        "n_heads": linear.integer("num_heads"),
        "head_dim": linear.integer("head_dim"),
        "conv_kernel": linear.integer("short_conv_kernel_size"),
    }
    if linear.flag("use_full_rank_gate", False):
        kda["full_rank_gate"] = True
    mla = latent_heads(config) | {"symbol": "A"}
    if config.flag("mla_use_output_gate", False):
        mla["output_gate"] = True
    config.get("mla_use_nope")
    config.get("head_dim")  # neither kind of layer uses it
    moe = experts_with_bias(config, "num_experts", "num_experts_per_token", "num_shared_experts")
    if latent := config.optional("routed_expert_hidden_size"):
        moe["latent_size"] = latent
        config.get("latent_moe_use_norm")
    return with_dense_first(config, moe) | {"pattern": pattern, "attention": counted(pattern, kda, mla)}


def nemotron_h(config: HfConfig) -> Table:
    n_layers, pattern = config.integer("num_hidden_layers"), str(config.get("hybrid_override_pattern") or "")
    if len(pattern) != n_layers or set(pattern) - set("M*E-"):
        config.refuse("hybrid_override_pattern", f"is {pattern!r}", f"{n_layers} letters of M, *, E and -")
    for key in ("use_bias", "mlp_bias", "mamba_proj_bias"):
        config.only(key, False)
    config.only("use_conv_bias", True)
    mamba = {
        "kind": "mamba2",
        "symbol": "M",
        "n_heads": config.integer("mamba_num_heads"),
        "head_dim": config.integer("mamba_head_dim"),
        "state_size": config.integer("ssm_state_size"),
        "n_groups": config.integer("n_groups"),
        "conv_kernel": config.integer("conv_kernel"),
    }
    config.get("attention_head_dim")
    attention = heads(config, head_dim=config.integer("head_dim", "attention_head_dim")) | {"symbol": "*"}
    mlp_only = {"n_sparse_layers": pattern.count("E"), "n_dense_layers": pattern.count("-")}
    found = {"gated_mlp": False, "pattern": pattern, "attention": counted(pattern, mamba, attention)}
    found |= dense_width(config, pattern.count("-"))
    if pattern.count("E"):
        shared = config.count("n_shared_experts")
        moe = experts(config, "n_routed_experts", shared=shared, dense=0, router_bias=True)
        if shared:
            moe["shared_expert_intermediate_size"] = config.integer("moe_shared_expert_intermediate_size")
        if latent := config.optional("moe_latent_size"):
            moe["latent_size"] = latent
        found["moe"] = moe
    return found | ({"mlp_only": mlp_only} if sum(mlp_only.values()) else {})


def jamba(config: HfConfig) -> Table:
    n_layers, hidden = config.integer("num_hidden_layers"), config.integer("hidden_size")
    period, offset = config.integer("attn_layer_period"), config.count("attn_layer_offset")
    pattern = "".join("A" if layer % period == offset else "M" for layer in range(n_layers))
    config.only("mamba_conv_bias", True)
    config.only("mamba_proj_bias", False)
    mamba = {
        "kind": "mamba1",
        "symbol": "M",
        "inner_size": config.integer("mamba_expand") * hidden,
        "state_size": config.integer("mamba_d_state"),
        "dt_rank": config.integer("mamba_dt_rank"),
        "conv_kernel": config.integer("mamba_d_conv"),
        "inner_norms": True,
    }
    width = config.integer("intermediate_size")
    moe = experts(config, "num_experts", shared=0, dense=0, width="intermediate_size")
    moe |= {"layer_period": config.integer("expert_layer_period"), "layer_offset": config.count("expert_layer_offset")}
    groups = counted(pattern, mamba, heads(config) | {"symbol": "A"})
    return {"intermediate_size": width, "pattern": pattern, "moe": moe, "attention": groups}


def bailing_hybrid(config: HfConfig) -> Table:
    n_layers, size = config.integer("num_hidden_layers"), config.integer("layer_group_size")
    if n_layers % size:
        config.refuse("layer_group_size", f"is {size}", f"a divisor of num_hidden_layers = {n_layers}")
    pattern = "".join("A" if layer % size == size - 1 else "L" for layer in range(n_layers))
    n_heads = config.integer("num_attention_heads")
    config.only("num_kv_heads_for_linear_attn", n_heads)
    config.only("use_qk_norm", True)
    config.get("head_dim")  # the rotary part, not the width of a head
    lightning = {
        "kind": "lightning",
        "symbol": "L",
        "n_heads": n_heads,
        "head_dim": config.integer("hidden_size") // n_heads,
        "qk_norm": True,
    }
    moe = experts_with_bias(config, "num_experts", "num_experts_per_tok", "num_shared_experts")
    if width := config.optional("moe_shared_expert_intermediate_size"):
        moe["shared_expert_intermediate_size"] = width
    groups = counted(pattern, lightning, latent_heads(config) | {"symbol": "A"})
    return with_dense_first(config, moe) | {"pattern": pattern, "attention": groups}
