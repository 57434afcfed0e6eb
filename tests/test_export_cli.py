"""`planner export`: from a plan's file or a scenario to a folder that is whole, or not there."""

import json
import os
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from planner.cli import app, main
from planner.deploy import write_export
from planner.deploy.parameters import Parameters
from planner.deploy.versions import DYNAMO, ENGINES, KSERVE, LLM_D, LWS, SGLANG_ROUTER, VLLM_ROUTER
from planner.errors import InputError
from tests.builders import SMALL
from tests.deploy_cases import two_pools, unequal_hybrid

ROOT = Path(__file__).resolve().parents[1]


def saved(of: object, folder: Path) -> str:
    path = folder / "plan.json"
    path.write_text(json.dumps(of.answer()), encoding="utf-8")  # type: ignore[attr-defined]
    return str(path)


class Ended(NamedTuple):
    """How a command ended."""

    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def export(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """`planner export` in this process."""

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["planner", "export", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        return Ended(int(caught.value.code or 0), *capsys.readouterr())

    return run


def files(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text(encoding="utf-8") for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("target", ["dynamo", "llm-d", "kserve", "sglang", "vllm"])
def test_a_plan_s_file_becomes_a_folder_and_its_files_are_told(
    export: Callable[..., Ended], target: str, tmp_path: Path
) -> None:
    found = export(saved(two_pools(), tmp_path), "--to", target, "--out", str(tmp_path / "out"))
    assert found.exit_code == 0, found.stderr
    assert sorted(found.stdout.splitlines()) == sorted(str(tmp_path / "out" / name) for name in files(tmp_path / "out"))
    assert "NOT_EXPRESSED.md" in files(tmp_path / "out")
    scripts = [path for path in (tmp_path / "out").rglob("*.sh")]
    assert all(path.stat().st_mode & stat.S_IXUSR for path in scripts)
    assert bool(scripts) == (target in ("sglang", "vllm"))


def test_a_scenario_is_planned_first_and_gives_what_its_plan_gives(
    export: Callable[..., Ended], tmp_path: Path
) -> None:
    scenario = tmp_path / "small.toml"
    scenario.write_text(SMALL, encoding="utf-8")
    planned = CliRunner().invoke(app, ["optimize", str(scenario), "--format", "json"])
    (tmp_path / "plan.json").write_text(planned.stdout, encoding="utf-8")
    for source, out in ((str(scenario), "a"), (str(tmp_path / "plan.json"), "b")):
        found = export(source, "--to", "llm-d", "--out", str(tmp_path / out))
        assert found.exit_code == 0, found.stderr
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_what_is_refused_exits_3_with_the_reason_and_writes_nothing(
    export: Callable[..., Ended], tmp_path: Path
) -> None:
    found = export(saved(unequal_hybrid(), tmp_path), "--to", "vllm", "--out", str(tmp_path / "out"))
    assert found.exit_code == 3
    assert "hands over between equal tp only" in found.stderr
    assert found.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_a_plan_of_an_older_planner_is_refused_with_what_to_do(export: Callable[..., Ended], tmp_path: Path) -> None:
    old = two_pools().answer()
    old.pop("models")
    old["pools"] = [{key: value for key, value in one.items() if key != "model"} for one in old["pools"]]
    (tmp_path / "plan.json").write_text(json.dumps(old), encoding="utf-8")
    found = export(str(tmp_path / "plan.json"), "--to", "vllm", "--out", str(tmp_path / "out"))
    assert found.exit_code == 3
    assert "the answer of this version of planner optimize" in found.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "is not JSON"), ("[]", "is not planner.plan/1"), ('{"schema": "planner.run/1"}', "is not planner.plan/1")],
)
def test_what_is_no_plan_is_refused(export: Callable[..., Ended], text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(text, encoding="utf-8")
    found = export(str(tmp_path / "plan.json"), "--to", "vllm", "--out", str(tmp_path / "out"))
    assert found.exit_code == 3
    assert said in found.stderr


def test_keys_of_a_scenario_are_not_set_on_a_plan(export: Callable[..., Ended], tmp_path: Path) -> None:
    source = saved(two_pools(), tmp_path)
    found = export(source, "--to", "vllm", "--out", str(tmp_path / "out"), "--set", "demand_req_per_s=2")
    assert found.exit_code == 2
    assert "--set: changes a scenario, and" in found.stderr


def test_an_earlier_export_is_replaced_as_a_whole(export: Callable[..., Ended], tmp_path: Path) -> None:
    source, out = saved(two_pools(), tmp_path), str(tmp_path / "out")
    for target in ("vllm", "dynamo"):
        assert export(source, "--to", target, "--out", out).exit_code == 0
    assert not [name for name in files(tmp_path / "out") if name.endswith(".sh")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "plan.json"]


def test_a_folder_of_other_things_is_left_alone(export: Callable[..., Ended], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine", encoding="utf-8")
    found = export(saved(two_pools(), tmp_path), "--to", "vllm", "--out", str(tmp_path / "out"))
    assert found.exit_code == 3
    assert "is not empty, and holds no earlier export" in found.stderr
    assert files(tmp_path / "out") == {"mine.txt": "mine"}


def test_a_file_in_place_of_the_folder_is_left_alone(export: Callable[..., Ended], tmp_path: Path) -> None:
    source = saved(two_pools(), tmp_path)
    found = export(source, "--to", "vllm", "--out", source)
    assert found.exit_code == 3
    assert json.loads(Path(source).read_text(encoding="utf-8"))["scenario"] == "two-pools"


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_export({"NOT_EXPRESSED.md": "x\n"}, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert files(tmp_path / "real") == {"NOT_EXPRESSED.md": "x\n"}


@pytest.mark.parametrize("failing", ["write", "put"])
def test_an_export_that_fails_leaves_the_earlier_one(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_export({"NOT_EXPRESSED.md": "earlier\n"}, tmp_path / "out")
    rename, renamed = Path.rename, []

    def full(*_: object, **__: object) -> int:
        raise OSError(28, os.strerror(28))

    def second_fails(path: Path, target: Path) -> Path:
        renamed.append(path)
        return full() if len(renamed) == 2 else rename(path, target)  # type: ignore[return-value]

    with monkeypatch.context() as patch:
        if failing == "write":
            patch.setattr(Path, "write_text", full)
        else:
            patch.setattr(Path, "rename", second_fails)
        with pytest.raises(InputError, match="the export cannot be written: No space left on device"):
            write_export({"NOT_EXPRESSED.md": "later\n"}, tmp_path / "out")
    assert files(tmp_path) == {"out/NOT_EXPRESSED.md": "earlier\n"}


def page(heading: str) -> str:
    """A part of the page on exports."""
    return (ROOT / "docs/how-to/export.md").read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]


def test_the_page_names_every_parameter() -> None:
    named = re.findall(r"^\| `([a-z_]+)(?:\.[A-Z]+)?` \|", page("Parameters"), flags=re.MULTILINE)
    assert sorted(named) == sorted(Parameters.model_fields)


def test_the_page_names_every_version_that_files_are_written_for() -> None:
    pinned = (*ENGINES.values(), DYNAMO, LLM_D, LWS, KSERVE, SGLANG_ROUTER, VLLM_ROUTER)
    assert all(software.version in page("Versions") for software in pinned)
