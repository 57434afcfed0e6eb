"""Configs of families are counted as their classes count them, layer by layer; what is not understood is refused.

Totals are the numbers of parameters of the classes of transformers 5.23.0 on PyTorch 2.13's meta device. The configs
were written for these tests from the fields and defaults of the configuration classes there.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError, InputProblem
from planner.profiles import (
    GqaLayers,
    ModelProfile,
    SwaLayers,
    attention_parameters,
    parameters_by_part,
    total_parameters,
)
from planner.profiles.importer import profile_of_config
from planner.roofline import kv_bytes, kv_bytes_per_token
from planner.schema import TomlFile
from tests.layer_walk import Sequence, Walk
from tests.model_counts import decode_operators, prefill_operators


def config(kind: str, shape: tuple[int, int, int, int, int, int], **more: Any) -> dict[str, Any]:
    """Layers, width, heads, KV heads, width of the MLP and vocabulary, as every family names them."""
    names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size")
    return {"model_type": kind, **dict(zip((*names, "vocab_size"), shape, strict=True)), "dtype": "bfloat16", **more}


MISTRAL = (32, 4096, 32, 8, 14336, 32000)
V2 = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_shared_experts": 2}
V2 |= {"first_k_dense_replace": 1, "num_experts_per_tok": 6}
MOE = {"num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408}
MOE |= {"shared_expert_intermediate_size": 5632}
LLAMA4 = {"head_dim": 128, "intermediate_size_mlp": 16384, "num_experts_per_tok": 1}
GEMMA3_4B = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
CONFIGS: dict[str, tuple[dict[str, Any], int]] = {
    "mistral-7b": (config("mistral", MISTRAL, sliding_window=4096, max_position_embeddings=32768), 7_241_732_096),
    "mistral, wide heads": (
        config("mistral", (4, 5120, 32, 8, 14336, 131072), head_dim=128, sliding_window=None),
        2_432_742_400,
    ),
    "mixtral-8x7b": (config("mixtral", MISTRAL, num_local_experts=8, num_experts_per_tok=2), 46_702_792_704),
    "gemma2": (config("gemma2", (26, 2304, 8, 4, 9216, 256000), head_dim=256, sliding_window=4096), 2_614_341_888),
    "gemma3": (config("gemma3_text", (26, 2304, 8, 4, 9216, 262208), head_dim=256), 2_628_658_432),
    "gemma3, small": (
        config("gemma3_text", (14, 1024, 8, 2, 4096, 1000), head_dim=128, sliding_window=512, sliding_window_pattern=6),
        213_946_880,
    ),
    "gemma3, typed layers": (
        config(
            "gemma3_text",
            (5, 2304, 8, 4, 9216, 262208),
            layer_types=["full_attention", *["sliding_attention"] * 2, "full_attention", "sliding_attention"],
        ),
        993_462_016,
    ),
    "gemma3 in a wrapper that leaves out what is default": (
        {"model_type": "gemma3", "torch_dtype": "bfloat16", "vision_config": {"depth": 27}, "text_config": GEMMA3_4B},
        3_880_263_168,
    ),
    "phi3-mini": (config("phi3", (32, 3072, 32, 32, 8192, 32064)), 3_821_079_552),
    "phi, shared heads, tied": (config("phi3", (6, 2048, 16, 4, 5000, 3000), tie_word_embeddings=True), 253_405_184),
    "qwen2": (config("qwen2", (3, 3584, 28, 4, 18944, 152064), use_sliding_window=False), 1_789_171_712),
    "qwen2-0.5b": (config("qwen2", (24, 896, 14, 2, 4864, 151936), tie_word_embeddings=True), 494_032_768),
    "qwen2.5-vl": (
        {
            "model_type": "qwen2_5_vl",
            "tie_word_embeddings": False,
            "text_config": config("qwen2_5_vl_text", (2, 1024, 8, 2, 2816, 5000)),
        },
        32_792_576,
    ),
    "qwen2-moe": (config("qwen2_moe", (24, 2048, 16, 16, 5632, 151936), **MOE), 14_315_784_192),
    "qwen2-moe, every other layer": (
        config("qwen2_moe", (24, 2048, 16, 16, 5632, 151936), decoder_sparse_step=2, **MOE),
        8_085_743_616,
    ),
    "qwen2-moe, dense first": (
        config("qwen2_moe", (6, 2048, 16, 16, 5632, 151936), mlp_only_layers=[0, 1], **MOE),
        3_007_354_880,
    ),
    "deepseek-v2-lite": (
        config(
            "deepseek_v2",
            (27, 2048, 16, 16, 10944, 102400),
            q_lora_rank=None,
            n_routed_experts=64,
            moe_intermediate_size=1408,
            **V2,
        ),
        15_706_484_224,
    ),
    "deepseek-v2": (
        config(
            "deepseek_v2",
            (60, 5120, 128, 128, 12288, 102400),
            q_lora_rank=1536,
            n_routed_experts=160,
            moe_intermediate_size=1536,
            topk_method="group_limited_greedy",
            **V2,
        ),
        235_741_434_880,
    ),
    "llama4-scout": (
        config("llama4_text", (48, 5120, 40, 8, 8192, 202048), num_local_experts=16, **LLAMA4),
        107_769_861_120,
    ),
    "llama4-maverick": (
        config(
            "llama4_text",
            (48, 5120, 40, 8, 8192, 202048),
            num_local_experts=128,
            interleave_moe_layer_step=2,
            **LLAMA4,
        ),
        400_711_848_960,
    ),
    "llama4, listed layers": (
        config("llama4_text", (8, 5120, 40, 8, 8192, 202048), num_local_experts=4, moe_layers=[3, 7], **LLAMA4),
        5_340_656_640,
    ),
    "llama4, dense first": (
        config("llama4_text", (5, 5120, 40, 8, 8192, 202048), num_local_experts=2, moe_layers=[2, 3, 4], **LLAMA4),
        4_019_409_920,
    ),
    "hunyuan, dense": (config("hunyuan_v1_dense", (32, 4096, 32, 8, 11008, 290943), head_dim=128), 8_054_378_496),
    "hunyuan, experts listed by layer": (
        config(
            "hunyuan_v1_moe",
            (32, 4096, 32, 8, 3072, 128167),
            head_dim=128,
            num_experts=64,
            moe_topk=[8] * 32,
            num_shared_expert=[1] * 32,
            moe_intermediate_size=[3072] * 32,
        ),
        80_918_155_264,
    ),
}


def profile(found: dict[str, Any]) -> ModelProfile:
    imported = profile_of_config("config.json", json.dumps(found), "a-model")
    return TomlFile("a-model.toml", imported.text).record(ModelProfile)


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_those_of_the_class(name: str) -> None:
    found, total = CONFIGS[name]
    assert total_parameters(profile(found)) == total


WALKED = ["mistral-7b", "gemma3, small", "qwen2-moe, every other layer", "deepseek-v2-lite", "llama4, listed layers"]


@pytest.mark.parametrize("name", WALKED)
@pytest.mark.parametrize(("new", "cached"), [(300, 0), (150, 200)])
def test_what_is_imported_is_computed_and_cached_as_a_walk_over_its_queries_counts(
    name: str, new: int, cached: int
) -> None:
    # Windows must be shorter than the prompt.
    model = profile(CONFIGS[name][0] | {"sliding_window": 96, "attention_chunk_size": 128})
    pairs = [
        (prefill_operators(model, new, cached), Walk(model, [Sequence(new, cached)])),
        (decode_operators(model, 2, new), Walk(model, [Sequence(1, new - 1, prefill=False)] * 2)),
    ]
    for operators, walk in pairs:
        tally = walk.run()
        for quantity in ("flop", "weight_bytes", "activation_bytes", "kv_bytes"):
            counted = sum(float(operator.n_layers * getattr(operator, quantity)) for operator in operators)
            assert counted == pytest.approx(getattr(tally, quantity), rel=1e-12), quantity


@pytest.mark.parametrize(
    ("more", "pattern"),
    [
        ({}, "SSSFSSSF"),
        ({"no_rope_layer_interval": 2}, "SFSFSFSF"),
        ({"no_rope_layers": [1, 0, 0, 1, 1, 1, 1, 0]}, "SFFSSSSF"),
        ({"no_rope_layers": []}, "SSSFSSSF"),
        ({"layer_types": ["chunked_attention", "full_attention"] * 4}, "SFSFSFSF"),
        ({"attention_chunk_size": None}, None),
    ],
)
def test_llama_4_attends_in_chunks_where_it_has_rotary_positions(more: dict[str, Any], pattern: str | None) -> None:
    found = config("llama4_text", (8, 5120, 40, 8, 8192, 1000), num_local_experts=4, **LLAMA4, **more)
    architecture = profile(found).architecture
    assert architecture.pattern == pattern
    chunked = [group for group in architecture.attention if isinstance(group, SwaLayers)]
    assert [(group.window, group.chunked) for group in chunked] == ([(8192, True)] if pattern else [])


@pytest.mark.parametrize(
    ("more", "pattern"),
    [
        ({"use_sliding_window": False, "sliding_window": 64, "max_window_layers": 2}, None),
        ({"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 2}, "FFSSS"),
        ({"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 9}, None),
        ({"use_sliding_window": True, "sliding_window": None, "max_window_layers": 2}, None),
        (
            {
                "use_sliding_window": True,
                "sliding_window": 64,
                "layer_types": ["full_attention", "sliding_attention"] * 2 + ["full_attention"],
            },
            "FSFSF",
        ),
    ],
)
def test_qwen2_has_windows_in_its_upper_layers_if_it_uses_them(more: dict[str, Any], pattern: str | None) -> None:
    found = profile(config("qwen2", (5, 896, 14, 2, 4864, 1000), **more))
    assert found.architecture.pattern == pattern
    assert {getattr(group, "attention_bias", None) for group in found.architecture.attention} == {"qkv"}


@pytest.mark.parametrize(
    ("window", "longest", "kind"), [(4096, 32768, "swa"), (None, 32768, "gqa"), (262144, 131072, "gqa")]
)
def test_a_window_no_narrower_than_the_longest_context_is_none(window: int | None, longest: int, kind: str) -> None:
    for family in ("mistral", "phi3"):
        found = config(family, MISTRAL, sliding_window=window, max_position_embeddings=longest)
        assert [group.kind for group in profile(found).architecture.attention] == [kind]


def test_layers_that_borrow_keys_have_no_projections_of_them_but_keep_a_copy() -> None:
    sparse = {"head_dim": 128, "num_experts": 4, "moe_topk": 1, "cla_share_factor": 2}
    shape = (8, 4096, 32, 8, 3072, 1000)
    own = profile(config("hunyuan_v1_moe", shape, use_cla=False, **sparse))
    shared = profile(config("hunyuan_v1_moe", shape, use_cla=True, **sparse))
    assert shared.architecture.pattern == "ABABABAB"
    (whole,), (first, borrowing) = own.architecture.attention, shared.architecture.attention
    assert isinstance(borrowing, GqaLayers)
    assert (borrowing.borrows_kv, borrowing.n_layers) == (True, 4)
    assert attention_parameters(first, 4096) == attention_parameters(whole, 4096)
    assert attention_parameters(whole, 4096) - attention_parameters(borrowing, 4096) == 2 * 4096 * 8 * 128
    assert kv_bytes_per_token(shared) == kv_bytes_per_token(own)  # SGLang 0.5.23 stores them in every layer


def test_windows_side_by_side_cost_half_of_a_sliding_one_on_long_prompts_and_hold_no_more() -> None:
    found = config("llama4_text", (4, 512, 4, 4, 1024, 1000), num_local_experts=2, attention_chunk_size=64, **LLAMA4)
    model = profile(found)
    chunked = [o for o in prefill_operators(model, 64_000) if o.name == "window_attention"]
    sliding = 2 * 4 * 256 * 64 * 64_000
    assert float(chunked[0].flop) / sliding == pytest.approx(0.5, rel=0.02)
    grown = kv_bytes(model, [64, 6400])[1] - kv_bytes(model, [64, 6400])[0]
    assert grown == pytest.approx(kv_bytes_per_token(model) * (6400 - 64))


@pytest.mark.parametrize(
    ("name", "more", "key"),
    [
        ("llama4-scout", {"moe_layers": [0, 1, 3]}, "moe_layers"),
        ("llama4-scout", {"layer_types": ["linear_attention"] * 48}, "layer_types"),
        ("llama4-scout", {"no_rope_layers": [1]}, "no_rope_layers"),
        ("gemma3", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ("gemma3", {"layer_types": ["full_attention"]}, "layer_types"),
        ("phi3-mini", {"mlp_bias": True}, "mlp_bias"),
        ("phi3-mini", {"attention_bias": True}, "attention_bias"),
        ("qwen2-moe", {"mlp_only_layers": [3]}, "mlp_only_layers"),
        ("qwen2-moe", {"mlp_only_layers": [*range(24)]}, "mlp_only_layers"),
        ("deepseek-v2", {"moe_layer_freq": 2}, "moe_layer_freq"),
        ("deepseek-v2", {"mlp_bias": True}, "mlp_bias"),
        ("hunyuan, experts listed by layer", {"moe_topk": [8] * 31 + [4]}, "moe_topk"),
        ("hunyuan, experts listed by layer", {"moe_layer_num_skipped": 2}, "moe_layer_num_skipped"),
        ("hunyuan, experts listed by layer", {"use_cla": True}, "cla_share_factor"),
        ("mixtral-8x7b", {"num_local_experts": None}, "num_local_experts"),
    ],
)
def test_what_a_family_is_not_counted_for_is_refused_at_its_key(name: str, more: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError) as caught:
        profile(CONFIGS[name][0] | more)
    assert [problem.key for problem in caught.value.problems] == [key]


def test_a_wrapper_whose_embeddings_may_be_tied_or_not_has_to_say_so() -> None:
    wrapper = {"model_type": "mistral3", "torch_dtype": "bfloat16", "text_config": config("mistral", MISTRAL)}
    with pytest.raises(InputError, match="tie_word_embeddings: is required"):
        profile(wrapper)
    assert total_parameters(profile(wrapper | {"tie_word_embeddings": False})) == 7_241_732_096


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("ABABABAB", "BABABABA", "pattern: begins with 'B'"),
        ("n_kv_heads = 8", "n_kv_heads = 4", "borrows_kv: is true"),
    ],
)
def test_layers_borrow_keys_from_one_below_that_has_the_same(old: str, new: str, says: str) -> None:
    sparse = {"head_dim": 128, "num_experts": 4, "moe_topk": 1, "use_cla": True, "cla_share_factor": 2}
    found = config("hunyuan_v1_moe", (8, 4096, 32, 8, 3072, 1000), **sparse)
    text = profile_of_config("config.json", json.dumps(found), "a-model").text
    assert "ABABABAB" in text
    assert old in text
    with pytest.raises(InputError, match=says):
        TomlFile("a-model.toml", text.replace(old, new, 1)).record(ModelProfile)


NUMBERS = st.integers(-3, 2**70) | st.floats(allow_nan=False) | st.booleans()
VALUES = st.recursive(
    st.none() | NUMBERS | st.text(max_size=5) | st.sampled_from(["full_attention", "sliding_attention", "greedy"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)
KEYS = sorted(
    {key for found, _ in CONFIGS.values() for key in found}
    | {
        *("layer_types", "moe_layers", "no_rope_layers", "no_rope_layer_interval", "attention_chunk_size", "use_cla"),
        *(
            "cla_share_factor",
            "use_qk_norm",
            "use_mixed_mlp_moe",
            "moe_layer_num_skipped",
            "attention_head_dim",
            "qkv_bias",
        ),
        *("use_bidirectional_attention", "_sliding_window_pattern", "max_window_layers", "attention_bias", "mlp_bias"),
    }
)


@given(st.sampled_from(sorted(CONFIGS)), st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=3))
def test_whatever_a_key_holds_it_is_counted_or_refused(name: str, mutations: dict[str, Any]) -> None:
    problems: tuple[InputProblem, ...] = ()
    try:
        total = total_parameters(profile(CONFIGS[name][0] | mutations))
    except InputError as error:
        total, problems = None, error.problems
    assert problems or total
    assert all(len(str(problem)) < 1000 for problem in problems)


def test_ten_times_the_experts_are_ten_times_the_parameters_of_that_part() -> None:
    once, tenfold = (
        parameters_by_part(profile(config("mixtral", MISTRAL, num_local_experts=n, num_experts_per_tok=2)).architecture)
        for n in (8, 80)
    )
    assert tenfold["experts"] == 10 * once["experts"]
    assert {part for part in once if once[part] != tenfold[part]} == {"experts", "router"}
