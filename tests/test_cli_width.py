"""Tables are as wide as there is room for, and break no word and no number where there is little."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich import box
from rich.console import Console
from typer.testing import CliRunner

from planner.cli import app
from planner.cli.common import LEAST_WIDTH, WIDTH, width
from planner.report.fitted import LONGEST_WORD, FittedTable
from tests.test_cli_goldens import commands

ROOT = Path(__file__).resolve().parents[1]
CHEAP = {
    "predict": ["predict", "deepseek-v3", "h200-sxm", "--stack", "datasheet"],
    "does not fit": ["predict", "deepseek-v3", "l20", "--accelerators", "1"],
    "list": ["profiles", "list"],
    "hardware": ["profiles", "show", "h200-sxm"],
    "model": ["profiles", "show", "prfaas-1t"],
    "stack": ["profiles", "show", "vllm"],
    "plan": ["optimize", "not-worth-it"],
}


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize("name", CHEAP)
def test_no_line_is_wider_than_columns_say(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = CliRunner().invoke(app, CHEAP[name]).stdout.splitlines()
    assert lines
    assert max(map(len, lines)) <= columns


@pytest.mark.parametrize("names", commands(), ids=" ".join)
def test_no_help_page_is_wider_than_a_terminal_and_h_is_help(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    short, long = (CliRunner().invoke(app, [*names, option]) for option in ("-h", "--help"))
    assert (short.exit_code, short.stdout) == (0, long.stdout)
    assert max(map(len, short.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("columns", "expected"),
    [("80", 80), ("200", WIDTH), ("20", LEAST_WIDTH), ("", WIDTH), ("no", WIDTH), ("0", WIDTH), ("-5", WIDTH)],
)
def test_columns_rule_and_nonsense_does_not(
    columns: str, expected: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert width() == expected
    capsys.readouterr()


@pytest.mark.parametrize(("stated", "expected"), [("", 72), ("90", 90)])
def test_a_terminal_s_width_counts_where_columns_do_not_say(stated: str, expected: int) -> None:
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 72))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": stated}
    command = [sys.executable, "-c", "from planner.cli.common import width; print(width())"]
    subprocess.run(command, env=environment, stdout=slave, check=True)
    os.close(slave)
    assert os.read(master, 100).strip() == str(expected).encode()
    os.close(master)


WORDS = st.text("abcdefghij.,-0123456789", min_size=1, max_size=20)
CELLS = st.lists(WORDS, max_size=4).map(" ".join)


@st.composite
def tables(draw: st.DrawFn) -> tuple[FittedTable, list[list[str]]]:
    """A table, and the words of each column."""
    n_columns, n_rows = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    styles = [{"box": box.SIMPLE_HEAD, "show_edge": False, "pad_edge": False, "padding": (0, 1, 0, 0)}, {}]
    table = FittedTable(**draw(st.sampled_from(styles)))
    rows = [[draw(CELLS) for _ in range(n_columns)] for _ in range(n_rows)]
    headings = [draw(CELLS) for _ in range(n_columns)]
    for heading in headings:
        table.add_column(heading, justify=draw(st.sampled_from(["left", "right"])))
    for row in rows:
        table.add_row(*row)
    return table, [headings, *rows]


@given(tables(), st.integers(LEAST_WIDTH, 120))
def test_every_word_of_a_table_stands_whole_within_the_width(
    case: tuple[FittedTable, list[list[str]]], columns: int
) -> None:
    table, rows = case
    text = io.StringIO()
    Console(file=text, width=columns, highlight=False, markup=False, emoji=False).print(table)
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= columns
    printed = text.getvalue().replace("│", " ").replace("┃", " ").split()
    for word in (word for row in rows for cell in row for word in cell.split()):
        assert word in printed


def test_a_word_longer_than_any_may_be_is_broken_and_none_of_it_is_lost() -> None:
    address = "https://example.org/" + "a" * 100
    table = FittedTable()
    table.add_column("source")
    table.add_row(address)
    text = io.StringIO()
    Console(file=text, width=LEAST_WIDTH).print(table)
    assert LONGEST_WORD < LEAST_WIDTH
    assert "".join(line.strip("│ ") for line in text.getvalue().splitlines()[3:-1]) == address
