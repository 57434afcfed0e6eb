"""Tables that stay readable where there is little room: no word and no number is ever broken."""

from collections.abc import Sequence
from itertools import islice

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table

LONGEST_WORD = 28
"""Words up to this stay whole; longer ones, such as addresses, may be broken."""
ANY_WIDTH = 10_000


class FittedTable(Table):
    """A table whose cells break between words, and which goes on below itself where even that is too wide."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table as it is where it fits; else in parts, each with the first column."""
        measured = [_measured(console, options, column) for column in self.columns]
        natural, least = [m.maximum for m in measured], [min(m.minimum, LONGEST_WORD) for m in measured]
        wide = Measurement.get(console, options.update(max_width=ANY_WIDTH), _rebuilt(self, self.columns, natural))
        spare = (wide.maximum - sum(natural)) / max(len(natural), 1)
        if wide.maximum <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        parts = _parts(least, options.max_width, spare)
        for index, chosen in enumerate(parts):
            room = options.max_width - round(spare * len(chosen) + 0.5)
            widths = _shared([natural[i] for i in chosen], [least[i] for i in chosen], room)
            part = _rebuilt(self, [self.columns[i] for i in chosen], widths)
            part.title = self.title if index == 0 else None
            part.caption = self.caption if index == len(parts) - 1 else None
            yield part


def _measured(console: Console, options: ConsoleOptions, column: Column) -> Measurement:
    """The longest word and the longest line of a column."""
    cells = [
        Measurement.get(console, options.update(max_width=ANY_WIDTH), cell) for cell in (column.header, *column.cells)
    ]
    most = max(cell.maximum for cell in cells)
    return Measurement(most if column.no_wrap else max(cell.minimum for cell in cells), most)


def _parts(least: Sequence[int], width: int, spare: float) -> list[list[int]]:
    """Columns of each part: the first one, and as many of the others as there is room for.

    >>> _parts([4, 3, 3, 3, 3], 13, 1.0), _parts([4, 50, 3], 12, 1.0)
    ([[0, 1], [0, 2], [0, 3], [0, 4]], [[0, 1], [0, 2]])
    >>> _parts([4, 3, 3, 3, 3], 14, 1.0)  # 4 + 3 + 3 with one beside each, and an edge
    [[0, 1, 2], [0, 3, 4]]
    """
    parts: list[list[int]] = [[0]]
    for index in range(1, len(least)):
        wanted = [*parts[-1], index]
        if len(parts[-1]) > 1 and sum(least[i] + spare for i in wanted) + 1 > width:
            parts.append([0, index])
        else:
            parts[-1].append(index)
    return parts


def _shared(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths that fit into the room: the widest column gives first, and none more than its longest word allows.

    >>> _shared([10, 6, 3], [2, 5, 3], 14), _shared([10, 6, 3], [9, 6, 3], 17), _shared([2, 2], [1, 1], 9)
    ([5, 6, 3], [8, 6, 3], [2, 2])
    """
    widths = list(natural)
    while sum(widths) > room:
        giving = [i for i, width in enumerate(widths) if width > least[i]] or [i for i, w in enumerate(widths) if w > 1]
        if not giving:
            break
        widths[max(giving, key=lambda i: widths[i])] -= 1
    return widths


def _rebuilt(table: Table, columns: Sequence[Column], widths: Sequence[int]) -> Table:
    """A table of some of another's columns."""
    found = Table(
        title_justify=table.title_justify,
        caption_justify=table.caption_justify,
        box=table.box,
        show_edge=table.show_edge,
        pad_edge=table.pad_edge,
        padding=table.padding,
    )
    for column, width in zip(columns, widths, strict=True):
        found.add_column(column.header, justify=column.justify, overflow="fold", width=width)
    for row in zip(*(islice(column.cells, table.row_count) for column in columns), strict=True):
        found.add_row(*row)
    return found
