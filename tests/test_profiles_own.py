"""Own profiles in the folders of PLANNER_PROFILES are found by name everywhere, and never in place of another one."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.errors import InputError
from planner.profiles import check_profiles, hardware_profile, model_profile, profile, profile_names, stack_profile
from planner.profiles.folders import KINDS, Kind, profile_dir, profiles_below
from planner.roofline import stack
from planner.scenario import load_scenario

PROJECT = Path(__file__).resolve().parents[1]
SOURCE = {"hardware": "h200-sxm", "model": "llama-3.1-8b", "stack": "vllm"}
OWN = {"hardware": "my-chip", "model": "my-model", "stack": "vllm-mine"}


def copied(folder: Path, kind: Kind, name: str, aliases: str = "[]", old: str = "", new: str = "") -> Path:
    """A shipped profile under another name, and with other aliases."""
    text = (profile_dir(kind) / f"{SOURCE[kind]}.toml").read_text(encoding="utf-8").replace(old, new)
    text = re.sub(r"(?m)^name = .*$", f'name = "{name}"', text, count=1)
    text = re.sub(r"(?ms)^aliases = \[.*?\]$", f"aliases = {aliases}", text, count=1)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Names folders in the environment."""
    monkeypatch.chdir(tmp_path)

    def named(*found: Path) -> None:
        monkeypatch.setenv("PLANNER_PROFILES", os.pathsep.join(map(str, found)))

    return named


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, [*arguments])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("below", [".", "{kind}_profiles"])
def test_an_own_profile_is_found_by_name_and_alias(
    kind: Kind, below: str, tmp_path: Path, folders: Callable[..., None]
) -> None:
    folder = tmp_path / "own"
    copied(folder / below.format(kind=kind), kind, OWN[kind], '["Mine Own"]')
    (folder / "other.toml").write_text("[tool]\nx = 1\n", encoding="utf-8")
    folders(tmp_path, folder)  # the first holds none itself
    assert OWN[kind] in profile_names(kind)
    assert profile(OWN[kind]).name == profile(OWN[kind].upper()).name == OWN[kind]
    if kind != "stack":  # the shipped stack that is copied states no aliases
        assert profile("mine own", (kind,)).name == OWN[kind]
    assert check_profiles().holds


def test_own_profiles_are_used_by_name_in_every_command(tmp_path: Path, folders: Callable[..., None]) -> None:
    folders(tmp_path)
    for kind in KINDS:
        copied(tmp_path, kind, OWN[kind])
    assert stack("vllm-mine").name.startswith("vllm-mine")
    answer = run("predict", "my-model", "my-chip", "--stack", "vllm-mine", "--format", "json")
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    assert (found["model"], found["hardware"]) == ("my-model", "my-chip")
    assert found["stack"].startswith("vllm-mine")
    points = tmp_path / "points.csv"
    points.write_text(
        "model,hardware,framework,input_tokens,output_tokens,concurrency,tp_size,ttft_ms,tpot_ms\n"
        "my-model,my-chip,vllm,1024,128,4,1,60,9\n",
        encoding="utf-8",
    )
    scored = run("fidelity", str(points), "--format", "json")
    assert json.loads(scored.stdout)["n_predicted"] == 1
    shown = " ".join(run("profiles", "show", "my-chip").stdout.split())  # a long path begins a line of its own
    assert shown.startswith(f"NVIDIA H200 SXM (own, {tmp_path}")
    assert run("profiles", "check").stdout.startswith(
        f"{sum(len(profile_names(kind)) for kind in KINDS)} profiles hold"
    )


