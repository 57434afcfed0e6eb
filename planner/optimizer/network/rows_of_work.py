"""Rows of a network's program that keep pools within their sizes: one function per family.

How busy a pool may be is a curve A(n) of its size n. A row has a line over every segment of the sizes instead: above
the curve in bounds, below it in conservative programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.optimizer.network.cells import Array, Use
from planner.optimizer.network.indices import CellChoice, PoolInSituation, PoolSizing
from planner.optimizer.network.lateness import LateUse, sizes_between, tangents
from planner.optimizer.network.loads import GRID
from planner.optimizer.network.program import MixedIntegerProgram, segments_of
from planner.optimizer.network.rows_of_links import GBIT_PER_BYTE

SLOPE_DIGITS = 6
NEGLIGIBLE = 1e-4
"""Busy instances, or Gbps, that a solver may take for nothing."""
Terms = list[tuple[int, float]]
"""Columns, and what a unit of each makes of a row."""
Worker = tuple[Terms, Array, float]
"""A column of work with the seconds of a unit, its limit, and the mean residual of its services [s]. Late
requests, where pools share them, take some of the work off."""
Lines = Sequence[tuple[float, float]]
"""Slope and constant over every segment of a pool's sizes."""
Alike = tuple[object, ...]
"""What makes the users of a pool leave each other the same."""


@dataclass(frozen=True)
class _Crowd:
    """Limits of the users of a pool on each other: the same in all situations with the same losses and limits."""

    factors: Array
    """On the work of every user in the limit of every cell, shape (cells, users),"""
    factors_of_all: Array
    """Factors on the work of every user in the limit of all work, shape (users,)."""
    limits: list[Lines]
    """Of every cell,"""
    limit_of_all: Lines
    """Limit of all work."""


def bound_prefill_work(program: MixedIntegerProgram) -> None:
    """Work of every cell, and of all cells together, is at most what a pool of its size may have with them.

    Equation:
        sum over the users u of a cell of f_u T_u x_u <= A(n_i), and the same over all users of the pool

    Args:
        program: the program; its columns of rates are there.
    """
    loads, cells, situations = program.spec.loads, program.spec.cells, program.spec.situations
    group_of = program.problem.group_of
    crowds: dict[Alike, _Crowd] = {}
    loads.prepare(
        Use(q, arc, part, cells[group_of[q], situations[s].period][k])
        for (_, s), users in program.users_of_pool.items()
        for q, k, part, arc, column, _ in users
        if column not in program.late_rates and program.problem.pools[arc.pool].batching is None
    )
    for at, users in program.users_of_pool.items():
        i, s = at
        if program.problem.pools[i].batching is not None:
            continue  # see `rows_of_passes`
        first = len(program.rows.row_names)
        if program.spec.shares_lateness and any(column in program.late_rates for *_, column, _ in users):
            _bound_late_work(program, at, crowds)
        else:
            work: dict[tuple[int, int], list[Worker]] = {}
            for q, k, part, arc, column, seconds in users:
                use = q, arc, part, cells[group_of[q], situations[s].period][k]
                residual_s = loads.residual_s(*use) if program.spec.is_conservative else 0.0
                limit = loads.most_busy(*use)
                if program.spec.is_conservative and not limit.any():
                    program.rows.highs[column] = 0.0  # and no request of the pool has to wait for it
                    continue
                worker = [(column, seconds)], limit, residual_s
                work.setdefault((group_of[q], k), []).append(worker)
            if work:
                _bound_crowd(program, at, work, _crowd_of(program, at, work, crowds))
        program.prefill_rows[at] = list(range(first, len(program.rows.row_names)))


def _crowd_of(
    program: MixedIntegerProgram,
    at: PoolInSituation,
    work: Mapping[tuple[int, int], Sequence[Worker]],
    known: dict[Alike, _Crowd],
) -> _Crowd:
    """Limits of the users of a pool on each other, remembered for situations that ask for the same."""
    workers = [worker for some in work.values() for worker in some]
    sizes = tuple(len(some) for some in work.values())
    limits, residuals = (tuple(worker[x] for worker in workers) for x in (1, 2))
    # Loads keep the limits, and equal ones once.
    alike = at[0], _n_lost(program, *at), sizes, tuple(map(id, limits)), residuals
    if alike not in known:
        crowd = _conservative_crowd if program.spec.is_conservative else _optimistic_crowd
        known[alike] = crowd(program, at, np.array(limits), np.array(residuals), sizes)
    return known[alike]


