"""First come, first served with c servers and Poisson arrivals: the mean wait and its whole distribution."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf, log, sqrt

import numpy as np

from planner.queueing.erlang import Floats, erlang_c
from planner.queueing.service import Service

_GRID = 2**15
"""Points of the transform; the upper half only keeps aliased mass away from the lower half, which is kept."""
_RANGE_DECAYS = 40.0
"""Grid length in units of 1 / decay: what is cut off is about exp(-20), what is aliased exp(-40)."""
_NEARLY_SATURATED = 1e-4
"""Spare capacity below which the decay rate is found in closed form, then right to about its square."""
_MD_C_SUMMED_BELOW = 0.98
"""Utilisation up to which the M/D/c series is summed; beyond, its ratio to M/M/c is taken linear to 1/2 at 1."""
_RESIDUAL_SCALE = (0.7, 1.5)
"""How far the mean may be corrected through the least residual alone before the whole wait is stretched."""


def utilization_fraction(n_servers: int, arrival_req_per_s: float, mean_s: float) -> float:
    """Busy share of each server.

    Equation: u = lambda E[S] / c.

    Args:
        n_servers: servers c [count], at least 1.
        arrival_req_per_s: arrival rate lambda [req/s], at least 0.
        mean_s: mean service E[S] [s], above 0.

    Returns:
        Utilisation [fraction]; 1 or more means that the queue grows without bound.

    Raises:
        ValueError: an argument is outside the ranges above or not finite.

    Valid: any arrivals and service with these means, while below 1.

    Source: Little (1961), L = lambda W applied to the servers.

    >>> utilization_fraction(4, 3.0, 1.0)
    0.75
    """
    if n_servers < 1 or not 0 <= arrival_req_per_s < inf or not 0 < mean_s < inf:
        raise ValueError(
            "a queue needs n_servers >= 1, arrival_req_per_s >= 0 and mean_s > 0, all finite, "
            f"got {n_servers}, {arrival_req_per_s}, {mean_s}"
        )
    return arrival_req_per_s * mean_s / n_servers


def _stable_utilization_fraction(n_servers: int, arrival_req_per_s: float, mean_s: float) -> float:
    utilization = utilization_fraction(n_servers, arrival_req_per_s, mean_s)
    if utilization >= 1:
        raise ValueError(f"the queue has no steady state at utilisation {utilization:.6g}, it needs less than 1")
    return utilization


def mmc_mean_wait_s(n_servers: int, arrival_req_per_s: float, mean_s: float) -> float:
    """Mean wait with exponential service.

    Equation: W = C(c, lambda E[S]) E[S] / (c (1 - u)).

    Args:
        n_servers: servers c [count], at least 1.
        arrival_req_per_s: arrival rate lambda [req/s].
        mean_s: mean service E[S] [s].

    Returns:
        Mean wait before service [s].

    Raises:
        ValueError: utilisation is 1 or more, or an argument is out of range.

    Valid: exact for M/M/c, u < 1.

    Source: Erlang (1917); Cooper, Introduction to Queueing Theory (1981), chapter 3.

    >>> round(mmc_mean_wait_s(2, 1.5, 1.0), 6)
    1.285714
    """
    utilization = _stable_utilization_fraction(n_servers, arrival_req_per_s, mean_s)
    return erlang_c(n_servers, arrival_req_per_s * mean_s) * mean_s / (n_servers * (1 - utilization))


def mdc_mean_wait_s(n_servers: int, arrival_req_per_s: float, mean_s: float) -> float:
    """Mean wait with deterministic service.

    Equation: W = sum over n >= 1 of E[(n D - T_nc)+] / n, with T_nc the time of n c arrivals: in M/D/c every c-th
        request meets the same server, a single-server queue whose mean wait Spitzer's identity gives.
        E[(n D - T_nc)+] / n = (D / u) ((u - 1) P(nc, n c u) + pois(nc; n c u)), P the regularised gamma function.

    Args:
        n_servers: servers c [count], at least 1.
        arrival_req_per_s: arrival rate lambda [req/s].
        mean_s: service D [s].

    Returns:
        Mean wait before service [s].

    Raises:
        ValueError: utilisation is 1 or more, or an argument is out of range.

    Valid: exact up to u = 0.98 (12 digits). Beyond, the ratio to M/M/c is interpolated to its limit, 1/2 at u = 1,
        within 0.02 %.

    Source: Crommelin (1932), Post Office Electr. Eng. J. 25; Spitzer (1956), Trans. Amer. Math. Soc. 82, 323-339.

    >>> round(mdc_mean_wait_s(1, 0.5, 1.0), 6), round(mdc_mean_wait_s(2, 1.6, 1.0), 4)
    (0.5, 0.9033)
    """
    utilization = _stable_utilization_fraction(n_servers, arrival_req_per_s, mean_s)
    return _mdc_over_mmc(n_servers, utilization) * mmc_mean_wait_s(n_servers, arrival_req_per_s, mean_s)


def _mdc_over_mmc(n_servers: int, utilization: float) -> float:
    """Mean wait of M/D/c over that of M/M/c [fraction]: c / (c + 1) at no load, 1/2 at full load."""
    if n_servers == 1:
        return 0.5
    if utilization > _MD_C_SUMMED_BELOW:
        excess = _mdc_over_mmc(n_servers, _MD_C_SUMMED_BELOW) - 0.5
        return 0.5 + excess * (1 - utilization) / (1 - _MD_C_SUMMED_BELOW)
    waiting = erlang_c(n_servers, n_servers * utilization)
    if waiting < 1e-200:
        return n_servers / (n_servers + 1)
    return _mdc_mean_wait_services(n_servers, utilization) * n_servers * (1 - utilization) / waiting


def _mdc_mean_wait_services(n_servers: int, utilization: float) -> float:
    """Mean wait of M/D/c over its service, by Spitzer's series cut where its terms are exp(-40) of the first."""
    from scipy.special import gammainc, gammaln

    decay = n_servers * (utilization - 1 - log(utilization))
    arrivals = n_servers * np.arange(1.0, 2 + ceil(40 / decay))
    load = utilization * arrivals
    poisson = np.exp(arrivals * np.log(load) - load - gammaln(arrivals + 1))
    return float(((utilization - 1) * gammainc(arrivals, load) + poisson).sum()) / utilization


