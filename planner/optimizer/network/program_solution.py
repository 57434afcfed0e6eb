"""Solution of a program in terms of a network: arcs in use, sizes, cells that are chosen, and every period."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.network.cells import Cell, Cells
from planner.optimizer.network.indices import PeriodArc, PoolSizing
from planner.optimizer.network.period_operation import Decoding, Flow, PeriodOperation
from planner.optimizer.network.program import MixedIntegerProgram, segments_of
from planner.optimizer.network.rows import ProgramSolution
from planner.optimizer.solution import Solution

TINY = 1e-7


def used_arcs(program: MixedIntegerProgram, found: ProgramSolution) -> frozenset[PeriodArc]:
    """Arcs that a solution uses, by stream and period."""
    return frozenset(
        PeriodArc(q, program.spec.situations[s].period, arc)
        for (q, s, _, _, arc), column in (*program.part_rates.items(), *program.between_rates.items())
        if found.values[column] > TINY
    )


def largest_sizes(program: MixedIntegerProgram, found: ProgramSolution) -> list[int]:
    """Most instances of every pool in any sizing [count], rounded."""
    return [
        max(round(sum(found.values[c] for c in row.values())) for (i, _), row in program.instances.items() if i == pool)
        for pool in range(len(program.problem.pools))
    ]


def operation_of(program: MixedIntegerProgram, found: ProgramSolution, situation_index: int) -> PeriodOperation:
    """Operation in a situation, by a solution: sizes, flows and decoding."""
    situation, values = program.spec.situations[situation_index], found.values
    h = program.sizing_of(situation)
    n = tuple(
        sum(round(values[column]) for column in program.instances[PoolSizing(i, h)].values())
        for i in range(len(program.problem.pools))
    )
    flows = []
    for (q, at, k, part, arc), column in program.part_rates.items():
        if at == situation_index and values[column] > TINY:
            cell = program.spec.cells[program.problem.group_of[q], situation.period][k]
            flows.append(Flow(q, part, arc, cell.high_tokens, float(values[column])))
    decodings = (
        Decoding(q, i, float(values[c]))
        for (q, at, i), c in program.decode_rates.items()
        if at == situation_index and values[c] > TINY
    )
    return PeriodOperation(situation.period, n, tuple(flows), tuple(decodings))


def chosen_cells(program: MixedIntegerProgram, values: NDArray[np.float64]) -> Cells:
    """The cell of every group in every period that is chosen, or chosen most.

    Args:
        values: its columns, shape (columns,).
    """
    chosen: dict[tuple[int, int], tuple[float, Cell]] = {}
    for (g, s, k), y in program.cell_choices.items():
        at = g, program.spec.situations[s].period
        cell = program.spec.cells[at][k]
        chosen[at] = max(chosen.get(at, (-1.0, cell)), (float(values[y]), cell))
    return {at: [cell] for at, (_, cell) in chosen.items()}


def start_values(program: MixedIntegerProgram, plan: Solution) -> dict[int, float]:
    """The integers of a plan as start values of a program; cells of periods that it leaves out have none."""
    start: dict[int, float] = {}
    operations = {one.period: one for one in plan.operations}
    for (i, h), columns in program.instances.items():
        n = operations.get(h if len(plan.operations) > 1 else 0, plan.operations[0]).n_instances[i]
        for (j, column), (low, high) in zip(columns.items(), segments_of(program, i), strict=True):
            is_inside = low <= n <= high
            start[column] = float(n) if is_inside else 0.0
            start[program.segment_choices[PoolSizing(i, h)][j]] = float(is_inside)
    for row, ports in zip(program.ports, plan.ports, strict=True):
        start |= {column: float(m) for column, m in zip(row, ports, strict=True)}
    for (g, s, k), y in program.cell_choices.items():
        period = program.spec.situations[s].period
        if period in operations:
            used = [f for f in operations[period].flows if f.stream in program.problem.groups[g]]
            cells = program.spec.cells[g, period]
            held = {_cell_of(cells, flow.threshold_tokens) for flow in used} or {0}
            start[y] = float(k in held)
    return start


def _cell_of(cells: Sequence[Cell], threshold_tokens: float) -> int:
    """The first cell that holds a threshold; else the first of all."""
    held = (k for k, cell in enumerate(cells) if cell.low_tokens <= threshold_tokens <= cell.high_tokens)
    return next(held, 0)
