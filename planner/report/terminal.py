"""Pieces that answers for a terminal of a hundred columns are made of."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

PRINT_WIDTH = 100
"""Columns that every table fits in."""
BELOW = (0, 0, 1, 0)
"""An empty line below a table."""
MARK = ">"
"""Put before a heading whose column is aligned to the right."""


def frame(title: str, rows: Iterable[tuple[str, str]]) -> "RenderableType":
    """Labels and texts in a frame."""
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for label, text in rows:
        grid.add_row(Text(label), Text(text))
    return Panel(grid, title=Text(title), title_align="left")


def empty_table(title: str, *headings: str) -> "Table":
    """A table without rows; headings of columns to be aligned to the right begin with MARK."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title, style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for heading in headings:
        right = heading.startswith(MARK)
        name = Text(heading.removeprefix(MARK))
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    return table


def caption(table: "Table", text: str) -> None:
    """Explain a table below it."""
    from rich.text import Text

    table.caption, table.caption_justify = Text(text, style="not italic"), "left"


def filled(table: "Table", rows: Iterable[Iterable[str]]) -> "RenderableType | None":
    """A table with these rows and an empty line below; None without any row."""
    from rich.padding import Padding
    from rich.text import Text

    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return Padding(table, BELOW) if table.row_count else None


def remarks(title: str, lines: Iterable[str]) -> "RenderableType | None":
    """Sentences under a title; None without any."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    texts = list(lines)
    if not texts:
        return None
    grid = Table.grid(padding=(0, 1))
    grid.title, grid.title_justify = Text(title, style="bold"), "left"
    grid.add_column(no_wrap=True)
    grid.add_column()
    for text in texts:
        grid.add_row(Text("-"), Text(text))
    return Padding(grid, BELOW)
