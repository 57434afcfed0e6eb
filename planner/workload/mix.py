"""The requests a planner decides about: how many are long, how much work and how many bytes they carry.

A request is long at threshold t when its uncached length U = total - cached exceeds t. Every method that takes
`threshold_tokens` is vectorised over it and returns its shape.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from planner.curves import Curve, FloatArray, PrefillService

ALL_LONG = -1.0
"""A threshold below every length."""


class RequestAtoms(NamedTuple):
    """Weighted requests; three arrays of one shape, the weights sum to 1."""

    total_tokens: FloatArray
    cached_tokens: FloatArray
    weights: FloatArray


class OutputAtoms(NamedTuple):
    """Output lengths that represent all: two arrays of one shape."""

    tokens: FloatArray
    """Lengths [tokens]."""
    weights: FloatArray
    """Probability of each, sum 1."""


class RequestMix(Protocol):
    """Mix of a workload's requests, as far as the optimizer may ask about it."""

    @property
    def is_discrete(self) -> bool:
        """True if only finitely many thresholds differ in effect."""

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
    def outputs(self) -> "OutputAtoms | None":
        """Output lengths; None where no more than their mean is known."""

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
