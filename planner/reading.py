"""Inputs of users, read within limits: what is too large, too deep or endless is refused before it costs much."""

import errno
import io
import json
import os
import re
import select
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from planner.errors import InputError, InputProblem
from planner.toml_lines import KeyPath

MIB = 2**20
TOML_BYTES = MIB
"""Largest TOML file: a hundred times any that a hand wrote. Its parser is the slowest [B]."""
JSON_BYTES = 16 * MIB
"""Largest JSON file that holds one answer or one config [B]."""
TABLE_BYTES = 64 * MIB
"""Largest file of measured points [B]."""
LINE_BYTES = 4 * MIB
"""Longest line of a trace: a prompt of 1e8 tokens with its blocks [B]."""
MOST_DEPTH = 32
"""Deepest nesting of tables and arrays, and most parts of a dotted key."""
MOST_VALUES = 200_000
"""Most values in a TOML file."""
MOST_ENTRIES = 5_000
"""Most keys of one table of a TOML file."""
KEY_CHARACTERS = 1_000
"""Longest key."""
MOST_DIGITS = 4_300
"""Most digits of a whole number, as Python takes them."""
PATIENCE_S = 5.0
"""How long a pipe may say nothing [s]."""

_BIDI = "\u202a-\u202e\u2066-\u2069"
_UNPRINTABLE = re.compile(
    rf"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028\u2029\u2060\ufeff{_BIDI}\ud800-\udfff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_TOML_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"{3,5}|\Z)'
    r"|'''.*?(?:'{3,5}|\Z)"
    r'|"(?:\\.|[^"\\\n])*"?'
    r"|'[^'\n]*'?"
    r"|#[^\n]*|[.\n=,]",
    re.DOTALL,
)


class _Source(io.RawIOBase):
    """A file, a pipe or a device as it comes; a pipe that stays silent is an error and no wait without end."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._ready = select.poll()
        self._ready.register(self._fd, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._ready.poll(PATIENCE_S * 1e3):
            raise TimeoutError(errno.ETIMEDOUT, f"it says nothing for {PATIENCE_S:g} s")
        data = os.read(self._fd, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            os.close(self._fd)
        super().close()


@contextmanager
def opened(path: Path, allowed: str = "a readable file") -> Iterator[BinaryIO]:
    """A file to read bytes from.

    Args:
        path: the file; a pipe or a device will do.
        allowed: what a message says it should have been.

    Raises:
        InputError: it is missing or unreadable, also while it is read, or a pipe that says nothing.
    """
    try:
        source = _Source(path)
    except (OSError, ValueError) as error:  # a ValueError is a path that cannot be one
        raise InputError(_unreadable(path, error, allowed)) from None
    try:
        with io.BufferedReader(source) as file:
            yield cast(BinaryIO, file)
    except OSError as error:
        raise InputError(_unreadable(path, error, allowed)) from None


def _unreadable(path: Path, error: OSError | ValueError, allowed: str) -> InputProblem:
    reason = getattr(error, "strerror", None) or str(error)
    return InputProblem(str(path), "", f"cannot be read: {reason}", allowed)


def read_bytes(path: Path, most: int) -> bytes:
    """Content of a file of at most so many bytes; raises InputError when it is larger or as `opened` does."""
    with opened(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise InputError(InputProblem(str(path), "", f"is larger than {most / MIB:g} MiB", f"at most {most:,} bytes"))
    return content


def read_text(path: Path, most: int = JSON_BYTES) -> str:
    """Text of a file, line ends as "\\n"; raises InputError when it is not UTF-8, or as `read_bytes` does."""
    try:
        text = read_bytes(path, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(InputProblem(str(path), "", f"is not UTF-8 text: {error.reason}", "a text file")) from None
    return io.StringIO(text, newline=None).read()


def is_file(path: Path) -> bool:
    """True if there is such a file; a path that cannot be looked at, or is none, has no file."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def unprintable(text: str) -> str:
    """Reason why a terminal cannot show a text as it is; empty where it can.

    >>> unprintable("caf\u00e9"), unprintable("\x1b[31m")
    ('', 'holds the character U+001B, which is not printable')
    """
    found = _UNPRINTABLE.search(text)
    return f"holds the character U+{ord(found[0]):04X}, which is not printable" if found else ""


