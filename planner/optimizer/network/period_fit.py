"""Whether a period fits sizes that are settled, and what it would add to them for least.

With instances and ports settled, periods have nothing in common: each chooses its thresholds and ways by itself, in a
program of a few dozen choices that is solved in hundredths of a second. It is built once; other sizes are other limits
of its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from planner.optimizer.network.cells import settled_of
from planner.optimizer.network.evaluate import Settled
from planner.optimizer.network.loads import GRID, Array
from planner.optimizer.network.model import Model
from planner.optimizer.network.rows import Found

if TYPE_CHECKING:
    import highspy

Units = NDArray[np.int64]
"""Instances of every pool, then ports of every tier of every link."""
GAP = 0.03
"""Of what a period uses: what its program may leave open."""
USE = 0.01
"""Weight of the rent of what a period keeps busy, beside that of what it adds: room for others at the same price."""
MOST_ADDED = 16
"""Instances of a pool that a period adds at once."""
MOST_S = 1.5
"""Longest time of a program."""
TOLERANCE = 1e-6


class PeriodFit:
    """A situation at sizes that are settled.

    Args:
        model: its safe program, of that situation alone, every pool's size in one piece.
        usd: price of every unit [USD/h], or its accelerators.
    """

    def __init__(self, model: Model, usd: Array) -> None:
        self._model, self._usd, self._n_pools = model, usd, len(model.problem.pools)
        self._tables: dict[int, Array] = {}
        self._of_pool: dict[int, list[int]] = {}
        for row, (pool, _) in model.curves.items():
            self._of_pool.setdefault(pool, []).append(row)
        self._ports = np.array([column for row in model.ports for column in row], np.int32)
        self._price_use()
        self._open_static_rows()
        self._add_instances()
        self._matrix = csr_matrix(
            (model.rows.factors, model.rows.columns, model.rows.starts),
            (len(model.rows.row_names), len(model.rows.names)),
        )
        self._lows, self._highs = np.array(model.rows.row_lows), np.array(model.rows.row_highs)
        self._more = self._highs.copy()
        self._units = np.full(len(usd), -1, np.int64)
        self._solver: highspy.Highs = model.rows.solver(MOST_S, GAP)

    def fits(self, units: Units, known: Array | None = None) -> Array | None:
        """Every column at some sizes; None where the period does not fit them.

        Args:
            units: the sizes.
            known: columns that did at other sizes: they are kept where they still do.
        """
        self._settle(units)
        if known is not None:
            values = known.copy()
            values[self._ports] = units[self._n_pools :]
            rows = np.asarray(self._matrix @ values)
            if np.all(rows <= self._highs + TOLERANCE) and np.all(rows >= self._lows - TOLERANCE):
                return values
        return self._run(units[self._n_pools :], units[self._n_pools :], np.zeros(len(self._added)))

    def added(self, units: Units, most: Units) -> Units | None:
        """What the period adds to some sizes for least; None where nothing makes it fit.

        Args:
            units: the sizes.
            most: the largest there may be.
        """
        self._settle(units)
        room = np.minimum(most - units, MOST_ADDED)[self._growing].astype(float)
        ports = slice(self._n_pools, None)
        values = self._run(units[ports], most[ports], room)
        if values is None:
            return None
        found = np.zeros_like(units)
        found[self._growing] = values[self._added].round()
        found[ports] = values[self._ports].round() - units[ports]
        return found

    def use_usd_per_hour(self, values: Array) -> float:
        """What use costs in the period, weighted by its hours [USD/h]."""
        return float(self._use @ values[: len(self._use)])

    def settled(self, units: Units, values: Array) -> Settled:
        """What happens in the period."""
        whole = values[: self._n_columns].copy()
        for (i, _), columns in self._model.n.items():
            for column in columns.values():
                whole[column] = units[i]
        return settled_of(self._model, Found(0.0, 0.0, whole), 0)

    def _run(self, low_ports: Units, high_ports: Units, room: Array) -> Array | None:
        import highspy

        columns = np.concatenate([self._ports, self._added])
        lows = np.concatenate([low_ports, np.zeros(len(room))])
        self._solver.changeColsBounds(len(columns), columns, lows, np.concatenate([high_ports, room]))
        self._solver.setOptionValue("time_limit", self._solver.getRunTime() + MOST_S)
        self._solver.run()
        if self._solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return None
        return np.array(self._solver.getSolution().col_value)

    def _settle(self, units: Units) -> None:
        """Limits of the rows about pools whose size is another one now."""
        changed = np.flatnonzero(self._units[: self._n_pools] != units[: self._n_pools])
        rows = [row for i in changed for row in self._of_pool.get(int(i), ())]
        for row in rows:
            pool, curve = self._model.curves[row]
            self._highs[row] = self._more[row] + self._table(curve)[units[pool]]
        for row, inventory in self._stocks:
            used = sum(int(units[i]) * self._model.problem.pools[i].n_accelerators for i in inventory.pools)
            self._highs[row] = inventory.n_accelerators - used
            rows.append(row)
        for row in rows:
            self._solver.changeRowBounds(row, self._lows[row], self._highs[row])
        self._units = units.copy()

    def _table(self, limit: Array) -> Array:
        """A limit at every size."""
        if id(limit) not in self._tables:
            most = max(pool.max_instances for pool in self._model.problem.pools)
            table = np.interp(np.arange(most + 2), GRID[: len(limit)], limit)
            table[0] = 0.0
            self._tables[id(limit)] = table
        return self._tables[id(limit)]

    def _price_use(self) -> None:
        """What it keeps busy has a price: what is left is for other sizes and other periods."""
        model, problem = self._model, self._model.problem
        rows = model.rows
        self._use = np.zeros(len(rows.costs))
        for column in (*model.x.values(), *model.between.values(), *model.d.values()):
            self._use[column] = model.cost.get(column, 0.0) if problem.is_priced else 0.0
        rows.costs = list(self._use)
        for (_, _, _, _, arc), column, seconds, _ in model.uses:
            rows.costs[column] += USE * self._usd[arc.pool] * seconds
        for (q, _, i), column in model.d.items():
            seconds = model.question.loads.decode_s(q, i)
            rows.costs[column] += USE * self._usd[i] * seconds
        for column, usd in zip(self._ports, self._usd[len(problem.pools) :], strict=True):
            rows.costs[column] = float(usd)

    def _open_static_rows(self) -> None:
        """Sizes are limits of rows, not columns: rows about nothing else say nothing here."""
        model, rows = self._model, self._model.rows
        sizes = {c for at in (*model.n.values(), *model.z.values()) for c in at.values()}
        for column in sizes:
            rows.lows[column] = rows.highs[column] = 0.0
            rows.integers[column] = False
        static = sizes | set(self._ports.tolist())
        for row in range(len(rows.row_names)):
            terms = rows.columns[rows.starts[row] : rows.starts[row + 1]]
            if static.issuperset(terms):
                rows.row_lows[row], rows.row_highs[row] = -np.inf, np.inf

    def _add_instances(self) -> None:
        """Columns for instances that are added, each worth the rise of the limit at the size that the model has."""
        model, rows = self._model, self._model.rows
        self._n_columns = len(rows.names)
        self._growing = np.array(sorted(self._of_pool), np.intp)
        added = {int(i): rows.column(f"added_{i}", 0, 0, float(self._usd[i]), True) for i in self._growing}
        self._added = np.array([added[int(i)] for i in self._growing], np.int32)
        terms: dict[int, tuple[int, float]] = {}
        for i, of_pool in self._of_pool.items():
            ((low, _),) = model.question.segments[i]
            for row in of_pool:
                table = self._table(model.curves[row][1])
                terms[row] = added[i], -float(table[low + 1] - table[low])
        rows.widen(terms)
        self._stocks = []
        for v, inventory in enumerate(model.problem.inventories):
            of_stock = [(added[i], float(model.problem.pools[i].n_accelerators)) for i in inventory.pools if i in added]
            if of_stock:
                self._stocks.append((rows.row(f"stock_{v}", of_stock, high=0.0), inventory))
