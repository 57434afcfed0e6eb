"""Requests one by one, as a trace has them: sums over the sorted lengths answer every threshold."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.curves import Curve, FloatArray, PrefillService
from planner.workload.distributions import weighted_quantile
from planner.workload.mix import ALL_LONG, OutputAtoms, RequestAtoms
from planner.workload.sums import RunningSums, ratio, running_sums


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
    outputs: OutputAtoms | None = None
    """Output lengths; None where no more than their mean is known."""

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
        return ratio(self._long(self._uncached, threshold_tokens), self.long_fraction(threshold_tokens))

    def mean_short_length(self, threshold_tokens: ArrayLike) -> FloatArray:
        """E[U | U <= t] [tokens]; nan where no request is short."""
        short_fraction = self._short(np.ones_like(self.weights), threshold_tokens)
        return ratio(self._short(self._uncached, threshold_tokens), short_fraction)

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
        return np.asarray(running_sums(self.weights * values).suffix[self._n_short(threshold_tokens)])

    def _short(self, values: FloatArray, threshold_tokens: ArrayLike) -> FloatArray:
        """E[value; U <= t]."""
        return np.asarray(running_sums(self.weights * values).prefix[self._n_short(threshold_tokens)])

    def _sums(self, service: PrefillService, order: int) -> RunningSums:
        """Sums of T^order, remembered: an optimizer asks for the same service at many thresholds."""
        known = self._known_sums
        if (service, order) not in known:
            seconds = service.seconds(self.total_tokens, self.cached_tokens)
            known[service, order] = running_sums(self.weights * seconds**order)
        return known[service, order]

    @cached_property
    def _known_sums(self) -> dict[tuple[PrefillService, int], RunningSums]:
        return {}

    def _n_short(self, threshold_tokens: ArrayLike) -> NDArray[np.intp]:
        return np.asarray(np.searchsorted(self._uncached, np.asarray(threshold_tokens), side="right"))
