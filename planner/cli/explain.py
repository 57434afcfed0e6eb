"""`planner explain`: how the numbers of a plan hang together."""

from typing import Annotated

import typer

from planner.cli.common import Format, FormatOption, SetOption, TimeLimitOption, print_json, print_rich
from planner.cli.completion import scenario_names
from planner.cli.plan_argument import plans_of


def explain(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PLAN|SCENARIO",
            help="An answer of `optimize --format json`, or a scenario, which is planned first.",
            autocompletion=scenario_names,
        ),
    ],
    overrides: SetOption = None,
    format_: FormatOption = Format.TEXT,
    time_limit_s: TimeLimitOption = 60.0,
) -> None:
    """How the numbers of a plan hang together: at most ten statements, each with the figures it rests on."""
    from planner.report.explained import explanation, explanation_tables

    (plan,) = plans_of([(source, overrides or ())], time_limit_s)
    found = explanation(plan)
    if format_ is Format.JSON:
        print_json(found.answer())
    else:
        print_rich(*explanation_tables(found))
