"""The requests a planner decides about: how many are long, how much work and how many bytes they carry.

A request is long at threshold t when its uncached length U = total - cached exceeds t. Every method that takes
`threshold_tokens` is vectorised over it and returns its shape.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.curves import Curve, FloatArray, PrefillService
from planner.workload.distributions import Distribution, cdf, mean_tokens, weighted_quantile

ALL_LONG = -1.0
"""A threshold below every length."""


class RequestAtoms(NamedTuple):
    """Weighted requests; three arrays of one shape, the weights sum to 1."""

    total_tokens: FloatArray
    cached_tokens: FloatArray
    weights: FloatArray


class RequestMix(Protocol):
    """What the optimizer may ask about the requests of a workload."""

    @property
    def is_discrete(self) -> bool:
        """Whether only finitely many thresholds differ in effect."""

    @property
    def support(self) -> tuple[float, float]:
        """Least and greatest uncached length [tokens]."""

    @property
    def mean_total_tokens(self) -> float:
        """E[total] [tokens]."""

    @property
    def mean_uncached_tokens(self) -> float:
        """E[U] [tokens]."""

    @property
    def mean_output_tokens(self) -> float:
        """E[output] [tokens]."""

    @property
    def cached_fraction(self) -> float:
        """E[cached] / E[total], the share of prompt tokens found in the cache."""

    def longest_tokens(self, low_tokens: float = -np.inf, high_tokens: float = np.inf) -> float:
        """Longest prompt, cached prefix included, with low < U <= high [tokens]; 0 where there is none."""

    def held_thresholds(self, long_tokens: float, short_tokens: float) -> tuple[float, float]:
        """Least t under which no long prompt exceeds one length, and greatest under which no short one exceeds another.

        Lengths are whole prompts, cached prefix included; -1 and infinity where any t will do.
        """

    def long_fraction(self, threshold_tokens: ArrayLike) -> FloatArray:
        """P(U > t)."""

    def mean_long_length(self, threshold_tokens: ArrayLike) -> FloatArray:
        """E[U | U > t] [tokens]; nan where no request is long."""

    def mean_short_length(self, threshold_tokens: ArrayLike) -> FloatArray:
        """E[U | U <= t] [tokens]; nan where no request is short."""

    def long_work(self, service: PrefillService, threshold_tokens: ArrayLike, order: int = 1) -> FloatArray:
        """E[T^order; U > t] per request of the whole mix, with T the prefill seconds [s^order]."""

    def short_work(self, service: PrefillService, threshold_tokens: ArrayLike, order: int = 1) -> FloatArray:
        """E[T^order; U <= t] per request of the whole mix, with T the prefill seconds [s^order]."""

    def long_wire_bytes(
        self, kv_curve: Curve, threshold_tokens: ArrayLike, destination_holds_cached: bool
    ) -> FloatArray:
        """E[bytes on the cross-site wire; U > t] per request of the whole mix [bytes].

        A request's bytes are kv(total), less kv(cached) - kv(0) where the destination holds the cached blocks;
        kv(0), the recurrent state, always travels whole.
        """

    def threshold_grid(self, n: int) -> FloatArray:
        """About n ascending thresholds of equal probability between them, both ends of the support included."""

    def split_points(self, low_tokens: float, high_tokens: float, n: int) -> FloatArray:
        """At most n ascending thresholds strictly between low and high; none where none would differ."""

    def atoms(self, n: int) -> RequestAtoms:
        """Requests that represent the mix: its own where finite, else the n quantiles (i + 1/2) / n."""

    def long_atoms(self, threshold_tokens: float, n: int) -> RequestAtoms:
        """As `atoms`, of the long requests alone; the weights sum to `long_fraction`."""

    def short_atoms(self, threshold_tokens: float, n: int) -> RequestAtoms:
        """As `atoms`, of the short requests alone; the weights sum to 1 - `long_fraction`."""


@dataclass(frozen=True, eq=False)
class LengthMix:
    """Requests without cached tokens, so U = total; expectations of curves are exact.

    E[C(L); L > t] = sum of c_k E[L^k; max(low, t) < L <= high] over the powers k of each piece
    C(x) = sum_k c_k x^k, low < x <= high, of the curve.
    """

    lengths: Distribution
    mean_output_tokens: float

    cached_fraction = 0.0

    @property
    def is_discrete(self) -> bool:
        """Whether only finitely many thresholds differ in effect."""
        return self.lengths.is_discrete

    @property
    def support(self) -> tuple[float, float]:
        """Shortest and longest prompt [tokens]."""
        return self.lengths.support

    @cached_property
    def mean_total_tokens(self) -> float:
        """E[L] [tokens]."""
        return mean_tokens(self.lengths)

    @property
    def mean_uncached_tokens(self) -> float:
        """E[L] [tokens]."""
        return self.mean_total_tokens

    def longest_tokens(self, low_tokens: float = -np.inf, high_tokens: float = np.inf) -> float:
        """Longest prompt between two lengths [tokens]; 0 where there is none."""
        shortest, longest = self.support
        return min(high_tokens, longest) if low_tokens < longest and high_tokens >= shortest else 0.0

    def held_thresholds(self, long_tokens: float, short_tokens: float) -> tuple[float, float]:
        """Least and greatest threshold under which long and short prompts are no longer than that [tokens].

        >>> from planner.workload.distributions import LogNormal
        >>> LengthMix(LogNormal(9.90, 1.0, 128, 131072), 1024.0).held_thresholds(200_000, 6528)
        (-1.0, 6528)
        """
        shortest, longest = self.support
        least = ALL_LONG if longest <= long_tokens else longest
        return least, np.inf if longest <= short_tokens else short_tokens if short_tokens >= shortest else ALL_LONG

    def long_fraction(self, threshold_tokens: ArrayLike) -> FloatArray:
        """P(L > t)."""
        return self.lengths.partial_moment(0, threshold_tokens, np.inf)

    def mean_long_length(self, threshold_tokens: ArrayLike) -> FloatArray:
        """E[L | L > t] [tokens]; nan where no request is long.

        >>> from planner.workload.distributions import LogNormal
        >>> LengthMix(LogNormal(9.90, 1.0, 128, 131072), 1024.0).mean_long_length(19400).round().item()
        45046.0
        """
        return _ratio(self.lengths.partial_moment(1, threshold_tokens, np.inf), self.long_fraction(threshold_tokens))

    def mean_short_length(self, threshold_tokens: ArrayLike) -> FloatArray:
        """E[L | L <= t] [tokens]; nan where no request is short."""
        return _ratio(self.lengths.partial_moment(1, -np.inf, threshold_tokens), cdf(self.lengths, threshold_tokens))

    def long_work(self, service: PrefillService, threshold_tokens: ArrayLike, order: int = 1) -> FloatArray:
        """E[T(L)^order; L > t] [s^order]."""
        return self._above(service.curve, threshold_tokens, order)

    def short_work(self, service: PrefillService, threshold_tokens: ArrayLike, order: int = 1) -> FloatArray:
        """E[T(L)^order; L <= t] [s^order]."""
        return self._up_to(service.curve, threshold_tokens, order)

    def long_wire_bytes(
        self, kv_curve: Curve, threshold_tokens: ArrayLike, destination_holds_cached: bool
    ) -> FloatArray:
        """E[kv(L); L > t] [bytes]; nothing is cached, so nothing is held."""
        del destination_holds_cached
        return self._above(kv_curve, threshold_tokens)

    def threshold_grid(self, n: int) -> FloatArray:
        """Quantiles 0, 1/(n-1), ... 1 of L [tokens]."""
        return np.unique(self.lengths.quantile(np.linspace(0, 1, max(n, 2))))

    def split_points(self, low_tokens: float, high_tokens: float, n: int) -> FloatArray:
        """n evenly spaced thresholds between low and high, both clipped to the support [tokens]."""
        low, high = np.clip([low_tokens, high_tokens], *self.support)
        return np.linspace(low, high, n + 2)[1:-1] if low < high else np.empty(0)

    def atoms(self, n: int) -> RequestAtoms:
        """The quantiles (i + 1/2) / n of L, equally likely."""
        return self._atoms_between(0.0, 1.0, n)

    def long_atoms(self, threshold_tokens: float, n: int) -> RequestAtoms:
        """The quantiles (i + 1/2) / n of L given L > t, equally likely; none where no prompt is long.

        >>> from planner.workload.distributions import Histogram
        >>> mix = LengthMix(Histogram(np.array([0.0, 100.0]), np.ones(1)), 1.0)
        >>> mix.long_atoms(80.0, 2).total_tokens.round(6).tolist()
        [85.0, 95.0]
        """
        return self._atoms_between(1.0 - float(self.long_fraction(threshold_tokens)), 1.0, n)

    def short_atoms(self, threshold_tokens: float, n: int) -> RequestAtoms:
        """The quantiles (i + 1/2) / n of L given L <= t, equally likely; none where no prompt is short."""
        return self._atoms_between(0.0, float(cdf(self.lengths, threshold_tokens)), n)

    def _atoms_between(self, first: float, last: float, n: int) -> RequestAtoms:
        """Lengths between two probabilities, equally likely."""
        n = n if first < last else 0
        each = (last - first) / max(n, 1)
        total = self.lengths.quantile(first + each * (np.arange(n) + 0.5))
        return RequestAtoms(total, np.zeros(n), np.full(n, each))

    def _above(self, curve: Curve, tokens: ArrayLike, order: int = 1) -> FloatArray:
        """E[curve(L)^order; L > t]: of the piece that holds t what is above it, and all pieces above that."""
        at, (sums, coefficients) = np.asarray(tokens, dtype=np.float64), self._pieces(curve, order)
        piece = np.searchsorted(curve.knots, at, side="right")
        ends = np.append(curve.knots, np.inf)
        return self._within(coefficients[piece], at, ends[piece]) + sums.suffix[piece + 1]

    def _up_to(self, curve: Curve, tokens: ArrayLike, order: int = 1) -> FloatArray:
        """E[curve(L)^order; L <= t]."""
        at, (sums, coefficients) = np.asarray(tokens, dtype=np.float64), self._pieces(curve, order)
        piece = np.searchsorted(curve.knots, at, side="left")
        starts = np.insert(curve.knots, 0, -np.inf)
        return self._within(coefficients[piece], starts[piece], at) + sums.prefix[piece]

    def _within(self, coefficients: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """E[sum of c_k L^k; low < L <= high], the powers k along the last axis of the coefficients."""
        result = np.zeros(np.shape(low))
        for k in range(coefficients.shape[-1]):
            if coefficients[..., k].any():
                result += coefficients[..., k] * self.lengths.partial_moment(k, low, high)
        return result

    def _pieces(self, curve: Curve, order: int) -> "tuple[RunningSums, FloatArray]":
        """Sums over the pieces of a curve's power and their coefficients, remembered: thresholds share them."""
        if (curve, order) not in self._known_pieces:
            powers = np.array([_power(piece.coefficients, order) for piece in curve.pieces()])
            bounds = np.concatenate([[-np.inf], curve.knots, [np.inf]])
            whole = self._within(powers, bounds[:-1], bounds[1:])
            self._known_pieces[curve, order] = _running_sums(whole), powers
        return self._known_pieces[curve, order]

    @cached_property
    def _known_pieces(self) -> "dict[tuple[Curve, int], tuple[RunningSums, FloatArray]]":
        return {}


