"""Points written back: a table with columns added row by row, or benchmark results as a table."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path

from planner.benchmarks import benchmark_runs
from planner.errors import InputError, InputProblem
from planner.files import write_text
from planner.profiles.points.point import COLUMNS, NO_DEFAULTS, PointDefaults, ServingPoint
from planner.profiles.points.reader import read_points
from planner.profiles.points.table import BOM, table_rows
from planner.reading import TABLE_BYTES, read_bytes

Cell = float | str | None


def write_predictions(
    path_in: Path,
    path_out: Path,
    columns: Mapping[str, Sequence[Cell]],
    defaults: PointDefaults = NO_DEFAULTS,
    read: Sequence[ServingPoint] | None = None,
) -> None:
    """Write a file of points again, as a table with further columns.

    Rows of a CSV table stay as they are written, to the letter, and get the new cells at their end. A benchmark's
    results become a table of COLUMNS, one row per point. The file is written aside, then renamed.

    Args:
        path_in: what `read_points` reads.
        path_out: the table; it may be the same file.
        columns: cells by the name of the new column, one per point and in their order; None, and a number that is
            not finite, make an empty cell.
        defaults: what `read_points` was given for the file.
        read: points of a file that is no table of points; None: it is read again.

    Raises:
        InputError: the file has a problem, or has one of the columns already, or cannot be written.
        ValueError: a column does not have one cell per point.
    """
    points = read_points(path_in, defaults) if read is None else read
    for name, cells in columns.items():
        if len(cells) != len(points):
            raise ValueError(f"{name} has {len(cells)} cells for {len(points)} points")
    text = _read(path_in)
    if read is not None or benchmark_runs(str(path_in), text.removeprefix(BOM)) is not None:
        text = points_csv(points)
    added = [list(columns), *(list(row) for row in zip(*columns.values(), strict=True))]
    write_text(path_out, _widened(str(path_in), text, added) if columns else text)


def points_csv(points: Iterable[ServingPoint]) -> str:
    """Points as a table of COLUMNS, which `read_points` reads.

    Returns:
        CSV text: times in milliseconds, unknown cells empty.

    >>> points_csv([]).split(",")[:3]
    ['model', 'hardware', 'framework']
    """
    return "".join(f"{_csv_line(row)}\n" for row in [COLUMNS, *map(_cells, points)])


def _cells(point: ServingPoint) -> list[Cell]:
    times_ms = {f"{name}_ms": _milliseconds(getattr(point, f"{name}_s")) for name in ("ttft", "tpot")}
    special = {**times_ms, "gpus": point.n_accelerators, "harness": point.source}
    return [special[column] if column in special else getattr(point, column) for column in COLUMNS]


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _widened(name: str, text: str, added: Sequence[Sequence[Cell]]) -> str:
    rows = list(table_rows(name, text))
    header = next(row for row in rows if row.cells)
    taken = [str(column) for column in added[0] if column in header.cells]
    if taken:
        problems = [
            InputProblem(name, column, "is there already", "a file without it", header.line) for column in taken
        ]
        raise InputError(problems)
    further = iter(added)
    mark = BOM if text.startswith(BOM) else ""
    return mark + "".join(
        row.text + _csv_line([None, *next(further)]) + row.end if row.cells else row.text + row.end for row in rows
    )


def _csv_line(cells: Sequence[Cell]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow([_cell_text(cell) for cell in cells])
    return line.getvalue().removesuffix("\r\n")  # Without a line end csv would not quote those inside cells.


def _cell_text(cell: Cell) -> str:
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, int):
        return str(cell)
    return repr(float(cell)) if isfinite(cell) else ""


def _read(path: Path) -> str:
    """Text with its line ends and byte order mark; `read_points` has shown that it can be read."""
    return read_bytes(path, TABLE_BYTES).decode()
