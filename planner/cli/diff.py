"""`planner diff`: what is different between two plans, and why."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.common import SetOption, TimeLimitOption, print_json, print_rich, remember_format
from planner.cli.completion import scenario_names
from planner.cli.plan_argument import plans_of

if TYPE_CHECKING:
    from planner.results.plan_diff import PlanDiff


class DiffFormat(StrEnum):
    """Format that a difference is printed in."""

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
        typer.Option(
            "--fail-on",
            metavar="EXPR",
            help="Exit 6 when so: cost>+5%, or rate<-2%, cost>+100, ttft-p90>8; may be repeated.",
        ),
    ] = None,
    format_: Annotated[
        DiffFormat,
        typer.Option("--format", callback=remember_format, help="Tables, a comment on a pull request, or JSON."),
    ] = DiffFormat.TEXT,
    time_limit_s: TimeLimitOption = 60.0,
) -> None:
    """What is different between two plans: cost, rate, decisions, what binds, and the inputs that caused it.

    Of two fleets no difference within the plans' gaps, up to 1 %, is told. --set changes B, which must be a scenario.
    """
    from planner.errors import CheckFailedError, UndecidedError
    from planner.studies.diff import Condition, breaches, plan_diff

    conditions = [Condition.parsed(text) for text in fail_on or ()]
    plans = plans_of([(before, ()), (after, overrides or ())], time_limit_s)
    found = plan_diff((before, plans[0]), (_named(after, overrides or ()), plans[1]))
    broken, unknown = breaches(found, conditions)
    if exit_code and found.is_changed:
        broken.append(f"{found.after.name} is not as {found.before.name}")
    _print(found.model_copy(update={"failed": (*broken, *unknown)}), format_)
    if broken:
        raise CheckFailedError("\n".join(broken))
    if unknown:
        raise UndecidedError("\n".join(unknown))


def _named(name: str, overrides: Sequence[str]) -> str:
    return " ".join([name, *(f"--set {text}" for text in overrides)])


def _print(found: "PlanDiff", format_: DiffFormat) -> None:
    if format_ is DiffFormat.JSON:
        print_json(found.answer())
    elif format_ is DiffFormat.MARKDOWN:
        from planner.report.diff_comment import diff_markdown

        typer.echo(diff_markdown(found), nl=False)
    else:
        from planner.report.diff_text import diff_tables

        print_rich(*diff_tables(found))
