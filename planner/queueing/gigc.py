"""First come, first served with c servers, renewal arrivals and any service: who waits, and how long on average."""

from dataclasses import dataclass
from functools import cache, cached_property
from math import inf, sqrt

import numpy as np

from planner.queueing.erlang import Floats, erlang_c
from planner.queueing.exact_queues import HEAVY, Anchor, deterministic_anchor, phase_anchor
from planner.queueing.phases import MIN_TWO_PHASE_SCV, Phases, two_phases
from planner.queueing.service import Service
from planner.queueing.single_server import exponential_wait

_CHAIN_SERVERS = 32
"""Servers up to which the chain itself is solved; beyond, its ratio to exponential service is taken from there."""
_DETERMINISTIC_SERVERS = 8192
"""The same of deterministic service: with more servers hardly anybody waits at any load that is tabulated."""
_WAITING_POWER = 0.6
"""Exponent of the variation by which log P(W > 0) moves from deterministic to Erlang-2 service."""
_SCALE_SHARE = 0.35
"""Share of the M/D/c time scale at which a service is compared with its two phases."""


@dataclass(frozen=True, eq=False)
class Delay:
    """Who waits, and how long those do, in mean services, at each load."""

    waiting_fraction: Floats
    """P(W > 0) [fraction], shape (n,)."""
    wait_services: Floats
    """E[W | W > 0] / E[S] [services], shape (n,)."""
    phase_waiting_fraction: Floats
    """P(W > 0) of the solved queue with two phases of service [fraction], shape (n,)."""
    phase_wait_services: Floats
    """E[W | W > 0] / E[S] of that queue [services], shape (n,)."""


def delay(n_servers: int, utilization: float | Floats, service: Service, arrival_scv: float = 1.0) -> Delay:
    """Waiting probability and mean conditional wait of GI/G/c with Gamma gaps between arrivals.

    Equation: between solved queues. With v the service's squared variation and a the arrivals', D the exact GI/D/c, M
        the exact GI/M/c and P the exact chain with two phases of the service's three moments (Erlang-2 for v <= 1/2),
        Poisson arrivals have
        v >= 1/2: C = C_P, w = w_P + d / (c (1 - u));
        v < 1/2: log C = log C_D + (2 v)^0.6 (log C_P - log C_D), w = w_D + g (w_P - w_D);
        d = D_S(0.35 q) - D_P(0.35 q), with D_S(q) `Service.excess_renewals` and q(c, u) such that M/D/c waits
        (1 + D_D(q)) / (c (1 - u)); g = (1 - 2 v) (D_S(q) - D_D(q)) / h + 2 v (1 + (d - v/2 + 1/4) / h),
        h = D_P(q) - D_D(q).
        Other arrivals change that by what they change for D and for P, weighted by peakedness: with
        z = 1 + (a - 1) E[min(S, S')] / E[S] and p = (1 / z_S - 1 / z_D) / (1 / z_P - 1 / z_D),
        log C = log C(1) + (1 - p) log(C_D(a) / C_D(1)) + p log(C_P(a) / C_P(1)),
        w = w(1) + (1 - p) (w_D(a) - w_D(1)) + p (w_P(a) - w_P(1)): the number that c servers without a queue
        would hold has variance z c u, so that log C falls as 1 / z, and in heavy traffic any p gives the limit.
        The chain stands for Gamma gaps by three moments and is scaled by the exact GI/M/c over that with its gaps;
        where a < 1/2 it is solved at 1/2, and moved by the geometric mean of GI/M/c's ratio and of its place between
        D and M. Beyond 32 servers the ratio of chain to M is that of 32 servers with the same (1 - u) sqrt(c).

    Args:
        n_servers: servers c [count], at least 2; one server is exact in `gigc_wait`.
        utilization: busy share u of each server [fraction], 0 < u < 1, a number or shape (n,).
        service: the service time S.
        arrival_scv: squared coefficient of variation a of the gaps [fraction], above 0.

    Returns:
        P(W > 0) and E[W | W > 0] / E[S], shape (n,), (1,) for a number.

    Raises:
        ValueError: an argument is out of range.

    Valid: exact for deterministic, exponential and (Poisson) two-phase service but for interpolation over the load:
        1e-4 with Poisson arrivals, else 1e-3, 2e-2 at the lightest loads; errors as at `gigc_wait`. P(W > 0) below
        1e-6 is of the right order only.

    Source: `deterministic_wait`, `exponential_wait`, `solved_chains` for the exact queues; Halfin and Whitt (1981),
        Oper. Res. 29(3), for many servers; Whitt (1984), AT&T Bell Lab. Tech. J. 63, for peakedness; the
        interpolation is this project's, two constants fitted to simulations, its form for other than Poisson arrivals
        chosen by the ones of `tests/benchmarks/bench_queueing.py`, which also judges it by others (`--unseen`).

    >>> found = delay(4, 0.8, Service.of([1.0]))
    >>> found.waiting_fraction.round(4).tolist(), (found.waiting_fraction * found.wait_services).round(4).tolist()
    ([0.5783], [0.3861])
    """
    loads = np.atleast_1d(np.asarray(utilization, dtype=np.float64))
    if n_servers < 1 or not ((loads > 0) & (loads < 1)).all() or not 0 < arrival_scv < inf:
        raise ValueError(
            "a queue needs n_servers >= 1, 0 < utilization < 1 and arrival_scv > 0, "
            f"got {n_servers}, {utilization}, {arrival_scv}"
        )
    return _Queue(n_servers, loads, service, arrival_scv).found