@dataclass(frozen=True, eq=False)
class AtomMix:
    """Finitely many weighted requests; every answer is an exact sum over them.

    Args of `of`: arrays of one shape (n,); weights of any positive sum,
    requests of weight 0 are left out.
    """

    total_tokens: FloatArray
    """Prompt lengths in ascending order of uncached length [tokens]."""

    cached_tokens: FloatArray
    """Cached prefix of each [tokens]."""

    weights: FloatArray
    """Probability of each."""

    mean_output_tokens: float

    most_tokens: FloatArray
    """Longest of the prompts that each stands for; where it stands for itself, its own length [tokens]."""

    is_discrete = True

    @classmethod
    def of(
        cls,
        total_tokens: ArrayLike,
        cached_tokens: ArrayLike = 0.0,
        weights: ArrayLike = 1.0,
        mean_output_tokens: float = 1.0,
        most_tokens: ArrayLike | None = None,
    ) -> "AtomMix":
        """Requests in any order; the other arrays broadcast to the shape of `total_tokens`.

        >>> mix = AtomMix.of([100, 50, 80], [0, 0, 60])
        >>> mix.long_fraction([0, 20, 50]).round(3).tolist(), mix.mean_long_length(20).item()
        ([1.0, 0.667, 0.333], 75.0)
        """
        total = np.asarray(total_tokens, dtype=np.float64)
        cached, weight = (
            np.broadcast_to(np.asarray(x, dtype=np.float64), total.shape) for x in (cached_tokens, weights)
        )
        if not (weight > 0).any() or (weight < 0).any() or not ((cached >= 0) & (cached <= total)).all():
            raise ValueError("requests need a positive weight and 0 <= cached <= total")
        order = np.argsort(total - cached, kind="stable")
        order = order[weight[order] > 0]
        most = total if most_tokens is None else np.broadcast_to(np.asarray(most_tokens, dtype=np.float64), total.shape)
        return cls(total[order], cached[order], weight[order] / weight.sum(), mean_output_tokens, most[order])

    @property
    def support(self) -> tuple[float, float]:
        """Least and greatest uncached length [tokens]."""
        return float(self._uncached[0]), float(self._uncached[-1])

    @cached_property
    def mean_total_tokens(self) -> float:
        """E[total] [tokens]."""
        return float(self.weights @ self.total_tokens)

    @cached_property
    def mean_uncached_tokens(self) -> float:
        """E[U] [tokens]."""
        return float(self.weights @ self._uncached)

    @property
    def cached_fraction(self) -> float:
        """E[cached] / E[total]."""
        return float(self.weights @ self.cached_tokens) / self.mean_total_tokens

    def longest_tokens(self, low_tokens: float = -np.inf, high_tokens: float = np.inf) -> float:
        """Longest prompt with low < U <= high [tokens]; 0 where there is none."""
        first, end = self._n_short([low_tokens, high_tokens])
        return float(self.most_tokens[first:end].max(initial=0.0))

    def held_thresholds(self, long_tokens: float, short_tokens: float) -> tuple[float, float]:
        """Least and greatest threshold under which long and short prompts are no longer than that [tokens].

        >>> AtomMix.of([100, 500, 900], [0, 450, 0]).held_thresholds(1000, 200)
        (-1.0, -1.0)
        """
        too_long = np.flatnonzero(self.most_tokens > long_tokens)
        least = float(self._uncached[too_long[-1]]) if too_long.size else ALL_LONG
        too_short = np.flatnonzero(self.most_tokens > short_tokens)
        if not too_short.size:
            return least, np.inf
        n_below = int(np.searchsorted(self._uncached, self._uncached[too_short[0]]))
        return least, float(self._uncached[n_below - 1]) if n_below else ALL_LONG

    def long_fraction(self, threshold_tokens: ArrayLike) -> FloatArray:
        """P(U > t)."""
        return self._long(np.ones_like(self.weights), threshold_tokens)

    def mean_long_length(self, threshold_tokens: ArrayLike) -> FloatArray:
        """E[U | U > t] [tokens]; nan where no request is long."""
        return _ratio(self._long(self._uncached, threshold_tokens), self.long_fraction(threshold_tokens))

    def mean_short_length(self, threshold_tokens: ArrayLike) -> FloatArray:
        """E[U | U <= t] [tokens]; nan where no request is short."""
        short_fraction = self._short(np.ones_like(self.weights), threshold_tokens)
        return _ratio(self._short(self._uncached, threshold_tokens), short_fraction)

    def long_work(self, service: PrefillService, threshold_tokens: ArrayLike, order: int = 1) -> FloatArray:
        """E[T^order; U > t] [s^order]."""
        return np.asarray(self._sums(service, order).suffix[self._n_short(threshold_tokens)])

    def short_work(self, service: PrefillService, threshold_tokens: ArrayLike, order: int = 1) -> FloatArray:
        """E[T^order; U <= t] [s^order]."""
        return np.asarray(self._sums(service, order).prefix[self._n_short(threshold_tokens)])

    def long_wire_bytes(
        self, kv_curve: Curve, threshold_tokens: ArrayLike, destination_holds_cached: bool
    ) -> FloatArray:
        """E[kv(total) - held; U > t] [bytes], held = kv(cached) - kv(0) at a destination that has the blocks."""
        size = kv_curve(self.total_tokens)
        held = kv_curve(self.cached_tokens) - kv_curve(0.0) if destination_holds_cached else 0.0
        return self._long(size - held, threshold_tokens)

    def threshold_grid(self, n: int) -> FloatArray:
        """Uncached lengths that occur, at the quantiles 0, 1/(n-1), ... 1 [tokens]."""
        return np.unique(weighted_quantile(self._uncached, self.weights, np.linspace(0, 1, max(n, 2))))

    def split_points(self, low_tokens: float, high_tokens: float, n: int) -> FloatArray:
        """Uncached lengths that occur strictly between low and high, thinned evenly to n [tokens]."""
        values = np.unique(self._uncached)
        values = values[(values > low_tokens) & (values < high_tokens)]
        return values if values.size <= n else values[np.linspace(0, values.size - 1, n).astype(np.intp)]

    def atoms(self, n: int) -> RequestAtoms:
        """The requests themselves, whatever n."""
        del n
        return RequestAtoms(self.total_tokens, self.cached_tokens, self.weights)

    def long_atoms(self, threshold_tokens: float, n: int) -> RequestAtoms:
        """The long requests themselves, whatever n."""
        del n
        first = int(self._n_short(threshold_tokens))
        return RequestAtoms(self.total_tokens[first:], self.cached_tokens[first:], self.weights[first:])

    def short_atoms(self, threshold_tokens: float, n: int) -> RequestAtoms:
        """The short requests themselves, whatever n."""
        del n
        end = int(self._n_short(threshold_tokens))
        return RequestAtoms(self.total_tokens[:end], self.cached_tokens[:end], self.weights[:end])

    @cached_property
    def _uncached(self) -> FloatArray:
        return self.total_tokens - self.cached_tokens

    def _long(self, values: FloatArray, threshold_tokens: ArrayLike) -> FloatArray:
        """E[value; U > t]."""
        return np.asarray(_running_sums(self.weights * values).suffix[self._n_short(threshold_tokens)])

    def _short(self, values: FloatArray, threshold_tokens: ArrayLike) -> FloatArray:
        """E[value; U <= t]."""
        return np.asarray(_running_sums(self.weights * values).prefix[self._n_short(threshold_tokens)])

    def _sums(self, service: PrefillService, order: int) -> "RunningSums":
        """Sums of T^order, remembered: an optimizer asks for the same service at many thresholds."""
        known = self._known_sums
        if (service, order) not in known:
            seconds = service.seconds(self.total_tokens, self.cached_tokens)
            known[service, order] = _running_sums(self.weights * seconds**order)
        return known[service, order]

    @cached_property
    def _known_sums(self) -> "dict[tuple[PrefillService, int], RunningSums]":
        return {}

    def _n_short(self, threshold_tokens: ArrayLike) -> NDArray[np.intp]:
        return np.asarray(np.searchsorted(self._uncached, np.asarray(threshold_tokens), side="right"))


class RunningSums(NamedTuple):
    """Sums over the requests, or pieces, below and from each position on; one more entry than these."""

    prefix: FloatArray
    suffix: FloatArray


def _running_sums(terms: FloatArray) -> RunningSums:
    # The suffix is summed from the longest request down, so that rare long requests keep their digits.
    suffix = np.concatenate([np.cumsum(terms[::-1])[::-1], [0.0]])
    return RunningSums(np.concatenate([[0.0], np.cumsum(terms)]), suffix)


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """numerator / denominator, nan where the denominator is 0."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(denominator > 0, numerator, np.nan) / np.where(denominator > 0, denominator, 1.0))


def _power(coefficients: FloatArray, order: int) -> FloatArray:
    """Coefficients of a polynomial raised to a power."""
    power = np.ones(1)
    for _ in range(order):
        power = np.convolve(power, coefficients)
    return power
