"""A profile is found by name, alias or path, and a mistyped name gets help."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from planner.errors import InputError
from planner.profiles import (
    HardwareProfile,
    ModelProfile,
    hardware_profile,
    model_profile,
    profile,
    profile_names,
    stack_profile,
)
from planner.profiles.catalogue import kind_of, labels
from planner.profiles.folders import KINDS, Kind, profile_dir, profile_paths


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("h200_sxm", "h200-sxm"),
        ("h100_sxm", "h100-sxm"),
        ("b200_sxm", "b200-sxm"),
        ("H200_SXM", "h200-sxm"),
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", "kimi-linear-48b"),
        ("Qwen/Qwen3-235B-A22B", "qwen3-235b"),
        ("MiniMaxAI/MiniMax-M2.5", "minimax-m2.5"),
        ("minimaxai/minimax-m2.5", "minimax-m2.5"),
        ("MiniMax-M2.5", "minimax-m2.5"),
    ],
)
def test_an_alias_finds_its_profile_in_any_case(alias: str, name: str) -> None:
    assert profile(alias).name == name


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_and_alias_finds_the_profile_that_states_it(kind: Kind) -> None:
    for name in profile_names(kind):
        assert kind_of(profile(name)) == kind
        for label in labels(profile(name)):
            assert profile(label).name == name


def test_a_path_finds_a_users_own_profile(tmp_path: Path) -> None:
    text = (profile_dir("hardware") / "h200-sxm.toml").read_text(encoding="utf-8")
    own = tmp_path / "my-chip.toml"
    own.write_text(text.replace('name = "h200-sxm"', 'name = "my-chip"'), encoding="utf-8")
    assert hardware_profile(str(own)).name == "my-chip"


def test_a_users_file_is_read_afresh_each_time(tmp_path: Path) -> None:
    text = (profile_dir("hardware") / "h200-sxm.toml").read_text(encoding="utf-8")
    own = tmp_path / "h200-sxm.toml"
    own.write_text(text, encoding="utf-8")
    assert hardware_profile(str(own)).memory_bytes == 143_771 * 2**20
    own.write_text(text.replace("value = 143771.0", "value = 143000.0"), encoding="utf-8")
    assert hardware_profile(str(own)).memory_bytes == 143_000 * 2**20


def test_a_shipped_profile_is_read_once() -> None:
    assert hardware_profile("h200-sxm") is hardware_profile("h200_sxm")


@pytest.mark.parametrize(("typed", "meant"), [("h200-smx", "h200-sxm"), ("rubin_cpxx", "rubin_cpx")])
def test_a_mistyped_name_is_answered_with_the_near_one_and_the_choice(typed: str, meant: str) -> None:
    with pytest.raises(InputError) as caught:
        hardware_profile(typed)
    message = str(caught.value)
    assert f"did you mean '{meant}'?" in message
    assert "known: a100-sxm-80gb, ascend-910b2" in message
    assert caught.value.exit_code == 3


def test_a_name_like_nothing_is_answered_with_the_choice_of_its_kind_only() -> None:
    with pytest.raises(
        InputError,
        match=r"is no model profile \(known: .*qwen3-235b.*to a \.toml file, or one in a folder of PLANNER_PROFILES\)",
    ) as caught:
        model_profile("zzz")
    assert "h200-sxm" not in str(caught.value)
    with pytest.raises(InputError, match=r"is no hardware, model or stack profile \(known: .*h200-sxm.*qwen3-235b"):
        profile("zzz")


def test_hardware_is_not_found_among_models_nor_by_a_models_path() -> None:
    with pytest.raises(InputError, match="is no model profile"):
        model_profile("h200-sxm")
    with pytest.raises(InputError, match=r"schema: is a model profile .*planner\.hardware/1"):
        hardware_profile(str(profile_dir("model") / "qwen3-235b.toml"))
    with pytest.raises(InputError, match=r"schema: is a hardware profile .*planner\.model/1"):
        model_profile(str(profile_dir("hardware") / "h200-sxm.toml"))


def test_a_stack_is_not_found_among_the_others_nor_by_their_paths() -> None:
    with pytest.raises(InputError, match=r"is no stack profile \(did you mean 'vllm'\? known: sglang, trtllm, vllm"):
        stack_profile("vlm")
    with pytest.raises(InputError, match=r"schema: is a model profile .*planner\.stack/1"):
        stack_profile(str(profile_dir("model") / "qwen3-235b.toml"))
    with pytest.raises(InputError, match=r"schema: is a stack profile .*planner\.hardware/1"):
        hardware_profile(str(profile_dir("stack") / "vllm.toml"))


def test_a_missing_path_is_an_input_error() -> None:
    with pytest.raises(InputError, match=r"nowhere\.toml: cannot be read"):
        profile("nowhere.toml")


def test_profiles_sit_inside_an_installed_package_and_beside_it_in_a_checkout(tmp_path: Path) -> None:
    package = tmp_path / "planner"
    package.mkdir()
    assert profile_dir("model", package) == tmp_path / "model_profiles"
    installed = package / "data" / "model_profiles"
    installed.mkdir(parents=True)
    assert profile_dir("model", package) == installed


def test_file_names_are_profile_names() -> None:
    for path in (path for kind in KINDS for path in profile_paths(kind)):
        assert profile(path.stem).name == path.stem


def test_profiles_are_frozen_and_can_key_a_cache() -> None:
    model = model_profile("kimi-linear-48b")
    with pytest.raises(ValidationError, match="frozen"):
        model.precision = "fp8"  # type: ignore[misc]
    copy = ModelProfile.model_validate(dict(model))
    assert copy is not model
    assert len({model, copy, hardware_profile("h200-sxm")}) == 2
    assert len({model, ModelProfile.model_validate({**dict(model), "title": "Another"})}) == 2


def test_a_profile_made_of_records_is_validated_like_a_file() -> None:
    chip = hardware_profile("h200-sxm")
    with pytest.raises(ValidationError, match="names no listed source"):
        HardwareProfile.model_validate({**dict(chip), "sources": {"other": "A book"}})
