"""The pre-commit hook and the GitHub action: what they declare is run here as their runners would run it."""

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.profiles.folders import KINDS, profile_paths
from tests.planted import shipped_text
from tests.talk import without_progress

ROOT = Path(__file__).resolve().parents[1]
HOOK, SCENARIO_HOOK = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
INSTALL, CHECK, CHECK_SCENARIOS = ACTION["runs"]["steps"]


@dataclass(frozen=True)
class Runner:
    """A workflow runner with its folders."""

    folder: Path

    @property
    def workspace(self) -> Path:
        """The checkout of whoever uses the action."""
        return self.folder / "workspace"

    def environment(self) -> dict[str, str]:
        """Variables a runner sets, and what lets pip install without a network."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(self.folder / "temp"),
            # Dependencies and the build backend are taken from where the tests run.
            "PYTHONPATH": sysconfig.get_paths()["purelib"],
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",
        }

    def step(self, step: dict[str, Any], **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run a step as a runner does: expressions filled in, then its script by its shell."""
        assert step["shell"] == "bash"
        script = self.folder / "step.sh"
        script.write_text(step["run"], encoding="utf-8")
        environment = self.environment() | {key: filled(text, inputs) for key, text in step.get("env", {}).items()}
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)]
        return subprocess.run(command, cwd=self.workspace, env=environment, capture_output=True, text=True, check=False)


def filled(text: str, inputs: dict[str, str]) -> str:
    """A text with `${{ inputs.x }}` replaced by what the user gave, or the input's default."""
    given = {name: declared["default"] for name, declared in ACTION["inputs"].items()} | inputs
    return re.sub(r"\$\{\{ *inputs\.(\w+) *\}\}", lambda found: given[found[1]], text)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """A runner on which the action's first step has installed planner, and a workspace with good and bad profiles."""
    found = Runner(tmp_path_factory.mktemp("runner"))
    (found.folder / "temp").mkdir()
    for kind, name in (("hardware", "h200-sxm"), ("model", "kimi-linear-48b")):
        (found.workspace / f"{kind}_profiles").mkdir(parents=True)
        (found.workspace / f"{kind}_profiles" / f"{name}.toml").write_text(shipped_text(name), encoding="utf-8")
    (found.workspace / "bad").mkdir()
    bad = shipped_text("h200-sxm").replace("{ value = 141.0", "{ value = 141000.0")
    (found.workspace / "bad" / "h200-sxm.toml").write_text(bad, encoding="utf-8")
    installed = found.step(INSTALL, python=sys.executable)
    assert installed.returncode == 0, installed.stderr
    return found


def line_of_memory() -> int:
    text = shipped_text("h200-sxm")
    return text[: text.index("memory_gb =")].count("\n") + 1


# The action


def test_the_action_passes_good_profiles_of_the_folders_it_looks_in_by_default(runner: Runner) -> None:
    found = runner.step(CHECK)
    assert (found.returncode, found.stdout, without_progress(found.stderr)) == (0, "2 profiles hold (2 own)\n", "")


def test_the_action_marks_a_bad_profile_at_its_line_and_fails(runner: Runner) -> None:
    found = runner.step(CHECK, paths="hardware_profiles\nbad/h200-sxm.toml\n")
    assert found.returncode == 6
    marks = [line for line in found.stdout.splitlines() if "memory_gb" in line]
    assert len(marks) == 1
    assert marks[0].startswith(
        f"::error file=bad/h200-sxm.toml,line={line_of_memory()}::figures.memory_gb.value: is 141000 "
    )


def test_the_action_takes_patterns_and_the_other_formats(runner: Runner) -> None:
    found = runner.step(CHECK, paths="ba*/*.toml", format="json")
    assert found.returncode == 6
    (problem,) = json.loads(found.stdout)
    assert (problem["file"], problem["line"]) == ("bad/h200-sxm.toml", line_of_memory())


