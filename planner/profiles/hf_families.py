"""Shapes of each supported family of Hugging Face models; what a class fixes and its config omits is stated here."""

from collections.abc import Callable, Mapping
from typing import Any

from planner.profiles.hf_config import HfConfig

Table = dict[str, Any]
MODEL_TYPES: Mapping[str, str] = {
    "LlamaForCausalLM": "llama",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
    "Qwen3NextForCausalLM": "qwen3_next",
    "Qwen3_5MoeForConditionalGeneration": "qwen3_5_moe",
    "Qwen3_5MoeForCausalLM": "qwen3_5_moe",
    "Glm4MoeForCausalLM": "glm4_moe",
    "GlmMoeDsaForCausalLM": "glm_moe_dsa",
    "DeepseekV3ForCausalLM": "deepseek_v3",
    "DeepseekV32ForCausalLM": "deepseek_v32",
    "KimiK25ForConditionalGeneration": "kimi_k2",
    "KimiLinearForCausalLM": "kimi_linear",
    "MiniMaxM2ForCausalLM": "minimax_m2",
    "MiMoV2FlashForCausalLM": "mimo_v2_flash",
    "GptOssForCausalLM": "gpt_oss",
    "NemotronHForCausalLM": "nemotron_h",
    "JambaForCausalLM": "jamba",
    "BailingHybridForCausalLM": "bailing_hybrid",
    "BailingMoeV2_5ForCausalLM": "bailing_hybrid",
}
"""Families by class; a config whose class is not here is read by its model_type."""


def family(config: HfConfig) -> str | None:
    """Family of a config by its class, else by its model_type; a problem where neither is supported."""
    classes = config.outer.get("architectures") or config.data.get("architectures") or []
    found = [MODEL_TYPES[name] for name in classes if name in MODEL_TYPES]
    kinds = [str(part.get("model_type")) for part in (config.outer, config.data)]
    found += [kind for kind in kinds if kind in FAMILIES]
    if found:
        return found[0]
    key = "architectures" if classes else "model_type"
    config.refuse(key, f"is {classes or kinds[0]!r}", "supported: " + ", ".join(sorted(FAMILIES)))
    return None


def shapes(config: HfConfig, name: str) -> Table:
    """The architecture table of a family, without its source."""
    found = {
        "n_layers": config.integer("num_hidden_layers"),
        "hidden_size": config.integer("hidden_size"),
        "vocab_size": config.integer("vocab_size"),
        "tie_word_embeddings": config.flag("tie_word_embeddings"),
        **FAMILIES[name](config),
    }
    if n_mtp := config.count("num_nextn_predict_layers") or config.count("mtp_num_hidden_layers"):
        found["n_mtp_layers"] = n_mtp
    return found


def _llama(config: HfConfig) -> Table:
    config.only("mlp_bias", False)
    return {"intermediate_size": config.integer("intermediate_size"), "attention": [_heads(config)]}


def _qwen3(config: HfConfig) -> Table:
    _refuse_windows(config)
    return {"intermediate_size": config.integer("intermediate_size"), "attention": [_heads(config, qk_norm="head")]}


def _qwen3_moe(config: HfConfig) -> Table:
    _refuse_windows(config)
    config.only("mlp_only_layers", [])
    config.only("decoder_sparse_step", 1)
    config.get("intermediate_size")  # of dense layers, of which there are none
    moe = _moe(config, "num_experts", shared=0, dense=0)
    return {"moe": moe, "attention": [_heads(config, qk_norm="head")]}


def _qwen3_next(config: HfConfig) -> Table:
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
    full = _heads(config, qk_norm="head") | {"symbol": "F", "output_gate": True}
    if config.get("layer_types"):
        pattern = _typed(config, {"linear_attention": "L", "full_attention": "F"})
        config.get("full_attention_interval")
    else:
        interval = config.integer("full_attention_interval")
        pattern = "".join("F" if layer % interval == interval - 1 else "L" for layer in range(n_layers))
    moe = _moe(config, "num_experts", shared=1, dense=0, shared_expert_gate=True)
    moe["shared_expert_intermediate_size"] = config.integer("shared_expert_intermediate_size")
    return {"pattern": pattern, "moe": moe, "attention": _counted(pattern, gdn, full)}


def _glm4_moe(config: HfConfig) -> Table:
    group = _heads(config, bias="qkv")
    if config.flag("use_qk_norm"):
        group["qk_norm"] = "head"
    return _with_dense_first(config, _moe_like_deepseek(config)) | {"attention": [group]}


