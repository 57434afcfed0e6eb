"""Options and steps that several commands share."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH = 100
MOST_SEED = 2**63 - 1


class Format(StrEnum):
    """How an answer is printed."""

    TEXT = "text"
    JSON = "json"


ScenarioArgument = Annotated[
    str, typer.Argument(metavar="SCENARIO", help="A bundled scenario, or the path of a TOML file.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the scenario, such as pools.pd-p.n_instances=3."),
]
FormatOption = Annotated[Format, typer.Option("--format", help="Tables, or one JSON object.")]
TimeLimitOption = Annotated[
    float, typer.Option("--time-limit", min=0.1, metavar="SECONDS", help="Longest search for one plan.")
]


def data_dirs() -> list[Path]:
    """Folders in which traces are looked for: the PLANNER_DATA environment variable, separated as PATH is."""
    return [Path(part) for part in os.environ.get("PLANNER_DATA", "").split(os.pathsep) if part]


def print_rich(*parts: "RenderableType") -> None:
    """Print tables at a fixed width, so that the answer is the same in a terminal and a pipe."""
    from rich.console import Console

    console = Console(width=WIDTH, highlight=False, markup=False, emoji=False, force_terminal=False)
    for part in parts:
        console.print(part)


def print_json(content: Any) -> None:
    """Print one JSON value."""
    import json

    typer.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


@contextmanager
def progress(text: str, after_s: float = 0.0) -> Iterator[Callable[[str], None]]:
    """A spinner on stderr while something takes its time; nothing where stderr is no terminal.

    Args:
        text: what is going on.
        after_s: how long it may take before it is worth a word [s].

    Yields:
        What changes the text.
    """
    from threading import Timer

    from rich.console import Console

    status = Console(stderr=True).status(text)
    timer = Timer(after_s, status.start)
    timer.daemon = True
    (timer.start if after_s else status.start)()
    try:
        yield status.update
    finally:
        timer.cancel()
        if after_s:
            timer.join()
        status.stop()
