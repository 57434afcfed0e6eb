"""The figure of a day: demand, how busy pools and links are, and the time to first token, period by period."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from planner.report import canvas, formats
from planner.results import Case, Plan

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
    promises_s: tuple[tuple[str, float], ...]
    """Whom a TTFT is promised, and that TTFT [s]."""

    def draw(self) -> "Figure":
        figure = canvas.new_figure(7.4 + canvas.legend_in([name for name, _ in (*self.busy, *self.promises_s)]))
        panels = figure.subplots(3, 1, sharex=True, height_ratios=[1, 1.5, 1])
        self._steps(panels[0], (("demand", self.demand_req_per_s),), 1.0)
        panels[0].set_ylabel("requests\nper second")
        self._steps(panels[1], self.busy, 100.0)
        panels[1].set_ylabel("busy [%]")
        panels[1].set_ylim(0, 100)
        canvas.legend_over(panels[1])
        self._steps(panels[2], self.ttft_s, 1.0)
        for index, (name, promise) in enumerate(self.promises_s, len(self.ttft_s)):
            look: dict[str, Any] = {"color": canvas.hue(index), "linestyle": canvas.broken(index), "linewidth": 1.4}
            panels[2].axhline(promise, label=name, **look)
        panels[2].set_ylabel("TTFT [s]")
        panels[2].set_ylim(0, 1.1 * max(x for _, values in (*self.ttft_s, *self._promised) for x in values))
        canvas.legend_over(panels[2])
        panels[2].set_xlabel("hours")
        panels[2].set_xlim(self.edges_h[0], self.edges_h[-1])
        return figure

    @property
    def _promised(self) -> list[tuple[str, tuple[float, ...]]]:
        return [(name, (promise,)) for name, promise in self.promises_s]

    def _steps(self, axes: "Axes", lines: tuple[tuple[str, tuple[float, ...]], ...], factor: float) -> None:
        for index, (name, values) in enumerate(lines):
            heights = [factor * value for value in values]
            look: dict[str, Any] = {"color": canvas.hue(index), "linestyle": canvas.dashes(index), "linewidth": 2.0}
            axes.stairs(heights, self.edges_h, baseline=None, label=name, **look)
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
    of = " of all requests" if len(case.plan.classes) > 1 else ""
    latencies = [
        (f"P90{of}", [p.latency.ttft_p90_s for p in periods]),
        (f"mean{of}", [p.latency.ttft_mean_s for p in periods]),
    ]
    return PeriodsChart(
        edges_h=tuple(accumulate((period.hours for period in periods), initial=0.0)),
        demand_req_per_s=tuple(period.demand_req_per_s for period in periods),
        busy=tuple((name, tuple(values)) for name, values in use.items()),
        ttft_s=tuple((name, tuple(x or 0.0 for x in values)) for name, values in latencies),
        promises_s=tuple(_promises(case.plan)),
    )


def _promises(plan: Plan) -> Iterator[tuple[str, float]]:
    """Promises on P90, shortest first, each with the classes that it is made to."""
    made: dict[float, list[str]] = {}
    for c in plan.classes:
        if c.slo and "ttft_s" in c.slo and c.slo["ttft_percentile"] == P90:
            made.setdefault(c.slo["ttft_s"], []).append(c.name)
    for promise, names in sorted(made.items()):
        whom = "" if len(names) == len(plan.classes) else f" to {formats.listed(names)}"
        yield f"P90 promised{whom}: {formats.seconds(promise)}", promise
