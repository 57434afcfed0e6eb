"""`planner profiles import` shows what it counted, warns where a size differs, and writes what the gate takes."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from planner.cli.profiles import app
from planner.errors import InputError, UsageError
from planner.notes import code_of
from planner.profiles import active_parameters, model_profile, profile_names, total_parameters
from planner.profiles.importer import profile_name
from planner.profiles.stated_size import sizes_in, stated_total

SHAPE: dict[str, Any] = {"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32}
SHAPE |= {"num_key_value_heads": 8}
SHAPE |= {"intermediate_size": 14336, "vocab_size": 32000, "torch_dtype": "bfloat16", "sliding_window": None}
MISTRAL = {"model_type": "mistral", "tie_word_embeddings": False, **SHAPE}
MIXTRAL = {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, **SHAPE}


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["import", *arguments])


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MIXTRAL), encoding="utf-8")
    return path


def test_without_a_file_the_profile_is_on_stdout_and_what_is_said_of_it_on_stderr(config: Path) -> None:
    config.write_text(json.dumps(MIXTRAL | {"some_new_trick": 3}), encoding="utf-8")
    result = run(str(config))
    assert result.exit_code == 0
    assert tomllib.loads(result.stdout)["name"] == "mixtral"
    said = result.stderr.splitlines()
    assert said[0] == "mixtral: 46,702,792,704 parameters, 12,748,853,248 active per token"
    assert said[1].split() == ["experts", "45,097,156,608", "96.6%"]
    assert "not mapped: some_new_trick" in said
    assert "by default of its class: tie_word_embeddings = false" in said
    assert said[-1] == "save it as mixtral.toml, as --out . does; then: planner profiles check mixtral.toml"


@pytest.mark.parametrize(
    ("options", "file"),
    [
        (["--out", "."], "mixtral.toml"),
        (["--out", ".", "--name", "mistralai/Mixtral-8x7B-v0.1"], "mixtral-8x7b-v0.1.toml"),
        (["--out", ".", "--name", "Mixtral 8x7B"], "mixtral-8x7b.toml"),
        (["--out", "my-model.toml"], "my-model.toml"),
        (["--out", "my-model.toml", "--name", "my-model"], "my-model.toml"),
        (["--out", "my-model.toml", "--name", "mistralai/Mixtral-8x7B-v0.1"], "my-model.toml"),
    ],
)
def test_the_next_command_that_it_names_holds(config: Path, options: list[str], file: str) -> None:
    result = run(str(config), *options)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in config.parent.iterdir()) == ["config.json", file]
    said, _, command = result.stderr.splitlines()[-1].partition("; next: planner profiles ")
    assert said == f"wrote {file}"
    assert CliRunner().invoke(app, command.split()).exit_code == 0
    assert model_profile(file).name == Path(file).stem


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--out", "Mixtral.toml"], r"--out Mixtral\.toml: is no file of a profile .* as mixtral\.toml\)"),
        (["--out", "mixtral"], r"--out mixtral: is no file of a profile .* as mixtral\.toml\)"),
        (["--out", "ÄÖ.toml", "--name", "a"], r"as a\.toml\)"),
        (["--out", "b.toml", "--name", "a"], r"--out b\.toml: the file of profile a is a\.toml"),
        (["--name", "///"], r"--name ///: has no letter or digit"),
        (["--parameters", "many"], r"--parameters many: is no number of parameters"),
        (["--parameters", "0"], r"--parameters 0: is no number of parameters"),
    ],
)
def test_a_name_that_the_gate_would_refuse_is_refused_before_anything_is_written(
    config: Path, options: list[str], says: str
) -> None:
    result = run(str(config), *options)
    assert isinstance(result.exception, UsageError)
    assert result.exception.exit_code == 2
    with pytest.raises(UsageError, match=says):
        raise result.exception
    assert [path.name for path in config.parent.iterdir()] == ["config.json"]


def test_a_folder_that_is_not_there_leaves_nothing_behind(config: Path) -> None:
    result = run(str(config), "--out", "nowhere/x.toml")
    assert isinstance(result.exception, InputError)
    assert [path.name for path in config.parent.iterdir()] == ["config.json"]


@pytest.mark.parametrize(
    ("experts", "options", "doubted"),
    [
        (8, ["--name", "mistralai/Mixtral-8x7B-v0.1"], []),
        (80, ["--name", "mistralai/Mixtral-8x7B-v0.1"], ["8x7B in mistralai/Mixtral-8x7B-v0.1"]),
        (8, ["--name", "x-47b-a13b"], []),
        (80, ["--name", "x-47b-a13b"], ["47b in x-47b-a13b"]),
        (8, ["--name", "x-47b-a30b"], ["a30b in x-47b-a30b"]),
        (8, ["--parameters", "46.7e9"], []),
        (80, ["--parameters", "46.7e9"], ["46.7e9"]),
        (8, ["--parameters", "42B"], ["42B"]),
    ],
)
def test_a_size_that_the_shapes_do_not_have_is_warned_about(
    config: Path, experts: int, options: list[str], doubted: list[str]
) -> None:
    config.write_text(json.dumps(MIXTRAL | {"num_local_experts": experts}), encoding="utf-8")
    result = run(str(config), *options)
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert {code_of(line) for line in warnings} <= {"parameters-differ", "index-differs"}
    assert [line.partition(" not the ")[2].partition(" (note: ")[0] for line in warnings] == doubted
    assert result.exit_code == 0
    as_json = json.loads(run(str(config), *options, "--format", "json").stdout)
    assert [f"warning: {text}" for text in as_json["warnings"]] == warnings


def test_json_holds_the_counts_the_file_and_the_profile(config: Path) -> None:
    found = json.loads(run(str(config), "--format", "json", "--out", ".").stdout)
    assert found["schema"] == "planner.import/1"
    assert found["file"] == "mixtral.toml"
    assert found["toml"] == Path("mixtral.toml").read_text(encoding="utf-8")
    assert sum(found["parameters"]["parts"].values()) == found["parameters"]["total"] == 46_702_792_704
    assert found["parameters"]["active"] == active_parameters(model_profile("mixtral.toml"))


def test_sizes_in_the_names_of_shipped_models_are_those_of_their_shapes() -> None:
    agrees = {}
    for model in map(model_profile, profile_names("model")):
        counts = {"total": total_parameters(model), "active": active_parameters(model)}
        sizes = [size for label in (model.title, model.name, *model.aliases) for size in sizes_in(label)]
        of = {size.text: (size, count) for size in sizes if (count := counts[size.of]) is not None}
        agrees |= {(model.name, text): size.agrees(count) for text, (size, count) in of.items()}
    assert {("qwen3-235b", "235B"), ("qwen3-235b", "A22B"), ("llama-3.1-8b", "8B")} <= agrees.keys()
    assert [size for size, holds in agrees.items() if not holds] == []


@given(st.floats(0.1, 2000), st.sampled_from("MBT"))
def test_a_figure_agrees_with_itself_and_not_with_ten_times_as_much(value: float, unit: str) -> None:
    text = f"{value:.3f}{unit}"
    size, n_parameters = stated_total(text), float(f"{value:.3f}") * {"M": 1e6, "B": 1e9, "T": 1e12}[unit]
    assert size is not None
    assert size.agrees(n_parameters)
    assert not size.agrees(10 * n_parameters)
    for stated in sizes_in(f"owner/x-{text}-chat"):
        assert stated.agrees(n_parameters)
        assert not stated.agrees(10 * n_parameters)


@given(st.text(max_size=40))
def test_the_name_made_of_any_id_is_one_that_stays(model_id: str) -> None:
    assert profile_name(profile_name(model_id)) == profile_name(model_id)
