"""First come, first served with c servers, renewal arrivals and any service: who waits, and how long on average."""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import NamedTuple

import numpy as np

from planner.queueing.chain import Chain, phase_chain
from planner.queueing.phases import MIN_TWO_PHASE_SCV, Phases, gamma_phases, renewal_arrivals, two_phases
from planner.queueing.service import Service
from planner.queueing.single_server import deterministic_wait, exponential_wait, exponential_wait_of

_CHAIN_SERVERS = 32
"""Servers up to which the chain itself is solved; beyond, its ratio to exponential service is taken from there."""
_WAITING_POWER = 0.6
"""Exponent of the variation by which log P(W > 0) moves from deterministic to Erlang-2 service."""
_REGULAR_POWER = 0.4
"""How that exponent, and the one of the conditional wait, falls as arrivals get more regular than Poisson."""
_SCALE_SHARE = 0.35
"""Share of the M/D/c time scale at which a service is compared with its two phases."""
_RARE = 1e-8
"""P(W > 0) below which the chain loses its digits: its ratio to exponential service is taken at a higher load."""
_CLUMP = 1.3
"""Sensitivity of log P(W > 0) to that difference when arrivals are not Poisson."""


@dataclass(frozen=True, eq=False)
class Delay:
    """Who waits, and how long those do, in mean services."""

    waiting_fraction: float
    """P(W > 0) [fraction]."""
    wait_services: float
    """E[W | W > 0] / E[S] [services]."""
    chain: Chain
    """The solved queue with two phases of service, whose wait has a similar shape."""


def delay(n_servers: int, utilization: float, service: Service, arrival_scv: float = 1.0) -> Delay:
    """Waiting probability and mean conditional wait of GI/G/c with Gamma gaps between arrivals.

    Equation: between solved queues. With v the service's squared variation and a the arrivals', D the exact GI/D/c, M
        the exact GI/M/c and P the exact chain with two phases of the service's three moments (Erlang-2 for v <= 1/2):
        v >= 1/2: log C = log C_P + 1.3 d (1 - a) / (1 + a), w = w_P + d / (c (1 - u));
        v < 1/2: log C = log C_D + (2 v)^(0.6 r) (log C_P - log C_D), w = w_D + g (w_P - w_D), r = min(a, 1)^0.4.
        d = D_S(0.35 q) - D_P(0.35 q), with D_S(q) `Service.excess_renewals` and q(c, u) such that M/D/c waits
        (1 + D_D(q)) / (c (1 - u)). For Poisson arrivals g = (1 - 2 v) (D_S(q) - D_D(q)) / h + 2 v (1 + d / h),
        h = D_P(q) - D_D(q); for others (2 v)^(r^((1 - C)^2)), weighted in by 1 - min(a, 1/a)^2.
        The chain stands for Gamma gaps by three moments and is scaled by the exact GI/M/c over that with its gaps;
        where a < 1/2 it is solved at 1/2, and moved by the geometric mean of GI/M/c's ratio and of its place between
        D and M. Beyond 32 servers the ratio of chain to M is that of 32 servers with the same (1 - u) sqrt(c),
        and where fewer than 1e-8 wait, that of the load where 1e-8 do.

    Args:
        n_servers: servers c [count], at least 2; one server is exact in `gigc_wait`.
        utilization: busy share u of each server [fraction], 0 < u < 1.
        service: the service time S.
        arrival_scv: squared coefficient of variation a of the gaps [fraction], above 0.

    Returns:
        P(W > 0) and E[W | W > 0] / E[S].

    Raises:
        ValueError: an argument is out of range.

    Valid: exact for deterministic, exponential and (Poisson) two-phase service; errors as at `gigc_wait`.

    Source: `deterministic_wait`, `exponential_wait`, `phase_chain` for the exact queues; Halfin and Whitt (1981),
        Oper. Res. 29(3), for many servers; the interpolation is this project's, its three constants fitted to
        simulations of other configurations than those it is judged by (`tests/benchmarks/bench_queueing.py`).

    >>> found = delay(4, 0.8, Service.of([1.0]))
    >>> round(found.waiting_fraction, 6), round(found.waiting_fraction * found.wait_services, 6)
    (0.578282, 0.386095)
    """
    queue = _Queue(n_servers, utilization, service, arrival_scv)
    return queue.erratic if service.scv >= MIN_TWO_PHASE_SCV else queue.regular


