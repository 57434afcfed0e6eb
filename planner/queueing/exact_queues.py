"""Exactly solved queues with c servers, tabulated over their load: what the waits of general service lie between."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from planner.queueing.chain import phase_survival, solved_chains
from planner.queueing.erlang import Floats
from planner.queueing.lattice import lattice_wait
from planner.queueing.phases import MIN_TWO_PHASE_SCV, gamma_phases, renewal_arrivals, two_phases
from planner.queueing.service import Service
from planner.queueing.single_server import deterministic_wait, exponential_wait, exponential_wait_of

N_NODES = 12
"""Loads at which a queue is solved; between them everything is a polynomial of that many terms."""
N_POINTS = 32**2
"""Points of a tabulated shape."""
RARE = 1e-6
"""P(W > 0) at the lightest load that is solved; below it the ratios to exponential service stay."""
HEAVY = 0.9999
"""The heaviest load that is solved; beyond, waits only change their scale."""
_MEAN_WAITS = 16.0
"""Conditional mean waits that the shapes of deterministic and Erlang-2 service span."""
_DECAYS = 20.0
"""Times that the other shapes fall by e."""
_LATTICE_POINTS = 2**12
_LATTICE_HEAVY = 0.98
"""The heaviest load at which the lattice resolves deterministic service; beyond, its shape nears the exponential."""
_LEAST_SURVIVAL = 1e-9
"""Shapes are tabulated down to this."""
_ANGLES = (2 * np.arange(N_NODES) + 1) * np.pi / (2 * N_NODES)
_TURNS = (-1.0) ** np.arange(N_NODES) * np.sin(_ANGLES)
"""Weights of barycentric interpolation at Chebyshev points of the first kind."""
_ONE = Service.of([1.0])
_KEPT = 256
"""Solved queues that are remembered, each 130 kB."""


@dataclass(frozen=True, eq=False)
class Anchor:
    """A solved queue over its load u, relative to exponential service."""

    loads: Floats
    """Loads at the nodes [fraction], falling, shape (n,): Chebyshev points."""
    columns: Floats
    """At each node, shape (n, 4): log of the ratios of P(W > 0) and of E[W | W > 0] to exponential service, log of the
    tail's decay and log of the table's range, both in conditional mean waits."""
    log_survival: Floats
    """log P(W > x | W > 0) at each node, x spread evenly over the range, shape (n, N_POINTS)."""

    def weights(self, utilization: Floats) -> Floats:
        """Weight of each node in the value at each load; loads beyond the nodes count as the last.

        Equation: barycentric interpolation at Chebyshev points of the first kind.

        Args:
            utilization: loads [fraction], shape (k,).

        Returns:
            Weights [fraction], shape (k, n), each row of sum 1.

        Source: Berrut and Trefethen (2004), SIAM Review 46(3), equations 4.2 and 5.3.
        """
        apart = np.minimum(np.maximum(utilization, self.loads[-1]), self.loads[0])[:, None] - self.loads
        share = _TURNS / np.where(apart == 0, 1e-100, apart)
        return np.asarray(share / share.sum(axis=1, keepdims=True))


def _nodes(low: float) -> Floats:
    return np.asarray((low + HEAVY) / 2 + (HEAVY - low) / 2 * np.cos(_ANGLES))


@cache
def _lightest(wait: Callable[[int, float, float], tuple[float, float]], n_servers: int, arrival_scv: float) -> float:
    """Load at which RARE requests wait [fraction], to a part in 100."""
    low, high = 1e-9, 0.95
    while high > 1.01 * low:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if wait(n_servers, middle, arrival_scv)[0] < RARE else (low, middle)
    return high


@lru_cache(maxsize=_KEPT)
def deterministic_anchor(n_servers: int, arrival_scv: float) -> Anchor:
    """GI/D/c: every c-th request meets the same server, a queue of its own with the sum of c gaps.

    Args:
        n_servers: servers c [count].
        arrival_scv: squared coefficient of variation of the gaps between arrivals [fraction], Gamma.

    Returns:
        The solved queue.

    Valid: exact but for the lattice of the shape, errors below 1e-3.

    Source: as at `deterministic_wait` and `lattice_wait`.
    """
    loads = _nodes(_lightest(deterministic_wait, n_servers, arrival_scv))
    columns, shapes = [], []
    for load in loads:
        found, base = (f(n_servers, float(load), arrival_scv) for f in (deterministic_wait, exponential_wait))
        shape, decay = _deterministic_shape(n_servers, float(load), arrival_scv)
        shapes.append(shape)
        ratio = found[0] / base[0]
        columns.append([ratio, found[1] / base[1] / ratio, decay, _MEAN_WAITS])
    return Anchor(loads, np.log(columns), _logs(np.array(shapes)))


def _deterministic_shape(n_servers: int, load: float, arrival_scv: float) -> tuple[Floats, float]:
    """P(W > x | W > 0) of GI/D/c over _MEAN_WAITS, and its decay in conditional mean waits."""
    wait = lattice_wait(min(load, _LATTICE_HEAVY), _ONE, arrival_scv / n_servers, _LATTICE_POINTS)
    mean = wait.mean_s / wait.waiting_fraction
    x = np.linspace(0.0, _MEAN_WAITS, N_POINTS)
    end = int(np.searchsorted(-wait.survival_given_wait, -_LEAST_SURVIVAL)) - 1
    log_kept = np.log(wait.survival_given_wait[: end + 1])
    log_shape = np.interp(x * mean, wait.step_s * np.arange(end + 1), log_kept)
    log_shape -= wait.decay_per_s * np.maximum(x * mean - wait.step_s * end, 0.0)
    near = min((1 - load) / (1 - _LATTICE_HEAVY), 1.0)
    return near * np.exp(log_shape) + (1 - near) * np.exp(-x), 1 + near * (wait.decay_per_s * mean - 1)


@lru_cache(maxsize=_KEPT)
def phase_anchor(n_servers: int, arrival_scv: float, scv: float, third: float) -> Anchor:
    """GI/PH/c with service in two phases of mean 1, relative to exponential service with the same gaps.

    Args:
        n_servers: servers c [count].
        arrival_scv: squared coefficient of variation of the gaps between arrivals [fraction], at least 1/2; two phases
            with the moments of Gamma gaps stand for them.
        scv: squared coefficient of variation of the service [fraction], at least 1/2.
        third: third moment of the service over its mean cubed.

    Returns:
        The solved queue; shapes of Erlang-2 service span as many mean waits as those of deterministic service.

    Valid: exact.

    Source: as at `solved_chains`.
    """
    loads = _nodes(_lightest(phase_gaps_wait, n_servers, arrival_scv))
    arrivals = [renewal_arrivals(n_servers * load, arrival_scv) for load in loads]
    matrices = (np.array([x.quiet_per_s for x in arrivals]), np.array([x.arrive_per_s for x in arrivals]))
    solved = solved_chains(n_servers, *matrices, two_phases(1.0, scv, third))
    base = np.array([phase_gaps_wait(n_servers, load, arrival_scv) for load in loads])
    mean = solved.mean_wait_s / solved.waiting_fraction
    decay = np.linalg.eigvals(-solved.waits_per_s).real.min(axis=1) * mean
    spans = np.full_like(decay, _MEAN_WAITS) if scv == MIN_TWO_PHASE_SCV else _DECAYS / decay
    survival = phase_survival(
        solved.waits_per_s, solved.completes_per_s, solved.start, spans * mean / (N_POINTS - 1), N_POINTS
    )
    ratio = solved.waiting_fraction / base[:, 0]
    columns = np.stack([ratio, solved.mean_wait_s / base[:, 1] / ratio, decay, spans], axis=1)
    return Anchor(loads, np.log(columns), _logs(survival))


def phase_gaps_wait(n_servers: int, utilization: float, arrival_scv: float) -> tuple[float, float]:
    """`exponential_wait` with the gaps that the chain has."""
    if arrival_scv == 1.0:
        return exponential_wait(n_servers, utilization)
    gap = gamma_phases(1 / (n_servers * utilization), arrival_scv)
    return exponential_wait_of(n_servers, utilization, lambda s: np.asarray(np.log(gap.transform(s))))


def _logs(survival: Floats) -> Floats:
    return np.log(np.minimum.accumulate(np.maximum(survival, _LEAST_SURVIVAL), axis=1))
