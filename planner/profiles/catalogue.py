"""Profiles by file name, alias or path."""

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeVar

from planner.errors import InputError, InputProblem, did_you_mean
from planner.notes import Note, note
from planner.profiles.folders import KINDS, VARIABLE, Kind, own_paths, profile_paths, shipped_dirs, without_profiles
from planner.profiles.hardware import HardwareProfile
from planner.profiles.model import ModelProfile
from planner.profiles.stack import StackProfile
from planner.reading import TOML_BYTES, read_text, resolved_path
from planner.schema import TomlFile

AnyProfile = HardwareProfile | ModelProfile | StackProfile
Found = TypeVar("Found", HardwareProfile, ModelProfile, StackProfile)
RECORDS: dict[str, type[AnyProfile]] = {
    "planner.hardware/1": HardwareProfile,
    "planner.model/1": ModelProfile,
    "planner.stack/1": StackProfile,
}


def profile_names(kind: Kind) -> tuple[str, ...]:
    """Names of the profiles of a kind: the shipped ones, then own ones of PLANNER_PROFILES.

    Raises:
        InputError: PLANNER_PROFILES names what is no folder.

    >>> "h200-sxm" in profile_names("hardware")
    True
    """
    return tuple(dict.fromkeys(path.stem for path in catalogue_paths(kind)))


def catalogue_paths(kind: Kind) -> tuple[Path, ...]:
    """Files of all profiles that are found by name: the shipped ones, then own ones.

    Raises:
        InputError: PLANNER_PROFILES names what is no folder.
    """
    return (*profile_paths(kind), *own_paths(kind))


