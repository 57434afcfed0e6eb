"""Delay that a shared link adds to transfers that prefill feeds: distribution of the time each takes, by its size."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, exp, inf, log, sqrt

import numpy as np

from planner.queueing.erlang import Floats
from planner.queueing.service import Service
from planner.queueing.waits import gigc_wait

_BURST_POWER = 1.2
"""Exponent of the factor by which bursts change the number of transfers that a start meets; fitted to simulations."""
_FEEDING_POWER = 3.0
"""Exponent of the share of its life for which a transfer is fed, where instances are still busy; fitted likewise."""
_TAIL = 1e-8
_MOST_STATES = 20_000
_POINTS = 400
_SIZES = 16
"""Sizes at which the levels are found; between them they are interpolated in log size."""
_EDGES = np.array([0, 0.25, 0.5, 0.7, 0.8, 0.87, 0.92, 0.95, 0.97, 0.98, 0.987, 0.993, 0.996, 0.998, 0.9992, 0.9998, 1])
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Senders:
    """A prefill pool and the requests whose transfers its instances feed."""

    n_instances: int
    """Instances n, each feeding one transfer at a time [count]."""
    req_per_s: float
    """Requests that it serves [req/s]."""
    service_s: Floats
    """Prefill of each kind of request [s], shape (k,)."""
    link_s: Floats
    """Time of its transfer on the link alone, all bytes at hand [s], shape (k,)."""
    weights: Floats
    """Probability of each kind [fraction], shape (k,), sum 1."""

    @property
    def mean_busy(self) -> float:
        """Busy instances on average [count]."""
        return self.req_per_s * float(self.service_s @ self.weights)

    @property
    def most_at_once(self) -> float:
        """Most that its instances, all busy, feed at once, over what the link carries [fraction]."""
        fed = (self.service_s > 0) & (self.weights > 0)
        return self.n_instances * float((self.link_s[fed] / self.service_s[fed]).max(initial=0.0))

    @property
    def smoothing(self) -> float:
        """Reduction of the squared variation of starts, for Poisson ones, by first come, first served on the instances.

        Equation: -u^2 (c_s^2 - 1) / sqrt(n), the second term of the departures' variation.

        Source: Whitt (1983), The queueing network analyzer, Bell Syst. Tech. J. 62(9), equation 39.

        >>> two = Senders(4, 2.0, np.array([0.5, 1.5]), np.array([0.2, 0.9]), np.array([0.5, 0.5]))
        >>> two.mean_busy, two.busy_fraction, round(two.most_at_once, 6), two.smoothing  # c_s^2 = 1/4
        (2.0, 0.5, 2.4, 0.09375)
        """
        mean_s = float(self.service_s @ self.weights)
        scv = float((self.service_s - mean_s) ** 2 @ self.weights) / mean_s**2
        return -(self.busy_fraction**2) * (scv - 1) / sqrt(self.n_instances)

    @property
    def busy_fraction(self) -> float:
        """Utilisation u of the instances [fraction]."""
        return min(self.mean_busy / self.n_instances, 1.0) if self.n_instances else 1.0


@dataclass(frozen=True, eq=False)
class TransferSlowdown:
    """By what transfers take longer than alone; from `link_stretch`."""

    mean: float
    """Mean factor, of every size [fraction], at least 1; inf without a steady state."""
    variance: float
    """Variance of the factor of the smallest transfers."""
    alone_fraction: float
    """Probability that those are not stretched [fraction]."""
    grid_s: Floats
    """Times [s] at which the next two are tabulated, shape (p,), from 0."""
    correlation_s: Floats
    """Integral of r(t), the factor's correlation over attained time, from 0 [s], shape (p,)."""
    moment_s2: Floats
    """Integral of t r(t) from 0 [s^2], shape (p,)."""

    @property
    def is_alone(self) -> bool:
        """True if no transfer takes longer than alone."""
        return self.mean <= 1 + _ROUNDING

    def left_fraction(self, alone_s: Floats) -> Floats:
        """Fraction of the variance that is left when it is averaged over a transfer.

        Equation: 2 / x^2 times the integral of (x - t) r(t) from 0 to x.

        Args:
            alone_s: time x of each transfer alone [s], any shape, above 0.

        Returns:
            Fraction, 0 to 1, shape of `alone_s`.

        Valid: as at `link_stretch`.

        Source: Whitt (1991), Management Science 37(6), variance of a time average.
        """
        x = np.asarray(alone_s, dtype=np.float64)
        once, twice = np.interp(x, self.grid_s, self.correlation_s), np.interp(x, self.grid_s, self.moment_s2)
        return np.asarray(np.clip(2 * (x * once - twice) / x**2, 1e-4, 1.0))

    def levels(self, alone_s: Floats) -> tuple[Floats, Floats]:
        """Factors that stand for the distribution of each transfer's.

        Equation: with m = 1 / `left_fraction`, the factor is 1 with probability a^m, a = `alone_fraction`, else 1 plus
            a Gamma variable, with the mean and variance / m in all; each level is the mean between two quantiles.

        Args:
            alone_s: time of each transfer alone [s], shape (k,).

        Returns:
            Factors, shape (k, l), and the weight of each level, shape (l,), sum 1; the mean is exact.

        Valid: as at `link_stretch`.

        Source: an average over m independent spells of an infinitely divisible variable is 1 with probability a^m.
        """
        weights = np.diff(_EDGES)
        if self.is_alone:
            return np.ones((len(alone_s), 1)), np.ones(1)
        sizes = np.maximum(alone_s, self.grid_s[1] * 1e-3)
        low, high = float(sizes.min()), float(sizes.max())
        few = np.geomspace(low, high, _SIZES) if high > low * (1 + _ROUNDING) else np.array([low])
        table = self._levels_at(few)
        if len(few) == 1:
            return np.repeat(table, len(sizes), axis=0), weights
        place = np.log(sizes / low) / log(high / low) * (_SIZES - 1)
        left = np.minimum(place.astype(np.intp), _SIZES - 2)
        part = (place - left)[:, np.newaxis]
        return np.asarray(table[left] + part * (table[left + 1] - table[left])), weights

    def _levels_at(self, sizes_s: Floats) -> Floats:
        from scipy.special import gammainc, gammaincinv

        m = 1 / self.left_fraction(sizes_s)[:, np.newaxis]
        stretched = np.maximum(1 - self.alone_fraction**m, 1e-12)
        mean = (self.mean - 1) / stretched
        variance = np.maximum((self.variance / m + (self.mean - 1) ** 2) / stretched - mean**2, 1e-9 * mean**2)
        shape, scale = mean**2 / variance, variance / mean
        quantile = gammaincinv(shape, np.clip((_EDGES - (1 - stretched)) / stretched, 0.0, 1.0))
        below = stretched * shape * scale * np.where(np.isinf(quantile), 1.0, gammainc(shape + 1, quantile))
        return np.asarray(1 + np.diff(below, axis=1) / np.diff(_EDGES))


