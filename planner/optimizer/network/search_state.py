"""The state of the search of a network: incumbent, bound, and what the next programs are built from."""

from dataclasses import dataclass, field

import numpy as np

from planner.optimizer.network.batch_needs import Need
from planner.optimizer.network.cells import Cells
from planner.optimizer.network.indices import StreamArc
from planner.optimizer.network.loads import BatchLimit, NetworkLoads
from planner.optimizer.problem import Problem, Situation
from planner.optimizer.solution import Solution

Pieces = dict[int, list[tuple[int, int]]]


@dataclass
class SearchState:
    """The state of a search."""

    problem: Problem
    active: list[Situation]
    """Situations in the programs."""
    cells: Cells
    segments: Pieces
    """Segments of the sizes of every pool."""
    slo_factors: list[float]
    """Factor on the TTFT of the SLO of every class: below 1 where the best model of waits found it missed."""
    optimistic: NetworkLoads
    """Coefficients of bounds."""
    target: float
    """Relative distance of plan and bound at which to stop."""
    best: Solution | None = None
    locally_searched: Solution | None = None
    """The plan that local search was last tried on."""
    bound: float = -np.inf
    """Proven bound of the objective as programs minimise it."""
    port_step: int = 0
    """Least size, by index, of the ports of a link in use in plans of a large network: first the smallest."""
    is_large: bool = False
    """Whether programs are too large to be solved with integers at once."""
    batches: dict[tuple[int, int], BatchLimit] = field(default_factory=dict)
    """How colocated pools count in plans, by pool and period, as far as batches were found."""
    most_busy: dict[int, float] = field(default_factory=dict)
    """Part of the instances of a colocated pool that may be busy in plans, below 1 where waits made requests late."""
    needs: dict[Need, float] = field(default_factory=dict)
    """Instances for a request per second of colocated pools at the least, in cells that some bound chose [s];"""
    judged: set[Need] = field(default_factory=set)
    """those of which count with promises."""
    arcs: frozenset[StreamArc] = frozenset()
    """Arcs that some relaxed solution has used: those that plans of a large network may use."""

    @property
    def gap(self) -> float:
        """Relative distance of the best plan and the bound [fraction]; inf without a plan."""
        if self.best is None:
            return np.inf
        return (self.best.objective * self.sign - self.bound) / max(abs(self.best.objective), 1e-12)

    @property
    def sign(self) -> float:
        """1 where the objective is minimised, -1 for a scale, which programs minimise with a minus."""
        return 1.0 if self.problem.is_min_cost else -1.0


def is_better(state: SearchState, solution: Solution) -> bool:
    """True if a plan is better than the best so far."""
    return state.best is None or solution.objective * state.sign < state.best.objective * state.sign
