"""YAML that means one thing to every reader: strings are quoted, and so are keys that could be something else."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

INDENT = "  "
_PLAIN_KEY = re.compile(r"[A-Za-z][\w./-]*", re.ASCII)
_TAKEN = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""Words that YAML 1.1 reads as a boolean or as nothing."""


def yaml_text(*documents: Mapping[str, Any]) -> str:
    r"""Documents of mappings, lists, strings, numbers and booleans as YAML, in the order given.

    >>> yaml_text({"replicas": 2, "args": ["y", "1"], "on": {}})
    'replicas: 2\nargs:\n  - "y"\n  - "1"\n"on": {}\n'
    """
    return "---\n".join("".join(f"{line}\n" for line in _mapping(document)) for document in documents)


def _mapping(items: Mapping[str, Any]) -> Iterator[str]:
    for key, value in items.items():
        yield from _entry(f"{_key(key)}:", value)


def _entry(head: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield head
        yield from (INDENT + line for line in _mapping(value))
    elif _is_list(value) and value:
        yield head
        yield from (INDENT + line for line in _list(value))
    elif isinstance(value, str) and _is_block(value):
        yield f"{head} |"
        yield from (INDENT + line if line else "" for line in value.splitlines())
    else:
        yield f"{head} {_scalar(value)}"


def _list(values: Sequence[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, Mapping) and value:
            first, *others = _mapping(value)
            yield f"- {first}"
            yield from (INDENT + line for line in others)
        elif _is_list(value) and value:
            first, *others = _list(value)
            yield f"- {first}"
            yield from (INDENT + line for line in others)
        else:
            yield from _entry("-", value)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_block(text: str) -> bool:
    """Whether a text can stand as a literal block: whole printable lines, of which the first has no indent."""
    lines = text.split("\n")
    whole = len(lines) > 2 and lines[-1] == "" and lines[-2] != ""
    return whole and lines[0][:1] not in ("", " ") and all(line.isprintable() and line.isascii() for line in lines)


def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _TAKEN else _quoted(key)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping) or _is_list(value):
        return "{}" if isinstance(value, Mapping) else "[]"
    text = json.dumps(value, allow_nan=False)
    mantissa, e, exponent = text.partition("e")
    # YAML 1.1 takes a power of ten for a number only behind a decimal point.
    return f"{mantissa}.0e{exponent}" if isinstance(value, float) and e and "." not in mantissa else text


def _quoted(text: str) -> str:
    """A string in double quotes, in ASCII: beyond it YAML's escapes are not JSON's."""
    return "".join(c if c.isascii() and c != "\x7f" else _escaped(c) for c in json.dumps(text, ensure_ascii=False))


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
