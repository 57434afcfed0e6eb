"""Rows of the mixed-integer model of a network about late requests, where pools share what a class may be late."""

from __future__ import annotations

from math import inf

from planner.optimizer.network.cells import Use
from planner.optimizer.network.indices import Share
from planner.optimizer.network.lateness import least_late, requests_of_use
from planner.optimizer.network.program import MixedIntegerProgram, cell_of


def bound_late_requests(program: MixedIntegerProgram) -> None:
    """sum of l_qska over all pools and parts of a class <= e_c sum of r_qsk, e_c the fraction that may be late.

    Where a class has one stream, it has one cell, and the row holds for every cell.
    """
    problem = program.problem
    late: dict[tuple[int, ...], list[tuple[int, float]]] = {}
    streams: dict[tuple[int, int], set[int]] = {}
    for q, s, _ in program.stream_rates:
        streams.setdefault((problem.streams[q].request_class, s), set()).add(q)
    uses = [(key, column) for columns in (program.part_rates, program.between_rates) for key, column in columns.items()]
    for (q, s, k, _, _), column in uses:
        if column in program.late_rates:
            late.setdefault(_of(program, streams, q, s, k), []).append((program.late_rates[column], 1.0))
    for (q, s, k), (column, rate) in program.stream_rates.items():
        at = _of(program, streams, q, s, k)
        if at in late:
            late[at].append((column, -rate * program.spec.loads.late_allowed(q)))
    for at, terms in late.items():
        program.rows.row(f"bound_late_requests_{'_'.join(map(str, at))}", terms, high=0)


def _of(
    program: MixedIntegerProgram, streams: dict[tuple[int, int], set[int]], q: int, s: int, k: int
) -> tuple[int, ...]:
    """Whose requests are counted together: those of a class in a situation, or in a cell if it has one at a time."""
    c = program.problem.streams[q].request_class
    return (c, s, k) if len(streams[c, s]) == 1 else (c, s)


def count_late_requests(program: MixedIntegerProgram) -> None:
    """v f x_qska <= l_qska <= f x_qska, v the fraction of the f requests of a use that is late in an idle pool."""
    loads = program.spec.loads
    for columns, is_between in ((program.part_rates, False), (program.between_rates, True)):
        for (q, s, k, part, arc), column in columns.items():
            if column not in program.late_rates:
                continue
            use, link = Use(q, arc, part, cell_of(program, q, s, k)), "" if arc.link is None else arc.link
            least, (fewest, most) = least_late(loads, use, is_between), requests_of_use(loads, use, is_between)
            share: Share = "between" if is_between else part
            at, late = f"{q}_{s}_{k}_{share}_{part}_{arc.pool}_{link}", (program.late_rates[column], 1.0)
            if most < inf:
                program.rows.row(f"count_late_requests_{at}", [late, (column, -most)], high=0)
            if least * fewest > 0:
                program.rows.row(f"count_late_anyhow_{at}", [late, (column, -least * fewest)], low=0)
