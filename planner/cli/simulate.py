"""`planner simulate`: a plan run request by request."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
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
    write_files,
)
from planner.cli.memory import check_memory
from planner.cli.progress import progress, progress_bar
from planner.cli.trace_options import scenario_read

if TYPE_CHECKING:
    from planner.executor.run_question import RunQuestion
    from planner.jobs import Workers
    from planner.results.plan import Plan
    from planner.results.run import Run, RunRecords
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
MostRequestsOption = Annotated[
    int | None,
    typer.Option(
        "--most-requests",
        metavar="N",
        min=1,
        max=10**9,
        help="Up to which a run that does not decide goes on; four times --requests if not given.",
    ),
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
    most_requests: MostRequestsOption = None,
    seed: SeedOption = 0,
    load: LoadOption = None,
    period: PeriodOption = None,
    replications: ReplicationsOption = 4,
    workers: WorkersOption = 1,
    dask: DaskOption = None,
    full: Annotated[
        bool, typer.Option("--full", help="Keep the system full, to see the most it serves; --load does not matter.")
    ] = False,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency", metavar="C", min=1, help="A closed loop: C requests inside, each that leaves lets one in."
        ),
    ] = None,
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
    """Run a plan request by request: latency, throughput, pools and links as they come out, with their confidence.

    A run too short to tell whether what the scenario promises is kept goes on, and says what is left undecided.
    """
    from planner.executor.run_question import RunQuestion

    most = most_requests_of(requests, most_requests)
    question = RunQuestion(requests, seed, load, replications, full, concurrency, most)
    check_files(records, trace, figure)
    by = workers_of(workers, dask)
    asked = scenario_read(scenario, overrides or ())
    wanted = any(path is not None for path in (records, trace, figure))
    check_memory(asked, replace(question, most_requests=most_requests), by, keep=wanted)
    planned = plan_of(asked, plan, time_limit_s)
    if period is None and len(planned.periods) > 1:
        check_one_run(records=records, trace=trace, figure=figure, periods=[one.name for one in planned.periods])
    run, kept = _run(asked, planned, question, period, wanted, by)
    if kept is not None:
        from planner.report.run_files import write_records, write_timeline

        drawn = partial(draw, asked, planned, run, kept, time_limit_s)
        write_files((records, partial(write_records, kept)), (trace, partial(write_timeline, kept)), (figure, drawn))
    if format_ is Format.JSON:
        print_json(run.answer())
    else:
        from planner.promises.outcomes import run_promises
        from planner.report.certified_tables import promise_table
        from planner.report.run_tables import run_tables
        from planner.report.terminal import printed

        promises = [] if question.is_closed else run_promises(asked, run)
        kept_or_not = printed(promise_table("promises", promises))
        print_rich(*run_tables(run), *([kept_or_not] if kept_or_not else []))


def _run(
    scenario: "Scenario", plan: "Plan", question: "RunQuestion", period: str | None, keep: bool, by: "Workers"
) -> "tuple[Run, RunRecords | None]":
    """The run of a plan, of several periods all or one, and what of its promises is left open."""
    from planner.executor.periods import simulate_periods
    from planner.executor.run import simulate
    from planner.promises.outcomes import undecided

    def enough(run: "Run") -> bool:
        return question.is_closed or not undecided(scenario, run)

    kept = None
    with progress_bar(f"running {scenario.name}") as update:
        if period is None and len(plan.periods) > 1:
            run = simulate_periods(scenario, plan, question, data_dirs(), lambda at, part: update(part, at), by, enough)
        else:
            run, kept = simulate(
                scenario,
                plan,
                question,
                data_dirs(),
                period=period,
                keep=keep,
                progress=update,
                workers=by,
                enough=enough,
            )
    notes = () if question.is_closed else undecided(scenario, run)
    return run.model_copy(update={"notes": (*run.notes, *notes)}), kept


RUN_ON = 4
"""A run goes on up to so many times the requests that were asked for."""


def most_requests_of(requests: int, most: int | None) -> int:
    """Up to how many requests a run goes on while it does not decide."""
    return RUN_ON * requests if most is None else most


def workers_of(n_processes: int, dask: str | None) -> "Workers":
    """Who does the work. Raises UsageError where processes of this machine and of a cluster are asked for."""
    from planner.errors import UsageError
    from planner.jobs import Workers

    if dask is not None and n_processes != 1:
        raise UsageError("--dask: takes the cluster's workers, not --workers (one of the two)")
    return Workers(n_processes, dask)


def draw(
    scenario: "Scenario", plan: "Plan", run: "Run", records: "RunRecords", time_limit_s: float, path: Path
) -> None:
    """Draw a run, and what was predicted of it."""
    from planner.report.chart_run import run_chart, write_run_figure
    from planner.studies.predicted_ttft import predicted_ttft

    rate = run.offered_req_per_s
    fleet = plan if run.period is None else plan.in_period(plan.period(run.period))
    with progress(f"drawing {path}"):
        predicted = None if rate is None else predicted_ttft(scenario, fleet, rate, data_dirs(), time_limit_s)
        write_run_figure(run_chart(run, records, {k.name: k.capacity_gbps for k in plan.links}, predicted), path)


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
    from planner.files import check_writable
    from planner.report.run_files import check_record_file

    check_figure(figure)
    if records is not None:
        check_record_file(records)
    if trace is not None:
        if trace.suffix.lower() != ".json":
            raise UsageError(f"--trace {trace}: is not .json")
        check_writable(trace)


def plan_of(scenario: "Scenario", path: Path | None, time_limit_s: float) -> "Plan":
    """The plan in a file, or a new one.

    Raises:
        InputError: the file holds no plan, or one of another scenario.
    """
    from planner.errors import InputError, InputProblem
    from planner.results.plan_file import plan_from
    from planner.schema import read_text

    if path is None:
        from planner.promises.plan_to_run import plan_to_run

        with progress(f"planning {scenario.name}"):
            return plan_to_run(scenario, data_dirs(), time_limit_s)
    found = plan_from(read_text(path), str(path))
    if found.scenario != scenario.name:
        what = f"is '{found.scenario}', and the scenario is '{scenario.name}'"
        raise InputError(InputProblem(str(path), "scenario", what, "the plan of this scenario"))
    return found
