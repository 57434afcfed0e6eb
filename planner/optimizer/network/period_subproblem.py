"""The subproblem of one period at given sizes: whether it fits them, and what it would add to them at least cost.

Given the sizes that periods share, periods have nothing in common. Each chooses its own thresholds and arcs, and its
roles where these may change, in a program of a few dozen choices. The program is built once: other sizes are other
limits of its rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from planner.optimizer.network.block_coordinate import BlockCoordinateProgram, Bounds
from planner.optimizer.network.cells import Array
from planner.optimizer.network.loads import GRID
from planner.optimizer.network.period_operation import PeriodOperation
from planner.optimizer.network.program import MixedIntegerProgram, SizeLimit, sizes_of
from planner.optimizer.network.program_solution import operation_of
from planner.optimizer.network.rows import ProgramSolution
from planner.optimizer.network.rows_of_links import GBIT_PER_BYTE
from planner.optimizer.network.shared_units import SharedUnits, Units
from planner.optimizer.problem import Inventory
from planner.optimizer.settings import SETTINGS

ROUNDING = 1e-9


class CountedUnit(NamedTuple):
    """A unit and the column that counts it."""

    unit: int
    column: int
    is_added: bool
    """Whether the column counts units that are added to the given ones; else all of them."""


def period_subproblem(program: MixedIntegerProgram, shared: SharedUnits) -> PeriodSubproblem:
    """The subproblem of a situation.

    Args:
        program: the conservative program of that situation alone; where roles are fixed, every pool has one segment.
        shared: the units that periods share.
    """
    return (ChangingRoles if program.bought_accelerators else FixedRoles)(program, shared)


class PeriodSubproblem(ABC):
    """The program of a situation at given units."""

    def __init__(self, program: MixedIntegerProgram, shared: SharedUnits) -> None:
        self._program, self._shared, self._n_columns = program, shared, len(program.rows.names)
        pools, is_priced = program.problem.pools, program.problem.is_priced
        self._pool_usd = [(p.usd_per_hour or 0.0) if is_priced else float(p.n_accelerators) for p in pools]
        self._stocks: dict[int, Inventory] = {}
        self._price_use()
        varied = [*self._sizes(), *self._ports()]
        self._varied = np.array([u for u, *_ in varied], np.intp)
        self._columns = np.array([column for _, column, _ in varied], np.intp)
        self._is_more = np.array([is_more for *_, is_more in varied])
        common = [column for row in program.ports for column in row] + program.link_choices
        columns = [*self._columns.tolist(), *program.link_choices]
        choices: dict[int, list[int]] = {}
        for (g, *_), column in program.cell_choices.items():
            choices.setdefault(g, []).append(column)
        self._blocks = BlockCoordinateProgram(
            program.rows,
            shared=self._common_rows(),
            varied=columns,
            common=common,
            choices=list(choices.values()),
            accepts_first=not self._use.any(),
            time_limit_s=SETTINGS.subproblem_limit_s,
            gap=SETTINGS.subproblem_gap,
        )

    def solution_at(self, units: Units, known: Array | None = None) -> Array | None:
        """A solution at some units.

        Args:
            units: the given units, shape (units,) [count].
            known: a solution at other units, shape (columns,): what still holds of it is kept.

        Returns:
            Columns, shape (columns,); None where no solution was found.
        """
        self._settle(units)
        start = np.concatenate([self._start(units), self._opened(units)])
        return self._blocks.solved(Bounds(start, start), known)

    def cheapest_addition(self, units: Units, most: Units, known: Array | None = None) -> tuple[Units, Array] | None:
        """The units that the period would add to some at least cost.

        Args:
            units: the given units, shape (units,) [count].
            most: the most units there may be, shape (units,) [count].
            known: a solution at other units, shape (columns,): what still holds of it is kept.

        Returns:
            Units to add, shape (units,) [count], and about the columns then; None where no addition was found that
            fits.
        """
        self._settle(units)
        start, found = self._start(units), np.zeros_like(units)
        highs = start + np.minimum(most - units, SETTINGS.most_added)[self._varied]
        lows, highs = np.append(start, self._opened(units)), np.append(highs, np.ones(len(self._program.link_choices)))
        values = self._blocks.solved(Bounds(lows, highs), known)
        if values is None:
            return None
        found[self._varied] = values[self._columns].round() - start
        return found, values

    def use_usd_per_hour(self, values: Array) -> float:
        """What use costs in the period, weighted by its part of the time [USD/h].

        Args:
            values: columns, shape (columns,).
        """
        return float(self._use @ values[: len(self._use)])

    def operation(self, units: Units, values: Array) -> PeriodOperation:
        """Sizes, flows and decoding of the period.

        Args:
            units: the given units, shape (units,) [count].
            values: columns, shape (columns,).
        """
        return operation_of(
            self._program, ProgramSolution(0.0, 0.0, self._with_sizes(units, values[: self._n_columns])), 0
        )

    @abstractmethod
    def _sizes(self) -> Iterator[CountedUnit]:
        """Columns that count units other than ports, added to the program."""

    @abstractmethod
    def _settle(self, units: Units) -> None:
        """Set the limits of rows to those of given units."""

    @abstractmethod
    def _with_sizes(self, units: Units, values: Array) -> Array:
        """Columns, those of sizes included."""

    def _common_rows(self) -> list[int]:
        """Rows that couple several served models: links and stock."""
        limited = [row for row in self._program.shared_rows if self._program.rows.row_highs[row] < np.inf]
        return [*limited, *self._stocks]

    def _ports(self) -> Iterator[CountedUnit]:
        columns = [column for row in self._program.ports for column in row]
        for u, column in enumerate(columns, self._shared.n_sizes):
            self._program.rows.costs[column] = float(self._shared.usd[u])
            yield CountedUnit(u, column, False)

    def _start(self, units: Units) -> Array:
        return np.where(self._is_more, 0.0, units[self._varied])

    def _opened(self, units: Units) -> Array:
        """1 for every link whose ports suffice for any use of it, else 0."""
        if not self._program.link_choices:
            return np.zeros(0)
        least_gbps = np.array(self._program.spec.loads.opened_gbps)
        gbps = self._program.problem.gbps(self._shared.ports(units))
        return np.greater_equal(gbps, least_gbps * (1 - ROUNDING)).astype(float)

    def _price_use(self) -> None:
        """Charge what is kept busy, so that little is: the rest is left for other sizes, models and periods."""
        program, rows = self._program, self._program.rows
        self._use = np.zeros(len(rows.costs))
        for column in (*program.part_rates.values(), *program.between_rates.values(), *program.decode_rates.values()):
            self._use[column] = program.usd_per_hour.get(column, 0.0) if program.problem.is_priced else 0.0
        rows.costs = list(self._use)
        gbit_usd = self._gbit_usd()
        for (_, _, _, _, arc), column, seconds, sent_bytes in program.prefill_uses:
            rows.costs[column] += SETTINGS.use_weight * self._pool_usd[arc.pool] * seconds
            rows.costs[column] += (
                0.0 if arc.link is None else SETTINGS.use_weight * gbit_usd[arc.link] * GBIT_PER_BYTE * sent_bytes
            )
        for (q, _, i), column in program.decode_rates.items():
            rows.costs[column] += SETTINGS.use_weight * self._pool_usd[i] * program.spec.loads.decode_s(q, i)

    def _gbit_usd(self) -> list[float]:
        """Least price of a Gbit/s on every link [USD/h]."""
        return [
            min(((t.usd_per_hour or 0.0) / t.capacity_gbps for t in link.tiers), default=0.0)
            for link in self._program.problem.links
        ]


class FixedRoles(PeriodSubproblem):
    """Units are instances of pools: their number is in the limits of the rows about the pool's work."""

    def _sizes(self) -> Iterator[CountedUnit]:
        """Columns of added instances. Each raises a limit by as much as at the size that the program was built for."""
        self._tables: dict[tuple[int, int], Array] = {}
        self._of_pool: dict[int, list[int]] = {}
        for row, limit in self._program.size_limits.items():
            self._of_pool.setdefault(limit.pool, []).append(row)
        self._free_static_rows()
        program, rows, usd = self._program, self._program.rows, self._shared.usd
        added = {i: rows.column(f"added_{i}", 0, 0, float(usd[i]), True) for i in sorted(self._of_pool)}
        terms: dict[int, tuple[int, float]] = {}
        for i, of_pool in self._of_pool.items():
            ((low, _),) = program.spec.segments[i]
            for row in of_pool:
                table = self._table(program.size_limits[row])
                terms[row] = added[i], -float(table[low + 1] - table[low])
        rows.widen(terms)
        for v, inventory in enumerate(program.problem.inventories):
            of_stock = [
                (added[i], float(program.problem.pools[i].n_accelerators)) for i in inventory.pools if i in added
            ]
            if of_stock:
                self._stocks[rows.row(f"stock_{v}", of_stock, high=0.0)] = inventory
        self._more, self._known = np.array(rows.row_highs), np.full(self._shared.n_sizes, -1, np.int64)
        for i, column in added.items():
            yield CountedUnit(i, column, True)

    def _settle(self, units: Units) -> None:
        sizes = units[: self._shared.n_sizes]
        for row in (row for i in np.flatnonzero(self._known != sizes) for row in self._of_pool.get(int(i), ())):
            limit = self._program.size_limits[row]
            self._blocks.limit(row, self._more[row] + float(self._table(limit)[sizes[limit.pool]]))
        for row, inventory in self._stocks.items():
            used = sum(int(sizes[i]) * self._program.problem.pools[i].n_accelerators for i in inventory.pools)
            self._blocks.limit(row, float(inventory.n_accelerators - used))
        self._known = sizes.copy()

    def _with_sizes(self, units: Units, values: Array) -> Array:
        whole = values.copy()
        for (i, _), columns in self._program.instances.items():
            for column in columns.values():
                whole[column] = units[i]
        return whole

    def _table(self, limit: SizeLimit) -> Array:
        """A limit at every size."""
        _, curve, n_lost = limit
        key = id(curve), n_lost
        if key not in self._tables:
            most = max(pool.max_instances for pool in self._program.problem.pools)
            left = np.arange(most + 2) - n_lost
            self._tables[key] = np.where(left > 0, np.interp(left, GRID[: len(curve)], curve), 0.0)
        return self._tables[key]

    def _free_static_rows(self) -> None:
        """Drop rows that are about sizes alone: sizes are in the limits of other rows here."""
        program, rows = self._program, self._program.rows
        sizes = {c for at in (*program.instances.values(), *program.segment_choices.values()) for c in at.values()}
        for column in sizes:
            rows.lows[column] = rows.highs[column] = 0.0
            rows.integers[column] = False
        static = sizes.union(*program.ports)
        for row in range(len(rows.row_names)):
            if static.issuperset(rows.columns[rows.starts[row] : rows.starts[row + 1]]):
                rows.row_lows[row], rows.row_highs[row] = -np.inf, np.inf


