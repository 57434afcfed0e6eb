"""Every command under its heading: what the help says of it, and where it is."""

from typing import Annotated

import typer

from planner.cli.groups import HELP_OPTIONS, Entry, PlannerGroup

PLAN, RUN, PREDICT, PROFILES = "Plan", "Run", "Predict and measure", "Profiles"
"""Headings of the help."""


class Commands(PlannerGroup):
    """The commands of the planner; the module of one loads when it is called."""

    entries = {
        "optimize": Entry(PLAN, "optimize:optimize", "Plan a scenario: sizes, threshold, link and cost."),
        "size": Entry(PLAN, "size:size", "Size a demand without a scenario: colocated beside disaggregated."),
        "explain": Entry(PLAN, "explain:explain", "How the numbers of a plan hang together, in ten statements."),
        "diff": Entry(PLAN, "diff:diff", "What is different between two plans, and why."),
        "sweep": Entry(PLAN, "sweep:sweep", "One plan per point of a grid."),
        "export": Entry(PLAN, "export:export", "Write what deploys a plan: manifests or launch commands."),
        "explore": Entry(PLAN, "explore:explore", "Write a page in which a plan is turned and looked at."),
        "report": Entry(PLAN, "report:report", "Write a cost report, or check a committed one."),
        "simulate": Entry(RUN, "simulate:simulate", "Run a plan request by request."),
        "validate": Entry(RUN, "validate:validate", "Hold a plan against its run."),
        "schedulers": Entry(RUN, "schedulers:schedulers", "What the system's own scheduling is worth."),
        "live": Entry(RUN, "live:live", "Serve a small model on this machine, as predicted."),
        "predict": Entry(PREDICT, "predict:predict", "Times, KV bytes and memory of a model on hardware."),
        "fidelity": Entry(PREDICT, "fidelity:fidelity", "Hold predictions against measured serving points."),
        "calibrate": Entry(PREDICT, "calibrate:calibrate", "Fit a stack profile to measured serving points."),
        "scenario": Entry(PLAN, "scenario:app", "Scenarios: list, show, start or check them, print the schema."),
        "profiles": Entry(PROFILES, "profiles:app", "Accelerators, models and stacks: list, show, check, import, new."),
    }


app = typer.Typer(
    name="planner",
    cls=Commands,
    context_settings=HELP_OPTIONS,
    help="How many of which chips, where, in which ratio, behind which threshold and link, and at what cost.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the plain help loads in half the time of the framed one
)


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
