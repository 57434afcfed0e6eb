"""A profile file under the gate, and what every check of one looks like."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from planner.errors import Problem
from planner.profiles.catalogue import AnyProfile
from planner.schema import TomlFile


@dataclass(frozen=True)
class CheckedFile:
    """A file that is TOML, and its record where its schema holds."""

    file: TomlFile
    profile: AnyProfile | None


Check = Callable[[CheckedFile], Iterable[Problem]]
