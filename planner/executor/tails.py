"""Possible excess of a mean over what was seen: long times that are rare enough to be missed by a whole run."""

from math import hypot, sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
TAIL = 0.2
"""Part of the batches that is taken for the tail."""
LEAST_TAIL = 20
"""Independent batches in it, from which on its shape can be told at all."""
LIGHTEST, HEAVIEST = -0.5, 0.7
"""Shapes of a tail that are allowed for: below the first its likelihood is not regular; with one of 1 there is no mean,
and above a half no variance, as far as a run can tell."""
N_SHAPES = 61
EXCESSES = np.geomspace(0.5, 20.0, 100)
"""Means of what lies beyond the threshold that are tried, over the one that was seen."""
CHI_SQUARED, NORMAL = 3.841, 1.960
"""Quantiles of 95 %, with one degree of freedom and on both sides."""


def upper_mean(figures: Floats, memory: float) -> float:
    """Upper end of the 95 % interval of a mean whose tail is as heavy as the largest of its batches allow.

    Equation:
        m = E[min(x, u)] + P(x > u) e, e = sigma / (1 - xi) the mean excess of the generalised Pareto distribution over
        u; up to the largest e with 2 (max l - l(e)) <= memory chi^2(0.95), l(e) the log-likelihood with the best xi

    Batches beyond the largest that was seen belong to the mean: a run that happened to have none is too low, and its
    variance and skewness are too small as well. The shape of its tail is not.

    Args:
        figures: means of batches, any shape.
        memory: what the variance of the mean is larger by than that of independent batches [-].

    Returns:
        The end; minus infinity where the tail has too few batches to tell its shape.

    Source:
        Mean with a tail of its own: Johansson, Extremes 6 (2003); profile likelihood: Coles, An Introduction to
        Statistical Modeling of Extreme Values (2001), 2.6 and 4.3; regular for xi > -1/2: Smith, Biometrika 72 (1985).
        That nothing short of an assumption on the tail bounds a mean: Bahadur and Savage, Annals of Mathematical
        Statistics 27 (1956).

    >>> heavy = np.random.default_rng(1).pareto(1.6, 400)
    >>> bool(heavy.mean() < upper_mean(heavy, 1.0) < np.inf)
    True
    """
    x = np.sort(figures, axis=None)
    n_tail = int(TAIL * x.size)
    if n_tail < LEAST_TAIL * memory or x[-1] == x[-n_tail - 1]:
        return -np.inf
    above = x[-n_tail - 1]
    excess_s = x[-n_tail:] - above
    body, share = np.minimum(x, above), n_tail / x.size * float(excess_s.mean())
    best, most = _mean_excess(excess_s / excess_s.mean(), memory)
    error = NORMAL * sqrt(memory / x.size) * float(body.std())
    return float(body.mean()) + share * best + hypot(share * (most - best), error)


def _mean_excess(excesses: Floats, memory: float) -> tuple[float, float]:
    """The likeliest mean of a tail, and the largest that its excesses do not speak against."""
    shapes = np.linspace(LIGHTEST, HEAVIEST, N_SHAPES) + 1e-6  # the exponential distribution is a limit
    scales = EXCESSES[:, None] * (1 - shapes)
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.log1p(shapes[:, None] * excesses / scales[:, :, None]).sum(axis=2)
    likelihood = -excesses.size * np.log(scales) - (1 + 1 / shapes) * logs
    profile = np.where(np.isfinite(logs), likelihood, -np.inf).max(axis=1)
    allowed = 2 * (profile.max() - profile) <= memory * CHI_SQUARED
    return float(EXCESSES[profile.argmax()]), float(EXCESSES[np.flatnonzero(allowed)[-1]])
