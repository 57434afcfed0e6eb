"""Configs of published models are counted as their classes count them, and as their model cards state it.

`published_configs.json` holds what decides the shapes in the models' config.json: keys that say nothing of them are
left out. It was written for these tests without the files or cards at hand, so that a slip in it is possible; that
counts agree with both the class and the card speaks against one. `by_class` is the number
of parameters of the class of transformers 5.24.0 on PyTorch 2.14's meta device, selection biases of routers included
(buffers there). Classes that it lacks are counted by one of the same shapes: Qwen2 for MiMo and the text model of
InternVL3, Phi-3 for Phi-4-multimodal, GLM for ChatGLM, MiniMax for MiniMax-Text-01, Hunyuan 3 for Ling 2, Qwen3-MoE for
Qwen3-Omni. `card` and `card_active` are figures of model cards.
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from planner.errors import InputError, InputProblem
from planner.profiles import parameters_by_part
from planner.profiles.imported import ImportedProfile
from planner.profiles.importer import profile_of_config
from planner.profiles.layers import GqaLayers, Mamba2Layers, SwaLayers
from planner.profiles.stated_size import UNITS
from planner.roofline import kv_bytes_per_token, recurrent_state_bytes
from tests.layer_walk import Sequence, Walk
from tests.model_counts import decode_operators, prefill_operators

PUBLISHED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parent / "published_configs.json").read_text(encoding="utf-8")
)
SHORT = {"swiss-ai/Apertus-8B-Instruct-2509": 2 * 32}
"""Parameters that no profile has: the two scalars of each of Apertus' activations."""


def imported(config: dict[str, Any], **changes: Any) -> ImportedProfile:
    return profile_of_config("config.json", json.dumps(config | changes), "mine", "bf16")


def refused(config: dict[str, Any], **changes: Any) -> list[InputProblem]:
    with pytest.raises(InputError) as caught:
        imported(config, **changes)
    return list(caught.value.problems)


def is_told_or_counted(config: dict[str, Any]) -> bool:
    """Whether a config is counted, or every problem of it has a key and says what is allowed."""
    try:
        return imported(config).n_parameters > 0
    except InputError as error:
        return all(problem.key and problem.message for problem in error.problems)


def rounded(text: str) -> tuple[float, float]:
    """A figure and a unit of its last digit: makers round, or cut off (106.9e9 are 106B, 21.8e9 are 21B)."""
    number, unit = text[:-1], UNITS[text[-1].lower()]
    return float(number) * unit, 10.0 ** -len(number.partition(".")[2]) * unit


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_of_the_class_and_of_the_card(name: str) -> None:
    entry, found = PUBLISHED[name], imported(PUBLISHED[name]["config"])
    assert entry["by_class"] in (None, found.n_parameters + SHORT.get(name, 0))
    if entry["card"]:
        value, unit = rounded(entry["card"])
        assert abs(found.n_parameters - value) <= unit
    if entry["card_active"]:  # some count both embeddings, some neither
        value, unit = rounded(entry["card_active"])
        embedding = parameters_by_part(found.profile.architecture)["embedding"]
        assert found.n_active_parameters - embedding - unit <= value <= found.n_active_parameters + embedding + unit
    assert entry["by_class"] or entry["card"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_cut_config_is_refused_by_a_key_or_counted(name: str) -> None:
    for key in PUBLISHED[name]["config"]:
        config = {other: value for other, value in PUBLISHED[name]["config"].items() if other != key}
        assert is_told_or_counted(config)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("LGAI-EXAONE/EXAONE-4.0-32B", "sliding_window"),
        ("CohereLabs/c4ai-command-a-03-2025", "sliding_window"),
        ("baidu/ERNIE-4.5-21B-A3B-PT", "moe_num_shared_experts"),
        ("inclusionAI/Ring-mini-linear-2.0", "layer_group_size"),
        ("ibm-granite/granite-4.0-h-small", "layer_types"),
        ("tiiuae/Falcon-H1-34B-Instruct", "mamba_n_heads"),
    ],
)
def test_what_classes_take_for_granted_is_asked_for_where_it_changes_the_count(name: str, key: str) -> None:
    config = {other: value for other, value in PUBLISHED[name]["config"].items() if other != key}
    assert key in [problem.key for problem in refused(config)]


WALKED = ("google/gemma-4-26B-A4B-it", "tiiuae/Falcon-H1-0.5B-Instruct", "CohereLabs/c4ai-command-r7b-12-2024")


