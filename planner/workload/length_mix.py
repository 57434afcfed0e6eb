"""Requests whose uncached lengths have a distribution: moments in closed form, piece by piece of a curve."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from planner.curves import Curve, FloatArray, PrefillService
from planner.workload.distributions import Distribution, cdf, mean_tokens
from planner.workload.mix import ALL_LONG, OutputAtoms, RequestAtoms
from planner.workload.sums import RunningSums, power, ratio, running_sums


@dataclass(frozen=True, eq=False)
class LengthMix:
    """Requests without cached tokens, so U = total; expectations of curves are exact.

    E[C(L); L > t] = sum of c_k E[L^k; max(low, t) < L <= high] over the powers k of each piece
    C(x) = sum_k c_k x^k, low < x <= high, of the curve.
    """

    lengths: Distribution
    mean_output_tokens: float
    outputs: OutputAtoms | None = None
    """Output lengths; None where no more than their mean is known."""

    cached_fraction = 0.0

    @property
    def is_discrete(self) -> bool:
        """True if only finitely many thresholds differ in effect."""
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
        return ratio(self.lengths.partial_moment(1, threshold_tokens, np.inf), self.long_fraction(threshold_tokens))

    def mean_short_length(self, threshold_tokens: ArrayLike) -> FloatArray:
        """E[L | L <= t] [tokens]; nan where no request is short."""
        return ratio(self.lengths.partial_moment(1, -np.inf, threshold_tokens), cdf(self.lengths, threshold_tokens))

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
        if n not in self._known_atoms:
            self._known_atoms[n] = self._atoms_between(0.0, 1.0, n)
        return self._known_atoms[n]

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

    def _pieces(self, curve: Curve, order: int) -> tuple[RunningSums, FloatArray]:
        """Sums over the pieces of a curve's power and their coefficients, remembered: thresholds share them."""
        if (curve, order) not in self._known_pieces:
            powers = np.array([power(piece.coefficients, order) for piece in curve.pieces()])
            bounds = np.concatenate([[-np.inf], curve.knots, [np.inf]])
            whole = self._within(powers, bounds[:-1], bounds[1:])
            self._known_pieces[curve, order] = running_sums(whole), powers
        return self._known_pieces[curve, order]

    @cached_property
    def _known_atoms(self) -> dict[int, RequestAtoms]:
        """Those of all requests by their number: most questions about a mix begin with them."""
        return {}

    @cached_property
    def _known_pieces(self) -> dict[tuple[Curve, int], tuple[RunningSums, FloatArray]]:
        return {}
