"""Pieces that answers for a terminal are made of: a hundred columns wide, or as wide as it is."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from planner.report.table import MARK, Table

if TYPE_CHECKING:
    from rich.console import RenderableType

PRINT_WIDTH = 100
"""Columns that tables have at most."""
BELOW = (0, 0, 1, 0)
"""An empty line below a table."""


def frame(title: str, rows: Iterable[tuple[str, str]]) -> "RenderableType":
    """Labels and texts in a frame."""
    from rich.panel import Panel
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for label, text in rows:
        grid.add_row(Text(label), Text(text))
    return Panel(grid, title=Text(title), title_align="left")


def labelled(title: str, rows: Iterable[tuple[str, str]]) -> "RenderableType":
    """Texts beside their labels under a title, if there is one, without a frame."""
    from rich.console import Group
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, min_width=9)
    grid.add_column()
    for label, text in rows:
        grid.add_row(Text(label), Text(text))
    return Group(Text(title, style="bold"), grid) if title else grid


def compact(table: Table) -> "RenderableType | None":
    """A table without title and rule, an empty line above it; None without any row."""
    if not table.rows:
        return None
    from rich.padding import Padding
    from rich.text import Text

    from planner.report.fitted import FittedTable

    shown = FittedTable(box=None, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in table.headings:
        right = heading.startswith(MARK)
        name = Text(heading.removeprefix(MARK))
        shown.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in table.rows:
        shown.add_row(*map(Text, row))
    if table.caption:
        shown.caption, shown.caption_justify = Text(table.caption, style="not italic"), "left"
    return Padding(shown, (1, 0, 0, 0))


def printed(table: Table, widest: int | None = None) -> "RenderableType | None":
    """A table with an empty line below; None without any row.

    Args:
        table: what to print.
        widest: columns of the terminal that a column of the table takes at most.
    """
    if not table.rows:
        return None
    from rich import box
    from rich.padding import Padding
    from rich.text import Text

    from planner.report.fitted import FittedTable

    shown = FittedTable(
        title=Text(table.title, style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for heading in table.headings:
        right = heading.startswith(MARK)
        name = Text(heading.removeprefix(MARK))
        shown.add_column(name, justify="right" if right else "left", overflow="fold", max_width=widest)
    for row in table.rows:
        shown.add_row(*map(Text, row))
    if table.caption:
        shown.caption, shown.caption_justify = Text(table.caption, style="not italic"), "left"
    return Padding(shown, BELOW)


def remarks(title: str, lines: Iterable[str]) -> "RenderableType | None":
    """Sentences under a title; None without any."""
    from rich.padding import Padding
    from rich.table import Table as Grid
    from rich.text import Text

    texts = list(lines)
    if not texts:
        return None
    grid = Grid.grid(padding=(0, 1))
    grid.title, grid.title_justify = Text(title, style="bold"), "left"
    grid.add_column(no_wrap=True)
    grid.add_column()
    for text in texts:
        grid.add_row(Text("-"), Text(text))
    return Padding(grid, BELOW)