@pytest.mark.parametrize("name", WALKED)
def test_what_is_imported_is_computed_and_cached_as_a_walk_over_its_queries_counts(name: str) -> None:
    config = json.loads(json.dumps(PUBLISHED[name]["config"]))
    if "sliding_window" in (inner := config.get("text_config", config)):
        inner["sliding_window"] = 96  # shorter than the prompt
    model = imported(config).profile
    pairs = [
        (prefill_operators(model, 200, 100), Walk(model, [Sequence(200, 100)])),
        (decode_operators(model, 2, 300), Walk(model, [Sequence(1, 299, prefill=False)] * 2)),
    ]
    for operators, walk in pairs:
        tally = walk.run()
        for quantity in ("flop", "weight_bytes", "activation_bytes", "kv_bytes"):
            counted = sum(float(operator.n_layers * getattr(operator, quantity)) for operator in operators)
            assert counted == pytest.approx(getattr(tally, quantity), rel=1e-12), quantity


def test_full_layers_of_gemma_4_cache_keys_and_values_made_of_one_projection() -> None:
    model = imported(PUBLISHED["google/gemma-4-31B-it"]["config"]).profile
    window, full = sorted(model.architecture.attention, key=lambda group: group.n_layers, reverse=True)
    assert isinstance(window, SwaLayers)
    assert isinstance(full, GqaLayers)
    assert (window.n_layers, window.window, window.n_kv_heads, window.head_dim) == (50, 1024, 16, 256)
    assert (full.n_layers, full.n_kv_heads, full.head_dim, full.v_from_k) == (10, 4, 512, True)
    assert kv_bytes_per_token(model) == 10 * 2 * 4 * 512 * 2


def test_layers_of_falcon_h1_cache_and_keep_a_state_side_by_side() -> None:
    model = imported(PUBLISHED["tiiuae/Falcon-H1-34B-Instruct"]["config"]).profile
    attention, mamba = model.architecture.attention
    assert isinstance(mamba, Mamba2Layers)
    assert (model.architecture.n_layers, attention.n_layers, mamba.n_layers, mamba.beside) == (72, 72, 72, True)
    assert kv_bytes_per_token(model) == 72 * 2 * 4 * 128 * 2
    assert recurrent_state_bytes(model) > 72 * 32 * 128 * 256 * 2


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("inclusionAI/Ring-mini-linear-2.0", "LLLLF" * 4),
        ("Qwen/Qwen3.5-27B", "LLLF" * 16),
        ("MiniMaxAI/MiniMax-Text-01", "LLLLLLLF" * 10),
        ("CohereLabs/c4ai-command-a-03-2025", "SSSF" * 16),
        ("LGAI-EXAONE/EXAONE-4.0-32B", "SSSF" * 16),
        ("LGAI-EXAONE/EXAONE-4.0-1.2B", None),
        ("allenai/Olmo-3-7B-Instruct", "SSSF" * 8),
        ("arcee-ai/Trinity-Mini", "SSSF" * 8),
    ],
)
def test_kinds_of_layers_stand_in_their_order(name: str, pattern: str | None) -> None:
    assert imported(PUBLISHED[name]["config"]).profile.architecture.pattern == pattern


@pytest.mark.parametrize(
    "name",
    [
        "Qwen/Qwen3.5-27B",
        "ibm-granite/granite-4.0-h-small",
        "inclusionAI/Ring-mini-linear-2.0",
        "LGAI-EXAONE/K-EXAONE-236B-A23B",
        "xai-org/grok-2",
    ],
)
def test_a_class_tells_the_family_where_the_model_type_does_not(name: str) -> None:
    config = PUBLISHED[name]["config"] | {"model_type": "a name of its own"}
    assert imported(config).profile.architecture == imported(PUBLISHED[name]["config"]).profile.architecture


UNCOUNTED = [
    ({"model_type": "deepseek_v4", "compress_ratios": [0, 4, 128]}, "compress_ratios", "deepseek_v32"),
    ({"model_type": "minimax_m3_vl", "sparse_attention_config": {"a": 1}}, "sparse_attention_config", "minimax_m2"),
    ({"model_type": "mllama", "cross_attention_layers": [3]}, "cross_attention_layers", "llama"),
    ({"model_type": "mllama_text_model", "cross_attention_layers": [3]}, "cross_attention_layers", "llama"),
    ({"model_type": "longcat_flash", "zero_expert_num": 256}, "zero_expert_num", "deepseek_v3"),
    ({"model_type": "lfm2_moe", "conv_L_cache": 3}, "conv_L_cache", "qwen3_next"),
    ({"model_type": "starcoder2", "use_bias": True}, "use_bias", "qwen2"),
    ({"model_type": "phimoe", "lm_head_bias": True}, "lm_head_bias", "mixtral"),
    ({"model_type": "rwkv"}, "model_type", "kimi_linear"),
    ({"model_type": "novel", "kv_lora_rank": 512, "n_routed_experts": 64}, "model_type", "deepseek_v3"),
    ({"model_type": "novel", "num_experts": 64}, "model_type", "qwen3_moe"),
    ({"model_type": "granite5"}, "model_type", "granite"),
    ({"model_type": "novel"}, "model_type", "llama"),
]


