"""`planner report`: a case as a folder of Markdown and figures."""

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.common import ScenarioArgument, TimeLimitOption, data_dirs
from planner.cli.progress import progress


def report(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the report.")],
    scenario: ScenarioArgument = "prfaas-paper",
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 6 when the folder is stale.")] = False,
    time_limit_s: TimeLimitOption = 60.0,
) -> None:
    """Write a cost report of a scenario, or check that a committed one is current."""
    from planner.errors import CheckFailedError
    from planner.report import check_report, write_report
    from planner.scenario import read_scenario, scenario_path
    from planner.schema import read_text
    from planner.studies import build_case

    text = read_text(scenario_path(scenario))
    question = read_scenario(scenario)
    with progress(f"planning {question.name} and its variants") as tell:
        case = build_case(question, data_dirs(), time_limit_s, lambda text: tell(f"{question.name}: {text}"))
    if not check:
        with progress(f"drawing {question.name}"):
            write_report(case, out, text)
        typer.echo(f"{out / 'report.md'}")
    elif stale := check_report(case, out, text):
        listed = "\n".join(f"  - {item}" for item in stale)
        raise CheckFailedError(f"{out} is stale:\n{listed}\nRun: planner report {scenario} --out {out}")
    else:
        typer.echo(f"{out} is current")
