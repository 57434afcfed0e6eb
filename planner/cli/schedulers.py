"""`planner schedulers`: what the system's own scheduling is worth."""

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.common import (
    Format,
    FormatOption,
    ScenarioArgument,
    SetOption,
    TimeLimitOption,
    data_dirs,
    print_json,
    print_rich,
)
from planner.cli.progress import progress_bar
from planner.cli.simulate import (
    LoadOption,
    PlanOption,
    ReplicationsOption,
    RequestsOption,
    SeedOption,
    WorkersOption,
    plan_of,
)
from planner.cli.trace_options import scenario_read


def schedulers(
    scenario: ScenarioArgument = "prfaas-paper",
    plan: PlanOption = None,
    requests: RequestsOption = 400_000,
    seed: SeedOption = 0,
    load: LoadOption = None,
    replications: ReplicationsOption = 4,
    workers: WorkersOption = 1,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw thresholds and queues over time: .png or .svg.")
    ] = None,
    overrides: SetOption = None,
    format_: FormatOption = Format.TEXT,
    time_limit_s: TimeLimitOption = 60.0,
) -> None:
    """Run a plan under bursts, a day and a brownout: as planned, and with the short-term and long-term schedulers."""
    from planner.cli.predict import check_figure
    from planner.executor import RunQuestion
    from planner.report import check_folder, write_schedulers
    from planner.report.scheduler_tables import scheduler_tables
    from planner.studies.scheduling import compare_schedulers

    question = RunQuestion(requests, seed, load, replications)
    check_figure(figure)
    if figure is not None:
        check_folder(figure)
    asked = scenario_read(scenario, overrides or ())
    planned = plan_of(asked, plan, time_limit_s)
    with progress_bar(f"running {asked.name}") as say:
        found, series = compare_schedulers(asked, planned, question, data_dirs(), lambda _, done: say(done), workers)
    if figure is not None:
        write_schedulers(found, series, figure)
        typer.echo(f"wrote {figure}", err=True)
    if format_ is Format.JSON:
        print_json(found.answer())
    else:
        print_rich(*scheduler_tables(found))
