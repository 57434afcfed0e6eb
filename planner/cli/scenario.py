"""`planner scenario`: start a scenario, check one, and its schema."""

from typing import Annotated

import typer

from planner.cli.common import data_dirs, print_json
from planner.cli.new_scenario import new

app = typer.Typer(
    help="Scenarios: start one, check one, print the schema.", no_args_is_help=True, rich_markup_mode=None
)


app.command("new", short_help="Write a commented scenario to start from.")(new)


@app.command("check", short_help="Check a scenario and everything it names.")
def check(file: Annotated[str, typer.Argument(metavar="FILE", help="A bundled scenario or a TOML file.")]) -> None:
    """Check a scenario: its keys, names, comparisons and traces, and whether a plan can be asked of it."""
    from planner.optimizer import network_problem, planning_problem
    from planner.scenario import read_scenario

    scenario = read_scenario(file)
    for name in scenario.comparisons:
        scenario.compared(name)
    problem = (network_problem if scenario.is_network else planning_problem)(scenario, data_dirs())
    typer.echo(
        f"{file}: holds ({len(problem.pools)} pools, {len(problem.links)} links, {len(problem.classes)} classes)"
    )


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of a scenario, for editors."""
    from planner.scenario import Scenario

    print_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **Scenario.model_json_schema()})
