"""Rows of a network's program about accelerators in stock and about pools that are limited together."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from planner.optimizer.network.indices import PoolSizing
from planner.optimizer.network.program import MixedIntegerProgram, sizes_of


def bound_accelerators(program: MixedIntegerProgram) -> None:
    """Accelerators of pools, or of owners where roles change, are within the inventories.

    Equation:
        sum of a_i n_i over the pools of an inventory <= its accelerators; where roles change, sum of b_o over its
        owners

    Args:
        program: the program.
    """
    problem = program.problem
    for v, inventory in enumerate(problem.inventories):
        if problem.scenario.routing.role_conversion:
            owners = (o for o, members in enumerate(problem.owners) if members[0] in inventory.pools)
            terms = [(program.bought_accelerators[o], 1.0) for o in owners]
        elif problem.is_followed:
            _bound_in_periods(program, v)
            continue
        else:
            own = inventory.pools
            terms = [(n, float(problem.pools[i].n_accelerators)) for i in own for n in sizes_of(program, i, 0)]
        if terms:
            row = program.rows.row(f"bound_accelerators_{v}", terms, high=inventory.n_accelerators)
            program.shared_rows.append(row)


def _bound_in_periods(program: MixedIntegerProgram, inventory: int) -> None:
    """The same in every period where pools follow them: what starts with the next period is rented before it ends.

    Equation:
        sum of a_i (n_ih + s_i(h+1)) over the pools of an inventory <= its accelerators, for every period h; starts
        count where they take time
    """
    problem, stock = program.problem, program.problem.inventories[inventory]
    for h in sorted({h for _, h in program.instances}):
        following = (h + 1) % len(problem.periods)
        terms = []
        for i in stock.pools:
            pool = problem.pools[i]
            columns = [*sizes_of(program, i, h)]
            if pool.by_period is not None and pool.by_period.start_up_h and (i, following) in program.starts:
                columns.append(program.starts[PoolSizing(i, following)])
            terms += [(column, float(pool.n_accelerators)) for column in columns]
        if terms:
            row = program.rows.row(f"bound_accelerators_{inventory}_{h}", terms, high=stock.n_accelerators)
            program.shared_rows.append(row)


def bound_families(program: MixedIntegerProgram) -> None:
    """Limits of a pool of the scenario that is planned as several: on their sum, and one layout for all.

    Equation:
        low <= sum of n_i over its pools <= high, and sum over layouts of the choice <= 1

    Args:
        program: the program.
    """
    problem = program.problem
    for f, (key, members) in enumerate(problem.families.items()):
        pool = problem.scenario.pools[key]
        low, high = pool.min_instances, inf if pool.max_instances is None else pool.max_instances
        if pool.n_instances != "free":
            low, high = pool.n_instances, pool.n_instances
        for h in sorted({h for _, h in program.instances}):
            if (low, high) != (0, inf):
                terms = [(n, 1.0) for i in members for n in sizes_of(program, i, h)]
                program.rows.row(f"bound_families_{f}_{h}", terms, low, high)
            _choose_one_layout(program, f, members, h)


def _choose_one_layout(program: MixedIntegerProgram, f: int, members: Sequence[int], h: int) -> None:
    layouts = dict.fromkeys(program.problem.pools[i].layout_option for i in members)
    if len(layouts) == 1:
        return
    chosen = {layout: program.rows.column(f"layout_{f}_{h}_{j}", 0, 1, 0, True) for j, layout in enumerate(layouts)}
    program.rows.row(f"choose_one_layout_{f}_{h}", [(c, 1.0) for c in chosen.values()], high=1)
    for i in members:
        terms = [
            *((z, 1.0) for z in program.segment_choices[PoolSizing(i, h)].values()),
            (chosen[program.problem.pools[i].layout_option], -1.0),
        ]
        program.rows.row(f"use_layout_{i}_{h}", terms, high=0)


def keep_prefill_to_decode(program: MixedIntegerProgram) -> None:
    """A stated ratio of instances that prefill short prompts to instances that decode, over the whole fleet.

    Equation:
        b sum of n_i over pools for short prompts = a sum of n_i over decode pools, for a ratio a : b

    Args:
        program: the program.
    """
    if program.problem.ratio is None:
        return
    a, b = program.problem.ratio
    for h in sorted({h for _, h in program.instances}):
        terms = []
        for i, pool in enumerate(program.problem.pools):
            factor = b * pool.takes_short if pool.is_prefill else -a
            terms += [(n, float(factor)) for n in sizes_of(program, i, h) if factor]
        program.shared_rows.append(program.rows.row(f"keep_prefill_to_decode_{h}", terms, 0, 0))


def own_accelerators(program: MixedIntegerProgram) -> None:
    """In every period the roles of an owner use at most the accelerators that are bought.

    Equation:
        sum of a_i n_ih over the roles of an owner <= b_o, for every period h

    Args:
        program: the program.
    """
    problem = program.problem
    for o, bought in program.bought_accelerators.items():
        for h in sorted({h for _, h in program.instances}):
            own = problem.owners[o]
            terms = [(n, float(problem.pools[i].n_accelerators)) for i in own for n in sizes_of(program, i, h)]
            program.rows.row(f"own_accelerators_{o}_{h}", [*terms, (bought, -1.0)], high=0)
