"""Families of Hugging Face models with recurrent layers."""

from planner.errors import shown
from planner.profiles import hf_head_families as by_heads
from planner.profiles.hf_config import HfConfig
from planner.profiles.hf_parts import (
    Table,
    dense_width,
    experts,
    experts_with_bias,
    heads,
    latent_heads,
    layers_counted,
    typed,
    with_dense_first,
)


def qwen3_next(config: HfConfig) -> Table:
    """Qwen3-Next, Qwen3.5 and 3.6 with experts."""
    config.only("mlp_only_layers", [])
    config.only("decoder_sparse_step", 1)
    config.get("intermediate_size")
    moe = experts(config, "num_experts", shared=1, dense=0, shared_expert_gate=True)
    moe["shared_expert_intermediate_size"] = config.integer("shared_expert_intermediate_size")
    return {"moe": moe, **_delta_net(config)}


def qwen3_5(config: HfConfig) -> Table:
    """Qwen3.5 and 3.6 without experts."""
    config.only("mlp_only_layers", [])
    config.only("num_experts", 0)
    return {"intermediate_size": config.integer("intermediate_size"), **_delta_net(config)}


def _delta_net(config: HfConfig) -> Table:
    """Gated DeltaNet, and gated attention at the end of each interval."""
    config.only("attn_output_gate", True)
    config.only("attention_bias", False)  # which the gate would have, too
    config.ignore("full_attention_interval")
    gdn = {
        "kind": "gdn",
        "n_key_heads": config.integer("linear_num_key_heads"),
        "n_value_heads": config.integer("linear_num_value_heads"),
        "key_head_dim": config.integer("linear_key_head_dim"),
        "value_head_dim": config.integer("linear_value_head_dim"),
        "conv_kernel": config.integer("linear_conv_kernel_dim"),
    }
    return hybrid(config, gdn, heads(config, qk_norm="head") | {"output_gate": True}, "full_attention_interval")


KINDS = {"linear_attention": "L", "mamba": "L", "0": "L", "full_attention": "F", "attention": "F", "1": "F"}
"""Letters of recurrent layers (L) and full ones (F) by their names in lists of layers."""


def hybrid(config: HfConfig, recurrent: Table, full: Table, interval: str, listed: str = "layer_types") -> Table:
    """Recurrent and full layers as a key lists them, else with a full one at the end of each interval."""
    if config.get(listed):
        pattern = typed(config, KINDS, listed)
    else:
        n_layers, size = config.integer("num_hidden_layers"), config.integer(interval)
        pattern = "".join("F" if layer % size == size - 1 else "L" for layer in range(n_layers))
    groups = layers_counted(pattern, recurrent | {"symbol": "L"}, full | {"symbol": "F"})
    return {"pattern": pattern, "attention": groups}