def _deepseek(config: HfConfig) -> Table:
    group = _mla(config)
    if config.get("index_topk") is not None:
        names = {"n_heads": "index_n_heads", "head_dim": "index_head_dim", "top_k": "index_topk"}
        group["indexer"] = {key: config.integer(name) for key, name in names.items()}
    return _with_dense_first(config, _moe_like_deepseek(config)) | {"attention": [group]}


def _kimi_linear(config: HfConfig) -> Table:
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
    mla = _mla(config) | {"symbol": "A"}
    if config.flag("mla_use_output_gate", False):
        mla["output_gate"] = True
    config.get("mla_use_nope")
    config.get("head_dim")  # neither kind of layer uses it
    moe = _moe_like_deepseek(config, "num_experts", "num_experts_per_token", "num_shared_experts")
    if latent := config.optional("routed_expert_hidden_size"):
        moe["latent_size"] = latent
        config.get("latent_moe_use_norm")
    return _with_dense_first(config, moe) | {"pattern": pattern, "attention": _counted(pattern, kda, mla)}


def _minimax_m2(config: HfConfig) -> Table:
    config.only("attn_type_list", [1] * config.integer("num_hidden_layers"))
    config.only("shared_intermediate_size", 0)
    config.only("first_dense_layers", 0)
    moe = _moe(config, "num_local_experts", shared=0, dense=0, width="intermediate_size", router_bias=True)
    config.only("use_routing_bias", True)
    config.only("use_qk_norm", True)
    norms = {"per_layer": "layer", "per_head": "head"}
    norm = norms.get(str(config.get("qk_norm_type")))
    if norm is None:
        config.refuse("qk_norm_type", f"is {config.get('qk_norm_type')!r}", "per_layer or per_head")
    return {"moe": moe, "attention": [_heads(config, qk_norm=norm)]}


def _mimo_v2_flash(config: HfConfig) -> Table:
    n_layers = config.integer("num_hidden_layers")
    pattern = "".join("FS"[bool(item)] for item in config.items("hybrid_layer_pattern", n_layers))
    full = _heads(config, head_dim=config.integer("head_dim")) | {"symbol": "F"}
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
    moe = _moe(config, "n_routed_experts", shared=0, dense=n_dense, router_bias=True)
    return _dense_width(config, n_dense) | {
        "pattern": pattern,
        "moe": moe,
        "attention": _counted(pattern, full, window),
    }


def _gpt_oss(config: HfConfig) -> Table:
    pattern = _typed(config, {"sliding_attention": "S", "full_attention": "F"})
    full = _heads(config, head_dim=config.integer("head_dim")) | {"symbol": "F", "sink": True}
    window = {"kind": "swa", "symbol": "S", "window": config.integer("sliding_window")}
    window |= {key: value for key, value in full.items() if key not in window}
    moe = _moe(
        config,
        "num_local_experts",
        shared=0,
        dense=0,
        width="intermediate_size",
        router_bias=True,
        expert_bias=True,
    )
    return {"pattern": pattern, "moe": moe, "attention": _counted(pattern, full, window)}


def _nemotron_h(config: HfConfig) -> Table:
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
    attention = _heads(config, head_dim=config.integer("head_dim", "attention_head_dim")) | {"symbol": "*"}
    mlp_only = {"n_sparse_layers": pattern.count("E"), "n_dense_layers": pattern.count("-")}
    found = {"gated_mlp": False, "pattern": pattern, "attention": _counted(pattern, mamba, attention)}
    found |= _dense_width(config, pattern.count("-"))
    if pattern.count("E"):
        shared = config.count("n_shared_experts")
        moe = _moe(config, "n_routed_experts", shared=shared, dense=0, router_bias=True)
        if shared:
            moe["shared_expert_intermediate_size"] = config.integer("moe_shared_expert_intermediate_size")
        if latent := config.optional("moe_latent_size"):
            moe["latent_size"] = latent
        found["moe"] = moe
    return found | ({"mlp_only": mlp_only} if sum(mlp_only.values()) else {})


def _jamba(config: HfConfig) -> Table:
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
    moe = _moe(config, "num_experts", shared=0, dense=0, width="intermediate_size")
    moe |= {"layer_period": config.integer("expert_layer_period"), "layer_offset": config.count("expert_layer_offset")}
    groups = _counted(pattern, mamba, _heads(config) | {"symbol": "A"})
    return {"intermediate_size": width, "pattern": pattern, "moe": moe, "attention": groups}


