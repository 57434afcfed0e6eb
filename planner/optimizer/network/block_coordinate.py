"""Many similar programs whose blocks share some limits, each solved from the solution of another, block by block.

At given sizes, prefill of every served model and decode of every stream share nothing but bandwidth and stock. Each has
few choices of thresholds, but all of them together have the product of these choices. So a program of all blocks takes
hundreds of times as long to prove that something does not fit. Once a solution is known, only blocks that it does not
fit are solved again, one after the other, each with what the others leave of shared limits. Where only a threshold is
to be chosen, all choices are tried. Every solution that is returned keeps every row. Where none is returned, the whole
program may still have one.

Source:
    Block coordinate descent in the order of Gauss and Seidel (Bertsekas 1999, "Nonlinear programming", section 2.7). It
    is used to find feasible points; nothing is claimed about convergence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from planner.optimizer.highs import run_within
from planner.optimizer.network.block_structure import Floats, Indices, block_program, blocks_of, matrix_of
from planner.optimizer.network.rows import Rows
from planner.ties import largest_first

if TYPE_CHECKING:
    import highspy

TOLERANCE = 1e-6


@dataclass(frozen=True)
class Bounds:
    """Least and greatest values of the columns whose bounds vary, shape (varied,)."""

    lows: Floats
    highs: Floats

    def of(self, which: Indices) -> Bounds:
        """The bounds of some of them.

        Args:
            which: their places.
        """
        return Bounds(self.lows[which], self.highs[which])


@dataclass(frozen=True, eq=False)
class _Program:
    """A program with its solver; limits of rows and bounds of columns change from one run to the next."""

    rows: Rows
    time_limit_s: float
    gap: float

    @cached_property
    def _solver(self) -> highspy.Highs:
        return self.rows.solver(self.gap)

    @cached_property
    def _limits(self) -> Floats:
        """Upper limits of rows as the solver has them."""
        return np.array(self.rows.row_highs)

    def solution(self, limits: Floats, columns: Indices, bounds: Bounds) -> Floats | None:
        """Every column; None where no solution was found.

        Args:
            limits: upper limits of rows, shape (rows,).
            columns: columns whose bounds are set.
            bounds: their bounds.
        """
        import highspy

        for row in np.flatnonzero(limits != self._limits).tolist():
            self._solver.changeRowBounds(row, self.rows.row_lows[row], float(limits[row]))
        self._limits[:] = limits
        self._solver.changeColsBounds(len(columns), columns.astype(np.int32), bounds.lows, bounds.highs)
        run_within(self._solver, self.time_limit_s, any(self.rows.integers))
        is_found = self._solver.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        return np.array(self._solver.getSolution().col_value) if is_found else None


@dataclass(frozen=True, eq=False)
class _Block:
    """A block of the whole program, with a program of its own.

    Columns and rows are indices in the whole program; places are indices in the program of the block.
    """

    integer: _Program
    """Its program, with integers."""
    own: Indices
    """Columns that are in no other block: they come first in its program."""
    every: Indices
    """All columns of its program."""
    rows: Indices
    """Rows of its program."""
    shared: Indices
    """Places of the shared rows, of which it takes what others leave."""
    common: tuple[Indices, Indices]
    """Common columns and their places."""
    varied: tuple[Indices, Indices]
    """Varied columns, by their position among all of these, and their places."""
    choices: tuple[Indices, ...]
    """Places of columns of which one is 1 and the others are 0."""
    accepts_first: bool
    """Whether any feasible choice is as good as another."""

    @cached_property
    def relaxed(self) -> _Program:
        """Its program without integers."""
        rows = replace(self.integer.rows, integers=[False] * len(self.integer.rows.integers))
        return replace(self.integer, rows=rows)

    def solution(self, known: Floats, limits: Floats, bounds: Bounds) -> Floats | None:
        """Columns of its program; None where no solution was found.

        Args:
            known: another solution, shape (columns,): its choice is tried first.
            limits: upper limits of its rows.
            bounds: bounds of its varied columns.
        """
        _, at = self.varied
        is_fixed = self._is_plain and bool(np.all(bounds.lows == bounds.highs))
        if len(self.choices) > 1 or not (self.choices or is_fixed):
            return self.integer.solution(limits, at, bounds)
        if not self.choices:
            return self.relaxed.solution(limits, at, bounds)
        columns, options = np.append(at, self.choices[0]), list(self._options(known, bounds))
        relaxed = (self.relaxed.solution(limits, columns, option) for option in options)
        if is_fixed and self.accepts_first:
            return next((solution for solution in relaxed if solution is not None), None)
        if is_fixed:
            found = [solution for solution in relaxed if solution is not None]
            return next(iter(largest_first(found, lambda one: -float(np.array(self.integer.rows.costs) @ one))), None)
        return self._cheapest(columns, options, list(relaxed), limits)

    @cached_property
    def _is_plain(self) -> bool:
        """Whether the varied columns and the choices are all the integers."""
        bounded = {k for some in (self.varied[1], *self.choices) for k in some.tolist()}
        return bounded.issuperset(np.flatnonzero(self.integer.rows.integers).tolist())

    def _options(self, known: Floats, bounds: Bounds) -> Iterator[Bounds]:
        """Bounds with those of its choice, from the known one on."""
        (choice,) = self.choices
        nearest = np.argsort(np.abs(np.arange(choice.size) - np.argmax(known[choice])), kind="stable")
        for k in nearest[np.array(self.integer.rows.highs)[choice[nearest]] > 0]:
            chosen = (np.arange(choice.size) == k).astype(float)
            yield Bounds(np.append(bounds.lows, chosen), np.append(bounds.highs, chosen))

    def _cheapest(
        self, columns: Indices, options: Sequence[Bounds], relaxed: Sequence[Floats | None], limits: Floats
    ) -> Floats | None:
        """The cheapest integer solution over the options: none costs less than its relaxation."""
        costs, best, cost = np.array(self.integer.rows.costs), None, np.inf
        least = [np.inf if solution is None else float(costs @ solution) for solution in relaxed]
        for k in largest_first(range(len(least)), lambda k: -least[k]):
            if least[k] >= (1 - self.integer.gap) * cost:
                break
            solution = self.integer.solution(limits, columns, options[k])
            if solution is not None and float(costs @ solution) < cost:
                best, cost = solution, float(costs @ solution)
        return best


class BlockCoordinateProgram:
    """A program that is solved many times, with other limits of rows and other bounds of some columns.

    Args:
        rows: the program, to be minimised.
        shared: rows of which every block takes what others leave. They have no lower limit.
        varied: columns whose bounds are given with every run.
        common: those of them that may be in several blocks: the block that needs most of one decides.
        choices: columns of which one is 1 and the others are 0.
        accepts_first: whether, where nothing else is left to choose, any feasible choice is as good as another.
        time_limit_s: longest time of one run of the solver [s].
        gap: relative distance of solution and bound at which the solver may stop [fraction].
    """

    def __init__(
        self,
        rows: Rows,
        shared: Collection[int],
        varied: Sequence[int],
        common: Collection[int],
        choices: Sequence[Sequence[int]],
        accepts_first: bool,
        time_limit_s: float,
        gap: float,
    ) -> None:
        self._matrix, self._integer = matrix_of(rows), _Program(rows, time_limit_s, gap)
        self._lows, self._highs, self._least = (np.array(x) for x in (rows.row_lows, rows.row_highs, rows.lows))
        self._shared, self._common = (np.array(sorted(some), np.intp) for some in (shared, common))
        self._varied, self._choices = np.array(varied, np.intp), choices
        self._accepts_first = accepts_first

    def limit(self, row: int, high: float) -> None:
        """Set the upper limit of a row.

        Args:
            row: the row.
            high: its limit.
        """
        self._highs[row] = high

    def solved(self, bounds: Bounds, known: Floats | None = None) -> Floats | None:
        """A solution.

        Args:
            bounds: bounds of the varied columns.
            known: a solution for other limits or bounds, shape (columns,): blocks keep what still holds of it. None:
                all blocks are solved at once.

        Returns:
            Every column, shape (columns,); None where none was found.
        """
        if known is None:
            return self._integer.solution(self._highs, self._varied, bounds)
        values = known.copy()
        values[self._varied] = bounds.lows
        violated = self._violated_rows(values)
        alone = np.setdiff1d(violated, self._shared)
        found = self._solved_in_turn(values, [b for b in self._blocks if np.isin(alone, b.rows).any()], bounds)
        if found is None or not (violated := self._violated_rows(found)).size:
            return found
        return self._reallocated(found, [b for b in self._blocks if np.isin(violated, b.rows).any()], bounds)

    def _reallocated(self, values: Floats, users: Sequence[_Block], bounds: Bounds) -> Floats | None:
        """A solution after one user of shared limits leaves more of them, or after all users start anew."""
        for block in users:
            found = self._solved_in_turn(values, [block], bounds)
            if found is not None and not self._violated_rows(found).size:
                return found
        anew = values.copy()
        for block in users:
            anew[block.own] = self._least[block.own]
        anew[self._varied] = bounds.lows
        # Other blocks may have used the varied columns that were reset.
        violated = self._violated_rows(anew)
        again = [b for b in self._blocks if any(b is user for user in users) or np.isin(violated, b.rows).any()]
        found = self._solved_in_turn(anew, again, bounds, values)
        return None if found is None or self._violated_rows(found, 10 * TOLERANCE).size else found

    def _solved_in_turn(
        self, values: Floats, blocks: Sequence[_Block], bounds: Bounds, known: Floats | None = None
    ) -> Floats | None:
        """Columns after some blocks were solved again, one after the other."""
        before = values if known is None else known
        for block in blocks:
            found = self._block_solved(block, values, bounds, before)
            if found is None:
                return None
            values = found
        return values

    def _block_solved(self, block: _Block, values: Floats, bounds: Bounds, known: Floats) -> Floats | None:
        """Columns after one block was solved again."""
        (columns, places), (which, at) = block.common, block.varied
        mine, limits = bounds.of(which), self._residual_limits(block, values)
        # Common columns that other blocks need stay.
        lows = np.maximum(mine.lows, np.where(np.isin(at, places), values[self._varied[which]], -np.inf))
        mine = Bounds(lows, np.maximum(mine.highs, lows))
        solution = block.solution(known[block.every], limits, mine)
        if solution is None:
            return None
        found = values.copy()
        found[block.own] = solution[: block.own.size]
        found[columns] = np.maximum(values[columns], solution[places])
        return found

    def _residual_limits(self, block: _Block, values: Floats) -> Floats:
        """Limits of a block's rows: of shared rows what others leave, and at least 0."""
        limits = self._highs[block.rows]
        if block.shared.size:
            others, common = values.copy(), np.zeros_like(values)
            others[block.every], others[self._common] = 0.0, 0.0
            common[self._common] = values[self._common]
            rows = self._matrix[block.rows[block.shared]]
            limits[block.shared] = np.maximum(limits[block.shared] - rows @ others, rows @ common)
        return limits

    def _violated_rows(self, values: Floats, tolerance: float = TOLERANCE) -> Indices:
        """Rows that columns do not keep."""
        found = self._matrix @ values
        return np.flatnonzero((found > self._highs + tolerance) | (found < self._lows - tolerance))

    @cached_property
    def _blocks(self) -> list[_Block]:
        """Every block with its rows, its part of shared rows, and rows about common columns that it uses."""
        rows, used = self._integer.rows, abs(self._matrix)
        is_own, joins = np.not_equal(rows.lows, rows.highs), np.ones(len(rows.row_names), dtype=bool)
        is_own[self._varied], joins[self._shared] = True, False
        is_own[self._common] = False
        is_common = np.isin(np.arange(len(rows.names)), self._common)
        about_common = (used @ is_own == 0) & (used @ is_common > 0)
        found = []
        for own, kept in blocks_of(self._matrix, joins, is_own):
            part = self._shared[used[self._shared] @ np.isin(np.arange(len(rows.names)), own) > 0]
            mine = np.concatenate([kept, part])
            beside = about_common & (used @ (is_common & (used[mine].sum(axis=0).A1 > 0)) > 0)
            found.append(self._block(own, np.concatenate([mine, np.flatnonzero(beside)])))
        return found

    def _block(self, own: Indices, rows: Indices) -> _Block:
        # Columns of other blocks are in what they leave of shared rows.
        beside = np.equal(self._integer.rows.lows, self._integer.rows.highs)
        beside[self._varied] = False
        beside[self._common] = True
        program, every = block_program(self._integer.rows, self._matrix, own, rows, beside)
        place = {column: k for k, column in enumerate(every.tolist())}
        common = np.isin(every, self._common)
        varied = np.isin(self._varied, every)
        return _Block(
            integer=replace(self._integer, rows=program),
            own=own,
            every=every,
            rows=rows,
            shared=np.flatnonzero(np.isin(rows, self._shared)),
            common=(every[common], np.flatnonzero(common)),
            varied=(np.flatnonzero(varied), np.array([place[c] for c in self._varied[varied].tolist()], np.intp)),
            choices=tuple(np.array([place[c] for c in y], np.intp) for y in self._choices if y[0] in place),
            accepts_first=self._accepts_first,
        )
