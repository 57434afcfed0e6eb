"""The figure of a day: demand, how busy pools and links are, and the time to first token, period by period."""

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from planner.report import canvas
from planner.results import Case

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P90 = 90.0
MOST_LINES = 6
"""Pools and links in one panel; more could not be told apart."""


@dataclass(frozen=True)
class PeriodsChart:
    """A day in steps."""

    edges_h: tuple[float, ...]
    """Starts of the periods and the end of the last [h]."""
    demand_req_per_s: tuple[float, ...]
    busy: tuple[tuple[str, tuple[float, ...]], ...]
    """Pool or link, and its use by period [fraction]."""
    ttft_s: tuple[tuple[str, tuple[float, ...]], ...]
    """Quantile, and its value by period [s]."""
    promises_s: tuple[float, ...]
    """Promised TTFTs."""

    def draw(self) -> "Figure":
        figure = canvas.new_figure(7.6)
        panels = figure.subplots(3, 1, sharex=True, height_ratios=[1, 1.5, 1])
        self._steps(panels[0], (("demand", self.demand_req_per_s),), 1.0)
        panels[0].set_ylabel("requests\nper second")
        self._steps(panels[1], self.busy, 100.0)
        panels[1].set_ylabel("busy [%]")
        panels[1].set_ylim(0, 100)
        panels[1].legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=9)
        self._steps(panels[2], self.ttft_s, 1.0)
        for promise in self.promises_s:
            panels[2].axhline(promise, color=canvas.GREY, linestyle=(0, (4, 3)), linewidth=1.2)
            canvas.halo(panels[2], self.edges_h[0], promise, "promised", ha="left", va="bottom", offset=(4, 1))
        panels[2].set_ylabel("TTFT [s]")
        panels[2].set_ylim(0, 1.2 * max([*self.promises_s, *(x for _, values in self.ttft_s for x in values)]))
        panels[2].legend(loc="lower right", ncols=2, fontsize=9)
        panels[2].set_xlabel("hours")
        panels[2].set_xlim(self.edges_h[0], self.edges_h[-1])
        return figure

    def _steps(self, axes: "Axes", lines: tuple[tuple[str, tuple[float, ...]], ...], factor: float) -> None:
        for index, (name, values) in enumerate(lines):
            heights = [factor * value for value in values]
            axes.stairs(heights, self.edges_h, baseline=None, color=canvas.hue(index), linewidth=2.0, label=name)
        axes.set_ylim(0, None)
        axes.grid(axis="y")


def periods_chart(case: Case) -> PeriodsChart | None:
    """The day of a plan; None where demand does not change."""
    periods = case.plan.periods
    if len(periods) < 2:
        return None
    used = [pool.name for pool in sorted(case.plan.pools, key=lambda p: -p.n_accelerators)]
    used += [link.name for link in case.plan.links if link.mean_gbps > 0]
    use: dict[str, list[float]] = {name: [] for name in used[:MOST_LINES]}
    for period in periods:
        busy = {pool.name: pool.utilization for pool in period.pools}
        busy |= {link.name: link.utilization for link in period.links}
        for name, values in use.items():
            values.append(busy[name])
    latencies = [("P90", [p.latency.ttft_p90_s for p in periods]), ("mean", [p.latency.ttft_mean_s for p in periods])]
    promises = {
        c.slo["ttft_s"] for c in case.plan.classes if c.slo and "ttft_s" in c.slo and c.slo["ttft_percentile"] == P90
    }
    return PeriodsChart(
        edges_h=tuple(accumulate((period.hours for period in periods), initial=0.0)),
        demand_req_per_s=tuple(period.demand_req_per_s for period in periods),
        busy=tuple((name, tuple(values)) for name, values in use.items()),
        ttft_s=tuple((name, tuple(x or 0.0 for x in values)) for name, values in latencies),
        promises_s=tuple(sorted(promises)),
    )
