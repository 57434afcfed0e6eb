"""What a search of a network has found: a plan for every period, a bound, and what both are looked for with."""

from dataclasses import dataclass

import numpy as np

from planner.optimizer.network.cells import Cells
from planner.optimizer.network.evaluate import Settled
from planner.optimizer.network.large import Way
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.problem import NetworkProblem, Situation

GAP_TARGET = 0.01
"""Relative distance of plan and bound at which a network counts as solved."""
Pieces = dict[int, list[tuple[int, int]]]


@dataclass(frozen=True)
class NetworkSolution:
    """A plan for every period, and how good it is proven to be."""

    settled: tuple[Settled, ...]
    """What happens in every period."""
    ports: tuple[tuple[int, ...], ...]
    scale: float
    """Factor on the demand that is served."""
    objective: float
    """USD per hour, or accelerators where a price is missing, or the scale."""
    bound: float

    @property
    def gap(self) -> float:
        """Relative distance of objective and bound."""
        return abs(self.bound - self.objective) / max(abs(self.objective), 1e-12)


@dataclass
class SearchState:
    """Where a search stands."""

    problem: NetworkProblem
    active: list[Situation]
    cells: Cells
    segments: Pieces
    patience: list[float]
    optimistic: NetworkLoads
    """What bounds count with."""
    target: float
    """Relative distance of plan and bound at which to stop."""
    best: NetworkSolution | None = None
    polished: NetworkSolution | None = None
    """The best that was ever made better by parts."""
    moved: NetworkSolution | None = None
    """The best from which moves between pools were tried."""
    bound: float = -np.inf
    port_step: int = 0
    """Size of the ports that links in use have at least where a large plan is made better: first the smallest."""
    is_large: bool = False
    ways: frozenset[Way] = frozenset()
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


def is_better(state: SearchState, solution: NetworkSolution) -> bool:
    """Whether a plan is the best so far."""
    return state.best is None or solution.objective * state.sign < state.best.objective * state.sign
