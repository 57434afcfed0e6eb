"""The report of a live run as a folder of Markdown, figures and the answer that both follow from."""

import json
from collections.abc import Callable, Collection
from pathlib import Path

from planner.report import formats, phrases
from planner.report.chart_live import live_decode_chart, live_prefill_chart, live_ttft_chart
from planner.report.figures import Chart
from planner.report.folder import REPORT, write_folder
from planner.report.markdown_template import escaped_record, rendered
from planner.report.table import Table
from planner.results.live import Live, LiveCheck, LiveMachine
from planner.units import DASH, number, percent

ANSWER = "live.json"
CHARTS: dict[str, Callable[[Live], Chart | None]] = {
    "prefill": live_prefill_chart,
    "decode": live_decode_chart,
    "ttft": live_ttft_chart,
}


def write_live_report(live: Live, out_dir: Path) -> None:
    """Write report.md, live.json and figures/*.png into a folder.

    Args:
        live: the run.
        out_dir: the folder; made where it does not exist.

    Raises:
        InputError: the folder cannot be written.
    """
    shown = live_charts(live)
    write_folder(out_dir, {ANSWER: live_answer(live), REPORT: live_markdown(live, shown)}, shown)


def live_answer(live: Live) -> str:
    """The answer as the file has it."""
    return json.dumps(live.answer(), indent=1) + "\n"


def live_charts(live: Live) -> dict[str, Chart]:
    """Contents of the figures, by file name without suffix; only those with something to show."""
    found = ((name, chart(live)) for name, chart in CHARTS.items())
    return {name: chart for name, chart in found if chart is not None}


TEMPLATE = "live.md.jinja"
GIGA = 1e9


def live_markdown(live: Live, figures: Collection[str]) -> str:
    """The report; figures are referred to as `figures/NAME.png`.

    Returns:
        Markdown that ends in one newline and is the same for the same run.
    """
    live = escaped_record(live)
    n_rounds = max((len(item.rounds_s) for item in live.passes), default=0)
    return rendered(
        TEMPLATE,
        live=live,
        figures=figures,
        n_rounds=n_rounds,
        verdict=live_verdict(live),
        checks=checks_table(live),
        machine=machine_table(live),
        repeats=repeats_table(live),
    )


def live_verdict(live: Live) -> str:
    """Number of figures that held, and names of those that did not."""
    failed = [check.metric for check in live.checks if not check.holds]
    n, total = len(live.checks) - len(failed), len(live.checks)
    if not failed:
        return f"**All {total} figures lie within what is allowed.**"
    return (
        f"**{n} of {total} figures lie within what is allowed; not {formats.listed([f'{name}' for name in failed])}.**"
    )


def checks_table(live: Live) -> Table:
    """Every figure predicted, executed and measured."""
    headings = ["", ">predicted", ">executed", ">measured", "unit", ">error", ">spread", ">allowed", "holds"]
    return Table.untitled(headings, map(_check_cells, live.checks))


def _check_cells(check: LiveCheck) -> list[str]:
    values = [number(value) for value in (check.predicted, check.executed, check.measured)]
    error = DASH if check.relative_error is None else formats.signed_percent(check.relative_error)
    holds = "yes" if check.holds else "**no**"
    unit = "" if check.unit == "1" else check.unit
    return [check.metric, *values, unit, error, percent(check.spread), percent(check.tolerance, 0), holds]


def _computed_with(found: LiveMachine) -> str:
    if found.torch is None:
        return f"NumPy {found.numpy}, one BLAS thread per worker"
    return f"NumPy {found.numpy}, {phrases.live_device(found)}"


def machine_table(live: Live) -> Table:
    """The machine in words, and how much of it the run had."""
    found = live.machine
    pinned = ", ".join(f"{name} on {'any' if core is None else core}" for name, core in found.workers.items())
    rates = ", ".join(f"{number(rate / GIGA)} at {rows}" for rows, rate in found.gemm_flop_per_s.items())
    unit = "worker" if found.device else "core"
    rows = [
        ("processor", f"{found.processor}, {found.n_cores} cores used, {number(found.memory_bytes / GIGA)} GB"),
        ("software", f"{found.system}, Python {found.python}, {_computed_with(found)}"),
        (f"fp32 products of one {unit}, all busy", f"GFLOP/s by rows: {rates}"),
        (f"memory, one {unit}, all busy", f"{number(found.memory_bytes_per_s / GIGA)} GB/s"),
        ("one call of the library" if found.torch else "one NumPy call", f"{number(found.call_s * 1e6)} µs"),
        ("loopback", f"{number(found.loopback_bytes_per_s / GIGA)} GB/s"),
        ("workers", f"{pinned} (core)"),
        (
            "link",
            f"{number(live.link_bytes_per_s / 1e6)} MB/s, for prompts above {number(live.threshold_tokens)} tokens",
        ),
        ("requests", f"{live.n_finished:,} of {live.n_requests:,} finished, {number(live.offered_req_per_s)} req/s"),
        ("others, before the start", f"load average {number(found.load_average)}"),
        ("workers had their cores, timed without a pause", percent(found.busy_before_fraction)),
        (
            "prefills with pauses, just before the run",
            f"{number(found.stretch)} times the seconds of one with all busy",
        ),
        ("workers had their cores, while serving", percent(found.busy_fraction)),
        (
            "taken by the hypervisor",
            f"{percent(found.steal_before_fraction)} before, {percent(found.steal_fraction)} after",
        ),
    ]
    return Table.untitled(["", ""], rows)


def repeats_table(live: Live) -> Table:
    """The same requests, served one time after another."""
    headings = ["", ">finished", ">TTFT mean s", ">P90 s", ">TPOT s", ">req/s", ">link", ">had its core"]
    rows = (
        [
            f"repeat {turn}",
            f"{one.n_finished} of {one.n_finished + one.n_dropped}",
            *(number(v) for v in (one.ttft_mean_s, one.ttft_p90_s, one.tpot_mean_s, one.throughput_req_per_s)),
            percent(one.link_fraction),
            percent(one.busy_fraction),
        ]
        for turn, one in enumerate(live.repeats, 1)
    )
    return Table.untitled(headings, rows)
