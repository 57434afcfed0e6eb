"""Families of Hugging Face models with multi-head latent attention."""

from planner.profiles.hf_config import HfConfig
from planner.profiles.hf_parts import Table, experts_with_bias, latent_heads, with_dense_first


def deepseek(config: HfConfig) -> Table:
    group = latent_heads(config)
    if config.get("index_topk") is not None:
        names = {"n_heads": "index_n_heads", "head_dim": "index_head_dim", "top_k": "index_topk"}
        group["indexer"] = {key: config.integer(name) for key, name in names.items()}
    return with_dense_first(config, experts_with_bias(config)) | {"attention": [group]}


def deepseek_v2(config: HfConfig) -> Table:
    config.assume(tie_word_embeddings=False, topk_method="greedy")
    config.only("mlp_bias", False)
    config.get("head_dim")  # the rotary part, where it is stated
    moe = experts_with_bias(config)
    if config.get("topk_method") != "noaux_tc":  # the method of DeepSeek-V3, which adds the bias
        del moe["router_bias"]
    return with_dense_first(config, moe) | {"attention": [latent_heads(config)]}