def resolved_path(path: Path) -> Path:
    """The absolute path, links followed; links that lead in a circle are left, for whoever opens it to say."""
    return Path(os.path.realpath(path))


class Excess(NamedTuple):
    """Excess of a document: what it has too much of, and where."""

    key: KeyPath
    message: str
    allowed: str


class ExcessError(ValueError):
    """A text that parses into more than is allowed."""

    def __init__(self, excess: Excess, line: int | None = None) -> None:
        super().__init__(excess.message)
        self.excess, self.line = excess, line


DEEP = Excess((), "is nested too deep", f"at most {MOST_DEPTH} levels")


def parsed_toml(text: str) -> dict[str, Any]:
    """A TOML text, parsed.

    Raises:
        tomllib.TOMLDecodeError: it is not TOML.
        ExcessError: it is larger, deeper or stranger than any question or profile.
    """
    if len(text) > TOML_BYTES:
        raise ExcessError(Excess((), f"is larger than {TOML_BYTES / MIB:g} MiB", f"at most {TOML_BYTES:,} bytes"))
    _check_dots(text)
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise ExcessError(DEEP) from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        raise ExcessError(Excess((), "holds a number of too many digits", f"at most {MOST_DIGITS:,}")) from None
    check_content(data, MOST_VALUES, is_strict=True)
    return data


def _check_dots(text: str) -> None:
    """Refuse keys of very many parts, for which parsers take the square of the time."""
    dots = 0
    for match in _TOML_TOKEN.finditer(text):
        token = match[0]
        dots = dots + 1 if token == "." else 0 if token in "\n=," else dots
        if dots >= MOST_DEPTH:
            excess = Excess((), "has a key of too many parts", f"at most {MOST_DEPTH}")
            raise ExcessError(excess, text.count("\n", 0, match.start()) + 1)


def json_value(text: str, is_strict: bool = True) -> Any:
    """A JSON text, parsed.

    Args:
        text: the text.
        is_strict: whether strings must be printable: of files that the planner wrote itself.

    Raises:
        ValueError: it is not JSON.
        ExcessError: it is deeper or stranger than any answer or config.
    """
    try:
        data = json.loads(text)
    except RecursionError:
        raise ExcessError(DEEP) from None
    except json.JSONDecodeError:
        raise
    except ValueError:
        raise ExcessError(Excess((), "holds a number of too many digits", f"at most {MOST_DIGITS:,}")) from None
    check_content(data, None, is_strict)
    return data


def check_content(data: Any, most_values: int | None, is_strict: bool) -> None:
    """Refuse what is nested too deep, has too many values or endless keys; strictly, also what steers a terminal.

    Raises:
        ExcessError: at the first such place.
    """
    waiting: list[tuple[KeyPath, Any]] = [((), data)]
    n_values = 0
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict | list):
            n_values += len(value)
            if excess := _of_collection(path, value, n_values, most_values):
                raise ExcessError(excess)
        for key, item in _items(value):
            if isinstance(item, dict | list):
                waiting.append(((*path, key), item))
            elif isinstance(item, str) and (what := (unprintable if is_strict else _halved)(item)):
                raise ExcessError(Excess((*path, key), what, "text, tabs and line ends"))


def _items(value: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _halved(text: str) -> str:
    """Fault of a text that holds half of a character, which no encoding has; empty without one."""
    return "holds half of a surrogate pair" if _SURROGATE.search(text) else ""


def _of_collection(path: KeyPath, value: Any, n_values: int, most_values: int | None) -> Excess | None:
    if len(path) >= MOST_DEPTH:
        return DEEP._replace(key=path)
    if most_values is not None and n_values > most_values:
        return Excess(path, "is one value too many", f"at most {most_values:,} in a file")
    if isinstance(value, dict):
        if most_values is not None and len(value) > MOST_ENTRIES:
            return Excess(path, f"has {len(value):,} keys", f"at most {MOST_ENTRIES:,}")
        return next(filter(None, (_of_key(path, key) for key in value)), None)
    return None


def _of_key(path: KeyPath, key: str) -> Excess | None:
    if len(key) > KEY_CHARACTERS:
        return Excess((*path, key), f"is a key of {len(key):,} characters", f"at most {KEY_CHARACTERS:,}")
    if unprintable(key):
        return Excess((*path, key), "is a key that is not printable", "printable text")
    return None
