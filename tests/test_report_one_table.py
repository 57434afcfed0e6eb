"""One table, two renderers: what a terminal shows is what a report writes."""

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from planner.report.table import MARK, Table
from planner.report.terminal import printed

WORDS = st.text("abcdefgh0123456789.-", min_size=1, max_size=8)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    n = draw(st.integers(1, 5))
    headings = [MARK * draw(st.booleans()) + draw(WORDS) for _ in range(n)]
    rows = draw(st.lists(st.lists(WORDS, min_size=n, max_size=n), max_size=5))
    return Table.of(draw(WORDS), headings, rows, draw(st.sampled_from(["", "what it says"])))


def shown(table: Table) -> list[str]:
    part = printed(table)
    if part is None:
        return []
    console = Console(width=100, file=StringIO(), highlight=False)
    console.print(part)
    return str(console.file.getvalue()).splitlines()  # type: ignore[attr-defined]


@given(tables())
def test_both_renderers_show_the_same_cells_in_the_same_order(table: Table) -> None:
    written = [line.strip("| ").split(" | ") for line in table.markdown().splitlines()]
    lines = [line.split() for line in shown(table)]
    if not table.rows:
        assert (written, lines) == ([], [])
        return
    cells = [written[0], *written[2:]]
    assert cells[0] == [heading.removeprefix(MARK) for heading in table.headings]
    assert [line for line in lines[1:] if line in cells] == cells


@pytest.mark.parametrize("right", [False, True])
def test_a_marked_heading_aligns_its_column_to_the_right_in_both(right: bool) -> None:
    table = Table.of("pools", [MARK * right + "instances"], [["3"]])
    assert table.markdown().splitlines()[1] == ("|---:|" if right else "|---|")
    assert any(line.rstrip() == "3".rjust(9 if right else 1) for line in shown(table))


def test_a_table_is_read_twice_though_its_rows_came_from_a_generator() -> None:
    table = Table.of("pools", ["pool"], ([name] for name in ("a", "b")))
    assert table.markdown() == table.markdown() != ""
    assert shown(table) == shown(table)


def test_bars_and_line_breaks_of_a_cell_break_no_markdown() -> None:
    assert Table.of("", ["a|b"], [["c\nd|e"]]).markdown() == "| a\\|b |\n|---|\n| c d\\|e |"
