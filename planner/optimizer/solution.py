"""Solution of a search: sizes, thresholds and rates of every period, and how good they are proven to be."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.optimizer.network.period_operation import PeriodOperation
from planner.optimizer.problem import Problem

if TYPE_CHECKING:
    from planner.optimizer.single_route import RoutedSolution

GAP_TARGET = 0.01
"""Relative distance of plan and bound at which a network counts as solved."""
ANY_PLAN = 1e9
"""A gap at which a search stops with its first plan."""


@dataclass(frozen=True)
class Solution:
    """A plan for every period, and how good it is proven to be."""

    operations: tuple[PeriodOperation, ...]
    """What happens in every period."""
    ports: tuple[tuple[int, ...], ...]
    scale: float
    """Factor on the demand that is served."""
    objective: float
    """USD per hour, or accelerators where a price is missing; the least TTFT [s]; else the scale that is sought."""
    bound: float
    """Proven bound of the objective."""
    target: float = GAP_TARGET
    """Gap that counts as none."""
    highest_req_per_s: float | None = None
    """Most that the sizes serve; None where that was not sought: then at the shares of the plan."""
    goodput_req_per_s: float | None = None
    """Highest rate at which promises hold; None where that was not sought."""
    always: "Solution | None" = None
    """Where pools are rented by the period: the best plan with all of them rented at all times; None where none is."""
    routed: "RoutedSolution | None" = None
    """Where the problem `has_one_route`: the threshold and the rate."""

    @property
    def gap(self) -> float:
        """Relative distance of objective and bound."""
        return abs(self.bound - self.objective) / max(abs(self.objective), 1e-12)

    @property
    def is_optimal(self) -> bool:
        """True if the gap counts as none."""
        return self.gap <= self.target

    @property
    def largest_sizes(self) -> tuple[int, ...]:
        """Most instances of every pool in any period, shape (pools,) [count]."""
        return tuple(map(max, zip(*(one.n_instances for one in self.operations), strict=True)))

    def at(self, ratio: float) -> "Solution":
        """The same sizes, ways and thresholds at a part of the demand, in every stream and period alike."""
        n_streams = 1 + max((d.stream for one in self.operations for d in one.decodings), default=0)
        operations = tuple(one.scaled_to(one.period, [ratio] * n_streams) for one in self.operations)
        return replace(self, operations=operations, scale=self.scale * ratio)


def objective_unit(problem: Problem) -> float:
    """Value of a unit of a solution's objective in an answer: a scale of the demand is its requests per second."""
    return 1.0 if problem.is_min_cost or problem.is_min_ttft else problem.mean_req_per_s
