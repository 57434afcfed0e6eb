"""The rooms keep to their directions, help stays light, everything bundled ships, and nothing foreign is committed."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from planner.optimizer.highs import one_thread_solver

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "planner"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
BASE = {
    "errors",
    "units",
    "schema",
    "toml_lines",
    "curves",
    "ranges",
    "reading",
    "documented",
    "threads",
    "markdown_text",
    "notes",
    "progress",
    "roots",
    "ties",
}
MAY_IMPORT = {
    "errors": set(),
    "units": set(),
    "markdown_text": set(),
    "notes": set(),
    "toml_lines": set(),
    "ranges": set(),
    "reading": {"errors", "toml_lines"},
    "schema": {"errors", "toml_lines", "reading", "units"},
    "curves": set(),
    "documented": set(),
    "threads": set(),
    "roots": set(),
    "ties": set(),
    "work_clock": set(),
    "files": {"errors"},
    "jobs": {"errors"},
    "progress": set(),
    "profiles": BASE | {"files", "benchmarks"},
    "benchmarks": {"errors", "schema", "units"},
    "workload": BASE | {"benchmarks"},
    "scenario": BASE | {"profiles", "workload"},
    "results": BASE - {"curves"},
    "roofline": BASE | {"profiles", "results"},
    "queueing": {"errors", "units", "curves", "roots", "ties"},
    "hybrid": {"errors", "notes", "units", "threads", "files", "profiles"},
    "optimizer": BASE | {"scenario", "profiles", "results", "roofline", "queueing", "workload", "work_clock"},
    "comparison": BASE
    | {"scenario", "profiles", "results", "roofline", "queueing", "workload", "optimizer", "work_clock"},
    "executor": BASE | {"files", "jobs", "scenario", "profiles", "results", "roofline", "workload"},
    "promises": BASE | {"jobs", "scenario", "results", "queueing", "optimizer", "comparison", "executor", "work_clock"},
    "studies": BASE
    | {"files", "jobs", "scenario", "profiles", "results", "roofline", "queueing", "workload"}
    | {"optimizer", "comparison", "executor", "promises", "hybrid", "work_clock"},
    "report": BASE | {"files", "scenario", "results"},
    "deploy": BASE | {"files", "results"},
}
"""The house's table of who may import whom; `cli` may import everything."""
HEAVY = ("numba", "numpy", "scipy", "pulp", "highspy", "matplotlib", "pydantic", "jinja2", "rich.console")


def modules(room: str) -> list[Path]:
    return sorted((PACKAGE / room).rglob("*.py")) or [PACKAGE / f"{room}.py"]


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imported(path: Path) -> set[str]:
    """Every module a file imports anywhere in it, in full."""
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def rooms_of(names: set[str]) -> set[str]:
    return {name.split(".")[1] for name in names if name.startswith("planner.")}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_the_house_lets_it(room: str) -> None:
    for path in modules(room):
        assert rooms_of(imported(path)) - {room} <= MAY_IMPORT[room], path


