"""`planner optimize`: the plan of a scenario, and studies around it."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from planner.cli.common import (
    MOST_SEED,
    Format,
    FormatOption,
    ScenarioArgument,
    SetOption,
    TimeLimitOption,
    data_dirs,
    n_lines,
    noted_where_infeasible,
    print_json,
    print_rich,
    width,
    with_inputs,
    write_files,
)
from planner.cli.growth import check_demand, check_growth, growth_fraction
from planner.cli.memory import check_memory
from planner.cli.plan_argument import check_promise
from planner.cli.progress import progress
from planner.cli.simulate import RUN_ON
from planner.cli.trace_options import scenario_read

if TYPE_CHECKING:
    from datetime import date

    from rich.console import RenderableType

    from planner.executor.run_question import RunQuestion
    from planner.notes import Note
    from planner.progress import Progress
    from planner.results.plan import Plan
    from planner.results.studies import Front, Sensitivity
    from planner.scenario import Scenario
    from planner.studies.migration import StatedFleet

N_POINTS = 8
N_REQUESTS = 200_000
KEPT_RUN_ON = 32
"""A promise of milliseconds is told from its figure by so many times the requests at the most."""
N_STEP_REQUESTS = 50_000
"""Of the run of each step from the fleet that stands."""


class Section(StrEnum):
    """Parts of the answer, by name."""

    ANSWER = "answer"
    POOLS = "pools"
    INSTANCES = "instances"
    LINKS = "links"
    PERIODS = "periods"
    LATENCY = "latency"
    COST = "cost"
    FLEETS = "fleets"
    BINDING = "binding"
    PROOF = "proof"
    CERTIFIED = "certified"
    NOTES = "notes"


class Against(StrEnum):
    """Figure that cost is held against."""

    THROUGHPUT = "throughput"
    GOODPUT = "goodput"
    TTFT = "ttft"


def optimize(
    scenario: ScenarioArgument = "prfaas-paper",
    overrides: SetOption = None,
    pareto: Annotated[
        Against | None, typer.Option(help="The front of cost against this too: the best plan of every budget.")
    ] = None,
    points: Annotated[
        int | None, typer.Option(min=1, max=200, metavar="N", help="Budgets of the front; 8 if not given.")
    ] = None,
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Plan again with every input 10 and 20 % off, too.")
    ] = False,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the front, or the sensitivity: .png or .svg.")
    ] = None,
    certify: Annotated[
        bool,
        typer.Option("--certify", help="Run the plan first, and tighten it until its promise holds; else exit 6."),
    ] = False,
    no_run: Annotated[
        bool, typer.Option("--no-run", help="Leave a promise on latency as it is predicted; else the plan is run.")
    ] = False,
    requests: Annotated[
        int | None,
        typer.Option(
            "--requests",
            metavar="N",
            min=1,
            max=10**9,
            help="Of each run; 200,000 if not given, 50,000 of a step from --current.",
        ),
    ] = None,
    most_requests: Annotated[
        int | None,
        typer.Option(
            "--most-requests",
            metavar="N",
            min=1,
            max=10**9,
            help="Up to which a run that does not decide goes on; 32 times --requests, 4 to certify, if not given.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="S", min=0, max=MOST_SEED, help="Of the runs; 0 if not given."),
    ] = None,
    current: Annotated[
        Path | None,
        typer.Option(
            "--current",
            metavar="FILE",
            help="Plan from the fleet that stands: instances by pool (TOML, JSON) or a plan.",
        ),
    ] = None,
    from_date: Annotated[
        str | None,
        typer.Option("--from-date", metavar="YYYY-MM-DD", help="The day that the growth of the demand counts from."),
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Everything that is known of the plan, after what fits a screen.")
    ] = False,
    section: Annotated[
        list[Section] | None,
        typer.Option("--section", metavar="NAME", help="This part alone; may be repeated: " + ", ".join(Section) + "."),
    ] = None,
    growth: Annotated[
        str | None, typer.Option("--growth", metavar="PERCENT", help="The plan for a demand so much higher, beside it.")
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="How the numbers of the plan hang together, too, in at most ten statements."),
    ] = False,
    format_: FormatOption = Format.TEXT,
    time_limit_s: TimeLimitOption = 60.0,
) -> None:
    """Plan a scenario: sizes, prefill-to-decode ratio, threshold, link, cost, baselines and what binds.

    A plan that promises latency is run before it is printed: tightened where the run does not keep the promise, and
    replaced by a cheaper fleet, or a higher rate, that does where there is room. A run that does not decide goes on;
    exit 5 where it is undecided all the same, 6 where no plan keeps the promise.
    """

    _check_studies(pareto, points, sensitivity, figure)
    begin, more = _date(from_date, current), growth_fraction(growth)
    question = scenario_read(scenario, overrides or ())
    check_demand(question, more)
    if current is not None and question.users is not None:
        from planner.comparison import at_population_rate

        question = at_population_rate(question, data_dirs(), time_limit_s)
    fleet = None if current is None else _fleet(question, current)
    check_growth(question, begin)
    how = _how(question, certify, no_run)
    stated = {"--requests": requests, "--most-requests": most_requests, "--seed": seed}
    _check_runs(how, stated, current, pareto is not None or sensitivity)
    _check_memory(question, how, (requests, most_requests, seed), has_steps=current is not None and not no_run)
    with progress(f"planning {question.name}") as update:
        plan = plan_and_run(question, time_limit_s, update, how, (requests, most_requests, seed))
        if fleet is not None:
            steps = None if no_run else (requests or N_STEP_REQUESTS, seed or 0)
            plan = _beside_current(question, plan, (fleet, begin), steps, time_limit_s, update)
        runs = requests, most_requests, seed
        grown = None if more is None else (more, _grown(question, more, time_limit_s, update, how, runs))
        front, found = _studies(question, plan, (pareto, points or N_POINTS, sensitivity), time_limit_s, update)
    if question.break_even:
        remark = _break_evens_elsewhere(len(question.break_even), scenario, overrides or ())
        plan = plan.model_copy(update={"notes": (*plan.notes, remark)})
    write_files((figure, partial(_draw, front, found)))
    shown = _Shown(details, tuple(section or ()), grown, explain)
    _print(with_inputs(plan, question), front, found, shown, format_)
    check_promise(plan)


class _Shown(NamedTuple):
    """Parts of a plan that are printed for people."""

    has_details: bool
    sections: tuple[Section, ...]
    grown: "tuple[float, Plan] | None"
    """Part that the demand grows by, and the plan for it."""
    is_explained: bool


def _print(plan: "Plan", front: "Front | None", found: "Sensitivity | None", shown: _Shown, format_: Format) -> None:
    """The plan, the studies around it, and how its numbers hang together where that is asked for."""
    because = None
    if shown.is_explained:
        from planner.report.explained import explanation

        because = explanation(plan)
    if format_ is Format.JSON:
        asked = {"pareto": front, "sensitivity": found, "explanation": because}
        answer = {**plan.answer(), **{key: one.answer() for key, one in asked.items() if one is not None}}
        if shown.grown:
            answer["growth"] = {"fraction": shown.grown[0], "plan": shown.grown[1].answer()}
        print_json(answer)
        return
    from planner.report.current_text import current_tables
    from planner.report.explained import explanation_tables
    from planner.report.study_tables import front_tables, sensitivity_tables

    print_rich(*_plan_parts(plan, shown), *(current_tables(plan.current) if plan.current else ()))
    print_rich(*(front_tables(front) if front else ()), *(sensitivity_tables(found) if found else ()))
    print_rich(*(explanation_tables(because) if because else ()))


def _plan_parts(plan: "Plan", shown: _Shown) -> "list[RenderableType]":
    """One screen, then the sections that are asked for, or these alone."""
    from planner.report.screen import growth_table, plan_screen
    from planner.report.tables import plan_tables
    from planner.report.terminal import compact

    parts = [] if shown.sections else plan_screen(plan, width(), n_lines)
    if shown.grown:
        table = compact(growth_table(plan, shown.grown[1], shown.grown[0]))
        parts += [table] if table else []
    if plan.certified is not None and not shown.sections and not shown.has_details:
        parts += ["", *plan_tables(plan, ("certified",))]
    if shown.sections or shown.has_details:
        parts += plan_tables(plan, shown.sections) if shown.sections else ["", *plan_tables(plan)]
    return parts


def _break_evens_elsewhere(n: int, scenario: str, overrides: "Sequence[str]") -> "Note":
    """Note on break-evens that a scenario asks for, with the command that answers them rather than this one."""
    from planner.notes import note
    from planner.report.reproduce import Reproduction

    command = Reproduction(tuple(overrides)).command(scenario, "DIR")
    several = f"{n} break-evens are" if n > 1 else "a break-even is"
    return note("break-even-in-report", f"{several} asked for, which a report answers: {command}")


class How(StrEnum):
    """Treatment of a plan before it is printed."""

    PLAIN = "plain"
    """It promises no latency."""
    PREDICTED = "predicted"
    """Its promise on latency is not run."""
    KEPT = "kept"
    """Its promise on latency is run."""
    CERTIFIED = "certified"


def _how(question: "Scenario", certify: bool, no_run: bool) -> How:
    """Raises UsageError where a plan is to be run and not to be run."""
    from planner.errors import UsageError

    if certify and no_run:
        raise UsageError("--no-run: leaves the plan as it is predicted, and --certify runs it (one of the two)")
    if certify:
        return How.CERTIFIED
    if not question.promises_latency:
        return How.PLAIN
    return How.PREDICTED if no_run else How.KEPT


def _check_runs(how: How, stated: "Mapping[str, int | None]", current: Path | None, has_studies: bool) -> None:
    """Say before any work what only makes sense of a plan that is run. Raises UsageError."""
    from planner.errors import UsageError

    is_run = how in (How.KEPT, How.CERTIFIED) or current is not None
    for name in (name for name, value in stated.items() if value is not None and not is_run):
        raise UsageError(f"{name}: is about runs, and nothing is run (a scenario with an slo, --certify or --current)")
    if how is How.CERTIFIED and current is not None:
        raise UsageError("--certify: tightens one plan, and --current runs the steps to it (one of them at a time)")
    if how is How.CERTIFIED and has_studies:
        raise UsageError("--certify: is about one plan, not about --pareto or --sensitivity (one of them at a time)")


def _check_memory(
    question: "Scenario", how: How, runs: tuple[int | None, int | None, int | None], *, has_steps: bool
) -> None:
    """Raises InputError where there is not the memory for the runs of a plan, or of the steps to it."""
    from planner.executor.run_question import RunQuestion

    requests, most, _ = runs
    if how in (How.KEPT, How.CERTIFIED):
        check_memory(question, RunQuestion(requests or N_REQUESTS, most_requests=most))
    elif has_steps:
        check_memory(question, RunQuestion(requests or N_STEP_REQUESTS))


def _date(text: str | None, current: Path | None) -> "date | None":
    """The day that is given. Raises UsageError."""
    from datetime import date

    from planner.errors import UsageError

    if text is None:
        return None
    if current is None:
        raise UsageError("--from-date: is about --current, which is not asked for")
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--from-date {text}: is no day (YYYY-MM-DD, such as 2027-01-31)") from None


def _fleet(question: "Scenario", path: Path) -> "StatedFleet":
    """The fleet that stands, read before any plan is sought. Raises InputError or InfeasibleError."""
    from planner.studies.migration import check_fleet, stated_fleet

    fleet = stated_fleet(path)
    check_fleet(question, fleet, data_dirs())
    return fleet


def _beside_current(
    question: "Scenario",
    plan: "Plan",
    stated: "tuple[StatedFleet, date | None]",
    runs: tuple[int, int] | None,
    time_limit_s: float,
    update: "Progress",
) -> "Plan":
    """The plan with the fleet that stands beside it."""
    from planner.executor.run_question import RunQuestion
    from planner.studies.migration import MigrationQuestion, current_fleet

    fleet, begin = stated
    asked = MigrationQuestion(fleet, time_limit_s, None if runs is None else RunQuestion(*runs), begin)
    return plan.model_copy(update={"current": current_fleet(question, plan, asked, data_dirs(), update)})


def plan_and_run(
    question: "Scenario",
    time_limit_s: float,
    update: "Progress",
    how: How | None = None,
    runs: tuple[int | None, int | None, int | None] = (None, None, None),
) -> "Plan":
    """The plan; run with so many requests, up to so many, and a seed, by default where it promises latency."""
    from planner.scenario import question_notes

    with noted_where_infeasible(lambda: question_notes(question)):
        return _planned(question, time_limit_s, update, how or _how(question, certify=False, no_run=False), runs)


def _planned(
    question: "Scenario",
    time_limit_s: float,
    update: "Progress",
    how: How,
    runs: tuple[int | None, int | None, int | None],
) -> "Plan":
    if how is How.CERTIFIED:
        from planner.promises.certify import certified_plan

        return certified_plan(question, _runs(runs, RUN_ON), data_dirs(), time_limit_s, update)
    if how is How.PLAIN:
        from planner.comparison import optimize as optimize_scenario

        plan = optimize_scenario(question, data_dirs(), time_limit_s)
    else:
        from planner.promises.verified import verified_plan

        asked = _runs(runs, KEPT_RUN_ON) if how is How.KEPT else None
        plan = verified_plan(question, asked, data_dirs(), time_limit_s, update)
    from planner.studies.cost_band import cost_band

    update(f"{question.name}: what the cost rests on")
    return plan.model_copy(update={"cost_band": cost_band(question, data_dirs(), plan=plan)})


def _runs(stated: tuple[int | None, int | None, int | None], run_on: int) -> "RunQuestion":
    """Length of a plan's runs: so many requests, up to so many, and a seed."""
    from planner.executor.run_question import RunQuestion

    requests, most, seed = stated
    n = N_REQUESTS if requests is None else requests
    return RunQuestion(n, seed or 0, most_requests=run_on * n if most is None else most)


