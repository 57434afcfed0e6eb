"""Greatest utilisation of pools in which few requests may wait too long: a closed form that takes many at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.queueing.erlang import Floats

HALVINGS = 20
"""Of the load: a part in 1e6 is left."""
THIRDS = 34
"""Times that a third of the range of a maximum is left out: a part in 1e6 is left."""


@dataclass(frozen=True, eq=False)
class QueuedRequests:
    """Requests in a queue: what they ask of it, and how long each kind may wait; or a batch of such queues."""

    mean_s: float | Floats
    """Mean service of all requests in the queue E[S] [s], a number or shape (b,)."""
    scv: float | Floats
    """Squared coefficient of variation of that service v [fraction], a number or shape (b,)."""
    slack_s: Floats
    """Longest wait at which each kind keeps its promise [s], shape (k,) or (b, k); negative: late anyhow."""
    weights: Floats
    """Probability of each kind [fraction], shape (k,) or (b, k), sum 1 over the kinds."""
    arrival_scv: float | Floats = 1.0
    """Squared coefficient of variation of the gaps between arrivals [fraction]; 1 for Poisson."""

    @classmethod
    def batch(cls, queues: Sequence["QueuedRequests"]) -> "QueuedRequests":
        """Several queues as one batch; where some have fewer kinds, kinds of no weight are added.

        >>> kind = QueuedRequests(1.0, 1.0, np.array([2.0]), np.array([1.0]))
        >>> QueuedRequests.batch([kind, kind]).slack_s.shape
        (2, 1)
        """
        n_kinds = max(len(queue.weights) for queue in queues)
        slack_s, weights = np.zeros((2, len(queues), n_kinds))
        for i, queue in enumerate(queues):
            slack_s[i, : len(queue.slack_s)], weights[i, : len(queue.weights)] = queue.slack_s, queue.weights
        moments = np.array([(queue.mean_s, queue.scv, queue.arrival_scv) for queue in queues]).T
        return cls(moments[0], moments[1], slack_s, weights, moments[2])


def late_fraction(
    n_servers: Floats, busy_servers: Floats, requests: QueuedRequests, wait_factor: float | Floats = 1.0
) -> Floats:
    """Fraction of requests that wait longer than they may, in closed form.

    Equation: sum over kinds of w P(W > slack), P(W > y) = C(c, a) exp(-y / m), m = K E[S] / (c - a),
        K = (1 + v) r / (1 + v (2 r - 1)) (s + v) / (1 + v), C Erlang's waiting probability, u = a / c, s the variation
        of the gaps, r = 1/2 (1 + (1 - u) (c - 1) (sqrt(4 + 5 c) - 2) / (16 u c)) and at most c / (c + 1).

    Args:
        n_servers: servers c [count], at least 1, shape (n,).
        busy_servers: offered load a [erlang], below c, shape (n,), or (b, n) for a batch of queues.
        requests: what is queued.
        wait_factor: factor on every wait, to see what an error of the formula would change [fraction], a number or
            shape (n,) or (b, n).

    Returns:
        Fraction, shape (n,) or (b, n).

    Valid: an approximation for M/G/c by two moments, exact for M/M/c; of use where many cases are to be compared, with
        the best judged by `mgc_wait`. Tests state its error against that.

    Source: Erlang (1917); Cosmetatos (1975) in Kimura (1996), Oper. Res. Letters 18, for r; Kimura (1986), Management
        Science 32(6), for K; Allen (1978), Probability, Statistics and Queueing Theory, for the gaps' variation.

    >>> kind = QueuedRequests(1.0, 1.0, np.array([0.0]), np.array([1.0]))
    >>> late_fraction(np.array([10.0]), np.array([5.0]), kind).round(6).tolist()
    [0.036105]
    """
    pools = _Pools(np.asarray(n_servers, np.float64), requests, wait_factor)
    return pools.late_fraction(np.asarray(busy_servers, np.float64))


def most_busy_servers(
    n_servers: Floats,
    requests: QueuedRequests,
    allowed_fraction: float | Floats,
    wait_factor: float | Floats = 1.0,
    peakedness: float | Floats = 1.0,
) -> Floats:
    """The highest load at which no more than a fraction of the requests is late.

    Equation: sup {a < c: late_fraction(c, a) <= allowed}, which grows with a, by bisection.

    Args:
        n_servers: servers c [count], at least 1, shape (n,).
        requests: what is queued, or a batch of queues.
        allowed_fraction: fraction of them that may be late, a number or shape (b,).
        wait_factor: as at `late_fraction`.
        peakedness: z, variance over mean of the servers that the requests would hold were there no end of them, a
            number or shape (b,): below 1 where arrivals are regular. Erlang's C is that of c / z servers, load a / z.

    Returns:
        Load [erlang], shape (n,) or (b, n); 0 where even an idle pool is late too often.

    Valid: as at `late_fraction`.

    Source: Halfin and Whitt (1981), Oper. Res. 29(3): staffing to a quality of service; Hayward's approximation in
        Fredericks (1980), Bell Syst. Tech. J. 59, for z.

    >>> kind = QueuedRequests(1.0, 1.0, np.array([2.0]), np.array([1.0]))
    >>> most_busy_servers(np.array([1.0, 10.0]), kind, 0.1).round(3).tolist()
    [0.36, 9.041]
    """
    pools = _Pools(np.asarray(n_servers, np.float64), requests, wait_factor, peakedness)
    allowed = np.asarray(allowed_fraction)[..., np.newaxis]
    late_anyhow = np.where(requests.slack_s < 0, requests.weights, 0.0).sum(axis=-1)[..., np.newaxis]
    c = np.broadcast_to(pools.c, (*late_anyhow.shape[:-1], len(n_servers)))
    low, high = np.zeros_like(c), c * (1 - 1e-9)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        keeps = pools.late_fraction(middle) <= allowed
        low, high = np.where(keeps, middle, low), np.where(keeps, high, middle)
    return np.asarray(np.where(late_anyhow > allowed, 0.0, low))


def most_timely_servers(
    n_servers: Floats,
    requests: QueuedRequests,
    late_weight: float | Floats,
    wait_factor: float | Floats = 1.0,
    peakedness: float | Floats = 1.0,
) -> Floats:
    """The most that load less a price for those who are late can come to, whatever the load.

    Equation: max over a < c of a (1 - w L(c, a)), L = `late_fraction`, w the price of a late request in requests. So
        a <= max + w a L(c, a) at every load: a limit of the load that is linear in the load that is late.

    Args:
        n_servers: servers c [count], at least 1, shape (n,).
        requests: what is queued, or a batch of queues.
        late_weight: w, a number or shape (b,).
        wait_factor: as at `late_fraction`.
        peakedness: as at `most_busy_servers`.

    Returns:
        Load [erlang], shape (n,) or (b, n).

    Valid: as at `late_fraction`. One maximum is looked for: a L(c, a) is taken as convex.

    Source: Fenchel's conjugate of the late load, Rockafellar (1970), Convex Analysis, section 12.

    >>> kind = QueuedRequests(1.0, 1.0, np.array([2.0]), np.array([1.0]))
    >>> most_timely_servers(np.array([1.0, 10.0]), kind, 1.0).round(3).tolist()
    [0.441, 8.323]
    """
    pools = _Pools(np.asarray(n_servers, np.float64), requests, wait_factor, peakedness)
    weight = np.asarray(late_weight)[..., np.newaxis]
    c = np.broadcast_to(pools.c, (*requests.weights.shape[:-1], len(n_servers)))
    low, high = np.zeros_like(c), c * (1 - 1e-9)
    for _ in range(THIRDS):
        left, right = (2 * low + high) / 3, (low + 2 * high) / 3
        rises = left * (1 - weight * pools.late_fraction(left)) < right * (1 - weight * pools.late_fraction(right))
        low, high = np.where(rises, left, low), np.where(rises, high, right)
    return np.maximum(high * (1 - weight * pools.late_fraction(low)), 0.0)


@dataclass(frozen=True, eq=False)
class _Pools:
    """Pools of several sizes before a queue, or a batch: what is the same for every load is found once."""

    c: Floats
    requests: QueuedRequests
    wait_factor: float | Floats
    peakedness: float | Floats = 1.0

    def late_fraction(self, a: Floats) -> Floats:
        """Fraction of requests that wait longer than they may at a load."""
        late = -self._rate_per_s(a)[..., np.newaxis] * self._slack_s
        np.exp(late, out=late)
        waiting = (late @ self._in_time[..., np.newaxis])[..., 0] * self._waiting(a)
        return np.asarray(waiting + (self.requests.weights - self._in_time).sum(axis=-1)[..., np.newaxis])

    def _rate_per_s(self, a: Floats) -> Floats:
        """One over the mean wait of those who wait."""
        v, mean_s, gaps = self._moments
        u = np.maximum(a / self.c, 1e-12)
        heavy = (1 + (1 - u) * (self.c - 1) * self._spread / (16 * u * self.c)) / 2
        r = np.minimum(heavy, self.c / (self.c + 1))
        k = self.wait_factor * (1 + v) * r / (1 + v * (2 * r - 1)) * (gaps + v) / (1 + v)
        return np.asarray((self.c - a) / (k * mean_s))

    def _waiting(self, a: Floats) -> Floats:
        """Erlang's C: B is a Poisson probability over its distribution function."""
        from scipy.special import gammaincc, xlogy

        z = np.asarray(self.peakedness)[..., np.newaxis]
        c, load = self.c / z, a / z
        log_mass = xlogy(c, load) - load - self._log_factorial
        blocked = np.exp(log_mass) / np.maximum(gammaincc(c + 1, load), 1e-300)
        return np.asarray(blocked / (blocked + (1 - a / self.c) * (1 - blocked)))

    @cached_property
    def _moments(self) -> tuple[Floats, ...]:
        of = self.requests
        return tuple(np.asarray(x)[..., np.newaxis] for x in (of.scv, of.mean_s, of.arrival_scv))

    @cached_property
    def _spread(self) -> Floats:
        return np.asarray(np.sqrt(4 + 5 * self.c) - 2)

    @cached_property
    def _log_factorial(self) -> Floats:
        from scipy.special import gammaln

        return np.asarray(gammaln(self.c / np.asarray(self.peakedness)[..., np.newaxis] + 1))

    @cached_property
    def _slack_s(self) -> Floats:
        """Beside an axis for sizes."""
        return np.maximum(self.requests.slack_s, 0.0)[..., np.newaxis, :]

    @cached_property
    def _in_time(self) -> Floats:
        """Weights of the kinds that are not late anyhow."""
        return np.where(self.requests.slack_s < 0, 0.0, self.requests.weights)
