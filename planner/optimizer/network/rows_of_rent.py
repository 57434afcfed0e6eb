"""Columns and rows of a network's program about pools that are rented by the period: starts, least time up, and the
pools beside them that keep one size."""

from __future__ import annotations

from itertools import pairwise

from planner.optimizer.network.indices import PoolSizing
from planner.optimizer.network.program import MixedIntegerProgram, sizes_of
from planner.optimizer.rent import times_within


def add_start_columns(program: MixedIntegerProgram) -> None:
    """Add the columns of instances that start with a period, priced for the time that starting takes.

    Equation:
        c_i h_up / H per start: c_i the rent of an instance, h_up the time it takes, H the length of the cycle

    Args:
        program: the program; its columns of instances are there.
    """
    problem = program.problem
    cycle_h = sum(period.hours for period in problem.periods)
    for i, h in program.instances if problem.is_followed else ():
        pool = problem.pools[i]
        if pool.by_period is not None:
            column = program.starts[PoolSizing(i, h)] = program.rows.column(f"starts_{i}_{h}")
            if pool.by_period.start_up_h and pool.usd_per_hour:
                program.usd_per_hour[column] = pool.usd_per_hour * pool.by_period.start_up_h / cycle_h


def start_instances(program: MixedIntegerProgram) -> None:
    """Instances of a pool beyond those of the period before have started; the last period is before the first.

    Equation:
        s_ih >= n_ih - n_i(h-1)

    Args:
        program: the program.
    """
    for (i, h), column in program.starts.items():
        before = (h - 1) % len(program.problem.periods)
        if PoolSizing(i, before) in program.instances and before != h:
            grown = [(n, -1.0) for n in sizes_of(program, i, h)] + [(n, 1.0) for n in sizes_of(program, i, before)]
            program.rows.row(f"start_instances_{i}_{h}", [(column, 1.0), *grown], low=0)


def keep_up(program: MixedIntegerProgram) -> None:
    """Instances stay up for the least time that they must once they have started.

    Equation:
        n_ih >= sum over periods q of m_qh s_iq: m_qh how many of the starts with q still have to be up in h

    Args:
        program: the program.

    Source:
        Minimum up-time rows of unit commitment (Rajan and Takriti 2005), of alike units summed, around a cycle.
    """
    hours = [period.hours for period in program.problem.periods]
    for i, h in program.starts:
        by_period = program.problem.pools[i].by_period
        if by_period is None or not by_period.least_up_h:
            continue
        begun = [
            (column, -float(times))
            for (j, q), column in program.starts.items()
            if j == i and (times := times_within(hours, by_period.least_up_h, q, h))
        ]
        program.rows.row(f"keep_up_{i}_{h}", [*((n, 1.0) for n in sizes_of(program, i, h)), *begun], low=0)


def keep_size(program: MixedIntegerProgram) -> None:
    """Pools that are rented at all times have one size.

    Equation:
        n_ih = n_i(h-1)

    Args:
        program: the program.
    """
    if not program.problem.is_followed:
        return
    sizings = sorted({h for _, h in program.instances})
    for i, pool in enumerate(program.problem.pools):
        for before, h in pairwise(sizings) if pool.by_period is None else ():
            same = [(n, 1.0) for n in sizes_of(program, i, h)] + [(n, -1.0) for n in sizes_of(program, i, before)]
            program.rows.row(f"keep_size_{i}_{h}", same, 0.0, 0.0)
