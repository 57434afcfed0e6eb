"""Keys changed from outside: `KEY=VALUE` as the command line and variants state it."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.errors import InputError, InputProblem, UsageError, printable
from planner.reading import KEY_CHARACTERS, MOST_DEPTH, ExcessError, check_content, parsed_toml
from planner.schema import dotted
from planner.toml_lines import KeyPath


def parsed_override(text: str) -> tuple[KeyPath, Any]:
    """A `KEY=VALUE` text as a key path and a TOML value; a bare word is a string. Raises UsageError."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise UsageError(f"{shortened_override(text)}: not KEY=VALUE, such as --set pools.pd-p.n_instances=3")
    try:
        return parsed_key(key.strip()), _parsed_value(value)
    except ExcessError as error:
        raise InputError(InputProblem("--set", key, error.excess.message, error.excess.allowed)) from None


def _parsed_value(text: str) -> Any:
    try:
        return parsed_toml(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        word = text.strip()
        check_content([word], None, is_strict=True)
        return word


def shortened_override(text: str) -> str:
    """An override as it was given, cut to a readable length."""
    return f"--set {printable(text, OPTION_CHARACTERS)}"


OPTION_CHARACTERS = 100
_PART = r'(?:"[^"]*"|[^.\[\]"\s]+)'
KEY = re.compile(rf"{_PART}(?:\.{_PART}|\[\d{{1,6}}\]){{0,{MOST_DEPTH - 1}}}")


def parsed_key(text: str) -> KeyPath:
    """A dotted key, quoted parts and list indexes included, as a path. Raises InputError."""
    if not KEY.fullmatch(text) or len(text) > KEY_CHARACTERS:
        raise InputError(
            InputProblem("--set", text, "is not written as a key", "such as pools.pd-p.n_instances, tiers[0]")
        )
    parts = re.findall(r'"([^"]*)"|([^.\[\]"]+)|\[(\d+)\]', text)
    return tuple(int(index) if index else quoted or bare for quoted, bare, index in parts)


def assign(data: dict[str, Any], key: KeyPath, value: Any) -> None:
    """Set a nested key, copying on the way so that the source is not changed; tables that lack are made."""
    node: Any = data
    for depth, part in enumerate(key):
        if not _fits(node, part):
            raise InputError(
                InputProblem("--set", dotted(key), f"'{dotted(key[: depth + 1])}' is no key of the scenario")
            )
        last = depth == len(key) - 1
        node[part] = value if last else _copied(node, part)
        node = node[part]


def unsourced(keys: Sequence[KeyPath]) -> Iterator[tuple[KeyPath, Any]]:
    """Values that go with a new price: the source of the one in the file is none of it, unless one is given with it."""
    said = {key[:2] for key in keys if key[0] == "prices" and key[2:] in (("basis",), ("source",))}
    for key in keys:
        is_price = key[0] == "prices" and key[2:] in (("usd_per_accelerator_hour",), ("purchase_usd",))
        if is_price and key[:2] not in said:
            yield (*key[:2], "basis"), "assumed"
            yield (*key[:2], "source"), ""


def _fits(node: Any, part: str | int) -> bool:
    if isinstance(part, int):
        return isinstance(node, list) and part < len(node)
    return isinstance(node, dict)


def _copied(node: Any, part: str | int) -> Any:
    """The child to descend into, as a copy; a new table where there is none."""
    child = node.get(part, {}) if isinstance(node, dict) else node[part]
    return list(child) if isinstance(child, list | tuple) else dict(child) if isinstance(child, Mapping) else child


def merged_tables(base: Any, over: Any) -> Any:
    """Two nested tables as one; the second wins key by key."""
    if not isinstance(base, Mapping) or not isinstance(over, Mapping):
        return over
    return {**base, **{key: merged_tables(base[key], item) if key in base else item for key, item in over.items()}}
