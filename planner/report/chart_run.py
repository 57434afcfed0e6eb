"""The figure of a run: queues and links over time, and time to first token as it came out beside what was predicted."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.report import canvas
from planner.report.figure_files import write_figure
from planner.results.run import Run, RunRecords, TtftCurve
from planner.units import BITS_PER_BYTE, BITS_PER_GBIT, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Line = tuple[tuple[float, ...], tuple[float, ...]]
N_MOMENTS = 160
"""Stretches of time at the most; within each the link's rate is a mean."""
N_SHARES = 400
LAST_SHARE = 0.99
MARKS = (0.5, 0.9, 0.99)
ROW_CHARACTERS = 84
"""Names of a legend that fit beside one another."""
SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class RunChart:
    """One replication of a run."""

    title: str
    queues: dict[str, Line]
    """Time [s] and requests that wait, by pool."""
    links: dict[str, Line]
    """Time [s] and mean rate since the moment before [Gbps], by link."""
    capacity_gbps: dict[str, float]
    counted_s: tuple[float, float]
    """When the first and the last request that count arrived [s]."""
    ttft: Line
    """Time to first token [s] and share of requests that it does not exceed."""
    predicted: TtftCurve | None

    def draw(self) -> "Figure":
        """Two or three rows that share time, and the distribution below."""
        n = 2 + bool(self.links)
        figure = canvas.new_figure(2.5 * n + 1.2)
        *above, last = figure.subplots(n, 1, height_ratios=[1.0] * (n - 1) + [1.4])
        figure.suptitle(self.title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        unit, seconds = ("hours", SECONDS_PER_HOUR) if self.counted_s[1] > 2 * SECONDS_PER_HOUR else ("seconds", 1.0)
        self._over_time(above[0], self.queues, seconds, "requests that wait")
        if self.links:
            self._over_time(above[1], self.links, seconds, "link, Gbps")
            self._ceilings(above[1])
        above[-1].set_xlabel(f"time, {unit}; grey: warm-up and cool-down, not counted")
        self._distribution(last)
        return figure

    def _over_time(self, axes: "Axes", lines: dict[str, Line], seconds: float, label: str) -> None:
        for i, (name, (time_s, values)) in enumerate(lines.items()):
            axes.plot(np.array(time_s) / seconds, values, color=canvas.hue(i), linewidth=1.3, label=name)
        end_s = max(time_s[-1] for time_s, _ in lines.values())
        for low, high in ((0.0, self.counted_s[0]), (self.counted_s[1], end_s)):
            axes.axvspan(low / seconds, high / seconds, color=canvas.PALE, alpha=0.5, linewidth=0)
        axes.set_xlim(0, end_s / seconds)
        axes.set_ylim(bottom=0)
        axes.set_ylabel(label)
        axes.grid(axis="y")
        columns = max(ROW_CHARACTERS // (max(map(len, lines)) + 6), 1)
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "borderaxespad": 0.2}
        axes.legend(ncols=min(columns, len(lines)), handlelength=1.2, columnspacing=1.2, **place)

    def _ceilings(self, axes: "Axes") -> None:
        """Capacities that are not far above what was used."""
        most = max(max(values) for _, values in self.links.values())
        for i, name in enumerate(self.links):
            if 0 < self.capacity_gbps[name] <= 2 * most:
                axes.axhline(self.capacity_gbps[name], color=canvas.hue(i), linestyle=":", linewidth=1.2)

    def _distribution(self, axes: "Axes") -> None:
        seconds, shares = self.ttft
        axes.plot(seconds, shares, color=canvas.hue(0), linewidth=2.2, label="executed")
        if self.predicted is not None:
            known = self.predicted
            label = "predicted by queueing"
            look: dict[str, Any] = {"color": canvas.hue(1), "linewidth": 1.5, "label": label}
            is_marks = known.fractions == MARKS
            look |= {"linestyle": "none", "marker": "D", "markersize": 5} if is_marks else {"linestyle": "--"}
            axes.plot(known.seconds, known.fractions, **look)
        for share in MARKS:
            axes.axhline(share, color=canvas.PALE, linewidth=1, zorder=0)
            at_s = float(np.interp(share, shares, seconds))
            predicted = "" if self.predicted is None else f"; {_predicted_s(self.predicted, share)} s predicted"
            text = f"P{100 * share:g}  {number(at_s)} s{predicted}"
            axes.annotate(text, (at_s, share), xytext=(8, -11), textcoords="offset points", fontsize=9)
        axes.set_xlim(0, 1.25 * seconds[-1])
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("time to first token, seconds")
        axes.set_ylabel("share of requests")
        axes.legend(loc="lower right")


def _predicted_s(curve: TtftCurve, share: float) -> str:
    return number(float(np.interp(share, curve.fractions, curve.seconds)))


def run_chart(run: Run, records: RunRecords, capacity_gbps: dict[str, float], predicted: TtftCurve | None) -> RunChart:
    """Contents of a run's figure.

    Args:
        run: the run.
        records: its first replication.
        capacity_gbps: bandwidth of the plan's links, by name [Gbps].
        predicted: the distribution that queueing predicts; None where it has none.
    """
    first, last = records.n_warm_up, records.n_warm_up + records.n_counted
    arrival_s = np.asarray(records.columns["arrival_s"])
    load = "kept full" if run.load is None else f"{number(run.offered_req_per_s)} req/s"
    if run.concurrency is not None:
        load = f"{number(run.concurrency)} requests inside"
    if run.users is not None:
        load = f"{run.users:,} users"
    ttft_s = np.asarray(records.columns["first_token_s"])[first:last] - arrival_s[first:last]
    shares = np.append(np.linspace(0, LAST_SHARE, N_SHARES), [0.995, 0.999])
    seconds = np.quantile(ttft_s[np.isfinite(ttft_s)], shares) if np.isfinite(ttft_s).any() else np.zeros_like(shares)
    return RunChart(
        title=f"{run.scenario}, {load}: one replication of {len(arrival_s):,} requests",
        queues=dict(_queues(run, records)),
        links=dict(_links(run, records)),
        capacity_gbps={name: capacity_gbps[name] for name in run.links},
        counted_s=_counted_s(records, first, last),
        ttft=(_floats(seconds), _floats(shares)),
        predicted=predicted,
    )


def _counted_s(records: RunRecords, first: int, last: int) -> tuple[float, float]:
    """Moments of the samples at the first and the last request that count."""
    time_s, place = np.asarray(records.samples["time_s"]), np.asarray(records.columns["arrival_s"])
    low, high = float(place[first]), float(place[last - 1])
    return max(low, float(time_s[0])), min(max(high, low), float(time_s[-1]))


def _queues(run: Run, records: RunRecords) -> Iterator[tuple[str, Line]]:
    time_s = _floats(records.samples["time_s"])
    for name in run.pools:
        yield name, (time_s, _floats(records.samples[f"{name} waiting"]))


def _links(run: Run, records: RunRecords) -> Iterator[tuple[str, Line]]:
    time_s = np.asarray(records.samples["time_s"])
    moments = np.linspace(time_s[0], time_s[-1], min(N_MOMENTS, len(time_s)))
    if len(moments) < 2 or moments[-1] <= moments[0]:
        return
    for name in run.links:
        sent = np.interp(moments, time_s, np.asarray(records.samples[f"{name} bytes"]))
        rate = np.diff(sent) / np.diff(moments) * BITS_PER_BYTE / BITS_PER_GBIT
        yield name, (_floats(moments[1:]), _floats(rate))


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def write_run_figure(chart: RunChart, path: Path) -> None:
    """Draw a run into a file; raises as `write_figure` does."""
    write_figure(chart.draw, path)
