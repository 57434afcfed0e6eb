"""Supported families of Hugging Face models, by class and by model_type."""

from collections.abc import Callable, Mapping

from planner.profiles import hf_head_families as by_heads
from planner.profiles import hf_latent_families as latent
from planner.profiles import hf_recurrent_families as recurrent
from planner.profiles import hf_window_families as windows
from planner.profiles.hf_config import HfConfig
from planner.profiles.hf_parts import Table

MODEL_TYPES: Mapping[str, str] = {
    "LlamaForCausalLM": "llama",
    "Llama4ForCausalLM": "llama4_text",
    "Llama4ForConditionalGeneration": "llama4",
    "MistralForCausalLM": "mistral",
    "MixtralForCausalLM": "mixtral",
    "Gemma2ForCausalLM": "gemma2",
    "Gemma3ForCausalLM": "gemma3_text",
    "Gemma3ForConditionalGeneration": "gemma3",
    "Phi3ForCausalLM": "phi3",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen2MoeForCausalLM": "qwen2_moe",
    "Qwen2VLForConditionalGeneration": "qwen2_vl",
    "Qwen2_5_VLForConditionalGeneration": "qwen2_5_vl",
    "HunYuanDenseV1ForCausalLM": "hunyuan_v1_dense",
    "HunYuanMoEV1ForCausalLM": "hunyuan_v1_moe",
    "DeepseekV2ForCausalLM": "deepseek_v2",
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


FAMILIES: Mapping[str, Callable[[HfConfig], Table]] = {
    "llama": by_heads.llama,
    "llama4": windows.llama4,
    "llama4_text": windows.llama4,
    "mistral": by_heads.mistral,
    "mixtral": by_heads.mixtral,
    "gemma2": windows.gemma2,
    "gemma3": windows.gemma3,
    "gemma3_text": windows.gemma3,
    "phi3": by_heads.phi3,
    "qwen2": by_heads.qwen2,
    "qwen2_moe": by_heads.qwen2_moe,
    "qwen2_vl": by_heads.qwen2,
    "qwen2_vl_text": by_heads.qwen2,
    "qwen2_5_vl": by_heads.qwen2,
    "qwen2_5_vl_text": by_heads.qwen2,
    "hunyuan_v1_dense": by_heads.hunyuan,
    "hunyuan_v1_moe": by_heads.hunyuan,
    "qwen3": by_heads.qwen3,
    "qwen3_moe": by_heads.qwen3_moe,
    "qwen3_next": recurrent.qwen3_next,
    "qwen3_5_moe": recurrent.qwen3_next,
    "qwen3_5_moe_text": recurrent.qwen3_next,
    "glm4_moe": by_heads.glm4_moe,
    "glm_moe_dsa": latent.deepseek,
    "deepseek_v2": latent.deepseek_v2,
    "deepseek_v3": latent.deepseek,
    "deepseek_v32": latent.deepseek,
    "kimi_k2": latent.deepseek,
    "kimi_linear": recurrent.kimi_linear,
    "minimax_m2": by_heads.minimax_m2,
    "mimo_v2_flash": windows.mimo_v2_flash,
    "gpt_oss": windows.gpt_oss,
    "nemotron_h": recurrent.nemotron_h,
    "jamba": recurrent.jamba,
    "bailing_hybrid": recurrent.bailing_hybrid,
}
"""Shapes of each family by its model_type; what a class fixes and its config omits is stated in them."""


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
