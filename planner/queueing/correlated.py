"""Correlated arrivals: traces and Markov-modulated Poisson arrivals, by peakedness or as a fluid."""

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import ArrayLike

from planner.queueing.chain import Chain, phase_chain
from planner.queueing.erlang import Floats
from planner.queueing.gigc import delay
from planner.queueing.phases import MIN_TWO_PHASE_SCV, MarkovArrivals, two_phases
from planner.queueing.service import Service
from planner.queueing.wait import Wait

MAX_MODULATED_SERVERS = 48
"""Servers up to which the chain of two arrival states stays quick (50 ms)."""
_POINTS = 48**2


@dataclass(frozen=True)
class Mmpp:
    """Poisson arrivals at one of two rates, which alternate at random."""

    busy_req_per_s: float
    """Rate in the busy state [req/s]."""
    calm_req_per_s: float
    """Rate in the calm state [req/s]."""
    busy_s: float
    """Mean length of a busy spell [s]."""
    calm_s: float
    """Mean length of a calm spell [s]."""

    @property
    def rate_req_per_s(self) -> float:
        """Mean arrival rate [req/s]."""
        total_s = self.busy_s + self.calm_s
        return (self.busy_req_per_s * self.busy_s + self.calm_req_per_s * self.calm_s) / total_s

    @property
    def arrivals(self) -> MarkovArrivals:
        """The same arrivals as matrices, the busy state first."""
        moves = np.array([[-1 / self.busy_s, 1 / self.busy_s], [1 / self.calm_s, -1 / self.calm_s]])
        rates = np.diag([self.busy_req_per_s, self.calm_req_per_s])
        return MarkovArrivals(moves - rates, rates)

    def dispersion_index(self, window_s: ArrayLike) -> Floats:
        """Variance over mean of the arrivals in a window.

        Equation: I(t) = 1 + A (1 - (1 - exp(-s t)) / (s t)), s = 1 / busy + 1 / calm,
            A = 2 p (1 - p) (busy rate - calm rate)^2 / (s lambda), p the busy share of time.

        Args:
            window_s: window t [s], any shape, above 0.

        Returns:
            Index of dispersion [fraction], shape of `window_s`; 1 is Poisson.

        Valid: exact in steady state.

        Source: Fischer and Meier-Hellstern (1993), Performance Evaluation 18, 149-171.

        >>> Mmpp(3.0, 1.0, 10.0, 10.0).dispersion_index([1e-9, 1e9]).round(6).tolist()
        [1.0, 6.0]
        """
        speed = 1 / self.busy_s + 1 / self.calm_s
        busy = self.busy_s / (self.busy_s + self.calm_s)
        apart = self.busy_req_per_s - self.calm_req_per_s
        excess = 2 * busy * (1 - busy) * apart**2 / (speed * self.rate_req_per_s)
        x = speed * np.asarray(window_s, dtype=np.float64)
        return np.asarray(1 + excess * (1 + np.expm1(-x) / x))


@dataclass(frozen=True, eq=False)
class CorrelatedWait:
    """A wait that no formula vouches for."""

    wait: Wait
    """Approximate wait."""
    effective_scv: float
    """Variation of renewal arrivals that would disperse as much over the queue's own time [fraction]."""
    certified_by_executor_only: bool
    """Whether only the executor's run can say that a plan built on it holds; always so for correlated arrivals."""


