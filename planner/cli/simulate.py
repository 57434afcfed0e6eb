"""`planner simulate`: a plan run request by request."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import (
    MOST_SEED,
    Format,
    FormatOption,
    ScenarioArgument,
    SetOption,
    TimeLimitOption,
    data_dirs,
    print_json,
    print_rich,
)
from planner.cli.progress import progress, progress_bar

if TYPE_CHECKING:
    from planner.jobs import Workers
    from planner.results import Plan, Run, RunRecords
    from planner.scenario import Scenario

WorkersOption = Annotated[
    int, typer.Option("--workers", metavar="N", min=1, max=1024, help="Processes; the answer does not depend on it.")
]
DaskOption = Annotated[
    str | None,
    typer.Option("--dask", metavar="ADDRESS", help="Scheduler of a Dask cluster that works instead: tcp://host:port."),
]
PeriodOption = Annotated[
    str | None,
    typer.Option(
        "--period", metavar="NAME", help="Run only this period of a plan for several; each of them if not given."
    ),
]
PlanOption = Annotated[
    Path | None,
    typer.Option(
        "--plan", metavar="FILE", help="Run this answer of `optimize --format json`; a new plan if not given."
    ),
]
RequestsOption = Annotated[
    int, typer.Option("--requests", metavar="N", min=1, max=10**9, help="Of all replications together, in each period.")
]
SeedOption = Annotated[
    int, typer.Option("--seed", metavar="S", min=0, max=MOST_SEED, help="The same seed gives the same answer.")
]
LoadOption = Annotated[
    float | None,
    typer.Option("--load", metavar="F", help="Of the plan's rate; 1, or 0.8 where that saturates a pool or a link."),
]
ReplicationsOption = Annotated[
    int,
    typer.Option("--replications", metavar="R", min=1, max=10_000, help="Independent runs, for confidence intervals."),
]


def simulate(
    scenario: ScenarioArgument = "prfaas-paper",
    plan: PlanOption = None,
    requests: RequestsOption = 200_000,
    seed: SeedOption = 0,
    load: LoadOption = None,
    period: PeriodOption = None,
    replications: ReplicationsOption = 4,
    workers: WorkersOption = 1,
    dask: DaskOption = None,
    full: Annotated[
        bool, typer.Option("--full", help="Keep the system full, to see the most it serves; --load does not matter.")
    ] = False,
    records: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the requests of the first replication: .csv or .parquet."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write its first requests as a Chrome trace, for Perfetto: .json."),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw its queues, links and TTFT beside the predicted one: .png or .svg."),
    ] = None,
    overrides: SetOption = None,
    format_: FormatOption = Format.TEXT,
    time_limit_s: TimeLimitOption = 60.0,
) -> None:
    """Run a plan request by request: latency, throughput, pools and links as they come out, with their confidence."""
    from planner.executor import RunQuestion, simulate_periods
    from planner.executor import simulate as run_plan
    from planner.scenario import read_scenario

    question = RunQuestion(requests, seed, load, replications, full)
    check_files(records, trace, figure)
    by = workers_of(workers, dask)
    asked = read_scenario(scenario, overrides or ())
    planned = plan_of(asked, plan, time_limit_s)
    if period is None and len(planned.periods) > 1:
        check_one_run(records=records, trace=trace, figure=figure, periods=[one.name for one in planned.periods])
        with progress_bar(f"running {asked.name}") as say:
            run = simulate_periods(
                asked, planned, question, data_dirs(), lambda text, part: say(part, text), workers=by
            )
        kept = None
    else:
        wanted = any(path is not None for path in (records, trace, figure))
        with progress_bar(f"running {asked.name}") as say:
            run, kept = run_plan(
                asked, planned, question, data_dirs(), period=period, keep=wanted, progress=say, workers=by
            )
    if kept is not None:
        from planner.report import write_records, write_timeline

        for path, write in ((records, write_records), (trace, write_timeline)):
            if path is not None:
                write(kept, path)
                typer.echo(f"wrote {path}", err=True)
        if figure is not None:
            with progress(f"drawing {figure}"):
                draw(asked, planned, run, kept, figure, time_limit_s)
    if format_ is Format.JSON:
        print_json(run.answer())
    else:
        from planner.report.run_tables import run_tables

        print_rich(*run_tables(run))


def workers_of(n_processes: int, dask: str | None) -> "Workers":
    """Who does the work. Raises UsageError where processes of this machine and of a cluster are asked for."""
    from planner.errors import UsageError
    from planner.jobs import Workers

    if dask is not None and n_processes != 1:
        raise UsageError("--dask: takes the cluster's workers, not --workers (one of the two)")
    return Workers(n_processes, dask)


def draw(
    scenario: "Scenario", plan: "Plan", run: "Run", records: "RunRecords", path: Path, time_limit_s: float
) -> None:
    """Draw a run, and what was predicted of it."""
    from planner.report import run_chart, write_run_figure
    from planner.studies.predicted_ttft import predicted_ttft

    rate = run.offered_req_per_s
    fleet = plan if run.period is None else plan.in_period(plan.period(run.period))
    predicted = None if rate is None else predicted_ttft(scenario, fleet, rate, data_dirs(), time_limit_s)
    write_run_figure(run_chart(run, records, {k.name: k.capacity_gbps for k in plan.links}, predicted), path)
    typer.echo(f"wrote {path}", err=True)


def check_one_run(periods: Sequence[str], **files: Path | None) -> None:
    """Raises UsageError where a file is to show one run, and there is one of each period."""
    from planner.errors import UsageError

    for name, path in files.items():
        if path is not None:
            raise UsageError(f"--{name} {path}: shows one run, and the plan has {len(periods)} periods (--period NAME)")


def check_files(records: Path | None, trace: Path | None, figure: Path | None) -> None:
    """Say before any work that files cannot be written.

    Raises:
        UsageError: an unknown kind of file.
        InputError: its folder is not there, or what writes it is not installed.
    """
    from planner.cli.predict import check_figure
    from planner.errors import UsageError
    from planner.report import check_folder, check_record_file

    check_figure(figure)
    if figure is not None:
        check_folder(figure)
    if records is not None:
        check_record_file(records)
    if trace is not None:
        if trace.suffix.lower() != ".json":
            raise UsageError(f"--trace {trace}: is not .json")
        check_folder(trace)


def plan_of(scenario: "Scenario", path: Path | None, time_limit_s: float) -> "Plan":
    """The plan in a file, or a new one.

    Raises:
        InputError: the file holds no plan, or one of another scenario.
    """
    from planner.errors import InputError, Problem
    from planner.results import plan_from
    from planner.schema import read_text

    if path is None:
        from planner.optimizer import optimize

        with progress(f"planning {scenario.name}"):
            return optimize(scenario, data_dirs(), time_limit_s)
    found = plan_from(read_text(path), str(path))
    if found.scenario != scenario.name:
        what = f"is '{found.scenario}', and the scenario is '{scenario.name}'"
        raise InputError(Problem(str(path), "scenario", what, "the plan of this scenario"))
    return found