class ChangingRoles(PeriodSubproblem):
    """Units are accelerators of owners: the period makes instances of them as it needs."""

    def _sizes(self) -> Iterator[CountedUnit]:
        """A column of units for every owner, which bounds what it buys; a small price keeps idle instances out."""
        program, rows, shared = self._program, self._program.rows, self._shared
        for i, _ in program.instances:
            for column in sizes_of(program, i, program.sizing_of(program.spec.situations[0])):
                rows.costs[column] += SETTINGS.use_weight * self._pool_usd[i]
        owners = program.problem.owners
        units = {o: rows.column(f"units_{o}", 0, 0, float(shared.usd[o]), True) for o in program.bought_accelerators}
        for o, bought in program.bought_accelerators.items():
            rows.row(f"count_units_{o}", [(bought, 1.0), (units[o], -shared.n_accelerators[o])], 0.0, 0.0)
        bought_of = set(program.bought_accelerators.values())
        for row in range(len(rows.row_names)):
            if bought_of.issuperset(rows.columns[rows.starts[row] : rows.starts[row + 1]]):
                rows.row_highs[row] = np.inf  # units say this instead, for all owners together
        for v, inventory in enumerate(program.problem.inventories):
            terms = [(units[o], float(shared.n_accelerators[o])) for o in units if owners[o][0] in inventory.pools]
            if terms:
                self._stocks[rows.row(f"stock_{v}", terms, high=inventory.n_accelerators)] = inventory
        for o, column in units.items():
            yield CountedUnit(o, column, False)

    def _settle(self, units: Units) -> None:
        """Columns count all units, so no limit changes."""

    def _with_sizes(self, _: Units, values: Array) -> Array:
        return values
