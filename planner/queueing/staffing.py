"""How busy a pool may be when few of its requests may wait too long: a closed form that takes many pools at once."""

from dataclasses import dataclass

import numpy as np

from planner.queueing.erlang import Floats

HALVINGS = 20
"""Of the load: a part in 1e6 is left."""


@dataclass(frozen=True, eq=False)
class QueuedRequests:
    """Requests in a queue: what they ask of it, and how long each kind may wait."""

    mean_s: float
    """Mean service of all requests in the queue E[S] [s]."""
    scv: float
    """Squared coefficient of variation of that service v [fraction]."""
    slack_s: Floats
    """Longest wait at which a request of each kind still keeps its promise [s], shape (k,); negative: late anyhow."""
    weights: Floats
    """Probability of each kind [fraction], shape (k,), sum 1."""
    arrival_scv: float = 1.0
    """Squared coefficient of variation of the gaps between arrivals [fraction]; 1 for Poisson."""


def late_fraction(
    n_servers: Floats, busy_servers: Floats, requests: QueuedRequests, wait_factor: float = 1.0
) -> Floats:
    """Fraction of requests that wait longer than they may, in closed form.

    Equation: sum over kinds of w P(W > slack), P(W > y) = C(c, a) exp(-y / m), m = K E[S] / (c - a),
        K = (1 + v) r / (1 + v (2 r - 1)) (s + v) / (1 + v), C Erlang's waiting probability, u = a / c, s the variation
        of the gaps, r = 1/2 (1 + (1 - u) (c - 1) (sqrt(4 + 5 c) - 2) / (16 u c)) and at most c / (c + 1).

    Args:
        n_servers: servers c [count], at least 1, any shape.
        busy_servers: offered load a [erlang], below c, the same shape.
        requests: what is queued.
        wait_factor: factor on every wait, to see what an error of the formula would change [fraction].

    Returns:
        Fraction, the shape of `n_servers`.

    Valid: an approximation for M/G/c by two moments, exact for M/M/c; of use where many cases are to be compared, with
        the best judged by `mgc_wait`. Tests state its error against that.

    Source: Erlang (1917); Cosmetatos (1975) in Kimura (1996), Oper. Res. Letters 18, for r; Kimura (1986), Management
        Science 32(6), for K; Allen (1978), Probability, Statistics and Queueing Theory, for the gaps' variation.

    >>> kind = QueuedRequests(1.0, 1.0, np.array([0.0]), np.array([1.0]))
    >>> late_fraction(np.array([10.0]), np.array([5.0]), kind).round(6).tolist()
    [0.036105]
    """
    c, a = np.asarray(n_servers, np.float64), np.asarray(busy_servers, np.float64)
    u, v = np.maximum(a / c, 1e-12), requests.scv
    heavy = (1 + (1 - u) * (c - 1) * (np.sqrt(4 + 5 * c) - 2) / (16 * u * c)) / 2
    r = np.where(c > 1, np.minimum(heavy, c / (c + 1)), 0.5)
    factor = (1 + v) * r / (1 + v * (2 * r - 1)) * (requests.arrival_scv + v) / (1 + v)
    rate_per_s = (c - a) / (wait_factor * factor * requests.mean_s)
    slack_s = np.maximum(requests.slack_s, 0.0)
    waits = np.exp(-rate_per_s[..., np.newaxis] * slack_s) * _waiting(c, a)[..., np.newaxis]
    return np.asarray(np.where(requests.slack_s < 0, 1.0, waits) @ requests.weights)


def most_busy_servers(
    n_servers: Floats, requests: QueuedRequests, allowed_fraction: float, wait_factor: float = 1.0
) -> Floats:
    """The highest load at which no more than a fraction of the requests is late.

    Equation: sup {a < c: late_fraction(c, a) <= allowed}, which grows with a, by bisection.

    Args:
        n_servers: servers c [count], at least 1, any shape.
        requests: what is queued.
        allowed_fraction: fraction of them that may be late.
        wait_factor: as at `late_fraction`.

    Returns:
        Load [erlang], the shape of `n_servers`; 0 where even an idle pool is late too often.

    Valid: as at `late_fraction`.

    Source: Halfin and Whitt (1981), Oper. Res. 29(3): staffing to a quality of service.

    >>> kind = QueuedRequests(1.0, 1.0, np.array([2.0]), np.array([1.0]))
    >>> most_busy_servers(np.array([1.0, 10.0]), kind, 0.1).round(3).tolist()
    [0.36, 9.041]
    """
    c = np.asarray(n_servers, np.float64)
    late_anyhow = float(requests.weights[requests.slack_s < 0].sum())
    if late_anyhow > allowed_fraction:
        return np.zeros_like(c)
    low, high = np.zeros_like(c), c * (1 - 1e-9)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        keeps = late_fraction(c, middle, requests, wait_factor) <= allowed_fraction
        low, high = np.where(keeps, middle, low), np.where(keeps, high, middle)
    return np.asarray(low)


def _waiting(n_servers: Floats, busy_servers: Floats) -> Floats:
    """Erlang's C for arrays of servers: B is a Poisson probability over its distribution function."""
    from scipy.special import gammaincc, gammaln, xlogy

    log_mass = xlogy(n_servers, busy_servers) - busy_servers - gammaln(n_servers + 1)
    blocked = np.exp(log_mass) / np.maximum(gammaincc(n_servers + 1, busy_servers), 1e-300)
    return np.asarray(blocked / (blocked + (1 - busy_servers / n_servers) * (1 - blocked)))
