"""`planner diff`: what is different between two plans, and why."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.common import SetOption, TimeLimitOption, asked_for, data_dirs, print_json, print_rich, with_inputs
from planner.cli.completion import scenario_names
from planner.cli.progress import progress

if TYPE_CHECKING:
    from planner.results import Plan, PlanDiff
    from planner.scenario import Scenario
    from planner.studies.diff_gate import Condition


class DiffFormat(StrEnum):
    """How a difference is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


def _side(letter: str, text: str) -> Any:
    what = f"The plan {text}: a file of optimize --format json, or a scenario."
    return typer.Argument(metavar=letter, help=what, autocompletion=scenario_names)


def diff(
    before: Annotated[str, _side("A", "before")],
    after: Annotated[str, _side("B", "after")],
    overrides: SetOption = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 6 when anything changed.")] = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", metavar="EXPR", help="Exit 6 when so: cost>+5%, rate<-2%, cost>+100, ttft-p90>8."),
    ] = None,
    format_: Annotated[
        DiffFormat, typer.Option("--format", callback=asked_for, help="Tables, a comment on a pull request, or JSON.")
    ] = DiffFormat.TEXT,
    time_limit_s: TimeLimitOption = 60.0,
) -> None:
    """What is different between two plans: cost, rate, decisions, what binds, and the inputs that caused it.

    Of figures nothing smaller than the plans' gaps is told. --set changes B, which must be a scenario then.
    """
    from planner.studies.diff import plan_diff
    from planner.studies.diff_gate import Condition

    conditions = [Condition.parsed(text) for text in fail_on or ()]
    plans = (_plan(before, (), time_limit_s), _plan(after, overrides or (), time_limit_s))
    found = plan_diff((before, plans[0]), (_named(after, overrides or ()), plans[1]))
    _print(found, format_)
    _check(found, exit_code, conditions)


def _named(name: str, overrides: Sequence[str]) -> str:
    return " ".join([name, *(f"--set {text}" for text in overrides)])


def _plan(name: str, overrides: Sequence[str], time_limit_s: float) -> "Plan":
    """The plan of a file, or of a scenario. Raises InputError, InfeasibleError or UndecidedError, which name it."""
    from planner.errors import InfeasibleError, UndecidedError, UsageError
    from planner.results import plan_from
    from planner.scenario import read_scenario

    if (text := _plan_text(name)) is not None:
        if overrides:
            raise UsageError(f"--set: changes a scenario, and {name} is a plan")
        return plan_from(text, name)
    question = read_scenario(name, overrides)
    with progress(f"planning {name}"):
        try:
            return _planned(question, time_limit_s)
        except InfeasibleError as error:
            raise InfeasibleError(f"{name}: {error}", error.relaxations) from None
        except UndecidedError as error:
            raise UndecidedError(f"{name}: {error}") from None


def _planned(question: "Scenario", time_limit_s: float) -> "Plan":
    """The plan of a scenario with what it was made from."""
    from planner.optimizer import optimize

    return with_inputs(optimize(question, data_dirs(), time_limit_s), question)


def _plan_text(name: str) -> str | None:
    """The text of a file that is JSON, or is called so; None of anything else, which is taken for a scenario."""
    from planner.reading import read_text
    from planner.scenario import bundled_scenarios
    from planner.schema import is_file

    path = Path(name)
    if name in bundled_scenarios() or path.suffix == ".toml" or not (is_file(path) or path.suffix == ".json"):
        return None
    text = read_text(path)
    return text if path.suffix == ".json" or text.lstrip()[:1] == "{" else None


def _print(found: "PlanDiff", format_: DiffFormat) -> None:
    if format_ is DiffFormat.JSON:
        print_json(found.answer())
    elif format_ is DiffFormat.MARKDOWN:
        from planner.report import diff_markdown

        typer.echo(diff_markdown(found), nl=False)
    else:
        from planner.report import diff_tables

        print_rich(*diff_tables(found))


def _check(found: "PlanDiff", exit_code: bool, conditions: "Sequence[Condition]") -> None:
    """Raises CheckFailedError where something changed that must not."""
    from planner.errors import CheckFailedError

    broken = [text for condition in conditions if (text := condition.broken_by(found))]
    if exit_code and found.is_changed:
        broken.append(f"{found.after.name} is not as {found.before.name}")
    if broken:
        raise CheckFailedError("\n".join(broken))
