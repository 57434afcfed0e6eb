"""`planner sweep`: one plan per point of a grid of scenario keys."""

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.common import (
    Format,
    FormatOption,
    ScenarioArgument,
    SetOption,
    TimeLimitOption,
    data_dirs,
    print_json,
    print_rich,
)
from planner.cli.progress import progress
from planner.cli.simulate import DaskOption, WorkersOption, workers_of


def sweep(
    scenario: ScenarioArgument,
    over: Annotated[
        list[str],
        typer.Option("--over", metavar="KEY=A,B,...", help="Values of a key: links.wan.capacity_gbps=1,10,100."),
    ],
    workers: WorkersOption = 1,
    dask: DaskOption = None,
    table: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write one row per point.")] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the highest rate over the last key: .png or .svg.")
    ] = None,
    overrides: SetOption = None,
    format_: FormatOption = Format.TEXT,
    time_limit_s: TimeLimitOption = 60.0,
) -> None:
    """Plan a scenario at every point of a grid of its keys; a point without a plan says why."""
    from planner.report import sweep_tables, write_sweep_csv, write_sweep_figure
    from planner.studies.plan_sweep import plan_sweep

    grid = values_of(over)
    check_files(table, figure)
    by = workers_of(workers, dask)
    with progress(f"planning {scenario}"):
        found = plan_sweep(scenario, grid, overrides or (), data_dirs(), time_limit_s, by)
    for path, write in ((table, write_sweep_csv), (figure, write_sweep_figure)):
        if path is not None:
            write(found, path)
            typer.echo(f"wrote {path}", err=True)
    if format_ is Format.JSON:
        print_json(found.answer())
    else:
        print_rich(*sweep_tables(found))


def values_of(over: list[str]) -> dict[str, list[str]]:
    """Keys and their values.

    Raises:
        UsageError: one is not KEY=A,B,... or a key is named twice.
    """
    from planner.errors import UsageError

    found: dict[str, list[str]] = {}
    for text in over:
        key, _, values = text.partition("=")
        parts = [value.strip() for value in values.split(",")]
        if not key.strip() or not all(parts):
            raise UsageError(f"--over {text}: is not KEY=A,B,... such as links.wan.capacity_gbps=1,10,100")
        if key.strip() in found:
            raise UsageError(f"--over {text}: names {key.strip()} again")
        found[key.strip()] = parts
    return found


def check_files(table: Path | None, figure: Path | None) -> None:
    """Say before any work that files cannot be written.

    Raises:
        UsageError: an unknown kind of figure.
        InputError: a folder is not there.
    """
    from planner.cli.predict import check_figure
    from planner.report import check_folder

    check_figure(figure)
    for path in (table, figure):
        if path is not None:
            check_folder(path)