def mean_wait_s(
    n_servers: int, arrival_req_per_s: float, mean_s: float, scv: float, min_residual_s: float | None = None
) -> float:
    """Mean wait of M/G/c, first come first served, from moments of the service.

    Equation: W = (1 + v) W_M r / (1 + a (2 r - 1)), r = W_D / W_M (M/D/c over M/M/c), v the squared variation,
        a = ((1 + v) E[S] / m - c - 1) / (c - 1), m the mean of the least of c residual services; a = v without m.

    Args:
        n_servers: servers c [count], at least 1.
        arrival_req_per_s: arrival rate lambda [req/s].
        mean_s: mean service E[S] [s].
        scv: squared coefficient of variation v of the service [fraction].
        min_residual_s: m [s], `Service.min_residual_excess_s(0.0, n_servers)`; None where only moments are known.

    Returns:
        Mean wait before service [s].

    Raises:
        ValueError: utilisation is 1 or more, or an argument is out of range.

    Valid: exact for c = 1 (Pollaczek-Khinchine), exponential and deterministic service, and in the limits of heavy and
        (with m) light traffic. Largest error found against 3e7 simulated requests, u 0.3 to 0.9, where W is above 0.1 %
        of the service (the simulation's own standard error is 0.1 to 0.9 %):

            service                          v     c = 3, 4  c = 9   without m
            deterministic                    0         0.4 %   0.5 %     0.5 %
            log-normal, sigma 0.5, cut       0.28      0.6 %   2.0 %     4.3 %
            log-normal, sigma 1, cut         0.81      0.7 %   0.5 %     2.5 %
            log-normal, sigma 1.15, cut      1.68      0.8 %   0.9 %     1.6 %
            two values, 0.2 and 3.4          1.92      2.3 %    14 %      22 %
            log-normal, sigma 1.5, cut       4.15      1.6 %     9 %      15 %

        The two large errors are at u = 0.5, c = 9, where W is below 2 % of the service; at u = 0.9 they are near 2 %.

    Source: Boxma, Cohen and Huffels (1979), Operations Research 27(6), 1115-1127, with m; Kimura (1986), Management
        Science 32(6), 751-763, without.

    >>> round(mean_wait_s(1, 0.8, 1.0, 0.5), 6)
    3.0
    >>> round(mean_wait_s(3, 2.4, 1.0, 1.0), 6) == round(mmc_mean_wait_s(3, 2.4, 1.0), 6)
    True
    >>> round(mean_wait_s(4, 3.2, 1.0, 0.8), 6)
    0.67565
    """
    if not 0 <= scv < inf or (min_residual_s is not None and not 0 < min_residual_s < inf):
        raise ValueError(f"scv must be at least 0 and min_residual_s above 0, got {scv}, {min_residual_s}")
    exponential_s = mmc_mean_wait_s(n_servers, arrival_req_per_s, mean_s)
    if n_servers == 1 or exponential_s == 0:
        return (1 + scv) / 2 * exponential_s
    ratio = _mdc_over_mmc(n_servers, arrival_req_per_s * mean_s / n_servers)
    weight = scv
    if min_residual_s is not None:
        weight = max(((1 + scv) * mean_s / min_residual_s - n_servers - 1) / (n_servers - 1), 0.0)
    return (1 + scv) * ratio / (1 + weight * (2 * ratio - 1)) * exponential_s


