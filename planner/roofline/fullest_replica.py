"""Attention replicas that step together: what the fullest of them has to do beside what all have on average."""

import numpy as np
from numpy.typing import ArrayLike

from planner.roofline.operator import FloatArray

N_DEVIATES = 4001
"""Points of the integral of the greatest of some deviates."""
FARTHEST = 8.0


def mean_greatest(n: int) -> float:
    """Mean of the greatest of n independent standard normal deviates.

    Equation: the integral of x d(Phi(x)^n)

    >>> [round(mean_greatest(n), 3) for n in (1, 2, 8)]
    [0.0, 0.564, 1.424]
    """
    if n == 1:
        return 0.0
    x = np.linspace(-FARTHEST, FARTHEST, N_DEVIATES)
    density = np.exp(-(x**2) / 2)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    power = (below / below[-1]) ** n
    return float(((x[1:] + x[:-1]) / 2) @ np.diff(power))


def fullest_context(batch: ArrayLike, n_replicas: int, context_scv: float) -> FloatArray:
    """Context of the fullest replica over that of a mean one.

    Equation: of b sequences each replica has m = max(b / R, 1), dealt out to the one with the fewest: the fullest has
        (1 - 1 / R) / 2 more, as numbers are whole; contexts add up to m c + g_R sqrt(m v) c there, g_R the mean
        greatest of R normal deviates: 1 + ((1 - 1 / R) / 2 + g_R sqrt(m v)) / m

    Args:
        batch: sequences b of all replicas [sequences], any shape.
        n_replicas: replicas R.
        context_scv: squared coefficient of variation v of contexts [fraction].

    Returns:
        Factor, the shape of `batch`; 1 with one replica.

    Valid: contexts independent of one another.

    Source: order statistics: David and Nagaraja (2003).

    >>> fullest_context([8.0, 800.0], 8, 0.25).round(3).tolist()
    [2.149, 1.076]
    """
    each = np.maximum(np.asarray(batch, float) / n_replicas, 1.0)
    uneven = (1.0 - 1.0 / n_replicas) / 2
    return np.asarray(1.0 + (uneven + mean_greatest(n_replicas) * np.sqrt(each * context_scv)) / each)
