"""First come, first served with c servers: the whole distribution of the wait."""

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from planner.queueing.chain import Chain
from planner.queueing.erlang import Floats
from planner.queueing.gigc import Delay, delay
from planner.queueing.mgc import stable_utilization_fraction
from planner.queueing.phases import MIN_TWO_PHASE_SCV
from planner.queueing.service import Service
from planner.queueing.wait import NO_WAIT, Wait

_GRID = 2**15
"""Points of the transform; the upper half only keeps aliased mass away from the lower half, which is kept."""
_RANGE_DECAYS = 40.0
"""Grid length in units of 1 / decay: what is cut off is about exp(-20), what is aliased exp(-40)."""
_CHAIN_POINTS = 48**2
"""Points at which the chain's own wait is tabulated, over the kept half of the grid."""
_HEAVY = 0.9999
"""Utilisation beyond which the wait is that of this one, stretched: with 1 - u it only changes its scale."""
_RESIDUAL_SCALE = (0.7, 1.5)
"""How far the mean may be corrected through the least residual alone before the whole wait is stretched."""


def mgc_wait(n_servers: int, arrival_req_per_s: float, service: Service) -> Wait:
    """Distribution of the wait in M/G/c, first come first served: `gigc_wait` with Poisson arrivals.

    Equation: as at `gigc_wait`.

    Args:
        n_servers: servers c [count], at least 1.
        arrival_req_per_s: arrival rate lambda [req/s].
        service: the service time S.

    Returns:
        The wait before service, over all requests.

    Raises:
        ValueError: utilisation is 1 or more (no steady state: the caller states such a wait as unknown, None), or an
            argument is out of range.

    Valid: as at `gigc_wait`.

    Source: as at `gigc_wait`.

    >>> wait = mgc_wait(4, 3.2, Service.of([0.5, 2.0], [2.0, 1.0]))
    >>> round(wait.waiting_fraction, 4), round(wait.mean_s, 4), round(wait.quantile_s(0.99), 3)
    (0.5914, 0.5717, 3.814)
    """
    return gigc_wait(n_servers, arrival_req_per_s, service)


def gigc_wait(n_servers: int, arrival_req_per_s: float, service: Service, arrival_scv: float = 1.0) -> Wait:
    """Distribution of the wait in GI/G/c, first come first served, renewal arrivals with Gamma gaps.

    Equation: P(W > 0) and E[W | W > 0] from `delay`; P(W > x | W > 0) has one of two shapes, stretched to that mean:
        v >= 1/2: that of the wait with two phases of service, exact (`Chain.survival_given_wait`);
        v -> 0: k Y + V, Y the least of c residual services, V the wait of GI/G/1 with service S / c, k in [0.7, 1.5];
        between, their mean with weights 2 v and 1 - 2 v. V by FFT: for Poisson arrivals the sum of N residuals of
        S / c, P(N = n) = (1 - u) u^n; else by Spitzer's identity from the positive part of
        -log(1 - E[exp(z (S / c - T))]). Beyond the table the tail decays at the root z of
        E[exp(z S / c)] E[exp(-z T)] = 1. One server: W = V. Beyond u = 0.9999 the wait of there is
        stretched as 1 / (1 - u).

    Args:
        n_servers: servers c [count], at least 1.
        arrival_req_per_s: arrival rate lambda [req/s].
        service: the service time S.
        arrival_scv: squared coefficient of variation of the gaps T between arrivals [fraction], above 0.

    Returns:
        The wait before service, over all requests.

    Raises:
        ValueError: utilisation is 1 or more (no steady state: the caller states such a wait as unknown, None), or an
            argument is out of range.

    Valid: ERRORS

    Source: Tijms, van Hoorn and Federgruen (1981), Adv. Appl. Prob. 13(1), whose assumption after a departure gives
        Y + V; Takahashi (1981), Adv. Appl. Prob. 13(3), for the decay rate; Spitzer (1956), Trans. Amer. Math. Soc.
        82, 323-339, for one server; mean and waiting probability as in `delay`.

    >>> wait = gigc_wait(4, 3.2, Service.of([0.5, 2.0], [2.0, 1.0]), arrival_scv=2.0)
    >>> round(wait.waiting_fraction, 4), round(wait.mean_s, 4), round(wait.quantile_s(0.99), 3)
    (0.6945, 1.0813, 6.422)
    """
    if not 0 < arrival_scv < inf:
        raise ValueError(f"arrivals need an scv above 0, got {arrival_scv}")
    utilization = stable_utilization_fraction(n_servers, arrival_req_per_s, service.mean_s)
    if utilization == 0:
        return NO_WAIT
    if utilization > _HEAVY * (1 + 1e-9):
        heavy = gigc_wait(n_servers, arrival_req_per_s * _HEAVY / utilization, service, arrival_scv)
        return _stretched(heavy, (1 - _HEAVY) / (1 - utilization))
    grid = _grid(n_servers, arrival_req_per_s, service, arrival_scv)
    if n_servers == 1:
        return _single(grid, _behind(grid, 1, utilization, service))
    found = delay(n_servers, utilization, service, arrival_scv)
    return _shaped(grid, n_servers, utilization, found, service)


