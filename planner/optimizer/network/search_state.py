"""Where the search of a network stands."""

from dataclasses import dataclass

import numpy as np

from planner.optimizer.network.cells import Cells
from planner.optimizer.network.indices import StreamArc
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.problem import Problem, Situation
from planner.optimizer.solution import Solution

Pieces = dict[int, list[tuple[int, int]]]


@dataclass
class SearchState:
    """Where a search stands."""

    problem: Problem
    active: list[Situation]
    cells: Cells
    segments: Pieces
    slo_factors: list[float]
    optimistic: NetworkLoads
    """What bounds count with."""
    target: float
    """Relative distance of plan and bound at which to stop."""
    best: Solution | None = None
    recreated: Solution | None = None
    """The best that was ever made better by parts."""
    locally_searched: Solution | None = None
    """The best from which moves between pools were tried."""
    bound: float = -np.inf
    port_step: int = 0
    """Size of the ports that links in use have at least where a large plan is made better: first the smallest."""
    is_large: bool = False
    arcs: frozenset[StreamArc] = frozenset()
    """What relaxed answers have used in any period: where plans of a large network are sought."""

    @property
    def gap(self) -> float:
        """Relative distance of the best plan and the bound."""
        if self.best is None:
            return np.inf
        return (self.best.objective * self.sign - self.bound) / max(abs(self.best.objective), 1e-12)

    @property
    def sign(self) -> float:
        """Objectives are kept low inside: a scale counts negative."""
        return 1.0 if self.problem.is_min_cost else -1.0


def is_better(state: SearchState, solution: Solution) -> bool:
    """Whether a plan is the best so far."""
    return state.best is None or solution.objective * state.sign < state.best.objective * state.sign
