"""`planner profiles import` maps a published config exactly, names what it left out, refuses what it cannot know."""

import json
from typing import Any

import pytest

from planner.errors import InputError
from planner.profiles import ModelProfile, model_profile, parameters_by_part, total_parameters
from planner.profiles.importer import ImportedProfile, profile_of_config
from planner.schema import TomlFile

FP8 = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}
MXFP4 = {
    "quant_method": "mxfp4",
    "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "lm_head"],
}


def common(kind: str, class_: str, origin: str, shape: tuple[int, int, int, int, int], **more: Any) -> dict[str, Any]:
    """Fields every config has: layers, width, heads, KV heads, vocabulary."""
    n_layers, hidden, n_heads, n_kv_heads, vocabulary = shape
    return {
        "_name_or_path": origin,
        "model_type": kind,
        "architectures": [class_],
        "num_hidden_layers": n_layers,
        "hidden_size": hidden,
        "num_attention_heads": n_heads,
        "num_key_value_heads": n_kv_heads,
        "vocab_size": vocabulary,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "rms_norm_eps": 1e-6,
        **more,
    }


LATENT = {"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
DEEPSEEK = {
    **LATENT,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "moe_layer_freq": 1,
    "n_group": 8,
    "topk_group": 4,
    "quantization_config": FP8,
}
GDN = {
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_value_head_dim": 128,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "head_dim": 256,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama-3.1-8b": common(
        "llama", "LlamaForCausalLM", "meta-llama/Llama-3.1-8B", (32, 4096, 32, 8, 128256), intermediate_size=14336
    ),
    "qwen3-32b": common(
        "qwen3", "Qwen3ForCausalLM", "Qwen/Qwen3-32B", (64, 5120, 64, 8, 151936), intermediate_size=25600, head_dim=128
    ),
    "qwen3-235b": common(
        "qwen3_moe",
        "Qwen3MoeForCausalLM",
        "Qwen/Qwen3-235B-A22B",
        (94, 4096, 64, 4, 151936),
        head_dim=128,
        intermediate_size=12288,
        moe_intermediate_size=1536,
        num_experts=128,
        num_experts_per_tok=8,
        decoder_sparse_step=1,
        mlp_only_layers=[],
        use_sliding_window=False,
    ),
    "qwen3-next-80b": common(
        "qwen3_next",
        "Qwen3NextForCausalLM",
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        (48, 2048, 16, 2, 151936),
        linear_num_value_heads=32,
        moe_intermediate_size=512,
        shared_expert_intermediate_size=512,
        **GDN,
    ),
    "qwen3.5-397b": {
        "_name_or_path": "Qwen/Qwen3.5-397B-A17B",
        "model_type": "qwen3_5_moe",
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "tie_word_embeddings": False,
        "vision_config": {"depth": 27},
        "text_config": common(
            "qwen3_5_moe_text",
            "",
            "",
            (60, 4096, 32, 2, 248320),
            linear_num_value_heads=64,
            moe_intermediate_size=1024,
            shared_expert_intermediate_size=1024,
            mtp_num_hidden_layers=1,
            attn_output_gate=True,
            layer_types=(["linear_attention"] * 3 + ["full_attention"]) * 15,
            **GDN,
        ),
    },
    "glm-4.5": common(
        "glm4_moe",
        "Glm4MoeForCausalLM",
        "zai-org/GLM-4.5",
        (92, 5120, 96, 8, 151552),
        head_dim=128,
        intermediate_size=12288,
        moe_intermediate_size=1536,
        n_routed_experts=160,
        num_experts_per_tok=8,
        n_shared_experts=1,
        first_k_dense_replace=3,
        num_nextn_predict_layers=1,
        use_qk_norm=True,
        attention_bias=True,
    ),
    "deepseek-v3": common(
        "deepseek_v3",
        "DeepseekV3ForCausalLM",
        "deepseek-ai/DeepSeek-V3",
        (61, 7168, 128, 128, 129280),
        n_routed_experts=256,
        first_k_dense_replace=3,
        num_nextn_predict_layers=1,
        **DEEPSEEK,
    ),
    "deepseek-v3.2": common(
        "deepseek_v32",
        "DeepseekV32ForCausalLM",
        "deepseek-ai/DeepSeek-V3.2",
        (61, 7168, 128, 128, 129280),
        n_routed_experts=256,
        first_k_dense_replace=3,
        num_nextn_predict_layers=1,
        index_n_heads=64,
        index_head_dim=128,
        index_topk=2048,
        **DEEPSEEK,
    ),
    "kimi-k2": common(
        "kimi_k2",
        "DeepseekV3ForCausalLM",
        "moonshotai/Kimi-K2-Instruct",
        (61, 7168, 64, 64, 163840),
        n_routed_experts=384,
        first_k_dense_replace=1,
        num_nextn_predict_layers=0,
        **DEEPSEEK,
    ),
    "kimi-linear-48b": common(
        "kimi_linear",
        "KimiLinearForCausalLM",
        "moonshotai/Kimi-Linear-48B-A3B-Instruct",
        (27, 2304, 32, 32, 163840),
        head_dim=72,
        q_lora_rank=None,
        kv_lora_rank=512,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
        mla_use_nope=True,
        intermediate_size=9216,
        moe_intermediate_size=1024,
        num_experts=256,
        num_experts_per_token=8,
        num_shared_experts=1,
        first_k_dense_replace=1,
        moe_layer_freq=1,
        num_nextn_predict_layers=0,
        linear_attn_config={
            "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
            "kda_layers": [n for n in range(1, 28) if n not in (4, 8, 12, 16, 20, 24, 27)],
            "num_heads": 32,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
        },
    ),
    "minimax-m2.5": common(
        "minimax_m2",
        "MiniMaxM2ForCausalLM",
        "MiniMaxAI/MiniMax-M2.5",
        (62, 3072, 48, 8, 200064),
        head_dim=128,
        intermediate_size=1536,
        num_local_experts=256,
        num_experts_per_tok=8,
        shared_intermediate_size=0,
        use_mtp=True,
        num_mtp_modules=3,
        qk_norm_type="per_layer",
        quantization_config={**FP8, "modules_to_not_convert": ["gate", "e_score_correction_bias", "lm_head"]},
    ),
    "mimo-v2-flash": common(
        "mimo_v2_flash",
        "MiMoV2FlashForCausalLM",
        "XiaomiMiMo/MiMo-V2-Flash",
        (48, 4096, 64, 4, 152576),
        head_dim=192,
        v_head_dim=128,
        swa_num_attention_heads=64,
        swa_num_key_value_heads=8,
        swa_head_dim=192,
        swa_v_head_dim=128,
        sliding_window=128,
        add_swa_attention_sink_bias=True,
        hybrid_layer_pattern=[0, *([1] * 4 + [0]), *([1] * 5 + [0]) * 7],
        moe_layer_freq=[0] + [1] * 47,
        intermediate_size=16384,
        moe_intermediate_size=2048,
        n_routed_experts=256,
        n_shared_experts=None,
        num_experts_per_tok=8,
        quantization_config=FP8,
    ),
    "gpt-oss-120b": common(
        "gpt_oss",
        "GptOssForCausalLM",
        "openai/gpt-oss-120b",
        (36, 2880, 64, 8, 201088),
        head_dim=64,
        intermediate_size=2880,
        num_local_experts=128,
        num_experts_per_tok=4,
        sliding_window=128,
        layer_types=["sliding_attention", "full_attention"] * 18,
        attention_bias=True,
        quantization_config=MXFP4,
    ),
    "nemotron-3-super-120b": common(
        "nemotron_h",
        "NemotronHForCausalLM",
        "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
        (88, 4096, 32, 2, 131072),
        head_dim=128,
        intermediate_size=2688,
        moe_intermediate_size=2688,
        moe_latent_size=1024,
        moe_shared_expert_intermediate_size=5376,
        n_routed_experts=512,
        n_shared_experts=1,
        num_experts_per_tok=22,
        mamba_num_heads=128,
        mamba_head_dim=64,
        ssm_state_size=128,
        n_groups=8,
        conv_kernel=4,
        hybrid_override_pattern=model_profile("nemotron-3-super-120b").architecture.pattern,
        quantization_config={"quant_method": "modelopt", "quant_algo": "FP8"},
    ),
    "jamba-v0.1": common(
        "jamba",
        "JambaForCausalLM",
        "ai21labs/Jamba-v0.1",
        (32, 4096, 32, 8, 65536),
        attn_layer_period=8,
        attn_layer_offset=4,
        expert_layer_period=2,
        expert_layer_offset=1,
        num_experts=16,
        num_experts_per_tok=2,
        intermediate_size=14336,
        mamba_d_state=16,
        mamba_d_conv=4,
        mamba_expand=2,
        mamba_dt_rank=256,
    ),
    "ring-2.5-1t": common(
        "bailing_hybrid",
        "BailingHybridForCausalLM",
        "inclusionAI/Ring-2.5-1T",
        (80, 8192, 64, 64, 157184),
        layer_group_size=8,
        num_kv_heads_for_linear_attn=64,
        intermediate_size=18432,
        moe_intermediate_size=2048,
        moe_shared_expert_intermediate_size=2048,
        num_experts=256,
        num_experts_per_tok=8,
        num_shared_experts=1,
        first_k_dense_replace=4,
        quantization_config=FP8,
        **LATENT,
    ),
}


def imported(config: dict[str, Any], **more: Any) -> ImportedProfile:
    return profile_of_config("config.json", json.dumps(config | more), "a-model")


def profile(found: ImportedProfile) -> ModelProfile:
    return TomlFile(f"{found.name}.toml", found.text).record(ModelProfile)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_published_config_gives_the_shapes_of_the_shipped_profile(name: str) -> None:
    found, shipped = profile(imported(CONFIGS[name])), model_profile(name)
    assert found.precision == shipped.precision
    assert total_parameters(found) == total_parameters(shipped)
    assert parameters_by_part(found.architecture) == parameters_by_part(shipped.architecture)
    kinds = {group.kind: group.model_dump(exclude={"symbol"}) for group in shipped.architecture.attention}
    assert {group.kind: group.model_dump(exclude={"symbol"}) for group in found.architecture.attention} == kinds
    assert found.architecture.n_mtp_layers == shipped.architecture.n_mtp_layers


@pytest.mark.parametrize(("keys", "groups"), [({}, (8, 4)), ({"n_group": 1, "topk_group": 1}, (1, 1))])
def test_groups_that_limit_routing_are_kept(keys: dict[str, Any], groups: tuple[int, int]) -> None:
    moe = profile(imported(CONFIGS["deepseek-v3"], **keys)).architecture.moe
    assert moe is not None
    assert (moe.n_groups, moe.n_groups_per_token) == groups
    shipped = model_profile("deepseek-v3").architecture.moe
    assert (shipped == moe) == (not keys)


NANO = {
    "mamba_num_heads": 64,
    "ssm_state_size": 128,
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "num_experts_per_tok": 6,
    "intermediate_size": 1856,
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
}
H56B = {
    "mamba_num_heads": 256,
    "ssm_state_size": 256,
    "intermediate_size": 32768,
    "hybrid_override_pattern": "M-M-M-M*-" + "M-M-M-M-M*-" * 9 + "M-M-M-M-M-",
}


@pytest.mark.parametrize(
    ("shape", "more", "total"),
    [
        ((52, 2688, 32, 2, 131072), NANO, 31_577_940_288),
        ((118, 8192, 64, 8, 131072), H56B, 56_324_350_464),
    ],
    ids=["nano-30b", "h-56b"],
)
def test_nemotron_patterns_of_all_sorts_are_counted(
    shape: tuple[int, int, int, int, int], more: dict[str, Any], total: int
) -> None:
    config = common("nemotron_h", "NemotronHForCausalLM", "nvidia/x", shape, **more)
    config |= {"head_dim": 128, "mamba_head_dim": 64, "n_groups": 8, "conv_kernel": 4}
    assert total_parameters(profile(imported(config))) == total


def test_parts_left_in_bf16_are_those_the_config_lists() -> None:
    found = profile(imported(CONFIGS["gpt-oss-120b"]))
    assert found.checkpoint
    bf16 = {"attention", "router", "embedding", "lm_head", "norms"}
    assert found.checkpoint.formats == {part: {"bf16": 1.0} for part in bf16}


def test_int4_experts_of_compressed_tensors_are_understood() -> None:
    groups = {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}}
    ignore = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]
    quantization = {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ignore}
    found = profile(imported(CONFIGS["kimi-k2"], quantization_config=quantization))
    assert found.precision == "int4"
    assert found.checkpoint
    bf16 = {"attention", "shared_experts", "dense_mlp", "router", "embedding", "lm_head", "norms"}
    assert found.checkpoint.formats == {part: {"bf16": 1.0} for part in bf16}
    assert found.checkpoint.bytes_per_weight == {"int4": 0.5 + 2 / 32}
    assert found.checkpoint.weight_only == ("int4",)


