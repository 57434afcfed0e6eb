"""A plan of a large network by relax and fix: thresholds first with fractional sizes, then whole sizes at those
thresholds.

With hundreds of pools and dozens of thresholds the conservative program is too large to be solved at once. Sizes are
fixed last, because there a fraction of an instance matters least: it is a small part of a large fleet.

Source:
    Relax-and-fix heuristic (Pochet and Wolsey 2006, "Production planning by mixed integer programming").
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from planner.errors import UndecidedError
from planner.optimizer.network.cells import Cell, Cells, mix_of, point
from planner.optimizer.network.formulation import build
from planner.optimizer.network.indices import PeriodArc, StreamArc
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.program import MixedIntegerProgram, ProgramSpec, Segments
from planner.optimizer.network.program_solution import chosen_cells, largest_sizes
from planner.optimizer.network.refinement import memory_thresholds, segments_around
from planner.optimizer.network.rows import ProgramSolution
from planner.optimizer.problem import Situation
from planner.optimizer.settings import SETTINGS
from planner.work_clock import work_s


@dataclass(frozen=True)
class RelaxAndFix:
    """A relax-and-fix heuristic for some periods."""

    loads: NetworkLoads
    """Coefficients and limits of the plan."""
    arcs: frozenset[StreamArc]
    """Arcs of every stream that may be used, in any period."""
    segments: Segments
    step_s: float
    """Longest time of a step [s]."""
    deadline: float
    """`work_s()` time to stop at."""

    def thresholds(self, situations: Sequence[Situation]) -> Cells:
        """A threshold and an allowance for every group in some periods, all chosen together.

        Args:
            situations: the periods.

        Returns:
            One cell for every group and period; nothing where time is up.
        """
        coarse = self._solved(situations, self._grid(situations))
        if coarse is None:
            return {}
        near = self._neighbours(_chosen(*coarse))
        return _chosen(*(self._solved(situations, near) or coarse))

    def joined(self, situations: Sequence[Situation], cells: Cells) -> Cells:
        """Thresholds that suit more periods, chosen from those that other periods have.

        Args:
            situations: the periods.
            cells: one cell for every group in the periods that have one.

        Returns:
            One cell for every group and period; nothing where time is up.
        """
        known: dict[int, list[Cell]] = {}
        for (g, _), (cell,) in cells.items():
            known.setdefault(g, []).append(cell)
        offers = {
            (g, s.period): cells.get((g, s.period)) or list(dict.fromkeys(points))
            for g, points in known.items()
            for s in situations
        }
        found = self._solved(situations, offers)
        return {} if found is None else _chosen(*found)

    def allowances(self, situations: Sequence[Situation], cells: Cells) -> Cells:
        """The best of a few allowances for given thresholds.

        Args:
            situations: the periods.
            cells: one cell for every group and period.

        Returns:
            One cell for every group and period; nothing where time is up.
        """
        offers = {at: self.points(at[0], [cell.high_tokens], SETTINGS.near_shares) for at, (cell,) in cells.items()}
        found = self._solved(situations, offers) if all(offers.values()) else None
        return {} if found is None else _chosen(*found)

    def sizes(
        self, situations: Sequence[Situation], cells: Cells
    ) -> tuple[MixedIntegerProgram, ProgramSolution] | None:
        """Whole sizes for some periods at fixed thresholds.

        Args:
            situations: the periods.
            cells: one cell for every group and period.

        Returns:
            The program and its solution; None where none was found in time.
        """
        rough = self._solved(situations, cells)
        if rough is None:
            return None
        near = dict(enumerate(largest_sizes(*rough)))
        pieces = {i: segments_around(self.segments[i], n) for i, n in near.items()}
        return replace(self, segments=pieces)._solved(situations, cells, near)

    def _solved(
        self, situations: Sequence[Situation], offers: Cells, near: Mapping[int, int] | None = None
    ) -> tuple[MixedIntegerProgram, ProgramSolution] | None:
        """The best of the offered cells, with whole sizes near some, or only with whole choices of cells."""
        arcs = frozenset(PeriodArc(q, s.period, arc) for q, arc in self.arcs for s in situations)
        program = build(
            ProgramSpec(self.loads, tuple(situations), offers, self.segments, True, arcs, near_sizes=near or {})
        )
        columns: Collection[int] | None = set(program.cell_choices.values()) if near is None else None
        gap = SETTINGS.cells_gap if near is None else SETTINGS.sizes_gap
        try:
            found = program.rows.solved(min(self.step_s, self.deadline - work_s()), gap, integers=columns)
        except UndecidedError:
            return None
        return None if found is None else (program, found)

    def _grid(self, situations: Sequence[Situation]) -> Cells:
        """Thresholds over all lengths, each with the allowance in the middle."""
        problem = self.loads.problem
        grids = [
            [*mix_of(problem, members).threshold_grid(SETTINGS.n_thresholds), *memory_thresholds(problem, members)]
            for members in problem.groups
        ]
        return {(g, s.period): self.points(g, grid, (0.5,)) for g, grid in enumerate(grids) for s in situations}

    def _neighbours(self, chosen: Cells) -> Cells:
        """The chosen thresholds and those halfway to the next ones of the grid, with several allowances."""
        offers: Cells = {}
        for (g, period), (cell,) in chosen.items():
            mix = mix_of(self.loads.problem, self.loads.problem.groups[g])
            grid, t = mix.threshold_grid(SETTINGS.n_thresholds), cell.low_tokens
            around_t = [*grid[grid < t][-1:], t, *grid[grid > t][:1]]
            halfway = [float(m) for a, b in pairwise(around_t) for m in mix.split_points(float(a), float(b), 1)]
            near = self.points(g, [t, *halfway], SETTINGS.near_shares)
            offers[g, period] = [cell, *(p for p in near if p != cell)]
        return offers

    def points(self, group: int, thresholds: Sequence[float] | np.ndarray, where: Sequence[float]) -> list[Cell]:
        """Thresholds with allowances that leave both parts time to wait.

        Args:
            group: the group.
            thresholds: thresholds to offer [tokens].
            where: allowances, as fractions of the way from the least to the greatest one.

        Returns:
            Cells of one threshold and one allowance; none for thresholds where no allowance leaves both parts time.
        """
        points, used = [], {q for q, _ in self.arcs}
        for t in dict.fromkeys(map(float, thresholds)):
            ranges = [self.loads.shares(q, point(t)) for q in self.loads.problem.groups[group] if q in used]
            least, most = max([0.0, *(low for low, _ in ranges)]), min([1.0, *(high for _, high in ranges)])
            if least <= most:
                points += [point(t, least + (most - least) * w) for w in where]
        return points


def _chosen(program: MixedIntegerProgram, found: ProgramSolution) -> Cells:
    return chosen_cells(program, found.values)
