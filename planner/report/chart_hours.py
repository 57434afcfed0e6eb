"""The figure of a day for a fleet that is bought for its busiest hour: demand, use, time to first token and cost."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.report import canvas
from planner.results import Case

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Lines = tuple[tuple[str, tuple[float | None, ...]], ...]
"""Names, and values by hour; None where unknown."""


@dataclass(frozen=True)
class HoursChart:
    """A day in steps of an hour."""

    demand_req_per_s: tuple[float, ...]
    busy: Lines
    """Pool or link, and its use [fraction]."""
    ttft_s: Lines
    usd_per_million: Lines
    """Kind of tokens, and what a million of them costs."""

    def draw(self) -> "Figure":
        panels: list[tuple[str, Lines, float]] = [
            ("requests\nper second", (("demand", self.demand_req_per_s),), 1.0),
            ("busy [%]", self.busy, 100.0),
            ("TTFT [s]", self.ttft_s, 1.0),
            ("USD per million\ninput tokens", self.usd_per_million, 1.0),
        ]
        shown = [panel for panel in panels if panel[1]]
        figure = canvas.new_figure(1.0 + 1.7 * len(shown) + canvas.legend_in([name for name, _ in self.busy]))
        for axes, (label, lines, factor) in zip(figure.subplots(len(shown), 1, sharex=True), shown, strict=True):
            _steps(axes, lines, factor)
            axes.set_ylabel(label)
        axes.set_xlabel("hours")
        axes.set_xlim(0, len(self.demand_req_per_s))
        return figure


def _steps(axes: "Axes", lines: Lines, factor: float) -> None:
    """Lines in steps of an hour, with their names where they are several."""
    for index, (name, values) in enumerate(lines):
        heights = [float("nan") if value is None else factor * value for value in values]
        edges = range(len(values) + 1)
        look: dict[str, Any] = {"color": canvas.hue(index), "linestyle": canvas.dashes(index), "linewidth": 2.0}
        axes.stairs(heights, edges, baseline=None, label=name, **look)
    axes.set_ylim(0, 1.1 * max((factor * v for _, values in lines for v in values if v is not None), default=1.0))
    axes.grid(axis="y")
    if len(lines) > 1:
        canvas.legend_over(axes)


def hours_chart(case: Case) -> HoursChart | None:
    """The day of a plan for the busiest hour; None where no day was asked for."""
    hours = case.hours
    if not hours:
        return None
    names = list(hours[0].utilization)
    ttft: Lines = (("P90", tuple(h.ttft_p90_s for h in hours)), ("mean", tuple(h.ttft_mean_s for h in hours)))
    usd: Lines = (("input", tuple(h.usd_per_million_input_tokens for h in hours)),)
    return HoursChart(
        demand_req_per_s=tuple(h.demand_req_per_s for h in hours),
        busy=tuple((name, tuple(h.utilization[name] for h in hours)) for name in names),
        ttft_s=tuple(line for line in ttft if any(value is not None for value in line[1])),
        usd_per_million=tuple(line for line in usd if any(value is not None for value in line[1])),
    )
