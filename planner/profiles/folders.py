"""Where profiles lie: the shipped ones, and folders of own ones that the environment names."""

import os
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from planner.errors import InputError, InputProblem
from planner.reading import TOML_BYTES, ExcessError, is_file, parsed_toml, read_bytes, resolved_path

Kind = Literal["hardware", "model", "stack"]
KINDS: tuple[Kind, ...] = ("hardware", "model", "stack")
VARIABLE = "PLANNER_PROFILES"
NOT_OURS = ("site-packages", "node_modules")
"""Folders of what is installed."""
PACKAGE = Path(__file__).resolve().parents[1]
_SCHEMA = re.compile(r"planner\.([\w-]+)/")
_LINE = re.compile(rf"""^\s*["']?schema["']?\s*=\s*["']{_SCHEMA.pattern}""", re.MULTILINE)
"""Its line in a file that cannot be parsed."""


def profile_dir(kind: Kind, package: Path = PACKAGE) -> Path:
    """Folder of the shipped profiles of a kind: inside an installed package, beside it in a source checkout."""
    inside = package / "data" / f"{kind}_profiles"
    return inside if inside.is_dir() else package.parent / f"{kind}_profiles"


@cache
def shipped_dirs() -> frozenset[Path]:
    """Folders of the shipped profiles of all kinds."""
    return frozenset(map(profile_dir, KINDS))


@cache
def profile_paths(kind: Kind) -> tuple[Path, ...]:
    """Files of the shipped profiles of a kind, by name."""
    return tuple(sorted(profile_dir(kind).glob("*.toml")))


def own_dirs() -> tuple[Path, ...]:
    """Folders of own profiles: the PLANNER_PROFILES environment variable, separated as PATH is.

    Raises:
        InputError: one of them is no folder.
    """
    folders = [Path(part) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    if missing := [folder for folder in folders if not folder.is_dir()]:
        allowed = f"folders of profiles, separated by {os.pathsep!r}"
        raise InputError(
            InputProblem(VARIABLE, "", f"names {str(folder)!r}, which is no folder", allowed) for folder in missing
        )
    return tuple(dict.fromkeys(folders))


def own_paths(kind: Kind) -> tuple[Path, ...]:
    """Files of own profiles of a kind: those of its schema in the folders of PLANNER_PROFILES, or in a subfolder of the
    kind there, such as hardware_profiles.

    Raises:
        InputError: a folder that the variable names is none.
    """
    places = [place for folder in own_dirs() for place in (folder, folder / f"{kind}_profiles")]
    return tuple(path for place in places for path in sorted(place.glob("*.toml")) if kind_in(path) == kind)


def without_profiles() -> str:
    """That PLANNER_PROFILES names folders and no profile lies there; nothing where one does, or none is named."""
    folders = own_dirs()
    if not folders or any(own_paths(kind) for kind in KINDS):
        return ""
    places = ", ".join(repr(str(folder)) for folder in folders)
    return f"{VARIABLE} names {places}, where no profile lies"


@dataclass(frozen=True)
class FolderContent:
    """TOML files of a folder and all below it."""

    profiles: list[Path]
    """Those that state a schema of profiles, or lie in a folder for them, such as hardware_profiles."""
    n_others: int
    """All others, which are no profiles."""


def toml_files_below(folder: Path) -> list[Path]:
    """TOML files in a folder and all below it, those of hidden folders and of installed packages left out."""
    files: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in NOT_OURS)
        files += [Path(place) / name for name in sorted(names) if name.endswith(".toml")]
    return files


def profiles_below(folder: Path) -> FolderContent:
    """Profiles in a folder and all below it, as `toml_files_below` walks it."""
    files = toml_files_below(folder)
    homes = {f"{kind}_profiles" for kind in KINDS}
    profiles = [path for path in files if resolved_path(path).parent.name in homes or kind_in(path)]
    return FolderContent(profiles, len(files) - len(profiles))


def is_own(path: Path) -> bool:
    """True if a file is one that PLANNER_PROFILES makes part of the catalogue."""
    here = resolved_path(path)
    return any(here == resolved_path(own) for kind in KINDS for own in own_paths(kind))


def kind_in(path: Path) -> str | None:
    """Kind of profile by the schema that a file states, whether or not the rest of it holds; None: it is no profile."""
    found = schema_in(path)
    return found if found in KINDS else None


def schema_in(path: Path) -> str | None:
    """Schema that a file states, such as "hardware" or "scenario", whether or not it holds; None: none of ours."""
    if not is_file(path):
        return None
    try:
        return schema_of(read_bytes(path, TOML_BYTES).decode("utf-8-sig", errors="replace"))
    except InputError:
        return None


def schema_of(text: str) -> str | None:
    r"""Schema that a text states, by its key `schema`; by the line of it where the text is no TOML.

    >>> schema_of("schema = 'planner.size-map/1'"), schema_of("notes = '''\nschema = \"planner.model/1\"\n'''")
    ('size-map', None)
    """
    try:
        stated = parsed_toml(text).get("schema")
    except (tomllib.TOMLDecodeError, ExcessError):
        found = _LINE.search(text)
    else:
        found = _SCHEMA.match(stated) if isinstance(stated, str) else None
    return found[1] if found else None
