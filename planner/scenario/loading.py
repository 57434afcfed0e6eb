"""A scenario from a file, with what `--set` changes of it."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.errors import InputError, InputProblem
from planner.profiles.folders import own_dirs
from planner.reading import resolved_path
from planner.scenario.blame import of_override
from planner.scenario.bundled import scenario_path
from planner.scenario.overrides import assign, parsed_override, shortened_override, unsourced
from planner.scenario.question import Scenario, checked
from planner.schema import TomlFile, read_text
from planner.toml_lines import KeyPath


def read_scenario(name: str, overrides: Iterable[str] = ()) -> Scenario:
    """A bundled scenario, or one from a path, with `KEY=VALUE` overrides; raises as `load_scenario` does."""
    path = scenario_path(name)
    return load_scenario(read_text(path), str(path), resolved_path(path).parent, overrides)


def load_scenario(text: str, name: str, directory: Path, overrides: Iterable[str] = ()) -> Scenario:
    """A scenario from TOML text.

    Args:
        text: the file's content.
        name: how errors call the file.
        directory: folder that relative paths start from.
        overrides: `KEY=VALUE` changes, applied before the checks.

    Raises:
        InputError: with every problem found.
        UsageError: when an override is not `KEY=VALUE`.
    """
    own_dirs()  # one that is none is a single problem, not one of every name in the file
    file = TomlFile(name, text)
    stated, changes = dict(file.data), {}
    for override in overrides:
        changes[override] = _assigned(stated, override)
    for key, value in unsourced([*changes.values()]):
        assign(stated, key, value)
    try:
        return checked(file, stated, directory)
    except InputError as error:
        known = _problems(file, directory) if changes else error.problems
        blamed = (p if p in known else of_override(p, file, changes) for p in error.problems)
        raise InputError(blamed) from None


def _assigned(stated: dict[str, Any], override: str) -> KeyPath:
    """The key that an override has changed."""
    try:
        key, value = parsed_override(override)
        assign(stated, key, value)
    except InputError as error:
        raise InputError(replace(p, file=shortened_override(override), key="") for p in error.problems) from None
    return key


def _problems(file: TomlFile, directory: Path) -> tuple[InputProblem, ...]:
    """Problems of a file as it stands."""
    try:
        checked(file, file.data, directory)
    except InputError as error:
        return error.problems
    return ()