def _bailing_hybrid(config: HfConfig) -> Table:
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
    moe = _moe_like_deepseek(config, "num_experts", "num_experts_per_tok", "num_shared_experts")
    if width := config.optional("moe_shared_expert_intermediate_size"):
        moe["shared_expert_intermediate_size"] = width
    groups = _counted(pattern, lightning, _mla(config) | {"symbol": "A"})
    return _with_dense_first(config, moe) | {"pattern": pattern, "attention": groups}


FAMILIES: Mapping[str, Callable[[HfConfig], Table]] = {
    "llama": _llama,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "qwen3_next": _qwen3_next,
    "qwen3_5_moe": _qwen3_next,
    "qwen3_5_moe_text": _qwen3_next,
    "glm4_moe": _glm4_moe,
    "glm_moe_dsa": _deepseek,
    "deepseek_v3": _deepseek,
    "deepseek_v32": _deepseek,
    "kimi_k2": _deepseek,
    "kimi_linear": _kimi_linear,
    "minimax_m2": _minimax_m2,
    "mimo_v2_flash": _mimo_v2_flash,
    "gpt_oss": _gpt_oss,
    "nemotron_h": _nemotron_h,
    "jamba": _jamba,
    "bailing_hybrid": _bailing_hybrid,
}


def _heads(config: HfConfig, qk_norm: str | None = None, bias: str = "qkvo", head_dim: int | None = None) -> Table:
    """Attention by heads over all layers; a class without head_dim in its config has hidden_size / heads."""
    n_heads = config.integer("num_attention_heads")
    dim = head_dim or config.optional("head_dim") or config.integer("hidden_size") // n_heads
    group: Table = {
        "kind": "gqa",
        "n_layers": config.integer("num_hidden_layers"),
        "n_heads": n_heads,
        "n_kv_heads": config.integer("num_key_value_heads"),
        "head_dim": dim,
    }
    if qk_norm:
        group["qk_norm"] = qk_norm
    if config.flag("attention_bias", False):
        group["attention_bias"] = bias
    return group


def _mla(config: HfConfig) -> Table:
    names = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    group: Table = {
        "kind": "mla",
        "n_layers": config.integer("num_hidden_layers"),
        "n_heads": config.integer("num_attention_heads"),
        **{name: config.integer(name) for name in names},
    }
    config.only("attention_bias", False)
    if rank := config.optional("q_lora_rank"):
        group["q_lora_rank"] = rank
    return group


def _moe(
    config: HfConfig, experts: str, *, shared: int, dense: int, width: str = "moe_intermediate_size", **facts: bool
) -> Table:
    return {
        "n_experts": config.integer(experts),
        "n_experts_per_token": config.integer("num_experts_per_tok", "num_experts_per_token"),
        "n_shared_experts": shared,
        "expert_intermediate_size": config.integer(width),
        "n_dense_first_layers": dense,
        **facts,
    }


def _moe_like_deepseek(
    config: HfConfig,
    experts: str = "n_routed_experts",
    per_token: str = "num_experts_per_tok",
    shared: str = "n_shared_experts",
) -> Table:
    """Experts with a selection bias, after the first dense layers."""
    config.only("moe_layer_freq", 1)
    return {
        "n_experts": config.integer(experts),
        "n_experts_per_token": config.integer(per_token),
        "n_shared_experts": config.count(shared),
        "expert_intermediate_size": config.integer("moe_intermediate_size"),
        "n_dense_first_layers": config.count("first_k_dense_replace"),
        "router_bias": True,
    }


def _with_dense_first(config: HfConfig, moe: Table) -> Table:
    return _dense_width(config, moe["n_dense_first_layers"]) | {"moe": moe}


def _dense_width(config: HfConfig, n_dense: int) -> Table:
    config.get("intermediate_size")
    return {"intermediate_size": config.integer("intermediate_size")} if n_dense else {}


def _typed(config: HfConfig, letters: Mapping[str, str]) -> str:
    """Pattern from a list of layer types."""
    types = config.items("layer_types", config.integer("num_hidden_layers"))
    if unknown := sorted({str(kind) for kind in types} - set(letters)):
        config.refuse("layer_types", f"has {', '.join(unknown)}", "known: " + ", ".join(letters))
    return "".join(letters.get(str(kind), "") for kind in types)


def _counted(pattern: str, *groups: Table) -> list[Table]:
    """Groups with their layers counted in the pattern; those without layers left out."""
    return [group | {"n_layers": n} for group in groups if (n := pattern.count(group["symbol"]))]


def _refuse_windows(config: HfConfig) -> None:
    if config.flag("use_sliding_window", False):
        config.refuse("use_sliding_window", "is true", "counted for false only")
    config.get("sliding_window")
