"""`planner profiles new` starts a hardware profile whose placeholders the gate reports until they are filled in."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from planner.cli.profiles import app
from planner.errors import InputError, UsageError
from planner.profiles import check_profiles, hardware_profile
from planner.profiles.hardware import Figures
from planner.profiles.new_hardware import NEEDED, new_hardware_profile

FIGURES = hardware_profile("h200-sxm").figures
FILLED = {"vendor": "NVIDIA", "datasheet": "A datasheet, https://example.com/chip.pdf"}


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["new", *arguments])


def filled(text: str, keys: set[str]) -> str:
    """A new profile with the H200's figures of some keys, comments taken away."""
    for key, value in FILLED.items():
        text = text.replace(f'{key} = ""', f'{key} = "{value}"')
    for key in keys:
        figure = getattr(FIGURES, key)
        text = re.sub(rf"(?m)^(?:# )?{key} = {{ value = 0,", f"{key} = {{ value = {figure.value},", text)
    return text


def to_fill(path: Path) -> set[str]:
    return {problem.key for problem in check_profiles([path]).problems}


def test_every_placeholder_is_reported_until_it_is_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("my-chip").exit_code == 0
    path = tmp_path / "my-chip.toml"
    text = path.read_text(encoding="utf-8")
    left = {"vendor", "sources.datasheet", *(f"figures.{key}.value" for key in NEEDED)}
    assert to_fill(path) == left
    for key in NEEDED:
        path.write_text(filled(text, {*NEEDED} - {key}), encoding="utf-8")
        assert to_fill(path) == {f"figures.{key}.value"}
    path.write_text(filled(text, {*NEEDED}), encoding="utf-8")
    assert check_profiles([path]).holds
    assert hardware_profile(str(path)).memory_bytes == 141e9


def test_every_figure_of_the_schema_can_be_uncommented_and_filled_in(tmp_path: Path) -> None:
    text, known = new_hardware_profile("my-chip"), {key for key, figure in FIGURES if figure is not None}
    assert {key for key in Figures.model_fields if f"{key} = {{" in text} == set(Figures.model_fields)
    path = tmp_path / "my-chip.toml"
    path.write_text(filled(text, known), encoding="utf-8")
    assert check_profiles([path]).problems == ()
    assert {key for key, figure in hardware_profile(str(path)).figures if figure is not None} == known


def test_what_it_says_is_left_is_what_the_gate_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = run("my-chip").stdout.splitlines()
    assert said[0].startswith("my-chip.toml: fill in at least vendor, sources.datasheet, figures.bf16_tflops")
    assert said[1] == "next: planner profiles check my-chip.toml"
    found = json.loads(run("other-chip.toml", "--format", "json").stdout)
    assert (found["schema"], found["name"], found["file"]) == ("planner.new/1", "other-chip", "other-chip.toml")
    assert {item["key"] for item in found["to_fill"]} == to_fill(tmp_path / "other-chip.toml")


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("My Chip", UsageError, "My Chip: is no name of a profile .* as my-chip"),
        ("h200-sxm", InputError, "h200-sxm: already names .*h200-sxm.toml"),
        ("here", InputError, "here.toml: exists already"),
        ("no/where", InputError, "cannot be written"),
    ],
)
def test_a_name_that_cannot_be_is_refused_and_nothing_is_written(
    name: str, error: type[Exception], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.toml").write_text("mine", encoding="utf-8")
    with pytest.raises(error, match=says):
        raise run(name).exception
    assert [path.name for path in tmp_path.iterdir()] == ["here.toml"]
    assert (tmp_path / "here.toml").read_text(encoding="utf-8") == "mine"
