"""`planner schedulers`: what the system's own scheduling is worth."""

from functools import partial
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
    write_files,
)
from planner.cli.memory import check_memory
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
    from planner.executor.run_question import RunQuestion
    from planner.jobs import Workers
    from planner.report.figure_files import write_schedulers
    from planner.report.scheduler_tables import scheduler_tables
    from planner.studies.scheduling import compare_schedulers

    question = RunQuestion(requests, seed, load, replications)
    check_figure(figure)
    asked = scenario_read(scenario, overrides or ())
    check_memory(asked, question, Workers(workers), keep=True)
    planned = plan_of(asked, plan, time_limit_s)
    with progress_bar(f"running {asked.name}") as update:
        found, series = compare_schedulers(asked, planned, question, data_dirs(), lambda _, done: update(done), workers)
    write_files((figure, partial(write_schedulers, found, series)))
    if format_ is Format.JSON:
        print_json(found.answer())
    else:
        print_rich(*scheduler_tables(found))
