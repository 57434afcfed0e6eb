"""Configs as transformers 5.23.0 saves them are imported whole.

`transformers_configs.json` holds what `Config().save_pretrained` of that package writes for each class (by
`tests/campaigns/transformers_configs.py`): none of it was written by hand. Not to be had there, and so untested: the
configs of GLM-4.6, Phi-4, Mistral-Large and Hunyuan-Large themselves; their classes are those below.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from planner.cli.profiles import app
from planner.errors import InputError
from planner.profiles.imported import ImportedProfile
from planner.profiles.importer import profile_of_config

ROOT = Path(__file__).resolve().parent
SAVED = json.loads((ROOT / "transformers_configs.json").read_text(encoding="utf-8"))
CONFIGS: dict[str, dict[str, Any]] = SAVED["configs"]
TOWERS = {"vision_config", "vision_feature_layer", "projector_hidden_act", "spatial_merge_size"}
"""Of images, which a text model's profile leaves out."""
COUNTED = {"MixtralConfig": 46_702_792_704, "MistralConfig": 7_241_732_096, "Gemma3TextConfig": 2_628_658_432}
"""Parameters of those classes on a meta device, as tests/test_profiles_hf_families.py has them."""


def imported(config: dict[str, Any]) -> ImportedProfile:
    return profile_of_config("config.json", json.dumps(config), "mine", "bf16")


def test_the_configs_are_of_the_package_that_is_named() -> None:
    assert (SAVED["package"], SAVED["version"]) == ("transformers", "5.23.0")
    assert len(CONFIGS) >= 14


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_a_saved_config_is_imported_and_leaves_out_nothing_but_other_towers(name: str) -> None:
    found = imported(CONFIGS[name])
    assert set(found.unmapped) <= TOWERS
    assert found.n_parameters > 0
    assert found.n_parameters == COUNTED.get(name, found.n_parameters)


def in_earlier_keys(name: str) -> dict[str, Any]:
    """The same model under the keys of the published configs of its family."""
    config = dict(CONFIGS[name])
    if name == "Qwen3MoeConfig":
        config["num_experts"] = config.pop("num_local_experts")
    elif name == "NemotronHConfig":
        kinds = config.pop("layers_block_type")
        letters = {"linear_attention": "M", "moe": "E", "full_attention": "*", "mlp": "-"}
        config |= {"hybrid_override_pattern": "".join(letters[kind] for kind in kinds), "num_hidden_layers": len(kinds)}
    else:
        kinds, mlps = config.pop("layer_types"), config.pop("mlp_layer_types")
        config["first_k_dense_replace"] = mlps.count("dense")
        places = {kind: [i + 1 for i, one in enumerate(kinds) if one == kind] for kind in set(kinds)}
        config["linear_attn_config"] = {
            "full_attn_layers": places["full_attention"],
            "kda_layers": places["linear_attention"],
            "num_heads": config.pop("linear_num_heads"),
            "head_dim": config.pop("linear_head_dim"),
            "short_conv_kernel_size": config.pop("linear_conv_kernel_dim"),
        }
    return config


@pytest.mark.parametrize("name", ["Qwen3MoeConfig", "NemotronHConfig", "KimiLinearConfig"])
def test_newer_keys_say_what_the_published_ones_said(name: str) -> None:
    newer, earlier = imported(CONFIGS[name]), imported(in_earlier_keys(name))
    assert newer.profile == earlier.profile
    assert newer.n_parameters == earlier.n_parameters


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NemotronHConfig", "layers_block_type"),
        ("KimiLinearConfig", "layer_types"),
        ("KimiLinearConfig", "mlp_layer_types"),
    ],
)
@pytest.mark.parametrize("value", [3, "x", [1], [{}], ["other"]])
def test_a_broken_list_of_layers_is_refused_by_its_key(name: str, key: str, value: object) -> None:
    assert key in CONFIGS[name]
    with pytest.raises(InputError) as caught:
        imported({**CONFIGS[name], key: value})
    (problem,) = (problem for problem in caught.value.problems if problem.key == key)
    assert problem.message.startswith(f"is {json.dumps(value)}")


# The index of a checkpoint


def index_of(n_parameters: int, n_layers: int, n_experts: int, **metadata: Any) -> str:
    names = [f"model.layers.{i}.self_attn.q_proj.weight" for i in range(n_layers)]
    names += [f"model.layers.0.mlp.experts.{i}.w1.weight" for i in range(n_experts)]
    content = {
        "metadata": {"total_size": 2 * n_parameters, **metadata},
        "weight_map": dict.fromkeys(names, "1.safetensors"),
    }
    return json.dumps(content)


def run(folder: Path, name: str, index: str, *more: str) -> Any:
    (folder / "config.json").write_text(json.dumps(CONFIGS[name]), encoding="utf-8")
    (folder / "index.json").write_text(index, encoding="utf-8")
    arguments = ["import", str(folder / "config.json"), "--name", "mine", "--index", str(folder / "index.json")]
    return CliRunner().invoke(app, [*arguments, *(more or ("--precision", "bf16"))])


def test_an_index_with_as_many_parameters_agrees_to_the_last_one(tmp_path: Path) -> None:
    n = COUNTED["MixtralConfig"]
    assert f"index.json: {n:,} parameters, as counted" in run(tmp_path, "MixtralConfig", index_of(n, 32, 8)).stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((1, 0, 0, {}), "46,702,792,705 parameters, and the shapes 46,702,792,704"),
        ((0, 1, 0, {}), "tensors of 33 layers, and the config 32"),
        ((0, 0, 8, {}), "tensors of 16 experts, and the config 8"),
        ((5, 0, 0, {"total_parameters": 46_702_792_000}), "46,702,792,000 parameters"),
    ],
)
def test_an_index_that_differs_is_a_warning_with_both_numbers(
    change: tuple[int, int, int, dict[str, int]], said: str, tmp_path: Path
) -> None:
    more, layers, experts, metadata = change
    index = index_of(COUNTED["MixtralConfig"] + more, 32 + layers, 8 + experts, **metadata)
    found = run(tmp_path, "MixtralConfig", index)
    assert found.exit_code == 0
    assert "warning: " in found.stderr
    assert said in found.stderr


def test_bytes_of_a_quantised_checkpoint_count_no_parameters_and_that_is_said(tmp_path: Path) -> None:
    found = run(tmp_path, "MixtralConfig", index_of(10**9, 32, 8), "--precision", "fp8")
    assert "several formats" in found.stderr
    assert "warning" not in found.stderr


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"metadata": {}, "weight_map": {}}',
        '{"metadata": {"total_size": -1}, "weight_map": {"a": "b"}}',
        "x",
    ],
)
def test_what_is_no_index_is_bad_input(text: str, tmp_path: Path) -> None:
    assert isinstance(run(tmp_path, "MixtralConfig", text).exception, InputError)
