"""Figures of a live run: passes and times to first token, predicted, executed and measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.report import canvas
from planner.results.live import Live, LivePass

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PREDICTED, EXECUTED, MEASURED = canvas.HUES[0], canvas.HUES[2], canvas.HUES[1]
HEIGHT_IN = 4.2


@dataclass(frozen=True)
class PassChart:
    """Seconds of passes: a predicted line, rounds and medians."""

    label: str
    """Of the horizontal axis."""
    unit: str
    scale: float
    """Of seconds to that unit."""
    is_log: bool
    line: tuple[tuple[float, float], ...]
    """Sizes and predicted seconds."""
    executed: tuple[tuple[float, float], ...]
    rounds: tuple[tuple[float, tuple[float, ...]], ...]
    """Size, and measured seconds round by round."""

    def draw(self) -> "Figure":
        figure = canvas.new_figure(HEIGHT_IN)
        axes = figure.subplots()
        self._axes(axes)
        axes.plot(*self._scaled(self.line), color=PREDICTED, linewidth=2, label="predicted before the run")
        if self.executed:
            axes.plot(*self._scaled(self.executed), "x", color=EXECUTED, markersize=7, mew=1.8, label="executed")
        tries = [(size, value) for size, values in self.rounds for value in values]
        axes.plot(*self._scaled(tries), ".", color=MEASURED, alpha=0.55, markersize=6, mew=0, label="measured, rounds")
        middle = [(size, _median(values)) for size, values in self.rounds]
        sizes, seconds = self._scaled(middle)
        axes.plot(sizes, seconds, "o", color=MEASURED, label="measured, median", mfc="none", markersize=10, mew=1.6)
        axes.legend(loc="upper left")
        return figure

    def _axes(self, axes: "Axes") -> None:
        sizes = [size for size, _ in self.rounds]
        values = [self.scale * value for _, tries in self.rounds for value in tries]
        values += [self.scale * value for _, value in self.line]
        if self.is_log:
            canvas.log_axis(axes, "x", min(sizes) / 1.2, max(sizes) * 1.2)
            canvas.log_axis(axes, "y", min(values) / 1.3, max(values) * 1.3)
            axes.set_xticks(sizes, labels=[f"{size:,}" for size in sizes])
        else:
            axes.set_xticks(range(1, int(max(sizes)) + 1))
            axes.set_ylim(0, 1.15 * max(values))
        axes.set_xlabel(self.label)
        axes.set_ylabel(self.unit)
        axes.grid()

    def _scaled(self, points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
        return [size for size, _ in points], [self.scale * value for _, value in points]


@dataclass(frozen=True)
class TtftChart:
    """Share of requests that have their first token, by seconds."""

    predicted: tuple[tuple[float, float], ...]
    """Seconds and fractions."""
    executed_s: tuple[float, ...]
    measured_s: tuple[tuple[float, ...], ...]
    """Repeat by repeat."""

    def draw(self) -> "Figure":
        figure = canvas.new_figure(HEIGHT_IN)
        axes = figure.subplots()
        for turn, times in enumerate(self.measured_s, 1):
            label = f"measured, repeat {turn} of {len(self.measured_s)}"
            axes.step(*_steps(times), where="post", color=MEASURED, alpha=0.5 + 0.5 / turn, linewidth=1.4, label=label)
        if self.executed_s:
            axes.step(*_steps(self.executed_s), where="post", color=EXECUTED, linewidth=1.4, label="executed")
        seconds, fractions = zip(*self.predicted, strict=True)
        axes.plot(seconds, fractions, color=PREDICTED, linewidth=2, label="predicted by queueing")
        axes.set_xlim(0, 1.05 * max(*seconds, *(times[-1] for times in self.measured_s)))
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("time to first token [s]")
        axes.set_ylabel("share of requests")
        axes.grid()
        axes.legend(loc="lower right")
        return figure


def _steps(ascending: Sequence[float]) -> tuple[list[float], list[float]]:
    """The empirical distribution: seconds, and the share of requests within them."""
    return [0.0, *ascending], [i / len(ascending) for i in range(len(ascending) + 1)]


def _median(values: Sequence[float]) -> float:
    ascending, n = sorted(values), len(values)
    return (ascending[(n - 1) // 2] + ascending[n // 2]) / 2


def live_prefill_chart(live: Live) -> PassChart | None:
    """Prefill seconds by length; None where none were timed."""
    return _pass_chart(live, "prefill", "prompt [tokens]", "prefill [s]", 1.0)


def live_decode_chart(live: Live) -> PassChart | None:
    """Decode step by batch; None where none was timed."""
    return _pass_chart(live, "decode", "requests in the batch", "decode step [ms]", 1e3)


def _pass_chart(live: Live, kind: str, label: str, unit: str, scale: float) -> PassChart | None:
    own: list[LivePass] = [item for item in live.passes if item.kind == kind]
    line = [pair for one in live.lines if one.kind == kind for pair in zip(one.sizes, one.predicted_s, strict=True)]
    if not own or not line:
        return None
    return PassChart(
        label=label,
        unit=unit,
        scale=scale,
        is_log=kind == "prefill",
        line=tuple(line),
        executed=tuple((item.size, item.executed_s) for item in own if item.executed_s is not None),
        rounds=tuple((item.size, item.rounds_s) for item in own),
    )


def live_ttft_chart(live: Live) -> TtftChart | None:
    """Times to first token; None where no request was served."""
    found = live.ttft
    if found is None or not found.predicted_s or not all(found.measured_s):
        return None
    return TtftChart(tuple(zip(found.predicted_s, found.fractions, strict=True)), found.executed_s, found.measured_s)