@dataclass(frozen=True, eq=False)
class _Solved:
    """A solved queue at each load: P(W > 0), E[W | W > 0] / E[S]."""

    waiting_fraction: Floats
    wait_services: Floats


@dataclass(frozen=True, eq=False)
class _Queue:
    n_servers: int
    utilization: Floats
    service: Service
    arrival_scv: float

    @property
    def found(self) -> Delay:
        here = self._poisson if self.arrival_scv == 1.0 else self._renewal
        high = self.phase(self.arrival_scv)
        waiting = np.minimum(here.waiting_fraction, 1.0)
        return Delay(waiting, here.wait_services, np.minimum(high.waiting_fraction, 1.0), high.wait_services)

    @cached_property
    def phases(self) -> Phases:
        """Two phases with the service's moments, mean 1."""
        return two_phases(1.0, *phase_moments(self.service))

    @cached_property
    def _known(self) -> dict[float, _Solved]:
        return {}

    @cached_property
    def _known_phases(self) -> dict[float, _Solved]:
        return {}

    def exponential(self, arrival_scv: float) -> _Solved:
        if arrival_scv not in self._known:
            self._known[arrival_scv] = _exponential(self.n_servers, self.utilization, arrival_scv)
        return self._known[arrival_scv]

    def deterministic(self, arrival_scv: float) -> _Solved:
        return _deterministic(self.n_servers, self.utilization, arrival_scv, self.exponential(arrival_scv))

    def phase(self, arrival_scv: float) -> _Solved:
        """GI/PH/c for Gamma gaps: the chain, in units of exponential service, at the queue it can solve."""
        if arrival_scv not in self._known_phases:
            self._known_phases[arrival_scv] = self._phase(arrival_scv)
        return self._known_phases[arrival_scv]

    def _phase(self, arrival_scv: float) -> _Solved:
        ratio, wait_ratio = self._over_exponential(max(arrival_scv, MIN_TWO_PHASE_SCV))
        if arrival_scv < MIN_TWO_PHASE_SCV:
            ratio, wait_ratio = self._moved(arrival_scv, ratio, wait_ratio)
        base = self.exponential(arrival_scv)
        return _Solved(base.waiting_fraction * ratio, base.wait_services * wait_ratio)

    def _over_exponential(self, arrival_scv: float) -> tuple[Floats, Floats]:
        anchor, loads = chain_anchor(self.n_servers, self.utilization, self.service, arrival_scv)
        found = np.exp(anchor.weights(loads) @ anchor.columns[:, :2])
        return found[:, 0], found[:, 1]

    def _moved(self, arrival_scv: float, ratio: Floats, wait_ratio: Floats) -> tuple[Floats, Floats]:
        """Ratios to exponential service known at arrivals of variation 1/2, moved to more regular ones."""
        low, high = self.deterministic(MIN_TWO_PHASE_SCV), self.exponential(MIN_TWO_PHASE_SCV)
        new_low, new_high = self.deterministic(arrival_scv), self.exponential(arrival_scv)
        log_span = np.log(new_low.waiting_fraction / new_high.waiting_fraction)
        above = np.log(ratio) / np.log(low.waiting_fraction / high.waiting_fraction)
        place = (wait_ratio - 1) * high.wait_services / (low.wait_services - high.wait_services)
        wait = place * (new_low.wait_services - new_high.wait_services) / new_high.wait_services
        return np.exp((np.log(ratio) + above * log_span) / 2), 1 + wait

    @property
    def _renewal(self) -> _Solved:
        """Wait with other arrivals than Poisson ones, derived from the wait with these."""
        base, share = self._poisson, self._peaked_share
        low, high = (f(self.arrival_scv) for f in (self.deterministic, self.phase))
        low_base, high_base = (f(1.0) for f in (self.deterministic, self.phase))
        low_log = np.log(low.waiting_fraction / low_base.waiting_fraction)
        high_log = np.log(high.waiting_fraction / high_base.waiting_fraction)
        waiting = base.waiting_fraction * np.exp((1 - share) * low_log + share * high_log)
        wait = base.wait_services + (1 - share) * (low.wait_services - low_base.wait_services)
        wait = wait + share * (high.wait_services - high_base.wait_services)
        return _Solved(waiting, np.maximum(wait, 0.5 * np.minimum(low.wait_services, high.wait_services)))

    @property
    def _peaked_share(self) -> float:
        """p: where the service lies between deterministic (0) and two-phase service (1) by its peakedness."""
        phases, apart = _lesser_fraction(self.phases), self.arrival_scv - 1
        of_service, of_phases = (1 / (1 + apart * x) for x in (self.service.lesser_fraction, phases))
        return (of_service - 1 / self.arrival_scv) / (of_phases - 1 / self.arrival_scv)

    @cached_property
    def _poisson(self) -> _Solved:
        return self._erratic if self.service.scv >= MIN_TWO_PHASE_SCV else self._regular

    @property
    def _spare(self) -> Floats:
        return np.asarray((1 - self.utilization) * self.n_servers)

    def _apart(self, scale: Floats) -> Floats:
        """D_S - D_P [renewals]."""
        return self.service.excess_renewals(scale) - _excess_renewals(self.phases, scale)

    @property
    def _erratic(self) -> _Solved:
        """Squared variation of 1/2 or more."""
        high, low = self.phase(1.0), self.deterministic(1.0)
        short = self._apart(_SCALE_SHARE * _short_scale(low.wait_services * self._spare - 1))
        wait = np.maximum(high.wait_services + short / self._spare, 0.5 * high.wait_services)
        return _Solved(high.waiting_fraction, wait)

    @property
    def _regular(self) -> _Solved:
        """Squared variation below 1/2: between deterministic and Erlang-2 service."""
        low, high, place = self.deterministic(1.0), self.phase(1.0), self.service.scv / MIN_TWO_PHASE_SCV
        log_ratio = np.log(high.waiting_fraction / low.waiting_fraction)
        waiting = low.waiting_fraction * np.exp(place**_WAITING_POWER * log_ratio)
        scale = _short_scale(low.wait_services * self._spare - 1)
        least = _deterministic_excess(scale)
        span = np.maximum(_excess_renewals(self.phases, scale) - least, 1e-12)
        near = (self.service.excess_renewals(scale) - least) / span
        far = 1 + self._apart(_SCALE_SHARE * scale) / span
        wait = low.wait_services + ((1 - place) * near + place * far) * (high.wait_services - low.wait_services)
        return _Solved(waiting, np.maximum(wait, 0.5 * np.minimum(low.wait_services, high.wait_services)))


