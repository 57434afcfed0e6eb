"""Many like programs whose blocks share some limits: each is answered from another's answer, block by block.

With units settled, prefill of every model and decode of every stream have nothing in common but bandwidth and stock.
Their choices of thresholds are few, those of all together are their product: a program of all takes hundreds of times
as long to say that something does not fit. So once there is an answer, blocks that it does not do for are solved anew,
and each takes what the others leave; where nothing but the threshold is to be chosen, every one is tried. What is found
keeps every row. Where nothing is found, all blocks at once might still have an answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from planner.optimizer.network.block_structure import Floats, Indices, block_program, blocks_of, matrix_of
from planner.optimizer.network.rows import Rows

if TYPE_CHECKING:
    import highspy

TOLERANCE = 1e-6


@dataclass(frozen=True)
class Bounds:
    """Least and most of the counted columns of a question."""

    lows: Floats
    highs: Floats

    def of(self, which: Indices) -> Bounds:
        """Those of some."""
        return Bounds(self.lows[which], self.highs[which])


@dataclass(frozen=True, eq=False)
class _Program:
    """A program with its solver: what is asked of it changes."""

    rows: Rows
    time_limit_s: float
    gap: float

    @cached_property
    def _solver(self) -> highspy.Highs:
        return self.rows.solver(self.time_limit_s, self.gap)

    @cached_property
    def _limits(self) -> Floats:
        """Upper limits of rows as the solver has them."""
        return np.array(self.rows.row_highs)

    def answer(self, limits: Floats, columns: Indices, bounds: Bounds) -> Floats | None:
        """Every column; None where nothing was found.

        Args:
            limits: upper limits of rows.
            columns: columns that are asked for,
            bounds: and theirs.
        """
        import highspy

        for row in np.flatnonzero(limits != self._limits).tolist():
            self._solver.changeRowBounds(row, self.rows.row_lows[row], float(limits[row]))
        self._limits[:] = limits
        self._solver.changeColsBounds(len(columns), columns.astype(np.int32), bounds.lows, bounds.highs)
        self._solver.setOptionValue("time_limit", self._solver.getRunTime() + self.time_limit_s)
        self._solver.run()
        is_found = self._solver.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        return np.array(self._solver.getSolution().col_value) if is_found else None


@dataclass(frozen=True, eq=False)
class _Block:
    """A block; columns and rows are those of the whole program, places those of its own."""

    whole: _Program
    own: Indices
    """Columns that are in no other block: the first of its program,"""
    every: Indices
    """and all of them."""
    rows: Indices
    shared: Indices
    """Places of its rows of which it takes what others leave."""
    common: tuple[Indices, Indices]
    """Common columns and their places."""
    counted: tuple[Indices, Indices]
    """Counted columns, by place among these, and their places."""
    choices: tuple[Indices, ...]
    """Places of columns of which one is 1 and the others are 0."""
    is_first_enough: bool
    """Whether any choice that does is as good as another."""

    @cached_property
    def relaxed(self) -> _Program:
        """Its program with nothing whole."""
        rows = replace(self.whole.rows, integers=[False] * len(self.whole.rows.integers))
        return replace(self.whole, rows=rows)

    def answer(self, known: Floats, limits: Floats, bounds: Bounds) -> Floats | None:
        """Columns of its program; None where nothing was found.

        Args:
            known: columns of another answer: what is chosen there is tried first.
            limits: upper limits of its rows.
            bounds: of its counted columns.
        """
        _, at = self.counted
        is_settled = self._is_plain and bool(np.all(bounds.lows == bounds.highs))
        if len(self.choices) > 1 or not (self.choices or is_settled):
            return self.whole.answer(limits, at, bounds)
        if not self.choices:
            return self.relaxed.answer(limits, at, bounds)
        columns, options = np.append(at, self.choices[0]), list(self._options(known, bounds))
        relaxed = (self.relaxed.answer(limits, columns, option) for option in options)
        if is_settled and self.is_first_enough:
            return next((answer for answer in relaxed if answer is not None), None)
        if is_settled:
            found = [answer for answer in relaxed if answer is not None]
            return min(found, key=lambda answer: float(np.array(self.whole.rows.costs) @ answer), default=None)
        return self._cheapest(columns, options, list(relaxed), limits)

    @cached_property
    def _is_plain(self) -> bool:
        """Whether what is counted or chosen is all that must be whole."""
        bounded = {k for some in (self.counted[1], *self.choices) for k in some.tolist()}
        return bounded.issuperset(np.flatnonzero(self.whole.rows.integers).tolist())

    def _options(self, known: Floats, bounds: Bounds) -> Iterator[Bounds]:
        """Bounds with those of its choice, from the known one on."""
        (choice,) = self.choices
        nearest = np.argsort(np.abs(np.arange(choice.size) - np.argmax(known[choice])), kind="stable")
        for k in nearest[np.array(self.whole.rows.highs)[choice[nearest]] > 0]:
            chosen = (np.arange(choice.size) == k).astype(float)
            yield Bounds(np.append(bounds.lows, chosen), np.append(bounds.highs, chosen))

    def _cheapest(
        self, columns: Indices, options: Sequence[Bounds], relaxed: Sequence[Floats | None], limits: Floats
    ) -> Floats | None:
        """The answer of the option that costs least in whole numbers: none costs less than its relaxed one."""
        costs, best, cost = np.array(self.whole.rows.costs), None, np.inf
        least = [np.inf if answer is None else float(costs @ answer) for answer in relaxed]
        for k in np.argsort(least, kind="stable"):
            if least[k] >= (1 - self.whole.gap) * cost:
                break
            answer = self.whole.answer(limits, columns, options[k])
            if answer is not None and float(costs @ answer) < cost:
                best, cost = answer, float(costs @ answer)
        return best


class BlockCoordinateProgram:
    """A program of which many like ones are asked: with other limits of rows, and other bounds of some columns.

    Args:
        rows: the program.
        shared: rows of which every block takes what others leave. They have no lower limit.
        counted: columns whose bounds are said with every question.
        common: those of them that may be in several blocks: the block that asks for most of one decides.
        choices: columns of which one is 1 and the others are 0.
        is_first_enough: whether, where nothing else is left, any choice that does is as good as another.
        time_limit_s: seconds that one run of the solver may take.
        gap: relative distance of point and bound at which the solver may stop.
    """

    def __init__(
        self,
        rows: Rows,
        shared: Collection[int],
        counted: Sequence[int],
        common: Collection[int],
        choices: Sequence[Sequence[int]],
        is_first_enough: bool,
        time_limit_s: float,
        gap: float,
    ) -> None:
        self._matrix, self._whole = matrix_of(rows), _Program(rows, time_limit_s, gap)
        self._lows, self._highs, self._least = (np.array(x) for x in (rows.row_lows, rows.row_highs, rows.lows))
        self._shared, self._common = (np.array(sorted(some), np.intp) for some in (shared, common))
        self._counted, self._choices = np.array(counted, np.intp), choices
        self._is_first_enough = is_first_enough

    def limit(self, row: int, high: float) -> None:
        """Another upper limit of a row."""
        self._highs[row] = high

    def solved(self, bounds: Bounds, known: Floats | None = None) -> Floats | None:
        """Every column; None where no answer was found.

        Args:
            bounds: of the counted columns.
            known: an answer to another question: blocks keep what still holds of it. None: all blocks at once.
        """
        if known is None:
            return self._whole.answer(self._highs, self._counted, bounds)
        values = known.copy()
        values[self._counted] = bounds.lows
        broken = self._broken(values)
        alone = np.setdiff1d(broken, self._shared)
        found = self._one_by_one(values, [b for b in self._blocks if np.isin(alone, b.rows).any()], bounds)
        if found is None or not (broken := self._broken(found)).size:
            return found
        return self._given_way(found, [b for b in self._blocks if np.isin(broken, b.rows).any()], bounds)

    def _given_way(self, values: Floats, users: Sequence[_Block], bounds: Bounds) -> Floats | None:
        """Columns where one user of shared limits leaves others more of them, or all begin anew."""
        for block in users:
            found = self._one_by_one(values, [block], bounds)
            if found is not None and not self._broken(found).size:
                return found
        anew = values.copy()
        for block in users:
            anew[block.own] = self._least[block.own]
        anew[self._counted] = bounds.lows
        # Others may have had what they asked for of counted columns.
        broken = self._broken(anew)
        again = [b for b in self._blocks if any(b is user for user in users) or np.isin(broken, b.rows).any()]
        found = self._one_by_one(anew, again, bounds, values)
        return None if found is None or self._broken(found, 10 * TOLERANCE).size else found

    def _one_by_one(
        self, values: Floats, blocks: Sequence[_Block], bounds: Bounds, known: Floats | None = None
    ) -> Floats | None:
        """Columns with those of some blocks anew, whose choices begin from known ones."""
        before = values if known is None else known
        for block in blocks:
            found = self._run(block, values, bounds, before)
            if found is None:
                return None
            values = found
        return values

    def _run(self, block: _Block, values: Floats, bounds: Bounds, known: Floats) -> Floats | None:
        """Columns with those of a block anew."""
        (columns, places), (which, at) = block.common, block.counted
        mine, limits = bounds.of(which), self._left(block, values)
        # What other blocks have asked for of common columns is there.
        lows = np.maximum(mine.lows, np.where(np.isin(at, places), values[self._counted[which]], -np.inf))
        mine = Bounds(lows, np.maximum(mine.highs, lows))
        answer = block.answer(known[block.every], limits, mine)
        if answer is None:
            return None
        found = values.copy()
        found[block.own] = answer[: block.own.size]
        found[columns] = np.maximum(values[columns], answer[places])
        return found

    def _left(self, block: _Block, values: Floats) -> Floats:
        """Limits of a block's rows: of shared ones what others leave, at the least nothing."""
        limits = self._highs[block.rows]
        if block.shared.size:
            others, common = values.copy(), np.zeros_like(values)
            others[block.every], others[self._common] = 0.0, 0.0
            common[self._common] = values[self._common]
            rows = self._matrix[block.rows[block.shared]]
            limits[block.shared] = np.maximum(limits[block.shared] - rows @ others, rows @ common)
        return limits

    def _broken(self, values: Floats, tolerance: float = TOLERANCE) -> Indices:
        """Rows that columns do not keep."""
        found = self._matrix @ values
        return np.flatnonzero((found > self._highs + tolerance) | (found < self._lows - tolerance))

    @cached_property
    def _blocks(self) -> list[_Block]:
        """Every block with its rows, its part of shared ones, and rows about common columns that it uses."""
        rows, used = self._whole.rows, abs(self._matrix)
        is_own, joins = np.not_equal(rows.lows, rows.highs), np.ones(len(rows.row_names), dtype=bool)
        is_own[self._counted], joins[self._shared] = True, False
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
        beside = np.equal(self._whole.rows.lows, self._whole.rows.highs)
        beside[self._counted] = False
        beside[self._common] = True
        program, every = block_program(self._whole.rows, self._matrix, own, rows, beside)
        place = {column: k for k, column in enumerate(every.tolist())}
        common = np.isin(every, self._common)
        counted = np.isin(self._counted, every)
        return _Block(
            whole=replace(self._whole, rows=program),
            own=own,
            every=every,
            rows=rows,
            shared=np.flatnonzero(np.isin(rows, self._shared)),
            common=(every[common], np.flatnonzero(common)),
            counted=(np.flatnonzero(counted), np.array([place[c] for c in self._counted[counted].tolist()], np.intp)),
            choices=tuple(np.array([place[c] for c in y], np.intp) for y in self._choices if y[0] in place),
            is_first_enough=self._is_first_enough,
        )
