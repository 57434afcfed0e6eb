"""A Tab completes commands, options, and the names of what ships with the planner."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.cli.completion import hardware_names, model_names, profile_names, scenario_names
from planner.profiles import profile_names as names_of
from planner.scenario import bundled_scenarios

ROOT = Path(__file__).resolve().parents[1]
CASES = [
    (["pred"], "predict"),
    (["scenario", "ch"], "check"),
    (["optimize", "--sens"], "--sensitivity"),
    (["optimize", "prfaas-p"], "prfaas-paper"),
    (["simulate", "east"], "east-west"),
    (["scenario", "check", "east"], "east-west"),
    (["predict", "qwen3-3"], "qwen3-32b"),
    (["predict", "qwen3-32b", "h800"], "h800-sxm"),
    (["profiles", "show", "sglan"], "sglang"),
    (["predict", "qwen3-32b", "h800-sxm", "--format", "js"], "json"),
]


def test_names_to_complete_are_those_that_the_catalogue_knows() -> None:
    assert tuple(scenario_names("")) == tuple(sorted(bundled_scenarios()))
    assert tuple(model_names("")) == tuple(sorted(names_of("model")))
    assert tuple(hardware_names("")) == tuple(sorted(names_of("hardware")))
    assert set(profile_names("")) == {name for kind in ("hardware", "model", "stack") for name in names_of(kind)}
    assert all(name.startswith("h2") for name in hardware_names("h2"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("words", "expected"), CASES, ids=lambda case: " ".join(case) if isinstance(case, list) else ""
)
def test_a_word_that_was_begun_is_completed(words: list[str], expected: str, shell: str) -> None:
    line = " ".join(["planner", *words])
    asked = {
        "_PLANNER_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words)),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    found = CliRunner().invoke(app, [], prog_name="planner", env=asked)
    assert expected in found.stdout


def test_completing_names_loads_nothing_heavy() -> None:
    script = "import sys, planner.cli.completion as c; c.profile_names(''); c.scenario_names('')\n"
    script += "print(sorted({'pydantic', 'numpy', 'rich'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_shown(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    found = CliRunner().invoke(app, ["--show-completion", shell], prog_name="planner")
    assert found.exit_code == 0
    assert "_PLANNER_COMPLETE" in found.stdout
