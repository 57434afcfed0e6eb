"""Figures of predictions against measurements."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.report import canvas
from planner.results.fidelity import PredictedPoint
from planner.results.fidelity_survey import FidelitySurvey, ScoredCurve
from planner.units import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAND = 0.2
"""Half-width of the band around equality: predicted within so much of measured."""
LATENCIES = (("ttft", "time to first token [s]", 1.0), ("tpot", "time per output token [ms]", 1e3))
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
FEWEST = 5
"""Points below which quantiles say nothing."""
RATIOS = (0.4, 2.5)
"""Shown range of predicted over measured; what lies beyond is drawn at the edge."""
RATIO_TICKS = (0.5, 0.8, 1.0, 1.25, 2.0)
CURVES_ABREAST = 3
LEGEND_ABREAST = 3
TOKEN_TICKS = {2**7: "128", 2**10: "1K", 2**13: "8K", 2**15: "32K", 2**17: "128K", 2**20: "1M"}


@dataclass(frozen=True)
class Cloud:
    """Predicted and measured values of one model."""

    name: str
    measured: tuple[float, ...]
    predicted: tuple[float, ...]


@dataclass(frozen=True)
class ScatterChart:
    """Every point, predicted against measured, one panel per latency."""

    panels: tuple[tuple[str, tuple[Cloud, ...]], ...]
    """Label of the axes with its unit, and clouds."""

    def draw(self) -> "Figure":
        figure = canvas.new_figure(4.9)
        axes = figure.subplots(1, len(self.panels), squeeze=False)[0]
        for one, (label, clouds) in zip(axes, self.panels, strict=True):
            self._panel(one, label, clouds)
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(
            handles, names, loc="outside lower center", ncols=min(len(names), LEGEND_ABREAST), markerscale=2.2
        )
        return figure

    @staticmethod
    def _panel(axes: "Axes", label: str, clouds: Sequence[Cloud]) -> None:
        values = [value for cloud in clouds for value in (*cloud.measured, *cloud.predicted)]
        low, high = min(values) / 1.3, max(values) * 1.3
        for which in ("x", "y"):
            canvas.log_axis(axes, which, low, high)
        axes.set_box_aspect(1)
        axes.set_title(label, fontsize=11)
        axes.set_xlabel("measured")
        axes.set_ylabel("predicted")
        axes.tick_params(axis="x", labelrotation=45)
        axes.grid()
        ends = [low, high]
        below, above = ([end * (1 + sign * BAND) for end in ends] for sign in (-1, 1))
        axes.fill_between(
            ends, below, above, color=canvas.PALE, linewidth=0, label=f"within {percent(BAND, 0)} of measured"
        )
        axes.plot(ends, ends, color=canvas.GREY, linewidth=1)
        for index, cloud in enumerate(clouds):
            paint = canvas.hue(index)
            axes.plot(
                *(cloud.measured, cloud.predicted), ".", color=paint, alpha=0.5, markersize=4.5, label=cloud.name, mew=0
            )


@dataclass(frozen=True)
class Spread:
    """Quantiles of predicted over measured of one group."""

    name: str
    n: int
    quantiles: tuple[float, ...]
    """At QUANTILES."""


@dataclass(frozen=True)
class SpreadChart:
    """Predicted over measured by model and accelerator, one panel per latency."""

    panels: tuple[tuple[str, tuple[Spread, ...]], ...]

    def draw(self) -> "Figure":
        rows = max(len(spreads) for _, spreads in self.panels)
        figure = canvas.new_figure(1.5 + 0.33 * rows)
        axes = figure.subplots(1, len(self.panels), squeeze=False, sharey=True)[0]
        canvas.bar_axis(axes[0], [f"{spread.name} ({spread.n})" for spread in self.panels[0][1]])
        for one, (label, spreads) in zip(axes, self.panels, strict=True):
            self._panel(one, label, spreads)
        return figure

    @staticmethod
    def _panel(axes: "Axes", label: str, spreads: Sequence[Spread]) -> None:
        from matplotlib.ticker import NullLocator

        axes.set_title(label, fontsize=11)
        axes.set_xscale("log")
        axes.set_xlim(*RATIOS)
        axes.set_xticks(RATIO_TICKS, labels=[f"{tick:g}" for tick in RATIO_TICKS])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("predicted over measured")
        axes.grid(True, axis="x")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.axvspan(1 - BAND, 1 + BAND, color="#EFEFEF", linewidth=0)
        axes.axvline(1.0, color=canvas.GREY, linewidth=1)
        for row, spread in enumerate(spreads):
            low, first, middle, third, high = (min(max(q, RATIOS[0]), RATIOS[1]) for q in spread.quantiles)
            axes.plot([low, high], [row, row], color=canvas.HUES[0], linewidth=1.2)
            axes.barh(row, third - first, left=first, height=0.56, color=canvas.HUES[0], alpha=0.75)
            axes.plot([middle, middle], [row - 0.28, row + 0.28], color=canvas.INK, linewidth=2.2)


@dataclass(frozen=True)
class CurvePanel:
    """Bare prefills of one model on one instance."""

    title: str
    is_fitted: bool
    tokens: tuple[float, ...]
    measured: tuple[float, ...]
    predicted: tuple[float, ...]


@dataclass(frozen=True)
class CurvesChart:
    """Prefill seconds by prompt length, measured and predicted."""

    panels: tuple[CurvePanel, ...]

    def draw(self) -> "Figure":
        n_rows = -(-len(self.panels) // CURVES_ABREAST)
        figure = canvas.new_figure(0.6 + 2.6 * n_rows)
        grid = figure.subplots(n_rows, CURVES_ABREAST, squeeze=False).ravel()
        for axes in grid[len(self.panels) :]:
            axes.set_visible(False)
        for axes, panel in zip(grid, self.panels, strict=False):
            self._panel(axes, panel)
        handles, names = grid[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
        return figure

    @staticmethod
    def _panel(axes: "Axes", panel: CurvePanel) -> None:
        seconds = (*panel.measured, *panel.predicted)
        canvas.log_axis(axes, "x", min(panel.tokens) / 1.4, max(panel.tokens) * 1.4)
        low, high = axes.get_xlim()
        ticks = [tick for tick in TOKEN_TICKS if low <= tick <= high]
        axes.set_xticks(ticks, labels=[TOKEN_TICKS[tick] for tick in ticks])
        canvas.log_axis(axes, "y", min(seconds) / 1.3, max(seconds) * 1.3)
        axes.set_title(panel.title, fontsize=10, pad=6)
        axes.set_xlabel("prompt [tokens]", fontsize=10)
        axes.set_ylabel("prefill [s]", fontsize=10)
        axes.grid()
        line = "-" if panel.is_fitted else (0, (4, 2))
        axes.plot(panel.tokens, panel.predicted, linestyle=line, color=canvas.HUES[0], linewidth=2, label="predicted")
        axes.plot(panel.tokens, panel.measured, "o", color=canvas.HUES[1], markersize=5.5, mew=0, label="measured")


def scatter_chart(survey: FidelitySurvey) -> ScatterChart | None:
    """Predicted against measured latencies; None where nothing is predicted."""
    panels = tuple((label, _clouds(survey.fidelity.points, key, scale)) for key, label, scale in LATENCIES)
    shown = tuple((label, clouds) for label, clouds in panels if clouds)
    return ScatterChart(shown) if shown else None


def _clouds(points: Sequence[PredictedPoint], key: str, scale: float) -> tuple[Cloud, ...]:
    """One cloud per model that is predicted, in the order of names, so that colours are the same in every panel."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    for point in sorted(points, key=lambda point: point.model):
        measured, predicted = getattr(point, f"{key}_s"), getattr(point, f"predicted_{key}_s")
        if point.reason is None:
            found = pairs.setdefault(point.model, [])
            found += [] if measured is None or predicted is None else [(scale * measured, scale * predicted)]
    if not any(pairs.values()):
        return ()
    return tuple(Cloud(name, tuple(m for m, _ in own), tuple(p for _, p in own)) for name, own in pairs.items())


