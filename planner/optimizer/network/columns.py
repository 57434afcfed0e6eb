"""Columns of a network's program: sizes and ports, choices of cells, rates."""

from __future__ import annotations

from math import inf

from planner.optimizer.network.cells import PARTS
from planner.optimizer.network.indices import CellChoice, DecodeRate, PoolSizing, PrefillRate, StreamInCell
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.program import (
    MixedIntegerProgram,
    cell_of,
    known_rate,
    may_carry,
    part_arcs,
    segments_of,
    shares_in_cell,
    usable_arcs,
)
from planner.optimizer.network.rows_of_rent import add_start_columns
from planner.optimizer.problem import Problem

LEAST_S = 1e-6
"""Instance-seconds that a request takes at the least of a pool that decodes: some have nothing to decode."""


def add_size_columns(program: MixedIntegerProgram) -> None:
    """Add the columns of the scale of the demand, of instances by segment, of owners, and of ports.

    Args:
        program: the program; it has no columns yet.
    """
    problem = program.problem
    program.scale = program.rows.column("scale", *_scale_bounds(program))
    sizings = range(len(problem.periods)) if problem.has_sizes_by_period else (0,)
    used = {program.sizing_of(s) for s in program.spec.situations}
    for h in sizings:
        for i in range(len(problem.pools)):
            if h in used:
                _instance_columns(program, PoolSizing(i, h))
    add_start_columns(program)
    _owner_columns(program)
    _port_columns(program)


def _instance_columns(program: MixedIntegerProgram, at: PoolSizing) -> None:
    """Instances of a pool in every segment of its sizes, and the choice of one segment.

    An instance costs its rent, for a period's part of the time where sizes follow periods; where roles change, the
    accelerators of its owner cost it.
    """
    problem = program.problem
    part = problem.weights[at.sizing] if problem.is_followed else float(not problem.has_sizes_by_period)
    rows, pool, fixed = program.rows, program.problem.pools[at.pool], program.spec.fixed
    name = f"{at.pool}_{at.sizing}"
    instances = program.instances[at] = {}
    choices = program.segment_choices[at] = {}
    for j, (low, high) in enumerate(segments_of(program, at.pool)):
        n = instances[j] = rows.column(f"n_{name}_{j}", 0, high, is_integer=True)
        z = choices[j] = rows.column(f"z_{name}_{j}", 0, 1, is_integer=True)
        if part and pool.usd_per_hour:
            program.usd_per_hour[n] = part * pool.usd_per_hour
        rows.row(f"fill_segment_{name}_{j}", [(n, 1), (z, -low)], low=0)
        rows.row(f"cap_segment_{name}_{j}", [(n, 1), (z, -high)], high=0)
    if len(choices) > 1:
        rows.row(f"choose_one_segment_{name}", [(z, 1) for z in choices.values()], high=1)
    bounds = (pool.min_instances, inf) if fixed is None else (fixed.n_instances[at.pool],) * 2
    if bounds != (0, inf):
        rows.row(f"size_{name}", [(n, 1) for n in instances.values()], *bounds)


def _owner_columns(program: MixedIntegerProgram) -> None:
    """Accelerators that are bought of every owner, where roles change."""
    problem = program.problem
    for o, (first, *_) in enumerate(problem.owners if problem.scenario.routing.role_conversion else ()):
        pool = problem.pools[first]
        program.bought_accelerators[o] = program.rows.column(f"bought_{o}")
        program.usd_per_hour[program.bought_accelerators[o]] = (pool.usd_per_hour or 0.0) / pool.n_accelerators


def _port_columns(program: MixedIntegerProgram) -> None:
    fixed = program.spec.fixed
    for index, link in enumerate(program.problem.links):
        least = [0] * len(link.tiers) if fixed is None else fixed.n_ports[index]
        row = []
        for j, (tier, ports) in enumerate(zip(link.tiers, least, strict=True)):
            most = tier.max_ports if fixed is None else ports
            row.append(program.rows.column(f"ports_{index}_{j}", ports, most, is_integer=True))
            program.usd_per_hour[row[-1]] = tier.usd_per_hour or 0.0
        program.ports.append(row)


def _scale_bounds(program: MixedIntegerProgram) -> tuple[float, float]:
    if program.problem.is_min_cost:
        return 1.0, 1.0
    least = program.spec.least_scale
    return (0.0, most_scale(program.problem)) if least is None else (least, least)


def most_scale(problem: Problem) -> float:
    """A scale of the demand that no fleet exceeds.

    Equation:
        sum over decode pools of N_i / min over streams of T_qi, over the highest demand of a period: N_i the most
        instances of a pool, T_qi the instance-seconds of a request

    Args:
        problem: the resolved scenario.

    Returns:
        Multiple of the demand [-].
    """
    seconds = {i: inf for i, p in enumerate(problem.pools) if p.decodes}
    loads = NetworkLoads(problem)
    for q, pools in enumerate(problem.decoders):
        for i in pools:
            seconds[i] = min(seconds[i], max(loads.decode_s(q, i), LEAST_S))
    most = sum(problem.pools[i].max_instances / s for i, s in seconds.items() if s < inf)
    peak = max(sum(d.req_per_s[p] for d in problem.demands) for p in range(len(problem.periods)))
    return most / peak


def add_rate_columns(program: MixedIntegerProgram, situation: int) -> None:
    """Add the columns of a situation: the choice of a cell by every group, and the rates of every stream."""
    problem, rows = program.problem, program.rows
    for g, members in enumerate(problem.groups):
        for k in range(len(program.spec.cells[g, program.spec.situations[situation].period])):
            choice = CellChoice(g, situation, k)
            program.cell_choices[choice] = rows.column(f"y_{g}_{situation}_{k}", 0, 1, is_integer=True)
            for q in members:
                if may_carry(program, q, situation):
                    _prefill_columns(program, StreamInCell(q, situation, k), program.cell_choices[choice])
    for q, pools in enumerate(problem.decoders):
        if may_carry(program, q, situation):
            for i in pools:
                program.decode_rates[DecodeRate(q, situation, i)] = rows.column(f"d_{q}_{situation}_{i}")


def _prefill_columns(program: MixedIntegerProgram, at: StreamInCell, choice: int) -> None:
    """Rates of a stream in a cell; none where a part of its prompts has no arc."""
    (q, s, _), cell, rate = at, cell_of(program, *at), known_rate(program, at.stream, at.situation)
    parts = [part for part in PARTS if program.spec.loads.fraction(q, part, cell) > 0]
    if not all(usable_arcs(program, q, s, part, cell) for part in parts):
        if rate:
            program.rows.highs[choice] = 0.0
        return
    name = "_".join(map(str, at))
    program.stream_rates[at] = (program.rows.column(f"r_{name}"), 1.0) if rate is None else (choice, rate)
    for share in shares_in_cell(program, q, cell):
        for part, arc in part_arcs(program, q, s, share, cell):
            link = "" if arc.link is None else arc.link
            is_between = share == "between"
            columns = program.between_rates if is_between else program.part_rates
            own = f"b_{name}_{arc.pool}_{link}" if is_between else f"x_{name}_{part}_{arc.pool}_{link}"
            column = columns[PrefillRate(*at, part, arc)] = program.rows.column(own)
            if program.spec.shares_lateness and program.spec.loads.has_ttft_slo(q):
                program.late_rates[column] = program.rows.column(f"l_{name}_{share}_{part}_{arc.pool}_{link}")
