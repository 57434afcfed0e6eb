"""Families of Hugging Face models with multi-head latent attention."""

from planner.errors import shown
from planner.profiles.hf_config import HfConfig
from planner.profiles.hf_parts import Table, counted, experts_with_bias, latent_heads, typed, with_dense_first


def deepseek(config: HfConfig) -> Table:
    group, attention = latent_heads(config), None
    is_sparse = config.get("index_topk") is not None
    if config.get("layer_types"):
        sparse = dict.fromkeys(("deepseek_sparse_attention", "indexed_attention"), "A")
        typed(config, sparse if is_sparse else {"full_attention": "A"})
    if is_sparse:
        names = {"n_heads": "index_n_heads", "head_dim": "index_head_dim", "top_k": "index_topk"}
        group["indexer"] = {key: config.integer(name) for key, name in names.items()}
        attention = _sharing_indexers(config, group)
    return with_dense_first(config, experts_with_bias(config)) | (attention or {"attention": [group]})


def glm4_moe_lite(config: HfConfig) -> Table:
    """GLM-4.7-Flash, whose first layer is dense where no key says it."""
    if config.data.get("mlp_layer_types") is None:
        config.assume(first_k_dense_replace=1)
    return deepseek(config)


def minicpm3(config: HfConfig) -> Table:
    config.assume(tie_word_embeddings=True)
    return {"intermediate_size": config.integer("intermediate_size"), "attention": [latent_heads(config)]}


def _sharing_indexers(config: HfConfig, group: Table) -> Table | None:
    """Layers with an indexer of their own (A) and those that borrow the keys of one below (B); None: all have one."""
    pattern = _indexer_pattern(config, group["n_layers"])
    config.ignore("index_share_for_mtp_iteration")  # of drafts, whose layer counts as one with an indexer of its own
    if "B" not in pattern:
        return None
    borrowing = group | {"symbol": "B", "indexer": group["indexer"] | {"borrowed": True}}
    return {"pattern": pattern, "attention": counted(pattern, borrowing, group | {"symbol": "A"})}


def _indexer_pattern(config: HfConfig, n_layers: int) -> str:
    """As listed by layer, else every index_topk_freq-th layer after the first ones.

    Source:
        GLM-5.2: of index_skip_topk_offset = 3 and index_topk_freq = 4, layers 0, 1, 2, 6, 10, ... have indexers.
    """
    frequency, offset = config.optional("index_topk_freq") or 1, config.optional("index_skip_topk_offset")
    letters = config.get("index_topk_pattern")
    if config.get("indexer_types"):
        return typed(config, {"full": "A", "shared": "B"}, "indexer_types")
    if letters is not None:
        if not isinstance(letters, str) or len(letters) != n_layers or set(letters) - set("FS"):
            config.refuse("index_topk_pattern", f"is {shown(letters)}", f"{n_layers} letters of F and S")
            return "A" * n_layers
        return letters.translate({ord("F"): "A", ord("S"): "B"})
    if frequency == 1:
        return "A" * n_layers
    if offset is None:
        config.refuse("index_skip_topk_offset", "is required", "a whole number, since index_topk_freq is above 1")
        return "A" * n_layers
    return "".join("B" if max(layer - offset + 1, 0) % frequency else "A" for layer in range(n_layers))


def deepseek_v2(config: HfConfig) -> Table:
    config.assume(tie_word_embeddings=False, topk_method="greedy")
    config.only("mlp_bias", False)
    moe = experts_with_bias(config)
    if config.get("topk_method") != "noaux_tc":  # the method of DeepSeek-V3, which adds the bias
        del moe["router_bias"]
    return with_dense_first(config, moe) | {"attention": [latent_heads(config)]}