def modulated_wait(n_servers: int, arrivals: Mmpp, service: Service) -> CorrelatedWait:
    """Distribution of the wait with Markov-modulated Poisson arrivals, first come first served.

    Equation: the chain MMPP/PH/c with two phases of the service's moments gives P(W > 0) and E[W] exactly for those
        phases; both are moved to the service itself by their ratio for Poisson arrivals, to the power
        1 - (1 - 1 / I) min(1, u_b)^12: I the dispersion over the queue's relaxation time
        (1 + v) E[S] / (c (1 - u)^2), u_b the load while busy, since a queue that grows in busy spells asks little of
        the service's shape. Shape: P(W > x | W > 0) from the exact numbers waiting, each let in at rate c / E[S]:
        full (I - R)^-1 exp(-(I - R) c x / E[S]) over its value at 0, stretched to the mean.

    Args:
        n_servers: servers c [count], 1 to 48.
        arrivals: the arrivals.
        service: the service time S.

    Returns:
        The wait, always to be certified by the executor.

    Raises:
        ValueError: n_servers is out of range or the utilisation is 1 or more.

    Valid: exact P(W > 0) and mean for exponential and (with erratic service) two-phase service. Largest errors found
        against simulation with an interval of 2 to 9 %, c 1 to 32, load 0.5 to 0.85, busy load 0.9 to 1.12, I 1.4 to 7:
        squared variation 0.35 to 1.5: mean 8 %, P90 5 %, P99 8 %; 0.09: mean 16 %, P90 15 %, P99 27 %, where waits are
        below a tenth of a service, else 9, 12 and 20 %.

    Source: Neuts (1981), Matrix-Geometric Solutions, chapter 3; Fendick and Whitt (1989), Proc. IEEE 77(1), for the
        dispersion over the queue's own time.

    >>> found = modulated_wait(2, Mmpp(3.0, 1.0, 10.0, 10.0), Service.of([0.5, 1.0]))
    >>> round(found.wait.mean_s, 3), found.certified_by_executor_only
    (2.467, True)
    """
    if not 1 <= n_servers <= MAX_MODULATED_SERVERS:
        raise ValueError(f"modulated arrivals take 1 to {MAX_MODULATED_SERVERS} servers, got {n_servers}")
    rate = arrivals.rate_req_per_s
    utilization = rate * service.mean_s / n_servers
    phases = two_phases(service.mean_s, max(service.scv, MIN_TWO_PHASE_SCV), service.third_s3)
    chain = phase_chain(n_servers, arrivals.arrivals, phases)
    relaxation_s = (1 + service.scv) * service.mean_s / (n_servers * (1 - utilization) ** 2)
    dispersion = float(arrivals.dispersion_index(relaxation_s))
    busy = min(1.0, max(arrivals.busy_req_per_s, arrivals.calm_req_per_s) * service.mean_s / n_servers)
    power = 1 - (1 - 1 / dispersion) * busy**12
    waiting, mean_s = _moved(n_servers, utilization, service, chain, power)
    survival, step_s, decay_per_s = _shape(chain, arrivals.arrivals, n_servers / service.mean_s, mean_s / waiting)
    return CorrelatedWait(Wait(waiting, mean_s, step_s, survival, decay_per_s), dispersion, True)


def _moved(n_servers: int, utilization: float, service: Service, chain: Chain, power: float) -> tuple[float, float]:
    """P(W > 0) and E[W] of the chain, moved from its two phases to the service itself."""
    if n_servers == 1:
        above = (1 + service.scv) / (1 + max(service.scv, MIN_TWO_PHASE_SCV))
        return chain.waiting_fraction, chain.mean_wait_s * above**power
    poisson = delay(n_servers, utilization, service)
    ratio = float(poisson.waiting_fraction[0] / poisson.phase_waiting_fraction[0])
    of_wait = float(poisson.wait_services[0] / poisson.phase_wait_services[0])
    return (
        min(chain.waiting_fraction * ratio**power, 1.0),
        chain.mean_wait_s * (ratio * of_wait) ** power,
    )