class _Anchor(NamedTuple):
    """A solved queue: P(W > 0), E[W | W > 0] / E[S]."""

    waiting_fraction: float
    wait_services: float


@dataclass(frozen=True, eq=False)
class _Queue:
    n_servers: int
    utilization: float
    service: Service
    arrival_scv: float

    @cached_property
    def phases(self) -> Phases:
        """Two phases with the service's moments, mean 1."""
        scv = max(self.service.scv, MIN_TWO_PHASE_SCV)
        return two_phases(1.0, scv, self.service.third_s3 / self.service.mean_s**3)

    @cached_property
    def scale(self) -> float:
        """q: time over which M/D/c looks at its servers [1 / service]."""
        return _short_scale(self.n_servers, self.utilization)

    @property
    def poisson_weight(self) -> float:
        return min(self.arrival_scv, 1 / self.arrival_scv) ** 2

    def apart(self, scale: float) -> float:
        """D_S - D_P [renewals]."""
        return self.service.excess_renewals(scale) - _excess_renewals(self.phases, scale)

    @cached_property
    def short(self) -> float:
        """d with the difference of the two variations taken out."""
        apart = self.apart(_SCALE_SHARE * self.scale)
        return apart - min(self.service.scv - MIN_TWO_PHASE_SCV, 0.0) / 2

    @property
    def clumping(self) -> float:
        return float(np.exp(_CLUMP * self.short * (1 - self.arrival_scv) / (1 + self.arrival_scv)))

    @cached_property
    def chain(self) -> Delay:
        return _chain_delay(self.n_servers, self.utilization, self.arrival_scv, self.phases)

    @property
    def erratic(self) -> Delay:
        """Squared variation of 1/2 or more."""
        wait = self.chain.wait_services + self.short / ((1 - self.utilization) * self.n_servers)
        wait = max(wait, 0.5 * self.chain.wait_services)
        return Delay(min(self.chain.waiting_fraction * self.clumping, 1.0), wait, self.chain.chain)

    @property
    def regular(self) -> Delay:
        """Squared variation below 1/2: between deterministic and Erlang-2 service."""
        low, high = _deterministic(self.n_servers, self.utilization, self.arrival_scv), self.chain
        place = self.service.scv / MIN_TWO_PHASE_SCV
        log_ratio = np.log(high.waiting_fraction / low.waiting_fraction)
        power = min(self.arrival_scv, 1.0) ** _REGULAR_POWER
        waiting = low.waiting_fraction * float(np.exp(place ** (_WAITING_POWER * power) * log_ratio))
        wait_place = place ** float(power ** (1 - min(waiting, 1.0)) ** 2)
        wait = low.wait_services + self._place_of_wait(place, wait_place) * (high.wait_services - low.wait_services)
        wait += (1 - self.poisson_weight) * place**2 * self.short / ((1 - self.utilization) * self.n_servers)
        wait = max(wait, 0.5 * min(low.wait_services, high.wait_services))
        return Delay(min(waiting * self.clumping ** (place**2), 1.0), wait, high.chain)

    def _place_of_wait(self, place: float, otherwise: float) -> float:
        """g: where the conditional wait lies between deterministic (0) and Erlang-2 service (1)."""
        least = _deterministic_excess(self.scale)
        span = max(_excess_renewals(self.phases, self.scale) - least, 1e-12)
        near = (self.service.excess_renewals(self.scale) - least) / span
        far = 1 + self.apart(_SCALE_SHARE * self.scale) / span
        return otherwise + self.poisson_weight * ((1 - place) * near + place * far - otherwise)


def _excess_renewals(phases: Phases, per_service: float) -> float:
    """`Service.excess_renewals` of two phases with mean 1."""
    if per_service < 1e-4:
        return (phases.moments()[1] - 2) / 2
    transform = float(phases.transform(np.array(per_service)))
    return transform / (1 - transform) - 1 / per_service


