"""A size as tables for a terminal: the best fleets side by side, what they promise, and the layouts compared."""

from typing import TYPE_CHECKING

from planner.report import formats
from planner.report.table import Table
from planner.report.terminal import frame, printed, remarks
from planner.results import DecodeStepRun, PoolPlan, Size, SloRun
from planner.units import DASH, MILLI, number, percent

if TYPE_CHECKING:
    from rich.console import RenderableType


def size_tables(size: Size) -> list["RenderableType"]:
    """A size for people.

    Args:
        size: the answer of `planner size`.

    Returns:
        What to print, in order.
    """
    parts = (
        frame(f"{size.model}, {_demand(size)}", _headline(size)),
        _side_by_side(size),
        _promises(size),
        _considered(size),
        remarks("notes", map(formats.sentence, size.notes)),
    )
    return [part for part in parts if part is not None]


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


def _side_by_side(size: Size) -> "RenderableType | None":
    plans = list(size.fleets.values())
    used = [[pool for pool in plan.pools if pool.n_instances] for plan in plans]
    rows = [
        ["instances", *(" + ".join(map(_instances, pools)) for pools in used)],
        ["layout", *(" / ".join(_layout(pool.layout or DASH) for pool in pools) for pools in used)],
        ["accelerators", *(number(plan.n_accelerators) for plan in plans)],
        ["busy", *(" / ".join(percent(pool.utilization) for pool in pools) for pools in used)],
        ["USD per hour", *(_usd(plan.cost.usd_per_hour) for plan in plans)],
        ["USD per million tokens in", *(_usd(plan.cost.usd_per_million_input_tokens) for plan in plans)],
        ["USD per million tokens out", *(_usd(plan.cost.usd_per_million_output_tokens) for plan in plans)],
        ["TTFT mean, predicted", *(formats.seconds(plan.latency.ttft_mean_s) for plan in plans)],
        ["TPOT mean, predicted", *(formats.seconds(plan.latency.tpot_mean_s) for plan in plans)],
    ]
    return printed(Table.of("side by side", ["", *size.fleets], rows))


def _instances(pool: PoolPlan) -> str:
    return f"{pool.n_instances} of {pool.accelerators_per_instance} x {pool.hardware}"


def _layout(layout: str) -> str:
    """Parallel sizes beyond 1."""
    sizes = [part for part in layout.split(",") if not part.endswith("=1")]
    return ",".join(sizes) or "tp=1"


def _usd(value: float | None) -> str:
    return DASH if value is None else number(value, 4)


def _promises(size: Size) -> "RenderableType | None":
    """Promises with what runs made of them."""
    headings = ("fleet", "promise", ">limit", ">predicted", ">executed", "95 % interval", "kept")
    runs = [(name, plan.slo_run) for name, plan in size.fleets.items() if plan.slo_run is not None]
    rows = []
    for name, run in runs:
        if run.promised_s is not None:
            rows.append([name, f"TTFT P{number(run.percentile)}", *_beside(run, run.outcome)])
        if run.tpot is not None:
            rows.append([name, f"TPOT P{number(run.percentile)}", *_beside(run.tpot, run.outcome)])
    return printed(Table.of("promises, run request by request", headings, rows))


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
            _layout(way.layout),
            number(way.tokens_per_pass),
            number(way.capacity_req_per_s, 3),
            number(way.usd_per_hour, 4),
        )
        for way in size.considered
    )
    return printed(Table.of("layouts, without waiting", headings, rows))
