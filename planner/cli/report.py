"""`planner report`: a case as a folder of Markdown and figures."""

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.common import ScenarioArgument, SetOption, TimeLimitOption, data_dirs
from planner.cli.progress import progress

TIME_LIMIT_S = 60.0


def report(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the report.")],
    scenario: ScenarioArgument = "prfaas-paper",
    overrides: SetOption = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 6 when the folder is stale.")] = False,
    time_limit_s: TimeLimitOption = TIME_LIMIT_S,
) -> None:
    """Write a cost report of a scenario, or check that a committed one is current.

    The scenario is copied into the folder, with paths in it that lead from there.
    """
    from planner.errors import CheckFailedError
    from planner.report import Rerun, check_report, write_report
    from planner.scenario import Move, load_scenario, scenario_path
    from planner.schema import read_text
    from planner.studies.case import build_case

    path, limit_s = scenario_path(scenario), None if time_limit_s == TIME_LIMIT_S else time_limit_s
    original, stated = read_text(path), tuple(overrides or ())
    move = Move(path.resolve().parent, out.resolve(), data_dirs())
    text, changes = move.text(original), tuple(map(move.override, stated))
    question = load_scenario(text, str(path), move.new, changes)
    again = Rerun(changes, limit_s, move.traces_found_elsewhere(original))
    with progress(f"planning {question.name} and its variants") as tell:
        case = build_case(question, data_dirs(), time_limit_s, lambda text: tell(f"{question.name}: {text}"))
    if not check:
        with progress(f"drawing {question.name}"):
            write_report(case, out, text, again)
        typer.echo(f"{out / 'report.md'}")
    elif stale := check_report(case, out, text, again):
        listed = "\n".join(f"  - {item}" for item in stale)
        command = Rerun(stated, limit_s).command(scenario, str(out))
        raise CheckFailedError(f"{out} is stale:\n{listed}\nRun: {command}")
    else:
        typer.echo(f"{out} is current")
