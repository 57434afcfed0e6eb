"""A table as a value, of which a terminal and a report each make their own."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

MARK = ">"
"""Put before a heading whose column is aligned to the right."""


@dataclass(frozen=True)
class Table:
    """Rows of text under headings; `terminal.printed` shows it, `markdown` writes it."""

    title: str
    headings: tuple[str, ...]
    """Those that begin with MARK are of columns aligned to the right."""
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    """What explains it below, in a terminal; a report has sentences around it."""

    @classmethod
    def of(cls, title: str, headings: Sequence[str], rows: Iterable[Iterable[str]], caption: str = "") -> Self:
        """A table of these rows."""
        return cls(title, tuple(headings), tuple(map(tuple, rows)), caption)

    @classmethod
    def untitled(cls, headings: Sequence[str], rows: Iterable[Iterable[str]]) -> Self:
        """A table of these rows for a report, which has its own headings."""
        return cls.of("", headings, rows)

    def markdown(self) -> str:
        """The table in Markdown, without title and caption; nothing without rows.

        >>> print(Table.of("pools", ["pool", ">req/s"], [["pd-p", "3.19"]]).markdown())
        | pool | req/s |
        |---|---:|
        | pd-p | 3.19 |
        """
        if not self.rows:
            return ""
        rule = "|".join("---:" if heading.startswith(MARK) else "---" for heading in self.headings)
        head = _line(heading.removeprefix(MARK) for heading in self.headings)
        return "\n".join([head, f"|{rule}|", *map(_line, self.rows)])


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
