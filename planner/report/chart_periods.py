"""Figures of periods and hours: demand, how busy pools and links are, TTFT, and instances that are rented."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from planner.report import canvas, formats
from planner.results.case import Case
from planner.results.plan import Plan

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


@dataclass(frozen=True)
class ScheduleChart:
    """A day in steps."""

    edges_h: tuple[float, ...]
    """Starts of the periods and the end of the last [h]."""
    demand_req_per_s: tuple[float, ...]
    n_instances: tuple[tuple[str, tuple[int, ...]], ...]
    """Pool, and its instances by period."""

    def draw(self) -> "Figure":
        figure = canvas.new_figure(5.2 + canvas.legend_in([name for name, _ in self.n_instances]))
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.6])
        look: dict[str, Any] = {"baseline": None, "linewidth": 2.0}
        above.stairs(self.demand_req_per_s, self.edges_h, color=canvas.hue(0), **look)
        above.set_ylabel("requests\nper second")
        for index, (name, sizes) in enumerate(self.n_instances):
            below.stairs(
                sizes, self.edges_h, label=name, color=canvas.hue(index), linestyle=canvas.dashes(index), **look
            )
        below.set_ylabel("instances")
        below.set_xlabel("hours")
        below.set_xlim(self.edges_h[0], self.edges_h[-1])
        for axes in (above, below):
            axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
            axes.grid(axis="y")
        canvas.legend_over(below)
        return figure


def schedule_chart(case: Case) -> ScheduleChart | None:
    """The schedule of a plan; None where no pool is rented by the period."""
    plan = case.plan
    if plan.schedule is None or len(plan.periods) < 2:
        return None
    names = [pool.name for pool in plan.pools if pool.n_instances]
    sizes = {
        name: tuple(pool.n_instances for one in plan.periods for pool in one.pools if pool.name == name)
        for name in names
    }
    return ScheduleChart(
        edges_h=tuple(accumulate((period.hours for period in plan.periods), initial=0.0)),
        demand_req_per_s=tuple(period.demand_req_per_s for period in plan.periods),
        n_instances=tuple(sizes.items()),
    )
