"""Predictions against measured points as tables for a terminal of a hundred columns."""

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING

from planner.report import formats
from planner.report.table import Table
from planner.report.terminal import frame, printed
from planner.results.fidelity import Fidelity, FidelityGroup, LatencyError, PredictedPoint
from planner.units import DASH, number, percent

if TYPE_CHECKING:
    from rich.console import RenderableType

N_WORST = 10


def fidelity_tables(found: Fidelity) -> list["RenderableType"]:
    """Errors for people: over all points, by group, what was refused, and the worst points.

    Args:
        found: the answer of `planner fidelity`.

    Returns:
        What to print, in order.
    """
    parts = (
        frame("predicted against measured", _headline(found)),
        *found.notes,
        _groups(found),
        printed(refused_table(found)),
        printed(doubtful_table(found)),
        printed(worst_table(found.points)),
    )
    return [part for part in parts if part is not None]


def _headline(found: Fidelity) -> list[tuple[str, str]]:
    answered = f"{found.n_predicted:,} of {found.n_points:,} predicted ({percent(found.answered_fraction)})"
    lines = [("points", answered), ("TTFT", error_words(found.ttft)), ("TPOT", error_words(found.tpot))]
    if found.throughput.mean_abs_error is not None:
        lines.append(("tokens per second", error_words(found.throughput)))
    if found.doubtful:
        n = sum(row.n for row in found.doubtful)
        sound = f"TTFT {error_words(found.sound_ttft)}; TPOT {error_words(found.sound_tpot)}"
        lines.append((f"without {n} doubtful", sound))
    return lines


def error_words(error: LatencyError) -> str:
    """Errors in a line.

    >>> error_words(LatencyError(mean_abs_error=0.2, median_abs_error=0.13, bias=-0.01))
    'mean error 20.0 %, median 13.0 %, bias -1.0 %'
    """
    if error.mean_abs_error is None:
        return "nothing measured"
    mean, median, bias = error_cells(error)
    return f"mean error {mean}, median {median}, bias {bias}"


def error_cells(error: LatencyError) -> tuple[str, str, str]:
    """Mean and median absolute error, and bias."""
    return percent(error.mean_abs_error), percent(error.median_abs_error), formats.signed_percent(error.bias)


def _groups(found: Fidelity) -> "RenderableType | None":
    latencies = (">TTFT mean", ">median", ">bias", ">TPOT mean", ">median", ">bias")
    rate = _rate_headings(found)
    headings = ("model", "hardware", "run by", ">points", *latencies, *rate)
    text = "errors are absolute, as fractions of the measured value; bias is the median signed error"
    rows = (_group_cells(group)[: len(headings)] for group in found.groups)
    return printed(Table.of("by model, accelerator and framework", headings, rows, text))


def _rate_headings(found: Fidelity) -> tuple[str, ...]:
    """Columns of the throughput, where any point states one."""
    return () if found.throughput.mean_abs_error is None else (">tokens/s mean", ">median")


def _group_cells(group: FidelityGroup) -> list[str]:
    framework = group.framework if group.mode == "agg" else f"{group.framework} {group.mode}"
    return [
        group.model,
        group.hardware,
        framework,
        of_points(group),
        *error_cells(group.ttft),
        *error_cells(group.tpot),
        *error_cells(group.throughput),
    ]


def of_points(group: FidelityGroup) -> str:
    """Points of a group, and how many of them are predicted where that is not all."""
    return number(group.n) if group.n == group.n_predicted else f"{group.n_predicted:,} of {group.n:,}"


def refused_table(found: Fidelity) -> Table:
    """Points without a prediction, and why."""
    rows = ((number(row.n), row.model, row.hardware, row.reason) for row in found.refused)
    return Table.of("refused", (">points", "model", "hardware", "why"), rows)


def doubtful_table(found: Fidelity) -> Table:
    """Points that contradict physics or their load, and how."""
    rows = ((number(row.n), row.model, row.hardware, row.reason) for row in found.doubtful)
    return Table.of("doubtful", (">points", "model", "hardware", "why"), rows)


def worst_table(points: Sequence[PredictedPoint], title: str = "worst points") -> Table:
    """The points that are predicted worst, by their configuration; without rows where nothing is predicted."""
    worst = worst_points(points)
    has_rate = any(point.throughput_error is not None for point in worst)
    headings = ("model", "hardware", "stack", "point", ">TTFT", ">TPOT", *((">tokens/s",) if has_rate else ()))
    return Table.of(title, headings, (_worst_cells(point)[: len(headings)] for point in worst))


def _worst_cells(point: PredictedPoint) -> list[str]:
    """One point: its configuration and its signed errors."""
    found = (point.ttft_error, point.tpot_error, point.throughput_error)
    errors = (formats.signed_percent(error) for error in found)
    return [point.model, point.hardware, point.stack or DASH, point.label, *errors]


def worst_points(points: Sequence[PredictedPoint], n: int = N_WORST) -> list[PredictedPoint]:
    """Points whose predictions are off by the largest ratio, either way, of TTFT or TPOT; worst first."""
    ranked = [(_off_by(point), point) for point in points]
    return [point for off, point in sorted(ranked, key=lambda item: -item[0])[:n] if off > 0]


def _off_by(point: PredictedPoint) -> float:
    """Logarithm of the larger ratio of the three; 0 where nothing was predicted."""
    return max(
        (
            abs(log(1.0 + error))
            for error in (point.ttft_error, point.tpot_error, point.throughput_error)
            if error is not None
        ),
        default=0.0,
    )
