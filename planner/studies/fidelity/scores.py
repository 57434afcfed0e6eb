"""Errors of predictions: as fractions of the measured values, and bands from their quantiles."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.profiles.stack import Band, ErrorSummary
from planner.results.fidelity import LatencyError

FloatArray = NDArray[np.float64]
DIGITS = 4
FEWEST_FOR_BAND = 5
"""Residuals below which quantiles of 5 and 95 % say nothing."""


def relative_errors(predicted: ArrayLike, measured: ArrayLike) -> FloatArray:
    """Predicted over measured less 1, where something was measured.

    >>> relative_errors([1.1, 2.0], [1.0, float("nan")]).round(3).tolist()
    [0.1]
    """
    truth = np.asarray(measured, float)
    known = ~np.isnan(truth)
    return np.asarray(np.asarray(predicted, float)[known] / truth[known] - 1.0)


def latency_error(pairs: Iterable[tuple[float | None, float | None]]) -> LatencyError:
    """Errors of pairs of predicted and measured seconds; pairs that lack one are left out."""
    errors = np.array([p / m - 1.0 for p, m in pairs if p is not None and m], float)
    if not errors.size:
        return LatencyError()
    return LatencyError(
        mean_abs_error=float(np.abs(errors).mean()),
        median_abs_error=float(np.median(np.abs(errors))),
        bias=float(np.median(errors)),
    )


def summary(errors: FloatArray) -> ErrorSummary | None:
    """Errors in short; None where there are none."""
    if not errors.size:
        return None
    size = np.abs(errors)
    return ErrorSummary(
        n=int(errors.size),
        mean_abs=round(float(size.mean()), DIGITS),
        median_abs=round(float(np.median(size)), DIGITS),
        bias=round(float(np.median(errors)), DIGITS),
    )


def band(errors: FloatArray) -> Band | None:
    """Where measured over predicted lies in nine of ten cases; None with too few residuals, or where all are alike.

    >>> band(np.array([0.25] * 9 + [0.0])).low
    0.8
    """
    if errors.size < FEWEST_FOR_BAND:
        return None
    ratio = 1.0 / (1.0 + errors)
    low, high = (float(f"{value:.{DIGITS}g}") for value in np.quantile(ratio, (0.05, 0.95)))
    return Band(low=low, high=high, n=int(errors.size)) if low < high else None
