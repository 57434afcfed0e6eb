"""`planner validate`: a plan's promises against its run."""

from dataclasses import replace

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
from planner.cli.memory import check_memory
from planner.cli.progress import progress_bar
from planner.cli.simulate import (
    DaskOption,
    LoadOption,
    MostRequestsOption,
    PeriodOption,
    ReplicationsOption,
    RequestsOption,
    SeedOption,
    WorkersOption,
    most_requests_of,
    workers_of,
)
from planner.cli.trace_options import scenario_read


def validate(
    scenario: ScenarioArgument = "prfaas-paper",
    requests: RequestsOption = 200_000,
    most_requests: MostRequestsOption = None,
    seed: SeedOption = 0,
    load: LoadOption = None,
    period: PeriodOption = None,
    replications: ReplicationsOption = 4,
    workers: WorkersOption = 1,
    dask: DaskOption = None,
    overrides: SetOption = None,
    format_: FormatOption = Format.TEXT,
    time_limit_s: TimeLimitOption = 60.0,
) -> None:
    """Plan a scenario, run the plan request by request and compare metric by metric; exit 6 where a promise fails.

    A plan for several periods is run in each of them. A run that is too short to judge every promise goes on; exit 5
    where no promise fails, and one is still undecided.
    """
    from planner.errors import CheckFailedError, UndecidedError
    from planner.executor.run_question import RunQuestion
    from planner.promises.validation import validate as validated
    from planner.report.validation_tables import broken_promises, undecided_promises, validation_tables

    question = RunQuestion(requests, seed, load, replications, most_requests=most_requests_of(requests, most_requests))
    by = workers_of(workers, dask)
    asked = scenario_read(scenario, overrides or ())
    check_memory(asked, replace(question, most_requests=most_requests), by)
    with progress_bar(f"validating {asked.name}") as update:
        found = validated(asked, question, data_dirs(), time_limit_s, lambda text, part: update(part, text), by, period)
    if format_ is Format.JSON:
        print_json(found.answer())
    else:
        print_rich(*validation_tables(found))
    if found.failed:
        raise CheckFailedError(broken_promises(found))
    if not found.decided:
        raise UndecidedError(undecided_promises(found))