def test_the_list_says_where_each_profile_comes_from(tmp_path: Path, folders: Callable[..., None]) -> None:
    assert {item["origin"] for item in json.loads(run("profiles", "list", "--format", "json").stdout)["hardware"]} == {
        "shipped"
    }
    folders(tmp_path)
    path = copied(tmp_path, "hardware", "my-chip")
    found = json.loads(run("profiles", "list", "--format", "json").stdout)
    assert {item["name"]: item["origin"] for item in found["hardware"] if item["origin"] != "shipped"} == {
        "my-chip": str(path)
    }
    assert {item["origin"] for kind in ("models", "stacks") for item in found[kind]} == {"shipped"}
    assert "Own profiles, of PLANNER_PROFILES" in run("profiles", "list").stdout


@pytest.mark.parametrize(
    ("name", "aliases", "asked", "key"),
    [
        ("h200-sxm", "[]", "h200-sxm", "name"),
        ("h200_sxm", "[]", "h200_sxm", "name"),
        ("my-chip", '["x", "h200-sxm"]', "h200-sxm", "aliases[1]"),
        ("my-chip", '["H100_SXM"]', "h100_sxm", "aliases[0]"),
    ],
)
def test_a_name_that_is_taken_is_refused_at_its_line_and_not_shadowed(
    name: str, aliases: str, asked: str, key: str, tmp_path: Path, folders: Callable[..., None]
) -> None:
    folders(tmp_path)
    copied(tmp_path, "hardware", name, aliases)
    with pytest.raises(InputError) as caught:
        hardware_profile(asked)
    (problem,) = caught.value.problems
    assert (problem.file, problem.key) == (f"{name}.toml", key)
    assert problem.line is not None
    assert "already names a shipped profile" in problem.message
    assert "PLANNER_PROFILES adds profiles and replaces none" in problem.allowed
    gate = check_profiles([tmp_path / f"{name}.toml"]).problems
    assert [found.key for found in gate] == [key]
    assert hardware_profile("a100-sxm-80gb").name == "a100-sxm-80gb"


def test_two_own_folders_do_not_shadow_each_other(tmp_path: Path, folders: Callable[..., None]) -> None:
    folders(tmp_path / "a", tmp_path / "b")
    paths = [copied(tmp_path / name, "model", "my-model") for name in ("a", "b")]
    with pytest.raises(InputError, match="'my-model' already names") as caught:
        model_profile("my-model")
    (problem,) = caught.value.problems
    assert Path(problem.file).resolve() == paths[1].resolve()


def test_a_broken_own_profile_is_reported_by_file_and_line_where_it_may_be_meant(
    tmp_path: Path, folders: Callable[..., None]
) -> None:
    folders(tmp_path)
    copied(tmp_path, "hardware", "my-chip", old="value = 141.0", new='value = "much"')
    for asked in ("my-chip", "some-alias"):
        with pytest.raises(InputError) as caught:
            hardware_profile(asked)
        assert any(p.file == "my-chip.toml" and p.line and "memory_gb" in p.key for p in caught.value.problems)
    assert hardware_profile("h200-sxm").memory_bytes == 143_771 * 2**20
    assert stack_profile("vllm").name == "vllm"


def test_a_folder_that_is_none_is_said_to_be(tmp_path: Path, folders: Callable[..., None]) -> None:
    folders(tmp_path / "nowhere", tmp_path)
    with pytest.raises(InputError, match=r"PLANNER_PROFILES: names '.*nowhere', which is no folder"):
        hardware_profile("h200-sxm")


def test_a_folder_is_walked_with_all_below_and_other_files_are_counted(tmp_path: Path) -> None:
    copied(tmp_path / "deep" / "er", "hardware", "my-chip")
    copied(tmp_path / "models", "model", "my-model")
    copied(tmp_path / ".hidden", "hardware", "hidden-chip")
    copied(tmp_path / "lib" / "site-packages" / "planner", "hardware", "installed-chip")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")
    (tmp_path / "scenario.toml").write_text('schema = "planner.scenario/1"\n', encoding="utf-8")
    (tmp_path / "broken.toml").write_text("[[[\n", encoding="utf-8")
    assert [path.stem for path in profiles_below(tmp_path).profiles] == ["my-chip", "my-model"]
    found = run("profiles", "check", str(tmp_path))
    assert (found.exit_code, found.stdout) == (0, "2 profiles hold (2 own); 3 other TOML files skipped\n")


