"""The gate for profile files: every problem of every file, and what only shows across files."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from planner.errors import InputError, InputProblem, did_you_mean
from planner.profiles.catalogue import (
    AnyProfile,
    catalogue_paths,
    find_path,
    is_shipped,
    labels,
    parsed_profile,
    profile_file,
    profile_names,
    read_once,
)
from planner.profiles.entries import Check, CheckedFile
from planner.profiles.folders import KINDS, Kind, is_own, kind_in, profiles_below
from planner.profiles.hardware_checks import HARDWARE_CHECKS
from planner.profiles.model import ModelProfile
from planner.profiles.model_checks import MODEL_CHECKS
from planner.profiles.stack import StackProfile
from planner.profiles.stack_checks import STACK_CHECKS, stack_references
from planner.reading import resolved_path
from planner.toml_lines import KeyPath

CHECKS: Mapping[str, tuple[Check, ...]] = {
    "planner.hardware/1": HARDWARE_CHECKS,
    "planner.model/1": MODEL_CHECKS,
    "planner.stack/1": STACK_CHECKS,
}
"""Checks of one file by its schema; what needs several files is below."""


@dataclass(frozen=True)
class ProfileCheck:
    """Result of a check of profiles."""

    files: tuple[Path, ...]
    problems: tuple[InputProblem, ...]
    n_skipped: int = 0
    """TOML files of the folders that are no profiles."""

    @property
    def n_files(self) -> int:
        """Profiles that were checked."""
        return len(self.files)

    @property
    def n_shipped(self) -> int:
        """Those of them that came with the planner."""
        return sum(is_shipped(resolved_path(path)) for path in self.files)

    @property
    def holds(self) -> bool:
        """True if nothing is wrong."""
        return not self.problems


def check_profiles(paths: Iterable[Path] = ()) -> ProfileCheck:
    """Every problem of profile files, of those in folders and below, or of the whole catalogue when none is named."""
    files, n_skipped = _files(tuple(paths) or tuple(path for kind in KINDS for path in catalogue_paths(kind)))
    problems: list[InputProblem] = []
    read: list[CheckedFile] = []
    for path in files:
        checked, found = _checked(path)
        problems += found
        read += [checked] if checked else []
    problems += [*_repeated_labels(read, _neighbours(files)), *_unknown_names(read, files)]
    in_order = sorted(problems, key=lambda problem: (problem.file, problem.line or 0))
    return ProfileCheck(tuple(files), tuple(in_order), n_skipped)


def named_file(name: Path) -> Path:
    """File to be checked: a path as it stands, or where there is no such file the profile of that name or alias."""
    if name.exists() or name.suffix == ".toml":
        return name
    return find_path(str(name), KINDS) or name


def figure_problems(path: Path) -> list[InputProblem]:
    """Every problem of one file by itself: of its figures, and not of the other profiles that it names."""
    return _checked(path)[1]


def _checked(path: Path) -> tuple[CheckedFile | None, list[InputProblem]]:
    """A file and what is wrong with it alone."""
    try:
        file = profile_file(path)
    except InputError as error:
        return None, [*error.problems]
    found: list[InputProblem] = []
    try:
        checked = CheckedFile(file, parsed_profile(file))
    except InputError as error:
        checked = CheckedFile(file, None)
        found = [*error.problems]
    for check in CHECKS.get(str(file.data.get("schema")), ()):
        found += check(checked)
    return checked, [_placed(problem) for problem in _first_of_each_key(found)]


def _first_of_each_key(problems: Iterable[InputProblem]) -> list[InputProblem]:
    """One problem per key: what the schema refuses needs no further judgement."""
    by_key: dict[str, InputProblem] = {}
    for problem in problems:
        by_key.setdefault(problem.key, problem)
    return [*by_key.values()]


def _placed(problem: InputProblem) -> InputProblem:
    """A key missing from the top of a file is reported at its first line."""
    return replace(problem, line=1) if problem.key and problem.line is None else problem


def _files(paths: Iterable[Path]) -> tuple[list[Path], int]:
    """Each profile once, in the order named, and how many other TOML files lie in the folders; a folder without any
    profile stands for itself and is reported as unreadable."""
    found: list[Path] = []
    n_skipped = 0
    for path in paths:
        below = profiles_below(path) if path.is_dir() else None
        found += [path] if below is None else below.profiles or [path]
        n_skipped += below.n_others if below else 0
    return list(dict.fromkeys(found)), n_skipped


def _repeated_labels(read: Iterable[CheckedFile], neighbours: Iterable[AnyProfile]) -> Iterator[InputProblem]:
    """Names and aliases that stand for two profiles of a kind, or twice for one."""
    owners = {(type(found), label.casefold()): found.name for found in neighbours for label in labels(found)}
    for item in read:
        if item.profile is None:
            continue
        for key, label in _label_keys(item.profile):
            owner = owners.setdefault((type(item.profile), label.casefold()), item.file.name)
            if owner is not item.file.name or key in _repeats(item.profile):
                yield item.file.problem(key, f"{label!r} already names {owner}", "names and aliases are unique")


def _neighbours(files: Iterable[Path]) -> list[AnyProfile]:
    """Profiles beside the files that are checked, which a commit of these alone would not name; with those of
    PLANNER_PROFILES, the whole catalogue that they are to be part of."""
    named = {resolved_path(path) for path in files}
    beside = {found for path in named for found in path.parent.glob("*.toml")}
    if any(map(is_own, named)):
        beside |= {resolved_path(path) for kind in KINDS for path in catalogue_paths(kind)}
    beside -= named
    return [found for path in sorted(beside) if (found := _readable(path)) is not None]


def _readable(path: Path) -> AnyProfile | None:
    try:
        return read_once(path)
    except InputError:
        return None


def _label_keys(found: AnyProfile) -> Iterator[tuple[KeyPath, str]]:
    yield ("name",), found.name
    for index, alias in enumerate(found.aliases):
        yield ("aliases", index), alias


def _repeats(found: AnyProfile) -> set[KeyPath]:
    """Keys of labels that an earlier label of the same profile already gives."""
    keys = [key for key, _ in _label_keys(found)]
    folded = [label.casefold() for label in labels(found)]
    return {key for index, key in enumerate(keys) if folded[index] in folded[:index]}


def _unknown_names(read: Iterable[CheckedFile], files: Iterable[Path]) -> Iterator[InputProblem]:
    """Names of profiles that there are none of: shipped, among the files, or in their folders and those beside."""
    items, known = tuple(read), dict[Kind, set[str]]()
    for item in items:
        for key, kind, name in _references(item.profile):
            if kind not in known:
                known[kind] = _known(kind, items, files)
            if name not in known[kind]:
                yield item.file.problem(key, f"{name!r} has no {kind} profile", did_you_mean(name, known[kind]))


def _references(found: AnyProfile | None) -> Iterator[tuple[KeyPath, Kind, str]]:
    """Names of other profiles in one: key, kind and name."""
    if isinstance(found, ModelProfile):
        for name, instance in found.measured.items():
            yield ("measured", name, "hardware"), "hardware", instance.hardware
    elif isinstance(found, StackProfile):
        yield from stack_references(found)


def _known(kind: Kind, items: Iterable[CheckedFile], files: Iterable[Path]) -> set[str]:
    """Names of the profiles of a kind, those whose schema does not hold and those that lie beside the files too."""
    stated = {str(item.file.data.get("name")) for item in items if item.file.data.get("schema") == f"planner.{kind}/1"}
    folders = {resolved_path(file).parent for file in files}
    beside = {path.stem for folder in folders for path in folder.glob("*.toml") if kind_in(path) == kind}
    theirs = {path.stem for folder in folders for path in (folder.parent / f"{kind}_profiles").glob("*.toml")}
    return {*profile_names(kind), *stated, *beside, *theirs}
