"""A size as tables for a terminal: the best fleets side by side, what they promise, and the layouts compared."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from planner.report import formats
from planner.report.decision import monthly
from planner.report.formats import figure
from planner.report.phrases import how_run, layout
from planner.report.screen import fitted_to_screen
from planner.report.table import Table
from planner.report.terminal import compact, frame, printed, remarks
from planner.results.plan import PoolPlan
from planner.results.size import Size
from planner.results.slo_run import DecodeStepRun, SloRun
from planner.units import DASH, MILLI, number, percent, usd

if TYPE_CHECKING:
    from rich.console import RenderableType


def size_tables(size: Size) -> list["RenderableType"]:
    """A size for people, with the layouts that were compared and all notes.

    Args:
        size: the answer of `planner size`.

    Returns:
        What to print, in order.
    """
    parts = (*_fleets(size, printed), _considered(size), remarks("notes", map(formats.sentence, size.notes)))
    return [part for part in parts if part is not None]


def size_screen(size: Size, columns: int, count: "Callable[[Iterable[RenderableType]], int]") -> list["RenderableType"]:
    """A size on one screen.

    Args:
        size: the answer of `planner size`.
        columns: width of the terminal.
        count: lines that parts take there.

    Returns:
        What to print, in order: notes last, as many as the screen has lines for.
    """
    found = [part for part in _fleets(size, compact) if part is not None]
    return fitted_to_screen(found, size.notes, "the layouts that were compared: --details", columns, count)


def _fleets(size: Size, render: "Callable[[Table], RenderableType | None]") -> "tuple[RenderableType | None, ...]":
    """The best fleet of each kind of serving, and what runs made of their promises."""
    return (
        frame(f"{size.model}, {_demand(size)}", _headline(size)),
        render(_side_by_side(size)),
        render(_promises(size)),
    )


def _demand(size: Size) -> str:
    rate = f"{number(size.rate_req_per_s, 4)} req/s"
    if size.users is None:
        return rate
    return f"{size.users:,} users who think for {number(size.think_s)} s: {rate}"


def _headline(size: Size) -> list[tuple[str, str]]:
    found = size.disaggregation
    is_tied = found.decided and found.margin_fraction == 0
    word = "either" if is_tied else "yes" if found.worth_it else "no" if found.decided else "not decided"
    return [
        ("disaggregate?", f"{word}: {found.because}"),
        ("requests", f"{number(size.input_tokens_mean)} tokens in, {number(size.output_tokens_mean)} out, on average"),
        ("promises", _promised(size)),
        ("software", f"{size.stack or DASH}; weights in {size.precision or DASH}"),
    ]


def _promised(size: Size) -> str:
    share = f"for {number(size.percentile)} % of requests"
    said = []
    if size.ttft_s is not None:
        said.append(f"first token within {formats.seconds(size.ttft_s)}")
    if size.tpot_s is not None:
        said.append(f"{number(size.tpot_s / MILLI)} ms per output token")
    return f"{', '.join(said)}, {share}" if said else "none: waits may be long"


def _side_by_side(size: Size) -> Table:
    plans = list(size.fleets.values())
    used = [[pool for pool in plan.pools if pool.n_instances] for plan in plans]
    rows = [
        ["instances", *(" + ".join(map(_instances, pools)) for pools in used)],
        ["layout", *(" / ".join(how_run(pool) or DASH for pool in pools) for pools in used)],
        ["accelerators", *(number(plan.n_accelerators) for plan in plans)],
        ["busy", *(" / ".join(percent(pool.utilization) for pool in pools) for pools in used)],
        ["USD per hour", *(usd(plan.cost.usd_per_hour) for plan in plans)],
        ["USD a month", *(monthly(plan.cost.usd_per_hour) for plan in plans)],
        ["USD per million tokens in", *(figure(plan.cost.usd_per_million_input_tokens) for plan in plans)],
        ["USD per million tokens out", *(figure(plan.cost.usd_per_million_output_tokens) for plan in plans)],
        ["TTFT mean, predicted", *(formats.seconds(plan.latency.ttft_mean_s) for plan in plans)],
        ["TPOT mean, predicted", *(formats.seconds(plan.latency.tpot_mean_s) for plan in plans)],
    ]
    return Table.of("side by side", ["fleet", *size.fleets], rows)


def _instances(pool: PoolPlan) -> str:
    return f"{pool.n_instances} of {pool.accelerators_per_instance} x {pool.hardware}"


def _promises(size: Size) -> Table:
    """Promises with what runs made of them."""
    headings = ("fleet", "promise", ">limit", ">predicted", ">executed", "95 % interval", "kept")
    runs = [(name, plan.slo_run) for name, plan in size.fleets.items() if plan.slo_run is not None]
    rows = []
    for name, run in runs:
        if run.promised_s is not None:
            rows.append([name, f"TTFT P{number(run.percentile)}", *_beside(run, run.outcome)])
        if run.tpot is not None:
            rows.append([name, f"TPOT P{number(run.percentile)}", *_beside(run.tpot, run.outcome)])
    return Table.of("promises, run request by request", headings, rows)


def _beside(run: SloRun | DecodeStepRun, outcome: str) -> list[str]:
    both = run.ci_low_s is not None and run.ci_high_s is not None
    interval = f"{formats.seconds(run.ci_low_s)} to {formats.seconds(run.ci_high_s)}" if both else DASH
    return [*(formats.seconds(value) for value in (run.promised_s, run.predicted_s, run.executed_s)), interval, outcome]


def _considered(size: Size) -> "RenderableType | None":
    headings = ["role", "instance", "layout", ">tokens per pass", ">req/s each", ">USD/h at least"]
    rows = (
        (
            way.role,
            f"{way.accelerators_per_instance} x {way.hardware}",
            layout(way.layout),
            number(way.tokens_per_pass),
            number(way.capacity_req_per_s, 3),
            usd(way.usd_per_hour),
        )
        for way in size.considered
    )
    return printed(Table.of("layouts, without waiting", headings, rows))
