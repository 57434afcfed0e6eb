"""`planner optimize`: the plan of a scenario, and studies around it."""

from collections.abc import Callable, Sequence
from enum import StrEnum
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
    with_inputs,
)
from planner.cli.progress import progress

if TYPE_CHECKING:
    from planner.notes import Note
    from planner.results import Front, Plan, Sensitivity
    from planner.scenario import Scenario

N_POINTS = 8
N_REQUESTS = 200_000


class Against(StrEnum):
    """What cost is held against."""

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
    requests: Annotated[
        int | None,
        typer.Option("--requests", metavar="N", min=1, max=10**9, help="Of each run to certify; 200,000 if not given."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="S", min=0, max=MOST_SEED, help="Of the runs to certify; 0 if not given."),
    ] = None,
    format_: FormatOption = Format.TEXT,
    time_limit_s: TimeLimitOption = 60.0,
) -> None:
    """Plan a scenario: sizes, prefill-to-decode ratio, threshold, link, cost, baselines and what binds."""
    from planner.scenario import read_scenario

    _check_studies(pareto, points, sensitivity, figure)
    _check_runs(certify, requests, seed, pareto is not None or sensitivity)
    question = read_scenario(scenario, overrides or ())
    with progress(f"planning {question.name}") as tell:
        runs = (requests or N_REQUESTS, seed or 0) if certify else None
        plan = _planned(question, runs, time_limit_s, tell)
        front, found = _studies(question, plan, (pareto, points or N_POINTS, sensitivity), time_limit_s, tell)
    if question.break_even:
        remark = _break_evens_elsewhere(len(question.break_even), scenario, overrides or ())
        plan = plan.model_copy(update={"notes": (*plan.notes, remark)})
    if format_ is Format.JSON:
        studies = {"pareto": front and front.answer(), "sensitivity": found and found.answer()}
        print_json(
            {
                **with_inputs(plan, question).answer(),
                **{key: value for key, value in studies.items() if value is not None},
            }
        )
    else:
        from planner.report import front_tables, plan_tables, sensitivity_tables

        print_rich(*plan_tables(plan))
        print_rich(*(front_tables(front) if front else ()), *(sensitivity_tables(found) if found else ()))
    if figure is not None:
        _draw(front, found, figure)


def _break_evens_elsewhere(n: int, scenario: str, overrides: "Sequence[str]") -> "Note":
    """What a scenario asks for and this command does not answer, with the command that does."""
    from planner.notes import note
    from planner.report import Rerun

    command = Rerun(tuple(overrides)).command(scenario, "DIR")
    several = f"{n} break-evens are" if n > 1 else "a break-even is"
    return note("break-even-in-report", f"{several} asked for, which a report answers: {command}")


def _check_runs(certify: bool, requests: int | None, seed: int | None, has_studies: bool) -> None:
    """Say before any work what only makes sense of a plan that is run. Raises UsageError."""
    from planner.errors import UsageError

    stated = {"--requests": requests, "--seed": seed}
    for name in (name for name, value in stated.items() if value is not None and not certify):
        raise UsageError(f"{name}: is about --certify, which is not asked for")
    if certify and has_studies:
        raise UsageError("--certify: is about one plan, not about --pareto or --sensitivity (one of them at a time)")


def _planned(
    question: "Scenario", runs: tuple[int, int] | None, time_limit_s: float, tell: "Callable[[str], None]"
) -> "Plan":
    """The plan; with requests and seed of runs, one that is certified."""
    if runs is None:
        from planner.optimizer import optimize as optimize_scenario
        from planner.studies.cost_band import cost_band

        plan = optimize_scenario(question, data_dirs(), time_limit_s)
        tell(f"{question.name}: what the cost rests on")
        return plan.model_copy(update={"cost_band": cost_band(question, data_dirs())})
    from planner.executor import RunQuestion
    from planner.studies.certify import certified_plan

    return certified_plan(question, RunQuestion(*runs), data_dirs(), time_limit_s, tell)


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
    tell: "Callable[[str], None]",
) -> "tuple[Front | None, Sensitivity | None]":
    from planner.studies.front import pareto_front
    from planner.studies.sensitivity import sensitivity as sensitivity_of

    against, n_points, wanted = asked
    front = None
    if against is not None:
        front = pareto_front(question, plan, against.value, n_points, data_dirs(), time_limit_s, tell)
    return front, sensitivity_of(question, data_dirs(), time_limit_s, tell) if wanted else None


def _draw(front: "Front | None", found: "Sensitivity | None", figure: Path) -> None:
    from planner.report import write_front, write_tornado

    if front is not None:
        write_front(front, figure)
    elif found is not None:
        write_tornado(found, figure)
    typer.echo(f"wrote {figure}", err=True)
