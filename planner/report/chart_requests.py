"""Figures of what comes in: how long prompts are, and how long they take to prefill."""

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

from planner.report import canvas
from planner.report.chart_capacity import hues
from planner.results.case import Case, ServiceCurve
from planner.results.plan import Plan
from planner.units import number, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LABEL_PART = 0.2
"""Part of the width that the label of a quantile takes."""
MARGIN = 1.06
"""Room on either side of the lengths, on a logarithmic axis."""
STRETCH = 1.05
"""Longest over shortest prompt below which there is no curve to see."""


@dataclass(frozen=True)
class LengthsChart:
    """Share of requests by uncached length, with the threshold."""

    lengths: tuple[float, ...]
    shares: tuple[float, ...]
    quantiles: tuple[tuple[str, float], ...]
    thresholds: tuple[tuple[str, float], ...]
    """Class, or nothing for the only one, and its threshold."""
    offload: float

    def draw(self) -> "Figure":
        low, high = _room(self.lengths)
        marks = [(self._name(*mark), mark[1]) for mark in self.thresholds if low / MARGIN < mark[1] < high * MARGIN]
        figure = canvas.new_figure(3.7 + canvas.legend_in([name for name, _ in marks]))
        axes = figure.subplots()
        canvas.token_axis(axes, low / MARGIN, high * MARGIN, "uncached prompt length [tokens]")
        axes.set_ylim(0, 104)
        axes.set_yticks([0, 25, 50, 75, 100])
        axes.set_ylabel("requests up to this length [%]")
        axes.grid(axis="y")
        axes.plot(self.lengths, [100 * share for share in self.shares], color=canvas.HUES[0], linewidth=2.5)
        for index, (name, threshold) in enumerate(marks):
            color = canvas.INK if index == 0 else canvas.hue(index)
            axes.axvline(threshold, color=color, linestyle=canvas.broken(index), linewidth=1.6, label=name)
        for name, length in self.quantiles:
            self._mark(axes, name, length)
        if marks:
            canvas.legend_above(figure, axes.get_lines()[1 : 1 + len(marks)])
        return figure

    def _name(self, name: str, threshold: float) -> str:
        """A threshold in words; of the only one, also what it does."""
        text = f"{name}: threshold {number(threshold)}" if name else f"threshold {number(threshold)}"
        if len(self.thresholds) > 1:
            return text
        return f"{text} tokens: {percent(1 - self.offload)} stay, {percent(self.offload)} go"

    @staticmethod
    def _mark(axes: "Axes", name: str, length: float) -> None:
        """A quantile with its length where the curve, which rises, is not: above it on the left, else below it."""
        y, (low, high) = float(name.removeprefix("p")), axes.get_xlim()
        axes.plot([length], [y], "o", color=canvas.HUES[0], markersize=6, markeredgecolor="white")
        across = log(length / low) / log(high / low)
        above = across > LABEL_PART and (y >= 50 or across > 1 - LABEL_PART)
        side, offset = ("right", (-7, 0)) if above else ("left", (8, -3))
        text, height = f"{name.upper()} {number(length)}", "bottom" if above else "top"
        canvas.halo(axes, length, y, text, ha=side, va=height, offset=offset, color=canvas.HUES[0])


def _room(values: tuple[float, ...]) -> tuple[float, float]:
    """Ends of a logarithmic axis around values; some width even for a single one."""
    low, high = min(values), max(values)
    return (low, high) if high > 1.5 * low else (low / 1.5, high * 1.5)


def lengths_chart(case: Case) -> LengthsChart | None:
    """Cumulative distribution of uncached lengths."""
    requests = case.requests
    points = [
        (n, share) for n, share in zip(requests.lengths_tokens, requests.cumulative_fraction, strict=True) if n > 0
    ]
    if len(points) < 2:
        return None
    return LengthsChart(
        lengths=tuple(n for n, _ in points),
        shares=tuple(share for _, share in points),
        quantiles=tuple(requests.quantiles_tokens.items()),
        thresholds=_thresholds(case.plan),
        offload=case.plan.offload_fraction,
    )


def _thresholds(plan: Plan) -> tuple[tuple[str, float], ...]:
    if plan.threshold_tokens is not None:
        return (("", plan.threshold_tokens),)
    return tuple((c.name, c.threshold_tokens) for c in plan.classes if c.threshold_tokens is not None)


@dataclass(frozen=True)
class PoolCurve:
    """Prefill seconds of one pool."""

    name: str
    color: int
    inferred: bool
    tokens: tuple[float, ...]
    seconds: tuple[float, ...]
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class PrefillChart:
    """Prefill seconds by prompt length, with the points the curves go through."""

    curves: tuple[PoolCurve, ...]

    def draw(self) -> "Figure":
        figure = canvas.new_figure(4.0 + canvas.legend_in([curve.name for curve in self.curves]))
        axes = figure.subplots()
        tokens = [n for curve in self.curves for n in (*curve.tokens, *(n for n, _ in curve.points))]
        seconds = [s for curve in self.curves for s in (*curve.seconds, *(s for _, s in curve.points))]
        low, high = _room(tuple(tokens))
        canvas.token_axis(axes, 0.9 * low, 1.1 * high, "prompt length, nothing cached [tokens]")
        low, high = _room(tuple(seconds))
        canvas.log_axis(axes, "y", low / 1.2, high * 1.2)
        axes.set_ylabel("prefill of one prompt [s]")
        axes.grid(axis="y")
        for curve in self.curves:
            self._draw_curve(axes, curve)
        canvas.legend_above(figure, axes.get_legend_handles_labels()[0])
        return figure

    @staticmethod
    def _draw_curve(axes: "Axes", curve: PoolCurve) -> None:
        paint = canvas.hue(curve.color)
        dashes = (0, (5, 2)) if curve.inferred else "solid"
        axes.plot(
            curve.tokens,
            curve.seconds,
            color=paint,
            linewidth=2.2,
            linestyle=dashes,
            marker="o",
            markevery=[],
            markersize=7,
            markeredgecolor=paint,
            markerfacecolor="white" if curve.inferred else paint,
            label=curve.name,
        )
        axes.plot(
            [n for n, _ in curve.points],
            [s for _, s in curve.points],
            linestyle="none",
            marker="o",
            markersize=7,
            markeredgewidth=1.6,
            markeredgecolor=paint,
            markerfacecolor="white" if curve.inferred else paint,
        )


def prefill_chart(case: Case) -> PrefillChart | None:
    """Prefill seconds by length, of pools in their colours or of what several have in common."""
    colors = hues(case.plan)
    names = [curve.pool for curve in case.curves]
    own = colors if all(name in colors for name in names) else {name: i for i, name in enumerate(names)}
    curves = tuple(_curve(curve, own[curve.pool]) for curve in case.curves if _has_length(curve))
    return PrefillChart(curves) if curves else None


def _has_length(curve: ServiceCurve) -> bool:
    """True if there is more than a point to draw."""
    return len(curve.tokens) > 1 and curve.tokens[-1] > STRETCH * curve.tokens[0]


def _curve(curve: ServiceCurve, color: int) -> PoolCurve:
    points = zip(curve.measured_tokens, curve.measured_s, strict=True)
    return PoolCurve(
        name=f"{_with_hardware(curve)} ({curve.basis})",
        color=color,
        inferred=curve.basis == "inferred",
        tokens=curve.tokens,
        seconds=curve.prefill_s,
        points=tuple(points),
    )


def _with_hardware(curve: ServiceCurve) -> str:
    return curve.pool if curve.hardware in curve.pool else f"{curve.pool}, {curve.hardware}"