ALONE = TransferSlowdown(1.0, 0.0, 1.0, np.array([0.0, 1.0]), np.zeros(2), np.zeros(2))
"""Transfers that meet no other, or that cannot fill the link together."""
ENDLESS = TransferSlowdown(inf, inf, 0.0, np.array([0.0, 1.0]), np.zeros(2), np.zeros(2))
"""Transfers on a link without a steady state."""


def alone_s(service_s: Floats, link_s: Floats, n_layers: int) -> Floats:
    """Time of each transfer on an idle link from the beginning of its prefill on: the link's, or its layers' [s].

    Equation: D = max(s, p (n - 1) / n)

    >>> alone_s(np.array([1.0, 4.0]), np.array([2.0, 2.0]), 4).tolist()
    [2.0, 3.0]
    """
    return np.maximum(link_s, service_s * (n_layers - 1) / n_layers)


def link_stretch(senders: Sequence[Senders], n_layers: Sequence[int], arrival_scv: float = 1.0) -> TransferSlowdown:
    """Factor by which sharing stretches transfers that prefill instances feed to one link, as a distribution.

    Equation: a start meets N transfers, and goes max(1, (N + 1) / R) times as slowly, R = E[D] / E[s] the number that
        the link carries at full speed, D `alone_s`. N is of a chain with births k - 1 -> k over deaths
        x_k = f u R e_k / min(k, R): u the link's load, e_k the probability that fewer than all n instances feed k - 1
        transfers, each fed with probability w^3 R / k, w the share of a transfer's life that is prefill, and f
        such that E[min(N, R)] = u R; what a start meets is weighted by e_k^(1/n). Starts of squared variation a change
        odds, x -> z x / (1 + (z - 1) x), with z from GI/M/1 and heavy traffic, z = (a + c^2) / (1 + c^2).
        A longer transfer averages the factor; its correlation r(t) over the time attained is that of a wait before one
        server, P(W > (1 + (R - 1) (1 - u)) t | W > 0) for services D: with R = 1, Poisson starts and many instances all
        of this is M/G/1 processor sharing, with its exact mean and variance for every size.

    Args:
        senders: the pools that send.
        n_layers: layers by which each pool's transfers keep up with prefill [count].
        arrival_scv: squared coefficient of variation of the gaps between those requests [fraction], above 0.

    Returns:
        The stretch; none where all instances together cannot fill the link, endless where it has no steady state.

    Valid: max-min fair sharing; renewal arrivals; one transfer at a time fed by an instance. Errors of the time to
        first token in `tests/campaigns/latency_models.md`: a few per cent with Poisson arrivals, up to a third where
        bursts meet few, busy instances.

    Source: Yashkov (1983), Problems of Control and Information Theory 12; Ott (1984), J. Appl. Prob. 21, 360-378, for
        mean and variance of M/G/1 processor sharing by size; Cohen (1979), Acta Informatica 12, for R > 1; Whitt (1983)
        for the starts. The combination and its two exponents are this project's.

    >>> kinds = np.array([0.01]), np.array([1.0]), np.array([1.0])
    >>> found = link_stretch([Senders(50, 0.5, *kinds)], [60])
    >>> round(found.mean, 3), found.levels(np.array([1.0]))[0][0, [0, 8, 15]].round(2).tolist()
    (2.0, [1.0, 5.3, 11.07])
    """
    total = sum(s.req_per_s for s in senders)
    if total <= 0:
        return ALONE
    times = [alone_s(s.service_s, s.link_s, n) for s, n in zip(senders, n_layers, strict=True)]
    weights = np.concatenate([s.weights * s.req_per_s / total for s in senders])
    load = total * float(np.concatenate([s.link_s for s in senders]) @ weights)
    if load >= 1 - _ROUNDING or any(s.mean_busy >= s.n_instances for s in senders if s.req_per_s > 0):
        return ENDLESS
    fed = sum(s.most_at_once * (n - 1) / n if n > 1 else inf for s, n in zip(senders, n_layers, strict=True))
    if load <= 0 or fed <= 1 + _ROUNDING:
        return ALONE
    service = Service.of(np.concatenate(times), weights)
    smooth = sum(s.req_per_s * (s.smoothing + s.busy_fraction**2 * (arrival_scv - 1)) for s in senders)
    return _Sharing(
        load,
        service,
        service.mean_s * total / load,
        sum(s.n_instances for s in senders),
        min(sum(s.mean_busy for s in senders) / (total * service.mean_s), 1.0),
        max(arrival_scv - smooth / total, 0.02),
    ).stretch


