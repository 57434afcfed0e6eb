"""A sweep as a figure: what the objective asks for over the last key, and what the fleet becomes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.report import canvas
from planner.report.figure_files import write_figure
from planner.report.sweep_columns import swept_pools
from planner.results.plan import Plan
from planner.results.plan_sweep import PlanSweep, SweepPoint, sought

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINES = 12
"""Lines that can be told apart."""
WIDE_SPAN = 30.0
"""Greatest over least value from which on an axis is logarithmic."""
WIDEST_PT, NARROWEST_PT, ALL_BARS_PT = 24.0, 2.0, 360.0
"""Widths of bars in points, and what all of them take together at most."""
LABELLED = 0.08
"""Part of the tallest bar from which on a number fits in."""
DASHES = ("-", "--", ":")
MOST_TICKS = 8
"""Numbers that are written below an axis each."""


@dataclass(frozen=True)
class Measure:
    """Measured quantity of a plan on a chart: its label and its value."""

    label: str
    value: Callable[[Plan], float | None]


def write_sweep_figure(found: PlanSweep, path: Path) -> None:
    """Draw a sweep into a file; raises as `write_figure` does."""
    write_figure(lambda: sweep_chart(found), path)


def sweep_chart(found: PlanSweep) -> "Figure":
    """The objective over the last key, a line for each point of the others; below it the fleet, where that is one."""
    has_fleet = len(list(_lines(found))) == 1 and len(found.plans) > 0
    figure = canvas.new_figure(6.4 if has_fleet else 4.4)
    axes = figure.subplots(2 if has_fleet else 1, 1, sharex=True, squeeze=False)[:, 0]
    _draw_objective(axes[0], found)
    if has_fleet:
        _draw_fleet(axes[1], found)
    _value_axis(axes[-1], found)
    figure.align_ylabels(axes)
    return figure


def objective_measure(found: PlanSweep) -> Measure:
    """Measure of the plans' objective; the highest rate where objectives differ."""
    objectives = {plan.objective for plan in found.plans}
    labels = {"min-cost": "USD per hour", "min-ttft": "TTFT as asked for [s]"}
    if len(objectives) == 1 and (objective := objectives.pop()) in labels:
        return Measure(labels[objective], sought)
    return Measure("requests per second at most", lambda plan: plan.most_req_per_s)


def _lines(found: PlanSweep) -> Iterator[tuple[str, list[SweepPoint]]]:
    """Points by the values of all keys but the last."""
    last, groups = _last(found), dict[str, list[SweepPoint]]()
    for point in found.points:
        label = ", ".join(f"{_short(key)} = {value}" for key, value in point.set.items() if key != last)
        groups.setdefault(label, []).append(point)
    yield from groups.items()


def _short(key: str) -> str:
    """The end of a key, which tells keys apart."""
    return ".".join(key.split(".")[-2:])


def _last(found: PlanSweep) -> str:
    return list(found.over)[-1]


def _numbers(found: PlanSweep) -> dict[str, float] | None:
    """The values of the last key as numbers; None where one is a word."""
    try:
        return {value: float(value) for value in found.over[_last(found)]}
    except ValueError:
        return None


def _places(found: PlanSweep) -> dict[str, float]:
    """Where each value of the last key is on the axis: numbers at themselves, words side by side."""
    numbers = _numbers(found)
    return {value: float(i) for i, value in enumerate(found.over[_last(found)])} if numbers is None else numbers


def _draw_objective(axes: "Axes", found: PlanSweep) -> None:
    shown, places, last = objective_measure(found), _places(found), _last(found)
    lines = list(_lines(found))
    for i, (label, points) in enumerate(lines):
        known = sorted((places[p.set[last]], v) for p in points if p.plan and (v := shown.value(p.plan)) is not None)
        style: dict[str, Any] = {"color": canvas.hue(i), "linestyle": DASHES[i // len(canvas.HUES) % len(DASHES)]}
        axes.plot([x for x, _ in known], [y for _, y in known], marker="o", markersize=5, label=label, **style)
    _mark_best(axes, found, shown)
    failed = sorted({places[p.set[last]] for p in found.points if p.plan is None})
    if failed:
        axes.plot(failed, [0.0] * len(failed), "x", color=canvas.INK, clip_on=False, label="no plan", zorder=5)
    axes.set_ylabel(shown.label)
    _from_zero(axes)
    if len(lines) > 1 or failed or found.best is not None:
        _legend(axes, len(lines))


def _from_zero(axes: "Axes") -> None:
    """Values above zero, with room above the greatest."""
    axes.set_ylim(0, 1.08 * max(axes.dataLim.y1, 1e-9))
    axes.grid(axis="y")


def _mark_best(axes: "Axes", found: PlanSweep, shown: Measure) -> None:
    plan = None if found.best is None else found.points[found.best].plan
    value = None if plan is None else shown.value(plan)
    if found.best is None or value is None:
        return
    x = _places(found)[found.points[found.best].set[_last(found)]]
    ring: dict[str, Any] = {
        "markersize": 13,
        "markerfacecolor": "none",
        "markeredgecolor": canvas.INK,
        "markeredgewidth": 1.6,
    }
    axes.plot([x], [value], "o", linestyle="", label=f"best: {found.best_by}", **ring)


def _legend(axes: "Axes", n_lines: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    named = [(h, text) for h, text in zip(handles, labels, strict=True) if text]
    cut = named[:MOST_LINES] + named[max(n_lines, MOST_LINES) :] if n_lines > 1 else named
    many = len(cut) > 4
    axes.legend(
        [h for h, _ in cut],
        [text for _, text in cut],
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=2 if many else 1,
        fontsize=9,
    )


def _draw_fleet(axes: "Axes", found: PlanSweep) -> None:
    """Instances of every pool, one above the other; a pool that a plan is without has none."""
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

    places, last = _places(found), _last(found)
    planned = [(places[p.set[last]], p.plan) for p in found.points if p.plan]
    width = max(NARROWEST_PT, min(WIDEST_PT, ALL_BARS_PT / len(planned)))
    below, most = [0] * len(planned), max(sum(pool.n_instances for pool in plan.pools) for _, plan in planned)
    for i, name in enumerate(swept_pools(found.plans)):
        sizes = [next((pool.n_instances for pool in plan.pools if pool.name == name), 0) for _, plan in planned]
        above = [low + n for low, n in zip(below, sizes, strict=True)]
        # Lines, because their width is in points: bars would get thin where values are uneven.
        axes.vlines([x for x, _ in planned], below, above, colors=canvas.hue(i), linewidth=width)
        for (x, _), low, n in zip(planned, below, sizes, strict=True):
            if n >= LABELLED * most and width == WIDEST_PT:
                axes.text(x, low + n / 2, f"{n:,}", ha="center", va="center", color="white", fontsize=8)
        below = above
    axes.set_ylabel("instances")
    axes.set_ylim(0, 1.08 * max(most, 1))
    axes.grid(axis="y")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    handles = [Patch(color=canvas.hue(i), label=name) for i, name in enumerate(swept_pools(found.plans))]
    axes.legend(handles=handles[::-1], loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9, handlelength=0.8)


def _value_axis(axes: "Axes", found: PlanSweep) -> None:
    """Values of the last key as they were written."""
    numbers, places = _numbers(found), _places(found)
    axes.set_xlabel(_last(found))
    if numbers is not None and 0 < WIDE_SPAN * min(numbers.values()) < max(numbers.values()):
        axes.set_xscale("log")
        axes.minorticks_off()
    if numbers is None or len(numbers) <= MOST_TICKS:
        axes.set_xticks(list(places.values()), labels=list(places))