def _short_scale(n_servers: int, utilization: float) -> float:
    """q with M/D/c waiting (1 + D_D(q)) / (c (1 - u))."""
    from scipy.optimize import brentq

    found = _deterministic(n_servers, utilization, 1.0)
    target = found.wait_services * n_servers * (1 - utilization) - 1
    if target <= -0.5 + 1e-6:
        return max(12 * (target + 0.5), 0.0)
    high = 2.0 * n_servers + 10
    return float(brentq(lambda q: _deterministic_excess(q) - min(target, _deterministic_excess(high)), 1e-6, high))


def _deterministic_excess(per_service: float) -> float:
    """`Service.excess_renewals` of deterministic service: D_D(q) = 1 / (exp(q) - 1) - 1 / q."""
    if per_service < 1e-4:
        return -0.5
    return float(np.exp(-per_service) / -np.expm1(-per_service)) - 1 / per_service


def _deterministic(n_servers: int, utilization: float, arrival_scv: float) -> _Anchor:
    waiting, mean = deterministic_wait(n_servers, utilization, arrival_scv)
    if waiting < 1e-12:
        return _Anchor(max(waiting, 1e-300), 1 / (n_servers + 1))
    return _Anchor(waiting, mean / waiting)


def _exponential(n_servers: int, utilization: float, arrival_scv: float) -> _Anchor:
    waiting, mean = exponential_wait(n_servers, utilization, arrival_scv)
    return _Anchor(waiting, mean / waiting)


def _chain_delay(n_servers: int, utilization: float, arrival_scv: float, service: Phases) -> Delay:
    """GI/PH/c for Gamma gaps: the chain, in units of exponential service, at the queue it can solve."""
    few = min(n_servers, _CHAIN_SERVERS)
    scv = max(arrival_scv, MIN_TWO_PHASE_SCV)
    busy = max(1 - (1 - utilization) * sqrt(n_servers / few), 0.01)
    waiting, mean = _phase_gaps(few, busy, scv)
    while busy < 0.9 and waiting < _RARE:
        busy = 1 - 0.95 * (1 - busy)
        waiting, mean = _phase_gaps(few, busy, scv)
    solved = phase_chain(few, renewal_arrivals(few * busy, scv), service)
    ratio = solved.waiting_fraction / waiting
    wait_ratio = solved.mean_wait_s / mean / ratio
    exponential = _exponential(n_servers, utilization, arrival_scv)
    if arrival_scv < MIN_TWO_PHASE_SCV:
        ratio, wait_ratio = _moved(n_servers, utilization, arrival_scv, ratio, wait_ratio)
    return Delay(min(exponential.waiting_fraction * ratio, 1.0), exponential.wait_services * wait_ratio, solved)


def _phase_gaps(n_servers: int, utilization: float, arrival_scv: float) -> tuple[float, float]:
    """`exponential_wait` with the gaps that the chain has."""
    gap = gamma_phases(1 / (n_servers * utilization), arrival_scv)
    return exponential_wait_of(n_servers, utilization, lambda s: np.asarray(np.log(gap.transform(s))))


def _moved(
    n_servers: int, utilization: float, arrival_scv: float, ratio: float, wait_ratio: float
) -> tuple[float, float]:
    """Ratios to exponential service known at arrivals of variation 1/2, moved to more regular ones."""
    low, high = _deterministic(n_servers, utilization, 0.5), _exponential(n_servers, utilization, 0.5)
    new_low, new_high = (f(n_servers, utilization, arrival_scv) for f in (_deterministic, _exponential))
    log_span = np.log(new_low.waiting_fraction / new_high.waiting_fraction)
    above = np.log(ratio) / np.log(low.waiting_fraction / high.waiting_fraction)
    moved = float(np.exp((np.log(ratio) + above * log_span) / 2))
    place = (wait_ratio - 1) * high.wait_services / (low.wait_services - high.wait_services)
    return moved, 1 + place * (new_low.wait_services - new_high.wait_services) / new_high.wait_services