def _bound_late_work(program: MixedIntegerProgram, at: PoolInSituation, crowds: dict[Alike, _Crowd]) -> None:
    """The same where late requests make up for work: rows for some sizes of the pool, as `lateness` says; and all
    work within the pool."""
    i, s = at
    loads, group_of, period = program.spec.loads, program.problem.group_of, program.spec.situations[s].period
    levels = dict.fromkeys(sizes_between(*piece) for piece in segments_of(program, i))
    users = [
        (Use(q, arc, part, program.spec.cells[group_of[q], period][k]), k, column, seconds)
        for q, k, part, arc, column, seconds in program.users_of_pool[at]
    ]
    for level, n in enumerate(levels):
        late_uses = {column: LateUse(use, column in program.between_columns, n) for use, _, column, _ in users}
        known = tangents(loads, (late for column, late in late_uses.items() if column in program.late_rates))
        work: dict[tuple[int, int], list[Worker]] = {}
        for use, k, column, seconds in users:
            terms, limit = [(column, seconds)], loads.grid
            if column in program.late_rates:
                limit, busy_per_late = known[late_uses[column]]
                terms.append((program.late_rates[column], -busy_per_late))
            work.setdefault((group_of[use.stream], k), []).append((terms, limit, 0.0))
        _bound_crowd(program, at, work, _crowd_of(program, at, work, crowds), f"_{level}")
    (most,) = limits_of_size(program, at, loads.most_stable[np.newaxis], above=True)
    within_size(program, f"bound_prefill_{i}_{s}", at, [(column, seconds) for *_, column, seconds in users], most)


def _optimistic_crowd(
    program: MixedIntegerProgram, at: PoolInSituation, limits: Array, _: Array, sizes: Sequence[int]
) -> _Crowd:
    """Limits of users, shape (users, sizes of the grid), cell by cell, made common to each cell and to all.

    Each counts by its own limit: waits are in proportion to what is left of the services that are met, so that of a mix
    lies between, and none has more room with a stricter one beside it. What a mix gains on that in small pools is less
    than what the shortest waits leave open.
    """
    of_cells = np.maximum.reduceat(limits, np.cumsum([0, *sizes[:-1]]))
    patient = limits.max(axis=0, keepdims=True)
    own = _slowness(program, at[0], limits, of_cells.repeat(sizes, axis=0))
    return _Crowd(
        factors=np.tile(own, (len(sizes), 1)),
        factors_of_all=_slowness(program, at[0], limits, patient),
        limits=limits_of_size(program, at, of_cells, above=True),
        limit_of_all=limits_of_size(program, at, patient, above=True)[0],
    )


def _conservative_crowd(
    program: MixedIntegerProgram, at: PoolInSituation, limits: Array, residuals_s: Array, sizes: Sequence[int]
) -> _Crowd:
    """Limits of cells by the slack of their strictest user, whoever makes it wait: longer services count for more.

    Equation:
        sum of b_v (w + (1 - w) R_v / R) <= w n, w = 1 / (1 + max of (n / A_u - 1) R / R_u): busy instances b_v, limits
        A_u of every user by itself, R_v what is left of its services, R the least of them. The factors are those of the
        size that is sought, or one in the middle; smaller sizes have a lower limit instead.

    Source:
        Köllerström (1974), J. Appl. Prob. 11: in heavy traffic waits are exponential, and with Poisson arrivals their
        mean is in proportion to E[T^2] / E[T] of all services over n - b.
    """
    grid = GRID[: limits.shape[1]]
    least = min((r for r in residuals_s if r > 0), default=1.0)
    stretch = np.where(residuals_s > 0, residuals_s / least, 1.0)
    with np.errstate(divide="ignore"):
        free = (grid / limits - 1) / stretch[:, np.newaxis]
    busy = 1 / (1 + np.maximum.reduceat(free, np.cumsum([0, *sizes[:-1]])))
    segments = segments_of(program, at[0]) or [(1, 1)]
    size = program.spec.near_sizes.get(at[0]) or (segments[0][0] * segments[-1][1]) ** 0.5
    there = np.array([np.interp(size, grid, some) for some in busy])[:, np.newaxis]
    slowest = busy + (1 - busy) * stretch.max()
    of_cells = busy * grid / np.maximum(slowest / (there + (1 - there) * stretch.max()), 1.0)
    patient = of_cells.max(axis=0, keepdims=True)
    return _Crowd(
        factors=there + (1 - there) * stretch,
        factors_of_all=_slowness(program, at[0], of_cells.repeat(sizes, axis=0), patient),
        limits=limits_of_size(program, at, of_cells, above=False),
        limit_of_all=limits_of_size(program, at, patient, above=True)[0],
    )


