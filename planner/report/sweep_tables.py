"""A sweep as a table for a terminal of a hundred columns, as CSV and as a figure."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from planner.files import whole_file
from planner.report import canvas, words
from planner.report.figure_files import write_figure
from planner.report.run_files import check_folder
from planner.report.terminal import caption, empty_table, filled, remarks
from planner.results import Plan, PlanSweep, SweepPoint
from planner.units import DASH, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

FIGURE_SUFFIXES = (".png", ".svg")
COLUMNS = (
    "throughput_req_per_s",
    "max_throughput_req_per_s",
    "goodput_req_per_s",
    "threshold_tokens",
    "offload_fraction",
)


def sweep_tables(found: PlanSweep) -> list["RenderableType"]:
    """Plans by point, for people.

    Args:
        found: the answer of `planner sweep`.

    Returns:
        What to print, in order.
    """
    headings = (">at most req/s", ">threshold", "instances", ">USD/h", ">TTFT", ">P90")
    table = empty_table(f"{found.scenario}, one plan per point", *(f">{_short(key)}" for key in found.over), *headings)
    pools = next((words.pool_names(p.plan) for p in found.points if p.plan), "")
    caption(table, f"instances: {pools}; TTFT: mean, and P90, without waiting")
    failures = [f"{_named(point)}: {point.failure.splitlines()[0]}" for point in found.points if point.failure]
    parts = (filled(table, map(_row, found.points)), remarks("no plan", failures))
    return [part for part in parts if part is not None]


def _short(key: str) -> str:
    """The end of a key, which tells keys apart in a narrow table."""
    return ".".join(key.split(".")[-2:])


def _named(point: SweepPoint) -> str:
    return ", ".join(f"{_short(key)} = {value}" for key, value in point.set.items())


def _row(point: SweepPoint) -> tuple[str, ...]:
    plan = point.plan
    if plan is None:
        return (*point.set.values(), *(DASH,) * 6)
    return (
        *point.set.values(),
        number(plan.most_req_per_s),
        number(plan.threshold_tokens),
        words.sizes(plan),
        words.usd(plan.cost.usd_per_hour),
        words.seconds(plan.latency.ttft_unloaded_mean_s),
        words.seconds(plan.latency.ttft_unloaded_p90_s),
    )


def write_sweep_csv(found: PlanSweep, path: Path) -> None:
    """One row per point; what a plan does not know is empty."""
    check_folder(path)
    with whole_file(path) as aside, aside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        pools = next(([pool.name for pool in p.plan.pools] for p in found.points if p.plan), [])
        writer.writerow([*found.over, *COLUMNS, *(f"n_{name}" for name in pools), "usd_per_hour", "failure"])
        for point in found.points:
            writer.writerow([*point.set.values(), *_cells(point.plan, pools), point.failure or ""])


def _cells(plan: Plan | None, pools: list[str]) -> list[object]:
    if plan is None:
        return [""] * (len(COLUMNS) + len(pools) + 1)
    sizes = [plan.pool(name).n_instances for name in pools]
    values = [*(getattr(plan, name) for name in COLUMNS), *sizes, plan.cost.usd_per_hour]
    return ["" if value is None else value for value in values]


def write_sweep_figure(found: PlanSweep, path: Path) -> None:
    """The highest rate over the last key, one line per point of the others."""
    check_folder(path)
    write_figure(lambda: _figure(found), path)


def _figure(found: PlanSweep) -> "Figure":
    figure = canvas.new_figure(4.0)
    axes, last = figure.subplots(), list(found.over)[-1]
    for label, points in _lines(found, last):
        planned = [(p.set[last], p.plan.most_req_per_s) for p in points if p.plan]
        places = [list(found.over[last]).index(value) for value, _ in planned]
        axes.plot(places, [rate for _, rate in planned], marker="o", label=label)
    axes.set_xticks(range(len(found.over[last])), found.over[last])
    axes.set_xlabel(last)
    axes.set_ylabel("requests per second at most")
    axes.set_ylim(bottom=0)
    if len(found.over) > 1:
        axes.legend()
    return figure


def _lines(found: PlanSweep, last: str) -> Iterator[tuple[str, list[SweepPoint]]]:
    groups: dict[str, list[SweepPoint]] = {}
    for point in found.points:
        label = ", ".join(f"{_short(key)} = {value}" for key, value in point.set.items() if key != last)
        groups.setdefault(label, []).append(point)
    yield from groups.items()
