"""Options and steps that several commands share."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.completion import scenario_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from planner.results.plan import Plan
    from planner.scenario import Scenario

WIDTH = 100
"""Columns of tables, where there is room for as many."""
LEAST_WIDTH = 60
"""Columns below which no table can be read."""
MOST_SEED = 2**63 - 1


@dataclass
class Answer:
    """State of a command's answer on stdout: the form it was asked for in, and whether it is there."""

    as_json: bool = False
    is_printed: bool = False


ANSWER: ContextVar[Answer | None] = ContextVar("ANSWER", default=None)
"""Of the command that runs; None outside of any."""


def remember_format(format_: StrEnum) -> StrEnum:
    """Note the form of the answer that a command is called for."""
    if answer := ANSWER.get():
        answer.as_json = format_.value == "json"
    return format_


class Format(StrEnum):
    """Format that an answer is printed in."""

    TEXT = "text"
    JSON = "json"


ScenarioArgument = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO", help="A bundled scenario, or the path of a TOML file.", autocompletion=scenario_names
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the scenario, such as pools.pd-p.n_instances=3."),
]
FormatOption = Annotated[Format, typer.Option("--format", callback=remember_format, help="Tables, or one JSON object.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Write over a file that is there.")]
TimeLimitOption = Annotated[
    float,
    typer.Option(
        "--time-limit", min=0.1, metavar="SECONDS", help="Longest search for one plan, in seconds of work on one core."
    ),
]


def data_dirs() -> list[Path]:
    """Folders in which traces are looked for: the PLANNER_DATA environment variable, separated as PATH is."""
    return [Path(part) for part in os.environ.get("PLANNER_DATA", "").split(os.pathsep) if part]


def with_inputs(plan: "Plan", question: "Scenario") -> "Plan":
    """A plan with what it was made from, as its JSON states it."""
    from planner import __version__
    from planner.studies.plan_inputs import plan_inputs

    return plan.model_copy(update={"inputs": plan_inputs(question, plan, __version__, data_dirs())})


def write_files(*files: "tuple[Path | None, Callable[[Path], object]]") -> None:
    """Write the files that a command is asked for, then say so on stderr.

    A command calls it before it prints its answer: whoever reads that may leave before its end, as `head` does, and has
    the files all the same.

    Args:
        files: each path with what writes it; None: no such file is asked for.
    """
    answer = ANSWER.get()
    assert answer is None or not answer.is_printed, "files come before the answer"
    asked = [(path, write) for path, write in files if path is not None]
    for path, write in asked:
        write(path)
    for path, _ in asked:
        with suppress(OSError):  # whoever read it has gone
            typer.echo(f"wrote {path}", err=True)


def n_lines(parts: "Iterable[RenderableType]") -> int:
    """Lines that parts take on the terminal."""
    from rich.console import Console

    console = Console(width=width(), highlight=False, markup=False, emoji=False, force_terminal=False)
    return sum(len(console.render_lines(part)) for part in parts)


def print_rich(*parts: "RenderableType") -> None:
    """Print tables, in a pipe just as in a terminal."""
    from rich.console import Console

    class Tables(Console):
        """A console that leaves a reader's leaving to whoever ends the command."""

        def on_broken_pipe(self) -> None:
            raise

    console = Tables(width=width(), highlight=False, markup=False, emoji=False, force_terminal=False)
    if answer := ANSWER.get():
        answer.is_printed = True
    for part in parts:
        console.print(part)


def width() -> int:
    """Columns of tables: what COLUMNS says, else what the terminal has, and no more than WIDTH."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isascii() and stated.isdigit() and int(stated):
        columns = int(stated)
    else:
        columns = WIDTH
        if sys.stdout is not None and sys.stdout.isatty():
            columns = os.get_terminal_size(sys.stdout.fileno()).columns or WIDTH
    return min(max(columns, LEAST_WIDTH), WIDTH)


@contextmanager
def noted_where_infeasible(notes: "Callable[[], Iterable[str]]") -> Iterator[None]:
    """Says on stderr what is to be known of a question that no plan answers: a plan would have said it."""
    from planner.errors import InfeasibleError

    try:
        yield
    except InfeasibleError:
        for text in notes():
            typer.echo(f"note: {text}", err=True)
        raise


def print_json(content: Any) -> None:
    """Print one JSON value."""
    import json

    is_unicode = getattr(sys.stdout, "encoding", "utf-8").lower().startswith("utf")
    text = json.dumps(content, indent=2, ensure_ascii=not is_unicode, allow_nan=False)
    if answer := ANSWER.get():
        answer.is_printed = True
    typer.echo(text)
