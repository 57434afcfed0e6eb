"""Service and arrivals as a few exponential phases: what makes a queue an exactly solvable Markov chain."""

from dataclasses import dataclass
from math import ceil, inf, sqrt

import numpy as np

from planner.queueing.erlang import Floats

MIN_TWO_PHASE_SCV = 0.5
"""Two exponential phases vary at least as much as an Erlang distribution of order two."""


@dataclass(frozen=True, eq=False)
class Phases:
    """A phase-type time: the time to leave a few states with exponential stays."""

    start: Floats
    """Probability of starting in each state [fraction], shape (m,)."""
    rates_per_s: Floats
    """Rates between the states, on the diagonal minus the rate of leaving each [1/s], shape (m, m)."""

    @property
    def exit_per_s(self) -> Floats:
        """Rate at which each state ends the time [1/s], shape (m,)."""
        return np.asarray(-self.rates_per_s.sum(axis=1))

    def moments(self) -> tuple[float, float, float]:
        """First three moments [s, s^2, s^3]: k! start (-T)^-k 1.

        >>> [round(moment, 6) for moment in two_phases(1.0, 2.0, 20.0).moments()]
        [1.0, 3.0, 20.0]
        """
        stay_s = np.linalg.inv(-self.rates_per_s)
        first = np.asarray(self.start @ stay_s)
        second, third = first @ stay_s, first @ stay_s @ stay_s
        return float(first.sum()), 2 * float(second.sum()), 6 * float(third.sum())

    def transform(self, per_s: Floats) -> Floats:
        """E[exp(-s T)] = start (s - rates)^-1 exit at each s of an array.

        >>> two_phases(1.0, 1.0, 6.0).transform(np.array([0.0, 1.0])).round(9).tolist()
        [1.0, 0.5]
        """
        identity = np.eye(len(self.start))
        matrices = np.asarray(per_s)[..., None, None] * identity - self.rates_per_s
        return np.asarray(np.linalg.solve(matrices, self.exit_per_s[:, None])[..., 0] @ self.start)


def two_phases(mean_s: float, scv: float, third_s3: float) -> Phases:
    """Two exponential phases with three given moments, or the nearest third moment that two phases can have.

    Equation: start p in phase 1 of rate a, which leads to phase 2 of rate b, else start in phase 2; with
        d1 = 2 m1^2 - m2, d2 = 3 m2^2 - 2 m1 m3, d3 = 3 m1 m2 - m3, d4 = d3^2 - 6 d1 d2 the rates solve
        d2 x^2 - 2 d3 x + 6 d1 = 0.

    Args:
        mean_s: mean [s], above 0.
        scv: squared coefficient of variation [fraction], at least 1/2.
        third_s3: third moment E[S^3] [s^3].

    Returns:
        The phases; the third moment is clipped to [3 (3 v - 1 + sqrt(2) (1 - v)^1.5), 6 v] m1^3 for v <= 1 and to
        at least 1.5 (1 + v)^2 m1^3 beyond.

    Raises:
        ValueError: mean_s is not above 0 or scv is below 1/2.

    Valid: every acyclic phase-type time of order two.

    Source: Telek and Heindl (2002), Matching moments for acyclic phase-type distributions of second order,
        Int. J. Simulation 3(3-4), equations 5 to 9 and table 1.

    >>> first, second, _ = two_phases(2.0, 0.5, 0.0).moments()
    >>> round(first, 9), round(second, 9)
    (2.0, 6.0)
    """
    if not 0 < mean_s < inf or not MIN_TWO_PHASE_SCV <= scv < inf:
        raise ValueError(f"two phases need mean_s > 0 and scv >= 0.5, got {mean_s}, {scv}")
    third = _possible_third(scv, third_s3 / mean_s**3)
    if abs(scv - 1) < 1e-7:
        return Phases(np.array([0.0, 1.0]), np.array([[-1.0, 1.0], [0.0, -1.0]]) / mean_s)
    p, slow, fast = _canonical(1 + scv, third)
    return Phases(np.array([p, 1 - p]), np.array([[-slow, slow], [0.0, -fast]]) / mean_s)


