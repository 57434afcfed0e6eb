"""A run as tables for a terminal of a hundred columns."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.report import formats
from planner.report.scheduler_tables import scheduler_table
from planner.report.table import Table
from planner.report.terminal import frame, printed, remarks
from planner.results.run import ClassRun, Interval, Run, SiteRun
from planner.units import GB, number, percent

if TYPE_CHECKING:
    from rich.console import RenderableType

WHY = {
    "started-too-often": "crashed more often than they may be started again",
    "stranded": "waited for an instance or a link that never came back",
}
"""Reasons in words."""


def run_tables(run: Run) -> list["RenderableType"]:
    """A run for people: what was run and what came of it, then where the time went.

    Args:
        run: the answer of `planner simulate`.

    Returns:
        What to print, in order; nothing in it depends on the terminal.
    """
    parts = (
        frame(run.scenario if run.period is None else f"{run.scenario}, {run.period}", _headline(run)),
        _periods(run),
        _latency(run),
        _waits(run),
        _pools(run),
        _links(run),
        scheduler_table(run),
        _rebalance(run),
        remarks("dropped", (f"{n:,} {WHY[why]}" for why, n in run.dropped.items())),
        remarks("notes", map(formats.sentence, run.notes)),
    )
    return [part for part in parts if part is not None]


def _headline(run: Run) -> Iterator[tuple[str, str]]:
    offered = f"{number(run.offered_req_per_s)} req/s, {number(run.load)} times the plan's" if run.load else "kept full"
    if run.concurrency is not None:
        offered = f"a closed loop of {number(run.concurrency)} requests"
    if run.users is not None:
        offered = f"a closed loop of {run.users:,} users"
    each = f", in {len(run.periods)} periods" if run.periods else ""
    yield "load", offered + (" on average" if run.periods else "")
    yield (
        "requests",
        f"{run.n_requests:,} in {run.n_replications} replications{each}, {run.n_counted:,} of them counted",
    )
    yield "finished", f"{run.n_completed:,}; {run.n_dropped:,} dropped, {run.n_retried:,} started again"
    yield "throughput", f"{_figure(run.throughput_req_per_s, run.intervals.get('throughput_req_per_s'))} req/s"
    yield "offloaded", percent(run.offload_fraction)
    if run.prefix_hit_fraction is not None:
        yield "prefix hits", f"{percent(run.prefix_hit_fraction)} of prompt tokens"


def _periods(run: Run) -> "RenderableType | None":
    """Every period by itself; None where one was run."""
    headings = (
        "period",
        ">hours",
        ">req/s",
        ">offloaded",
        ">TTFT mean",
        ">P90",
        ">P99",
        ">per token",
        "busiest",
        ">busy",
    )
    text = "other tables are of the whole time: use by the hours of each period, times by its requests"
    rows = []
    for one in run.periods:
        busiest = max(one.utilization, key=lambda name: one.utilization[name])
        ttft = (formats.seconds(s) for s in (one.ttft_mean_s, one.ttft_p90_s, one.ttft_p99_s, one.tpot_mean_s))
        rate = number(one.throughput_req_per_s)
        offloaded, busy = percent(one.offload_fraction), percent(one.utilization[busiest])
        rows.append((one.name, number(one.hours), rate, offloaded, *ttft, busiest, busy))
    return printed(Table.of("periods", headings, rows, text))


def _rebalance(run: Run) -> "RenderableType | None":
    """Table of what moved between cache pools; None where nothing does."""
    seen = run.rebalance
    if seen is None:
        return None
    headings = (">offered", ">moved", ">dropped", ">entries", ">GB", ">hits", ">tokens")
    text = "hits: prefills that began from a moved prefix; tokens: of prompts, found by the move alone"
    counts = (seen.n_offered, seen.n_moved, seen.n_dropped, seen.n_entries)
    row = (*(f"{n:,}" for n in counts), number(seen.moved_bytes / GB), f"{seen.n_hits:,}", f"{seen.hit_tokens:,.0f}")
    return printed(Table.of("prefixes moved between sites", headings, [row], text))


def _figure(value: float | None, interval: Interval | None, digits: int = 4) -> str:
    """A figure and how sure it is."""
    if value is None or interval is None:
        return number(value, digits)
    return f"{number(value, digits)} ± {number((interval.high - interval.low) / 2, 2)}"


def _latency(run: Run) -> "RenderableType | None":
    headings = ("", ">TTFT mean", ">P50", ">P90", ">P99", ">per token", ">P90")
    ttft = [
        _seconds(getattr(run, f"ttft_{q}_s"), run.intervals.get(f"ttft_{q}_s")) for q in ("mean", "p50", "p90", "p99")
    ]
    tpot = [_milliseconds(run.tpot_mean_s), _milliseconds(run.tpot_p90_s)]
    rows = [("all", *ttft, *tpot)]
    for c in run.classes if len(run.classes) > 1 or any(c.sites for c in run.classes) else ():
        rows += [_class_row(c.name, c), *(_class_row(f"{c.name} at {at.name}", at) for at in c.sites)]
    text = "± half of a 95 % confidence interval over independent replications" if run.intervals else ""
    return printed(Table.of("latency", headings, rows, text))


def _class_row(name: str, of: ClassRun | SiteRun) -> tuple[str, ...]:
    mean, p90, p99 = (formats.seconds(s) for s in (of.ttft_mean_s, of.ttft_p90_s, of.ttft_p99_s))
    return name, mean, "", p90, p99, "", ""


def _seconds(value: float, interval: Interval | None) -> str:
    return f"{_figure(value, interval)} s"


def _milliseconds(value: float | None) -> str:
    return formats.seconds(value)


def _waits(run: Run) -> "RenderableType | None":
    parts = (
        ("waits for prefill", run.waits.prefill_wait_s),
        ("prefill", run.waits.prefill_s),
        ("transfer left after prefill", run.waits.transfer_s),
        ("waits for decode", run.waits.decode_wait_s),
    )
    whole = sum(seconds for _, seconds in parts)
    rows = ((what, formats.seconds(seconds), percent(seconds / whole if whole else None)) for what, seconds in parts)
    return printed(Table.of("mean time to first token, part by part", ("part", ">mean", ">share"), rows))


def _pools(run: Run) -> "RenderableType | None":
    headings = ("pool", "does", ">instances", ">busy", ">waiting", ">batch")
    text = "waiting: requests in its queue, at arrivals; batch: sequences per decode instance"
    rows = (
        (
            name,
            pool.role,
            str(pool.n_instances),
            percent(run.utilization[name]),
            number(pool.mean_waiting),
            number(pool.mean_batch) if pool.mean_batch is not None else "",
        )
        for name, pool in run.pools.items()
    )
    return printed(Table.of("pools", headings, rows, text))


def _links(run: Run) -> "RenderableType | None":
    headings = ("link", ">mean Gbps", ">peak Gbps", ">transfers")
    text = "peak: the most in any second; transfers: in progress, at arrivals"
    rows = (
        (
            name,
            _figure(link.mean_gbps, run.intervals.get(f"links.{name}.mean_gbps")),
            number(link.peak_gbps),
            number(link.mean_transfers),
        )
        for name, link in run.links.items()
    )
    return printed(Table.of("links", headings, rows, text))
