"""Supported families of Hugging Face models, by class and by model_type."""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any

from planner.errors import shown
from planner.profiles import hf_head_families as by_heads
from planner.profiles import hf_recurrent_families as recurrent
from planner.profiles import hf_window_families as windows
from planner.profiles.hf_config import HfConfig
from planner.profiles.hf_parts import Table, experts_with_bias, latent_heads, layers_counted, typed, with_dense_first


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
    return {"pattern": pattern, "attention": layers_counted(pattern, borrowing, group | {"symbol": "A"})}


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


Family = Callable[[HfConfig], Table]


def by_default(found: Family, **defaults: Any) -> Family:
    """A family whose class has defaults of its own where a config states nothing."""

    def shapes_of(config: HfConfig) -> Table:
        config.assume(**defaults)
        return found(config)

    return shapes_of


FAMILIES: Mapping[str, Family] = {
    # Dense ones
    "llama": by_heads.llama,
    "mistral": by_default(by_heads.dense, sliding_window=4096),  # where it is absent; a null one is none
    "qwen2_moe": by_heads.qwen2_moe,
    "apertus": partial(by_heads.dense, gated_mlp=False, qk_norm="head"),  # without two scalars of each activation
    "arcee": partial(by_heads.dense, gated_mlp=False),
    "cohere": by_heads.cohere,
    "cohere2": partial(by_heads.cohere, every=4),
    "cwm": partial(by_heads.dense, every=4),
    "gemma2": windows.gemma2,
    "gemma3": windows.gemma3,
    "gemma4": windows.gemma4,
    "olmo2": partial(by_heads.dense, qk_norm="layer"),
    "olmo3": partial(by_heads.dense, qk_norm="layer", every=4),
    "minicpm3": minicpm3,
    **dict.fromkeys(("exaone", "granite", "internlm2", "internlm3", "ministral3"), by_heads.dense),
    **dict.fromkeys(("ernie4_5", "gemma", "smollm3"), partial(by_heads.dense, tied=True)),
    **dict.fromkeys(
        ("chatglm", "glm", "seed_oss"), by_default(partial(by_heads.dense, bias="qkv"), attention_bias=True)
    ),
    **dict.fromkeys(("exaone4", "exaone4_5"), partial(by_heads.dense, qk_norm="head", every=4)),
    **dict.fromkeys(("glm4", "glm4v"), by_default(partial(by_heads.dense, bias="qkv", norms=4), attention_bias=True)),
    **dict.fromkeys(("phi3", "phi4mm", "phi4_multimodal"), by_heads.phi3),
    **dict.fromkeys(("qwen2", "qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "mimo"), by_heads.qwen2),
    **dict.fromkeys(("qwen3", "qwen3_vl"), by_heads.qwen3),
    **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe"), by_heads.hunyuan),
    # Experts
    "llama4": windows.llama4,
    "mixtral": partial(by_heads.experts_only, number="num_local_experts"),
    "afmoe": windows.afmoe,
    "dbrx": by_heads.experts_only,
    "dots1": partial(by_heads.routed, qk_norm="head"),
    "ernie4_5_moe": by_heads.ernie_moe,
    "exaone_moe": partial(by_heads.sparse, qk_norm="head", every=4, dense_first=1),
    "gpt_oss": windows.gpt_oss,
    "grok": by_heads.grok,
    "hy_v3": partial(by_heads.sparse, qk_norm="head", dense_first=1),
    "mimo_v2_flash": windows.mimo_v2_flash,
    "minimax_m2": by_heads.minimax_m2,
    "olmoe": partial(by_heads.experts_only, qk_norm="layer"),
    "solar_open": partial(by_heads.routed, bias="qkv"),
    "qwen3_omni_moe": by_default(by_heads.qwen3_moe, tie_word_embeddings=False),
    **dict.fromkeys(("qwen3_moe", "qwen3_vl_moe"), by_heads.qwen3_moe),
    **dict.fromkeys(("bailing_moe", "bailing_moe_v2"), by_heads.bailing_moe),
    "glm4_moe": by_heads.glm4_moe,
    "glm4v_moe": by_default(by_heads.glm4_moe, use_qk_norm=False, attention_bias=True),
    **dict.fromkeys(("granitemoe", "granitemoeshared"), by_heads.granite_moe),
    # Latent attention
    "glm4_moe_lite": glm4_moe_lite,
    **dict.fromkeys(("deepseek_v2", "mistral4"), deepseek_v2),
    **dict.fromkeys(("deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa"), deepseek),
    # Recurrent layers
    **dict.fromkeys(("bailing_hybrid", "bailing_moe_linear"), recurrent.bailing_hybrid),
    "bamba": recurrent.bamba,
    "falcon_h1": recurrent.falcon_h1,
    "granitemoehybrid": recurrent.granite_hybrid,
    "jamba": recurrent.jamba,
    "kimi_linear": recurrent.kimi_linear,
    "nemotron_h": recurrent.nemotron_h,
    "qwen3_5": recurrent.qwen3_5,
    **dict.fromkeys(("minimax", "minimax_m1", "minimax_text_01"), recurrent.minimax),
    **dict.fromkeys(("qwen3_next", "qwen3_5_moe"), recurrent.qwen3_next),
}
"""Shapes of each family by its model_type without _text; what a class fixes and its config omits is stated in them."""


CLASSES: Mapping[str, str] = {
    **{name.replace("_", ""): name for name in FAMILIES},
    "bailingmoelinearv2": "bailing_hybrid",
    "bailingmoev25": "bailing_hybrid",
    "grok1": "grok",
    "hunyuandensev1": "hunyuan_v1_dense",
    "hunyuanmoev1": "hunyuan_v1_moe",
    "kimik25": "kimi_k2",
}
"""Families by the beginning of a class's name in plain letters; a config of no such class is read by its model_type."""


UNCOUNTED: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "arctic": ("grok", "no dense MLP beside experts and after them", ("parallel_attn_mlp_res", "moe_layer_frequency")),
    "deepseek_v4": ("deepseek_v32", "no cache of compressed tokens", ("compress_ratios", "compress_rates")),
    "gemma3n": ("gemma3", "one residual stream", ("altup_num_inputs", "laurel_rank")),
    **dict.fromkeys(("lfm2", "lfm2_moe"), ("qwen3_next", "no convolution in place of attention", ("conv_L_cache",))),
    "longcat_flash": ("deepseek_v3", "no experts that do nothing", ("zero_expert_num",)),
    **dict.fromkeys(("mamba", "falcon_mamba"), ("jamba", "attention in some layers", ("state_size",))),
    "mamba2": ("nemotron_h", "attention in some layers", ("state_size",)),
    "minimax_m3": ("minimax_m2", "no attention to blocks", ("sparse_attention_config", "index_topk_blocks")),
    "mllama": ("llama", "no attention to images", ("cross_attention_layers",)),
    "nemotron": ("arcee", "no biases of norms", ("norm_eps",)),
    "nemotron-nas": ("llama", "all layers alike", ("block_configs",)),
    "phimoe": ("mixtral", "no biases of norms and of the output head", ("lm_head_bias",)),
    "rwkv": ("kimi_linear", "no recurrence of this kind", ("attention_hidden_size",)),
    "stablelm": ("llama", "no biases of norms", ("layer_norm_eps",)),
    "starcoder2": ("qwen2", "no biases of norms and MLPs", ("use_bias",)),
    "step3p5": ("mimo_v2_flash", "no gate per head", ("use_head_wise_attn_gate", "attention_other_setting")),
    "zamba2": ("nemotron_h", "no layers that share weights", ("hybrid_layer_ids",)),
}
"""Families that no profile describes: the nearest that one does, what it is counted for, and the keys that decide."""
_TEXT = re.compile(r"_text(?:_model)?$|(?<=_m3)_vl(?:_text)?$")
"""What the model_type of a text model has beside that of the model that holds it."""
NEAREST = (
    ("index_topk", "deepseek_v32"),
    ("linear_attn_config", "kimi_linear"),
    ("linear_num_value_heads", "qwen3_next"),
    ("mamba_n_heads", "granitemoehybrid"),
    ("ssm_state_size", "nemotron_h"),
    ("state_size", "nemotron_h"),
    ("kv_lora_rank", "deepseek_v3"),
    ("n_routed_experts", "glm4_moe"),
    ("num_local_experts", "mixtral"),
    ("num_experts", "qwen3_moe"),
    ("sliding_window", "mistral"),
)
"""Keys that tell what a config of an unknown family is most like; one with none of them is like Llama's."""


def family(config: HfConfig) -> str | None:
    """Family of a config by its class, else by its model_type; a problem where neither is supported."""
    classes = config.outer.get("architectures") or config.data.get("architectures") or []
    plain = [str(name).partition("For")[0].replace("_", "").lower() for name in classes]
    found = [CLASSES[name] for name in plain if name in CLASSES]
    stated = [str(part.get("model_type")) for part in (config.outer, config.data)]
    kinds = [_TEXT.sub("", kind) for kind in stated]
    if not found and (uncounted := [kind for kind in kinds if kind in UNCOUNTED]):
        nearest, counted, keys = UNCOUNTED[uncounted[0]]
        key = next((key for key in keys if config.data.get(key) is not None), "model_type")
        value = shown(config.data.get(key))
        config.refuse(key, f"is {value}, in {uncounted[0]}", f"profiles are for {counted}; nearest: {nearest}")
        return None
    found += [kind for kind in kinds if kind in FAMILIES]
    if found:
        return found[0]
    key = "architectures" if classes else "model_type"
    supported = f"nearest: {_nearest(config, kinds[-1])}; supported: {', '.join(sorted(FAMILIES))}"
    config.refuse(key, f"is {classes or stated[0]!r}", supported)
    return None


def _nearest(config: HfConfig, kind: str) -> str:
    """The supported family that is named alike, else the one whose keys a config has."""
    alike = get_close_matches(kind, FAMILIES, n=1, cutoff=0.75)
    return next(iter(alike), next((name for key, name in NEAREST if config.data.get(key)), "llama"))


def shapes(config: HfConfig, name: str) -> Table:
    """The architecture table of a family, without its source."""
    own = FAMILIES[name](config)  # first, since a family may know what its configs leave out
    found = {
        "n_layers": config.integer("num_hidden_layers"),
        "hidden_size": config.integer("hidden_size"),
        "vocab_size": config.integer("vocab_size"),
        "tie_word_embeddings": config.flag("tie_word_embeddings"),
        **own,
    }
    if n_mtp := config.count("num_nextn_predict_layers") or config.count("mtp_num_hidden_layers"):
        found["n_mtp_layers"] = n_mtp
    return found