def _check_studies(pareto: Against | None, points: int | None, sensitivity: bool, figure: Path | None) -> None:
    """Say before any work what cannot be asked for together. Raises UsageError."""
    from planner.cli.predict import check_figure
    from planner.errors import UsageError

    if points is not None and pareto is None:
        raise UsageError("--points: is about --pareto throughput, goodput or ttft, which is not asked for")
    if figure is not None and sensitivity == (pareto is not None):
        what = "draws one study, and two are asked for" if sensitivity else "has nothing to draw"
        raise UsageError(f"--figure {figure}: {what} (--pareto or --sensitivity)")
    check_figure(figure)


def _studies(
    question: "Scenario",
    plan: "Plan",
    asked: tuple[Against | None, int, bool],
    time_limit_s: float,
    update: "Progress",
) -> "tuple[Front | None, Sensitivity | None]":
    from planner.studies.front import pareto_front
    from planner.studies.sensitivity import sensitivity as sensitivity_of

    against, n_points, wanted = asked
    front = None
    if against is not None:
        front = pareto_front(question, plan, against.value, n_points, data_dirs(), time_limit_s, update)
    return front, sensitivity_of(question, data_dirs(), time_limit_s, update) if wanted else None


def _draw(front: "Front | None", found: "Sensitivity | None", figure: Path) -> None:
    from planner.report.figure_files import write_front, write_tornado

    if front is not None:
        write_front(front, figure)
    elif found is not None:
        write_tornado(found, figure)


def _grown(
    question: "Scenario",
    growth: float,
    time_limit_s: float,
    update: "Progress",
    how: How,
    runs: tuple[int | None, int | None, int | None],
) -> "Plan":
    """The plan of a demand that has grown."""
    keys = {key: (1 + growth) * value for key in ("demand_req_per_s", "users") if (value := getattr(question, key))}
    return plan_and_run(question.varied(keys), time_limit_s, update, how, runs)
