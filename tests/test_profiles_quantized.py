"""Precision of a checkpoint is counted module by module, whatever tool wrote it; what contradicts itself is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from planner.cli import app as main
from planner.cli.profiles import app
from planner.errors import InputError
from planner.notes import code_of
from planner.profiles import ModelProfile, hardware_profile, model_profile, parameters_by_part
from planner.profiles.importer import import_profile, profile_of_config
from planner.roofline import Chip, InstanceModel, Layout, Sequences, weights_bytes
from planner.roofline.factors import DATASHEET
from planner.schema import TomlFile

N_LAYERS, HIDDEN, WIDTH, KV = 4, 1024, 4096, 256
SHAPE: dict[str, Any] = {"num_hidden_layers": N_LAYERS, "hidden_size": HIDDEN, "intermediate_size": WIDTH}
SHAPE |= {"num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 32000, "tie_word_embeddings": False}
LLAMA: dict[str, Any] = {"model_type": "llama", "torch_dtype": "bfloat16", **SHAPE}
SPARSE = {"model_type": "qwen3_moe", "num_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 512}
MOE: dict[str, Any] = {**LLAMA, **SPARSE, "head_dim": 128}
QKVO = 2 * HIDDEN * HIDDEN + 2 * HIDDEN * KV
MLP = 3 * HIDDEN * WIDTH
LINEAR = N_LAYERS * (QKVO + MLP)
EXPERTS = N_LAYERS * 16 * 3 * HIDDEN * 512
HEADS = N_LAYERS * (QKVO + 2 * 128)
"""Attention with norms of its heads, which count with their part."""


def profile(config: dict[str, Any], quantization: dict[str, Any] | None = None, **more: Any) -> ModelProfile:
    stated = {} if quantization is None else {"quantization_config": quantization}
    found = profile_of_config("config.json", json.dumps({**config, **stated, **more}), "mine")
    assert found.profile == TomlFile("mine.toml", found.text).record(ModelProfile)
    return found.profile


def saved_bytes(model: ModelProfile) -> float:
    """Bytes that the checkpoint has fewer than one in bf16."""
    return 2.0 * sum(parameters_by_part(model.architecture).values()) - sum(weights_bytes(model).values())


def projections(layer: int, names: str = "qkvo") -> list[str]:
    return [f"model.layers.{layer}.self_attn.{name}_proj" for name in names]


def groups(weights: dict[str, Any], inputs: Any = None, targets: tuple[str, ...] = ("Linear",)) -> dict[str, Any]:
    return {"weights": weights, "input_activations": inputs, "targets": [*targets]}


INT4 = {"num_bits": 4, "type": "int", "group_size": 128, "symmetric": True}
FLOAT8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
NVFP4 = {"num_bits": 4, "type": "float", "group_size": 16}
ATTENTION = N_LAYERS * QKVO
SAVED: dict[str, tuple[dict[str, Any], float]] = {
    "fp8": ({"quant_method": "fp8", "activation_scheme": "dynamic"}, LINEAR),
    "fp8 in blocks": ({"quant_method": "fp8", "weight_block_size": [128, 128]}, LINEAR * (1 - 4 / 128**2)),
    "one projection left out": (
        {"quant_method": "fp8", "modules_to_not_convert": ["lm_head", "model.layers.2.mlp.up_proj"]},
        LINEAR - HIDDEN * WIDTH,
    ),
    "ignored layers": ({"quant_method": "fp8", "ignored_layers": ["model.layers.0", "lm_head"]}, LINEAR * 3 / 4),
    "attention listed projection by projection": (
        {"quant_method": "fbgemm_fp8", "modules_to_not_convert": [x for i in range(4) for x in projections(i)]},
        LINEAR - ATTENTION,
    ),
    "keys and values of one layer": (
        {"quant_method": "fp8", "ignored_layers": projections(1, "kv")},
        LINEAR - 2 * HIDDEN * KV,
    ),
    "a fused projection": (
        {"quant_method": "fp8", "ignored_layers": ["self_attn.qkv_proj"]},
        N_LAYERS * (HIDDEN**2 + MLP),
    ),
    "names in another tower's prefix": (
        {"quant_method": "fp8", "ignored_layers": ["language_model.model.layers.0.mlp", "vision_tower.layers.1.mlp"]},
        LINEAR - MLP,
    ),
    "compressed-tensors, a pattern": (
        {
            "quant_method": "compressed-tensors",
            "config_groups": {"g": groups(INT4)},
            "ignore": ["re:.*attn.*"],
        },
        N_LAYERS * MLP * (1.5 - 2 / 128) + 32000 * HIDDEN * (1.5 - 2 / 128),
    ),
    "compressed-tensors, two groups": (
        {
            "quant_method": "compressed-tensors",
            "config_groups": {
                "a": groups(FLOAT8, {"num_bits": 8}, (r"re:.*self_attn\.(q|k|v|o)_proj",)),
                "b": groups(NVFP4, {"num_bits": 4}, (r"re:.*mlp.*",)),
            },
            "ignore": ["lm_head"],
        },
        ATTENTION + N_LAYERS * MLP * (1.5 - 1 / 16),
    ),
    "compressed-tensors with its output head": (
        {"quant_method": "compressed-tensors", "config_groups": {"g": groups(FLOAT8, {"num_bits": 8})}},
        LINEAR + 32000 * HIDDEN,
    ),
    "awq": (
        {"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": ["self_attn"]},
        N_LAYERS * MLP * (1.5 - 2.5 / 128),
    ),
    "gptq, dynamic": (
        {"quant_method": "gptq", "bits": 4, "group_size": 32, "dynamic": {r"-:model\.layers\.[01]\..*": {}}},
        LINEAR / 2 * (1.5 - 2.5 / 32),
    ),
    "gptq, wider layers": (
        {"quant_method": "gptq", "bits": 4, "group_size": 32, "dynamic": {r"+:.*\.3\..*": {"bits": 8}}},
        LINEAR * 0.75 * (1.5 - 2.5 / 32) + LINEAR * 0.25 * (1 - 3 / 32),
    ),
    "autoround": (
        {
            "quant_method": "auto-round",
            "bits": 4,
            "group_size": 64,
            "extra_config": {"model.layers.3.mlp.down_proj": {"bits": 16}},
        },
        (LINEAR - HIDDEN * WIDTH) * (1.5 - 2.5 / 64),
    ),
    "bitsandbytes, 8 bits": (
        {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_skip_modules": ["lm_head", "o_proj"]},
        LINEAR - N_LAYERS * HIDDEN**2,
    ),
    "bitsandbytes, 4 bits": ({"quant_method": "bitsandbytes", "load_in_4bit": True}, LINEAR * (1.5 - 4 / 64)),
    "modelopt": ({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]}, LINEAR),
    "modelopt, globs": (
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["model.layers.0.*", "*o_proj*"]},
        (LINEAR * 3 / 4 - 3 * HIDDEN**2) * (1.5 - 1 / 16),
    ),
    "modelopt, mixed": (
        {
            "quant_method": "modelopt",
            "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {
                **{name: {"quant_algo": "FP8"} for i in range(4) for name in projections(i)},
                **{f"model.layers.{i}.mlp.down_proj": {"quant_algo": "NVFP4", "group_size": 16} for i in range(3)},
            },
        },
        ATTENTION + 3 * HIDDEN * WIDTH * (1.5 - 1 / 16),
    ),
    "quark": (
        {
            "quant_method": "quark",
            "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}, "input_tensors": {"dtype": "fp8_e4m3"}},
            "layer_quant_config": {"*down_proj": {"weight": {"dtype": "fp4", "group_size": 32}, "input_tensors": {}}},
            "exclude": ["lm_head", "model.layers.1.self_attn.q_proj"],
        },
        LINEAR - HIDDEN**2 + N_LAYERS * HIDDEN * WIDTH * (0.5 - 1 / 32),
    ),
    "torchao": ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, LINEAR),
}


@pytest.mark.parametrize(("quantization", "saved"), SAVED.values(), ids=SAVED)
def test_bytes_of_weights_are_counted_module_by_module(quantization: dict[str, Any], saved: float) -> None:
    assert saved_bytes(profile(LLAMA, quantization)) == pytest.approx(saved, rel=1e-5)


EACH = "model.layers.{}.mlp.experts.{}.{}_proj"
SPARSE_SAVED: dict[str, tuple[dict[str, Any], float]] = {
    "mxfp4 is of experts alone": (
        {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
        EXPERTS * (1.5 - 1 / 32),
    ),
    "gates and routers are small": (
        {"quant_method": "fp8", "modules_to_not_convert": [f"model.layers.{i}.mlp.gate" for i in range(4)]},
        EXPERTS + HEADS,
    ),
    "one expert of one layer": (
        {"quant_method": "fp8", "ignored_layers": [EACH.format(1, 7, name) for name in ("gate", "up", "down")]},
        EXPERTS * 63 / 64 + HEADS,
    ),
    "experts of one layer": (
        {"quant_method": "fp8", "ignored_layers": ["model.layers.3.mlp.experts"]},
        EXPERTS * 3 / 4 + HEADS,
    ),
    "whole MLPs of one layer": (
        {"quant_method": "fp8", "ignored_layers": ["model.layers.3.mlp"]},
        EXPERTS * 3 / 4 + HEADS,
    ),
    "experts one by one, as mixed precision lists them": (
        {
            "quant_method": "modelopt",
            "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {
                EACH.format(i, n, name): {"quant_algo": "NVFP4"}
                for i in range(4)
                for n in range(16)
                for name in ("gate", "up", "down")
            },
        },
        EXPERTS * (1.5 - 1 / 16),
    ),
    "int8 experts": ({"quant_method": "experts_int8"}, EXPERTS),
}


@pytest.mark.parametrize(("quantization", "saved"), SPARSE_SAVED.values(), ids=SPARSE_SAVED)
def test_bytes_of_experts_are_counted_module_by_module(quantization: dict[str, Any], saved: float) -> None:
    assert saved_bytes(profile(MOE, quantization)) == pytest.approx(saved, rel=1e-5)


FAMILIES: dict[str, tuple[dict[str, Any], str]] = {
    "latent": (
        {
            "model_type": "deepseek_v2",
            "kv_lora_rank": 64,
            "qk_nope_head_dim": 64,
            "qk_rope_head_dim": 32,
            "v_head_dim": 64,
            "n_routed_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 256,
            "n_shared_experts": 1,
        },
        "self_attn",
    ),
    "jamba": (
        {
            "model_type": "jamba",
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "mamba_d_state": 16,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "mamba_dt_rank": 64,
        },
        "mamba",
    ),
    "gemma": ({"model_type": "gemma3_text", "head_dim": 128}, "self_attn"),
}


@pytest.mark.parametrize(("family", "mixer"), FAMILIES.values(), ids=FAMILIES)
def test_every_familys_modules_are_all_quantised_unless_they_are_listed(family: dict[str, Any], mixer: str) -> None:
    whole = profile(LLAMA | family, {"quant_method": "fp8"})
    assert whole.checkpoint
    assert set(whole.checkpoint.formats) == {"router", "embedding", "lm_head", "norms"}
    listed = profile(LLAMA | family, {"quant_method": "fp8", "ignored_layers": [f"model.layers.0.{mixer}"]})
    assert listed.checkpoint
    shares = listed.checkpoint.formats["attention"]
    assert 0 < shares["bf16"] < 1
    assert shares["bf16"] + shares["fp8"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("quantization", "cache"),
    [
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "NVFP4"}, "fp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": None}, None),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8"),
        ({"quant_method": "fp8", "kv_cache_scheme": "static"}, "fp8"),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8", "quant_algo": None}, "fp8"),
    ],
)
def test_the_cache_that_a_checkpoint_asks_for_is_stated(quantization: dict[str, Any], cache: str | None) -> None:
    checkpoint = profile(LLAMA, quantization).checkpoint
    assert checkpoint
    assert checkpoint.kv_precision == cache


def test_mixed_products_take_the_time_of_their_shares_and_read_their_own_bytes() -> None:
    left_out = {"quant_method": "fp8", "ignored_layers": ["model.layers.0"]}
    stated = [None, left_out, {"quant_method": "fp8"}]
    chip = Chip(hardware_profile("h100-sxm"), derated=False)
    seconds = []
    for quantization in stated:
        served = InstanceModel(profile(LLAMA, quantization), chip, Layout(), DATASHEET)
        work = served.work([Sequences.prefill([8192.0])])
        mine = [name in ("down_proj", "gate_up_proj", "qkv_proj", "o_proj") for name in work.name]
        seconds.append((work.n_layers * work.ceiling_s)[mine].sum() + (work.n_layers * work.weight_s)[mine].sum())
    wide, mixed, narrow = seconds
    assert mixed == pytest.approx(wide / 4 + 3 * narrow / 4)
    assert narrow < mixed < wide


# hf_quant_config.json beside config.json


def write(folder: Path, config: dict[str, Any], quantization: dict[str, Any] | str) -> Path:
    text = quantization if isinstance(quantization, str) else json.dumps(quantization)
    (folder / "hf_quant_config.json").write_text(text, encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder / "config.json"


def beside(**more: Any) -> dict[str, Any]:
    return {"producer": {"name": "modelopt", "version": "0.37.0"}, "quantization": more}


def test_what_modelopt_writes_beside_the_config_is_read_and_shown(tmp_path: Path) -> None:
    excluded = ["lm_head", "model.layers.0.self_attn*"]
    stated = beside(quant_algo="NVFP4", kv_cache_quant_algo="FP8", group_size=16, exclude_modules=excluded)
    result = CliRunner().invoke(app, ["import", str(write(tmp_path, LLAMA, stated)), "--format", "json"])
    answer = json.loads(result.stdout)
    assert (answer["precision"], answer["kv_precision"]) == ("fp4", "fp8")
    assert answer["formats"]["attention"] == {"fp4": 0.75, "bf16": 0.25}
    said = CliRunner().invoke(app, ["import", str(tmp_path / "config.json")]).stderr
    assert "weights fp4, but attention 75.00 % fp4 and 25.00 % bf16; cache fp8" in said


def test_a_config_with_a_beginning_of_its_own_has_its_own_file_beside_it(tmp_path: Path) -> None:
    for name, quantization in (("mine-FP8", "FP8"), ("mine-NVFP4", "NVFP4")):
        (tmp_path / f"{name}_config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
        text = json.dumps(beside(quant_algo=quantization))
        (tmp_path / f"{name}_hf_quant_config.json").write_text(text, encoding="utf-8")
    assert import_profile(tmp_path / "mine-FP8_config.json").profile.precision == "fp8"
    assert import_profile(tmp_path / "mine-NVFP4_config.json").profile.precision == "fp4"


def test_two_files_of_one_checkpoint_that_agree_are_one_statement(tmp_path: Path) -> None:
    own = {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]}
    path = write(tmp_path, LLAMA | {"quantization_config": own}, beside(quant_algo="FP8", kv_cache_quant_algo="FP8"))
    found = import_profile(path).profile
    assert found.precision == "fp8"
    assert found.checkpoint
    assert found.checkpoint.kv_precision == "fp8"


@pytest.mark.parametrize(
    ("own", "stated", "says"),
    [
        ({"quant_method": "fp8"}, beside(quant_algo="NVFP4"), ("says fp8", "hf_quant_config.json fp4")),
        (
            {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["*self_attn*"]},
            beside(quant_algo="FP8"),
            ("attention bf16", "hf_quant_config.json fp8"),
        ),
        (
            {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "NVFP4"},
            beside(quant_algo="FP8", kv_cache_quant_algo="FP8"),
            ("cache in fp4", "one in fp8"),
        ),
    ],
)
def test_files_that_contradict_each_other_are_refused_with_both(
    own: dict[str, Any], stated: dict[str, Any], says: tuple[str, str], tmp_path: Path
) -> None:
    path = write(tmp_path, LLAMA | {"quantization_config": own}, stated)
    with pytest.raises(InputError) as caught:
        import_profile(path)
    assert all(words in str(caught.value) for words in says)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("text", ["{", "[]", '{"quantization": {"quant_algo": "MAGIC"}}', '{"quantization": 3}'])
def test_a_broken_file_beside_the_config_is_refused_by_its_name(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"hf_quant_config\.json"):
        import_profile(write(tmp_path, LLAMA, text))


# Names


@pytest.mark.parametrize(
    ("name", "quantization", "word"),
    [
        ("nvidia/Llama-3.1-8B-Instruct-FP8", None, "FP8"),
        ("nvidia/Llama-3.1-8B-NVFP4", {"quant_method": "fp8"}, "NVFP4"),
        ("mine/llama-bf16", {"quant_method": "fp8"}, "bf16"),
        ("mine/llama-AWQ", {"quant_method": "fp8"}, "AWQ"),
        ("mine/llama_int8", {"quant_method": "gptq", "bits": 4, "group_size": 128}, "int8"),
    ],
)
def test_a_name_that_the_files_contradict_is_refused_with_both(
    name: str, quantization: dict[str, Any] | None, word: str, tmp_path: Path
) -> None:
    stated = {} if quantization is None else {"quantization_config": quantization}
    folder = tmp_path / name.rpartition("/")[2]
    folder.mkdir()
    for origin, place in ((name, tmp_path), (None, folder)):
        path = place / "config.json"
        path.write_text(json.dumps(LLAMA | stated | ({"_name_or_path": origin} if origin else {})), encoding="utf-8")
        with pytest.raises(InputError, match=f"says {word}") as caught:
            import_profile(path)
        assert name.rpartition("/")[2] in str(caught.value)


def test_a_name_asked_for_does_not_hide_what_the_config_calls_itself_and_a_precision_does(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"_name_or_path": "nvidia/Llama-3.1-8B-FP8"}), encoding="utf-8")
    with pytest.raises(InputError, match="says FP8"):
        import_profile(path, name="mine", model_id="mine/llama")
    stated = {"quantization_config": {"quant_method": "fp8"}, "_name_or_path": "mine/llama-bf16"}
    path.write_text(json.dumps(LLAMA | stated), encoding="utf-8")
    assert import_profile(path, name="mine", weights="fp8").profile.precision == "fp8"


@pytest.mark.parametrize(
    ("folder", "is_refused"),
    [
        ("models--nvidia--Llama-3.1-8B-FP8/snapshots/0af1", True),
        ("Kimi-K2-NVFP4", True),
        ("llama_fp8", True),
        ("fp8-runs", False),
        ("test_fp8_and_int4", False),
    ],
)
def test_a_folder_counts_where_it_bears_a_models_name(folder: str, is_refused: bool, tmp_path: Path) -> None:
    path = tmp_path / folder / "config.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(LLAMA), encoding="utf-8")
    if is_refused:
        with pytest.raises(InputError, match=r"says (NV)?FP[48]|says fp8"):
            import_profile(path)
    else:
        assert import_profile(path).profile.precision == "bf16"


@pytest.mark.parametrize(
    ("name", "quantization"),
    [
        ("Llama-3.1-8B-FP8-KV", {"quant_method": "fp8"}),
        ("Llama-3.1-8B-NVFP4-KV-FP8", {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
        ("Llama-3.1-8B-W4A16", {"quant_method": "compressed-tensors", "config_groups": {"g": groups(INT4)}}),
        ("Llama-3.1-8B", {"quant_method": "fp8"}),
        ("Llama-3.1-8B-GPTQ-Int4", {"quant_method": "gptq", "bits": 4, "group_size": 128}),
    ],
)
def test_a_name_that_agrees_is_no_matter(name: str, quantization: dict[str, Any]) -> None:
    assert profile(LLAMA, quantization, _name_or_path=f"mine/{name}").title == f"mine/{name}"


def test_a_precision_asked_for_stands_where_files_are_silent_and_not_beside_another(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"_name_or_path": "mine/llama-FP8"}), encoding="utf-8")
    assert import_profile(path, weights="fp8").profile.precision == "fp8"
    path.write_text(json.dumps(LLAMA | {"quantization_config": {"quant_method": "fp8"}}), encoding="utf-8")
    with pytest.raises(InputError, match=r"--precision.* is int4, and .* says fp8"):
        import_profile(path, weights="int4")


@pytest.mark.parametrize(
    ("quantization", "key"),
    [
        ({"quant_method": "gptq", "bits": 3}, "quantization_config.bits"),
        ({"quant_method": "magic"}, "quantization_config"),
        ({"quant_method": "fp8", "ignored_layers": "lm_head"}, "quantization_config.ignored_layers"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "quantization_config.quantized_layers"),
        ({"quant_method": "modelopt", "quant_algo": "W2A16"}, "quantization_config.quant_algo"),
        ({"quant_method": "fp8", "ignored_layers": ["re:("]}, "quantization_config.ignored_layers"),
        ({"quant_method": "fp8", "kv_cache_scheme": "odd"}, "quantization_config.kv_cache_scheme"),
        ({"quant_method": "bitsandbytes"}, "quantization_config.load_in_4bit"),
        ({"quant_method": "torchao", "quant_type": "odd"}, "quantization_config.quant_type"),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, "quantization_config.config_groups"),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"g": groups(INT4, None, ("OddMlp",))}},
            "quantization_config.config_groups.g.targets",
        ),
    ],
)
def test_a_quantisation_that_cannot_be_counted_is_refused_at_its_key(quantization: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError) as caught:
        profile(LLAMA, quantization)
    assert [problem.key for problem in caught.value.problems] == [key]


def test_entries_of_a_list_that_name_no_module_are_told_and_small_or_foreign_ones_are_not() -> None:
    odd = ["transformer.h.0.attn.c_attn", "re:.*kv_mixer.*", "*ffn_only*"]
    known = [
        "lm_head",
        "vision_tower.blocks.0.qkv",
        "model.layers.2.input_layernorm",
        "model.layers.4.eh_proj",
        "*o_proj*",
    ]
    quantization = {"quant_method": "fp8", "ignored_layers": [*known, *odd, r"re:.*mlp\.(up|down)_proj"]}
    found = profile_of_config("config.json", json.dumps(LLAMA | {"quantization_config": quantization}), "mine")
    assert found.unmapped == tuple(f"quantization: {entry}" for entry in odd)


def test_a_cache_other_than_the_checkpoint_asks_for_is_said_where_it_is_counted(tmp_path: Path) -> None:
    stated = {"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    path = tmp_path / "mine.toml"
    path.write_text(profile_of_config("config.json", json.dumps(LLAMA | stated), "mine").text, encoding="utf-8")
    for kv, is_said in (("bf16", True), ("fp8", False)):
        said = CliRunner().invoke(main, ["predict", str(path), "h100-sxm", "--kv-precision", kv, "--format", "json"])
        notes = json.loads(said.stdout)["notes"]
        assert any(code_of(text) == "cache-format-of-checkpoint" for text in notes) is is_said


def test_shares_of_a_part_are_its_whole(tmp_path: Path) -> None:
    text = profile_of_config("config.json", json.dumps(LLAMA | {"quantization_config": {"quant_method": "fp8"}})).text
    path = tmp_path / "llama.toml"
    path.write_text(text.replace("router = { bf16 = 1.0 }", "router = { bf16 = 0.5 }"), encoding="utf-8")
    with pytest.raises(InputError, match=r"checkpoint\.formats\.router: has shares that sum to 0\.5"):
        model_profile(str(path))
