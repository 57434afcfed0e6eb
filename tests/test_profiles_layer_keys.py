"""What a config says of single layers is counted, or refused by its key: never left out without a word."""

import json
from typing import Any

import pytest

from planner.errors import InputError
from planner.profiles import MlaLayers, ModelProfile, attention_parameters, model_profile
from planner.profiles.importer import profile_of_config
from planner.roofline.kv_cache import index_key_bytes_per_token
from planner.schema import TomlFile
from tests.layer_walk import Sequence, Walk
from tests.model_counts import decode_operators, prefill_operators
from tests.test_profiles_importer import CONFIGS

N_LAYERS = 12
SPARSE: dict[str, Any] = {
    **CONFIGS["deepseek-v3.2"],
    "model_type": "glm_moe_dsa",
    "architectures": ["GlmMoeDsaForCausalLM"],
    "num_hidden_layers": N_LAYERS,
    "_name_or_path": "",
    "quantization_config": None,
    "num_nextn_predict_layers": 1,
}
EVERY_THIRD = {"index_topk_freq": 3, "index_skip_topk_offset": 2}
OWN = [0, 1, 4, 7, 10]
LISTED = ["full" if layer in OWN else "shared" for layer in range(N_LAYERS)]


def profile(config: dict[str, Any], **more: Any) -> ModelProfile:
    found = profile_of_config("config.json", json.dumps({**config, **more}), "mine")
    assert found.profile == TomlFile("mine.toml", found.text).record(ModelProfile)
    return found.profile


@pytest.mark.parametrize(
    "keys",
    [
        {"indexer_types": LISTED},
        EVERY_THIRD,
        {"index_topk_pattern": "".join(kind[0].upper() for kind in LISTED), "index_topk_freq": 3},
        {"indexer_types": LISTED, **EVERY_THIRD, "index_topk_pattern": None, "index_share_for_mtp_iteration": True},
    ],
)
def test_layers_that_share_an_indexer_are_read_from_each_of_its_keys(keys: dict[str, Any]) -> None:
    architecture = profile(SPARSE, **keys).architecture
    assert architecture.pattern == "".join("A" if layer in OWN else "B" for layer in range(N_LAYERS))
    groups = [group for group in architecture.attention if isinstance(group, MlaLayers)]
    shares = {bool(group.indexer and group.indexer.borrowed): group.n_layers for group in groups}
    assert shares == {False: len(OWN), True: N_LAYERS - len(OWN)}
    indexed, plain = (attention_parameters(group, 7168) for group in sorted(groups, key=lambda g: g.symbol or ""))
    assert indexed - plain == 64 * 128 * 1536 + 7168 * (128 + 64) + 2 * 128


def test_layers_that_borrow_an_index_cost_neither_its_scores_nor_its_keys() -> None:
    every, some = profile(SPARSE), profile(SPARSE, indexer_types=LISTED)
    assert index_key_bytes_per_token(some) / index_key_bytes_per_token(every) == pytest.approx(len(OWN) / N_LAYERS)
    flop = [
        sum(float(o.n_layers * o.flop) for o in prefill_operators(model, 131072.0) if o.name == "index_scores")
        for model in (every, some)
    ]
    assert flop[1] / flop[0] == pytest.approx(len(OWN) / N_LAYERS)
    kept = [
        sum(float(o.n_layers * o.flop) for o in decode_operators(model, 4.0, 8192.0) if o.name == "sparse_attention")
        for model in (every, some)
    ]
    assert kept[0] == kept[1]


def test_a_model_whose_layers_share_indexers_is_counted_as_layer_by_layer() -> None:
    model = profile(SPARSE, indexer_types=LISTED)
    walk = Walk(model, [Sequence(new=40, cached=3000, prefill=True)]).run()
    operators = prefill_operators(model, 40.0, 3000.0)
    assert sum(float(o.n_layers * o.flop) for o in operators) == pytest.approx(walk.flop, rel=1e-6)
    assert sum(float(o.n_layers * o.kv_bytes) for o in operators) == pytest.approx(walk.kv_bytes, rel=1e-6)


def test_the_first_layer_cannot_borrow_and_somebody_must_have_an_indexer() -> None:
    for listed in (["shared", *LISTED[1:]], ["shared"] * N_LAYERS):
        with pytest.raises(InputError, match=r"pattern|indexer\.borrowed"):
            profile(SPARSE, indexer_types=listed)


