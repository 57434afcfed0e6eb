"""Rows of the mixed-integer model of a network that keep pools within their sizes: one function per family.

How busy a pool may be is a curve A(n) of its size; a row has lines over the segments of the size instead, above the
curve in bounds and below it where an answer must hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from planner.optimizer.network.loads import GRID, Array, Use
from planner.optimizer.network.model import Model, segments_of

SLOPE_DIGITS = 6


def bound_prefill_work(model: Model) -> None:
    """Work of every cell, and of all together, <= A(n_i): as busy as a pool of that size may be with them."""
    loads, cells, situations = model.question.loads, model.question.cells, model.question.situations
    loads.prepare(
        Use(q, arc, part, cells[model.problem.group_of[q], situations[s].period][k])
        for (_, s), users in model.by_pool.items()
        for q, k, part, arc, *_ in users
    )
    for (i, s), users in model.by_pool.items():
        period = model.question.situations[s].period
        curves: dict[tuple[int, int], Array] = {}
        work: dict[tuple[int, int], list[tuple[int, float, Array]]] = {}
        first = len(model.rows.row_names)
        for q, k, part, arc, column, seconds in users:
            g = model.problem.group_of[q]
            limit = loads.most_busy(q, arc, part, model.question.cells[g, period][k])
            work.setdefault((g, k), []).append((column, seconds, limit))
        for key, items in work.items():
            curves[key] = _common(model, [limit for _, _, limit in items])
            terms = [(c, w * _slowness(model, i, limit, curves[key])) for c, w, limit in items]
            _within_size(model, f"bound_prefill_cell_{i}_{s}_{key[0]}_{key[1]}", (i, s), terms, curves[key])
        if len(work) > 1:
            _bound_together(model, (i, s), work, curves)
        model.of_pool[i, s] = list(range(first, len(model.rows.row_names)))


def _bound_together(
    model: Model,
    at: tuple[int, int],
    work: Mapping[tuple[int, int], Sequence[tuple[int, float, Array]]],
    curves: Mapping[tuple[int, int], Array],
) -> None:
    """All work of a pool within the most patient limit; in a safe model within that of every chosen cell of a group.

    The first is implied by the second where cells are chosen whole, and keeps relaxed answers from using the whole pool
    once for every cell.
    """
    i, s = at
    is_safe = model.question.is_safe
    everything = [(c, w, curves[key] if is_safe else own) for key, items in work.items() for c, w, own in items]
    patient = np.max([limit for *_, limit in everything], axis=0)
    terms = [(column, seconds * _slowness(model, i, limit, patient)) for column, seconds, limit in everything]
    _within_size(model, f"bound_prefill_work_{i}_{s}", at, terms, patient, above=True)
    if not is_safe:
        return
    most = float(model.problem.pools[i].max_instances)
    for (g, k), curve in curves.items() if len({g for g, _ in work}) > 1 else ():
        unless = [*((column, seconds) for column, seconds, _ in everything), (model.y[g, s, k], most)]
        _within_size(model, f"bound_prefill_work_{i}_{s}_{g}_{k}", at, unless, curve, most)


def _common(model: Model, limits: Sequence[Array]) -> Array:
    """Limit of several users: of the strictest where the answer must hold, else of the most patient."""
    return np.asarray((np.min if model.question.is_safe else np.max)(limits, axis=0))


def _slowness(model: Model, pool: int, own: Array, common: Array) -> float:
    """Factor on the work of a user who needs more room than the common limit: least over a pool's sizes, at least 1."""
    n = int(np.searchsorted(GRID, model.problem.pools[pool].max_instances)) + 1
    is_open = own[:n] > 0
    return max(1.0, float(np.min(common[:n][is_open] / own[:n][is_open]))) if is_open.any() else 1.0


def bound_decode_slots(model: Model) -> None:
    """sum of d_qsi T_decode L_out / BS_max <= A(n_i): slots for all, with few who wait for one."""
    users: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for (q, s, i), column in model.d.items():
        users.setdefault((i, s), []).append((column, model.question.loads.decode_s(q, i)))
    for (i, s), terms in users.items():
        limit = model.question.loads.most_busy_decode(i)
        _within_size(model, f"bound_decode_slots_{i}_{s}", (i, s), terms, limit)


def _within_size(
    model: Model,
    name: str,
    at: tuple[int, int],
    terms: list[tuple[int, float]],
    limit: Array,
    more: float = 0.0,
    above: bool | None = None,
) -> None:
    """terms <= limit at the size of a pool in a situation, and more, by lines over its segments: above it in bounds."""
    i, s = at
    situation = model.question.situations[s]
    is_lost = situation.loss is not None and situation.loss == ("instance", model.problem.pools[i].name)
    h, size = model.sizing_of(situation), []
    for j, (low, high) in enumerate(segments_of(model, i)):
        slope, constant = line(limit, low, high, int(is_lost), not model.question.is_safe if above is None else above)
        size += [(model.n[i, h][j], -slope), (model.z[i, h][j], -constant)]
    model.rows.row(name, [*terms, *size], high=more)


def line(limit: Array, low: int, high: int, lost: int, above: bool) -> tuple[float, float]:
    """Slope and constant of the chord of limit(n - lost) over a segment, moved to lie above or below it everywhere.

    >>> line(GRID - 0.5, 1, 4, 0, True)
    (1.0, -0.5)
    """
    sizes = np.unique(np.concatenate([[low, high], _between(low, high)]))
    values = np.where(sizes > lost, np.interp(sizes - lost, GRID[: len(limit)], limit), 0.0)
    # Few digits: HiGHS takes coefficients that are nearly, but not quite, round for something else.
    slope = round(float((values[-1] - values[0]) / (high - low)), SLOPE_DIGITS) if high > low else 1.0
    over = values - slope * sizes
    return slope, float(over.max() if above else over.min())


def _between(low: int, high: int) -> Array:
    return GRID[np.greater(GRID, low) & np.less(GRID, high)]
