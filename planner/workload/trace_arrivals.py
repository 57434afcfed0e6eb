"""Arrivals of a trace's requests: their rate, and how much burstier they come than independent users."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from planner.curves import FloatArray
from planner.notes import Note, note
from planner.units import number
from planner.workload.spec import MOST_SQUARED_CV

WINDOW_S = 10.0
"""Windows in which arrivals are counted: about as long as requests wait and are prefilled."""
LEAST_COUNT = 10.0
"""Mean requests of a window; of a slower trace windows are longer."""
LEAST_WINDOWS = 20
"""Windows from which on a variance is worth anything."""
LEAST_STATED = 0.01
"""Least squared coefficient of variation that is stated of a trace's gaps."""


@dataclass(frozen=True)
class Dispersion:
    """Variance over mean of how many requests arrive in a window."""

    value: float
    """1 for independent users (Poisson), above it bursts, below it regularity."""
    window_s: float
    n_windows: int


def rate_req_per_s(arrival_s: FloatArray) -> float | None:
    """Requests per second of a trace; None of a single moment.

    Equation:
        (n - 1) / (last arrival - first): one over the mean gap

    >>> rate_req_per_s(np.array([0.0, 1.0, 4.0])), rate_req_per_s(np.array([3.0]))
    (0.5, None)
    """
    span_s = float(arrival_s[-1] - arrival_s[0])
    return (arrival_s.size - 1) / span_s if span_s > 0 else None


def squared_cv(found: Dispersion) -> float:
    """Squared coefficient of variation of the gaps of renewal arrivals as bursty, as far as workloads state it.

    >>> squared_cv(Dispersion(2.5, 10.0, 40)), squared_cv(Dispersion(90.0, 10.0, 40))
    (2.5, 16.0)
    """
    return min(max(found.value, LEAST_STATED), MOST_SQUARED_CV)


def limit_notes(found: Dispersion | None) -> Iterator[Note]:
    """A note where arrivals are burstier than a workload states them.

    >>> list(limit_notes(Dispersion(2.5, 10.0, 40)))
    []
    """
    if found is not None and found.value > MOST_SQUARED_CV:
        what = f"arrivals have a dispersion of {number(found.value)}, and squared_cv is {MOST_SQUARED_CV:g} at most"
        yield note("bursts-limited", f"{what}: plans count on fewer bursts than there are")


def dispersion(arrival_s: FloatArray) -> Dispersion | None:
    """Index of dispersion of a trace's arrivals, counted in windows of 10 s, or of 10 requests where that is longer.

    Equation:
        I = Var[N(w)] / E[N(w)]; of a renewal process I tends to the squared coefficient of variation of its gaps

    Args:
        arrival_s: arrivals in order [s].

    Returns:
        The index with its windows; None of a trace that is too short to tell.

    Valid:
        A rate that drifts over minutes raises I with the length of the windows: that is no burst to a queue, and
        belongs into periods.

    Source:
        Cox and Lewis, The Statistical Analysis of Series of Events (1966), section 4.6; Whitt, Management Science 28
        (1982), 1-50: the asymptotic method matches a renewal process to it.

    >>> dispersion(np.arange(0.0, 1000.0, 0.5))
    Dispersion(value=0.0, window_s=10.0, n_windows=99)
    """
    rate = rate_req_per_s(arrival_s)
    if rate is None:
        return None
    window_s = max(WINDOW_S, LEAST_COUNT / rate)
    n_windows = int((arrival_s[-1] - arrival_s[0]) / window_s)
    if n_windows < LEAST_WINDOWS:
        return None
    places = ((arrival_s - arrival_s[0]) / window_s).astype(np.int64)
    counts = np.bincount(places)[:n_windows]  # the last window is cut off by the end of the trace
    return Dispersion(float(counts.var() / counts.mean()), window_s, n_windows)
