"""A scenario's text for another folder: relative paths in it are written anew, everything else stays as it is."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from planner.errors import InputError
from planner.profiles.toml_text import toml_value
from planner.scenario.overrides import KEY
from planner.schema import is_file
from planner.toml_lines import string_spans

PROFILE, TRACE = ".toml", ("trace", "path")


class Move(NamedTuple):
    """From where to where a scenario goes, and the folders in which its traces are found wherever it is."""

    old: Path
    new: Path
    data_dirs: Sequence[Path] = ()

    def text(self, text: str) -> str:
        """A scenario's text as it reads in the new folder; as it stands where it is no TOML, or the folder is the same.

        Paths of profiles and traces that start from the scenario's folder lead to the same files afterwards. Names of
        profiles, absolute paths and traces that are found in a data folder stay.
        """
        try:
            paths = self._paths(tomllib.loads(text))
        except (tomllib.TOMLDecodeError, RecursionError):
            return text  # whoever reads it says what is wrong
        parts, end = [], 0
        for start, stop, content in string_spans(text) if paths else ():
            if (changed := _replaced(content, paths)) != content:
                parts += [text[end:start], _in_quotes(changed, text[start])]
                end = stop
        return "".join(parts) + text[end:]

    def override(self, override: str) -> str:
        """A `KEY=VALUE` override as it reads for the moved scenario."""
        key, separator, value = override.partition("=")
        try:
            content = tomllib.loads(f"value = {value}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            content = value.strip()
        paths = self._paths({key.strip(): content})
        if not paths or not separator:
            return override
        changed = _replaced_within(content, paths)
        return f"{_replaced(key.strip(), paths)}={toml_value(changed)}"

    def traces_found_elsewhere(self, text: str) -> tuple[str, ...]:
        """Names of the traces of a scenario's text that lie in a data folder."""
        return tuple(sorted({path for path in _traces(tomllib.loads(text)) if self._is_data(path)}))

    def _paths(self, data: Any) -> dict[str, str]:
        """New paths of a scenario, by the old ones."""
        if self.old == self.new:
            return {}
        found = set(_profiles(data)) | {path for path in _traces(data) if not self._is_data(path)}
        return {path: os.path.relpath(self.old / path, self.new) for path in found if not os.path.isabs(path)}

    def _is_data(self, path: str) -> bool:
        """True if a trace is none beside the scenario, but one in a data folder."""
        from planner.workload.requests import trace_path  # with the arrays of requests, which take their time to load

        try:
            return not is_file(self.old / path) and trace_path(path, self.old, self.data_dirs).is_file()
        except InputError:
            return False


_QUOTED = re.compile(r'"([^"]*)"')


def _profiles(data: Any) -> Iterator[str]:
    """Paths of profiles anywhere in a scenario: values, keys, and parts of keys such as `prices."my.toml".basis`."""
    if isinstance(data, str):
        parts = (data, *(_QUOTED.findall(data) if KEY.fullmatch(data) else ()))
        yield from (part for part in parts if part.endswith(PROFILE) and '"' not in part)
    elif isinstance(data, list):
        for item in data:
            yield from _profiles(item)
    elif isinstance(data, dict):
        for key, item in data.items():
            yield from _profiles(key)
            yield from _profiles(item)


def _traces(data: Any, above: tuple[str, ...] = ()) -> Iterator[str]:
    """Paths of traces, also those that a variant changes to."""
    if isinstance(data, str) and above[-2:] == TRACE:
        yield data
    elif isinstance(data, list):
        for item in data:
            yield from _traces(item, above)
    elif isinstance(data, dict):
        for key, item in data.items():
            yield from _traces(item, (*above, *key.split(".")))


def _in_quotes(content: str, quote: str) -> str:
    """A string in the quotes that it had, where TOML lets it."""
    return f"'{content}'" if quote == "'" and content.isprintable() and "'" not in content else toml_value(content)


def _replaced(content: str, paths: Mapping[str, str]) -> str:
    """A string with the path that it is, or the paths in quotes of a key, replaced."""
    if content in paths or not KEY.fullmatch(content):
        return paths.get(content, content)
    return _QUOTED.sub(lambda match: '"' + paths.get(match[1], match[1]) + '"', content)


def _replaced_within(value: Any, paths: Mapping[str, str]) -> Any:
    """A value with the paths in it replaced."""
    if isinstance(value, str):
        return _replaced(value, paths)
    if isinstance(value, list):
        return [_replaced_within(item, paths) for item in value]
    if isinstance(value, dict):
        return {_replaced(key, paths): _replaced_within(item, paths) for key, item in value.items()}
    return value
