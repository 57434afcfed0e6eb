"""A Lagrangian bound of a large program: rows that served models share are priced, then each model is solved.

Shared rows (accelerators of a site, links, the budget) leave the program and enter the costs, with their dual values in
the relaxation as multipliers. The rest falls into blocks without a common column: prefill of every served model, and
decode of every stream. Blocks are small enough to be solved with integers, one by one.

Equation:
    min {c x : A x <= a, S x <= b}  >=  pi b + sum over blocks of min {(c - S' pi) x : A x <= a},  pi <= 0

Source:
    Lagrangian relaxation (Geoffrion 1974, "Lagrangean relaxation for integer programming"; Fisher 1981).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.network.rows import Rows
from planner.optimizer.settings import SETTINGS

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


def matrix_of(rows: Rows) -> "csr_matrix":
    """Constraint matrix of a program, shape (rows, columns)."""
    from scipy.sparse import csr_matrix

    return csr_matrix((rows.factors, rows.columns, rows.starts), (len(rows.row_names), len(rows.names)))


def blocks_of(matrix: "csr_matrix", rows: Mask, columns: Mask) -> list[tuple[Indices, Indices]]:
    """The connected components of columns and rows.

    Args:
        matrix: constraint matrix, shape (rows, columns).
        rows: rows that join the columns in them, shape (rows,).
        columns: columns that join the rows they are in, shape (columns,); others may be in the rows of several blocks.

    Returns:
        Indices of the columns and of the rows of every block.

    Source:
        Connected components of the bipartite graph of columns and rows.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    entries = matrix.tocoo()
    used = rows[entries.row] & columns[entries.col]
    n_rows, n_columns = matrix.shape
    places = entries.col[used], n_columns + entries.row[used]
    graph = csr_matrix((np.ones(used.sum()), places), shape=(n_columns + n_rows,) * 2)
    labels = connected_components(graph, directed=False)[1].astype(np.intp)
    of_columns, of_rows = np.where(columns, labels[:n_columns], -1), np.where(rows, labels[n_columns:], -1)
    shared = np.intersect1d(of_columns[columns], of_rows[rows])
    return [(np.flatnonzero(of_columns == label), np.flatnonzero(of_rows == label)) for label in shared]


def block_program(rows: Rows, matrix: "csr_matrix", columns: Iterable[int], kept: Iterable[int], beside: Mask) -> Rows:
    """A block as a program of its own.

    Args:
        matrix: its constraint matrix, shape (rows, columns).
        beside: other columns that come along where its rows have them, shape (columns,); the rest is left out of its
            rows.

    Returns:
        The program; the columns of the block come first.
    """
    program = Rows()
    place: dict[int, int] = {}

    def add(c: int) -> None:
        place[c] = program.column(rows.names[c], rows.lows[c], rows.highs[c], rows.costs[c], rows.integers[c])

    for c in columns:
        add(int(c))
    for r in kept:
        inside = slice(matrix.indptr[r], matrix.indptr[r + 1])
        every = zip(matrix.indices[inside].tolist(), matrix.data[inside].tolist(), strict=True)
        terms = [(c, a) for c, a in every if c in place or beside[c]]
        for c, _ in terms:
            if c not in place:
                add(c)
        program.row(rows.row_names[r], [(place[c], a) for c, a in terms], rows.row_lows[r], rows.row_highs[r])
    return program


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
