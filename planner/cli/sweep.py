"""`planner sweep`: one plan per point of a grid of scenario keys."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    write_files,
)
from planner.cli.progress import progress
from planner.cli.simulate import DaskOption, WorkersOption, workers_of

if TYPE_CHECKING:
    from planner.results.plan_sweep import PlanSweep, SweepPoint


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
        Path | None, typer.Option(metavar="FILE", help="Draw objective and fleet over the last key: .png or .svg.")
    ] = None,
    overrides: SetOption = None,
    format_: FormatOption = Format.TEXT,
    time_limit_s: TimeLimitOption = 60.0,
) -> None:
    """Plan a scenario at every point of a grid of its keys, and mark the best by the scenario's objective.

    A point without a plan says why and leaves the others as they are. Exit code: 0 where every point is planned or
    proven infeasible, 4 where none has a plan, else 3 (bad input) or 5 (undecided) as of the points themselves. What
    was finished is also printed and written when the sweep is interrupted (130).
    """
    from planner.studies.plan_sweep import plan_sweep, planned_points, sweep_question

    grid = values_of(over)
    check_files(table, figure)
    by = workers_of(workers, dask)
    asked = sweep_question(scenario, grid, overrides or ())
    points: dict[int, SweepPoint] = {}
    try:
        with progress(f"planning {asked.name}") as update:
            for place, point in planned_points(asked, data_dirs(), time_limit_s, by):
                points[place] = point
                update(f"planning {asked.name}: {len(points)} of {len(asked.grid)} points")
    except BaseException as stop:  # an interrupt, too, leaves what was finished before it
        if points:
            typer.echo(f"stopped after {len(points)} of {len(asked.grid)} points", err=True)
            _give(plan_sweep(asked, points), table, figure, format_)
            _end_as(stop)
        raise
    found = plan_sweep(asked, points)
    _give(found, table, figure, format_)
    _end(found)


def _give(found: "PlanSweep", table: Path | None, figure: Path | None, format_: Format) -> None:
    """Write and print what was found."""
    from planner.report.chart_sweep import write_sweep_figure
    from planner.report.sweep_tables import sweep_tables, write_sweep_csv

    write_files((table, partial(write_sweep_csv, found)), (figure, partial(write_sweep_figure, found)))
    if format_ is Format.JSON:
        print_json(found.answer())
    else:
        print_rich(*sweep_tables(found))


def _end_as(stop: BaseException) -> None:
    """Exit for a reason that the answer does not hold, which is on stdout already."""
    from planner.errors import PlannerError

    if isinstance(stop, PlannerError):
        typer.echo(f"planner: {stop}", err=True)
        raise typer.Exit(stop.exit_code)


def _end(found: "PlanSweep") -> None:
    """Exit with the code of the whole; a bug is told in full."""
    from planner.errors import PlannerError

    bug = next((point.failure for point in found.points if point.failure and point.exit_code == 1), None)
    if bug is not None:
        raise PlannerError(bug)
    if found.exit_code:
        raise typer.Exit(found.exit_code)


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
    from planner.files import check_writable

    check_figure(figure)
    if table is not None:
        check_writable(table)
