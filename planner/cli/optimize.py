"""`planner optimize`: the plan of a scenario, and studies around it."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    progress,
)

if TYPE_CHECKING:
    from planner.results import Front, Plan, Sensitivity
    from planner.scenario import Scenario

N_POINTS = 8


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
    format_: FormatOption = Format.TEXT,
    time_limit_s: TimeLimitOption = 60.0,
) -> None:
    """Plan a scenario: sizes, prefill-to-decode ratio, threshold, link, cost, baselines and what binds."""
    from planner.optimizer import optimize as optimize_scenario
    from planner.scenario import read_scenario

    _check_studies(pareto, points, sensitivity, figure)
    question = read_scenario(scenario, overrides or ())
    with progress(f"planning {question.name}") as tell:
        plan = optimize_scenario(question, data_dirs(), time_limit_s)
        front, found = _studies(question, plan, (pareto, points or N_POINTS, sensitivity), time_limit_s, tell)
    if format_ is Format.JSON:
        studies = {"pareto": front and front.answer(), "sensitivity": found and found.answer()}
        print_json({**plan.answer(), **{key: value for key, value in studies.items() if value is not None}})
    else:
        from planner.report import front_tables, plan_tables, sensitivity_tables

        print_rich(*plan_tables(plan))
        print_rich(*(front_tables(front) if front else ()), *(sensitivity_tables(found) if found else ()))
    if figure is not None:
        _draw(front, found, figure)


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