def _bound_crowd(
    program: MixedIntegerProgram,
    at: PoolInSituation,
    work: Mapping[tuple[int, int], Sequence[Worker]],
    crowd: _Crowd,
    suffix: str = "",
) -> None:
    """Work of a cell within its limit, and all work within the widest one; in conservative programs of several groups
    all work within the limit of every chosen cell.

    The second is implied by the third where cells are chosen whole, and keeps relaxed answers from using the whole pool
    once for every cell.
    """
    i, s = at
    everything = [terms for some in work.values() for terms, *_ in some]
    ends = np.cumsum([len(some) for some in work.values()]).tolist()
    for (g, k), end, some, factors, limit in zip(work, ends, work.values(), crowd.factors, crowd.limits, strict=True):
        own = slice(end - len(some), end)
        within_size(
            program, f"bound_prefill_cell_{i}_{s}_{g}_{k}{suffix}", at, _times(everything[own], factors[own]), limit
        )
    if len(work) == 1:
        return
    terms = _times(everything, crowd.factors_of_all)
    within_size(program, f"bound_prefill_work_{i}_{s}{suffix}", at, terms, crowd.limit_of_all)
    if not program.spec.is_conservative or len({g for g, _ in work}) == 1:
        return
    for (g, k), factors, limit in zip(work, crowd.factors, crowd.limits, strict=True):
        most = float(program.problem.pools[i].max_instances * factors.max())
        unless = [*_times(everything, factors), (program.cell_choices[CellChoice(g, s, k)], most)]
        within_size(program, f"bound_prefill_work_{i}_{s}_{g}_{k}", at, unless, limit, most)


def _times(work: Sequence[Terms], factors: Array) -> Terms:
    """Work of every user by its factor."""
    pairs = zip(work, factors.tolist(), strict=True)
    return [(column, seconds * factor) for terms, factor in pairs for column, seconds in terms]


def _slowness(program: MixedIntegerProgram, pool: int, own: Array, common: Array) -> Array:
    """Factors on the work of users who need more room than a common limit: least over a pool's sizes, at least 1."""
    n = int(np.searchsorted(GRID, program.problem.pools[pool].max_instances)) + 1
    own, common = np.broadcast_arrays(own[:, :n], common[:, :n])
    ratios = np.divide(common, own, out=np.full(own.shape, np.inf), where=own > 0)
    return np.maximum(np.where((own > 0).any(axis=1), ratios.min(axis=1), 1.0), 1.0)


def staff_used_pools(program: MixedIntegerProgram) -> None:
    """A pool and a link have something where they are used, however little work it is: less than a tolerance counts.

    Equation:
        x_qska <= most sum of z_ij over the segments of a pool, and <= most sum of m_lj, where the work, or the traffic,
        of the greatest rate is negligible

    Args:
        program: the program.
    """
    top = program.rows.highs[program.scale]
    for rate, column, seconds, sent_bytes in program.prefill_uses:
        most, situation = top * program.problem.peak_req_per_s[rate.stream], program.spec.situations[rate.situation]
        name = f"{column}_{rate.arc.pool}"
        if 0 < seconds * most < NEGLIGIBLE:
            sizing = PoolSizing(rate.arc.pool, program.sizing_of(situation))
            staffed = [(z, -most) for z in program.segment_choices[sizing].values()]
            program.rows.row(f"staff_used_pools_{name}", [(column, 1.0), *staffed], high=0)
        if rate.arc.link is not None and 0 < sent_bytes * most * GBIT_PER_BYTE < NEGLIGIBLE:
            ports = [(m, -most) for m in program.ports[rate.arc.link]]
            program.rows.row(f"open_ports_{name}", [(column, 1.0), *ports], high=0)


