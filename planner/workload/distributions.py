"""Moments, probabilities and quantiles of length distributions, in closed form."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, log
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from planner.curves import FloatArray
from planner.workload.lengths import (
    ConstantLengths,
    EmpiricalLengths,
    HistogramLengths,
    Lengths,
    LogNormalLengths,
    MixtureLengths,
)
from planner.workload.normal import log_ndtr, ndtri_exp

AT_ONCE = 32_768
"""Quantiles that are worked out together."""


class Distribution(Protocol):
    """A distribution of lengths [tokens]; every method is vectorised and keeps the shape of its arguments."""

    @property
    def is_discrete(self) -> bool:
        """True if all probability sits on finitely many lengths."""

    @property
    def support(self) -> tuple[float, float]:
        """Shortest and longest length [tokens]."""

    def partial_moment(self, order: int, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """E[L^order; low < L <= high] [tokens^order], for an order of 0 or more."""

    def quantile(self, q: ArrayLike) -> FloatArray:
        """The least length whose cumulative probability reaches q [tokens]."""


@dataclass(frozen=True)
class LogNormal:
    """Log-normal lengths truncated to [low_tokens, high_tokens]."""

    mu: float
    sigma: float
    low_tokens: float
    high_tokens: float

    is_discrete = False

    @property
    def support(self) -> tuple[float, float]:
        """Shortest and longest length [tokens]."""
        return self.low_tokens, self.high_tokens

    def partial_moment(self, order: int, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """E[L^k; low < L <= high] = exp(k mu + (k sigma)^2 / 2) [Phi(b - k sigma) - Phi(a - k sigma)] / Z.

        a, b: standardised logarithms of the limits clipped to the support; Z = Phi(b) - Phi(a) over the support.
        Differences of Phi are taken in logarithms on the side of the smaller tail: no cancellation, no overflow.

        Source: Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions 1 (1994), ch. 14 (partial
        moments of the log-normal).

        >>> LogNormal(9.90, 1.0, 128, 131072).partial_moment(0, [19400, 0], [np.inf, 19400]).round(4).tolist()
        [0.4957, 0.5043]
        """
        shift = order * self.sigma
        mass = _log_normal_mass(self._standard(low) - shift, self._standard(high) - shift)
        return np.exp(order * self.mu + shift**2 / 2 + mass - self._log_norm)

    def quantile(self, q: ArrayLike) -> FloatArray:
        """exp(mu + sigma Phi^-1(Phi(a) + q Z)), in logarithms from the nearer tail [tokens]."""
        q = np.asarray(q, dtype=np.float64)
        if q.size > AT_ONCE:  # what is worked out on the way then stays in the processor's cache
            parts = np.array_split(q.ravel(), -(-q.size // AT_ONCE))
            return np.concatenate([self.quantile(part) for part in parts]).reshape(q.shape)
        a, b = self._limits
        if a + b > 0:
            z = -ndtri_exp(_log_between(-b, 1 - q, self._log_norm))
        else:
            z = ndtri_exp(_log_between(a, q, self._log_norm))
        return np.clip(np.exp(self.mu + self.sigma * z), self.low_tokens, self.high_tokens)

    def _standard(self, tokens: ArrayLike) -> FloatArray:
        """(ln(tokens) - mu) / sigma, of tokens clipped to the support."""
        within = np.minimum(np.maximum(tokens, self.low_tokens), self.high_tokens)  # faster than clip
        return np.asarray((np.log(within) - self.mu) / self.sigma)

    @cached_property
    def _limits(self) -> tuple[float, float]:
        return (log(self.low_tokens) - self.mu) / self.sigma, (log(self.high_tokens) - self.mu) / self.sigma

    @cached_property
    def _log_norm(self) -> float:
        """ln Z."""
        return float(_log_normal_mass(*self._limits))


@dataclass(frozen=True, eq=False)
class Atoms:
    """Finitely many lengths with their weights, in any order and of any sum."""

    tokens: FloatArray
    weights: FloatArray

    is_discrete = True

    @property
    def support(self) -> tuple[float, float]:
        """Shortest and longest length [tokens]."""
        return float(self.tokens.min()), float(self.tokens.max())

    def partial_moment(self, order: int, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Sum of weight * length^order over low < length <= high, by cumulative sums.

        >>> two = Atoms(np.array([10.0, 30.0]), np.array([3.0, 1.0]))
        >>> two.partial_moment(1, 0, np.inf).item(), two.partial_moment(0, 10, 30).item()
        (15.0, 0.25)
        """
        tokens, weights = self._sorted
        total = np.concatenate([[0.0], np.cumsum(weights * tokens**order)])
        first, last = (np.searchsorted(tokens, np.asarray(x), side="right") for x in (low, high))
        return np.asarray(total[np.maximum(first, last)] - total[first])

    def quantile(self, q: ArrayLike) -> FloatArray:
        """The least length whose cumulative weight reaches q [tokens]."""
        return weighted_quantile(self.tokens, self.weights, q)

    @cached_property
    def _sorted(self) -> tuple[FloatArray, FloatArray]:
        order = np.argsort(self.tokens, kind="stable")
        return self.tokens[order], self.weights[order] / self.weights.sum()