def test_what_is_not_mapped_is_named() -> None:
    assert imported(CONFIGS["minimax-m2.5"]).unmapped == ("use_mtp", "num_mtp_modules")
    assert imported(CONFIGS["qwen3.5-397b"]).unmapped == ("vision_config",)
    assert imported(CONFIGS["llama-3.1-8b"], some_new_trick=3).unmapped == ("some_new_trick",)


def test_all_missing_keys_are_refused_together() -> None:
    config = {key: value for key, value in CONFIGS["deepseek-v3"].items() if key not in ("kv_lora_rank", "vocab_size")}
    with pytest.raises(InputError) as caught:
        imported(config)
    assert {problem.key for problem in caught.value.problems} == {"kv_lora_rank", "vocab_size"}
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("name", "key", "value", "says"),
    [
        ("llama-3.1-8b", "torch_dtype", None, "is required"),
        ("llama-3.1-8b", "torch_dtype", "float32", "is 'float32'"),
        ("llama-3.1-8b", "hidden_size", "4096", "positive whole number"),
        ("llama-3.1-8b", "mlp_bias", True, "counted for false only"),
        ("qwen3-32b", "use_sliding_window", True, "counted for false only"),
        ("qwen3-235b", "mlp_only_layers", [0], "counted for"),
        ("deepseek-v3", "moe_layer_freq", 2, "counted for 1 only"),
        ("deepseek-v3", "quantization_config", {"quant_method": "magic"}, "of method 'magic'"),
        ("minimax-m2.5", "qk_norm_type", None, "per_layer or per_head"),
        ("gpt-oss-120b", "layer_types", ["sliding_attention"], "one per layer, 36"),
        ("nemotron-3-super-120b", "hybrid_override_pattern", "M*X", "letters of M"),
        ("kimi-linear-48b", "linear_attn_config", {}, "is required"),
        ("ring-2.5-1t", "layer_group_size", 7, "a divisor of num_hidden_layers = 80"),
        ("mimo-v2-flash", "moe_layer_freq", [1, 0] * 24, "dense layers first"),
    ],
)
def test_what_cannot_be_known_is_refused_at_its_key(name: str, key: str, value: Any, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        imported(CONFIGS[name], **{key: value})
    assert any(key in problem.key or problem.key in ("full_attn_layers",) for problem in caught.value.problems)


def test_an_unsupported_architecture_is_refused_with_the_choice() -> None:
    with pytest.raises(
        InputError, match=r"architectures: is \['MysteryForCausalLM'\] \(nearest: llama; supported: afmoe"
    ):
        imported({"architectures": ["MysteryForCausalLM"], "model_type": "mystery"})


@pytest.mark.parametrize(("text", "says"), [("{", "is not JSON"), ("[]", "no JSON object")])
def test_what_is_no_config_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        profile_of_config("config.json", text)


# Context limits


@pytest.mark.parametrize(
    ("more", "limit"),
    [
        ({}, None),
        ({"max_position_embeddings": 40960}, 40960),
        ({"max_position_embeddings": 40960, "rope_scaling": None}, 40960),
        # What vLLM makes of it: llama3 and longrope count positions that are scaled already, yarn starts from its own.
        ({"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 131072),
        ({"max_position_embeddings": 131072, "rope_scaling": {"type": "longrope", "factor": 32}}, 131072),
        ({"max_position_embeddings": 40960, "rope_scaling": {"type": "linear", "factor": 4.0}}, 163840),
        ({"max_position_embeddings": 4096, "rope_parameters": {"rope_type": "dynamic", "factor": 2}}, 8192),
        (
            {
                "max_position_embeddings": 163840,
                "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
            },
            163840,
        ),
        ({"max_position_embeddings": 32768, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, 131072),
        ({"max_position_embeddings": 262144, "rope_parameters": {"rope_type": "default", "rope_theta": 1e7}}, 262144),
        (
            {
                "max_position_embeddings": 8192,
                "rope_parameters": {
                    "full_attention": {"rope_type": "linear", "factor": 8.0},
                    "sliding_attention": {"rope_type": "default"},
                },
            },
            65536,
        ),
    ],
    ids=str,
)
def test_the_context_limit_is_what_engines_make_of_positions_and_rope_scaling(
    more: dict[str, Any], limit: int | None
) -> None:
    assert profile(imported(CONFIGS["qwen3-32b"], **more)).architecture.context_limit_tokens == limit


def test_the_positions_of_a_text_tower_are_its_models() -> None:
    whole = {key: value for key, value in CONFIGS["qwen3.5-397b"].items() if key != "text_config"}
    tower = {**CONFIGS["qwen3.5-397b"].get("text_config", {}), "max_position_embeddings": 262144}
    assert profile(imported({**whole, "text_config": tower})).architecture.context_limit_tokens == 262144


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"max_position_embeddings": -1}, "max_position_embeddings"),
        ({"max_position_embeddings": 10**12}, "max_position_embeddings"),
        (
            {"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": "x"}},
            r"rope_scaling\.factor",
        ),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "yarn", "factor": -2}}, r"rope_scaling\.factor"),
    ],
)
def test_positions_and_scaling_that_make_no_sense_are_refused_at_their_key(more: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError, match=key):
        imported(CONFIGS["qwen3-32b"], **more)
