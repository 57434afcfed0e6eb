"""A sweep as tables for a terminal, and as CSV."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from planner.files import whole_file
from planner.report.sweep_columns import Column, csv_columns, table_columns
from planner.report.table import MARK, Table
from planner.report.terminal import PRINT_WIDTH, printed, remarks
from planner.results.plan_sweep import PlanSweep, SweepPoint
from planner.units import DASH

if TYPE_CHECKING:
    from rich.console import RenderableType

APART = 2
"""Columns between two columns of a table."""
WIDEST = 28
"""Most columns of a cell; longer texts are folded."""
MOST_LEAD = 50
"""Most columns that the values of the varied keys may take where a table goes on in another."""
STATES = {1: "a bug", 3: "bad input", 4: "infeasible", 5: "undecided"}
"""Why a point has no plan, by its exit code."""
STATE = "plan"
Cells = list[tuple[str, list[str]]]
"""Headings with the cells under each."""


def sweep_tables(found: PlanSweep, width: int = PRINT_WIDTH) -> list["RenderableType"]:
    """Plans by point, for people: in several tables where one would be too wide.

    Args:
        found: the answer of `planner sweep`.
        width: columns of what is printed.

    Returns:
        What to print, in order.
    """
    lead = _lead(found)
    facts = [(c.heading, [_text(point, c) for point in found.points]) for c in table_columns(found)]
    pages = list(_pages(lead, facts, width))
    parts = [_table(found, page, i, is_last=i == len(pages) - 1) for i, page in enumerate(pages)]
    parts.append(remarks("no plan", _failures(found)))
    return [part for part in parts if part is not None]


def _lead(found: PlanSweep) -> Cells:
    """The number of every point, the best marked, and its values; why it has no plan, where any has none."""
    marks = [f"{i + 1} *" if i == found.best else f"{i + 1}  " for i in range(len(found.points))]
    keys = [(MARK + _heading(key), [point.set[key] for point in found.points]) for key in found.over]
    states = [_state(point) for point in found.points]
    return [(f"{MARK}#  ", marks), *keys, *([(STATE, states)] if {*states} - {"optimal"} else [])]


def _heading(key: str) -> str:
    """A key in two lines: where, and what."""
    where, _, what = key.rpartition(".")
    return f"{where}\n{what}" if where else what


def _state(point: SweepPoint) -> str:
    return point.plan.status if point.plan else STATES.get(point.exit_code, f"exit {point.exit_code}")


def _text(point: SweepPoint, column: Column) -> str:
    return DASH if point.plan is None else str(column.cell(point.plan))


def _pages(lead: Cells, facts: Cells, width: int) -> Iterator[Cells]:
    """Columns in tables of at most that width, each with the number of its points and, where narrow, their values."""
    keys = [column for column in lead if column[0] != STATE]
    again = keys if sum(map(_width, keys)) <= MOST_LEAD else lead[:1]
    page, n_lead = [*lead], len(lead)
    for column in facts:
        if len(page) > n_lead and sum(map(_width, [*page, column])) - APART > width:
            yield page
            page, n_lead = [*again], len(again)
        page.append(column)
    yield page


def _width(column: tuple[str, list[str]]) -> int:
    heading, cells = column
    texts = (*heading.removeprefix(MARK).split("\n"), *cells)
    return min(max(map(len, texts)), WIDEST) + APART


def _table(found: PlanSweep, page: Cells, index: int, is_last: bool) -> "RenderableType | None":
    n, whole = len(found.points), found.n_points
    title = f"{found.scenario}, continued" if index else f"{found.scenario}, one plan per point"
    partly = "" if found.is_whole else f" ({n} of {whole} finished)"
    rule = f"* the best: {found.best_by}" if found.best is not None else found.best_by
    text = "\n".join(filter(None, (rule, "below names of pools: instances"))) if is_last else ""
    rows = zip(*(cells for _, cells in page), strict=True)
    return printed(Table.of(title + partly, [heading for heading, _ in page], rows, text), WIDEST)


def _failures(found: PlanSweep) -> Iterator[str]:
    """Every reason once, with the points that it is given for."""
    reasons: dict[str, list[int]] = {}
    for i, point in enumerate(found.points):
        if point.failure is not None:
            reasons.setdefault(point.failure.splitlines()[0], []).append(i + 1)
    for reason, points in reasons.items():
        yield f"{_numbers(points)}: {reason}"


def _numbers(points: Sequence[int]) -> str:
    """Numbers of points, runs of them as their ends.

    >>> _numbers([1, 2, 3, 5, 7, 8])
    '#1 to 3, 5, 7 to 8'
    """
    runs: list[list[int]] = []
    for n in points:
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return "#" + ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def write_sweep_csv(found: PlanSweep, path: Path) -> None:
    """One row per point; what a plan does not know, or is without, is empty."""
    columns = csv_columns(found)
    with whole_file(path) as aside, aside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*found.over, "status", "exit_code", "best", *(c.heading for c in columns), "failure"])
        for i, point in enumerate(found.points):
            told = [_state(point), point.exit_code, str(i == found.best).lower()]
            writer.writerow([*point.set.values(), *told, *_cells(point, columns), point.failure or ""])


def _cells(point: SweepPoint, columns: Sequence[Column]) -> list[object]:
    if point.plan is None:
        return [""] * len(columns)
    return ["" if (value := column.cell(point.plan)) is None else value for column in columns]