@pytest.mark.parametrize(("config", "key", "nearest"), UNCOUNTED)
def test_what_no_profile_describes_is_refused_by_its_key_with_the_nearest_family(
    config: dict[str, Any], key: str, nearest: str
) -> None:
    (problem,) = refused(config)
    assert problem.key == key
    assert f"nearest: {nearest}" in problem.allowed


@pytest.mark.parametrize(
    ("name", "changes", "key"),
    [
        ("ByteDance-Seed/Seed-OSS-36B-Instruct", {"attention_out_bias": True}, "attention_out_bias"),
        ("CohereLabs/c4ai-command-a-03-2025", {"use_parallel_block": False}, "use_parallel_block"),
        ("inclusionAI/Ling-mini-2.0", {"use_bias": True}, "use_bias"),
        ("inclusionAI/Ring-mini-linear-2.0", {"short_conv_kernel_size": 4}, "short_conv_kernel_size"),
        ("inclusionAI/Ring-mini-linear-2.0", {"layer_group_size": 3}, "layer_group_size"),
        ("ibm-granite/granite-4.0-h-small", {"mamba_d_head": 32}, "mamba_d_head"),
        ("ibm-granite/granite-4.0-h-small", {"layer_types": ["conv"] * 40}, "layer_types"),
        ("tiiuae/Falcon-H1-34B-Instruct", {"attn_layer_indices": [1]}, "attn_layer_indices"),
        (
            "LGAI-EXAONE/EXAONE-4.0-32B",
            {"layer_types": None, "sliding_window_pattern": "LLX"},
            "sliding_window_pattern",
        ),
        ("LGAI-EXAONE/EXAONE-4.0-32B", {"sliding_window": None}, "layer_types"),
        ("LGAI-EXAONE/K-EXAONE-236B-A23B", {"is_moe_layer": [True, False] * 24}, "is_moe_layer"),
        ("baidu/ERNIE-4.5-21B-A3B-PT", {"moe_layer_interval": 2}, "moe_layer_interval"),
        ("inclusionAI/Ling-mini-2.0", {"num_shared_experts": "one"}, "num_shared_experts"),
        ("xai-org/grok-2", {"residual_moe": False}, "residual_moe"),
        ("databricks/dbrx-instruct", {"clip_qkv": 8}, "clip_qkv"),
        ("MiniMaxAI/MiniMax-Text-01", {"attn_type_list": [2] * 80}, "attn_type_list"),
    ],
)
def test_a_key_that_changes_what_is_counted_is_refused(name: str, changes: dict[str, Any], key: str) -> None:
    assert key in [problem.key for problem in refused(PUBLISHED[name]["config"], **changes)]


@pytest.mark.parametrize("key", ["hidden_size_per_layer_input", "num_kv_shared_layers", "use_double_wide_mlp"])
def test_embeddings_per_layer_and_shared_caches_of_gemma_4_are_refused(key: str) -> None:
    config = PUBLISHED["google/gemma-4-31B-it"]["config"]
    (problem,) = refused(config, text_config=config["text_config"] | {key: True if key.startswith("use") else 20})
    assert problem.key == key


def test_layers_of_gemma_4_as_transformers_saves_them_are_read_like_the_published_ones() -> None:
    config = PUBLISHED["google/gemma-4-31B-it"]["config"]
    text = {**config["text_config"]}
    own = {"head_dim": text.pop("global_head_dim"), "num_key_value_heads": text.pop("num_global_key_value_heads")}
    table = {f"{layer:02}": own for layer, kind in enumerate(text["layer_types"]) if kind == "full_attention"}
    saved = imported(config, text_config=text | {"per_layer_config": table})
    assert saved.profile == imported(config).profile
    (problem,) = refused(config, text_config=text | {"per_layer_config": table | {"59": {"head_dim": 64}}})
    assert problem.key == "per_layer_config"


ODD: tuple[Any, ...] = (None, 0, -1, 1, 2.5, "x", "LLLG", True, [], [1], ["x"], [{}], {}, {"a": []}, 10**12)
"""Values that no published config has under its keys, or that many have under others."""


@pytest.mark.parametrize("name", sorted(PUBLISHED)[::6])
def test_whatever_a_key_holds_it_is_counted_or_refused(name: str) -> None:
    config, draw = PUBLISHED[name]["config"], random.Random(name)
    inner = next((key for key in ("text_config", "thinker_config", "llm_config") if key in config), None)
    for _ in range(20):
        keys = config[inner] if inner else config
        changed = keys | {draw.choice(list(keys)): draw.choice(ODD) for _ in range(2)}
        assert is_told_or_counted(config | ({inner: changed} if inner else changed))
