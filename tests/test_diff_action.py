"""The action that comments on pull requests: its step is run on a repository as a runner would run it."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import SMALL

ROOT = Path(__file__).resolve().parents[1]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "plan-diff" / "action.yml").read_text(encoding="utf-8"))
WORKFLOW_TEXT = (ROOT / "docs" / "how-to" / "workflows" / "plan-diff.yml").read_text(encoding="utf-8")
WORKFLOW: dict[Any, Any] = yaml.safe_load(WORKFLOW_TEXT)
DEAR = SMALL.replace("usd_per_accelerator_hour = 4.0", "usd_per_accelerator_hour = 5.0")
NONE = SMALL.replace('name = "small"', 'name = "small"\nobjective = "min-cost"\ndemand_req_per_s = 500.0')

PLANNER = """#!/bin/sh
[ "$1" = optimize ] || exec "{python}" -m planner "$@"
answer="{answers}/$({{ cat "$2"; echo "$@"; }} | sha256sum | cut -d " " -f 1)"
if [ ! -e "$answer" ]; then
    mkdir "$answer"
    "{python}" -m planner "$@" > "$answer/out" 2> "$answer/err"
    echo $? > "$answer/status"
fi
cat "$answer/out"
cat "$answer/err" >&2
exit "$(cat "$answer/status")"
"""
"""The command as the step sees it: a plan that one test asked for is there for all of them."""

Step = Callable[..., subprocess.CompletedProcess[str]]


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a test", "-c", "user.email=test@example.com", "-c", "init.defaultBranch=main"]
    found = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return found.stdout.rstrip()


@pytest.fixture(name="workspace")
def checkout(tmp_path: Path) -> Path:
    """A repository with a scenario at its first commit."""
    folder = tmp_path / "workspace"
    (folder / "scenarios").mkdir(parents=True)
    (folder / "scenarios" / "chat.toml").write_text(SMALL, encoding="utf-8")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "base")
    return folder


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for plans by question."""
    return tmp_path_factory.mktemp("answers")


@pytest.fixture(name="step")
def runner(tmp_path: Path, workspace: Path, answers: Path) -> Step:
    """Runs the action's second step after `planner` is installed: what runs the tests stands for that."""
    temp = tmp_path / "temp"
    (temp / "planner-diff" / "bin").mkdir(parents=True)
    command = temp / "planner-diff" / "bin" / "planner"
    command.write_text(PLANNER.format(python=sys.executable, answers=answers), encoding="utf-8")
    command.chmod(0o755)

    def run(**inputs: str) -> subprocess.CompletedProcess[str]:
        given = {name: str(declared.get("default", "")) for name, declared in ACTION["inputs"].items()}
        given |= {"scenario": "scenarios/chat.toml", "base": git(workspace, "rev-parse", "HEAD"), "time-limit": "10"}
        given |= {name.replace("_", "-"): text for name, text in inputs.items()}
        _, declared = ACTION["runs"]["steps"]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "RUNNER_TEMP": str(temp),
            "GITHUB_ACTION_PATH": str(ROOT / "plan-diff"),
            "GITHUB_OUTPUT": str(tmp_path / "outputs"),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            "PYTHONPATH": str(ROOT),
        }
        for key, text in declared["env"].items():
            environment[key] = re.sub(r"\$\{\{ *inputs\.([\w-]+) *\}\}", lambda found: given[found[1]], text)
        script = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", declared["run"]]
        return subprocess.run(script, cwd=workspace, env=environment, capture_output=True, text=True, check=False)

    return run


def handed_over(workspace: Path) -> tuple[str, dict[str, str]]:
    """The comment and the outputs; the summary says the same."""
    folder = workspace.parent
    outputs = dict(line.split("=", 1) for line in (folder / "outputs").read_text(encoding="utf-8").splitlines())
    comment = (workspace / outputs["comment"]).read_text(encoding="utf-8")
    assert re.match(r"<!-- planner diff: scenarios-(chat|new) -->\n\n### Capacity plan of ", comment)
    assert (folder / "summary.md").read_text(encoding="utf-8") == comment
    return comment, outputs


