"""Sizes in the order of what capacity alone allows: each bounds all that are not settled yet."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from planner.optimizer.goodput import first_threshold_cells
from planner.optimizer.network.cells import Cell
from planner.optimizer.network.formulation import build
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.program import MixedIntegerProgram, ProgramSpec, sizes_of
from planner.optimizer.network.program_solution import largest_sizes
from planner.optimizer.problem import Problem, Situation
from planner.optimizer.sized import Sizing

NO_SCALE = 1e-9
"""A scale of the demand at which nothing is served."""


class Proposal(NamedTuple):
    """Sizes, and what no sizes that are not settled pass."""

    sizing: Sizing
    bound: float
    """Rate [req/s], bill [USD/h], or accelerators where a price is missing."""


@dataclass(frozen=True, eq=False)
class Proposals:
    """The best sizes of a problem with one route that are not settled, by capacity alone.

    Args:
        problem: the question; what it promises of TTFT counts for nothing here.
        program: its bound over intervals of thresholds.
    """

    problem: Problem
    program: MixedIntegerProgram

    @classmethod
    def of(cls, problem: Problem) -> "Proposals":
        """The proposals of a problem of which nothing is settled.

        Args:
            problem: the question.
        """
        unpromised = replace(problem, classes=tuple(replace(spec, slo=None) for spec in problem.classes))
        ends = zip(*first_threshold_cells(problem), strict=True)
        cells = {(0, 0): [Cell(float(low), float(high), 0.5, 0.5) for low, high in ends]}
        sizes = {i: [(1, max(pool.max_instances, 1))] for i, pool in enumerate(problem.pools)}
        loads = NetworkLoads(unpromised, is_optimistic=True)
        return cls(problem, build(ProgramSpec(loads, (Situation(0),), cells, sizes)))

    def settle(self, sizing: Sizing) -> None:
        """Leave out sizes and all smaller ones from now on: every other has more of something.

        Equation:
            n_i >= (s_i + 1) b_i for pools, and the like for ports, sum of b >= 1 over both, b binary

        Args:
            sizing: the sizes s.
        """
        rows, more = self.program.rows, list[int]()
        for terms, most, settled in self._sizes(sizing):
            if most > settled:
                more.append(rows.column(f"more_{len(rows.names)}", 0, 1, is_integer=True))
                rows.row(f"exceed_{more[-1]}", [*terms, (more[-1], -(settled + 1.0))], low=0)
        rows.row(f"exceed_settled_sizes_{len(rows.row_names)}", [(b, 1.0) for b in more], low=1)

    def _sizes(self, sizing: Sizing) -> Sequence[tuple[list[tuple[int, float]], int, int]]:
        """Instances of every pool, and ports of every tier, each with its most and what is settled of it."""
        found = [
            ([(n, 1.0) for n in sizes_of(self.program, i, 0)], pool.max_instances, settled)
            for i, (pool, settled) in enumerate(zip(self.problem.pools, sizing.n_instances, strict=True))
        ]
        for row, link, ports in zip(self.program.ports, self.problem.links, sizing.n_ports, strict=True):
            each = zip(row, link.tiers, ports, strict=True)
            found += [([(m, 1.0)], tier.max_ports, settled) for m, tier, settled in each]
        return found

    def best(self, time_limit_s: float) -> Proposal | None:
        """The best sizes that are not settled; None where there are none, or none that serves anything.

        Args:
            time_limit_s: work that it may take [s].

        Raises:
            UndecidedError: time is up without them.
        """
        found = self.program.rows.solved(time_limit_s, 0.0)
        if found is None or (not self.problem.is_min_cost and found.bound >= -NO_SCALE):
            return None
        ports = tuple(tuple(round(found.values[m]) for m in row) for row in self.program.ports)
        bound = found.bound if self.problem.is_min_cost else -found.bound * self.problem.mean_req_per_s
        return Proposal(Sizing(tuple(largest_sizes(self.program, found)), ports), bound)