def phase_moments(service: Service) -> tuple[float, float]:
    """Squared variation and third moment over mean cubed of the two phases that stand for a service."""
    if service.scv <= MIN_TWO_PHASE_SCV:
        return MIN_TWO_PHASE_SCV, 3.0
    return service.scv, service.third_s3 / service.mean_s**3


def chain_anchor(n_servers: int, utilization: Floats, service: Service, arrival_scv: float) -> tuple[Anchor, Floats]:
    """The solved queue whose ratios to exponential service a pool has, and the loads at which it has them."""
    few, loads = _fewer(n_servers, utilization, _CHAIN_SERVERS)
    return phase_anchor(few, arrival_scv, *phase_moments(service)), np.minimum(loads, HEAVY)


def regular_anchor(n_servers: int, utilization: Floats, arrival_scv: float) -> tuple[Anchor, Floats]:
    """The same for deterministic service."""
    few, loads = _fewer(n_servers, utilization, _DETERMINISTIC_SERVERS)
    return deterministic_anchor(few, arrival_scv), loads


def _fewer(n_servers: int, utilization: Floats, most: int) -> tuple[int, Floats]:
    """At most so many servers that stand for all, with the loads at which as few wait.

    Equation: (1 - u) sqrt(c) is kept.

    Source: Halfin and Whitt (1981), Operations Research 29(3): the probability to wait then hardly changes with c.
    """
    few = min(n_servers, most)
    return few, np.maximum(1 - (1 - utilization) * sqrt(n_servers / few), 0.01) if n_servers > few else utilization