def test_files_of_a_folder_for_profiles_are_all_checked(tmp_path: Path) -> None:
    copied(tmp_path / "hardware_profiles", "hardware", "my-chip")
    (tmp_path / "hardware_profiles" / "unmarked.toml").write_text('name = "unmarked"\n', encoding="utf-8")
    (problem,) = check_profiles([tmp_path]).problems
    assert (Path(problem.file).name, problem.key) == ("unmarked.toml", "schema")


def test_a_folder_without_profiles_is_not_taken_for_a_good_one(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    assert not check_profiles([tmp_path]).holds


@pytest.mark.parametrize("kind", KINDS)
def test_the_gate_says_whose_profile_it_has_checked_and_where_that_lies(
    kind: Kind, tmp_path: Path, folders: Callable[..., None]
) -> None:
    shipped = profile_dir(kind) / f"{SOURCE[kind]}.toml"
    assert run("profiles", "check", SOURCE[kind]).stdout == f"1 profile holds: {shipped}, shipped\n"
    own = copied(tmp_path / "mine", kind, OWN[kind])
    assert run("profiles", "check", str(own)).stdout == f"1 profile holds: {own}, own\n"
    unknown = run("profiles", "check", OWN[kind])
    assert (unknown.exit_code, unknown.stdout.partition(":")[0]) == (6, OWN[kind])
    folders(tmp_path / "mine")
    assert run("profiles", "check", OWN[kind]).stdout == f"1 profile holds: {own}, own\n"
    n = sum(map(len, map(profile_names, KINDS)))
    assert run("profiles", "check").stdout == f"{n} profiles hold (1 own, {n - 1} shipped)\n"


def test_a_file_of_a_shipped_name_is_not_taken_for_the_shipped_one(
    tmp_path: Path, folders: Callable[..., None]
) -> None:
    folders()
    (tmp_path / "h200-sxm").mkdir()
    broken = copied(tmp_path / "h200-sxm", "hardware", "my-chip", old="value = 141.0", new="value = -141.0")
    found = run("profiles", "check", "h200-sxm")
    assert found.exit_code == 6
    assert str(broken.relative_to(tmp_path)) in found.stdout


NAMED_OFTEN = (PROJECT / "reports" / "not-worth-it" / "scenario.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("arguments", [("optimize",), ("report", "--out", "out"), ("simulate",), ("scenario", "check")])
def test_folders_that_are_none_are_one_message_wherever_a_scenario_names_profiles(
    arguments: tuple[str, ...], tmp_path: Path, folders: Callable[..., None]
) -> None:
    (tmp_path / "s.toml").write_text(NAMED_OFTEN, encoding="utf-8")
    folders(tmp_path / "nowhere")
    with pytest.raises(InputError) as caught:
        raise run(*arguments, "s.toml").exception
    assert str(caught.value).startswith(f"PLANNER_PROFILES: names '{tmp_path / 'nowhere'}', which is no folder (")
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize("is_empty", [True, False], ids=["an empty folder", "no folder named"])
def test_an_unknown_name_in_many_places_lists_the_choice_once_or_says_where_nothing_lies(
    is_empty: bool, tmp_path: Path, folders: Callable[..., None]
) -> None:
    text = NAMED_OFTEN.replace("h200-sxm", "my-own-chip")
    if is_empty:
        folders(tmp_path)
    with pytest.raises(InputError) as caught:
        load_scenario(text, "s.toml", tmp_path)
    places = [problem for problem in caught.value.problems if "my-own-chip' is no hardware profile" in problem.message]
    assert len(places) >= 3
    first, *others = (problem.allowed for problem in places)
    assert set(others) == {""}
    assert (first == f"PLANNER_PROFILES names {str(tmp_path)!r}, where no profile lies") is is_empty
    assert ("known: a100" in first) is not is_empty
