"""Rows of the mixed-integer model of a network about late requests, where pools share what a class may be late."""

from __future__ import annotations

from math import inf

from planner.optimizer.network.lateness import least_late, requests_of_use
from planner.optimizer.network.loads import Use
from planner.optimizer.network.model import Model, Share, cell_of


def bound_late_requests(model: Model) -> None:
    """sum of l_qska over all pools and parts of a class <= e_c sum of r_qsk, e_c the fraction that may be late.

    Where a class has one stream, it has one cell, and the row holds for every cell.
    """
    problem = model.problem
    late: dict[tuple[int, ...], list[tuple[int, float]]] = {}
    streams: dict[tuple[int, int], set[int]] = {}
    for q, s, _ in model.r:
        streams.setdefault((problem.streams[q].request_class, s), set()).add(q)
    uses = [(key, column) for columns in (model.x, model.between) for key, column in columns.items()]
    for (q, s, k, _, _), column in uses:
        if column in model.late:
            late.setdefault(_of(model, streams, q, s, k), []).append((model.late[column], 1.0))
    for (q, s, k), (column, rate) in model.r.items():
        at = _of(model, streams, q, s, k)
        if at in late:
            late[at].append((column, -rate * model.question.loads.late_allowed(q)))
    for at, terms in late.items():
        model.rows.row(f"bound_late_requests_{'_'.join(map(str, at))}", terms, high=0)


def _of(model: Model, streams: dict[tuple[int, int], set[int]], q: int, s: int, k: int) -> tuple[int, ...]:
    """Whose requests are counted together: those of a class in a situation, or in a cell if it has one at a time."""
    c = model.problem.streams[q].request_class
    return (c, s, k) if len(streams[c, s]) == 1 else (c, s)


def count_late_requests(model: Model) -> None:
    """v f x_qska <= l_qska <= f x_qska, v the fraction of the f requests of a use that is late in an idle pool."""
    loads = model.question.loads
    for columns, is_between in ((model.x, False), (model.between, True)):
        for (q, s, k, part, arc), column in columns.items():
            if column not in model.late:
                continue
            use, link = Use(q, arc, part, cell_of(model, q, s, k)), "" if arc.link is None else arc.link
            least, (fewest, most) = least_late(loads, use, is_between), requests_of_use(loads, use, is_between)
            share: Share = "between" if is_between else part
            at, late = f"{q}_{s}_{k}_{share}_{part}_{arc.pool}_{link}", (model.late[column], 1.0)
            if most < inf:
                model.rows.row(f"count_late_requests_{at}", [late, (column, -most)], high=0)
            if least * fewest > 0:
                model.rows.row(f"count_late_anyhow_{at}", [late, (column, -least * fewest)], low=0)
