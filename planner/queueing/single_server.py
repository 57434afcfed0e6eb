"""Queues that are random walks: one server with any service, and c servers with deterministic service."""

from collections.abc import Callable
from functools import cache
from math import inf, log

import numpy as np

from planner.queueing.erlang import Floats, erlang_c
from planner.roots import last_kept

Transform = Callable[[Floats], Floats]

_SUMMED = 200
"""Terms of Spitzer's series that are summed; the smooth rest is integrated."""
_NODES = 96


def deterministic_wait(n_servers: int, utilization: float, arrival_scv: float = 1.0) -> tuple[float, float]:
    """Waiting probability and mean wait of GI/D/c, Gamma arrivals, in services.

    Equation: every c-th request meets the same server, so with T_nc the time of n c arrivals
        P(W > 0) = 1 - exp(-sum over n >= 1 of P(T_nc < n D) / n), E[W] = sum of E[(n D - T_nc)+] / n;
        T_nc is Gamma with shape a = n c / v, and E[(n D - T_nc)+] / n = (D / u) ((u - 1) P(a, a u) + pois(a; a u)).
        Terms beyond n = 200, being smooth, are integrated (Euler and Maclaurin).

    Args:
        n_servers: servers c [count], at least 1.
        utilization: busy share u of each server [fraction], 0 < u < 1.
        arrival_scv: squared coefficient of variation v of the gaps [fraction], above 0.

    Returns:
        P(W > 0) [fraction] and E[W] / D [services].

    Raises:
        ValueError: an argument is out of range.

    Valid: exact (9 digits).

    Source: Crommelin (1932), Post Office Electr. Eng. J. 25; Spitzer (1956), Trans. Amer. Math. Soc. 82, 323-339.

    >>> waiting, mean = deterministic_wait(1, 0.5)
    >>> round(waiting, 9), round(mean, 9)
    (0.5, 0.5)
    """
    from scipy.special import gammainc

    if n_servers < 1 or not 0 < utilization < 1 or not 0 < arrival_scv < inf:
        raise ValueError(
            "deterministic service needs n_servers >= 1, 0 < utilization < 1 and arrival_scv > 0, "
            f"got {n_servers}, {utilization}, {arrival_scv}"
        )
    shape_per_turn = n_servers / arrival_scv
    idle = 1 - utilization
    apart = idle**2 * (0.5 + idle / 3 + idle**2 / 4) if idle < 1e-4 else utilization - 1 - log(utilization)

    def terms(n: Floats) -> Floats:
        shape = n * shape_per_turn
        load = utilization * shape
        late = gammainc(shape, load)
        density = np.exp(-shape * apart) * _stirling(shape)
        return np.array([late / n, ((utilization - 1) * late + density) / utilization])

    late, early = _series(terms, 45 / (shape_per_turn * apart))
    return float(-np.expm1(-late)), max(float(early), 0.0)


def _stirling(shape: Floats) -> Floats:
    """shape^shape exp(-shape) / Gamma(shape + 1), without overflow or lost digits."""
    from scipy.special import gammaln

    large = np.maximum(shape, 100.0)
    small = np.minimum(shape, 100.0)
    far = np.exp(1 / (360 * large**3) - 1 / (12 * large)) / np.sqrt(2 * np.pi * large)
    return np.asarray(np.where(shape > 100, far, np.exp(small * np.log(small) - small - gammaln(small + 1))))


@cache
def _gauss_nodes() -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(_NODES)


def _series(terms: Callable[[Floats], Floats], last: float) -> Floats:
    """Sum over n = 1, 2, ... of smooth terms that are negligible beyond `last`."""
    first = terms(np.arange(1.0, _SUMMED + 1))
    total = first.sum(axis=1)
    if last <= _SUMMED:
        return np.asarray(total)
    nodes, weights = _gauss_nodes()
    low, high = np.log(_SUMMED + 0.5), np.log(2 * last + _SUMMED)
    n = np.exp(low + (high - low) * (nodes + 1) / 2)
    slope = terms(np.array([_SUMMED + 1.0]))[:, 0] - first[:, -1]
    return np.asarray(total + terms(n) @ (weights * n) * (high - low) / 2 + slope / 24)