@dataclass(frozen=True, eq=False)
class Wait:
    """A waiting time: none with some probability, else a tabulated distribution with an exponential tail."""

    waiting_fraction: float
    """P(W > 0) [fraction]."""
    mean_s: float
    """E[W] [s], over all requests."""
    step_s: float
    """Grid step of the table [s]."""
    survival_given_wait: Floats
    """P(W > k step | W > 0) [fraction], shape (n,), from 1, never rising."""
    decay_per_s: float
    """Rate of the exponential tail beyond the table [1/s]."""

    def survival(self, x_s: float | Floats) -> Floats:
        """Fraction of requests that wait longer than `x_s`.

        Equation: P(W > x) = P(W > 0) P(W > x | W > 0), linear between grid points, exponential beyond; 1 for x < 0.

        Args:
            x_s: thresholds [s], a number or any shape.

        Returns:
            Survival probability [fraction], shape of `x_s`.

        Valid: as stated at `mgc_wait`, which makes the table.

        Source: definition.

        >>> wait = mgc_wait(1, 0.5, Service.of([1.0]))  # M/D/1: 1 - (1 - u) exp(u x) for x <= 1
        >>> [round(float(p), 4) for p in wait.survival(np.array([-1.0, 0.0, 0.5]))]
        [1.0, 0.5, 0.358]
        """
        x = np.asarray(x_s, dtype=np.float64)
        position = np.maximum(x, 0.0) / self.step_s
        last = len(self.survival_given_wait) - 1
        left = np.minimum(position, last - 1).astype(np.intp)
        here, step = self.survival_given_wait[left], np.minimum(position - left, 1.0)
        inside = here + step * (self.survival_given_wait[left + 1] - here)
        beyond = np.exp(-self.decay_per_s * self.step_s * np.maximum(position - last, 0.0))
        return np.asarray(np.where(x < 0, 1.0, self.waiting_fraction * inside * beyond))

    def quantile_s(self, q: float) -> float:
        """Wait that a fraction `q` of requests does not exceed.

        Equation: inf {x >= 0: P(W > x) <= 1 - q}.

        Args:
            q: probability [fraction], 0 <= q < 1.

        Returns:
            Quantile [s]; 0 where q is at most the fraction that does not wait.

        Raises:
            ValueError: q is outside [0, 1).

        Valid: as stated at `mgc_wait`.

        Source: definition.

        >>> round(mgc_wait(1, 0.5, Service.of([1.0])).quantile_s(0.9), 3)
        1.516
        """
        return smallest_below_s(self.survival, q, self.mean_s)


