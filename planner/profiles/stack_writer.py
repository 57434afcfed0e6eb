"""A stack profile as the text of its file."""

from collections.abc import Mapping
from typing import Any

from planner.profiles.stack import StackProfile
from planner.profiles.toml_text import toml_assignments, toml_key, toml_table, toml_value

DIGITS = 4
"""Significant digits of a written number: more than a fit can tell."""

_LISTS = ("points", "groups")
_TABLES = ("in_sample", "held_out_models", "held_out_hardware", "model_bands", "hardware_bands")
_OPTIONAL = ("model_bands", "hardware_bands", "groups")
"""Parts of a calibration that are left out where they hold nothing."""


def stack_toml(profile: StackProfile) -> str:
    """The file of a stack profile: one factor per line, floats with at most four significant digits.

    Args:
        profile: what to write.

    Returns:
        TOML, the same for equal profiles but for the order of their sources; it reads back as `as_written(profile)`.

    >>> from planner.profiles import stack_profile
    >>> print(stack_toml(stack_profile("vllm")).splitlines()[0])
    schema = "planner.stack/1"
    """
    content = {"schema": profile.schema_id, **_rounded(profile.model_dump(by_alias=True, exclude_none=True))}
    head = {key: value for key, value in content.items() if not isinstance(value, dict) and value != ()}
    tables = [toml_assignments(head)]
    tables += [toml_table(key, content[key]) for key in ("sources", "settings")]
    if profile.settings_sources:
        tables.append(toml_table("settings_sources", content["settings_sources"]))
    tables += [toml_table(f"harnesses.{toml_key(name)}", _nonempty(run)) for name, run in content["harnesses"].items()]
    tables.append(toml_table("factors", content["factors"]))
    if profile.calibration:
        tables += _calibration(content["calibration"])
    return "\n".join(tables)


def as_written(profile: StackProfile) -> StackProfile:
    """The profile that its file holds: floats with at most four significant digits.

    >>> from planner.profiles import stack_profile
    >>> as_written(stack_profile("vllm")) == stack_profile("vllm")
    True
    """
    return StackProfile.model_validate(_rounded(profile.model_dump(by_alias=True)))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    return tuple(map(_rounded, value)) if isinstance(value, tuple) else value


def _nonempty(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table without its empty lists."""
    return {key: value for key, value in table.items() if value != ()}


def _calibration(content: Mapping[str, Any]) -> list[str]:
    """Its own table with a line per file and group, then one table per kind of error and of band."""
    held = {key: value for key, value in content.items() if value or key not in _OPTIONAL}
    plain = {key: value for key, value in held.items() if key not in (*_LISTS, *_TABLES)}
    lists = "".join(_lines_of(key, held[key]) for key in _LISTS if key in held)
    tables = [toml_table(f"calibration.{key}", held[key]) for key in _TABLES if key in held]
    return [toml_table("calibration", plain) + lists, *tables]


def _lines_of(key: str, items: tuple[Any, ...]) -> str:
    """An array with one item per line."""
    lines = "".join(f"  {toml_value(item)},\n" for item in items)
    return f"{key} = [\n{lines}]\n"
