"""Columns of the mixed-integer model of a network: sizes and ports, choices of cells, rates."""

from __future__ import annotations

from math import inf

from planner.optimizer.network.loads import PARTS, NetworkLoads
from planner.optimizer.network.model import (
    Model,
    cell_of,
    is_open,
    known_rate,
    segments_of,
    shares_of,
    usable_arcs,
    ways_of,
)
from planner.optimizer.problem import Problem


def add_size_columns(model: Model) -> None:
    problem, rows = model.problem, model.rows
    fixed = model.question.fixed
    model.scale = rows.column("scale", *_scale_bounds(model))
    sizings = range(len(problem.periods)) if problem.scenario.routing.role_conversion else (0,)
    used = {model.sizing_of(s) for s in model.question.situations}
    for h in sizings:
        for i, pool in enumerate(problem.pools):
            if h not in used:
                continue
            model.n[i, h], model.z[i, h] = {}, {}
            for j, (low, high) in enumerate(segments_of(model, i)):
                model.n[i, h][j] = rows.column(f"n_{i}_{h}_{j}", 0, high, is_integer=True)
                model.z[i, h][j] = rows.column(f"z_{i}_{h}_{j}", 0, 1, is_integer=True)
                if len(sizings) == 1 and pool.usd_per_hour:
                    model.cost[model.n[i, h][j]] = pool.usd_per_hour
                rows.row(f"fill_segment_{i}_{h}_{j}", [(model.n[i, h][j], 1), (model.z[i, h][j], -low)], low=0)
                rows.row(f"cap_segment_{i}_{h}_{j}", [(model.n[i, h][j], 1), (model.z[i, h][j], -high)], high=0)
            if len(model.z[i, h]) > 1:
                rows.row(f"choose_one_segment_{i}_{h}", [(z, 1) for z in model.z[i, h].values()], high=1)
            bounds = (pool.min_instances, inf) if fixed is None else (fixed[0][i], fixed[0][i])
            if bounds != (0, inf):
                rows.row(f"size_{i}_{h}", [(n, 1) for n in model.n[i, h].values()], *bounds)
    _owner_columns(model)
    _port_columns(model)


def _owner_columns(model: Model) -> None:
    """Accelerators that are bought of every owner, where roles change."""
    problem = model.problem
    for o, (first, *_) in enumerate(problem.owners if problem.scenario.routing.role_conversion else ()):
        pool = problem.pools[first]
        model.bought[o] = model.rows.column(f"bought_{o}")
        model.cost[model.bought[o]] = (pool.usd_per_hour or 0.0) / pool.n_accelerators


def _port_columns(model: Model) -> None:
    fixed = model.question.fixed
    for index, link in enumerate(model.problem.links):
        least = [0] * len(link.tiers) if fixed is None else fixed[1][index]
        row = []
        for j, (tier, ports) in enumerate(zip(link.tiers, least, strict=True)):
            most = tier.max_ports if fixed is None else ports
            row.append(model.rows.column(f"ports_{index}_{j}", ports, most, is_integer=True))
            model.cost[row[-1]] = tier.usd_per_hour or 0.0
        model.ports.append(row)


def _scale_bounds(model: Model) -> tuple[float, float]:
    if model.problem.is_min_cost:
        return 1.0, 1.0
    least = model.question.least_scale
    return (0.0, most_scale(model.problem)) if least is None else (least, least)


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


def add_rate_columns(model: Model, s: int) -> None:
    problem, situation = model.problem, model.question.situations[s]
    for g, members in enumerate(problem.groups):
        for k in range(len(model.question.cells[g, situation.period])):
            model.y[g, s, k] = model.rows.column(f"y_{g}_{s}_{k}", 0, 1, is_integer=True)
            for q in members:
                if is_open(model, q, s):
                    _prefill_columns(model, q, s, k)
    for q, pools in enumerate(problem.decoders):
        if is_open(model, q, s):
            model.d.update({(q, s, i): model.rows.column(f"d_{q}_{s}_{i}") for i in pools})


def _prefill_columns(model: Model, q: int, s: int, k: int) -> None:
    """Rates of a stream in a cell; none where a part of its prompts has nowhere to go."""
    cell = cell_of(model, q, s, k)
    parts = [part for part in PARTS if model.question.loads.fraction(q, part, cell) > 0]
    if not all(usable_arcs(model, q, s, part, cell) for part in parts):
        if known_rate(model, q, s):
            model.rows.highs[model.y[model.problem.group_of[q], s, k]] = 0.0
        return
    rate = known_rate(model, q, s)
    y = model.y[model.problem.group_of[q], s, k]
    model.r[q, s, k] = (model.rows.column(f"r_{q}_{s}_{k}"), 1.0) if rate is None else (y, rate)
    for share in shares_of(model, q, cell):
        for part, arc in ways_of(model, q, s, share, cell):
            link = "" if arc.link is None else arc.link
            is_between = share == "between"
            name = f"b_{q}_{s}_{k}_{arc.pool}_{link}" if is_between else f"x_{q}_{s}_{k}_{part}_{arc.pool}_{link}"
            column = model.rows.column(name)
            (model.between if is_between else model.x)[q, s, k, part, arc] = column
            if model.question.shares_lateness and model.question.loads.is_promised(q):
                model.late[column] = model.rows.column(f"l_{q}_{s}_{k}_{share}_{part}_{arc.pool}_{link}")
