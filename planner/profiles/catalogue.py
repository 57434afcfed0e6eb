"""Profiles by file name, alias or path."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

from planner.errors import InputError, Problem, did_you_mean
from planner.profiles.hardware import HardwareProfile
from planner.profiles.model import ModelProfile
from planner.profiles.stack import StackProfile
from planner.reading import resolved
from planner.schema import TomlFile

Kind = Literal["hardware", "model", "stack"]
AnyProfile = HardwareProfile | ModelProfile | StackProfile
Found = TypeVar("Found", HardwareProfile, ModelProfile, StackProfile)
KINDS: tuple[Kind, ...] = ("hardware", "model", "stack")
RECORDS: dict[str, type[AnyProfile]] = {
    "planner.hardware/1": HardwareProfile,
    "planner.model/1": ModelProfile,
    "planner.stack/1": StackProfile,
}
PACKAGE = Path(__file__).resolve().parents[1]


def profile_dir(kind: Kind, package: Path = PACKAGE) -> Path:
    """Folder of the shipped profiles of a kind: inside an installed package, beside it in a source checkout."""
    inside = package / "data" / f"{kind}_profiles"
    return inside if inside.is_dir() else package.parent / f"{kind}_profiles"


def profile_paths(kind: Kind) -> tuple[Path, ...]:
    """Files of the shipped profiles of a kind, by name."""
    return tuple(sorted(profile_dir(kind).glob("*.toml")))


def profile_names(kind: Kind) -> tuple[str, ...]:
    """Names of the shipped profiles of a kind.

    >>> "h200-sxm" in profile_names("hardware")
    True
    """
    return tuple(path.stem for path in profile_paths(kind))


def hardware_profile(name: str) -> HardwareProfile:
    """The hardware profile of a name, alias or path to a .toml file.

    Raises:
        InputError: no such profile, or a file that does not hold.

    >>> hardware_profile("h200_sxm").memory_bytes
    141000000000.0
    """
    return _of_kind(name, "hardware", HardwareProfile)


def model_profile(name: str) -> ModelProfile:
    """The model profile of a name, alias or path to a .toml file.

    Raises:
        InputError: no such profile, or a file that does not hold.

    >>> model_profile("MiniMaxAI/MiniMax-M2.5").name
    'minimax-m2.5'
    """
    return _of_kind(name, "model", ModelProfile)


def stack_profile(name: str) -> StackProfile:
    """The stack profile of a name, alias or path to a .toml file.

    Raises:
        InputError: no such profile, or a file that does not hold.

    >>> stack_profile("vllm").framework
    'vllm'
    """
    return _of_kind(name, "stack", StackProfile)


def profile(name: str, kinds: Iterable[Kind] = KINDS) -> AnyProfile:
    """The profile of a name, alias or path to a .toml file, among the shipped ones of some kinds.

    Raises:
        InputError: no such profile, or a file that does not hold.
    """
    paths = {path.stem: path for kind in kinds for path in profile_paths(kind)}
    if name in paths:
        return _shipped(paths[name])
    if name.endswith(".toml"):
        return read_profile(Path(name))
    known = {label: path for path in paths.values() for label in labels(_shipped(path))}
    for label, path in known.items():
        if label.casefold() == name.casefold():
            return _shipped(path)
    raise InputError(_unknown(name, tuple(kinds), known))


def labels(found: AnyProfile) -> tuple[str, ...]:
    """Everything a profile is found by: its name, then its aliases."""
    return (found.name, *found.aliases)


def read_profile(path: Path) -> AnyProfile:
    """A profile of any kind from a file.

    Raises:
        InputError: with every problem of the file.
    """
    return parsed_profile(profile_file(path))


def profile_file(path: Path) -> TomlFile:
    """A profile's file, named as seen from the current folder."""
    shown = resolved(path)
    return TomlFile.read(path, str(shown.relative_to(Path.cwd()) if shown.is_relative_to(Path.cwd()) else path))


def parsed_profile(file: TomlFile) -> AnyProfile:
    """A profile of any kind from a parsed file.

    Raises:
        InputError: with every problem of the file.
    """
    schema = file.data.get("schema")
    record = RECORDS.get(schema) if isinstance(schema, str) else None
    if record is None:
        message = "is required" if schema is None else f"is {schema!r}"
        raise InputError(file.problem(("schema",), message, "allowed: " + ", ".join(RECORDS)))
    misnamed = _misnamed(file)
    try:
        found = file.record(record)
    except InputError as error:
        raise InputError([*error.problems, *misnamed]) from None
    if misnamed:
        raise InputError(misnamed)
    return found


def kind_of(found: AnyProfile) -> str:
    """Kind of a profile, by its schema.

    >>> kind_of(hardware_profile("h200-sxm"))
    'hardware'
    """
    return next(kind for kind in KINDS if found.schema_id.startswith(f"planner.{kind}/"))


def _of_kind(name: str, kind: Kind, record: type[Found]) -> Found:
    found = profile(name, (kind,))
    if isinstance(found, record):
        return found
    # Only a path can name a profile of another kind.
    raise InputError(Problem(name, "schema", f"is a {kind_of(found)} profile", f"allowed: planner.{kind}/1"))


def _misnamed(file: TomlFile) -> list[Problem]:
    stem, name = Path(file.name).stem, file.data.get("name")
    if not isinstance(name, str) or name == stem:
        return []
    return [file.problem(("name",), f"is {name!r}", f"the file's name, {stem!r}")]


@cache
def _shipped(path: Path) -> AnyProfile:
    # Only shipped files are remembered: a user's file may change between two readings.
    return read_profile(path)


def _unknown(name: str, kinds: tuple[Kind, ...], known: Iterable[str]) -> Problem:
    hint = did_you_mean(name, known)
    names = "known: " + ", ".join(stem for kind in kinds for stem in profile_names(kind))
    allowed = f"{names}; or a path to a .toml file"
    # Aliases count for the hint, but would drown the names in the listing.
    allowed = allowed if hint.startswith("known: ") else f"{hint} {allowed}"
    *others, last = kinds
    choice = f"{', '.join(others)} or {last}" if others else last
    return Problem(name, "", f"is no {choice} profile", allowed)
