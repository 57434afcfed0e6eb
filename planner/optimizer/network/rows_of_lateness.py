"""Rows of the mixed-integer model of a network about late requests, where pools share what a class may be late."""

from __future__ import annotations

from planner.optimizer.network.lateness import late_service_s, least_late
from planner.optimizer.network.loads import Use
from planner.optimizer.network.model import Model, Share, cell_of


def bound_late_requests(model: Model) -> None:
    """sum of l_qska over all pools, parts and streams of a class <= e_c sum of r_qsk, e_c the fraction that may be late.

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


def count_late_anyhow(model: Model) -> None:
    """l_qska >= v x_qska f, v the fraction of the f requests of a use that is late in an idle pool."""
    loads = model.question.loads
    for columns, is_between in ((model.x, False), (model.between, True)):
        for (q, s, k, part, arc), column in columns.items():
            if column not in model.late:
                continue
            use = Use(q, arc, part, cell_of(model, q, s, k))
            least = least_late(loads, use, is_between)
            if least <= 0:
                continue
            if is_between:
                service_s = late_service_s(loads, use, is_between)
                n_requests = loads.between_s(q, arc, use.cell) / service_s if service_s > 0 else 0.0
            else:
                n_requests = loads.fraction(q, part, use.cell)
            share: Share = "between" if is_between else part
            name = f"count_late_anyhow_{q}_{s}_{k}_{share}_{part}_{arc.pool}"
            name += "" if arc.link is None else f"_{arc.link}"
            model.rows.row(name, [(model.late[column], 1.0), (column, -least * n_requests)], low=0)
