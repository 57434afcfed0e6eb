"""The shortest waits that the closed form may stand for, and few kinds of requests that stand for many."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
SHORTEST_WAITS = {1: 0.49, 2: 0.6, 3: 0.7, 4: 0.76, 6: 0.81, 8: 0.84, 16: 0.86, 64: 0.89}
"""By servers: waits of the closed form, times this, are below those of the best model. What bounds count with."""
SHORTEST_REGULAR_WAITS = {1: 0.18, 2: 0.33, 3: 0.43, 4: 0.52, 6: 0.6, 8: 0.67, 16: 0.76, 64: 0.86}
"""The same where gaps between arrivals vary less than Poisson's, and fewer have to wait (Hayward's approximation)."""


def shortest_waits(sizes: Array, arrival_scv: float) -> Array:
    """Factors on waits of the closed form, by servers: with them they are below those of the best model.

    Args:
        sizes: servers [count], shape (n,).
        arrival_scv: squared coefficient of variation of the gaps between arrivals [fraction].

    >>> shortest_waits(np.array([1.0, 8.0, 1000.0]), 1.0).tolist()
    [0.49, 0.84, 0.89]
    >>> shortest_waits(np.array([1.0, 2.0, 32.0]), 0.9).round(2).tolist()  # halfway from 16 to 64 by their logarithms
    [0.18, 0.33, 0.81]
    """
    shortest = SHORTEST_REGULAR_WAITS if arrival_scv < 1 else SHORTEST_WAITS
    return np.interp(np.log(sizes), np.log(list(shortest)), list(shortest.values()))


def moments(service_s: Array, weights: Array) -> tuple[float, float]:
    """Mean [s] and squared coefficient of variation of services.

    Args:
        service_s: service times, shape (n,) [s].
        weights: their weights, of any sum, shape (n,).

    >>> mean_s, scv = moments(np.array([1.0, 3.0]), np.array([2.0, 6.0]))
    >>> mean_s, round(scv, 6)
    (2.5, 0.12)
    """
    mean_s = float(service_s @ weights) / float(weights.sum())
    return mean_s, float((service_s - mean_s) ** 2 @ weights) / float(weights.sum()) / mean_s**2


def condensed(slack_s: Array, weights: Array, n_kinds: int = 32) -> tuple[Array, Array]:
    """Fewer kinds of requests: neighbours in slack are merged at their mean, late ones into one kind.

    Args:
        slack_s: what is left of the TTFT without a wait, shape (n,) [s].
        weights: weights of the requests, shape (n,).
        n_kinds: most kinds that are not late anyhow [count].

    Returns:
        Slack [s] and weight of every kind.

    >>> slack_s, weights = condensed(np.array([3.0, 1.0, -2.0, 2.0]), np.array([0.1, 0.2, 0.3, 0.4]), 2)
    >>> slack_s.round(6).tolist(), weights.round(6).tolist()
    ([1.0, 2.2, -1.0], [0.2, 0.5, 0.3])
    """
    late = slack_s < 0
    order = np.argsort(slack_s[~late], kind="stable")
    kept, mass = slack_s[~late][order], weights[~late][order]
    group = np.minimum((np.cumsum(mass) / max(mass.sum(), 1e-300) * n_kinds).astype(np.intp), n_kinds - 1)
    total = np.bincount(group, mass, n_kinds)
    used = total > 0
    means = np.bincount(group, kept * mass, n_kinds)[used] / total[used]
    return np.append(means, -1.0), np.append(total[used], weights[late].sum())
