"""A validation as a table for a terminal of a hundred columns."""

from typing import TYPE_CHECKING

from planner.report.terminal import caption, empty_table, filled, frame, remarks
from planner.results import Check, Validation
from planner.units import DASH, number, percent

if TYPE_CHECKING:
    from rich.console import RenderableType


def validation_tables(found: Validation) -> list["RenderableType"]:
    """Promises and what came of them, for people.

    Args:
        found: the answer of `planner validate`.

    Returns:
        What to print, in order.
    """
    n, kept = len(found.checks), len(found.checks) - len(found.failed)
    table = empty_table("checks", "metric", ">predicted", ">executed", ">95 % interval", ">error", ">allowed", "")
    caption(table, "error: predicted over executed, less one; a check fails where the whole interval is beyond it")
    parts = (
        frame(
            found.scenario if found.period is None else f"{found.scenario}, {found.period}",
            (
                ("verdict", "every promise holds" if found.holds else f"{kept} of {n} promises hold"),
                ("load", _load(found)),
                ("requests", f"{found.n_requests:,} each, seed {found.seed}"),
            ),
        ),
        filled(table, map(check_row, found.checks)),
        remarks("not predicted", found.unpredicted),
    )
    return [part for part in parts if part is not None]


def _load(found: Validation) -> str:
    if found.period is not None:
        return "the demand of that period"
    return f"{number(found.load)} of the plan's rate; the highest rate with the system kept full"


def check_row(check: Check) -> tuple[str, ...]:
    """A promise, its run, how sure that is, the error, what is allowed and whether it fails."""
    interval = DASH
    if check.ci_low is not None and check.ci_high is not None:
        interval = f"{number(check.ci_low, 4)} to {number(check.ci_high, 4)}"
    return (
        check.metric,
        number(check.predicted, 4),
        number(check.executed, 4),
        interval,
        f"{100 * check.relative_error:+.1f} %",
        percent(check.tolerance, 0),
        "" if check.holds else "fails",
    )


def broken_promises(found: Validation) -> str:
    """What to say of a plan that does not hold."""
    lines = (
        f"  - {c.metric}: {number(c.predicted, 4)} predicted, {number(c.executed, 4)} executed, "
        f"{100 * c.relative_error:+.1f} % (allowed {percent(c.tolerance, 0)})"
        for c in found.failed
    )
    return f"{found.scenario}: {len(found.failed)} of {len(found.checks)} promises do not hold:\n" + "\n".join(lines)
