"""Output of gates: every problem as a line, as JSON, or as annotations of a workflow."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from planner.cli.common import print_json, remember_format
from planner.errors import InputProblem

SCHEMA = "planner.problem/1"
"""Of every entry of the JSON list: a list has no place for one of its own."""


class GateFormat(StrEnum):
    """Format that problems are printed in."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


GateFormatOption = Annotated[
    GateFormat, typer.Option("--format", callback=remember_format, help="Lines, JSON, or workflow annotations.")
]


def print_gate(problems: Sequence[InputProblem], format_: GateFormat, held: str) -> None:
    """Print every problem, or what is said where there is none."""
    if format_ is GateFormat.JSON:
        print_json([_fields(problem) for problem in problems])
        return
    lines = [_annotation(p) if format_ is GateFormat.GITHUB else str(p) for p in problems]
    typer.echo("\n".join(lines) or held)


def _fields(problem: InputProblem) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "file": problem.file,
        "line": problem.line,
        "key": problem.key,
        "message": _message(problem),
    }


def _message(problem: InputProblem) -> str:
    return f"{problem.message} ({problem.allowed})" if problem.allowed else problem.message


def _annotation(problem: InputProblem) -> str:
    """A GitHub workflow command; a problem without a line points at the file."""
    line = "" if problem.line is None else f",line={problem.line}"
    text = f"{problem.key}: {_message(problem)}" if problem.key else _message(problem)
    return f"::error file={_escaped(problem.file, ':,')}{line}::{_escaped(text)}"


def _escaped(text: str, also: str = "") -> str:
    for character in "%\r\n" + also:
        text = text.replace(character, f"%{ord(character):02X}")
    return text
