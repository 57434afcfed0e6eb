"""Where scenarios are: bundled ones by name, others by path."""

from os.path import isdir
from pathlib import Path

from planner.errors import InputError, InputProblem, did_you_mean
from planner.profiles.folders import schema_in, toml_files_below
from planner.schema import is_file

FILE = "scenario.toml"
"""What a scenario is called that has a folder of its own."""
REQUESTS = "planner scenario new NAME --from FILE makes a scenario of recorded requests"
OTHERS = {
    ".csv": REQUESTS,
    ".jsonl": REQUESTS,
    ".json": f"explain, diff and the --plan of simulate, explore and export read a plan; {REQUESTS}",
}
"""What to do with files that are no scenarios, by their suffix."""
PACKAGE = Path(__file__).resolve().parents[1]


def bundled_scenarios(package: Path = PACKAGE) -> dict[str, Path]:
    """Scenarios that ship with the planner, by name: inside an installed package, or in a checkout's reports."""
    inside = package / "data" / "scenarios"
    if inside.is_dir():
        return {path.stem: path for path in sorted(inside.glob("*.toml"))}
    return {path.parent.name: path for path in sorted((package.parent / "reports").glob("*/scenario.toml"))}


def scenario_path(name: str) -> Path:
    """File of a bundled scenario, or of a path.

    Raises:
        InputError: neither a bundled name nor a file.

    >>> scenario_path("prfaas-paper").suffix
    '.toml'
    """
    bundled = bundled_scenarios()
    if name in bundled:
        return bundled[name]
    path = Path(name)
    if is_file(path / FILE):
        return path / FILE
    if isdir(path):
        raise InputError(InputProblem(name, "", f"is a folder without {FILE}", f"a folder with {FILE}, or a file"))
    if not is_file(path) and path.suffix != ".toml":
        raise InputError(InputProblem(name, "", "is no bundled scenario and no file", did_you_mean(name, bundled)))
    if (suffix := path.suffix.lower()) in OTHERS:
        raise InputError(InputProblem(name, "", f"is no scenario, which is TOML, but a {suffix} file", OTHERS[suffix]))
    return path


def is_scenario(path: Path) -> bool:
    """True if a file is meant as a scenario, by its schema or as the scenario of its folder."""
    return path.name == FILE or schema_in(path) == "scenario"


def scenarios_below(folder: Path) -> list[Path]:
    """Scenarios in a folder and all below it; hidden folders and installed packages are left out."""
    return [path for path in toml_files_below(folder) if is_scenario(path)]
