"""Families of Hugging Face models whose layers all attend alike, by heads: dense ones and mixtures of experts."""

from functools import partial
from typing import Any

from planner.profiles.hf_config import HfConfig
from planner.profiles.hf_parts import (
    Table,
    alike,
    alternating,
    experts,
    experts_with_bias,
    heads,
    interleaved,
    layers_counted,
    placed,
    refuse_windows,
    typed,
    windowed,
    with_dense_first,
)

BIASES = ("attention_out_bias", "bias", "lm_head_bias", "mlp_bias", "qkv_bias", "use_bias", "use_qkv_bias")
"""Biases that no published checkpoint of a family with such keys has, and that none is counted with."""


def dense(config: HfConfig, *, gated_mlp: bool = True, tied: bool = False, **attention: Any) -> Table:
    """A dense model whose class differs from Llama's by what its keys do not say.

    Args:
        gated_mlp: whether its MLP has a gate.
        tied: whether its embeddings are tied where the config does not say so.
        attention: as `head_attention_layers` takes it.
    """
    if not config.is_wrapped:  # a wrapper ties by default what the text model alone does not
        config.assume(tie_word_embeddings=tied)
    facts: Table = {} if gated_mlp else {"gated_mlp": False}
    return {
        "intermediate_size": config.integer("intermediate_size"),
        **facts,
        **head_attention_layers(config, **attention),
    }


def head_attention_layers(
    config: HfConfig,
    *,
    qk_norm: str | None = None,
    bias: str = "qkvo",
    norms: int | None = None,
    every: int = 0,
    **facts: bool,
) -> Table:
    """Attention by heads with its norms, over all keys or a window.

    Args:
        norms: norms of a layer, where they are not two.
        every: every how many layers one is full where layers with windows are between; 0: all layers are alike.
    """
    for key in BIASES:
        config.only(key, False)
    config.only("qk_norm", qk_norm is not None)
    config.ignore("no_rope_layers", "no_rope_layer_interval")  # which are cached alike
    full = heads(config, qk_norm=qk_norm, bias=bias) | facts
    found: Table = {"norms_per_layer": norms} if norms else {}
    if every:
        return found | interleaved(config, full, every)
    if not config.flag("use_sliding_window", True):
        config.ignore("sliding_window", "max_window_layers")
        return found | {"attention": [full]}
    return found | {"attention": [windowed(config, full)]}


def sparse(
    config: HfConfig,
    *,
    number: str = "num_experts",
    shared: str = "num_shared_experts",
    per_token: str = "num_experts_per_tok",
    dense_first: int = 0,
    router_bias: bool = True,
    **attention: Any,
) -> Table:
    """A mixture of experts after dense layers, `dense_first` where no key says it; else as `dense`."""
    if config.get("mlp_layer_types") is None:
        config.assume(first_k_dense_replace=dense_first)
    config.assume(tie_word_embeddings=False)
    if shared not in config.data:  # classes differ in what they take it for
        config.refuse(shared, "is required", "a whole number, 0 where there are none")
    moe = experts_with_bias(config, number, per_token, shared) | {"router_bias": router_bias}
    return with_dense_first(config, moe) | head_attention_layers(config, **attention)


routed = partial(sparse, number="n_routed_experts", shared="n_shared_experts")
"""As `sparse`, with the numbers of experts under the names of DeepSeek's: GLM, dots.llm, Solar."""


def experts_only(
    config: HfConfig,
    *,
    number: str = "num_experts",
    width: str = "intermediate_size",
    beside: str = "",
    **attention: Any,
) -> Table:
    """Experts in every layer, perhaps beside a dense MLP whose width stands under the key `beside`; else as `dense`."""
    config.assume(tie_word_embeddings=False)
    config.only("clip_qkv")
    config.only("residual_moe", True)
    shared = config.count(beside) if beside else 0
    moe = experts(config, number, shared=int(shared > 0), dense=0, width=width)
    moe |= {"shared_expert_intermediate_size": shared} if shared else {}
    return {"moe": moe, **head_attention_layers(config, **attention)}


grok = partial(
    experts_only, number="num_local_experts", width="moe_intermediate_size", beside="intermediate_size", norms=4
)
"""Grok 2, whose layers have a dense MLP beside their experts."""
granite_moe = partial(experts_only, number="num_local_experts", beside="shared_intermediate_size")
"""Granite 3 and 4 with experts, and perhaps a shared MLP beside them."""


def cohere(config: HfConfig, every: int = 0) -> Table:
    """Command R and A: attention and MLP side by side after one norm, embeddings tied; R+ has norms of each head."""
    config.only("use_parallel_block", True)
    config.only("use_gated_activation", True)
    config.only("order_of_interleaved_layers", "local_attn_first")
    config.ignore("layer_switch")
    norm = "layer" if config.flag("use_qk_norm", False) else None
    return dense(config, norms=1, tied=True, qk_norm=norm, every=every)


def bailing_moe(config: HfConfig, by_default: bool = False) -> Table:
    """Ling and Ring, whose norms of queries and keys and whose biases of the router are by default there or not."""
    config.only("norm_head", False)
    config.only("multi_gate", False)
    norm = "head" if config.flag("use_qk_norm", by_default) else None
    found = sparse(config, router_bias=config.flag("moe_router_enable_expert_bias", by_default), qk_norm=norm)
    if width := config.optional("moe_shared_expert_intermediate_size"):
        found["moe"]["shared_expert_intermediate_size"] = width
    return found


def ernie_moe(config: HfConfig) -> Table:
    """ERNIE 4.5 with experts from moe_layer_start_index on."""
    config.assume(moe_layer_end_index=-1, moe_layer_interval=1, tie_word_embeddings=True)
    config.only("moe_layer_end_index", -1, config.integer("num_hidden_layers") - 1)
    config.only("moe_layer_interval", 1)
    config.assume(first_k_dense_replace=config.get("moe_layer_start_index"))
    config.ignore("moe_layer_start_index", "moe_capacity")
    return sparse(config, number="moe_num_experts", shared="moe_num_shared_experts", per_token="moe_k")


def llama(config: HfConfig) -> Table:
    config.only("mlp_bias", False)
    return {"intermediate_size": config.integer("intermediate_size"), "attention": [heads(config)]}


def phi3(config: HfConfig) -> Table:
    """Phi-3 and Phi-4: its products of queries, keys and values, and of gate and up, are fused, which counts alike."""
    config.only("attention_bias", False)
    return dense(config)


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
    norm = "head" if config.flag("use_qk_norm") else None
    return routed(config, bias="qkv", qk_norm=norm)


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
        attention = {"pattern": pattern, "attention": layers_counted(pattern, own | {"symbol": "A"}, borrowing)}
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
