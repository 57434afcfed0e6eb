"""`planner profiles`: the catalogue of accelerators and models, and its gate."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from planner.errors import CheckFailedError, Problem
from planner.profiles import (
    HardwareProfile,
    MeasuredInstance,
    ModelProfile,
    ProfileCheck,
    check_profiles,
    hardware_profile,
    model_profile,
    profile,
    profile_names,
)
from planner.units import number

WIDTH = 100

app = typer.Typer(help="Accelerators and models: list, show, check.", no_args_is_help=True)


class Format(StrEnum):
    """How an answer is printed."""

    TEXT = "text"
    JSON = "json"


class CheckFormat(StrEnum):
    """How problems are printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


class SchemaKind(StrEnum):
    """Kinds of profile files."""

    HARDWARE = "hardware"
    MODEL = "model"


FormatOption = Annotated[Format, typer.Option("--format", help="Tables, or one JSON object.")]


@app.command("list")
def list_profiles(format_: FormatOption = Format.TEXT) -> None:
    """List every accelerator and model that has a profile."""
    hardware = [hardware_profile(name) for name in profile_names("hardware")]
    models = [model_profile(name) for name in profile_names("model")]
    if format_ is Format.JSON:
        _print_json({"hardware": [_summary(item) for item in hardware], "models": [_summary(item) for item in models]})
    else:
        _print(_hardware_table(hardware), _models_table(models))


@app.command("show")
def show_profile(
    name: Annotated[str, typer.Argument(help="Name, alias or path of a profile.", metavar="PROFILE")],
    format_: FormatOption = Format.TEXT,
) -> None:
    """Show one profile: every figure with its source."""
    found = profile(name)
    if format_ is Format.JSON:
        _print_json(found.model_dump(mode="json", by_alias=True, exclude_none=True))
    elif isinstance(found, HardwareProfile):
        _print(f"{found.title} ({found.status})", _figures_table(found), _sources_table(found.sources))
    else:
        _print(found.title, _shapes_table(found), *_measured_tables(found), _sources_table(found.sources))


@app.command("check")
def check_files(
    paths: Annotated[list[Path] | None, typer.Argument(help="Files or folders; all shipped profiles if none.")] = None,
    format_: Annotated[CheckFormat, typer.Option("--format", help="Lines, JSON, or workflow annotations.")] = (
        CheckFormat.TEXT
    ),
) -> None:
    """Check profile files; exit 6 and print every problem when they do not hold."""
    found = check_profiles(paths or ())
    typer.echo(_check_report(found, format_))
    if not found.holds:
        raise typer.Exit(CheckFailedError.exit_code)


@app.command("schema")
def print_schema(kind: Annotated[SchemaKind, typer.Argument(help="Kind of profile.")]) -> None:
    """Print the JSON Schema of a kind of profile."""
    record = HardwareProfile if kind is SchemaKind.HARDWARE else ModelProfile
    _print_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **record.model_json_schema()})


def _check_report(found: ProfileCheck, format_: CheckFormat) -> str:
    if format_ is CheckFormat.JSON:
        return json.dumps([_problem_fields(problem) for problem in found.problems], indent=2, ensure_ascii=False)
    if found.holds:
        return f"{found.n_files} profiles hold"
    return "\n".join(_annotation(p) if format_ is CheckFormat.GITHUB else str(p) for p in found.problems)


def _problem_fields(problem: Problem) -> dict[str, Any]:
    return {"file": problem.file, "line": problem.line, "key": problem.key, "message": _message(problem)}


def _message(problem: Problem) -> str:
    return f"{problem.message} ({problem.allowed})" if problem.allowed else problem.message


def _annotation(problem: Problem) -> str:
    """A GitHub workflow command; a problem without a line points at the file."""
    line = "" if problem.line is None else f",line={problem.line}"
    text = f"{problem.key}: {_message(problem)}" if problem.key else _message(problem)
    return f"::error file={_escaped(problem.file, ':,')}{line}::{_escaped(text)}"