NO_WAIT = Wait(0.0, 0.0, 1.0, np.array([1.0, 0.0]), 1.0)
"""The wait of a pool without a queue: an unloaded system."""


def smallest_below_s(survival: Callable[[float], Floats], q: float, guess_s: float) -> float:
    """Smallest time at which a non-increasing `survival` is at most 1 - q, bisected to 12 digits; jumps are allowed."""
    if not 0 <= q < 1:
        raise ValueError(f"a quantile needs 0 <= q < 1, got {q}")
    allowed = 1 - q + 1e-12  # so that rounding of 1 - q does not step over a jump that ends exactly there
    if survival(0.0) <= allowed:
        return 0.0
    low, high = 0.0, max(guess_s, 1e-9)
    while survival(high) > allowed:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if survival(middle) > allowed else (low, middle)
    return high


def mgc_wait(n_servers: int, arrival_req_per_s: float, service: Service) -> Wait:
    """Distribution of the wait in M/G/c, first come first served.

    Equation: P(W > x) = C P(g (k Y + V) > x): C Erlang's waiting probability; Y the least of c residual services; V the
        wait of M/G/1 with service S / c, V = sum of N residuals of S / c with P(N = n) = (1 - u) u^n, by FFT; k, and
        g where k alone would leave [0.7, 1.5], set the mean to `mean_wait_s`. The tail decays at the root of
        lambda (E[exp(z S / c)] - 1) = z.

    Args:
        n_servers: servers c [count], at least 1.
        arrival_req_per_s: arrival rate lambda [req/s].
        service: the service time S.

    Returns:
        The wait before service, over all requests.

    Raises:
        ValueError: utilisation is 1 or more (no steady state: the caller states such a wait as unknown, None), or an
            argument is out of range.

    Valid: Poisson arrivals, independent services, one queue. Exact for c = 1 and exponential service, to a
        probability of 2e-4 by the grid. Largest error found as at `mean_wait_s`: in P(W > x), and in quantiles of the
        time to first token W + S. Each is taken over u in {0.3, 0.5, 0.7, 0.8, 0.9} and c in {3, 4, 9}; in brackets
        P(W > x) of one exponential with the same mean, c in {1, 3, 4, 9}:

            service                          v     P(W > x)          p50     p90     p99
            deterministic                    0     0.024  (0.034)   1.5 %   1.0 %   1.6 %
            log-normal, sigma 0.5, cut       0.28  0.012  (0.025)   0.3 %   0.4 %   0.6 %
            log-normal, sigma 1, cut         0.81  0.002  (0.006)   0.3 %   0.4 %   0.9 %
            log-normal, sigma 1.15, cut      1.68  0.010  (0.026)   1.0 %   0.6 %   0.3 %
            two values, 0.2 and 3.4          1.92  0.014  (0.043)   6.8 %   1.2 %   2.6 %
            log-normal, sigma 1.5, cut       4.15  0.041  (0.055)   6.5 %   2.8 %   1.6 %

        With two values, p50 lies where the distribution is nearly flat.

    Source: Tijms, van Hoorn and Federgruen (1981), Adv. Appl. Prob. 13(1), whose assumption after a departure gives
        Y + V; Takahashi (1981), Adv. Appl. Prob. 13(3), for the decay rate; mean as in `mean_wait_s`.

    >>> wait = mgc_wait(4, 3.2, Service.of([0.5, 2.0], [2.0, 1.0]))
    >>> round(wait.waiting_fraction, 4), round(wait.mean_s, 4), round(wait.quantile_s(0.99), 3)
    (0.5964, 0.5653, 3.735)
    """
    utilization = _stable_utilization_fraction(n_servers, arrival_req_per_s, service.mean_s)
    residual_s = float(service.min_residual_excess_s(0.0, n_servers))
    mean_s = mean_wait_s(n_servers, arrival_req_per_s, service.mean_s, service.scv, residual_s)
    waiting = erlang_c(n_servers, arrival_req_per_s * service.mean_s)
    if mean_s == 0:
        return NO_WAIT
    behind_s = utilization / (1 - utilization) * (1 + service.scv) * service.mean_s / (2 * n_servers)
    residual_scale = float(np.clip((mean_s / waiting - behind_s) / residual_s, *_RESIDUAL_SCALE))
    stretch = mean_s / waiting / (residual_scale * residual_s + behind_s)
    decay_per_s = _decay_per_s(n_servers, arrival_req_per_s, service)
    step_s = (_RANGE_DECAYS / decay_per_s + float(service.seconds[-1])) / _GRID
    survival = _survival_given_wait(n_servers, utilization, service, residual_scale, step_s)
    return Wait(waiting, mean_s, stretch * step_s, survival, decay_per_s / stretch)


