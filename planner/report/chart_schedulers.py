"""The figure of scheduling: the threshold and the prompts that wait, over time, pattern by pattern."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.report import canvas
from planner.results.scheduling import ScheduledSeries, SchedulerComparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SECONDS_PER_HOUR = 3600.0
ROW_IN = 2.0
MOST_ABOVE = 20.0
"""Ratio of longest to typical queues from which on they are drawn on a logarithmic axis."""

MOST_POINTS = 128
SCHEDULERS = ("static", "short-term", "long-term", "both")

Points = tuple[float, ...]


@dataclass(frozen=True)
class Line:
    """One kind of scheduling under a pattern."""

    scheduler: str
    time_h: Points
    threshold_tokens: Points
    """Empty without one threshold."""
    n_waiting: Points


@dataclass(frozen=True)
class SchedulersChart:
    """Two panels by pattern."""

    patterns: tuple[tuple[str, tuple[Line, ...]], ...]

    def draw(self) -> "Figure":
        """The figure; call it within `canvas.style`."""
        n = len(self.patterns)
        figure = canvas.new_figure(ROW_IN * n + 0.8)
        grid = figure.subplots(n, 2, squeeze=False)
        for (threshold, queue), (name, lines) in zip(grid, self.patterns, strict=True):
            for line in lines:
                look = _look(line.scheduler)
                if line.threshold_tokens:
                    threshold.plot(line.time_h, [t / 1e3 for t in line.threshold_tokens], **look)
                queue.plot(line.time_h, line.n_waiting, **look)
            _dress(threshold, name, "threshold [1,000 tokens]")
            _dress(queue, "", "prompts that wait")
            if max(max(line.n_waiting) for line in lines) > MOST_ABOVE * max(_typical(lines), 1.0):
                queue.set_yscale("symlog", linthresh=10)
                queue.yaxis.set_major_formatter(lambda n, _: f"{n:,.0f}")
        for axes in grid[-1]:
            axes.set_xlabel("hours")
        handles, labels = grid[0, 1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
        return figure


def _typical(lines: Sequence[Line]) -> float:
    return float(np.median([n for line in lines for n in line.n_waiting]))


def _look(scheduler: str) -> dict[str, Any]:
    """Told apart without colours, too: the plan as it is lies wide and pale under the dashes of what changes it."""
    i = SCHEDULERS.index(scheduler)
    look = {"color": canvas.hue(i), "label": scheduler, "linestyle": canvas.dashes(i)}
    return look | ({"linewidth": 3.0, "alpha": 0.4} if i == 0 else {"linewidth": 1.3})


def _dress(axes: "Axes", title: str, label: str) -> None:
    axes.set_title(title, fontsize=11)
    axes.set_ylabel(label, fontsize=9.5)
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    axes.grid(axis="y")


def schedulers_chart(found: SchedulerComparison, series: Sequence[ScheduledSeries]) -> SchedulersChart:
    """Contents of a comparison's figure."""
    return SchedulersChart(
        tuple(
            (pattern.name, tuple(_line(each) for each in series if each.pattern == pattern.name))
            for pattern in found.patterns
        )
    )


def _line(series: ScheduledSeries) -> Line:
    waiting = np.sum(list(series.waiting.values()), axis=0)
    thresholds = () if series.threshold_tokens is None else _means(series.threshold_tokens)
    return Line(series.scheduler, _means(series.time_s / SECONDS_PER_HOUR), thresholds, _means(waiting))


def _means(values: Any) -> Points:
    """Means of neighbours, so that a line has no more points than can be told apart."""
    return tuple(float(part.mean()) for part in np.array_split(values, min(MOST_POINTS, len(values))))
