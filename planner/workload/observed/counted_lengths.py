"""Lengths counted in buckets, with how far the buckets may be off."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import numpy as np
from numpy.typing import NDArray

MOST_ATOMS = 32
"""Different lengths up to which each is kept as it is."""
BUCKETS_PER_DOUBLING = 16
MOST_DOUBLINGS = 30
"""Up to 1e9 tokens."""
SHORTEST = 1.0
BEYOND = 2.0
"""How much longer than the last stated edge prompts of an open bucket may be, where their sum does not tell."""


@dataclass(frozen=True)
class CountedLengths:
    """Number of requests by length: of each kept length, or of each bucket, evenly spread inside."""

    edges: tuple[float, ...]
    """Ends of the buckets, one more than weights [tokens]; of kept lengths, these themselves."""
    weights: tuple[float, ...]
    recorded_mean: float | None
    """Mean by the sum of all lengths, where that is known [tokens]."""

    @property
    def is_exact(self) -> bool:
        """True if every length is kept as it is."""
        return len(self.edges) == len(self.weights)

    @property
    def mean(self) -> float:
        """Mean of the buckets [tokens]."""
        edges, weights = np.array(self.edges), np.array(self.weights)
        centres = edges if self.is_exact else (edges[1:] + edges[:-1]) / 2
        return float(centres @ weights / weights.sum())

    @property
    def mean_error(self) -> float | None:
        """Mean of the buckets over the recorded one, less one [-]; None where that is not known."""
        return None if not self.recorded_mean else self.mean / self.recorded_mean - 1

    @property
    def widest_fraction(self) -> float:
        """Width over middle of the widest bucket that holds several lengths: twice the most that one is off [-]."""
        if self.is_exact:
            return 0.0
        pairs = zip(pairwise(self.edges), self.weights, strict=True)
        wide = (2 * (high - low) / (high + low) for (low, high), weight in pairs if weight and high - low > 1)
        return max(wide, default=0.0)

    @property
    def longest(self) -> float:
        """Longest length there may be [tokens]."""
        return max(edge for edge, weight in zip(self.edges[-len(self.weights) :], self.weights, strict=True) if weight)

    def quantile(self, fraction: float) -> float:
        """Length that so many of the requests do not exceed, linear inside a bucket, as `histogram_quantile` has it."""
        return quantile(self.edges, self.weights, fraction)

    @classmethod
    def of_cumulative(cls, ends: Sequence[float], counts: Sequence[float], total: float | None) -> "CountedLengths":
        """Lengths of a histogram as Prometheus has it: cumulative counts up to each end, the last of which is open.

        Args:
            ends: upper ends, ascending, the last infinite [tokens].
            total: sum of all lengths; None where it is not known [tokens].
        """
        weights = np.diff(np.array([0.0, *counts])).clip(min=0.0)
        n = weights.sum()
        edges, kept, below = [SHORTEST], [], 0.0
        for end, weight in zip(ends[:-1], weights[:-1], strict=True):
            if end <= edges[-1]:
                below += weight  # of requests with one token at most, which the next bucket takes in
                continue
            edges.append(float(end))
            kept.append(float(weight + below))
            below = 0.0
        if weights[-1] + below > 0 or not kept:
            known = sum((a + b) / 2 * w for (a, b), w in zip(pairwise(edges), kept, strict=True))
            open_mean = None if total is None else (total - known) / (weights[-1] + below)
            last = edges[-1]
            edges.append(max(2 * open_mean - last, last * 1.01) if open_mean and open_mean > last else BEYOND * last)
            kept.append(float(weights[-1] + below))
        while len(kept) > 1 and kept[-1] == 0:
            kept.pop()
            edges.pop()
        while len(kept) > 1 and kept[0] == 0:
            kept.pop(0)
            edges.pop(0)
        return cls(tuple(edges), tuple(kept), None if total is None or not n else float(total / n))


def quantile(edges: Sequence[float], weights: Sequence[float], fraction: float) -> float:
    """Value that a fraction of what is counted does not exceed; of kept values, or linear inside buckets.

    >>> quantile((0.0, 1.0, 2.0), (1.0, 1.0), 0.75), quantile((5.0, 7.0), (3.0, 1.0), 0.9)
    (1.5, 7.0)
    """
    sums = np.cumsum(weights)
    k = int(np.searchsorted(sums, fraction * sums[-1]))
    k = min(k, len(weights) - 1)
    if len(edges) == len(weights):
        return float(edges[k])
    before = float(sums[k] - weights[k])
    part = (fraction * float(sums[-1]) - before) / weights[k] if weights[k] else 0.0
    low, high = edges[k], edges[k + 1]
    return float(high if high == inf else low + part * (high - low))


class LengthCounter:
    """Counts lengths as they come, in memory that does not grow with their number."""

    def __init__(self) -> None:
        steps = np.arange(BUCKETS_PER_DOUBLING * MOST_DOUBLINGS + 1) / BUCKETS_PER_DOUBLING
        # Between whole numbers, so that whole lengths spread evenly over a bucket have the mean of its middle.
        self._edges = np.unique(np.floor(2.0**steps)) + 0.5
        self._counts = np.zeros(self._edges.size, dtype=np.int64)
        self._atoms: Counter[int] | None = Counter()
        self._n, self._total = 0, 0.0

    def add(self, tokens: NDArray[np.int64]) -> None:
        """Count some."""
        self._n += tokens.size
        self._total += float(tokens.sum())
        places = np.searchsorted(self._edges, tokens)
        self._counts += np.bincount(places, minlength=self._counts.size)
        if self._atoms is not None:
            values, counts = np.unique(tokens, return_counts=True)
            for value, count in zip(values.tolist(), counts.tolist(), strict=True):
                self._atoms[value] += count
            if len(self._atoms) > MOST_ATOMS:
                self._atoms = None

    def found(self) -> CountedLengths:
        """Counted lengths: each one where there are few, else buckets from the first to the last that hold any."""
        mean = self._total / self._n
        if self._atoms is not None:
            pairs = sorted(self._atoms.items())
            return CountedLengths(tuple(float(n) for n, _ in pairs), tuple(float(k) for _, k in pairs), mean)
        held = np.flatnonzero(self._counts)
        first, last = int(held[0]), int(held[-1])
        edges = np.concatenate([[SHORTEST], self._edges])[first : last + 2]
        return CountedLengths(tuple(edges.tolist()), tuple(self._counts[first : last + 1].astype(float).tolist()), mean)
