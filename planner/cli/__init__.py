"""The command line: parse, call, render, exit. Heavy rooms load inside the commands, so that help is quick."""

import os
import sys
from typing import Annotated

import typer

from planner.cli import optimize, profiles, report, scenario
from planner.errors import PlannerError

INTERRUPTED = 130

app = typer.Typer(
    name="planner",
    help="How many of which chips, where, in which ratio, behind which threshold and link, and at what cost.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the plain help loads in half the time of the framed one
    add_completion=False,
)
app.command("optimize")(optimize.optimize)
app.command("report")(report.report)
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
        sys.stderr.write(f"planner: {error}\n")
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("planner: interrupted\n")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Whoever read the answer has seen enough; keep the interpreter from complaining while it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