def test_the_action_checks_scenarios_with_own_profiles_where_it_is_asked_to(runner: Runner) -> None:
    nothing = runner.step(CHECK_SCENARIOS)
    assert (nothing.returncode, nothing.stdout) == (0, "")
    text = (ROOT / "reports" / "not-worth-it" / "scenario.toml").read_text(encoding="utf-8")
    (runner.workspace / "asked" / "mine").mkdir(parents=True)
    (runner.workspace / "asked" / "chat.toml").write_text(text.replace("h200-sxm", "my-chip"), encoding="utf-8")
    unknown = runner.step(CHECK_SCENARIOS, scenarios="asked")
    assert unknown.returncode == 3
    assert unknown.stdout.startswith("::error file=asked/chat.toml,line=")
    own = re.sub(r"(?m)^aliases = .*$", "aliases = []", shipped_text("h200-sxm")).replace('"h200-sxm"', '"my-chip"')
    (runner.workspace / "asked" / "mine" / "my-chip.toml").write_text(own, encoding="utf-8")
    found = runner.step(CHECK_SCENARIOS, scenarios="asked", profiles="asked/mine", format="text")
    assert (found.returncode, found.stdout) == (0, "asked/chat.toml: holds (2 pools, 0 links, 1 class)\n")


def test_a_path_is_no_place_for_options_or_commands(runner: Runner) -> None:
    found = runner.step(CHECK, paths="--help $(touch hacked) ;touch hacked")
    assert found.returncode == 6
    assert not (runner.workspace / "hacked").exists()


def test_the_action_is_composite_and_fills_scripts_by_variables_only() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert ACTION["inputs"]["format"]["default"] == "github"
    assert all(declared["description"] for declared in ACTION["inputs"].values())
    for step in ACTION["runs"]["steps"]:
        # An expression inside a script would let an input run commands.
        assert "${{" not in step["run"]
        assert "uses" not in step
        used = re.findall(r"inputs\.(\w+)", " ".join(step["env"].values()))
        assert set(used) <= set(ACTION["inputs"])


# The page

PAGE, DIFF_PAGE = (
    (ROOT / "docs" / "how-to" / name).read_text(encoding="utf-8") for name in ("ci.md", "diff-in-a-pull-request.md")
)


def test_the_shell_step_of_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    here = Runner(tmp_path)
    for name in ("profiles", "scenarios"):
        (here.workspace / name).mkdir(parents=True)
    own = re.sub(r"(?m)^aliases = .*$", "aliases = []", shipped_text("h200-sxm")).replace('"h200-sxm"', '"my-chip"')
    (here.workspace / "profiles" / "my-chip.toml").write_text(own, encoding="utf-8")
    text = (ROOT / "reports" / "not-worth-it" / "scenario.toml").read_text(encoding="utf-8")
    (here.workspace / "scenarios" / "chat.toml").write_text(text.replace("h200-sxm", "my-chip"), encoding="utf-8")
    script = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    found = here.step({"shell": "bash", "run": script, "env": {"PLANNER_SOURCE": str(ROOT)}})
    assert found.returncode == 0, found.stderr
    profiles, scenarios = found.stdout.splitlines()
    assert re.fullmatch(r"\d+ profiles hold \(1 own, \d+ shipped\)", profiles)
    assert scenarios == "scenarios/chat.toml: holds (2 pools, 0 links, 1 class)"


def test_the_page_names_inputs_and_hooks_that_there_are() -> None:
    found = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE + DIFF_PAGE, flags=re.DOTALL))
    step, configuration, diff = found
    assert step[0]["with"].keys() <= ACTION["inputs"].keys()
    of_diff = yaml.safe_load((ROOT / "plan-diff" / "action.yml").read_text(encoding="utf-8"))
    assert diff[0]["with"].keys() <= of_diff["inputs"].keys()
    hooks = [item for repo in configuration["repos"] for item in repo["hooks"]]
    assert [item["id"] for item in hooks] == [HOOK["id"], SCENARIO_HOOK["id"]]
    assert all(item.keys() <= HOOK.keys() for item in hooks)


# The hook


