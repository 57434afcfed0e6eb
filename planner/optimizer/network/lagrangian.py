"""A bound of a large program from its blocks: what models share has a price, and each is then planned for itself.

Rows about what several models use (accelerators of a site, links, the budget) leave the program and enter the costs, at
their shadow prices in the relaxed program. What is left falls into blocks without a column in common: prefill of every
model, and decode of every stream. These are small enough to be solved with whole numbers, one beside the other.

Equation:
    min {c x : A x <= a, S x <= b}  >=  pi b + sum over blocks of min {(c - S' pi) x : A x <= a},  pi <= 0

Source:
    Lagrangian relaxation (Geoffrion 1974, "Lagrangean relaxation for integer programming").
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from planner.optimizer.network.block_structure import Floats, Indices, Mask, block_program, blocks_of, matrix_of
from planner.optimizer.network.rows import Rows
from planner.optimizer.network.settings import SETTINGS

if TYPE_CHECKING:  # scipy.sparse takes longer to load than the plan of one site
    from scipy.sparse import csr_matrix

NOTHING = 1e-9
"""Of a cost that is left when all prices are taken off: rounding."""


@dataclass(frozen=True)
class LagrangianRelaxation:
    """A program whose shared rows are priced.

    Args:
        rows: the program.
        shared: rows that are priced.
        duals: price of every row: those of the relaxed program.
        values: columns of the relaxed program, where a block finds none.
    """

    rows: Rows
    shared: Sequence[int]
    duals: Floats
    values: Floats

    def bound(self, time_limit_s: float, gap: float) -> float:
        """Nothing is below this: blocks of few columns with whole numbers, the others as they are relaxed.

        Args:
            time_limit_s: seconds each block may take.
            gap: relative distance of plan and bound at which a block may stop.
        """
        total = self._constant + self._loose
        for columns, kept in self._parts:
            if columns.size > SETTINGS.block_integer_columns:
                total += float(self._costs[columns] @ self.values[columns])
            else:
                total += self._program(columns, kept).bounded(time_limit_s, gap)[0]
        return total

    def chosen(self, time_limit_s: float, gap: float) -> Floats:
        """Columns as every block of many has them by itself, with whole numbers: several at once.

        Args:
            time_limit_s: seconds each block may take.
            gap: relative distance of plan and bound at which a block may stop.
        """
        values = self.values.copy()
        # The largest first: what comes last should not take long.
        parts = sorted(
            (part for part in self._parts if part[0].size > SETTINGS.block_integer_columns),
            key=lambda part: -part[0].size,
        )
        programs = [self._program(*part) for part in parts]
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            answers = list(threads.map(lambda program: program.bounded(time_limit_s, gap)[1], programs))
        for (columns, _), answer in zip(parts, answers, strict=True):
            if answer is not None:
                values[columns] = answer[: columns.size]
        return values

    @cached_property
    def _matrix(self) -> "csr_matrix":
        return matrix_of(self.rows)

    @cached_property
    def _prices(self) -> Floats:
        """Prices of the shared rows, each of the sign of a limit it has."""
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
        """What the limits of shared rows are worth."""
        limits = np.where(self._prices > 0, self.rows.row_lows, self.rows.row_highs)
        is_priced = self._prices != 0
        return float(self._prices[is_priced] @ limits[is_priced])

    @cached_property
    def _is_settled(self) -> Mask:
        return np.equal(self.rows.lows, self.rows.highs)

    @cached_property
    def _parts(self) -> list[tuple[Indices, Indices]]:
        """Columns and rows of every block; settled columns join nothing."""
        kept = np.ones(len(self.rows.row_names), dtype=bool)
        kept[list(self.shared)] = False
        return blocks_of(self._matrix, kept, ~self._is_settled)

    @cached_property
    def _is_loose(self) -> Mask:
        """Columns that are settled, or in no row that is kept."""
        loose = np.ones(len(self.rows.names), dtype=bool)
        loose[np.concatenate([columns for columns, _ in self._parts])] = False
        return loose

    @cached_property
    def _loose(self) -> float:
        """The least that loose columns cost."""
        lows, highs = np.array(self.rows.lows)[self._is_loose], np.array(self.rows.highs)[self._is_loose]
        costs = self._costs[self._is_loose]
        return float(np.where(costs > 0, costs * lows, np.where(costs < -NOTHING, costs * highs, 0.0)).sum())

    def _program(self, columns: Indices, kept: Indices) -> Rows:
        """A block as a program of its own, at what is left of its costs."""
        program, _ = block_program(self.rows, self._matrix, columns, kept, self._is_settled)
        program.costs[:] = [*self._costs[columns].tolist(), *(0.0 for _ in program.costs[columns.size :])]
        return program
