"""Changes that the system made by itself, and their worth, as tables for a terminal of a hundred columns."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.report import formats
from planner.report.table import Table
from planner.report.terminal import frame, printed, remarks
from planner.results.run import Interval, Run
from planner.results.scheduling import ScheduledRun, SchedulerComparison
from planner.units import DASH, number, percent

if TYPE_CHECKING:
    from rich.console import RenderableType


def scheduler_table(run: Run) -> "RenderableType | None":
    """Changes that the system made in a run; None where it kept to its plan."""
    seen = run.scheduler
    if seen is None:
        return None
    text = (
        f"thresholds {number(seen.factor_low, 3)} to {number(seen.factor_high, 3)} times the planned, "
        f"{number(seen.factor_mean, 3)} in the mean; {seen.n_conversions:,} conversions"
    )
    rows = ((name, str(run.pools[name].n_instances), number(n, 3)) for name, n in seen.mean_instances.items())
    return printed(Table.of("scheduler", ("pool", ">planned", ">in its role"), rows, text))


def scheduler_tables(found: SchedulerComparison) -> list["RenderableType"]:
    """A comparison for people.

    Args:
        found: the answer of `planner schedulers`.

    Returns:
        What to print, in order; nothing in it depends on the terminal.
    """
    headings = ("pattern", "scheduler", ">TTFT mean", ">P90", ">P99", ">req/s", ">converted", ">threshold, tokens")
    shown = "± half of a 95 % confidence interval over replications; " if found.n_replications > 1 else ""
    text = f"{shown}converted: instances that changed their role; threshold: lowest to highest"
    table = Table.of("the same requests, scheduled in several ways", headings, map(_row, found.runs), text)
    parts = (
        frame(found.scenario, _headline(found)),
        printed(table),
        remarks("patterns", (f"{pattern.name}: {pattern.text}" for pattern in found.patterns)),
        remarks("notes", map(formats.sentence, found.notes)),
    )
    return [part for part in parts if part is not None]


def _headline(found: SchedulerComparison) -> Iterator[tuple[str, str]]:
    yield "load", f"{percent(found.load)} of the plan's rate, in the mean"
    yield "requests", f"{found.n_requests:,} in {found.n_replications} replications, in every row"


def _row(run: ScheduledRun) -> tuple[str, ...]:
    return (
        run.pattern,
        run.scheduler,
        _seconds(run.ttft_mean_s, run.intervals.get("ttft_mean_s")),
        _seconds(run.ttft_p90_s, run.intervals.get("ttft_p90_s")),
        formats.seconds(run.ttft_p99_s),
        number(run.throughput_req_per_s),
        f"{run.n_conversions:,}" if run.n_conversions else DASH,
        _range(run),
    )


def _seconds(value: float, interval: Interval | None) -> str:
    if interval is None:
        return f"{number(value, 3)} s"
    return f"{number(value, 3)} ± {number((interval.high - interval.low) / 2, 2)} s"


def _range(run: ScheduledRun) -> str:
    low, high = run.threshold_low_tokens, run.threshold_high_tokens
    if low is None or high is None:
        return DASH
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