def _possible_third(scv: float, third: float) -> float:
    """Third moment of two phases with mean 1 that is nearest to the one asked for."""
    if scv > 1:
        return max(third, 1.5 * (1 + scv) ** 2 * (1 + 1e-9))
    least = 3 * (3 * scv - 1 + sqrt(2 * (1 - scv) ** 3))
    return min(max(third, least), 6 * scv)


def _canonical(second: float, third: float) -> tuple[float, float, float]:
    """Start in phase 1, and the two rates, of the phases with moments 1, `second` and `third`."""
    d1, d2, d3 = 2 - second, 3 * second**2 - 2 * third, 3 * second - third
    root = sqrt(max(d3**2 - 6 * d1 * d2, 0.0))
    if d2 > 0:
        return (6 * d1 - d3 + root) / (d3 + root), (d3 - root) / d2, (d3 + root) / d2
    return (d3 - 6 * d1 + root) / (root - d3), (d3 + root) / d2, (d3 - root) / d2


@dataclass(frozen=True, eq=False)
class MarkovArrivals:
    """Arrivals that come from the moves of a small Markov chain: renewal, or correlated (MMPP)."""

    quiet_per_s: Floats
    """Rates of moves without an arrival, the diagonal completing both matrices to row sums of 0 [1/s], (m, m)."""
    arrive_per_s: Floats
    """Rates of moves with an arrival [1/s], shape (m, m)."""

    @property
    def state_fraction(self) -> Floats:
        """Long-run share of time in each state [fraction], shape (m,)."""
        moves = (self.quiet_per_s + self.arrive_per_s).T
        balance = np.vstack([moves[:-1], np.ones(len(moves))])
        return np.linalg.solve(balance, np.append(np.zeros(len(moves) - 1), 1.0))

    @property
    def rate_req_per_s(self) -> float:
        """Mean arrival rate [req/s].

        >>> round(renewal_arrivals(2.0, 3.0).rate_req_per_s, 9)
        2.0
        """
        return float(self.state_fraction @ self.arrive_per_s.sum(axis=1))


def renewal_arrivals(rate_req_per_s: float, scv: float) -> MarkovArrivals:
    """Renewal arrivals in phases that stand for Gamma-distributed gaps.

    Equation: scv >= 1/2: two phases with the three moments of the Gamma distribution,
        E[T^3] = (1 + v) (1 + 2 v) E[T]^3; scv < 1/2: a mixture of Erlang distributions of orders k - 1 and k,
        1/k <= v <= 1/(k - 1), of one rate.

    Args:
        rate_req_per_s: arrival rate [req/s], above 0.
        scv: squared coefficient of variation v of the gaps [fraction], above 0.

    Returns:
        The arrivals; 1, 2 or k states.

    Raises:
        ValueError: an argument is not above 0.

    Valid: Poisson where v = 1 and Erlang where v = 1/k exactly; else an approximation of Gamma gaps in their moments.

    Source: Telek and Heindl (2002) for two phases; Tijms, A First Course in Stochastic Models (2003), section 5.5.

    >>> renewal_arrivals(2.0, 1.0).arrive_per_s.tolist()
    [[2.0]]
    """
    if not 0 < rate_req_per_s < inf or not 0 < scv < inf:
        raise ValueError(f"arrivals need a rate and an scv above 0, got {rate_req_per_s}, {scv}")
    if abs(scv - 1) < 1e-7:
        return MarkovArrivals(np.array([[-rate_req_per_s]]), np.array([[rate_req_per_s]]))
    gap = gamma_phases(1 / rate_req_per_s, scv)
    return MarkovArrivals(gap.rates_per_s, np.outer(gap.exit_per_s, gap.start))


def gamma_phases(mean_s: float, scv: float) -> Phases:
    """The gap of `renewal_arrivals`: three moments of a Gamma distribution, two moments where scv < 1/2."""
    if scv >= MIN_TWO_PHASE_SCV:
        return two_phases(mean_s, scv, (1 + scv) * (1 + 2 * scv) * mean_s**3)
    k = ceil(1 / scv - 1e-9)
    skip = (k * scv - sqrt(max(k * (1 + scv) - k**2 * scv, 0.0))) / (1 + scv)
    rate = (k - skip) / mean_s
    start = np.zeros(k)
    start[:2] = 1 - skip, skip
    return Phases(start, rate * (np.eye(k, k=1) - np.eye(k)))