def bound_decode_slots(program: MixedIntegerProgram) -> None:
    """Every request finds a place in the batches of its decode pool, with few that wait for one.

    Equation:
        sum of d_qsi T_decode L_out / BS_max <= A(n_i)

    Args:
        program: the program.
    """
    loads, is_conservative = program.spec.loads, program.spec.is_conservative
    users: dict[PoolInSituation, list[tuple[int, float, Array]]] = {}
    for (q, s, i), column in program.decode_rates.items():
        if program.problem.pools[i].batching is None:
            user = column, loads.decode_s(q, i), loads.most_busy_decode(q, i)
            users.setdefault(PoolInSituation(i, s), []).append(user)
    for at, some in users.items():
        i, s = at
        own = np.array([limit for *_, limit in some])
        common = (np.min if is_conservative else np.max)(own, axis=0, keepdims=True)
        (limit,) = limits_of_size(program, at, common, not is_conservative)
        terms = _times([[(column, seconds)] for column, seconds, _ in some], _slowness(program, i, own, common))
        within_size(program, f"bound_decode_slots_{i}_{s}", at, terms, limit)


def within_size(
    program: MixedIntegerProgram,
    name: str,
    at: PoolInSituation,
    terms: Sequence[tuple[int, float]],
    limit: Lines,
    more: float = 0.0,
) -> None:
    """terms <= limit at the size of a pool in a situation, and more, by lines over its segments."""
    sizing = PoolSizing(at.pool, program.sizing_of(program.spec.situations[at.situation]))
    columns = zip(program.instances[sizing].values(), program.segment_choices[sizing].values(), strict=True)
    size: list[tuple[int, float]] = []
    for (n, z), (slope, constant) in zip(columns, limit, strict=True):
        size += [(n, -slope), (z, -constant)]
    program.rows.row(name, [*terms, *size], high=more)


def _n_lost(program: MixedIntegerProgram, pool: int, s: int) -> int:
    """Instances of a pool that a situation takes away, or that are to be spare in all."""
    return program.spec.n_spare + int(program.spec.situations[s].loss == ("instance", program.problem.pools[pool].name))


def limits_of_size(program: MixedIntegerProgram, at: PoolInSituation, curves: Array, above: bool) -> list[Lines]:
    """Every curve with lines over the segments of a pool's sizes."""
    n_lost = _n_lost(program, *at)
    segments = [chords(curves, low, high, n_lost, above) for low, high in segments_of(program, at[0])]
    return [[lines[c] for lines in segments] for c in range(len(curves))]


def chords(limits: Array, low: int, high: int, n_lost: int, above: bool) -> Lines:
    """Lines above or below limits, one for each segment of the sizes: the chord, moved beyond the limit everywhere.

    >>> chords(GRID[np.newaxis] - 0.5, 1, 4, 0, True)
    [(1.0, -0.5)]

    Args:
        limits: limits at the sizes of GRID, shape (limits, sizes) [count].
        low: least size of the segment [count].
        high: greatest size of the segment [count].
        n_lost: instances that are lost: the limit is that of the rest [count].
        above: whether the line lies above the limit, for bounds; else below.
    """
    kinks = GRID + n_lost
    sizes = np.concatenate([[low], kinks[(low < kinks) & (high > kinks)], [high]])
    left = sizes - n_lost
    values = np.array([np.interp(left, GRID[: len(limit)], limit) for limit in limits])
    values = np.where(left > 0, values, 0.0)
    slopes = np.ones(len(limits))
    if high > low:
        # Few digits: HiGHS takes coefficients that are nearly, but not quite, round for something else.
        exact = (values[:, -1] - values[:, 0]) / (high - low)
        slopes = np.array([round(slope, SLOPE_DIGITS) for slope in exact.tolist()])
    over = values - slopes[:, np.newaxis] * sizes
    constants = over.max(axis=1) if above else over.min(axis=1)
    return list(zip(slopes.tolist(), constants.tolist(), strict=True))
