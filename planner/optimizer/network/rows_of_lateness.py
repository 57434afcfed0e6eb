"""Rows of a network's program about late requests, where the pools of a class share them."""

from __future__ import annotations

from math import inf

from planner.optimizer.network.cells import Use
from planner.optimizer.network.indices import Share
from planner.optimizer.network.lateness import least_late, requests_of_use
from planner.optimizer.network.program import MixedIntegerProgram, cell_of


def bound_late_requests(program: MixedIntegerProgram) -> None:
    """Late requests of a class are within its SLO, over all its pools and parts.

    Equation:
        sum of l_qska <= e_c sum of r_qsk, e_c the fraction that may be late; for every cell where the class has one
        stream

    Args:
        program: the program.
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
    """Indices of a row: requests of a class in a situation are counted together, or by cell if it has one stream."""
    c = program.problem.streams[q].request_class
    return (c, s, k) if len(streams[c, s]) == 1 else (c, s)


def count_late_requests(program: MixedIntegerProgram) -> None:
    """Late requests of a use lie between those that are late without a wait, and all of them.

    Equation:
        v f x_qska <= l_qska <= f x_qska, f the requests of a use per unit of its rate, v the fraction late in an idle
        pool

    Args:
        program: the program.
    """
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
