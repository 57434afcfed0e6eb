"""The line of every key of a TOML text, which the standard parser does not tell."""

import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterator

KeyPath = tuple[str | int, ...]

_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
_STRING = r'"""(?:\\.|[^\\])*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:\\.|[^"\\])*"' r"|'[^']*'"
_VALUE = re.compile(rf"{_STRING}|[^,\]}}#\n]+", re.DOTALL)
_NAME = re.compile(rf"{_STRING}|[\w-]+", re.DOTALL)
_BRACKETS = re.compile(r"\[\[?")
QUOTES = ('"', "'")


class _Scanner:
    """Walks a text that has already parsed, so that it need not ask whether what comes next is allowed."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.newlines = [match.start() for match in re.finditer("\n", text)]
        self.lines: dict[KeyPath, int] = {}
        self.strings: list[tuple[int, int]] = []
        self.table: KeyPath = ()
        self.counts: dict[KeyPath, int] = {}

    def document(self) -> None:
        """Headers and assignments to the end of the text."""
        while self._next():
            if self._next() == "[":
                self._header()
            else:
                self._assignment(self.table)

    def _next(self) -> str:
        """The next character that is neither white space nor comment; empty at the end."""
        self._take(_BLANK)
        return self.text[self.at : self.at + 1]

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match[0] if match else ""

    def _line(self) -> int:
        return bisect_left(self.newlines, self.at) + 1

    def _header(self) -> None:
        line, brackets = self._line(), self._take(_BRACKETS)
        names = self._names()
        self.at += len(brackets)
        self.table = self._indexed(names[:-1], line)
        self.table = (*self.table, names[-1])
        if brackets == "[[":
            self.lines.setdefault(self.table, line)
            self.counts[self.table] = self.counts.get(self.table, -1) + 1
            self.table = (*self.table, self.counts[self.table])
        self.lines[self.table] = line

    def _indexed(self, names: tuple[str, ...], line: int) -> KeyPath:
        """Path of the tables around a header, each in the latest element where it is an array of tables."""
        path: KeyPath = ()
        for name in names:
            path = (*path, name)
            self.lines.setdefault(path, line)
            path = (*path, self.counts[path]) if path in self.counts else path
        return path

    def _names(self) -> tuple[str, ...]:
        """A dotted key, up to what follows it."""
        names = [self._name()]
        while self._next() == ".":
            self.at += 1
            names.append(self._name())
        return tuple(names)

    def _name(self) -> str:
        self._take(_BLANK)
        text = self._token(_NAME)
        return unquoted(text) if text[:1] in QUOTES else text

    def _token(self, pattern: re.Pattern[str]) -> str:
        """A name or a value that is no array or table; where those in quotes are is kept."""
        text = self._take(pattern)
        if text[:1] in QUOTES:
            self.strings.append((self.at - len(text), self.at))
        return text

    def _assignment(self, table: KeyPath) -> None:
        line, key = self._line(), table
        for name in self._names():
            key = (*key, name)
            self.lines.setdefault(key, line)
        self.at += len("=")
        self._value(key)

    def _value(self, key: KeyPath) -> None:
        opening = self._next()
        if opening == "[":
            self._array(key)
        elif opening == "{":
            self._inline_table(key)
        else:
            self._token(_VALUE)

    def _array(self, key: KeyPath) -> None:
        self.at += len("[")
        index = 0
        while self._next() not in ("]", ""):
            self.lines[*key, index] = self._line()
            self._value((*key, index))
            self._comma()
            index += 1
        self.at += len("]")

    def _inline_table(self, key: KeyPath) -> None:
        self.at += len("{")
        while self._next() not in ("}", ""):
            self._assignment(key)
            self._comma()
        self.at += len("}")

    def _comma(self) -> None:
        if self._next() == ",":
            self.at += len(",")


def key_lines(text: str) -> dict[KeyPath, int]:
    """Line of every key and array element of a TOML text that has already parsed.

    A table that is only named inside a longer key has the line where that is first done.

    >>> key_lines("[a]\\nb = 1\\nc = [\\n  { d = 2 },\\n]")
    {('a',): 1, ('a', 'b'): 2, ('a', 'c'): 3, ('a', 'c', 0): 4, ('a', 'c', 0, 'd'): 4}
    """
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


def string_spans(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and content of every key and value in quotes of a TOML text that has already parsed.

    >>> list(string_spans('a."b.c" = 1  # "no"\\nd = ["e"]'))
    [(2, 7, 'b.c'), (25, 28, 'e')]
    """
    scanner = _Scanner(text)
    scanner.document()
    for start, end in sorted(set(scanner.strings)):
        yield start, end, unquoted(text[start:end])


def unquoted(token: str) -> str:
    """Content of a string in quotes, as TOML writes it."""
    return str(tomllib.loads(f"content = {token}")["content"])
