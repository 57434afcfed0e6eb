"""`planner profiles`: the catalogue of accelerators, models and stacks, and its gate."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import completion
from planner.cli.common import Format, FormatOption, asked_for, print_json, print_rich
from planner.cli.progress import progress

if TYPE_CHECKING:
    from rich.console import RenderableType

    from planner.errors import Problem
    from planner.profiles import ProfileCheck
    from planner.profiles.catalogue import AnyProfile

app = typer.Typer(
    help="Accelerators, models and stacks: list, show, check.", no_args_is_help=True, rich_markup_mode=None
)


class CheckFormat(StrEnum):
    """How problems are printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


class SchemaKind(StrEnum):
    """Kinds of profile files."""

    HARDWARE = "hardware"
    MODEL = "model"
    STACK = "stack"


@app.command("list")
def list_profiles(format_: FormatOption = Format.TEXT) -> None:
    """List every accelerator, model and stack that has a profile."""
    from planner.cli import catalogue_tables as tables
    from planner.cli.stack_tables import stack_summary, stacks_table
    from planner.profiles import hardware_profile, model_profile, profile_names, stack_profile

    hardware = [hardware_profile(name) for name in profile_names("hardware")]
    models = [model_profile(name) for name in profile_names("model")]
    stacks = [stack_profile(name) for name in profile_names("stack")]
    if format_ is Format.JSON:
        found = {"hardware": [*map(tables.summary, hardware)], "models": [*map(tables.summary, models)]}
        print_json({**found, "stacks": [*map(stack_summary, stacks)]})
    else:
        print_rich(tables.hardware_table(hardware), tables.models_table(models), stacks_table(stacks))


@app.command("show")
def show_profile(
    name: Annotated[
        str,
        typer.Argument(
            help="Name, alias or path of a profile.", metavar="PROFILE", autocompletion=completion.profile_names
        ),
    ],
    format_: FormatOption = Format.TEXT,
) -> None:
    """Show one profile: every figure with its source."""
    from planner.cli.catalogue_tables import sources_table
    from planner.profiles import profile

    found = profile(name)
    if format_ is Format.JSON:
        print_json(found.model_dump(mode="json", by_alias=True, exclude_none=True))
        return
    print_rich(found.title, *_tables_of(found), sources_table(found.sources))


def _tables_of(found: "AnyProfile") -> list["RenderableType"]:
    from planner.cli import catalogue_tables as tables
    from planner.cli.stack_tables import stack_tables
    from planner.profiles import HardwareProfile, ModelProfile

    if isinstance(found, HardwareProfile):
        return [f"Status: {found.status}", *tables.figures_tables(found)]
    if isinstance(found, ModelProfile):
        return [tables.shapes_table(found), *tables.measured_tables(found)]
    return [*stack_tables(found)]


@app.command("check", short_help="Check profile files; exit 6 with every problem.")
def check_files(
    paths: Annotated[list[Path] | None, typer.Argument(help="Files or folders; all shipped profiles if none.")] = None,
    format_: Annotated[
        CheckFormat, typer.Option("--format", callback=asked_for, help="Lines, JSON, or workflow annotations.")
    ] = (CheckFormat.TEXT),
) -> None:
    """Check profile files; exit 6 and print every problem when they do not hold."""
    from planner.errors import CheckFailedError
    from planner.profiles import check_profiles

    with progress("checking profiles"):
        found = check_profiles(paths or ())
    if format_ is CheckFormat.JSON:
        print_json([_problem_fields(problem) for problem in found.problems])
    else:
        typer.echo(_check_report(found, format_))
    if not found.holds:
        raise typer.Exit(CheckFailedError.exit_code)


@app.command("schema")
def print_schema(kind: Annotated[SchemaKind, typer.Argument(metavar="KIND", help="hardware, model or stack.")]) -> None:
    """Print the JSON Schema of a kind of profile."""
    from planner.profiles.catalogue import RECORDS

    schema = RECORDS[f"planner.{kind}/1"].model_json_schema()
    print_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


def _check_report(found: "ProfileCheck", format_: CheckFormat) -> str:
    if found.holds:
        return f"{found.n_files} profiles hold"
    return "\n".join(_annotation(p) if format_ is CheckFormat.GITHUB else str(p) for p in found.problems)


def _problem_fields(problem: "Problem") -> dict[str, Any]:
    return {"file": problem.file, "line": problem.line, "key": problem.key, "message": _message(problem)}


def _message(problem: "Problem") -> str:
    return f"{problem.message} ({problem.allowed})" if problem.allowed else problem.message


def _annotation(problem: "Problem") -> str:
    """A GitHub workflow command; a problem without a line points at the file."""
    line = "" if problem.line is None else f",line={problem.line}"
    text = f"{problem.key}: {_message(problem)}" if problem.key else _message(problem)
    return f"::error file={_escaped(problem.file, ':,')}{line}::{_escaped(text)}"


def _escaped(text: str, also: str = "") -> str:
    for character in "%\r\n" + also:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


@app.command("import")
def import_config(
    path: Annotated[Path, typer.Argument(help="A config.json of Hugging Face.", metavar="CONFIG")],
    name: Annotated[str | None, typer.Option(help="Name of the profile; by default --out's or the config's.")] = None,
    precision: Annotated[str | None, typer.Option(help="Precision of the weights, if the config is silent.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write; standard output if none.")] = None,
) -> None:
    """Make a model profile from a config; refuse what cannot be mapped rather than guess."""
    from planner.files import write_text
    from planner.profiles.importer import import_profile

    found = import_profile(path, name or (out.stem if out else None), precision)
    for key in found.unmapped:
        typer.echo(f"not mapped: {key}", err=True)
    if out is None:
        typer.echo(found.text, nl=False)
    else:
        write_text(out, found.text)
        typer.echo(f"wrote {out}", err=True)
