"""Relaxations of a large network: arcs in use, periods that bind, a bound, and thresholds that suit whole sizes.

A relaxation is the program without integers. Every threshold that makes a difference, or a sample of them, is a cell of
its own; where lengths are continuous, cells are narrow intervals. What a coarse relaxation of the peak periods does not
use is left out where plans are sought, never where the bound is.

Source:
    Linear relaxation and duality (Bertsimas and Tsitsiklis 1997, "Introduction to linear optimization", chapter 4).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.errors import UndecidedError
from planner.optimizer.network.cells import Cell, Cells
from planner.optimizer.network.formulation import build
from planner.optimizer.network.indices import PeriodArc, StreamArc
from planner.optimizer.network.lagrangian import LagrangianRelaxation
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.program import MixedIntegerProgram, ProgramSpec, Segments
from planner.optimizer.network.program_solution import TINY, largest_sizes, used_arcs
from planner.optimizer.network.refinement import finest_cells, segments_around
from planner.optimizer.network.rows import ProgramSolution
from planner.optimizer.problem import Situation
from planner.optimizer.settings import SETTINGS
from planner.ties import SOLVED, largest_first
from planner.work_clock import work_s


@dataclass(frozen=True)
class Relaxation:
    """The program of some periods without integers, and its optimum."""

    program: MixedIntegerProgram
    solution: ProgramSolution

    def arcs(self) -> frozenset[StreamArc]:
        """Arcs that streams use, in any period."""
        return frozenset(StreamArc(q, arc) for q, _, arc in used_arcs(self.program, self.solution))

    def segments(self) -> dict[int, list[tuple[int, int]]]:
        """Segments of the sizes of every pool, cut around the sizes of the optimum."""
        segments = self.program.spec.segments
        return {i: segments_around(segments[i], n) for i, n in enumerate(largest_sizes(self.program, self.solution))}

    def period_prices(self) -> NDArray[np.float64]:
        """Shadow price of prefill capacity in every period, summed over pools.

        Equation:
            minus the sum over the rows about prefill work of their dual values

        Returns:
            Objective per busy instance, shape (situations,).

        Raises:
            ValueError: the solution has no dual values, because some columns were integer.
        """
        duals, period_prices = self._duals(), np.zeros(len(self.program.spec.situations))
        for (_, s), rows in self.program.prefill_rows.items():
            period_prices[s] -= duals[rows].sum()
        return period_prices

    def binding_situations(self) -> list[Situation]:
        """Situations whose prefill capacity has a price, the highest price first."""
        period_prices, situations = self.period_prices(), self.program.spec.situations
        order = largest_first(range(len(period_prices)), lambda s: float(period_prices[s]), SOLVED)
        return [situations[s] for s in order if period_prices[s] > SETTINGS.binding_share * period_prices.sum()]

    def mixed_thresholds(self) -> dict[tuple[int, int], list[float]]:
        """Upper ends of the cells that the optimum mixes, by group and period [tokens]."""
        found: dict[tuple[int, int], list[float]] = {}
        for (g, s, k), y in self.program.cell_choices.items():
            if self.solution.values[y] > SETTINGS.mixed_share:
                at = g, self.program.spec.situations[s].period
                found.setdefault(at, []).append(self.program.spec.cells[at][k].high_tokens)
        return found

    def lagrangian_bound(self) -> float:
        """A bound above the optimum of the relaxation: decode of every stream is planned in whole instances.

        Source:
            Lagrangian relaxation with the dual values as multipliers, see `lagrangian`.
        """
        shared = LagrangianRelaxation(self.program.rows, self.program.shared_rows, self._duals(), self.solution.values)
        return shared.bound(SETTINGS.block_limit_s, SETTINGS.block_gap)

    def _duals(self) -> NDArray[np.float64]:
        if self.solution.duals is None:
            raise ValueError("prices are those of a relaxed program")
        return self.solution.duals


def all_thresholds(loads: NetworkLoads, situations: Sequence[Situation]) -> Cells:
    """Every threshold that makes a difference, for every group in some periods."""
    finest = [finest_cells(loads.problem, members) for members in loads.problem.groups]
    return {(g, s.period): cells for g, cells in enumerate(finest) for s in situations}


def sampled_thresholds(loads: NetworkLoads, situations: Sequence[Situation], step: int) -> Cells:
    """A sample of the thresholds that make a difference, as points.

    Args:
        step: every so many-th threshold is taken; the first and the last always are.
    """
    found: Cells = {}
    for at, cells in all_thresholds(loads, situations).items():
        few = [*cells[:-1:step], cells[-1]]
        found[at] = [cell._replace(low_tokens=cell.high_tokens) for cell in few]
    return found


def thresholds_around_mean(relaxation: Relaxation, reach: int) -> Cells:
    """Thresholds near the mean of those that the optimum of a relaxation mixes.

    Args:
        reach: thresholds that are taken on either side of the mean.
    """
    loads, situations = relaxation.program.spec.loads, relaxation.program.spec.situations
    finest = sampled_thresholds(loads, situations, 1)
    weights: dict[tuple[int, int], dict[float, float]] = {at: {} for at in finest}
    for (g, s, k), y in relaxation.program.cell_choices.items():
        at = g, situations[s].period
        weights[at][relaxation.program.spec.cells[at][k].high_tokens] = max(float(relaxation.solution.values[y]), TINY)
    offers: Cells = {}
    for at, cells in finest.items():
        ends = [cell.high_tokens for cell in cells]
        places = np.searchsorted(ends, list(weights[at]))
        middle = round(float(np.average(places, weights=list(weights[at].values()))))
        offers[at] = cells[max(middle - reach, 0) : middle + reach + 1]
    return offers


def merged_cells(cells: Sequence[Cell], near: Sequence[float]) -> list[Cell]:
    """Cells near some thresholds as they are, and runs of other cells merged into wide ones.

    >>> cells = [Cell(float(t), t + 0.9) for t in range(10)]
    >>> [(c.low_tokens, c.high_tokens) for c in merged_cells(cells, [5.5])]
    [(0.0, 3.9), (4.0, 4.9), (5.0, 5.9), (6.0, 6.9), (7.0, 9.9)]

    Args:
        near: thresholds whose cells, and neighbours of these, stay narrow [tokens]. Points always stay.
    """
    ends = np.array([cell.high_tokens for cell in cells])
    at = {int(np.searchsorted(ends, t)) for t in near}
    kept = {k + d for k in at for d in range(-SETTINGS.kept_near, SETTINGS.kept_near + 1)}
    kept |= {k for k, cell in enumerate(cells) if cell.low_tokens == cell.high_tokens}
    found: list[Cell] = []
    n_wide = 0
    for k, cell in enumerate(cells):
        if k in kept or n_wide in (0, SETTINGS.most_merged):
            found.append(cell)
            n_wide = int(k not in kept)
        else:
            found[-1] = found[-1]._replace(high_tokens=cell.high_tokens)
            n_wide += 1
    return found


def tightest_relaxation(
    loads: NetworkLoads,
    situations: Sequence[Situation],
    segments: Segments,
    mixed_thresholds: Mapping[tuple[int, int], Sequence[float]],
    deadline: float,
) -> Relaxation | None:
    """A relaxation whose bound is about that of all thresholds: every threshold, or most of them in wide cells.

    Cells far from the thresholds that matter are merged. A wide cell promises more than any threshold in it does, so
    the wide cells that an optimum uses are taken apart, and the relaxation is solved again, until it hardly uses any.
    Its bound holds in every round.

    Args:
        mixed_thresholds: thresholds that matter, by group and period [tokens].
        deadline: `work_s()` time to stop at.

    Returns:
        The last relaxation that was solved; None where one has no solution, and so there is no plan.

    Raises:
        UndecidedError: time is up before the first relaxation is solved.
    """
    finest = all_thresholds(loads, situations)
    near = {at: list(mixed_thresholds.get(at, ())) for at in finest}
    relaxation = None
    while True:
        offers = {at: merged_cells(cells, near[at]) for at, cells in finest.items()}
        try:
            program = relaxed_program(loads, situations, segments, offers, shares_lateness=True)
            found = solved_relaxation(program, deadline - work_s())
        except UndecidedError:
            if relaxation is None:
                raise
            return relaxation
        if found is None:
            return None
        relaxation, most = found, 0.0
        for (g, s, k), y in relaxation.program.cell_choices.items():
            at, used = (g, situations[s].period), float(relaxation.solution.values[y])
            low, high, *_ = offers[at][k]
            if used > TINY and offers[at][k] not in finest[at]:
                near[at] += [cell.high_tokens for cell in finest[at] if low <= cell.low_tokens <= high]
                most = max(most, used)
        if most <= SETTINGS.mixed_share:
            return relaxation


def relaxed_program(
    loads: NetworkLoads,
    situations: Sequence[Situation],
    segments: Segments,
    offers: Cells,
    arcs: Collection[StreamArc] | None = None,
    shares_lateness: bool = False,
) -> MixedIntegerProgram:
    """The program of a relaxation of some periods.

    Args:
        arcs: arcs that streams may use; None: all. A bound needs all arcs and all thresholds.
        shares_lateness: whether pools share the late requests of a class. A bound needs that, too.
    """
    used = None if arcs is None else frozenset(PeriodArc(q, s.period, arc) for q, arc in arcs for s in situations)
    return build(ProgramSpec(loads, tuple(situations), offers, segments, arcs=used, shares_lateness=shares_lateness))


def solved_relaxation(program: MixedIntegerProgram, time_limit_s: float) -> Relaxation | None:
    """The relaxation of a program with its optimum; None where it has no solution.

    Args:
        program: the program; its integers are taken as fractions.
        time_limit_s: time for it [s].

    Raises:
        UndecidedError: time is up.
    """
    found = program.rows.solved(time_limit_s, 0.0, integers=())
    return None if found is None else Relaxation(program, found)
