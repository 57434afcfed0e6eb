"""A live run as tables for a terminal of a hundred columns."""

from typing import TYPE_CHECKING

from planner.report import formats, phrases
from planner.report.table import Table
from planner.report.terminal import frame, printed
from planner.results.live import Live, LiveCheck
from planner.units import DASH, number, percent

if TYPE_CHECKING:
    from rich.console import RenderableType


def live_tables(found: Live) -> list["RenderableType"]:
    """Tables of what was served on which machine, and every metric predicted, executed and measured.

    Args:
        found: the answer of `planner live`.

    Returns:
        What to print, in order.
    """
    headings = ("metric", ">predicted", ">executed", ">measured", ">error", ">spread", ">allowed", "holds")
    before, busy = percent(found.machine.busy_before_fraction), percent(found.machine.busy_fraction)
    text = (
        f"passes in seconds that workers ran: they had their cores {before} of the time while timed, {busy} of it while"
    )
    paced = (
        f"latencies are predicted for prefills {number(found.machine.stretch)} times as long, as they were at that load"
    )
    told = f"{text} serving; {paced}; spread: largest less smallest of repeats, over their mean"
    table = Table.of("predicted before the run, executed, measured", headings, map(_row, found.checks), told)
    parts = (frame("live", _headline(found)), printed(table))
    return [part for part in parts if part is not None]


def _headline(found: Live) -> list[tuple[str, str]]:
    machine = found.machine
    pinned = ", ".join(f"{name} on {'any' if core is None else core}" for name, core in machine.workers.items())
    peak = max(machine.gemm_flop_per_s.values()) / 1e9
    requests = f"{found.n_finished:,} of {found.n_requests:,} finished, {found.n_dropped:,} dropped"
    if found.n_foreign:
        requests += f"; {found.n_foreign:,} connections of other programs dropped"
    route = f"above {number(found.threshold_tokens)} uncached tokens, at {number(found.link_bytes_per_s / 1e6)} MB/s"
    return [
        ("model", found.scenario),
        ("machine", f"{machine.processor}, {machine.n_cores} cores, {machine.system}"),
        *([("computed by", phrases.live_device(machine))] if machine.torch else []),
        (
            "one worker" if machine.device else "one core",
            f"{number(peak)} GFLOP/s in fp32, {number(machine.memory_bytes_per_s / 1e9)} GB/s, all busy",
        ),
        ("workers", pinned),
        ("link", route),
        ("requests", f"{requests}, {number(found.offered_req_per_s)} req/s for {number(found.served_s)} s"),
    ]


def _row(check: LiveCheck) -> tuple[str, ...]:
    values = (check.predicted, check.executed, check.measured)
    cells = [number(value) for value in values]
    error = DASH if check.relative_error is None else formats.signed_percent(check.relative_error)
    return (
        check.metric,
        *cells,
        error,
        percent(check.spread),
        percent(check.tolerance, 0),
        "yes" if check.holds else "no",
    )