def _exponential(n_servers: int, utilization: Floats, arrival_scv: float) -> _Solved:
    if arrival_scv == 1.0:
        waiting = np.maximum(erlang_c(n_servers, n_servers * utilization), 1e-300)
        return _Solved(waiting, 1 / (n_servers * (1 - utilization)))
    found = np.array([exponential_wait(n_servers, float(load), arrival_scv) for load in utilization])
    return _Solved(found[:, 0], found[:, 1] / found[:, 0])


def _deterministic(n_servers: int, utilization: Floats, arrival_scv: float, base: _Solved) -> _Solved:
    anchor, loads = regular_anchor(n_servers, utilization, arrival_scv)
    ratios = np.exp(anchor.weights(loads) @ anchor.columns[:, :2])
    return _Solved(base.waiting_fraction * ratios[:, 0], base.wait_services * ratios[:, 1])


def _excess_renewals(phases: Phases, per_service: Floats) -> Floats:
    """`Service.excess_renewals` of two phases with mean 1, the first leading to the second."""
    q = np.maximum(per_service, 1e-4)
    first, second = -phases.rates_per_s[0, 0], -phases.rates_per_s[1, 1]
    transform = second / (second + q) * (1 - phases.start[0] * q / (first + q))
    return np.asarray(transform / (1 - transform) - 1 / q)


def _lesser_fraction(phases: Phases) -> float:
    """`Service.lesser_fraction` of two phases with mean 1."""
    identity = np.eye(len(phases.start))
    both = np.kron(phases.rates_per_s, identity) + np.kron(identity, phases.rates_per_s)
    return float(np.kron(phases.start, phases.start) @ np.linalg.solve(-both, np.ones(len(both))))


def _short_scale(excess: Floats) -> Floats:
    """q with D_D(q) = `excess` [1 / service]: the time over which M/D/c looks at its servers."""
    scales, found = _deterministic_scales()
    return np.interp(excess, found, scales)


@cache
def _deterministic_scales() -> tuple[Floats, Floats]:
    scales = np.append(0.0, np.geomspace(1e-3, 2e3, 4000))
    return scales, _deterministic_excess(scales)


def _deterministic_excess(per_service: Floats) -> Floats:
    """`Service.excess_renewals` of deterministic service: D_D(q) = 1 / (exp(q) - 1) - 1 / q."""
    q = np.maximum(per_service, 1e-4)
    return np.asarray(np.where(per_service < 1e-4, -0.5, np.exp(-q) / -np.expm1(-q) - 1 / q))
