"""A size as tables for a terminal: both ways to serve a demand side by side, what they promise, what was looked at."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from planner.notes import code_of
from planner.report import formats
from planner.report.table import Table
from planner.report.terminal import frame, printed, remarks
from planner.results import Size, SizedFleet, SizedPool, SizedSloRun
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
    beside = [one for one in size.notes if code_of(one) == "tpot-meanings"]
    parts = (
        frame(f"{size.model}, {number(size.rate_req_per_s, 4)} req/s", _headline(size)),
        _side_by_side(size),
        _promises(size, " ".join(map(formats.sentence, beside))),
        _considered(size),
        remarks("notes", (formats.sentence(one) for one in size.notes if one not in beside)),
    )
    return [part for part in parts if part is not None]


def _headline(size: Size) -> list[tuple[str, str]]:
    found = size.disaggregation
    is_tied = found.decided and found.margin_fraction == 0
    word = "either" if is_tied else "yes" if found.worth_it else "no" if found.decided else "not decided"
    return [
        ("disaggregate?", f"{word}: {found.because}"),
        ("requests", f"{number(size.input_tokens_mean)} tokens in, {number(size.output_tokens_mean)} out, on average"),
        ("promises", _promised(size)),
        ("software", f"{size.stack or 'by fleet, as below'}; weights in {size.precision}"),
    ]


def _promised(size: Size) -> str:
    share = f"for {number(size.percentile)} % of requests"
    said = []
    if size.ttft_s is not None:
        said.append(f"first token within {formats.seconds(size.ttft_s)}")
    if size.tpot_s is not None:
        said.append(f"{number(size.tpot_s / MILLI)} ms per output token")
    return f"{', '.join(said)}, {share}" if said else "none: waits may be long"


def _fleets(size: Size) -> Iterator[tuple[str, SizedFleet]]:
    for name, fleet in (("colocated", size.colocated), ("prefill and decode", size.disaggregated)):
        if fleet is not None:
            yield name, fleet


def _side_by_side(size: Size) -> "RenderableType | None":
    found = list(_fleets(size))
    rows = [
        ["instances", *(" + ".join(map(_pool, fleet.pools)) for _, fleet in found)],
        *([] if size.stack else [["software", *(" / ".join(_softwares(fleet)) for _, fleet in found)]]),
        ["layout", *(" / ".join(_layout(pool.layout) for pool in fleet.pools) for _, fleet in found)],
        ["tokens per pass", *(" / ".join(number(pool.tokens_per_pass) for pool in fleet.pools) for _, fleet in found)],
        ["accelerators", *(number(fleet.n_accelerators) for _, fleet in found)],
        ["busy", *(" / ".join(percent(pool.utilization) for pool in fleet.pools) for _, fleet in found)],
        ["USD per hour", *(_usd(fleet.cost.usd_per_hour) for _, fleet in found)],
        ["USD per million tokens in", *(_usd(fleet.cost.usd_per_million_input_tokens) for _, fleet in found)],
        ["USD per million tokens out", *(_usd(fleet.cost.usd_per_million_output_tokens) for _, fleet in found)],
        ["TTFT mean", *(formats.seconds(fleet.latency.ttft_mean_s) for _, fleet in found)],
        ["TTFT P90", *(formats.seconds(fleet.latency.ttft_p90_s) for _, fleet in found)],
        ["per output token", *(formats.seconds(fleet.latency.tpot_mean_s) for _, fleet in found)],
        ["what binds", *(fleet.binds for _, fleet in found)],
    ]
    return printed(Table.of("side by side, as predicted", ["", *(name for name, _ in found)], rows))


def _softwares(fleet: SizedFleet) -> Iterable[str]:
    """Software of a fleet's pools, each once."""
    return dict.fromkeys(pool.stack for pool in fleet.pools)


def _pool(pool: SizedPool) -> str:
    return f"{pool.n_instances} of {pool.accelerators_per_instance} x {pool.hardware}"


def _layout(layout: str) -> str:
    """Parallel sizes beyond 1."""
    sizes = [part for part in layout.split(",") if not part.endswith("=1")]
    return ",".join(sizes) or "tp=1"


def _usd(value: float | None) -> str:
    return DASH if value is None else number(value, 4)


def _promises(size: Size, caption: str) -> "RenderableType | None":
    """Promises with what came of them, and below what they mean for each fleet."""
    headings = ("fleet", "promise", ">limit", ">predicted", ">executed", "95 % interval", "kept")
    rows = [
        _promise(name, run)
        for name, fleet in _fleets(size)
        for run in (fleet.slo_run, fleet.tpot_run)
        if run is not None
    ]
    return printed(Table.of("promises, run request by request", headings, rows, caption))


def _promise(name: str, run: SizedSloRun) -> list[str]:
    kept = "not run" if run.holds is None else "yes" if run.holds else "no" if run.decided else "undecided"
    share = f"P{number(run.percentile)}" if run.percentile < 100 else "mean"
    what = f"{'TTFT' if run.metric == 'ttft' else 'TPOT'} {share}"
    both = run.ci_low_s is not None and run.ci_high_s is not None
    interval = f"{formats.seconds(run.ci_low_s)} to {formats.seconds(run.ci_high_s)}" if both else DASH
    times = (formats.seconds(value) for value in (run.promised_s, run.predicted_s, run.executed_s))
    return [name, what, *times, interval, kept]


def _considered(size: Size) -> "RenderableType | None":
    headings = ["role", "instance", "layout", ">tokens per pass", ">req/s each", ">USD/h at least"]
    has_one = len({way.stack for way in size.considered}) == 1
    headings[2:2] = [] if has_one else ["software"]
    rows = (
        (
            way.role,
            f"{way.accelerators_per_instance} x {way.hardware}",
            *(() if has_one else (way.stack,)),
            _layout(way.layout),
            number(way.tokens_per_pass),
            number(way.capacity_req_per_s, 3),
            number(way.usd_per_hour, 4),
        )
        for way in size.considered
    )
    return printed(Table.of("layouts, without waiting", headings, rows))
