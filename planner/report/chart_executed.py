"""The figure of a plan that was run: TTFT over the load without a queue, as queueing predicts it, and as executed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.report import canvas, formats
from planner.report.chart_schedulers import SchedulersChart, schedulers_chart
from planner.results.case import Case
from planner.results.executed import ExecutedFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = tuple[float, ...]
HEADROOM = 1.25
"""Height over the highest executed point: what queueing predicts rises without end beyond it."""
LABELS = ("no queue, as in the paper", "queueing model", "executed, 95 % interval")


@dataclass(frozen=True)
class TtftPanel:
    """One figure of TTFT over the load."""

    title: str
    no_queue_s: float | None
    predicted: tuple[Values, Values]
    """Parts of the highest rate, and seconds."""
    executed: tuple[Values, Values, Values, Values]
    """Parts of the highest rate, seconds, lower and upper ends of their intervals."""

    def draw(self, axes: "Axes") -> None:
        """The three curves."""
        loads, seconds, low, high = self.executed
        top = HEADROOM * max((*high, self.no_queue_s or 0.0))
        if self.no_queue_s is not None:
            axes.axhline(self.no_queue_s, color=canvas.hue(1), linewidth=2, linestyle="--", label=LABELS[0])
        axes.plot(*self.predicted, color=canvas.hue(0), linewidth=2, label=LABELS[1])
        ends = [
            [s - end for s, end in zip(seconds, low, strict=True)],
            [end - s for s, end in zip(seconds, high, strict=True)],
        ]
        axes.errorbar(
            loads, seconds, ends, fmt="o", color=canvas.INK, markersize=5, capsize=3, linewidth=1.3, label=LABELS[2]
        )
        for load, value, end in zip(loads, seconds, high, strict=True):
            canvas.halo(axes, load, end, formats.seconds(value), offset=(-4, 8), fontsize=9.5, ha="right", bbox=None)
        axes.set_title(self.title)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, top)
        axes.set_xlabel("requests per second over the highest rate")
        axes.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.0f} %" if x else "0")
        axes.grid(axis="y")


@dataclass(frozen=True)
class ExecutedChart:
    """Mean and 90th percentile beside each other."""

    panels: tuple[TtftPanel, TtftPanel]

    def draw(self) -> "Figure":
        """The figure; call it within `canvas.style`."""
        figure = canvas.new_figure(4.2)
        for axes, panel in zip(figure.subplots(1, 2), self.panels, strict=True):
            panel.draw(axes)
        figure.axes[0].set_ylabel("time to first token [s]")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
        return figure


def executed_chart(case: Case) -> ExecutedChart | None:
    """TTFT over the load; None where the plan was not run."""
    found = case.executed
    if found is None:
        return None
    loads, known = tuple(at.load for at in found.loads), found.predicted_ttft
    return ExecutedChart(
        (
            _panel("mean", loads, tuple(at.ttft_mean_s for at in found.loads), (known.loads, known.mean_s)),
            _panel("90th percentile", loads, tuple(at.ttft_p90_s for at in found.loads), (known.loads, known.p90_s)),
        )
    )


def _panel(
    title: str, loads: Values, figures: tuple[ExecutedFigure, ...], predicted: tuple[Values, Values]
) -> TtftPanel:
    low, high = zip(*(f.interval for f in figures), strict=True)
    seconds = tuple(f.executed for f in figures)
    return TtftPanel(title, figures[0].by_paper, predicted, (loads, seconds, low, high))


def scheduling_chart(case: Case) -> SchedulersChart | None:
    """Thresholds and queues over time by kind of scheduling; None where they were not compared."""
    found = case.executed
    if found is None or found.schedulers is None or not found.scheduler_series:
        return None
    return schedulers_chart(found.schedulers, found.scheduler_series)
