"""Tables and values as TOML text."""

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[\w-]+", re.ASCII)


def toml_table(name: str, table: Mapping[str, Any]) -> str:
    """A table under its header; one of an array of tables where the name is in brackets itself.

    >>> print(toml_table("[layers]", {"kind": "mla"}), end="")
    [[layers]]
    kind = "mla"
    """
    return f"[{name}]\n{toml_assignments(table)}"


def toml_assignments(table: Mapping[str, Any]) -> str:
    """Keys and values of a table, one per line; tables and arrays inside it are inline.

    >>> print(toml_assignments({"n_layers": 2, "0.18.0": {"host": 1.5}}), end="")
    n_layers = 2
    "0.18.0" = { host = 1.5 }
    """
    return "".join(f"{toml_key(key)} = {toml_value(value)}\n" for key, value in table.items())


def toml_key(key: str) -> str:
    """A key, in quotes where it needs them.

    >>> toml_key("bf16"), toml_key("0.18.0")
    ('bf16', '"0.18.0"')
    """
    return key if _BARE.fullmatch(key) else toml_value(key)


def toml_value(value: Any) -> str:
    """A value on one line.

    >>> toml_value({"kind": "mla", "sizes": [1, 2.5], "tied": True})
    '{ kind = "mla", sizes = [1, 2.5], tied = true }'
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    # JSON's strings, numbers and truth values are TOML's too, but for one character that TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
