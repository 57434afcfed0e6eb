"""Rows of the mixed-integer model of a network about links, stock and money: one function per family."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from planner.optimizer.network.indices import PoolSizing
from planner.optimizer.network.program import MixedIntegerProgram, sizes_of
from planner.units import BITS_PER_BYTE, BITS_PER_GBIT, GB, SECONDS_PER_HOUR

GBIT_PER_BYTE = BITS_PER_BYTE / BITS_PER_GBIT


def bound_link_bytes(program: MixedIntegerProgram) -> None:
    """sum of x_qska S_qka <= sum of m_lj B_lj: mean traffic fits the ports."""
    sent: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for (_, s, _, _, arc), column, _, sent_bytes in program.prefill_uses:
        if arc.link is not None:
            sent.setdefault((arc.link, s), []).append((column, GBIT_PER_BYTE * sent_bytes))
    busy = program.spec.loads.most_link_busy()
    for (index, s), terms in sent.items():
        tiers = zip(program.ports[index], program.problem.links[index].tiers, strict=True)
        ports = [(m, -busy * tier.capacity_gbps) for m, tier in tiers]
        program.shared_rows.append(program.rows.row(f"bound_link_bytes_{index}_{s}", [*terms, *ports], high=0))


def open_used_links(program: MixedIntegerProgram) -> None:
    """sum of m_lj B_lj >= b_l u_l and sum of x_qska S_qka <= most u_l: ports of a link in use have b_l at least."""
    least_gbps = program.spec.loads.opened_gbps
    for index, link in enumerate(program.problem.links if least_gbps else ()):
        used = program.rows.column(f"use_{index}", 0, 1, is_integer=True)
        program.link_choices.append(used)
        ports = [(m, tier.capacity_gbps) for m, tier in zip(program.ports[index], link.tiers, strict=True)]
        program.rows.row(f"open_used_links_{index}", [*ports, (used, -least_gbps[index])], low=0)
        for (q, s, k, part, arc), column in program.part_rates.items():
            if arc.link == index:
                most = program.rows.highs[program.scale] * program.problem.peak_req_per_s[q]
                program.rows.row(f"use_link_{q}_{s}_{k}_{part}_{arc.pool}", [(column, 1.0), (used, -most)], high=0)


def bound_accelerators(program: MixedIntegerProgram) -> None:
    """sum of a_i n_i over the pools of an inventory <= its accelerators; where roles change, of b_o over owners."""
    problem = program.problem
    for v, inventory in enumerate(problem.inventories):
        if problem.scenario.routing.role_conversion:
            owners = (o for o, members in enumerate(problem.owners) if members[0] in inventory.pools)
            terms = [(program.bought_accelerators[o], 1.0) for o in owners]
        else:
            own = inventory.pools
            terms = [(n, float(problem.pools[i].n_accelerators)) for i in own for n in sizes_of(program, i, 0)]
        if terms:
            row = program.rows.row(f"bound_accelerators_{v}", terms, high=inventory.n_accelerators)
            program.shared_rows.append(row)


def bound_families(program: MixedIntegerProgram) -> None:
    """Limits of a scenario's pool that is planned as several: their sum, and one layout of all."""
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
    layouts = dict.fromkeys(program.problem.pools[i].layout for i in members)
    if len(layouts) == 1:
        return
    chosen = {layout: program.rows.column(f"layout_{f}_{h}_{j}", 0, 1, 0, True) for j, layout in enumerate(layouts)}
    program.rows.row(f"choose_one_layout_{f}_{h}", [(c, 1.0) for c in chosen.values()], high=1)
    for i in members:
        terms = [
            *((z, 1.0) for z in program.segment_choices[PoolSizing(i, h)].values()),
            (chosen[program.problem.pools[i].layout], -1.0),
        ]
        program.rows.row(f"use_layout_{i}_{h}", terms, high=0)


def own_accelerators(program: MixedIntegerProgram) -> None:
    """sum of a_i n_ih over the roles of a kind and model at a site <= b_o, what is bought of it, in every period."""
    problem = program.problem
    for o, bought in program.bought_accelerators.items():
        for h in sorted({h for _, h in program.instances}):
            own = problem.owners[o]
            terms = [(n, float(problem.pools[i].n_accelerators)) for i in own for n in sizes_of(program, i, h)]
            program.rows.row(f"own_accelerators_{o}_{h}", [*terms, (bought, -1.0)], high=0)


def price_use(program: MixedIntegerProgram) -> None:
    """Traffic by volume and the power of busy instances, weighted by the hours of the period."""
    problem, loads = program.problem, program.spec.loads
    for (_, s, _, _, arc), column, seconds, sent_bytes in program.prefill_uses:
        situation = program.spec.situations[s]
        if situation.loss is None:
            usd = problem.pools[arc.pool].busy_usd_per_hour * seconds
            if arc.link is not None:
                usd += SECONDS_PER_HOUR / GB * problem.links[arc.link].usd_per_gb * sent_bytes
            _charge(program, column, problem.weights[situation.period] * usd)
    for (q, s, i), column in program.decode_rates.items():
        situation = program.spec.situations[s]
        if situation.loss is None:
            usd = problem.pools[i].busy_usd_per_hour * loads.decode_s(q, i)
            _charge(program, column, problem.weights[situation.period] * usd)


def _charge(program: MixedIntegerProgram, column: int, usd_per_hour: float) -> None:
    if usd_per_hour > 0:
        program.usd_per_hour[column] = usd_per_hour


def bound_budget(program: MixedIntegerProgram) -> None:
    """Cost <= budget."""
    budget = program.problem.scenario.budget_usd_per_hour
    if budget is not None:
        program.shared_rows.append(program.rows.row("bound_budget", program.usd_per_hour.items(), high=budget))