def mamba2(config: HfConfig, inner: int | None = None) -> Table:
    """Mamba-2 under the names of Granite 4, Bamba and Falcon-H1."""
    config.only("mamba_conv_bias", True)
    config.only("mamba_proj_bias", False)
    config.ignore("mamba_expand")
    n_heads = config.integer("mamba_n_heads")
    inner = inner or config.integer("mamba_expand") * config.integer("hidden_size")
    if config.get("mamba_d_head") == "auto":
        config.data["mamba_d_head"] = max(inner // n_heads, 1)
    if config.integer("mamba_d_head") * n_heads != inner:
        config.refuse("mamba_d_head", f"is {config.get('mamba_d_head')}", f"{inner} channels / mamba_n_heads")
    return {
        "kind": "mamba2",
        "n_heads": n_heads,
        "head_dim": config.integer("mamba_d_head"),
        "state_size": config.integer("mamba_d_state"),
        "n_groups": config.integer("mamba_n_groups"),
        "conv_kernel": config.integer("mamba_d_conv"),
    }


def bamba(config: HfConfig) -> Table:
    """Bamba: Mamba-2 but for the layers that attn_layer_indices lists, each with a dense MLP."""
    config.only("mlp_bias", False)
    if config.get("attn_layer_indices") is not None:
        full, n_layers = config.items("attn_layer_indices"), config.integer("num_hidden_layers")
        config.assume(layer_types=["attention" if layer in full else "mamba" for layer in range(n_layers)])
    return {
        "intermediate_size": config.integer("intermediate_size"),
        **hybrid(config, mamba2(config), heads(config), "layer_types"),
    }


def granite_hybrid(config: HfConfig) -> Table:
    """Granite 4: Mamba-2 and attention, with experts beside a shared MLP or that MLP alone."""
    config.assume(tie_word_embeddings=False)
    attention = hybrid(config, mamba2(config), heads(config), "layer_types")
    if config.count("num_local_experts"):
        return {"moe": by_heads.granite_moe(config)["moe"], **attention}
    config.ignore("intermediate_size", "num_experts_per_tok")
    return {"intermediate_size": config.integer("shared_intermediate_size"), **attention}


def falcon_h1(config: HfConfig) -> Table:
    """Falcon-H1: attention and Mamba-2 side by side in every layer, after one norm."""
    config.assume(tie_word_embeddings=False, mamba_rms_norm=False)
    for key in ("mlp_bias", "projectors_bias"):
        config.only(key, False)
    config.only("mamba_use_mlp", True)
    config.only("attn_layer_indices")
    mamba = mamba2(config, config.optional("mamba_d_ssm")) | {"n_layers": config.integer("num_hidden_layers")}
    mamba |= {"beside": True} | ({} if config.flag("mamba_rms_norm") else {"gated_norm": False})
    return {"intermediate_size": config.integer("intermediate_size"), "attention": [heads(config), mamba]}


def minimax(config: HfConfig) -> Table:
    """MiniMax-Text-01 and M1: lightning attention (0 in attn_type_list) and full attention, experts in every layer."""
    config.assume(tie_word_embeddings=False)
    config.only("shared_intermediate_size", 0)
    config.ignore("postnorm")
    config.ignore(*(key for key in config.data if "_alpha" in key or "_beta" in key))
    full, listed = heads(config), "layer_types" if config.get("layer_types") else "attn_type_list"
    lightning = {"kind": "lightning", "n_heads": full["n_heads"], "head_dim": full["head_dim"]}
    moe = experts(config, "num_local_experts", shared=0, dense=0, width="intermediate_size")
    return {"moe": moe, **hybrid(config, lightning, full, listed, listed)}


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
    moe = experts_with_bias(config, "num_experts", "num_experts_per_token", "num_shared_experts")
    if latent := config.optional("routed_expert_hidden_size"):
        moe["latent_size"] = latent
        config.get("latent_moe_use_norm")
    return with_dense_first(config, moe) | {"pattern": pattern, "attention": layers_counted(pattern, kda, mla)}


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
    found = {"gated_mlp": False, "pattern": pattern, "attention": layers_counted(pattern, mamba, attention)}
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
    groups = layers_counted(pattern, mamba, heads(config) | {"symbol": "A"})
    found = {"intermediate_size": config.integer("intermediate_size"), "pattern": pattern, "attention": groups}
    if config.get("num_experts") == 1:
        config.ignore("num_experts_per_tok", "expert_layer_period", "expert_layer_offset")
        return found
    moe = experts(config, "num_experts", shared=0, dense=0, width="intermediate_size")
    moe |= {"layer_period": config.integer("expert_layer_period"), "layer_offset": config.count("expert_layer_offset")}
    return found | {"moe": moe}


def bailing_hybrid(config: HfConfig) -> Table:
    """Ring 2 linear, Ling and Ring 2.5: lightning attention, and by heads or latent in the last layer of a group."""
    n_layers, size = config.integer("num_hidden_layers"), config.integer("layer_group_size")
    if n_layers % size:
        config.refuse("layer_group_size", f"is {size}", f"a divisor of num_hidden_layers = {n_layers}")
    if kernel := config.get("short_conv_kernel_size"):
        config.refuse(
            "short_conv_kernel_size", f"is {shown(kernel)}", "absent, as it is of Ling 3; nearest: kimi_linear"
        )
    n_heads, found = config.integer("num_attention_heads"), by_heads.bailing_moe(config, by_default=True)
    config.only("num_kv_heads_for_linear_attn", n_heads)
    config.ignore("group_norm_size")
    head_dim = config.integer("hidden_size") // n_heads  # with latent attention the key is its rotary part
    lightning = {"kind": "lightning", "n_heads": n_heads, "head_dim": head_dim}
    lightning |= {"qk_norm": True} if config.flag("use_qk_norm", True) else {}
    is_latent = config.get("full_attention_type") == "mla" or config.get("kv_lora_rank")
    full = latent_heads(config) if is_latent else found["attention"][0]
    return found | hybrid(config, lightning, full, "layer_group_size")