def exponential_wait(n_servers: int, utilization: float, arrival_scv: float = 1.0) -> tuple[float, float]:
    """Waiting probability and mean wait of GI/M/c, Gamma arrivals, in services.

    Equation: with A*(s) the transform of the gaps, f_j = A*(j), x the root of x = c (1 - A*(x)) in (0, c) and
        C_j = product over i <= j of f_i / (1 - f_i),
        P(W > 0) = 1 / (1 + (x / c) sum over j = 1 to c of binom(c, j) (c (1 - f_j) - j) / (C_j (1 - f_j) (x - j)));
        the wait of those who wait is exponential with rate x.

    Args:
        n_servers: servers c [count], at least 1.
        utilization: busy share u of each server [fraction], 0 < u < 1.
        arrival_scv: squared coefficient of variation of the gaps [fraction], above 0.

    Returns:
        P(W > 0) [fraction] and E[W] / E[S] [services].

    Raises:
        ValueError: an argument is out of range.

    Valid: exact.

    Source: Takacs (1962), Introduction to the Theory of Queues, chapter 2, theorem 3; x = c (1 - sigma). With Poisson
        arrivals Erlang (1917), as at `erlang_c`.

    >>> waiting, mean = exponential_wait(2, 0.75)
    >>> round(waiting, 6), round(mean, 6)
    (0.642857, 1.285714)
    """
    if n_servers < 1 or not 0 < utilization < 1 or not 0 < arrival_scv < inf:
        raise ValueError(
            "exponential service needs n_servers >= 1, 0 < utilization < 1 and arrival_scv > 0, "
            f"got {n_servers}, {utilization}, {arrival_scv}"
        )
    if arrival_scv == 1.0:
        waiting = erlang_c(n_servers, n_servers * utilization)
        return waiting, waiting / (n_servers * (1 - utilization))
    scale = arrival_scv / (n_servers * utilization)
    return exponential_wait_of(n_servers, utilization, lambda s: np.asarray(-np.log1p(scale * s) / arrival_scv))


def exponential_wait_of(n_servers: int, utilization: float, log_transform: Transform) -> tuple[float, float]:
    """As `exponential_wait`, for gaps whose transform has the logarithm `log_transform`(s), s in 1 / service."""
    from scipy.special import gammaln

    rate = _exponential_decay(n_servers, utilization, log_transform)
    j = np.arange(1.0, n_servers + 1)
    log_stay = log_transform(j)
    log_leave = np.log(-np.expm1(log_stay))
    share = _over_distance(lambda s: -n_servers * np.expm1(log_transform(s)) - s, rate, j)
    binomial = gammaln(n_servers + 1) - gammaln(j + 1) - gammaln(n_servers - j + 1)
    terms = binomial - np.cumsum(log_stay - log_leave) - log_leave + np.log(np.maximum(share, 1e-300))
    total = float(np.exp(np.minimum(terms + np.log(rate / n_servers), 600.0)).sum())
    return 1 / (1 + total), 1 / (1 + total) / rate


def _over_distance(excess: Transform, root: float, j: Floats) -> Floats:
    """excess(j) / (root - j), with its limit where j is the root."""
    near = np.abs(root - j) < 1e-7 * j
    low, high = np.where(near, 1 - 1e-4, 1.0) * j, (1 + 1e-4) * j
    slope = (excess(high) - excess(low)) / (high - low)
    return np.asarray(np.where(near, -slope, excess(j) / np.where(near, 1.0, root - j)))


def _exponential_decay(n_servers: int, utilization: float, log_transform: Transform) -> float:
    """Root x of x = c (1 - A*(x)) in (0, c): the decay of the wait in GI/M/c [1 / service]."""

    def excess(x: float) -> float:
        return 1 + n_servers * float(np.expm1(log_transform(np.array(x)))) / x

    low = n_servers * (1 - utilization) / 2
    while excess(low) >= 0:
        low /= 2
    return last_kept(excess, low, float(n_servers), 1e-15)[0]