def _escaped(text: str, also: str = "") -> str:
    for character in "%\r\n" + also:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _print(*parts: Table | str) -> None:
    # A fixed width keeps the answer the same whatever terminal or pipe it goes to.
    console = Console(width=WIDTH, highlight=False, markup=False, emoji=False)
    for part in parts:
        console.print(part)


def _print_json(content: dict[str, Any]) -> None:
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))


def _summary(item: HardwareProfile | ModelProfile) -> dict[str, Any]:
    return {"name": item.name, "title": item.title, "aliases": list(item.aliases)}


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column == columns[0])
    return table


def _hardware_table(profiles: list[HardwareProfile]) -> Table:
    headings = ("status", "generation", "bf16 TFLOP/s", "fp8 TFLOP/s", "memory GB", "memory TB/s", "NIC Gbps")
    table = _table("Hardware", "name", *headings)
    for item in profiles:
        figures = item.figures
        shown = (figures.bf16_tflops, figures.fp8_tflops, figures.memory_gb, figures.memory_bandwidth_tb_per_s)
        numbers = [number(figure.value if figure else None, 4) for figure in (*shown, figures.nic_gbps)]
        table.add_row(item.name, item.status, item.generation, *numbers)
    return table


def _models_table(profiles: list[ModelProfile]) -> Table:
    table = _table("Models", "name", "precision", "parameters 1e9", "active 1e9", "attention layers", "measured")
    for item in profiles:
        counts = (item.published.total_parameters, item.published.active_parameters)
        billions = [number(count.value / 1e9 if count else None, 4) for count in counts]
        table.add_row(item.name, item.precision, *billions, _layers(item), ", ".join(item.measured))
    return table


def _layers(item: ModelProfile) -> str:
    return " + ".join(f"{group.n_layers} {group.kind}" for group in item.architecture.attention)


def _figures_table(item: HardwareProfile) -> Table:
    table = _table("Figures", "figure", "value", "basis", "source", "note")
    for key, figure in item.figures:
        if figure is not None:
            table.add_row(key, f"{figure.value:.10g}", figure.basis, figure.source, figure.note or "")
    return table


def _sources_table(sources: dict[str, str]) -> Table:
    table = _table("Sources", "id", "source")
    for key, text in sources.items():
        table.add_row(key, text)
    return table


def _shapes_table(item: ModelProfile) -> Table:
    table = _table(f"Shapes ({item.architecture.basis})", "key", "value")
    table.add_row("precision", item.precision)
    for part in (item.published, item.architecture):
        for key, text in _rows(part):
            table.add_row(key, text)
    return table


def _rows(record: BaseModel) -> list[tuple[str, str]]:
    """Keys and values of a record and of the records in it; what is unknown is left out."""
    rows: list[tuple[str, str]] = []
    for key, value in record:
        if isinstance(value, BaseModel):
            rows += [(f"{key}.{inner}", text) for inner, text in _rows(value)]
        elif isinstance(value, tuple):
            rows += [(key, _described(group)) for group in value]
        elif value is not None:
            rows.append((key, str(value)))
    return rows


def _described(group: BaseModel) -> str:
    return ", ".join(f"{key} = {text}" for key, text in _rows(group))


def _measured_tables(item: ModelProfile) -> list[Table]:
    return [_measured_table(name, instance) for name, instance in item.measured.items()]


def _measured_table(name: str, instance: MeasuredInstance) -> Table:
    where = f"{instance.n_accelerators} x {instance.hardware}, {instance.precision}, {instance.basis}"
    table = _table(f"Measured {name}: {where}", "key", "value")
    for key in ("stack", "source", "how", "note"):
        if text := getattr(instance, key):
            table.add_row(key, text)
    for key, curve in (("prefill", instance.prefill), ("kv", instance.kv), ("decode", instance.decode)):
        for field, value in curve or ():
            if value is not None:
                table.add_row(f"{key}.{field}", ", ".join(map(str, value)) if isinstance(value, tuple) else str(value))
    return table