def hardware_profile(name: str) -> HardwareProfile:
    """The hardware profile of a name, alias or path to a .toml file.

    Raises:
        InputError: no such profile, or a file that does not hold.

    >>> hardware_profile("h200_sxm").memory_bytes
    150754820096.0
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
    """The profile of a name, alias or path to a .toml file, among the shipped and the own ones of some kinds.

    Raises:
        InputError: no such profile, one of two files that take the same name, or a file that does not hold. Of an own
            profile every fault of its figures that `planner profiles check` finds: those off by a unit would plan in
            silence.
    """
    path = profile_path(name, kinds)
    if is_shipped(path):
        return _shipped(path)
    return _judged_profile(path, read_text(path, TOML_BYTES), Path.cwd())


@lru_cache(maxsize=256)
def _judged_profile(path: Path, _text: str, _folder: Path) -> AnyProfile:
    """An own profile that the gate lets through, judged once as long as its text and the current folder are these."""
    from planner.profiles.check import figure_problems  # shipped profiles pass it before they are shipped

    if problems := figure_problems(path):
        raise InputError(problems)
    return read_profile(path)


def profile_path(name: str, kinds: Iterable[Kind] = KINDS) -> Path:
    """File of the profile of a name, alias or path.

    Raises:
        InputError: no such profile, or two files that take the same name.
    """
    wanted, broken = tuple(kinds), list[InputProblem]()
    if name.endswith(".toml") and not any(name == path.stem for kind in wanted for path in catalogue_paths(kind)):
        return Path(name)
    if found := find_path(name, wanted, broken):
        return found
    known = [label for kind in wanted for path in catalogue_paths(kind) for label in _labels_at(path)]
    raise InputError([_unknown(name, wanted, known), *broken])


def find_path(name: str, kinds: Iterable[Kind], broken: list[InputProblem] | None = None) -> Path | None:
    """File in the catalogue of a name or alias; None where no profile of these kinds has it.

    Args:
        name: name or alias.
        kinds: kinds of profiles.
        broken: where to keep the problems of own profiles that do not hold, and may be the one that is meant.

    Raises:
        InputError: two files take the same name.
    """
    for kind in kinds:
        found = _files_called(name, kind, [] if broken is None else broken)
        if len(found) > 1:
            raise InputError(_name_conflicts(name, *found))
        if found:
            return found[0]
    return None


def _files_called(name: str, kind: Kind, broken: list[InputProblem]) -> list[Path]:
    """Files of a kind that take a name; shipped ones are read only where it is the name of none."""
    own = _called(name, own_paths(kind), broken)
    shipped = [path for path in profile_paths(kind) if path.stem == name]
    return [*(shipped or _called(name, profile_paths(kind), broken)), *own]


def _called(name: str, paths: Iterable[Path], broken: list[InputProblem]) -> list[Path]:
    """Files that have a name, or whose profiles have it in any case of letters; problems of the others are kept."""
    found = []
    for path in paths:
        try:
            if path.stem == name or name.casefold() in map(str.casefold, labels(read_once(path))):
                found.append(path)
        except InputError as error:
            broken += error.problems
    return found


def namesakes(path: Path, kind: Kind) -> tuple[str, ...]:
    """Names and aliases of a profile given by path by which the catalogue finds other files.

    Raises:
        InputError: the file does not hold.
    """
    here = resolved_path(path)
    mine = labels(profile(str(path), (kind,)))
    return tuple(name for name in mine if any(resolved_path(other) != here for other in _files_called(name, kind, [])))


def namesake_note(name: str, kind: Kind) -> Iterator[Note]:
    """Note on a profile given by path that has a name of one in the catalogue; none on any other.

    Raises:
        InputError: no such profile, or a file that does not hold.
    """
    if not name.endswith(".toml"):
        return
    path = profile_path(name, (kind,))
    if is_shipped(path) or not (found := namesakes(path, kind)):
        return
    shown, names = profile_file(path).name, ", ".join(map(repr, found))
    yield note(
        "own-profile-used",
        f"{names} is the {kind} profile {shown}, and not that of the catalogue; what was measured or calibrated under "
        "that name still counts for it",
    )


def _labels_at(path: Path) -> tuple[str, ...]:
    try:
        return labels(read_once(path))
    except InputError:
        return (path.stem,)


def _name_conflicts(name: str, first: Path, *others: Path) -> Iterator[InputProblem]:
    """An own profile takes the place of no shipped one and of no other own one: each is told at its name or alias."""
    owner = "a shipped profile" if is_shipped(first) else str(first)
    for path in others:
        file = profile_file(path)
        aliases = file.data.get("aliases")
        folded = [str(alias).casefold() for alias in aliases] if isinstance(aliases, list) else []
        key = ("aliases", folded.index(name.casefold())) if name.casefold() in folded else ("name",)
        yield file.problem(key, f"{name!r} already names {owner}", f"{VARIABLE} adds profiles and replaces none")


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
    shown = resolved_path(path)
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
    raise InputError(InputProblem(name, "schema", f"is a {kind_of(found)} profile", f"allowed: planner.{kind}/1"))


def _misnamed(file: TomlFile) -> list[InputProblem]:
    stem, name = Path(file.name).stem, file.data.get("name")
    if not isinstance(name, str) or name == stem:
        return []
    return [file.problem(("name",), f"is {name!r}", f"the file's name, {stem!r}")]


def is_shipped(path: Path) -> bool:
    """True if a file is one of the shipped profiles."""
    return path.parent in shipped_dirs() or resolved_path(path).parent in shipped_dirs()


def read_once(path: Path) -> AnyProfile:
    """A profile that need not pass the gate; only shipped files are remembered: others may change between readings."""
    return _shipped(path) if is_shipped(path) else read_profile(path)


@cache
def _shipped(path: Path) -> AnyProfile:
    return read_profile(path)


def _unknown(name: str, kinds: tuple[Kind, ...], labels: Iterable[str]) -> InputProblem:
    hint = did_you_mean(name, labels)
    choice = ", ".join(stem for kind in kinds for stem in profile_names(kind))
    known = f"known: {choice}; or a path to a .toml file, or one in a folder of {VARIABLE}"
    # Where own profiles lie in none of the folders named for them, that is what is wrong, and no choice of others.
    allowed = without_profiles() or known
    # Aliases count for the hint, but would drown the names in the listing.
    allowed = allowed if hint.startswith("known: ") else f"{hint} {allowed}"
    return InputProblem(name, "", f"is no {_choice(kinds)} profile", allowed)


def _choice(kinds: tuple[Kind, ...]) -> str:
    *others, last = kinds
    return f"{', '.join(others)} or {last}" if others else last