def test_every_room_is_in_the_table_and_in_the_contract_of_layers() -> None:
    rooms = {
        path.stem if path.is_file() else path.name
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert rooms - {"__init__", "__main__", "cli"} == set(MAY_IMPORT)
    (layers,) = (c for c in PROJECT["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    assert {name.strip() for layer in layers["layers"] for name in layer.split("|")} == rooms - {"__init__"}
    assert layers["exhaustive"] is True


def test_queueing_is_pure_maths() -> None:
    for path in modules("queueing"):
        assert {name.split(".")[0] for name in imported(path)} <= {
            *sys.stdlib_module_names,
            "planner",
            "numpy",
            "scipy",
        }


def test_every_room_says_what_it_exports() -> None:
    """Names that its package has, or the modules that other rooms may use."""
    for path in PACKAGE.glob("*/__init__.py"):
        if path.parent.name not in ("cli", "data"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = {getattr(target, "id", "") for n in tree.body if isinstance(n, ast.Assign) for target in n.targets}
            assert "__all__" in names or "\nPublic modules:\n" in (ast.get_docstring(tree) or ""), path


def loaded_by(statement: str) -> set[str]:
    """Modules that are there after a statement in a fresh interpreter."""
    command = [sys.executable, "-c", f"{statement}\nimport sys\nprint('loaded', *sys.modules)"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=True)
    return set(found.stdout.split("loaded ")[-1].split())


RUN = "import sys, planner.cli\nsys.argv = {}\ntry: planner.cli.main()\nexcept SystemExit: pass"


@pytest.mark.parametrize("statement", ["import planner.cli", RUN.format(["planner", "--help"])], ids=["import", "help"])
def test_help_loads_nothing_heavy(statement: str) -> None:
    assert not loaded_by(statement) & set(HEAVY)


def test_the_help_of_a_command_loads_nothing_heavy_but_what_typer_wants() -> None:
    assert not loaded_by(RUN.format(["planner", "optimize", "--help"])) & ({*HEAVY} - {"pydantic"})


def test_a_plan_does_not_load_what_draws() -> None:
    loaded = loaded_by(RUN.format(["planner", "optimize", "not-worth-it", "--format", "json"]))
    assert "pulp" in loaded
    assert not loaded & {"matplotlib", "jinja2"}


def test_every_bundled_scenario_and_profile_folder_is_put_into_the_wheel() -> None:
    shipped = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    scenarios = {str(path.relative_to(ROOT)) for path in (ROOT / "reports").glob("*/scenario.toml")}
    assert scenarios == {path for path in shipped if path.startswith("reports/")}
    for path in scenarios:
        assert shipped[path] == f"planner/data/scenarios/{Path(path).parent.name}.toml"
    for folder in ("hardware_profiles", "model_profiles", "stack_profiles"):
        assert shipped[folder] == f"planner/data/{folder}"
        assert (ROOT / folder).is_dir()


def committed() -> list[Path]:
    """Files that git tracks, or would."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in found.stdout.split("\0") if name and (ROOT / name).is_file()]


def texts() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in committed() if path.suffix not in (".png", ".svg")}


def test_no_committed_file_names_a_package_registry() -> None:
    address = re.compile(
        r"https?://[\w.@:-]*(pypi|pythonhosted|/simple\b)|--(extra-)?index-url[ =]|--trusted-host|index-url\s*="
    )
    for path, text in texts().items():
        if path != Path(__file__).resolve():
            assert not address.search(text), path


def test_no_committed_file_holds_requests_of_a_published_trace() -> None:
    request = re.compile(r'"hash_ids": \[\d+(, \d+){7}|^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{7},\d+,\d+$', re.MULTILINE)
    for path, text in texts().items():
        assert len(request.findall(text)) <= 5, path
    data = ROOT.parent / "shared" / "data"
    sizes = {p.stat().st_size for p in data.rglob("*") if p.is_file()}
    assert not [path for path in committed() if path.stat().st_size in sizes and path.stat().st_size > 10_000]


def test_no_committed_file_is_large() -> None:
    assert not [path for path in committed() if path.stat().st_size > 1_000_000]


def test_every_solver_has_one_thread_because_it_is_made_in_one_place() -> None:
    """A second number of threads in a process makes HiGHS refuse to run, on machines of more than two cores alone."""
    made = [path for path in PACKAGE.rglob("*.py") if "Highs()" in path.read_text(encoding="utf-8")]
    assert made == [PACKAGE / "optimizer" / "highs.py"]
    assert one_thread_solver().getOptionValue("threads")[1] == 1


def test_no_room_asserts_on_what_a_user_wrote_or_prints_or_exits() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] in ("cli", "data"):
            continue
        calls = [n.func for n in nodes(path) if isinstance(n, ast.Call)]
        assert not {"print", "exit", "quit", "input"} & {getattr(call, "id", "") for call in calls}, path
        assert "sys" not in imported(path), path
