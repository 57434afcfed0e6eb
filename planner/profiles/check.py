"""The gate for profile files: every problem of every file, and what only shows across files."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from planner.errors import InputError, Problem, did_you_mean
from planner.profiles.catalogue import (
    KINDS,
    AnyProfile,
    labels,
    parsed_profile,
    profile_file,
    profile_names,
    profile_paths,
)
from planner.profiles.hardware import HardwareProfile
from planner.profiles.model import ModelProfile
from planner.schema import TomlFile
from planner.toml_lines import KeyPath


@dataclass(frozen=True)
class ProfileCheck:
    """What a check found."""

    n_files: int
    problems: tuple[Problem, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


@dataclass(frozen=True)
class _Read:
    file: TomlFile
    profile: AnyProfile


def check_profiles(paths: Iterable[Path] = ()) -> ProfileCheck:
    """Every problem of profile files, of folders of them, or of all shipped ones when none is named."""
    files = _toml_files(tuple(paths) or tuple(path for kind in KINDS for path in profile_paths(kind)))
    problems: list[Problem] = []
    read: list[_Read] = []
    for path in files:
        try:
            file = profile_file(path)
            read.append(_Read(file, parsed_profile(file)))
        except InputError as error:
            problems += map(_placed, error.problems)
    problems += [*_repeated_labels(read), *_unknown_hardware(read)]
    return ProfileCheck(len(files), tuple(sorted(problems, key=lambda problem: (problem.file, problem.line or 0))))


def _placed(problem: Problem) -> Problem:
    """A key missing from the top of a file is reported at its first line."""
    return replace(problem, line=1) if problem.key and problem.line is None else problem


def _toml_files(paths: Iterable[Path]) -> list[Path]:
    """Each file once, in the order named; an empty folder stands for itself and is reported as unreadable."""
    found = [file for path in paths for file in (sorted(path.glob("*.toml")) or [path])]
    return list(dict.fromkeys(found))


def _repeated_labels(read: Iterable[_Read]) -> Iterator[Problem]:
    """Names and aliases that stand for two profiles of a kind, or twice for one."""
    owners: dict[tuple[type, str], str] = {}
    for item in read:
        for key, label in _label_keys(item.profile):
            owner = owners.setdefault((type(item.profile), label.casefold()), item.file.name)
            if owner is not item.file.name or key in _repeats(item.profile):
                yield item.file.problem(key, f"{label!r} already names {owner}", "names and aliases are unique")


def _label_keys(found: AnyProfile) -> Iterator[tuple[KeyPath, str]]:
    yield ("name",), found.name
    for index, alias in enumerate(found.aliases):
        yield ("aliases", index), alias


def _repeats(found: AnyProfile) -> set[KeyPath]:
    """Keys of labels that an earlier label of the same profile already gives."""
    keys = [key for key, _ in _label_keys(found)]
    folded = [label.casefold() for label in labels(found)]
    return {key for index, key in enumerate(keys) if folded[index] in folded[:index]}


def _unknown_hardware(read: Iterable[_Read]) -> Iterator[Problem]:
    """Measured instances on hardware that has no profile, shipped or among those read."""
    items = tuple(read)
    known = {*profile_names("hardware")} | {i.profile.name for i in items if isinstance(i.profile, HardwareProfile)}
    for item in items:
        if isinstance(item.profile, ModelProfile):
            for name, instance in item.profile.measured.items():
                if instance.hardware not in known:
                    key = ("measured", name, "hardware")
                    message = f"{instance.hardware!r} has no hardware profile"
                    yield item.file.problem(key, message, did_you_mean(instance.hardware, known))
