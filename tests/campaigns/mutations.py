"""Broken inputs made of good ones: bytes flipped and cut, tokens swapped, documents with hostile values in them."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from random import Random
from typing import Any

from planner.profiles.toml_text import toml_value

NUMBERS = (
    "0",
    "-1",
    "-0.0",
    "1e-308",
    "1e308",
    "5e23",
    "1e400",
    "nan",
    "inf",
    "-inf",
    str(2**64),
    str(10**15),
    "9" * 5000,
    "0.1",
    "1000000",
    "3e8",
    "NaN",
    "Infinity",
    *("1", "2", "8", "1000", "1e-6", "1e9", "0.5", "64", "1e6"),
)
TEXTS = (
    "",
    " ",
    "\x1b[31mred\x1b[0m",
    "x" * 100_000,
    "\u202egnp.exe",
    "a\nb",
    "../../etc/passwd",
    "\x00",
    "é" * 50,
    "null",
    "{{ name }}",
    "%s%n",
    "<img src=x>",
    "\ud800",
    "-",
    "--help",
    "true",
    "1e5",
    "/dev/zero",
)
CHUNKS = (
    b"[" * 3000,
    b"a." * 600,
    b"{" * 500,
    b'"',
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r",
    b"\n\n\n",
    b"=",
    b"[[",
    b",",
    b"'''",
    b'"""',
    b"#",
    b"\x1b[2J",
    "‮".encode(),
)
MILD_SHARE = 0.6
MOST_BYTES = 10**6
"""Most that repeated lines may come to."""
_TOKEN = re.compile(rb"[A-Za-z0-9_.+-]+|[^\sA-Za-z0-9_.+-]")
_NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")


def mutated(content: bytes, rng: Random) -> bytes:
    """One to three mutations of a file, of any kind that its format allows."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        changes = [*BYTE_CHANGES, *(structural(content) * 4)]
        with suppress(RecursionError):  # what is nested too deep to be changed again stays as it is
            content = rng.choice(changes)(content, rng)
    return content


def structural(content: bytes) -> list[Callable[[bytes, Random], bytes]]:
    """The ways to change what a text says, where it can be parsed."""
    return [
        change for parse, change in ((json.loads, _json_changed), (_toml, _toml_changed)) if _parses(content, parse)
    ]


def _flipped(content: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(content) or 1)
    return content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]


def _cut(content: bytes, rng: Random) -> bytes:
    return content[: rng.randrange(len(content) or 1)]


def _without(content: bytes, rng: Random) -> bytes:
    start = rng.randrange(len(content) or 1)
    return content[:start] + content[start + rng.choice((1, 5, 50, 500)) :]


def _repeated(content: bytes, rng: Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    at = rng.randrange(len(lines))
    times = min(rng.choice((2, 100, 5000)), MOST_BYTES // (len(lines[at]) + 1) + 1)
    return b"".join([*lines[:at], lines[at] * times, *lines[at + 1 :]])


def _inserted(content: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(CHUNKS) + content[at:]


def _swapped(content: bytes, rng: Random) -> bytes:
    tokens = [*_TOKEN.finditer(content)]
    if len(tokens) < 2:
        return content
    one, other = sorted(rng.sample(tokens, 2), key=lambda token: token.start())
    middle = content[one.end() : other.start()]
    return content[: one.start()] + other[0] + middle + one[0] + content[other.end() :]


def _renumbered(content: bytes, rng: Random) -> bytes:
    numbers = [*_NUMBER.finditer(content)]
    if not numbers:
        return content
    found = rng.choice(numbers)
    return content[: found.start()] + rng.choice(NUMBERS).encode() + content[found.end() :]


BYTE_CHANGES: list[Callable[[bytes, Random], bytes]] = [
    _flipped,
    _cut,
    _without,
    _repeated,
    _inserted,
    _swapped,
    _renumbered,
    _renumbered,
    _renumbered,
]


def hostile(rng: Random) -> Any:
    """A value that nobody means."""
    return rng.choice(
        [
            rng.choice((0, -1, 0.0, 1e-308, 1e308, 5e23, 2**64, 10**15, float("nan"), float("inf"), 10**400, 0.1, 7)),
            rng.choice(TEXTS),
            rng.choice((True, False, None)),
            rng.choice(([], {}, [[]], [1] * 1000, [{}], {"a": {}}, [None], ["x", 1])),
            _nested(rng.choice((10, 40, 200))),
        ]
    )


def _nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every key and index of a document with what it is in."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from _places(item)


MILD = (0, 1, 2, 3, 7, 1000, 10**6, 10**9, 1e-6, 1e-9, 1e-3, 0.5, 0.999999, 99.999, 1e4, 1e12)


def moved(data: Any, rng: Random) -> Any:
    """A parsed document with one number at another place of its range: what schemas let through."""
    data = deepcopy(data)
    places = [(holder, key) for holder, key in _places(data) if type(holder[key]) in (int, float)]
    for holder, key in rng.sample(places, min(len(places), rng.choice((1, 1, 2, 4)))):
        factor, other = rng.choice((0.001, 0.1, 0.5, 2, 10, 1e3, 1e6)), rng.choice(MILD)
        with suppress(OverflowError, ValueError):  # a number that is hostile already stays as it is
            value = rng.choice((holder[key] * factor, other))
            holder[key] = round(value) if isinstance(holder[key], int) else float(value)
    return data


def changed(data: Any, rng: Random) -> Any:
    """A parsed document with something in it replaced, removed, renamed, doubled or moved."""
    if rng.random() < MILD_SHARE:
        return moved(data, rng)
    data = deepcopy(data)
    places = [*_places(data)]
    if not places:
        return hostile(rng)
    holder, key = rng.choice(places)
    kind = rng.randrange(7)
    if kind < 3:
        holder[key] = hostile(rng)
    elif kind == 3:
        del holder[key]
    elif kind == 4 and isinstance(holder, dict):
        holder[rng.choice((key + "x", *TEXTS))] = holder.pop(key)
    elif kind == 5:
        holder[key] = [holder[key]] * rng.choice((1, 2, 300))
    elif kind == 6:
        other, where = rng.choice(places)
        holder[key] = deepcopy(
            other.get(where) if isinstance(other, dict) else (other or [0])[min(where, len(other) - 1)]
        )
    return data


def _json_changed(content: bytes, rng: Random) -> bytes:
    return json.dumps(changed(json.loads(content), rng)).encode()


def _toml_changed(content: bytes, rng: Random) -> bytes:
    data = changed(_toml(content), rng)
    if not isinstance(data, dict):
        return toml_value(data).encode(errors="surrogatepass")
    lines = (f"{toml_value(str(key))} = {_toml_text(item)}\n" for key, item in data.items())
    return "".join(lines).encode(errors="surrogatepass")


def _toml_text(value: Any) -> str:
    return toml_value(value).replace("Infinity", "inf").replace("NaN", "nan").replace("null", "0")


def _toml(content: bytes) -> Any:
    return tomllib.loads(content.decode())


def _parses(content: bytes, parse: Callable[[Any], Any]) -> bool:
    try:
        parse(content)
    except (ValueError, RecursionError):
        return False
    return True