def is_clean(workspace: Path) -> bool:
    """Whether nothing is left but the comment."""
    left = git(workspace, "status", "--porcelain").splitlines()
    trees = git(workspace, "worktree", "list").splitlines()
    return len(trees) == 1 and {line[3:] for line in left} <= {
        "planner-diff.md",
        "scenarios/chat.toml",
        "scenarios/new.toml",
    }


def test_a_changed_price_becomes_a_comment(workspace: Path, step: Step) -> None:
    (workspace / "scenarios" / "chat.toml").write_text(DEAR, encoding="utf-8")
    found = step()
    assert found.returncode == 0, found.stderr
    comment, outputs = handed_over(workspace)
    assert outputs["changed"] == "true"
    assert "prices.h100-sxm.usd_per_accelerator_hour | 4 | 5 |" in comment
    assert str(workspace.parent) not in comment
    assert is_clean(workspace)


def test_no_change_is_said_and_passes(workspace: Path, step: Step) -> None:
    found = step(fail_on="cost>+0%")
    assert found.returncode == 0, found.stderr
    comment, outputs = handed_over(workspace)
    assert (outputs["changed"], "no change" in comment) == ("false", True)


def test_a_condition_fails_the_step_after_the_comment_is_written(workspace: Path, step: Step) -> None:
    (workspace / "scenarios" / "chat.toml").write_text(DEAR, encoding="utf-8")
    found = step(fail_on="cost>+500%\ncost>+1%\n")
    assert found.returncode == 6
    assert "cost>+1%" in found.stderr
    assert "cost>+500%" not in found.stderr
    assert "The bill" in found.stdout
    assert handed_over(workspace)[1]["changed"] == "true"


def test_a_question_without_a_plan_fails_with_why_in_the_comment(workspace: Path, step: Step) -> None:
    (workspace / "scenarios" / "chat.toml").write_text(NONE, encoding="utf-8")
    found = step()
    assert found.returncode == 4, found.stderr
    comment, _ = handed_over(workspace)
    assert "no plan" in comment.splitlines()[2]
    assert "infeasible" in comment
    assert is_clean(workspace)


def test_a_new_scenario_is_told_with_its_plan(workspace: Path, step: Step) -> None:
    (workspace / "scenarios" / "new.toml").write_text(SMALL, encoding="utf-8")
    found = step(scenario="scenarios/new.toml")
    assert found.returncode == 0, found.stderr
    comment, outputs = handed_over(workspace)
    assert outputs["changed"] == "true"
    assert "no plan at the base" in comment
    assert "threshold" in comment
    assert is_clean(workspace)


def test_an_input_is_no_place_for_commands(workspace: Path, step: Step) -> None:
    step(scenario="$(touch hacked); touch hacked", fail_on="$(touch hacked)", base="HEAD; touch hacked")
    assert not list(workspace.parent.rglob("hacked"))


def test_without_a_base_the_step_says_what_it_needs(step: Step) -> None:
    found = step(base="")
    assert found.returncode == 2
    assert "base" in found.stderr


def test_the_action_fills_scripts_by_variables_only_and_declares_what_it_uses() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert all(declared["description"] for part in ("inputs", "outputs") for declared in ACTION[part].values())
    for item in ACTION["runs"]["steps"]:
        assert "${{" not in item["run"]
        used = re.findall(r"inputs\.([\w-]+)", " ".join(item["env"].values()))
        assert set(used) <= set(ACTION["inputs"])


def test_the_example_workflow_uses_inputs_and_outputs_that_there_are() -> None:
    steps = WORKFLOW["jobs"]["diff"]["steps"]
    (own,) = [item for item in steps if "/plan-diff@" in item.get("uses", "")]
    assert own["with"].keys() <= ACTION["inputs"].keys()
    assert set(re.findall(r"steps\.diff\.outputs\.(\w+)", WORKFLOW_TEXT)) <= set(ACTION["outputs"])
    assert all("${{" not in item.get("run", "") for item in steps)
    assert WORKFLOW["permissions"] == {"contents": "read", "pull-requests": "write"}
