"""Columns of the mixed-integer model of a network: sizes and ports, choices of cells, rates."""

from __future__ import annotations

from math import inf

from planner.optimizer.network.loads import PARTS, NetworkLoads
from planner.optimizer.network.program import (
    MixedIntegerProgram,
    cell_of,
    is_open,
    known_rate,
    part_arcs,
    segments_of,
    shares_in_cell,
    usable_arcs,
)
from planner.optimizer.problem import Problem


def add_size_columns(program: MixedIntegerProgram) -> None:
    problem, rows = program.problem, program.rows
    fixed = program.spec.fixed
    program.scale = rows.column("scale", *_scale_bounds(program))
    sizings = range(len(problem.periods)) if problem.scenario.routing.role_conversion else (0,)
    used = {program.sizing_of(s) for s in program.spec.situations}
    for h in sizings:
        for i, pool in enumerate(problem.pools):
            if h not in used:
                continue
            program.instances[i, h], program.segment_choices[i, h] = {}, {}
            for j, (low, high) in enumerate(segments_of(program, i)):
                program.instances[i, h][j] = rows.column(f"n_{i}_{h}_{j}", 0, high, is_integer=True)
                program.segment_choices[i, h][j] = rows.column(f"z_{i}_{h}_{j}", 0, 1, is_integer=True)
                if len(sizings) == 1 and pool.usd_per_hour:
                    program.usd_per_hour[program.instances[i, h][j]] = pool.usd_per_hour
                rows.row(
                    f"fill_segment_{i}_{h}_{j}",
                    [(program.instances[i, h][j], 1), (program.segment_choices[i, h][j], -low)],
                    low=0,
                )
                rows.row(
                    f"cap_segment_{i}_{h}_{j}",
                    [(program.instances[i, h][j], 1), (program.segment_choices[i, h][j], -high)],
                    high=0,
                )
            if len(program.segment_choices[i, h]) > 1:
                rows.row(
                    f"choose_one_segment_{i}_{h}", [(z, 1) for z in program.segment_choices[i, h].values()], high=1
                )
            bounds = (pool.min_instances, inf) if fixed is None else (fixed[0][i], fixed[0][i])
            if bounds != (0, inf):
                rows.row(f"size_{i}_{h}", [(n, 1) for n in program.instances[i, h].values()], *bounds)
    _owner_columns(program)
    _port_columns(program)


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
        least = [0] * len(link.tiers) if fixed is None else fixed[1][index]
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
    """A scale of the demand that no fleet exceeds: by decode alone, all of it anywhere."""
    seconds = {i: inf for i, p in enumerate(problem.pools) if not p.is_prefill}
    loads = NetworkLoads(problem)
    for q, pools in enumerate(problem.decoders):
        for i in pools:
            seconds[i] = min(seconds[i], loads.decode_s(q, i))
    most = sum(problem.pools[i].max_instances / s for i, s in seconds.items() if s < inf)
    peak = max(sum(d.req_per_s[p] for d in problem.demands) for p in range(len(problem.periods)))
    return most / peak


def add_rate_columns(program: MixedIntegerProgram, s: int) -> None:
    problem, situation = program.problem, program.spec.situations[s]
    for g, members in enumerate(problem.groups):
        for k in range(len(program.spec.cells[g, situation.period])):
            program.cell_choices[g, s, k] = program.rows.column(f"y_{g}_{s}_{k}", 0, 1, is_integer=True)
            for q in members:
                if is_open(program, q, s):
                    _prefill_columns(program, q, s, k)
    for q, pools in enumerate(problem.decoders):
        if is_open(program, q, s):
            program.decode_rates.update({(q, s, i): program.rows.column(f"d_{q}_{s}_{i}") for i in pools})


def _prefill_columns(program: MixedIntegerProgram, q: int, s: int, k: int) -> None:
    """Rates of a stream in a cell; none where a part of its prompts has nowhere to go."""
    cell = cell_of(program, q, s, k)
    parts = [part for part in PARTS if program.spec.loads.fraction(q, part, cell) > 0]
    if not all(usable_arcs(program, q, s, part, cell) for part in parts):
        if known_rate(program, q, s):
            program.rows.highs[program.cell_choices[program.problem.group_of[q], s, k]] = 0.0
        return
    rate = known_rate(program, q, s)
    y = program.cell_choices[program.problem.group_of[q], s, k]
    program.stream_rates[q, s, k] = (program.rows.column(f"r_{q}_{s}_{k}"), 1.0) if rate is None else (y, rate)
    for share in shares_in_cell(program, q, cell):
        for part, arc in part_arcs(program, q, s, share, cell):
            link = "" if arc.link is None else arc.link
            is_between = share == "between"
            name = f"b_{q}_{s}_{k}_{arc.pool}_{link}" if is_between else f"x_{q}_{s}_{k}_{part}_{arc.pool}_{link}"
            column = program.rows.column(name)
            (program.between_rates if is_between else program.part_rates)[q, s, k, part, arc] = column
            if program.spec.shares_lateness and program.spec.loads.has_ttft_slo(q):
                program.late_rates[column] = program.rows.column(f"l_{q}_{s}_{k}_{share}_{part}_{arc.pool}_{link}")
