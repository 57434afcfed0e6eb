"""Latencies counted as they come, in buckets two per cent wide."""

from collections.abc import Iterator

import numpy as np

from planner.curves import FloatArray
from planner.errors import InputError, InputProblem
from planner.units import number
from planner.workload.observed.counted_lengths import quantile

LEAST_S, MOST_S = 1e-6, 1e6
LIKELY_S = {"ttft": (1e-4, 600.0), "tpot": (1e-4, 5.0)}
"""Mean latencies that serving has: outside of them their unit is another."""
BUCKETS = 1400
"""Each 2 % wider than the one before."""


class LatencyCounter:
    """Counts seconds in memory that does not grow with their number."""

    def __init__(self) -> None:
        self._edges = np.geomspace(LEAST_S, MOST_S, BUCKETS)
        self._counts = np.zeros(BUCKETS - 1)
        self._n, self._total_s = 0, 0.0

    def add(self, latency_s: FloatArray) -> None:
        """Count some."""
        self._n += latency_s.size
        self._total_s += float(latency_s.sum())
        self._counts += np.histogram(latency_s.clip(LEAST_S, MOST_S), self._edges)[0]

    def check(self, name: str, key: str, figure: str) -> None:
        """Raises InputError where the mean is one that no serving has: the unit is another."""
        low, high = LIKELY_S[figure]
        if self._n and not low <= (mean := self._total_s / self._n) <= high:
            what = f"has a mean of {number(mean)} s"
            allowed = f"{low:g} to {high:g} s; {figure}_s=... for seconds, {figure}_ms=... for milliseconds"
            raise InputError(InputProblem(name, key, what, allowed))

    def named(self, figure: str, percentiles: tuple[int, ...]) -> Iterator[tuple[str, float]]:
        """Mean and percentiles under the names that plans have for them [s]; nothing of nothing."""
        if not self._n:
            return
        yield f"{figure}_mean_s", self._total_s / self._n
        for p in percentiles:
            yield f"{figure}_p{p}_s", quantile(tuple(self._edges), tuple(self._counts), p / 100)
