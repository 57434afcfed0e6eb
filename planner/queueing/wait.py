"""A waiting time as a table: its distribution, mean and quantiles."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from planner.queueing.erlang import Floats


@dataclass(frozen=True, eq=False)
class Wait:
    """A waiting time: none with some probability, else a tabulated distribution with an exponential tail."""

    waiting_fraction: float
    """P(W > 0) [fraction]."""
    mean_s: float
    """E[W] [s], over all requests."""
    step_s: float
    """Grid step of the table [s]."""
    survival_given_wait: Floats
    """P(W > k step | W > 0) [fraction], shape (n,), from 1, never rising."""
    decay_per_s: float
    """Rate of the exponential tail beyond the table [1/s]."""

    def survival(self, x_s: float | Floats) -> Floats:
        """Fraction of requests that wait longer than `x_s`.

        Equation: P(W > x) = P(W > 0) P(W > x | W > 0), linear between grid points, exponential beyond; 1 for x < 0.

        Args:
            x_s: thresholds [s], a number or any shape.

        Returns:
            Survival probability [fraction], shape of `x_s`.

        Valid: as stated at `mgc_wait`, which makes the table.

        Source: definition.

        >>> from planner.queueing.service import Service
        >>> from planner.queueing.waits import mgc_wait
        >>> wait = mgc_wait(1, 0.5, Service.of([1.0]))  # M/D/1: 1 - (1 - u) exp(u x) for x <= 1
        >>> [round(float(p), 4) for p in wait.survival(np.array([-1.0, 0.0, 0.5]))]
        [1.0, 0.5, 0.358]
        """
        x = np.asarray(x_s, dtype=np.float64)
        position, last = x / self.step_s, len(self.survival_given_wait) - 1
        found = np.asarray(np.interp(position, _places(last + 1), self.survival_given_wait)) * self.waiting_fraction
        beyond = position > last
        if beyond.any():
            found = found * np.exp(np.where(beyond, self.decay_per_s * self.step_s * (last - position), 0.0))
        return np.asarray(np.where(x < 0, 1.0, found))

    def quantile_s(self, q: float) -> float:
        """Wait that a fraction `q` of requests does not exceed.

        Equation: inf {x >= 0: P(W > x) <= 1 - q}.

        Args:
            q: probability [fraction], 0 <= q < 1.

        Returns:
            Quantile [s]; 0 where q is at most the fraction that does not wait.

        Raises:
            ValueError: q is outside [0, 1).

        Valid: as stated at `mgc_wait`.

        Source: definition.

        >>> from planner.queueing.service import Service
        >>> from planner.queueing.waits import mgc_wait
        >>> round(mgc_wait(1, 0.5, Service.of([1.0])).quantile_s(0.9), 3)
        1.516
        """
        if not 0 <= q < 1:
            raise ValueError(f"a quantile needs 0 <= q < 1, got {q}")
        if self.waiting_fraction <= 1 - q + 1e-12:
            return 0.0
        allowed = (1 - q + 1e-12) / self.waiting_fraction
        table = self.survival_given_wait
        right = int(np.searchsorted(-table, -allowed))
        if right >= len(table):
            return self.step_s * (len(table) - 1) + float(np.log(table[-1] / allowed)) / self.decay_per_s
        before, after = float(table[right - 1]), float(table[right])
        return self.step_s * (right - 1 + (before - allowed) / (before - after))


@cache
def _places(n: int) -> Floats:
    """The points of a table of n."""
    return np.arange(n, dtype=np.float64)


NO_WAIT = Wait(0.0, 0.0, 1.0, np.array([1.0, 0.0]), 1.0)
"""The wait of a pool without a queue: an unloaded system."""


def smallest_below_s(survival: Callable[[float], Floats], q: float, guess_s: float) -> float:
    """Smallest time at which a non-increasing `survival` is at most 1 - q, bisected to 12 digits; jumps are allowed."""
    if not 0 <= q < 1:
        raise ValueError(f"a quantile needs 0 <= q < 1, got {q}")
    allowed = 1 - q + 1e-12  # so that rounding of 1 - q does not step over a jump that ends exactly there
    if survival(0.0) <= allowed:
        return 0.0
    low, high = 0.0, max(guess_s, 1e-9)
    while survival(high) > allowed:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if survival(middle) > allowed else (low, middle)
    return high


_SUM_POINTS = 2**11
_NEGLIGIBLE = 2e-9
"""P(W > 0) of a wait that is none: hardly likelier than what lies beyond the grid."""


def sum_of_waits(first: Wait, second: Wait) -> Wait:
    """Wait of a request that waits twice, independently.

    Equation: P(W1 + W2 > x) by FFT of the two distributions on one grid up to where both are below 1e-9.

    Args:
        first: one wait.
        second: the other.

    Returns:
        Their sum: mean E[W1] + E[W2], P(> 0) = 1 - P(W1 = 0) P(W2 = 0).

    Valid: independent waits; a request's wait for prefill and for a decode place are nearly so, being seconds apart in
        different pools. Grid of 2,048 points over twice the range in which a longer wait is likelier than 1e-9.

    Source: definition.

    >>> from planner.queueing.service import Service
    >>> from planner.queueing.waits import mgc_wait
    >>> once = mgc_wait(2, 1.5, Service.of([1.0]))
    >>> round(sum_of_waits(once, once).mean_s / once.mean_s, 6), sum_of_waits(once, NO_WAIT) is once
    (2.0, True)
    """
    if second.waiting_fraction < _NEGLIGIBLE:
        return first
    if first.waiting_fraction < _NEGLIGIBLE:
        return second
    ends_s = [wait.quantile_s(1 - 1e-9) for wait in (first, second)]
    step_s = 2 * max(ends_s) / _SUM_POINTS
    middles_s: Floats = step_s * (np.arange(_SUM_POINTS, dtype=np.float64) + 0.5)
    spectrum = np.ones(_SUM_POINTS + 1, dtype=np.complex128)
    for wait in (first, second):
        mass = -np.diff(wait.survival(middles_s), prepend=1.0)
        spectrum = spectrum * np.fft.rfft(mass, 2 * _SUM_POINTS)
    mass = np.fft.irfft(spectrum, 2 * _SUM_POINTS)[:_SUM_POINTS]
    waiting = 1 - (1 - first.waiting_fraction) * (1 - second.waiting_fraction)
    survival = np.clip((1 - np.cumsum(mass) + mass / 2) / waiting, 0.0, 1.0)
    survival[0] = 1.0
    decay_per_s = min(first.decay_per_s, second.decay_per_s)
    return Wait(waiting, first.mean_s + second.mean_s, step_s, np.minimum.accumulate(survival), decay_per_s)
