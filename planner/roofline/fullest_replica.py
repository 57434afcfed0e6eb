"""Attention replicas that step together: what the fullest of them has to do beside what all have on average."""

import numpy as np
from numpy.typing import ArrayLike

from planner.roofline.operator import FloatArray

N_DEVIATES = 4001
"""Points of the integral of the greatest of some deviates."""
FARTHEST = 8.0
N_CHUNK, N_LATTICE = 512, 8192
"""Steps of tokens up to a chunk, and of sums."""
N_RATES, LEAST_PROMPTS, MOST_CHUNKS = 32, 0.02, 4.0
"""Prompts of a pass that are tried: from so few of all replicas to so many chunks on each."""


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


def replicas_busy(
    pass_tokens: ArrayLike, n_replicas: int, prompt_tokens: FloatArray, weights: FloatArray, chunk_tokens: float
) -> FloatArray:
    """Prompt tokens of a pass over those on the fullest replica: as many replicas as would be full of them.

    Equation: S_i of R replicas compound Poisson with k / R prompts, each pass takes min(S_i, chunk): at p = R E[min(S,
        chunk)] the answer is p over the integral from 0 to the chunk of 1 - P(S <= x)^R

    Args:
        pass_tokens: prompt tokens p of a pass, all replicas [tokens], any shape.
        n_replicas: replicas R.
        prompt_tokens: lengths of prompts [tokens], shape (n,).
        weights: their shares, shape (n,), sum 1.
        chunk_tokens: most tokens of a replica's pass [tokens].

    Returns:
        Replicas, from 1 to R, the shape of `pass_tokens`.

    Valid: a request goes to the replica with the fewest, which is where others ended: anywhere.

    Source: balls in bins: compound Poisson sums by their characteristic function; order statistics.

    >>> sizes, shares = np.array([500.0, 1500.0]), np.array([0.5, 0.5])
    >>> replicas_busy([50, 2000, 8000, 64000], 8, sizes, shares, 8000).round(2).tolist()
    [1.02, 1.64, 2.8, 8.0]
    """
    p = np.asarray(pass_tokens, float)
    if n_replicas == 1:
        return np.ones(p.shape)
    step = chunk_tokens / N_CHUNK
    one = np.fft.rfft(_on_lattice(np.asarray(prompt_tokens) / step, np.asarray(weights)))
    least, most = LEAST_PROMPTS / n_replicas, MOST_CHUNKS * chunk_tokens / float(prompt_tokens @ weights)
    taken, fullest = [], []
    for rate in np.geomspace(least, most, N_RATES):
        below = np.cumsum(np.fft.irfft(np.exp(rate * (one - 1.0)), N_LATTICE))[:N_CHUNK].clip(0.0, 1.0)
        taken.append(n_replicas * step * float((1.0 - below).sum()))
        fullest.append(step * float((1.0 - below**n_replicas).sum()))
    spread = np.interp(p, taken, np.array(taken) / np.array(fullest))
    return np.asarray(np.clip(spread, 1.0, n_replicas))


def _on_lattice(places: FloatArray, weights: FloatArray) -> FloatArray:
    """Weights at whole places, each shared by its two neighbours, so that the mean stays."""
    low = np.minimum(np.floor(places).astype(int), N_LATTICE - 2)
    part = np.minimum(places - low, 1.0)
    return np.asarray(
        np.bincount(low, weights * (1 - part), N_LATTICE) + np.bincount(low + 1, weights * part, N_LATTICE)
    )
