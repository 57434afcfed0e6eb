"""`planner scenario`: start a scenario, check one, and its schema."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import data_dirs, print_json
from planner.cli.gate import GateFormat, GateFormatOption, gate_report
from planner.cli.new_scenario import new

if TYPE_CHECKING:
    from planner.errors import Problem

app = typer.Typer(
    help="Scenarios: start one, check one, print the schema.", no_args_is_help=True, rich_markup_mode=None
)


app.command("new", short_help="Write a commented scenario to start from.")(new)


@app.command("check", short_help="Check scenarios and everything they name.")
def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="TOML files, or bundled scenarios.")],
    format_: GateFormatOption = GateFormat.TEXT,
) -> None:
    """Check scenarios: keys, names, comparisons and traces, and whether a plan can be asked of them.

    Exit 6 and print every problem when they do not hold.
    """
    from planner.errors import CheckFailedError

    held: list[str] = []
    problems: list[Problem] = []
    for file in dict.fromkeys(files):
        text, found = _checked(file)
        problems += found
        held += [] if found else [text]
    if problems and format_ is GateFormat.TEXT:
        for line in held:
            typer.echo(line)
    typer.echo(gate_report(problems, format_, "\n".join(held)))
    if problems:
        raise typer.Exit(CheckFailedError.exit_code)


def _checked(file: str) -> "tuple[str, tuple[Problem, ...]]":
    """What is said of a scenario that holds, or every problem of one that does not."""
    from planner.errors import InputError, PlannerError, Problem
    from planner.optimizer import network_problem, planning_problem
    from planner.scenario import read_scenario

    try:
        scenario = read_scenario(file)
        for name in scenario.comparisons:
            scenario.compared(name)
        problem = (network_problem if scenario.is_network else planning_problem)(scenario, data_dirs())
    except InputError as error:
        return "", error.problems
    except PlannerError as error:
        return "", (Problem(file, "", str(error)),)
    counts = f"{len(problem.pools)} pools, {len(problem.links)} links, {len(problem.classes)} classes"
    return f"{file}: holds ({counts})", ()


class SchemaFormat(StrEnum):
    """How the schema is printed."""

    JSON = "json"
    MARKDOWN = "markdown"


@app.command("schema", short_help="Every key of a scenario.")
def schema(
    format_: Annotated[SchemaFormat, typer.Option("--format", help="JSON Schema, or a page to read.")] = (
        SchemaFormat.JSON
    ),
) -> None:
    """Print every key of a scenario: as JSON Schema, for editors, or as a page to read."""
    from planner.scenario import Scenario

    if format_ is SchemaFormat.MARKDOWN:
        from planner.report.scenario_keys import scenario_keys_page

        typer.echo(scenario_keys_page(), nl=False)
        return
    print_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **Scenario.model_json_schema()})
