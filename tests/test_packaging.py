"""The package works without its checkout: profiles, scenarios and templates travel in the wheel."""

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def unpacked_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(ROOT)], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def run(site: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "planner", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_an_installed_wheel_plans_the_reference_case_from_any_folder(unpacked_wheel: Path, tmp_path: Path) -> None:
    found = run(unpacked_wheel, tmp_path, "optimize", "--format", "json")
    assert found.returncode == 0, found.stderr
    assert [pool["n_instances"] for pool in json.loads(found.stdout)["pools"]] == [4, 3, 5]


def test_an_installed_wheel_writes_reports_and_new_scenarios(unpacked_wheel: Path, tmp_path: Path) -> None:
    assert run(unpacked_wheel, tmp_path, "scenario", "new", "mine").returncode == 0
    assert run(unpacked_wheel, tmp_path, "report", "mine.toml", "--out", "answer").returncode == 0
    assert (tmp_path / "answer" / "report.md").is_file()


def test_a_wheel_holds_every_profile_and_bundled_scenario_and_no_tests(unpacked_wheel: Path) -> None:
    for kind in ("hardware_profiles", "model_profiles", "stack_profiles"):
        shipped = {path.name for path in (unpacked_wheel / "planner" / "data" / kind).iterdir()}
        assert shipped == {path.name for path in (ROOT / kind).glob("*.toml")}
    scenarios = {path.stem for path in (unpacked_wheel / "planner" / "data" / "scenarios").iterdir()}
    assert scenarios == {path.parent.name for path in (ROOT / "reports").glob("*/scenario.toml")}
    for folder in ("explore", "templates", "vendor"):
        shipped = {path.name for path in (unpacked_wheel / "planner" / "report" / folder).iterdir()}
        assert shipped == {path.name for path in (ROOT / "planner" / "report" / folder).iterdir()}
    assert not (unpacked_wheel / "tests").exists()


def test_constraints_pin_exact_versions_and_name_no_address() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert lines
    assert all(line.count("==") == 1 and "/" not in line and "@" not in line for line in lines)


def test_every_dependency_has_a_lower_and_an_upper_bound_and_its_pin_is_between_them() -> None:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, lines = found["project"], (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {canonicalize_name(name): pin for name, _, pin in (line.partition("==") for line in lines)}
    extras = project["optional-dependencies"]
    stated = chain(found["build-system"]["requires"], project["dependencies"], *extras.values())
    for requirement in map(Requirement, stated):
        kinds = sorted(bound.operator for bound in requirement.specifier)
        assert kinds in (["<", ">="], ["=="]), requirement
        if pin := pins.get(canonicalize_name(requirement.name)):
            assert pin in requirement.specifier, requirement
    assert {canonicalize_name(Requirement(each).name) for each in [*project["dependencies"], *extras["dev"]]} <= set(
        pins
    )
