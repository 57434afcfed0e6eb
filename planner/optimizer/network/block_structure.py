"""Blocks of a program: sets of columns and rows that share nothing once some columns and rows are left out."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.network.rows import Rows

if TYPE_CHECKING:  # scipy.sparse takes longer to load than the plan of one site
    from scipy.sparse import csr_matrix

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


def matrix_of(rows: Rows) -> "csr_matrix":
    """Constraint matrix of a program, shape (rows, columns).

    Args:
        rows: the program.
    """
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
        rows: the whole program.
        matrix: its constraint matrix, shape (rows, columns).
        columns: columns of the block.
        kept: its rows.
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
