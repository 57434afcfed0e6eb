"""Families of Hugging Face models whose layers all attend alike, by heads: dense ones and mixtures of experts."""

from planner.profiles.hf_config import HfConfig
from planner.profiles.hf_parts import (
    Table,
    alike,
    alternating,
    counted,
    experts,
    experts_with_bias,
    heads,
    placed,
    refuse_windows,
    typed,
    windowed,
    with_dense_first,
)


def llama(config: HfConfig) -> Table:
    config.only("mlp_bias", False)
    return {"intermediate_size": config.integer("intermediate_size"), "attention": [heads(config)]}


def mistral(config: HfConfig) -> Table:
    # As the class has it (transformers 5.23): an absent window is one of 4096, a null one is none.
    config.assume(sliding_window=4096)
    if not config.is_wrapped:  # a wrapper ties by default what the text model alone does not
        config.assume(tie_word_embeddings=False)
    return {"intermediate_size": config.integer("intermediate_size"), "attention": [windowed(config, heads(config))]}


def mixtral(config: HfConfig) -> Table:
    config.assume(tie_word_embeddings=False)
    moe = experts(config, "num_local_experts", shared=0, dense=0, width="intermediate_size")
    return {"moe": moe, "attention": [windowed(config, heads(config))]}


def phi3(config: HfConfig) -> Table:
    """Phi-3 and Phi-4: its products of queries, keys and values, and of gate and up, are fused, which counts alike."""
    config.assume(tie_word_embeddings=False)
    for key in ("attention_bias", "lm_head_bias", "mlp_bias"):
        config.only(key, False)
    return {"intermediate_size": config.integer("intermediate_size"), "attention": [windowed(config, heads(config))]}


def qwen2(config: HfConfig) -> Table:
    """Qwen2 and 2.5, whose queries, keys and values have biases that no key states; also their vision models."""
    if not config.is_wrapped:
        config.assume(tie_word_embeddings=False)
    return {"intermediate_size": config.integer("intermediate_size"), **_qwen2_attention(config)}


def qwen2_moe(config: HfConfig) -> Table:
    config.assume(tie_word_embeddings=False, decoder_sparse_step=1, qkv_bias=True)
    n_layers, step = config.integer("num_hidden_layers"), config.integer("decoder_sparse_step")
    dense = config.get("mlp_only_layers") or []
    sparse = [layer for layer in range(n_layers) if layer not in dense and (layer + 1) % step == 0]
    moe = experts(config, "num_experts", shared=1, dense=0, shared_expert_gate=True)
    moe |= placed(config, "mlp_only_layers", sparse, n_layers)
    moe["shared_expert_intermediate_size"] = config.integer("shared_expert_intermediate_size")
    width = config.integer("intermediate_size")
    found = {"moe": moe, **_qwen2_attention(config, bias=config.flag("qkv_bias"))}
    return found | ({"intermediate_size": width} if len(sparse) < n_layers else {})


def _qwen2_attention(config: HfConfig, bias: bool = True) -> Table:
    """Full attention, or windows in the upper layers, from max_window_layers on."""
    full = heads(config) | ({"attention_bias": "qkv"} if bias else {})
    n_layers = full["n_layers"]
    if not config.flag("use_sliding_window", False):
        config.ignore("sliding_window", "max_window_layers")
        return {"attention": [full]}
    config.assume(sliding_window=4096)
    if config.get("layer_types"):
        pattern = typed(config, {"full_attention": "F", "sliding_attention": "S"})
    else:
        n_full = min(config.count("max_window_layers"), n_layers)
        pattern = "F" * n_full + "S" * (n_layers - n_full)
    return alternating(pattern, full, windowed(config, full))


def qwen3(config: HfConfig) -> Table:
    refuse_windows(config)
    return {"intermediate_size": config.integer("intermediate_size"), "attention": [heads(config, qk_norm="head")]}


def qwen3_moe(config: HfConfig) -> Table:
    refuse_windows(config)
    config.only("mlp_only_layers", [])
    config.only("decoder_sparse_step", 1)
    config.get("intermediate_size")  # of dense layers, of which there are none
    moe = experts(config, "num_experts", shared=0, dense=0)
    return {"moe": moe, "attention": [heads(config, qk_norm="head")]}


def glm4_moe(config: HfConfig) -> Table:
    group = heads(config, bias="qkv")
    if config.flag("use_qk_norm"):
        group["qk_norm"] = "head"
    return with_dense_first(config, experts_with_bias(config)) | {"attention": [group]}


def minimax_m2(config: HfConfig) -> Table:
    config.only("attn_type_list", [1] * config.integer("num_hidden_layers"))
    config.only("shared_intermediate_size", 0)
    config.only("first_dense_layers", 0)
    moe = experts(config, "num_local_experts", shared=0, dense=0, width="intermediate_size", router_bias=True)
    config.only("use_routing_bias", True)
    config.only("use_qk_norm", True)
    norms = {"per_layer": "layer", "per_head": "head"}
    norm = norms.get(str(config.get("qk_norm_type")))
    if norm is None:
        config.refuse("qk_norm_type", f"is {config.get('qk_norm_type')!r}", "per_layer or per_head")
    return {"moe": moe, "attention": [heads(config, qk_norm=norm)]}


def hunyuan(config: HfConfig) -> Table:
    """Hunyuan, dense or sparse; with cross-layer attention only every cla_share_factor-th layer has its own keys."""
    config.assume(tie_word_embeddings=False, use_qk_norm=True)
    config.only("mlp_bias", False)
    config.only("moe_layer_num_skipped", 0, -1)
    config.ignore("use_mixed_mlp_moe", "eod_token_id", "sep_token_id")
    head_dim = config.optional("head_dim") or config.optional("attention_head_dim")
    own = heads(config, qk_norm="head" if config.flag("use_qk_norm") else None, head_dim=head_dim)
    attention: Table = {"attention": [own]}
    share = config.integer("cla_share_factor") if config.flag("use_cla", False) else 1
    config.ignore("cla_share_factor")
    if share > 1:
        pattern = "".join("B" if layer % share else "A" for layer in range(own["n_layers"]))
        borrowing = own | {"symbol": "B", "borrows_kv": True}
        attention = {"pattern": pattern, "attention": counted(pattern, own | {"symbol": "A"}, borrowing)}
    return _hunyuan_mlp(config) | attention


def _hunyuan_mlp(config: HfConfig) -> Table:
    """The dense MLP, or experts beside it; what may differ by layer has to be alike in all of them."""
    n_experts, width = alike(config, "num_experts") or 1, alike(config, "intermediate_size") or 1
    top_k, shared = alike(config, "moe_topk") or 1, alike(config, "num_shared_expert") or 1
    expert_width = alike(config, "moe_intermediate_size") or width
    if n_experts == 1:
        return {"intermediate_size": width}
    config.assume(use_mixed_mlp_moe=True)
    moe: Table = {"n_experts": n_experts, "n_experts_per_token": top_k, "n_shared_experts": 0}
    moe |= {"expert_intermediate_size": expert_width, "n_dense_first_layers": 0}
    if config.flag("use_mixed_mlp_moe"):
        moe |= {"n_shared_experts": shared, "shared_expert_intermediate_size": width}
    return {"moe": moe}
