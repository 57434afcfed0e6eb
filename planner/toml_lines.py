"""The line of every key of a TOML text, which the standard parser does not tell."""

import re
from collections.abc import Iterator

KeyPath = tuple[str | int, ...]

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_ASSIGNMENT = re.compile(r"""^\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_NAME = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_INLINE_NAME = re.compile(r"[{,]\s*([\w-]+)\s*=")
_LONG_QUOTES = re.compile(r'"""|\'\'\'')


class _Scanner:
    """Where a line stands: in which table, element of which array, inside which long string."""

    def __init__(self) -> None:
        self.table: KeyPath = ()
        self.counts: dict[KeyPath, int] = {}
        self.array: KeyPath | None = None
        self.n_elements = 0
        self.in_string = False

    def keys(self, line: str) -> Iterator[KeyPath]:
        """Keys that are written on a line."""
        inside, self.in_string = self.in_string, self.in_string ^ (len(_LONG_QUOTES.findall(line)) % 2 == 1)
        if inside:
            return
        if self.array is not None and line.lstrip().startswith(("{", "]")):
            yield from self._element(line)
        elif header := _HEADER.match(line):
            yield self._header(header[1], _names(header[2]))
        elif assignment := _ASSIGNMENT.match(line):
            yield from self._assignment((*self.table, *_names(assignment[1])), line[assignment.end() :].strip())

    def _element(self, line: str) -> Iterator[KeyPath]:
        """An inline table on a line of its own in a multi-line array, or the end of that array."""
        if self.array is None or line.lstrip().startswith("]"):
            self.array = None
            return
        element = (*self.array, self.n_elements)
        self.n_elements += 1
        yield element
        yield from ((*element, name) for name in _INLINE_NAME.findall(line))

    def _header(self, brackets: str, names: tuple[str, ...]) -> KeyPath:
        self.table = (*self._indexed(names[:-1]), names[-1])
        if brackets == "[[":
            self.counts[self.table] = self.counts.get(self.table, -1) + 1
            self.table = (*self.table, self.counts[self.table])
        self.array = None
        return self.table

    def _indexed(self, names: tuple[str, ...]) -> KeyPath:
        """Path of a table nested in the latest element of an array of tables."""
        path: KeyPath = ()
        for name in names:
            path = (*path, name)
            path = (*path, self.counts[path]) if path in self.counts else path
        return path

    def _assignment(self, key: KeyPath, value: str) -> Iterator[KeyPath]:
        yield key
        self.array, self.n_elements = (key, 0) if value.startswith("[") and "]" not in value else (None, 0)
        if value.startswith("{"):
            yield from ((*key, name) for name in _INLINE_NAME.findall(value))


def key_lines(text: str) -> dict[KeyPath, int]:
    """Line of every key path of a TOML text that has already parsed; keys of an inline table share its line.

    >>> key_lines("[a]\\nb = 1\\nc = [\\n  { d = 2 },\\n]")
    {('a',): 1, ('a', 'b'): 2, ('a', 'c'): 3, ('a', 'c', 0): 4, ('a', 'c', 0, 'd'): 4}
    """
    scanner = _Scanner()
    return {key: number for number, line in enumerate(text.splitlines(), start=1) for key in scanner.keys(line)}


def _names(text: str) -> tuple[str, ...]:
    return tuple(name[1:-1] if name[0] in "\"'" else name for name in _NAME.findall(text))
