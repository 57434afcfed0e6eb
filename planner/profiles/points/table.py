"""CSV text as numbered rows that remember how they were written."""

import csv
import io
from collections.abc import Iterator
from typing import NamedTuple

from planner.errors import InputError, InputProblem

BOM = "\ufeff"
MOST_POINTS, MOST_COLUMNS = 100_000, 1_000
"""Most points and columns of a file."""
MOST_PROBLEMS = 10_000
"""Problems after which a file is read no further."""


class TableRow(NamedTuple):
    """One row with anything in it, or a run of lines with nothing."""

    line: int
    """Line of the file where it starts, from 1."""
    cells: list[str]
    """Its cells without surrounding blanks; empty where the row has nothing in it."""
    text: str
    """The row as written, without its line end."""
    end: str
    """Its line end; empty at the end of a file that lacks one."""


def table_rows(name: str, text: str) -> Iterator[TableRow]:
    r"""Rows of a CSV file, blank ones included.

    Raises:
        InputError: a quote is left open, or is not where CSV lets it be.

    >>> [(row.line, row.cells) for row in table_rows("x.csv", 'a,b\r\n"1\r\n", 2\r\n\r\n')]
    [(1, ['a', 'b']), (2, ['1', '2']), (4, [])]
    """
    lines = list(io.StringIO(text.removeprefix(BOM), newline=""))
    reader = csv.reader(lines, strict=True)
    start = 0
    try:
        for cells in reader:
            written = "".join(lines[start : reader.line_num])
            bare = written.rstrip("\r\n")
            _check_size(name, cells, start + 1, len(lines))
            stripped = [cell.strip() for cell in cells]
            yield TableRow(start + 1, stripped if any(stripped) else [], bare, written[len(bare) :])
            start = reader.line_num
    except csv.Error as error:
        raise InputError(InputProblem(name, "", f"is not CSV: {error}", "quotes in pairs", start + 1)) from None


def _check_size(name: str, cells: list[str], line: int, n_lines: int) -> None:
    if len(cells) > MOST_COLUMNS:
        raise InputError(InputProblem(name, "", f"has {len(cells):,} cells", f"at most {MOST_COLUMNS:,}", line))
    if n_lines > MOST_POINTS + 1:
        raise InputError(InputProblem(name, "", f"has {n_lines:,} lines", f"at most {MOST_POINTS:,} points"))
