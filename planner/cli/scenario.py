"""`planner scenario`: start a scenario, check one, and its schema."""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from planner.cli.common import data_dirs, print_json, print_rich
from planner.cli.completion import scenario_names
from planner.cli.gate import GateFormat, GateFormatOption, print_gate
from planner.cli.new_scenario import new
from planner.cli.progress import progress
from planner.cli.trace_options import scenario_read

app = typer.Typer(
    help="Scenarios: list, show, start or check them, print the schema.", no_args_is_help=True, rich_markup_mode=None
)


app.command("new", short_help="Write a commented scenario to start from.")(new)


@app.command("list")
def list_scenarios() -> None:
    """List the bundled scenarios, which every command takes by name."""
    from planner.cli.catalogue_tables import titled_table
    from planner.scenario import bundled_scenarios, read_scenario

    table = titled_table("Bundled scenarios", "name", "title")
    for name in bundled_scenarios():
        table.add_row(name, read_scenario(name).title or "")
    print_rich(table)


@app.command("show")
def show(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="A bundled name, or a file.", autocompletion=scenario_names)
    ],
) -> None:
    """Print the file of a scenario, to copy one that is bundled: planner scenario show prfaas-paper > mine.toml."""
    from planner.scenario import scenario_path
    from planner.schema import read_text

    typer.echo(read_text(scenario_path(scenario)), nl=False)


@app.command("check", short_help="Check scenarios and everything they name.")
def check(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE", help="TOML files, folders with all below, or bundled names.", autocompletion=scenario_names
        ),
    ],
    skip_others: Annotated[
        bool, typer.Option("--skip-others", help="Leave out files that state no scenario: for hooks that name all.")
    ] = False,
    format_: GateFormatOption = GateFormat.TEXT,
) -> None:
    """Check scenarios: keys, names, comparisons and traces, and whether a plan can be asked of them.

    Every problem is told: exit 3, or 4 where all that is wrong is that no plan can be. In a folder the files are
    checked that state the schema of scenarios, and those called scenario.toml.
    """
    from planner.errors import InputError, PlannerError, Problem

    held: list[str] = []
    failures: list[PlannerError] = []
    problems: list[Problem] = []
    asked = list(dict.fromkeys(_scenarios(files, skip_others)))
    for file in asked:
        try:
            with progress(f"checking {file}"):
                held.append(_held(file))
        except PlannerError as error:
            failures.append(error)
            problems += error.problems if isinstance(error, InputError) else [Problem(file, "", str(error))]
    if format_ is GateFormat.TEXT and failures:
        typer.echo("".join(f"{line}\n" for line in held), nl=False)
        raise InputError(problems) if any(isinstance(error, InputError) for error in failures) else failures[0]
    print_gate(problems, format_, "\n".join(held) or "no scenario is among these files")
    if failures:
        raise typer.Exit(min(error.exit_code for error in failures))


def _scenarios(files: Iterable[str], skip_others: bool) -> Iterator[str]:
    """Scenarios to check of what is named; a folder without any stands for itself, and is told."""
    from planner.scenario import bundled_scenarios
    from planner.scenario.bundled import is_scenario, scenarios_below

    bundled = bundled_scenarios()
    for file in files:
        path = Path(file)
        if file not in bundled and path.is_dir():
            found = scenarios_below(path)
            yield from map(str, found if found or skip_others else [path])
        elif not skip_others or file in bundled or is_scenario(path):
            yield file


def _held(file: str) -> str:
    """Line on a scenario that holds, and its notes. Raises PlannerError where it does not."""
    from planner.optimizer import posed
    from planner.scenario import question_notes

    scenario = scenario_read(file)
    for name in scenario.comparisons:
        scenario.compared(name)
    problem = posed(scenario, data_dirs())
    counted = (
        (len(scenario.pools), "pool", "s"),
        (len(problem.links), "link", "s"),
        (len(problem.classes), "class", "es"),
    )
    counts = ", ".join(f"{n} {noun}{end if n != 1 else ''}" for n, noun, end in counted)
    return "\n".join([f"{file}: holds ({counts})", *(f"{file}: note: {text}" for text in question_notes(scenario))])


class SchemaFormat(StrEnum):
    """Format that the schema is printed in."""

    JSON = "json"
    MARKDOWN = "markdown"


@app.command("schema", short_help="Every key of a scenario.")
def schema(
    format_: Annotated[SchemaFormat, typer.Option("--format", help="JSON Schema, or a page to read.")] = (
        SchemaFormat.JSON
    ),
) -> None:
    """Print every key of a scenario: as JSON Schema, for editors, or as a page to read."""
    from planner.documented import documented_schema
    from planner.scenario import Scenario

    if format_ is SchemaFormat.MARKDOWN:
        from planner.report.scenario_keys import scenario_keys_page

        typer.echo(scenario_keys_page(), nl=False)
        return
    print_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **documented_schema(Scenario)})
