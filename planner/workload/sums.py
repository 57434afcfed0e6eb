"""Arithmetic of mixes: sums over sorted requests, ratios of them, powers of polynomials."""

from typing import NamedTuple

import numpy as np

from planner.curves import FloatArray


class RunningSums(NamedTuple):
    """Sums over the requests, or pieces, below and from each position on; one more entry than these."""

    prefix: FloatArray
    suffix: FloatArray


def running_sums(terms: FloatArray) -> RunningSums:
    # The suffix is summed from the longest request down, so that rare long requests keep their digits.
    suffix = np.concatenate([np.cumsum(terms[::-1])[::-1], [0.0]])
    return RunningSums(np.concatenate([[0.0], np.cumsum(terms)]), suffix)


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """numerator / denominator, nan where the denominator is 0."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(denominator > 0, numerator, np.nan) / np.where(denominator > 0, denominator, 1.0))


def power(coefficients: FloatArray, order: int) -> FloatArray:
    """Coefficients of a polynomial raised to a power."""
    power = np.ones(1)
    for _ in range(order):
        power = np.convolve(power, coefficients)
    return power
