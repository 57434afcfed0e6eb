"""Queues one at a time: what the package solves for many arrival rates at once, taken at one."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.queueing.chain import Chains, phase_survival, solved_chains
from planner.queueing.decode_admission import place_waits
from planner.queueing.phases import MarkovArrivals, Phases
from planner.queueing.service import Service
from planner.queueing.wait import Wait

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Chain:
    """The one queue of a stack of one."""

    stack: Chains

    @property
    def waiting_fraction(self) -> float:
        """P(W > 0) [fraction]."""
        return float(self.stack.waiting_fraction[0])

    @property
    def mean_wait_s(self) -> float:
        """E[W] [s]."""
        return float(self.stack.mean_wait_s[0])

    def survival_given_wait(self, step_s: float, n_points: int) -> Floats:
        """P(W > k step | W > 0), shape (n_points,)."""
        found = self.stack
        (survival,) = phase_survival(found.waits_per_s, found.completes_per_s, found.start, [step_s], n_points)
        return np.asarray(survival)


def solved_chain(n_servers: int, arrivals: MarkovArrivals, service: Phases) -> Chain:
    """The one chain of `solved_chains`."""
    return Chain(solved_chains(n_servers, arrivals.quiet_per_s[None], arrivals.arrive_per_s[None], service))


def place_wait(
    arrival_req_per_s: float, outputs_tokens: Service, step_s: Floats, n_instances: int = 1, arrival_scv: float = 1.0
) -> Wait:
    """The one wait of `place_waits`."""
    (found,) = place_waits(np.array([arrival_req_per_s]), outputs_tokens, step_s, n_instances, arrival_scv)
    return found
