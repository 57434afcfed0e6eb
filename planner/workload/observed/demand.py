"""Observations of a demand, however it was recorded."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from planner.curves import FloatArray
from planner.notes import Note
from planner.units import SECONDS_PER_HOUR
from planner.workload.observed.counted_lengths import CountedLengths
from planner.workload.trace_arrivals import LEAST_COUNT, LEAST_WINDOWS, Dispersion

HOURS_PER_DAY = 24
LEAST_HOURS = 2
"""Hours from which on a demand is stated hour by hour."""
FLAT = 0.05
"""Hours that differ from their mean by no more than this are one demand."""
WINDOW_S = 12.0
"""Windows in which arrivals are counted: a multiple of the 3 s that some recorders round to."""


@dataclass(frozen=True)
class HourRate:
    """The demand of an hour, of the clock or since the start."""

    name: str
    req_per_s: float


@dataclass(frozen=True)
class Observed:
    """A demand, and what its users saw."""

    what: str
    """What was read, in words."""
    prompts: CountedLengths
    outputs: CountedLengths
    req_per_s: float | None = None
    """Mean rate; None where nothing tells times."""
    hours: tuple[HourRate, ...] = ()
    """Rates hour by hour; none where fewer than two whole hours are known, or all of them are alike."""
    dispersion: Dispersion | None = None
    """Burstiness within hours; None where it cannot be told."""
    hit_fraction: float | None = None
    """Part of the prompt tokens that a prefix cache held [-]; None where nobody counted."""
    latency_s: tuple[tuple[str, float], ...] = ()
    """Measured latencies by the names that plans have for them [s]."""
    notes: tuple[Note, ...] = ()
    """What a reader must know to use it."""


class ArrivalCounter:
    """Counts arrivals as they come, in any order, in memory that grows with the windows that have some."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._n, self._first, self._last = 0, np.inf, -np.inf

    def add(self, arrival_s: FloatArray) -> None:
        """Count some; times are seconds since anything, of the clock where they are since 1970."""
        self._n += arrival_s.size
        self._first = min(self._first, float(arrival_s.min()))
        self._last = max(self._last, float(arrival_s.max()))
        windows, counts = np.unique(np.floor(arrival_s / WINDOW_S).astype(np.int64), return_counts=True)
        for window, count in zip(windows.tolist(), counts.tolist(), strict=True):
            self._counts[window] += count

    @property
    def span_s(self) -> float:
        """Seconds from the first to the last; 0 of none."""
        return max(self._last - self._first, 0.0)

    @property
    def req_per_s(self) -> float | None:
        """One over the mean gap; None of a single moment."""
        span_s = self.span_s
        return (self._n - 1) / span_s if self._n > 1 and span_s > 0 else None

    def hours(self) -> tuple[HourRate, ...]:
        """Rates by hour: of the clock over a day and more, else of every whole hour since the start."""
        per_hour = int(SECONDS_PER_HOUR / WINDOW_S)
        start, end = int(np.floor(self._first / WINDOW_S)), int(np.floor(self._last / WINDOW_S)) + 1
        counts = Counter[int]()
        for window, count in self._counts.items():
            counts[(window - start) // per_hour] += count
        whole = [counts[hour] / SECONDS_PER_HOUR for hour in range((end - start) // per_hour)]
        return by_hour(whole, start * WINDOW_S)

    def dispersion(self) -> Dispersion | None:
        """Variance over mean of arrivals in a window, hours apart: a rate that drifts from hour to hour is no burst."""
        rate = self.req_per_s
        if rate is None:
            return None
        together = max(int(np.ceil(LEAST_COUNT / rate / WINDOW_S)), 1)
        first = int(np.floor(self._first / WINDOW_S)) + 1
        n = (int(np.floor(self._last / WINDOW_S)) - first) // together
        if n < LEAST_WINDOWS:
            return None
        counts = np.zeros(n)
        for window, count in self._counts.items():
            place = (window - first) // together
            if 0 <= place < n:
                counts[place] += count
        per_hour = max(int(SECONDS_PER_HOUR / WINDOW_S / together), LEAST_WINDOWS)
        begun = -(first // together) % per_hour  # up to the first full hour of the clock
        parts = [part for part in np.split(counts, range(begun, n, per_hour)) if part.size]
        variance = sum(float(part.var()) * part.size for part in parts) / n
        return Dispersion(variance / float(counts.mean()), together * WINDOW_S, n)


def by_hour(rates: list[float], start_s: float) -> tuple[HourRate, ...]:
    """Rates of whole hours, one after the other: the mean of each hour of the clock where they cover a day.

    Args:
        start_s: when the first one begins, since 1970 or since anything [s].
    """
    mean = sum(rates) / max(len(rates), 1)
    if len(rates) < LEAST_HOURS or all(abs(rate - mean) <= FLAT * mean for rate in rates):
        return ()
    if len(rates) < HOURS_PER_DAY:
        return tuple(HourRate(f"h{i:02d}", rate) for i, rate in enumerate(rates))
    first = int(start_s // SECONDS_PER_HOUR)
    at: dict[int, list[float]] = {hour: [] for hour in range(HOURS_PER_DAY)}
    for i, rate in enumerate(rates):
        at[(first + i) % HOURS_PER_DAY].append(rate)
    return tuple(HourRate(f"h{hour:02d}", sum(all_) / len(all_)) for hour, all_ in at.items())