def _shape(chain: Chain, arrivals: MarkovArrivals, per_s: float, mean_s: float) -> tuple[Floats, float, float]:
    """P(W > k step | W > 0), the step [s] and the decay beyond [1/s]."""
    from scipy.linalg import expm

    seen = np.repeat(arrivals.arrive_per_s.sum(axis=1), len(chain.full) // len(arrivals.quiet_per_s))
    falls = per_s * (np.eye(len(chain.full)) - chain.growth)
    after = np.linalg.solve(falls, seen)
    stretch = mean_s * float(chain.full @ after) / float(chain.full @ np.linalg.solve(falls, after))
    decay_per_s = float(np.linalg.eigvals(falls).real.min())
    step_s = 20 / decay_per_s / _POINTS
    n = round(_POINTS**0.5)
    one, row, column = expm(-falls * step_s), chain.full, after
    many = np.linalg.matrix_power(one, n)
    rows, columns = [row], [column]
    for _ in range(n - 1):
        rows.append(rows[-1] @ one)
        columns.append(many @ columns[-1])
    survival = (np.array(columns) @ np.array(rows).T).ravel() / float(row @ column)
    return np.minimum.accumulate(np.clip(survival, 0.0, 1.0)), step_s * stretch, decay_per_s / stretch


def dispersion_of_trace(arrivals_s: ArrayLike, window_s: ArrayLike) -> Floats:
    """Variance over mean of the arrivals of a trace in windows of each length.

    Equation: I(t) = Var N(t) / E N(t), N counted in windows of length t side by side.

    Args:
        arrivals_s: arrival times [s], shape (n,).
        window_s: window lengths t [s], shape (m,); each must fit at least 10 times.

    Returns:
        Index of dispersion [fraction], shape (m,).

    Raises:
        ValueError: there are fewer than 10 windows of a length.

    Valid: a steady rate; a trend over the trace counts as dispersion. Relative standard error about sqrt(2 / windows).

    Source: Cox and Lewis (1966), The Statistical Analysis of Series of Events, chapter 4.

    >>> dispersion_of_trace(np.arange(1000.0), [10.0]).tolist()
    [0.0]
    """
    times = np.sort(np.asarray(arrivals_s, dtype=np.float64))
    found = []
    for width in np.atleast_1d(np.asarray(window_s, dtype=np.float64)):
        edges = np.arange(times[0], times[-1] + 1e-9, width)
        if len(edges) < 11:
            raise ValueError(f"a window of {width:g} s fits fewer than 10 times into the trace")
        counts = np.diff(np.searchsorted(times, edges))
        found.append(float(counts.var() / counts.mean()))
    return np.array(found)


def modulated_arrivals(rate_req_per_s: float, window_s: ArrayLike, dispersion: ArrayLike) -> Mmpp:
    """Two alternating rates that disperse as measured.

    Equation: I(t) = 1 + A (1 - (1 - exp(-s t)) / (s t)) fitted by least squares in A and s; the rate's variance is
        A lambda s / 2, the busy share of time p = min(1/2, lambda^2 / (lambda^2 + variance)), so the calm rate is not
        negative.

    Args:
        rate_req_per_s: mean rate lambda [req/s], above 0.
        window_s: windows t [s], shape (m,), at least 2.
        dispersion: index of dispersion in each [fraction], shape (m,).

    Returns:
        The arrivals; nearly Poisson where no window disperses more than 1.

    Raises:
        ValueError: an argument is out of range.

    Valid: matches the mean rate and second moments over time, no third moment; arrivals more regular than Poisson
        become Poisson.

    Source: Heffes and Lucantoni (1986), IEEE J. Sel. Areas Comm. 4(6), who match the dispersion at several times.

    >>> windows = np.geomspace(0.1, 1000.0, 12)
    >>> modulated_arrivals(2.0, windows, Mmpp(3.0, 1.0, 10.0, 10.0).dispersion_index(windows)).busy_s.__round__(3)
    10.0
    """
    from scipy.optimize import least_squares

    window = np.asarray(window_s, dtype=np.float64)
    excess = np.asarray(dispersion, dtype=np.float64) - 1
    if not 0 < rate_req_per_s < inf or window.shape != excess.shape or window.size < 2 or not (window > 0).all():
        raise ValueError("arrivals need a rate above 0 and at least two windows above 0 with a dispersion each")

    def residual(log_parts: Floats) -> Floats:
        x = np.exp(log_parts[1]) * window
        return np.asarray((np.exp(log_parts[0]) * (1 + np.expm1(-x) / x) - excess) / (1 + np.abs(excess)))

    guess = np.log([max(float(excess.max()), 1e-6), 1 / sqrt(float(window[0] * window[-1]))])
    amount, speed = (float(x) for x in np.exp(least_squares(residual, guess).x))
    deviation = sqrt(amount * rate_req_per_s * speed / 2)
    busy = min(0.5, rate_req_per_s**2 / (rate_req_per_s**2 + deviation**2))
    rates = rate_req_per_s + deviation * sqrt((1 - busy) / busy), rate_req_per_s - deviation * sqrt(busy / (1 - busy))
    return Mmpp(rates[0], max(rates[1], 0.0), 1 / (speed * (1 - busy)), 1 / (speed * busy))


def fluid_wait_s(rate_req_per_s: ArrayLike, bin_s: float, capacity_req_per_s: float) -> tuple[float, float]:
    """Mean and largest wait of a fluid whose rate changes from bin to bin: what overload alone costs.

    Equation: dQ/dt = lambda(t) - capacity while Q > 0; wait Q / capacity; mean over requests.

    Args:
        rate_req_per_s: arrival rate of each bin [req/s], shape (n,), at least 0.
        bin_s: length of a bin [s], above 0.
        capacity_req_per_s: rate the pool serves [req/s], above 0.

    Returns:
        Mean wait of a request [s], and the largest [s]; the queue is empty before the first bin.

    Raises:
        ValueError: an argument is out of range.

    Valid: spells of overload much longer than a service; randomness within a bin is left out, so a lower estimate of
        the mean where capacity is seldom exceeded. To be certified by the executor.

    Source: Newell (1982), Applications of Queueing Theory, chapter 2.

    >>> fluid_wait_s([2.0, 0.0], 10.0, 1.0)
    (5.0, 10.0)
    """
    rate = np.asarray(rate_req_per_s, dtype=np.float64)
    if rate.ndim != 1 or not (rate >= 0).all() or not bin_s > 0 or not capacity_req_per_s > 0:
        raise ValueError("a fluid needs rates of at least 0, and a bin and a capacity above 0")
    net = np.append(0.0, np.cumsum((rate - capacity_req_per_s) * bin_s))
    queue = net - np.minimum.accumulate(net)
    start, end = queue[:-1], queue[1:]
    drop = capacity_req_per_s - rate
    lasting_s = np.where((end == 0) & (start > 0), start / np.where(drop > 0, drop, 1.0), bin_s)
    total = float((rate * (start + end) / 2 * np.minimum(lasting_s, bin_s)).sum())
    n_requests = float(rate.sum()) * bin_s
    return (total / n_requests if n_requests > 0 else 0.0) / capacity_req_per_s, float(queue.max()) / capacity_req_per_s