@dataclass(frozen=True, eq=False)
class _Sharing:
    load: float
    service: Service
    n_full_speed: float
    n_instances: int
    fed_fraction: float
    start_scv: float

    @property
    def stretch(self) -> TransferSlowdown:
        weights = self._met
        factors = np.maximum(1.0, np.arange(1.0, len(weights) + 1) / self.n_full_speed)
        mean = float(factors @ weights)
        variance = float((factors - mean) ** 2 @ weights)
        alone = float(weights[factors <= 1 + _ROUNDING].sum())
        return TransferSlowdown(mean, variance, alone, *self._correlation)

    @property
    def _met(self) -> Floats:
        """Distribution of the number of other transfers that a start meets."""
        free = self._free
        odds = self._scale * self._offered * free
        z = self._burstiness
        rare, dense = z * odds / (1 + (z - 1) * np.minimum(odds, 1.0)), np.maximum(odds / z + 1 - 1 / z, 1.0)
        share = _chain(np.where(odds <= 1, rare, dense))
        seen = share * np.append(free, free[-1]) ** (1 / self.n_instances)
        return np.asarray(seen / seen.sum())

    @cached_property
    def _offered(self) -> Floats:
        """Births over deaths of Poisson starts at 1, 2, ... transfers, none of them held up."""
        tail = max(self._burstiness, 1.0) * self.load
        tail /= 1 - self.load + tail
        n = ceil(self.n_full_speed) + ceil(log(_TAIL) / log(tail)) + 2
        present = np.arange(1.0, min(n, _MOST_STATES))
        return np.asarray(self.load * self.n_full_speed / np.minimum(present, self.n_full_speed))

    @cached_property
    def _free(self) -> Floats:
        """Probability that an instance is free to start beside 0, 1, ... transfers."""
        from scipy.special import bdtr

        n, others = self.n_instances, np.arange(float(len(self._offered)))
        feeding = np.minimum(1.0, self.fed_fraction**_FEEDING_POWER * self.n_full_speed / (others + 1))
        found = bdtr(n - 1.0, np.maximum(others, n).astype(np.int64), feeding)
        return np.where(others < n, 1.0, np.maximum(found, 1e-9))

    @cached_property
    def _scale(self) -> float:
        """f: what is held up comes later, so that the link carries its load."""
        if self._free[-1] > 1 - 1e-6:
            return 1.0
        carried = np.minimum(np.arange(len(self._offered) + 1.0), self.n_full_speed)
        wanted, most = self.load * self.n_full_speed, 0.995 / (self.load * float(self._free[-1]))
        low, high = 1.0, max(most, 1.0)
        for _ in range(30):
            middle = (low + high) / 2
            is_less = float(_chain(middle * self._offered * self._free) @ carried) < wanted
            low, high = (middle, high) if is_less else (low, middle)
        return low

    @cached_property
    def _burstiness(self) -> float:
        """z: factor on the odds of meeting one more transfer."""
        a, scv = self.start_scv, self.service.scv
        if abs(a - 1) < 1e-3:
            return 1.0
        heavy = max((a + scv) / (1 + scv), 0.02)
        met = _gim1_root(self.load, a)
        alone = met / (1 - met) * (1 - self.load) / self.load
        apart = self._met_lightly / _met_exponentially(self.load, a)
        one = alone * (heavy * 2 / (1 + a)) ** self.load * apart ** (1 - self.load)
        return float((heavy * (one / heavy) ** (1 / self.n_full_speed)) ** _BURST_POWER)

    @property
    def _met_lightly(self) -> float:
        """P(gap < D), over that with Poisson starts, gaps being Gamma."""
        from scipy.special import gammainc

        seconds, weights = self.service.condensed
        gaps = self.load * seconds / self.service.mean_s
        return float(gammainc(1 / self.start_scv, gaps / self.start_scv) @ weights / (-np.expm1(-gaps) @ weights))

    @property
    def _correlation(self) -> tuple[Floats, Floats, Floats]:
        """Grid, and the integrals of r(t) and t r(t) up to it."""
        wait = gigc_wait(1, self.load / self.service.mean_s, self.service)
        speed = 1 + (self.n_full_speed - 1) * (1 - self.load)
        grid = np.linspace(0.0, float(self.service.seconds[-1]) * 1.01, _POINTS)
        r = wait.survival(grid * speed) / wait.waiting_fraction
        return grid, _integral(r, grid[1]), _integral(r * grid, grid[1])


def _chain(odds: Floats) -> Floats:
    """Shares of 0, 1, ... from births over deaths."""
    logs = np.append(0.0, np.cumsum(np.log(np.maximum(odds, 1e-300))))
    share = np.exp(logs - logs.max())
    return np.asarray(share / share.sum())


def _integral(values: Floats, step: float) -> Floats:
    return np.append(0.0, np.cumsum((values[1:] + values[:-1]) / 2)) * step


def _gim1_root(load: float, arrival_scv: float) -> float:
    """Share of starts that find one busy server in GI/M/1 with Gamma gaps: s = A*(1 - s), s < 1."""
    low, high = 0.0, 1 - 1e-9
    for _ in range(50):
        middle = (low + high) / 2
        is_below = exp(-np.log1p((1 - middle) * arrival_scv / load) / arrival_scv) > middle
        low, high = (middle, high) if is_below else (low, middle)
    return low


def _met_exponentially(load: float, arrival_scv: float) -> float:
    """P(gap < D) for exponential D, over that with Poisson starts."""
    return float(exp(-np.log1p(arrival_scv / load) / arrival_scv) * (1 + load) / load)
