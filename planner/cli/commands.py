"""Every command under its heading."""

from collections.abc import Callable
from typing import Annotated

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
from planner.cli.groups import HELP_OPTIONS, PlannerGroup

PLAN, RUN, PREDICT, PROFILES = "Plan", "Run", "Predict and measure", "Profiles"
"""Headings of the help."""

app = typer.Typer(
    name="planner",
    cls=PlannerGroup,
    context_settings=HELP_OPTIONS,
    help="How many of which chips, where, in which ratio, behind which threshold and link, and at what cost.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the plain help loads in half the time of the framed one
)


def _add(heading: str, name: str, command: Callable[..., None], short_help: str) -> None:
    app.command(name, short_help=short_help, rich_help_panel=heading)(command)


_add(PLAN, "optimize", optimize.optimize, "Plan a scenario: sizes, threshold, link and cost.")
_add(PLAN, "sweep", sweep.sweep, "One plan per point of a grid.")
_add(PLAN, "report", report.report, "Write a cost report, or check a committed one.")
app.add_typer(scenario.app, name="scenario", rich_help_panel=PLAN)
_add(RUN, "simulate", simulate.simulate, "Run a plan request by request.")
_add(RUN, "validate", validate.validate, "Hold a plan against its run.")
_add(RUN, "schedulers", schedulers.schedulers, "What the system's own scheduling is worth.")
_add(RUN, "live", live.live, "Serve a small model on this machine, as predicted.")
_add(PREDICT, "predict", predict.predict, "Times, KV bytes and memory of a model on hardware.")
_add(PREDICT, "fidelity", fidelity.fidelity, "Hold predictions against measured serving points.")
_add(PREDICT, "calibrate", calibrate.calibrate, "Fit a stack profile to measured serving points.")
app.add_typer(profiles.app, name="profiles", rich_help_panel=PROFILES)


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