UNKNOWN: dict[str, tuple[str, dict[str, Any], str]] = {
    "a list of types": ("llama-3.1-8b", {"layer_types": ["full_attention", "sliding_attention"] * 16}, "layer_types"),
    "windows everywhere": ("llama-3.1-8b", {"layer_types": ["sliding_attention"] * 32}, "layer_types"),
    "dense first": ("qwen3-235b", {"first_k_dense_replace": 1}, "first_k_dense_replace"),
    "dense by number": ("glm-4.5", {"mlp_only_layers": [4, 5]}, "mlp_only_layers"),
    "a frequency": ("qwen3-235b", {"moe_layer_freq": 2}, "moe_layer_freq"),
    "a list of frequencies": ("qwen3-235b", {"moe_layer_freq": [0] + [1] * 93}, "moe_layer_freq"),
    "a step": ("glm-4.5", {"decoder_sparse_step": 2}, "decoder_sparse_step"),
    "an interval": ("minimax-m2.5", {"full_attention_interval": 8}, "full_attention_interval"),
    "a pattern": ("qwen3-32b", {"sliding_window_pattern": 6}, "sliding_window_pattern"),
    "letters": ("qwen3-32b", {"hybrid_override_pattern": "M*" * 32}, "hybrid_override_pattern"),
    "indices": ("llama-3.1-8b", {"attn_layer_indices": [3, 7]}, "attn_layer_indices"),
    "without positions": ("llama-3.1-8b", {"no_rope_layers": [1, 1, 1, 0] * 8}, "no_rope_layers"),
    "shared caches": ("qwen3-32b", {"num_kv_shared_layers": 20}, "num_kv_shared_layers"),
    "one shared cache": ("qwen3-32b", {"num_kv_shared_layers": 1}, "num_kv_shared_layers"),
    "blocks": ("llama-3.1-8b", {"block_configs": [{"ffn": {"ffn_mult": 1.0}}] * 32}, "block_configs"),
    "an unheard-of list of one entry per layer": ("llama-3.1-8b", {"kv_ratios": [1, 2] * 16}, "kv_ratios"),
    "an unheard-of string": ("llama-3.1-8b", {"wiring": "FS" * 16}, "wiring"),
    "entries by number": ("llama-3.1-8b", {"lora_ranks": {"3": 256, "17": 512}}, "lora_ranks"),
    "inside a table": ("qwen3-32b", {"linear_attn_config": {"kda_layers": [1, 2]}}, "linear_attn_config.kda_layers"),
    "overrides": ("deepseek-v3", {"kv_lora_rank_overrides": {"4": 256}}, "kv_lora_rank_overrides"),
    "compressed caches": ("deepseek-v3", {"compress_ratios": [0, 4] * 30 + [0]}, "compress_ratios"),
    "other MLPs than stated": ("deepseek-v3", {"mlp_layer_types": ["sparse"] * 61}, "mlp_layer_types"),
    "MLPs of a dense model": ("qwen3-32b", {"mlp_layer_types": ["dense"] * 63 + ["sparse"]}, "mlp_layer_types"),
    "an indexer's frequency without its offset": ("deepseek-v3.2", {"index_topk_freq": 4}, "index_skip_topk_offset"),
    "windows of a sparse model": (
        "deepseek-v3.2",
        {"layer_types": ["deepseek_sparse_attention"] * 60 + ["sliding_attention"]},
        "layer_types",
    ),
    "an indexer of another kind": (
        "deepseek-v3.2",
        {"indexer_types": ["full", "odd"] + ["full"] * 59},
        "indexer_types",
    ),
    "an indexer without experts' family": ("glm-4.5", {"indexer_types": ["full", "shared"] * 46}, "indexer_types"),
}


@pytest.mark.parametrize(("name", "keys", "key"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_key_of_single_layers_that_no_family_counts_is_refused_by_name(
    name: str, keys: dict[str, Any], key: str
) -> None:
    with pytest.raises(InputError) as caught:
        profile(CONFIGS[name], **keys)
    assert [problem.key for problem in caught.value.problems] == [key]
    assert caught.value.exit_code == 3


HARMLESS: dict[str, tuple[str, dict[str, Any]]] = {
    "all layers alike": ("qwen3-32b", {"layer_types": ["full_attention"] * 64}),
    "every layer": ("glm-4.5", {"decoder_sparse_step": 1, "moe_layer_interval": 1}),
    "none": ("qwen3-32b", {"num_kv_shared_layers": 0, "mlp_only_layers": [], "first_k_dense_replace": 0}),
    "as many as there are": ("llama-3.1-8b", {"num_layers": 32}),
    "layers of MTP": ("minimax-m2.5", {"mtp_transformer_layers": 1, "mtp_hybrid_override_pattern": "*E"}),
    "another tower": ("llama-3.1-8b", {"vision_config": {"fullatt_block_indexes": [7, 15], "layer_types": ["a"]}}),
    "all sparse": ("deepseek-v3.2", {"layer_types": ["deepseek_sparse_attention"] * 61}),
    "the same MLPs": ("deepseek-v3", {"mlp_layer_types": ["dense"] * 3 + ["sparse"] * 58}),
    "an indexer in every layer": ("deepseek-v3.2", {"index_topk_freq": 1, "indexer_types": ["full"] * 61}),
}


@pytest.mark.parametrize(("name", "keys"), HARMLESS.values(), ids=HARMLESS)
def test_what_leaves_all_layers_alike_changes_nothing(name: str, keys: dict[str, Any]) -> None:
    assert profile(CONFIGS[name], **keys).architecture == profile(CONFIGS[name]).architecture


def test_shipped_sparse_models_have_an_indexer_in_every_layer() -> None:
    for name in ("deepseek-v3.2", "glm-5"):
        groups = [g for g in model_profile(name).architecture.attention if isinstance(g, MlaLayers)]
        assert not any(group.indexer and group.indexer.borrowed for group in groups)