def spread_chart(survey: FidelitySurvey) -> SpreadChart | None:
    """Quantiles of predicted over measured by model and accelerator; None where no group is large enough."""
    groups: dict[str, list[PredictedPoint]] = {}
    for point in survey.fidelity.points:
        if point.ttft_error is not None and point.tpot_error is not None:
            groups.setdefault(f"{point.model}, {point.hardware}", []).append(point)
    large = {name: points for name, points in sorted(groups.items()) if len(points) >= FEWEST}
    if not large:
        return None
    panels = (
        (label.partition(" [")[0], tuple(_spread(name, points, f"{key}_error") for name, points in large.items()))
        for key, label, _ in LATENCIES
    )
    return SpreadChart(tuple(panels))


def _spread(name: str, points: Sequence[PredictedPoint], key: str) -> Spread:
    ratios = [1.0 + getattr(point, key) for point in points]
    return Spread(name, len(points), tuple(np.quantile(ratios, QUANTILES).tolist()))


def curves_chart(survey: FidelitySurvey) -> CurvesChart | None:
    """Bare prefills; None where there are none of more than one length."""
    panels = tuple(_curve_panel(curve) for curve in survey.curves if len(curve.points) > 1)
    return CurvesChart(panels) if panels else None


def _curve_panel(curve: ScoredCurve) -> CurvePanel:
    points = sorted(curve.points, key=lambda point: point.tokens)
    return CurvePanel(
        title=f"{curve.model}\n{curve.n_accelerators} x {curve.hardware}" + ("" if curve.is_fitted else ", not fitted"),
        is_fitted=curve.is_fitted,
        tokens=tuple(point.tokens for point in points),
        measured=tuple(point.measured_s for point in points),
        predicted=tuple(point.predicted_s for point in points),
    )
