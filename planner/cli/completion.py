"""Names that a shell completes: of what ships with the planner.

They are read from the folders: the rooms that know them take longer to load than a Tab may.
"""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
DATA = PACKAGE / "data"
"""Of an installed package; a checkout has the same beside it."""


def scenario_names(incomplete: str) -> list[str]:
    """Bundled scenarios that begin so."""
    bundled = {path.stem for path in DATA.glob("scenarios/*.toml")}
    return _beginning(bundled or {p.parent.name for p in PACKAGE.parent.glob("reports/*/scenario.toml")}, incomplete)


def model_names(incomplete: str) -> list[str]:
    """Model profiles that begin so."""
    return _profile_names("model", incomplete)


def hardware_names(incomplete: str) -> list[str]:
    """Hardware profiles that begin so."""
    return _profile_names("hardware", incomplete)


def profile_names(incomplete: str) -> list[str]:
    """Profiles of every kind that begin so."""
    return [name for kind in ("hardware", "model", "stack") for name in _profile_names(kind, incomplete)]


def _profile_names(kind: str, incomplete: str) -> list[str]:
    folder = f"{kind}_profiles/*.toml"
    return _beginning({path.stem for root in (DATA, PACKAGE.parent) for path in root.glob(folder)}, incomplete)


def _beginning(names: set[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