def hook(runner: Runner, *files: str, declared: dict[str, Any] = HOOK) -> subprocess.CompletedProcess[str]:
    """Run the hook on files as pre-commit does, in an environment where planner is installed."""
    programs = runner.folder / "temp" / "planner-profiles-check" / "bin"
    environment = {**runner.environment(), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    command = [*shlex.split(declared["entry"]), *declared.get("args", []), *files]
    return subprocess.run(command, cwd=runner.workspace, env=environment, capture_output=True, text=True, check=False)


def test_the_hook_passes_good_files_and_fails_bad_ones_with_file_line_and_key(runner: Runner) -> None:
    good = hook(runner, "hardware_profiles/h200-sxm.toml", "model_profiles/kimi-linear-48b.toml")
    assert (good.returncode, good.stdout) == (0, "2 profiles hold (2 own)\n")
    bad = hook(runner, "bad/h200-sxm.toml")
    assert bad.returncode == 6
    assert bad.stdout.startswith(f"bad/h200-sxm.toml:{line_of_memory()}: figures.memory_gb.value: is 141000 ")


def test_the_hook_is_declared_as_pre_commit_wants_it() -> None:
    assert (HOOK["id"], HOOK["entry"], HOOK["language"]) == (
        "planner-profiles-check",
        "planner profiles check",
        "python",
    )
    assert set(HOOK) <= {"id", "name", "description", "entry", "language", "files", "types", "require_serial", "args"}


def test_the_hook_for_scenarios_is_declared_and_gets_every_toml_file() -> None:
    assert SCENARIO_HOOK["id"] == "planner-scenario-check"
    assert SCENARIO_HOOK["entry"] == "planner scenario check --skip-others"
    assert set(SCENARIO_HOOK) == set(HOOK)
    shipped = [str(path.relative_to(ROOT)) for path in (ROOT / "reports").glob("*/scenario.toml")]
    theirs = ["scenario.toml", "plans/chat.scenario.toml", "scenarios/chat.toml", "chat.toml", "a/b/eu.toml"]
    assert shipped
    assert all(re.search(SCENARIO_HOOK["files"], name) for name in (*shipped, *theirs))
    others = ("scenarios/README.md", "scenario.toml.bak")
    assert not any(re.search(SCENARIO_HOOK["files"], name) for name in others)


def test_the_hook_for_scenarios_passes_good_files_and_fails_bad_ones_with_their_lines(runner: Runner) -> None:
    text = (ROOT / "reports" / "not-worth-it" / "scenario.toml").read_text(encoding="utf-8")
    (runner.workspace / "scenarios").mkdir()
    (runner.workspace / "scenarios" / "good.toml").write_text(text, encoding="utf-8")
    (runner.workspace / "scenarios" / "bad.toml").write_text(text.replace("sigma", "sigm"), encoding="utf-8")
    others = ("hardware_profiles/h200-sxm.toml", "bad/h200-sxm.toml")
    good = hook(runner, "scenarios/good.toml", *others, declared=SCENARIO_HOOK)
    assert (good.returncode, good.stdout) == (0, "scenarios/good.toml: holds (2 pools, 0 links, 1 class)\n")
    bad = hook(runner, "scenarios/good.toml", "scenarios/bad.toml", declared=SCENARIO_HOOK)
    assert bad.returncode == 3
    assert f"scenarios/bad.toml:{text[: text.index('sigma')].count(chr(10)) + 1}: workload.lengths.sigm" in bad.stderr


def test_the_hook_runs_for_profiles_and_nothing_else() -> None:
    shipped = [str(path.relative_to(ROOT)) for kind in KINDS for path in profile_paths(kind)]
    assert shipped
    assert all(re.search(HOOK["files"], name) for name in (*shipped, "deploy/hardware_profiles/my-chip.toml"))
    others = ("pyproject.toml", "reports/prfaas-paper/scenario.toml", "model_profiles/README.md", "my_profiles/a.toml")
    assert not any(re.search(HOOK["files"], name) for name in others)
