"""A validation as a table for a terminal of a hundred columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.report import formats
from planner.report.table import Table
from planner.report.terminal import frame, printed, remarks
from planner.results.validation import Check, Validation
from planner.units import DASH, number, percent

if TYPE_CHECKING:
    from rich.console import RenderableType

UNDECIDED = "undecided"
MOST_NAMED = 20
"""Checks that a message names."""


def validation_tables(found: Validation) -> list["RenderableType"]:
    """Promises and what came of them, for people.

    Args:
        found: the answer of `planner validate`.

    Returns:
        What to print, in order.
    """
    headings = ("metric", ">predicted", ">executed", ">95 % interval", ">error", ">allowed", "")
    text = (
        "error: predicted over executed, less one; a check fails where all of the interval is beyond\n"
        "what is allowed, and is undecided where a part of it is"
    )
    together = [check for check in found.checks if not found.periods or check.period is None]
    parts = (
        frame(
            found.scenario if found.period is None else f"{found.scenario}, {found.period}",
            (
                ("verdict", _verdict(found)),
                ("load", _load(found)),
                ("requests", _requests(found)),
            ),
        ),
        printed(Table.of("checks", headings, map(check_row, together), text)),
        _periods(found),
        _observed(found),
        remarks("not predicted", found.unpredicted),
        remarks("notes", map(formats.sentence, found.notes)),
    )
    return [part for part in parts if part is not None]


def _periods(found: Validation) -> "RenderableType | None":
    """Outcome of every period, and the prediction that was farthest off; None where one was run."""
    headings = ("period", ">req/s", ">checks", ">fail", ">undecided", "farthest off", ">error", ">allowed")
    text = "the checks above are of all periods together; --period NAME shows those of one"
    rows = []
    for one in found.periods:
        mine = [check for check in found.checks if check.period == one.name]
        worst = max(mine, key=lambda check: abs(check.relative_error) / check.tolerance)
        counts = (str(n) for n in (one.n_checks, one.n_failed, one.n_undecided))
        error = f"{100 * worst.relative_error:+.1f} %", percent(worst.tolerance, 0)
        rows.append((one.name, number(one.demand_req_per_s), *counts, worst.metric, *error))
    return printed(Table.of("periods", headings, rows, text))


def _observed(found: Validation) -> "RenderableType | None":
    """Measurements of a running system, beside the plan; None where the scenario states nothing."""
    rows = [
        (
            one.metric,
            number(one.measured, 4),
            number(one.predicted, 4),
            number(one.executed, 4),
            DASH if one.predicted is None or not one.measured else f"{100 * (one.predicted / one.measured - 1):+.1f} %",
        )
        for one in found.observed
    ]
    text = "measured: what users saw, of the system and the load at that time; no promise of this plan"
    return printed(Table.of("observed", ("metric", ">measured", ">predicted", ">executed", ">difference"), rows, text))


def _verdict(found: Validation) -> str:
    n, n_failed, n_undecided = len(found.checks), len(found.failed), len(found.undecided)
    if found.holds:
        return "every prediction holds"
    text = f"{n - n_failed - n_undecided} of {n} predictions hold"
    return text + (f", {n_undecided} undecided: {_enough(found)}" if n_undecided else "")


def _enough(found: Validation) -> str:
    """Length of a run that would decide, in words."""
    return longer_run([check.enough_requests for check in found.undecided])


def longer_run(enough: Sequence[int | None]) -> str:
    """Number of requests that should decide everything that is undecided, as far as it is known.

    >>> longer_run([44000, None, 81000]), longer_run([None])
    ('about 81,000 requests should do', 'more requests are needed')
    """
    most = max((n for n in enough if n is not None), default=None)
    return "more requests are needed" if most is None else f"about {most:,} requests should do"


def _load(found: Validation) -> str:
    if found.period is not None:
        return "the demand of that period"
    whole = "the demand of each period" if found.periods else "the plan's rate"
    return f"{number(found.load)} of {whole}; the highest rate with the system kept full"


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
        UNDECIDED if not check.decided else "" if check.holds else "fails",
    )


def _requests(found: Validation) -> str:
    """Length of the runs, and the most that it may be.

    >>> judged = {"holds": True, "decided": True, "checks": (), "unpredicted": ()}
    >>> lengths = {"n_requests": 4000, "n_requests_full": 8000, "most_requests": 16_000}
    >>> _requests(Validation(scenario="s", load=1.0, seed=7, **judged, **lengths))
    '4,000 (8,000 with the system kept full), 16,000 at most to decide; seed 7'
    """
    full = found.n_requests_full
    other = "" if full in (None, found.n_requests) else f" ({full:,} with the system kept full)"
    return f"{found.n_requests:,}{other}, {found.most_requests:,} at most to decide; seed {found.seed}"


def broken_promises(found: Validation) -> str:
    """Message on a plan that does not hold."""
    head = f"{found.scenario}: {len(found.failed)} of {len(found.checks)} predictions do not hold:\n"
    return head + _lines(found.failed)


def undecided_promises(found: Validation) -> str:
    """Message on a plan that may hold."""
    n = len(found.undecided)
    are = "prediction is" if n == 1 else "predictions are"
    limit = f"{found.most_requests:,} requests are too few"
    head = f"{found.scenario}: {n} {are} undecided, {limit}: {_enough(found)} (--most-requests)\n"
    return head + _lines(found.undecided)


def _lines(checks: Sequence[Check]) -> str:
    more = [f"  - and {len(checks) - MOST_NAMED} more"] if len(checks) > MOST_NAMED else []
    return "\n".join([*map(_line, checks[:MOST_NAMED]), *more])


def _line(check: Check) -> str:
    when = "" if check.period is None else f"{check.period}: "
    interval = "" if check.ci_low is None else f" ({number(check.ci_low, 4)} to {number(check.ci_high, 4)})"
    executed = f"{number(check.executed, 4)} executed{interval}"
    return (
        f"  - {when}{check.metric}: {number(check.predicted, 4)} predicted, {executed}, "
        f"{100 * check.relative_error:+.1f} % (allowed {percent(check.tolerance, 0)})"
    )
