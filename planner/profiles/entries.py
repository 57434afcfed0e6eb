"""Figures of a hardware profile as its file writes them, whether or not the schema holds."""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any

from planner.errors import InputProblem
from planner.profiles.catalogue import AnyProfile
from planner.schema import TomlFile

HUGE = 1e300
"""More than any figure, yet safe to multiply by a unit."""


def entries(file: TomlFile, table: str) -> dict[str, dict[str, Any]]:
    """Figures of a table of the file by key: those that are tables themselves."""
    figures = file.data.get(table)
    found = figures.items() if isinstance(figures, dict) else ()
    return {key: entry for key, entry in found if isinstance(entry, dict)}


def numbers(file: TomlFile, table: str, keys: Container[str]) -> dict[str, float]:
    """Values of a table that are positive numbers, of these keys; the schema reports the others."""
    values: dict[str, Any] = {key: entry.get("value") for key, entry in entries(file, table).items() if key in keys}
    return {key: float(value) for key, value in values.items() if _is_positive(value)}


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < HUGE


@dataclass(frozen=True)
class CheckedFile:
    """A file that is TOML, and its record where its schema holds."""

    file: TomlFile
    profile: AnyProfile | None


Check = Callable[[CheckedFile], Iterable[InputProblem]]