def _stretched(wait: Wait, stretch: float) -> Wait:
    """The wait nearer to full load, where W (1 - u) keeps its distribution (Kingman 1961)."""
    waiting = 1 - (1 - wait.waiting_fraction) / stretch
    mean_s = wait.mean_s * stretch * waiting / wait.waiting_fraction
    return Wait(waiting, mean_s, wait.step_s * stretch, wait.survival_given_wait, wait.decay_per_s / stretch)


@dataclass(frozen=True)
class _Grid:
    step_s: float
    decay_per_s: float
    rate_req_per_s: float
    arrival_scv: float

    @property
    def seconds(self) -> Floats:
        return self.step_s * np.arange(_GRID + 1, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Behind:
    """V, the wait of one server c times as fast."""

    transform: NDArray[np.complex128]
    waiting_fraction: float
    mean_s: float


def _grid(n_servers: int, arrival_req_per_s: float, service: Service, arrival_scv: float) -> _Grid:
    decay_per_s = _decay_per_s(n_servers, arrival_req_per_s, service, arrival_scv)
    step_s = (_RANGE_DECAYS / decay_per_s + float(service.seconds[-1])) / _GRID
    return _Grid(step_s, decay_per_s, arrival_req_per_s, arrival_scv)


def _decay_per_s(n_servers: int, arrival_req_per_s: float, service: Service, arrival_scv: float) -> float:
    """Rate z [1/s] at which the wait's tail decays: E[exp(z S / c)] E[exp(-z T)] = 1, taken as logarithms."""
    from scipy.optimize import brentq
    from scipy.special import logsumexp

    share_s = service.seconds / n_servers
    scale_s = arrival_scv / arrival_req_per_s

    def excess(rate_per_s: float) -> float:
        growth = float(logsumexp(rate_per_s * share_s, b=service.weights))
        return growth - float(np.log1p(rate_per_s * scale_s)) / arrival_scv

    variance_s2 = service.scv * (service.mean_s / n_servers) ** 2 + arrival_scv / arrival_req_per_s**2
    high = 2.02 * (1 / arrival_req_per_s - service.mean_s / n_servers) / variance_s2
    while excess(high) <= 0:
        high *= 2
    low = high / 2
    while excess(low) >= 0:
        high, low = low, low / 2
    return float(brentq(excess, low, high))


def _behind(grid: _Grid, n_servers: int, utilization: float, service: Service) -> _Behind:
    if grid.arrival_scv != 1.0:
        return _spitzer(grid, n_servers, service)
    excess_s = service.min_residual_excess_s(grid.seconds * n_servers, 1) / n_servers
    transform = (1 - utilization) / (1 - utilization * np.fft.rfft(_lattice(excess_s, grid.step_s)))
    return _Behind(transform, utilization, utilization / (1 - utilization) * float(excess_s[0]))


def _spitzer(grid: _Grid, n_servers: int, service: Service) -> _Behind:
    """V from the logarithm of 1 - E[exp(z X)], X = S / c - T, on a line between 0 and the decay rate."""
    index = np.arange(_GRID)
    tilt = np.exp(min(0.5 * grid.decay_per_s * grid.step_s, 300 / _GRID) * index)
    share = np.fft.rfft(_lattice(_mean_excess_s(service, grid.seconds * n_servers) / n_servers, grid.step_s) * tilt)
    gap = np.fft.rfft(_lattice(_gamma_excess_s(grid), grid.step_s) / tilt)
    log_part = np.fft.irfft(-np.log(1 - share * np.conj(gap)), _GRID)
    jumps = np.where(index <= _GRID // 2, np.maximum(log_part, 0.0) / tilt, 0.0)
    jumps[0] /= 2
    total = float(jumps.sum())
    return _Behind(np.exp(np.fft.rfft(jumps) - total), -float(np.expm1(-total)), float(jumps @ grid.seconds[:-1]))


def _mean_excess_s(service: Service, x_s: Floats) -> Floats:
    """E[(S - x)+] [s] at each threshold."""
    at = np.searchsorted(service.seconds, x_s, side="right")
    above = np.append(np.cumsum(service.weights[::-1])[::-1], 0.0)
    seconds_above = np.append(np.cumsum((service.weights * service.seconds)[::-1])[::-1], 0.0)
    return np.asarray(np.maximum(seconds_above[at] - x_s * above[at], 0.0))


def _gamma_excess_s(grid: _Grid) -> Floats:
    """E[(T - x)+] - E[T] = -E[min(T, x)] [s] of the gaps at each grid point, which loses no digits where T is long."""
    from scipy.special import gammainc, gammaln, xlogy

    shape = 1 / grid.arrival_scv
    scaled = shape * grid.rate_req_per_s * grid.seconds
    below = gammainc(shape, scaled)
    density = np.exp(xlogy(shape, scaled) - scaled - gammaln(shape + 1))
    return np.asarray(-(grid.seconds * (1 - below) + (below - density) / grid.rate_req_per_s))


def _lattice(excess_s: Floats, step_s: float) -> Floats:
    """Masses on the grid with the same mean excess at each of its points: second differences."""
    slope = np.diff(excess_s) / step_s
    return np.append(1 + slope[0], np.diff(slope))


def _single(grid: _Grid, behind: _Behind) -> Wait:
    """V itself, given that it is not 0."""
    waiting = behind.waiting_fraction
    if waiting < 1e-12:
        return NO_WAIT
    mass = np.fft.irfft(behind.transform, _GRID)
    mass[0] -= 1 - waiting
    return Wait(waiting, behind.mean_s, grid.step_s, _survival(mass / waiting), grid.decay_per_s)


def _shaped(grid: _Grid, n_servers: int, utilization: float, found: Delay, service: Service) -> Wait:
    """The wait with the mean that the delay asks for, between the shapes of regular (0) and erratic service (1)."""
    wait_s = found.wait_services * service.mean_s
    place = min(service.scv / MIN_TWO_PHASE_SCV, 1.0)
    survival = place * _erratic_shape(grid, wait_s, found.chain)
    if place < 1:
        survival += (1 - place) * _regular_shape(grid, wait_s, n_servers, utilization, service)
    return Wait(found.waiting_fraction, found.waiting_fraction * wait_s, grid.step_s, survival, grid.decay_per_s)


def _erratic_shape(grid: _Grid, wait_s: float, chain: Chain) -> Floats:
    """P(W > x | W > 0) on the grid, as with two phases of service, stretched to its mean."""
    points = grid.seconds[: _GRID // 2 + 1]
    stretch = chain.mean_wait_s / chain.waiting_fraction / wait_s
    step = points[-1] * stretch / (_CHAIN_POINTS - 1)
    survival = np.maximum(chain.survival_given_wait(step, _CHAIN_POINTS), 1e-300)
    return np.asarray(np.exp(np.interp(points * stretch / step, np.arange(_CHAIN_POINTS), np.log(survival))))


def _regular_shape(grid: _Grid, wait_s: float, n_servers: int, utilization: float, service: Service) -> Floats:
    """P(g (k Y + V) > x) on the grid."""
    behind = _behind(grid, n_servers, utilization, service)
    residual_s = float(service.min_residual_excess_s(0.0, n_servers))
    scale = float(np.clip((wait_s - behind.mean_s) / residual_s, *_RESIDUAL_SCALE))
    stretch = wait_s / (scale * residual_s + behind.mean_s)
    least = scale * service.min_residual_excess_s(grid.seconds / scale, n_servers)
    mass = np.fft.irfft(np.fft.rfft(_lattice(least, grid.step_s)) * behind.transform, _GRID)
    half = np.arange(_GRID // 2 + 1)
    return np.interp(half / stretch, half, _survival(mass))


def _survival(mass: Floats) -> Floats:
    """P(> x) on the lower half of the grid, a mass counted half at its own point."""
    survival = 1 - np.cumsum(mass) + mass / 2
    survival[0] = 1.0
    return np.asarray(np.minimum.accumulate(np.clip(survival[: _GRID // 2 + 1], 0.0, 1.0)))
