"""The command line: parse, call, render, exit. Heavy rooms load inside the commands, so that help is quick."""

import os
import sys
from typing import Annotated, NoReturn

import typer

from planner.cli import (
    calibrate,
    fidelity,
    live,
    optimize,
    predict,
    profiles,
    report,
    scenario,
    schedulers,
    simulate,
    sweep,
    validate,
)
from planner.errors import InputError, PlannerError

INTERRUPTED = 130

app = typer.Typer(
    name="planner",
    help="How many of which chips, where, in which ratio, behind which threshold and link, and at what cost.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the plain help loads in half the time of the framed one
    add_completion=False,
)
app.command("optimize", short_help="Plan a scenario: sizes, threshold, link and cost.")(optimize.optimize)
app.command("simulate", short_help="Run a plan request by request.")(simulate.simulate)
app.command("validate", short_help="Hold a plan against its run.")(validate.validate)
app.command("schedulers", short_help="What the system's own scheduling is worth.")(schedulers.schedulers)
app.command("sweep", short_help="One plan per point of a grid.")(sweep.sweep)
app.command("predict", short_help="Times, KV bytes and memory of a model on hardware.")(predict.predict)
app.command("fidelity", short_help="Hold predictions against measured serving points.")(fidelity.fidelity)
app.command("calibrate", short_help="Fit a stack profile to measured serving points.")(calibrate.calibrate)
app.command("live", short_help="Serve a small model on this machine, as predicted.")(live.live)
app.command("report", short_help="Write a cost report, or check a committed one.")(report.report)
app.add_typer(scenario.app, name="scenario")
app.add_typer(profiles.app, name="profiles")


def _print_version(wanted: bool) -> None:
    if wanted:
        from planner import __version__

        typer.echo(f"planner {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    del version


def main() -> None:
    """Run the command line; the only place that turns errors into exit codes."""
    try:
        app()
    except PlannerError as error:
        _end(error.exit_code, str(error))
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _end(INTERRUPTED, "interrupted")
        # Typer ends with 1 where the reader of a pipe has left: whoever left has seen enough.
        _end(0 if end.code == 1 else end.code)
    except OSError as error:
        _end(InputError.exit_code, f"the system refuses: {error}")


def _end(code: str | int | None, message: str = "") -> NoReturn:
    """Say why on stderr and exit; what stdout can no longer take is dropped without another complaint."""
    if message:
        sys.stderr.write(f"planner: {message}\n")
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
