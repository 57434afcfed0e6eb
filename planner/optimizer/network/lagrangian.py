"""A Lagrangian bound of a large program: rows that served models share are priced, then each model is solved.

Shared rows (accelerators of a site, links, the budget) leave the program and enter the costs, with their dual values in
the relaxation as multipliers. The rest falls into blocks without a common column: prefill of every served model, and
decode of every stream. Blocks are small enough to be solved with integers, one by one.

Equation:
    min {c x : A x <= a, S x <= b}  >=  pi b + sum over blocks of min {(c - S' pi) x : A x <= a},  pi <= 0

Source:
    Lagrangian relaxation (Geoffrion 1974, "Lagrangean relaxation for integer programming"; Fisher 1981).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from planner.optimizer.network.block_structure import Floats, Indices, Mask, block_program, blocks_of, matrix_of
from planner.optimizer.network.rows import Rows
from planner.optimizer.settings import SETTINGS

if TYPE_CHECKING:  # scipy.sparse takes longer to load than the plan of one site
    from scipy.sparse import csr_matrix

NOTHING = 1e-9
"""A cost below this is the rounding of one that prices take off."""


@dataclass(frozen=True)
class LagrangianRelaxation:
    """A program whose shared rows are priced.

    Args:
        rows: the program, to be minimised.
        shared: rows that are priced.
        duals: dual value of every row in the relaxation, shape (rows,).
        values: columns of the relaxation, shape (columns,): they stand in for blocks without a solution.
    """

    rows: Rows
    shared: Sequence[int]
    duals: Floats
    values: Floats

    def bound(self, time_limit_s: float, gap: float) -> float:
        """A lower bound of the program: blocks of few columns are solved with integers, the others without.

        Args:
            time_limit_s: longest time for one block [s].
            gap: relative distance of solution and bound at which a block may stop [fraction].

        Returns:
            The bound, in the unit of the objective.
        """
        total = self._constant + self._loose
        for columns, kept in self._parts:
            if columns.size > SETTINGS.block_integer_columns:
                total += float(self._costs[columns] @ self.values[columns])
            else:
                total += self._program(columns, kept).bounded(time_limit_s, gap)
        return total

    @cached_property
    def _matrix(self) -> "csr_matrix":
        return matrix_of(self.rows)

    @cached_property
    def _prices(self) -> Floats:
        """Multiplier of every row, shape (rows,): 0 for rows that stay, and of a sign that its limit allows."""
        prices = np.zeros(len(self.rows.row_names))
        for r in self.shared:
            low, high = np.isfinite(self.rows.row_lows[r]), np.isfinite(self.rows.row_highs[r])
            prices[r] = np.clip(self.duals[r], -np.inf if high else 0.0, np.inf if low else 0.0)
        return prices

    @cached_property
    def _costs(self) -> Floats:
        return np.asarray(self.rows.costs - self._matrix.T @ self._prices)

    @cached_property
    def _constant(self) -> float:
        """The term pi b of the bound."""
        limits = np.where(self._prices > 0, self.rows.row_lows, self.rows.row_highs)
        is_priced = self._prices != 0
        return float(self._prices[is_priced] @ limits[is_priced])

    @cached_property
    def _is_fixed(self) -> Mask:
        return np.equal(self.rows.lows, self.rows.highs)

    @cached_property
    def _parts(self) -> list[tuple[Indices, Indices]]:
        """Columns and rows of every block; columns that are fixed join nothing."""
        kept = np.ones(len(self.rows.row_names), dtype=bool)
        kept[list(self.shared)] = False
        return blocks_of(self._matrix, kept, ~self._is_fixed)

    @cached_property
    def _is_loose(self) -> Mask:
        """Columns that are fixed, or in no row that stays."""
        loose = np.ones(len(self.rows.names), dtype=bool)
        loose[np.concatenate([columns for columns, _ in self._parts])] = False
        return loose

    @cached_property
    def _loose(self) -> float:
        """The least that such columns cost."""
        lows, highs = np.array(self.rows.lows)[self._is_loose], np.array(self.rows.highs)[self._is_loose]
        costs = self._costs[self._is_loose]
        return float(np.where(costs > 0, costs * lows, np.where(costs < -NOTHING, costs * highs, 0.0)).sum())

    def _program(self, columns: Indices, kept: Indices) -> Rows:
        """A block as a program of its own, with its reduced costs."""
        program = block_program(self.rows, self._matrix, columns, kept, self._is_fixed)
        program.costs[:] = [*self._costs[columns].tolist(), *(0.0 for _ in program.costs[columns.size :])]
        return program