def _decay_per_s(n_servers: int, arrival_req_per_s: float, service: Service) -> float:
    """Rate z [1/s] at which the wait's tail decays: lambda (E[exp(z S / c)] - 1) = z, taken as logarithms."""
    from scipy.optimize import brentq
    from scipy.special import logsumexp

    share_s = service.seconds / n_servers
    second_s2 = (1 + service.scv) * (service.mean_s / n_servers) ** 2
    spare = 1 - arrival_req_per_s * service.mean_s / n_servers
    if spare < _NEARLY_SATURATED:
        # Both sides agree in more digits than a float has: the first terms of the equation have a closed root.
        linear, square = (arrival_req_per_s * m for m in (second_s2 / 2, float(share_s**3 @ service.weights) / 6))
        return 2 * spare / (linear + sqrt(linear**2 + 4 * square * spare))

    def excess(rate_per_s: float) -> float:
        growth = float(logsumexp(rate_per_s * share_s, b=service.weights))
        return growth - float(np.log1p(rate_per_s / arrival_req_per_s))

    high = 2.02 * spare / (arrival_req_per_s * second_s2)
    low = high / 2
    while excess(low) >= 0:
        high, low = low, low / 2
    return float(brentq(excess, low, high))


def _survival_given_wait(
    n_servers: int, utilization: float, service: Service, residual_scale: float, step_s: float
) -> Floats:
    """P(k Y + V > x) on the lower half of the grid."""
    grid_s = step_s * np.arange(_GRID + 1, dtype=np.float64)
    least = residual_scale * service.min_residual_excess_s(grid_s / residual_scale, n_servers)
    behind = service.min_residual_excess_s(grid_s * n_servers, 1) / n_servers
    first, residual = (np.fft.rfft(_lattice(excess_s, step_s)) for excess_s in (least, behind))
    mass = np.fft.irfft(first * (1 - utilization) / (1 - utilization * residual), _GRID)
    survival = 1 - np.cumsum(mass) + mass / 2
    survival[0] = 1.0
    return np.asarray(np.minimum.accumulate(np.clip(survival[: _GRID // 2 + 1], 0.0, 1.0)))


def _lattice(excess_s: Floats, step_s: float) -> Floats:
    """Masses on the grid with the same mean excess at each of its points: second differences."""
    slope = np.diff(excess_s) / step_s
    return np.append(1 + slope[0], np.diff(slope))