@dataclass(frozen=True, eq=False)
class Histogram:
    """Lengths spread evenly inside buckets; edges ascend, and the first and the last bucket are not empty."""

    edges: FloatArray
    weights: FloatArray

    is_discrete = False

    @property
    def support(self) -> tuple[float, float]:
        """Beginning of the first bucket and end of the last [tokens]."""
        return float(self.edges[0]), float(self.edges[-1])

    def partial_moment(self, order: int, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Sum over buckets of density * (b^(order + 1) - a^(order + 1)) / (order + 1), a to b the part in the range.

        >>> Histogram(np.array([1.0, 11.0, 31.0]), np.array([1.0, 3.0])).partial_moment(0, 1, [6, 21]).tolist()
        [0.125, 0.625]
        """
        first, last = self.edges[:-1], self.edges[1:]
        a, b = (np.clip(np.asarray(x, dtype=np.float64)[..., np.newaxis], first, last) for x in (low, high))
        a, b = np.broadcast_arrays(a, np.maximum(a, b))
        density = self.weights / self.weights.sum() / (last - first)
        # b^n - a^n = (b - a)(b^(n-1) + ... + a^(n-1)): short ranges keep their digits.
        powers = sum(b ** (order - i) * a**i for i in range(order + 1))
        return np.asarray((density * (b - a) * powers).sum(axis=-1) / (order + 1))

    def quantile(self, q: ArrayLike) -> FloatArray:
        """The inverse of the cumulative probability, linear inside a bucket [tokens]."""
        reached = np.concatenate([[0.0], np.cumsum(self.weights)]) / self.weights.sum()
        q = np.minimum(np.asarray(q, dtype=np.float64), reached[-1])
        bucket = np.clip(np.searchsorted(reached, q, side="left") - 1, 0, self.weights.size - 1)
        inside = (q - reached[bucket]) / (reached[bucket + 1] - reached[bucket])
        return np.asarray(self.edges[bucket] + inside * (self.edges[bucket + 1] - self.edges[bucket]))


@dataclass(frozen=True, eq=False)
class Mixture:
    """Several distributions, each with its probability."""

    weights: FloatArray
    components: tuple[Distribution, ...]

    is_discrete = False

    @property
    def support(self) -> tuple[float, float]:
        """Shortest and longest length of any component [tokens]."""
        lows, highs = zip(*(c.support for c in self.components), strict=True)
        return min(lows), max(highs)

    def partial_moment(self, order: int, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Weighted sum of the components' partial moments."""
        moments = [c.partial_moment(order, low, high) for c in self.components]
        return np.asarray(sum(w * m for w, m in zip(self.weights, moments, strict=True)))

    def quantile(self, q: ArrayLike) -> FloatArray:
        """The inverse of the cumulative probability, by bisection to the last bit [tokens]."""
        q = np.minimum(q, cdf(self, self.support[1]))
        low, high = (np.full(q.shape, end) for end in self.support)
        for _ in range(64):
            middle = low + (high - low) / 2
            reached = cdf(self, middle) >= q
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return np.where(q <= cdf(self, self.support[0]), self.support[0], high)


def distribution(lengths: Lengths) -> Distribution:
    """The mathematics of a length specification; a mixture of discrete lengths is discrete."""
    match lengths:
        case LogNormalLengths():
            return LogNormal(lengths.mu, lengths.sigma, lengths.low_tokens, lengths.high_tokens)
        case ConstantLengths():
            return Atoms(np.array([lengths.tokens]), np.ones(1))
        case EmpiricalLengths():
            weights = lengths.weights or (1.0,) * len(lengths.tokens)
            return Atoms(np.array(lengths.tokens), np.array(weights))
        case HistogramLengths():
            held = np.flatnonzero(lengths.weights)
            buckets = slice(held[0], held[-1] + 1)
            return Histogram(np.array(lengths.edges)[held[0] : held[-1] + 2], np.array(lengths.weights)[buckets])
        case MixtureLengths():
            weights = tuple(c.weight for c in lengths.components)
            return _mixture(weights, [distribution(c.lengths) for c in lengths.components])


def cdf(lengths: Distribution, tokens: ArrayLike) -> FloatArray:
    """P(L <= tokens); same shape as `tokens`.

    >>> cdf(LogNormal(9.90, 1.0, 128, 131072), 19400).round(4).item()
    0.5043
    """
    return lengths.partial_moment(0, -inf, tokens)


def mean_tokens(lengths: Distribution) -> float:
    """E[L] [tokens].

    >>> round(mean_tokens(LogNormal(9.90, 1.0, 128, 131072)))
    27486
    """
    return float(lengths.partial_moment(1, -inf, inf))


def weighted_quantile(values: ArrayLike, weights: ArrayLike, q: ArrayLike) -> FloatArray:
    """The least value whose cumulative weight reaches the fraction q of all weight; the shape of q.

    No interpolation: the answer is always one of the values. Values of weight 0 are never the answer.

    >>> weighted_quantile([30.0, 10.0, 20.0], [1, 1, 2], [0.0, 0.25, 0.5, 0.9]).tolist()
    [10.0, 10.0, 20.0, 30.0]
    """
    values, weights = np.asarray(values, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    values, weights = values[weights > 0], weights[weights > 0]
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    tolerance = 1e-12 * reached[-1]
    index = np.searchsorted(reached, np.asarray(q) * reached[-1] - tolerance)
    return np.asarray(values[order][np.minimum(index, values.size - 1)])


def _mixture(weights: Sequence[float], components: Sequence[Distribution]) -> Distribution:
    shares = np.array(weights) / sum(weights)
    atoms = [c for c in components if isinstance(c, Atoms)]
    if len(atoms) < len(components):
        return Mixture(shares, tuple(components))
    tokens, inner = zip(*(a._sorted for a in atoms), strict=True)
    return Atoms(np.concatenate(tokens), np.concatenate([s * w for s, w in zip(shares, inner, strict=True)]))


def _log_normal_mass(a: ArrayLike, b: ArrayLike) -> FloatArray:
    """ln(Phi(b) - Phi(a)), -inf where b <= a; the pair is mirrored into the lower tail where it lies above 0."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    mirrored = a + b > 0
    upper, lower = log_ndtr(np.array([np.where(mirrored, -a, b), np.where(mirrored, -b, a)]))
    with np.errstate(divide="ignore"):
        return np.where(b > a, upper + np.log(-np.expm1(np.minimum(lower - upper, 0.0))), -inf)


def _log_between(a: float, q: FloatArray, log_norm: float) -> FloatArray:
    """ln(Phi(a) + q exp(log_norm))."""
    with np.errstate(divide="ignore"):
        return np.logaddexp(log_ndtr(a), np.log(q) + log_norm)
