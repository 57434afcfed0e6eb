"""The mixed-integer model of a network: one function per family of rows.

Sets: pools i, links l with port tiers j, streams q (a class decoded at a site), groups g of streams with a common
threshold, situations s (a period, perhaps with something lost), cells k of a group in a period (an interval of
thresholds and one of allowances), segments j of a pool's size. Columns: instances n_ij in segment j and its choice z_ij
(integer), ports m_lj (integer), choices y_gsk (binary), rates r_qsk, x_qska (arc a, long and short) and d_qsi (decode)
[req/s], and the scale R of the demand. What a cell costs and allows is a constant, so everything is linear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Literal

import numpy as np

from planner.optimizer.network.loads import GRID, PARTS, Array, Cell, NetworkLoads, Use
from planner.optimizer.network.problem import Arc, NetworkProblem, Part, Situation
from planner.optimizer.network.rows import Rows
from planner.units import BITS_PER_BYTE, BITS_PER_GBIT, GB, SECONDS_PER_HOUR

GBIT_PER_BYTE = BITS_PER_BYTE / BITS_PER_GBIT
SLOPE_DIGITS = 6
Share = Literal["long", "short", "between"]
"""Of a stream's prompts in a cell: long or short whatever the threshold, or between its ends."""
Segments = Mapping[int, Sequence[tuple[int, int]]]
"""Sizes of every pool in pieces, from 1 to its most."""


@dataclass(frozen=True)
class Question:
    """What a model is built from."""

    loads: NetworkLoads
    situations: tuple[Situation, ...]
    cells: Mapping[tuple[int, int], Sequence[Cell]]
    """Cells of every group in every period."""
    segments: Segments
    is_safe: bool = False
    """Whether an answer is to be kept by the promise: limits of the strictest user, instead of bounds."""
    arcs: frozenset[tuple[int, int, Arc]] | None = None
    """Streams, periods and arcs that may be used; None: all."""
    least_scale: float | None = None
    """Scale of the demand to be served at least, where cost is the objective; None: what the scenario asks for."""
    fixed: tuple[tuple[int, ...], tuple[tuple[int, ...], ...]] | None = None
    """Instances and ports that are settled."""


@dataclass
class Model:
    """A program and where its columns are."""

    question: Question
    rows: Rows = field(default_factory=Rows)
    scale: int = -1
    n: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)
    """Instances by pool and sizing, then segment."""
    z: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)
    ports: list[list[int]] = field(default_factory=list)
    y: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """Choice by group, situation and cell."""
    r: dict[tuple[int, int, int], tuple[int, float]] = field(default_factory=dict)
    """Rate by stream, situation and cell: a column and its factor. Where all the rate is known, it is that of the
    choice: no column of its own, and what a choice costs is seen from the choice."""
    x: dict[tuple[int, int, int, Part, Arc], int] = field(default_factory=dict)
    """Rate by stream, situation, cell, part and arc."""
    between: dict[tuple[int, int, int, Part, Arc], int] = field(default_factory=dict)
    """Rate at which an arc takes the prompts between a cell's ends, keyed as `x`; the part is the pool's."""
    d: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """Rate by stream, situation and decode pool."""
    taken: dict[tuple[int, int], list[tuple[int, float]]] = field(default_factory=dict)
    """What a stream has of the demand in a situation, with a minus [req/s]."""
    cost: dict[int, float] = field(default_factory=dict)
    """USD per hour of a unit of every column."""
    shared: list[int] = field(default_factory=list)
    """Rows about what several models use: accelerators, links, the budget."""
    of_pool: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """Rows about the work of a prefill pool in a situation."""

    @property
    def problem(self) -> NetworkProblem:
        """The problem."""
        return self.question.loads.problem

    def sizing_of(self, situation: Situation) -> int:
        """Index of the sizes that hold in a situation: one for all, or one for each period."""
        return situation.period if self.problem.scenario.routing.role_conversion else 0

    @cached_property
    def by_pool(self) -> dict[tuple[int, int], list[tuple[int, int, Part, Arc, int, float]]]:
        """Rates into every pool in every situation: stream, cell, part, arc, column and seconds of a unit."""
        found: dict[tuple[int, int], list[tuple[int, int, Part, Arc, int, float]]] = {}
        for (q, s, k, part, arc), column, seconds, _ in self.uses:
            found.setdefault((arc.pool, s), []).append((q, k, part, arc, column, seconds))
        return found

    @cached_property
    def uses(self) -> list[tuple[tuple[int, int, int, Part, Arc], int, float, float]]:
        """Every rate into a prefill pool: its key, its column, and the seconds and bytes of a unit of it."""
        found = []
        for columns, is_between in ((self.x, False), (self.between, True)):
            for key, column in columns.items():
                q, s, k, part, arc = key
                of: tuple[Part, Share] = (part, "between" if is_between else part)
                found.append((key, column, *_use(self, q, of, arc, _cell(self, q, s, k))))
        return found


ROWS: list[Callable[[Model], None]] = []
"""Every family of rows, in the order they are added."""


def family(function: Callable[[Model], None]) -> Callable[[Model], None]:
    """Register a function that adds one family of rows."""
    ROWS.append(function)
    return function


def build(question: Question) -> Model:
    """The whole model, ready to solve."""
    model = Model(question)
    _size_columns(model)
    for s in range(len(question.situations)):
        _rate_columns(model, s)
    for add in ROWS:
        add(model)
    _objective(model)
    return model


def _size_columns(model: Model) -> None:
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
    _port_columns(model)


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


def most_scale(problem: NetworkProblem) -> float:
    """A scale of the demand that no fleet exceeds: by decode alone, all of it anywhere."""
    seconds = {i: inf for i, p in enumerate(problem.pools) if not p.is_prefill}
    loads = NetworkLoads(problem)
    for q, pools in enumerate(problem.decoders):
        for i in pools:
            seconds[i] = min(seconds[i], loads.decode_s(q, i))
    most = sum(problem.pools[i].max_instances / s for i, s in seconds.items() if s < inf)
    peak = max(sum(d.req_per_s[p] for d in problem.demands) for p in range(len(problem.periods)))
    return most / peak


def segments_of(model: Model, pool: int) -> Sequence[tuple[int, int]]:
    """Pieces of a pool's sizes; at most what it may have."""
    most = model.problem.pools[pool].max_instances
    return [(low, min(high, most)) for low, high in model.question.segments[pool] if low <= most]


def _rate_columns(model: Model, s: int) -> None:
    problem, situation = model.problem, model.question.situations[s]
    for g, members in enumerate(problem.groups):
        for k in range(len(model.question.cells[g, situation.period])):
            model.y[g, s, k] = model.rows.column(f"y_{g}_{s}_{k}", 0, 1, is_integer=True)
            for q in members:
                if _is_open(model, q, s):
                    _prefill_columns(model, q, s, k)
    for q, pools in enumerate(problem.decoders):
        if _is_open(model, q, s):
            model.d.update({(q, s, i): model.rows.column(f"d_{q}_{s}_{i}") for i in pools})


def _prefill_columns(model: Model, q: int, s: int, k: int) -> None:
    """Rates of a stream in a cell; none where a part of its prompts has nowhere to go."""
    cell = _cell(model, q, s, k)
    if not all(_usable(model, q, s, part) for part in PARTS if model.question.loads.fraction(q, part, cell) > 0):
        if _known_rate(model, q, s):
            model.rows.highs[model.y[model.problem.group_of[q], s, k]] = 0.0
        return
    rate = _known_rate(model, q, s)
    y = model.y[model.problem.group_of[q], s, k]
    model.r[q, s, k] = (model.rows.column(f"r_{q}_{s}_{k}"), 1.0) if rate is None else (y, rate)
    for share in _shares(model, q, cell):
        for part, arc in _ways(model, q, s, share):
            link = "" if arc.link is None else arc.link
            if share == "between":
                name = f"b_{q}_{s}_{k}_{arc.pool}_{link}"
                model.between[q, s, k, part, arc] = model.rows.column(name)
            else:
                model.x[q, s, k, part, arc] = model.rows.column(f"x_{q}_{s}_{k}_{part}_{arc.pool}_{link}")


def _use(model: Model, q: int, of: tuple[Part, Share], arc: Arc, cell: Cell) -> tuple[float, float]:
    """Seconds of a pool and bytes on a link, at the least, per request of a stream whose share takes an arc."""
    loads, (part, share) = model.question.loads, of
    if share == "between":
        return loads.between_s(q, arc, cell), loads.between_bytes(q, arc, cell)
    return loads.work_s(q, arc, part, cell), loads.sent_bytes(q, arc, part, cell)


def _shares(model: Model, q: int, cell: Cell) -> list[Share]:
    """Shares of a stream's prompts that are there in a cell."""
    loads = model.question.loads
    shares: list[Share] = [part for part in PARTS if loads.fraction(q, part, cell) > 0]
    return [*shares, "between"] if loads.holds_between(q, cell) else shares


def _ways(model: Model, q: int, s: int, share: Share) -> list[tuple[Part, Arc]]:
    """Arcs that a share of a stream's prompts may take, and the part of their pools."""
    parts = PARTS if share == "between" else (share,)
    return [(part, arc) for part in parts for arc in _usable(model, q, s, part)]


def _usable(model: Model, q: int, s: int, part: Part) -> list[Arc]:
    """Arcs of a stream that a situation leaves."""
    problem, situation, allowed = model.problem, model.question.situations[s], model.question.arcs
    arcs = list(problem.arcs[q][part])
    if allowed is not None:
        arcs = [arc for arc in arcs if (q, situation.period, arc) in allowed]
    if situation.loss is None or situation.loss.kind == "instance":
        return arcs
    kind, name = situation.loss
    if kind == "link":
        return [arc for arc in arcs if arc.link is None or problem.links[arc.link].name != name]
    return [arc for arc in arcs if problem.pools[arc.pool].site != name]


@family
def serve_demand(model: Model) -> None:
    """sum of r_qsk over the streams and cells of a demand = R demand: every request is served."""
    problem = model.problem
    for s, situation in enumerate(model.question.situations):
        taken: dict[int, list[tuple[int, float]]] = {q: [] for q in range(len(problem.streams))}
        for c, demand in enumerate(problem.demands):
            is_lost = situation.loss is not None and situation.loss == ("site", demand.home)
            streams = [q for q in (demand.refuges if is_lost else demand.streams) if _is_open(model, q, s)]
            rate = demand.req_per_s[situation.period]
            if len(streams) == 1:
                taken[streams[0]].append((model.scale, -rate))
                continue
            parts = [model.rows.column(f"part_{c}_{q}_{s}") for q in streams]
            model.rows.row(f"serve_demand_{c}_{s}", [*((p, 1) for p in parts), (model.scale, -rate)], 0, 0)
            for q, part in zip(streams, parts, strict=True):
                taken[q].append((part, -1.0))
        for q, terms in taken.items():
            model.taken[q, s] = terms
            rates = [model.r[q, s, k] for k in _cells(model, q, s)]
            if (rates or terms) and _known_rate(model, q, s) is None:
                model.rows.row(f"serve_stream_{q}_{s}", [*rates, *terms], 0, 0)


@family
def choose_one_cell(model: Model) -> None:
    """sum of y_gsk over k = 1: a group has one threshold and one allowance."""
    for g in range(len(model.problem.groups)):
        for s, situation in enumerate(model.question.situations):
            terms = [(model.y[g, s, k], 1.0) for k in range(len(model.question.cells[g, situation.period]))]
            model.rows.row(f"choose_one_cell_{g}_{s}", terms, 1, 1)


@family
def link_rate_to_choice(model: Model) -> None:
    """r_qsk <= U_q y_gsk: no rate in a cell that was not chosen; U_q is the most the stream ever takes."""
    problem, top = model.problem, model.rows.highs[model.scale]
    for (q, s, k), (r, _) in model.r.items():
        if _known_rate(model, q, s) is not None:
            continue
        most = top * problem.peak_req_per_s[q] if model.question.situations[s].loss else top * _rate(model, q, s)
        terms = [(r, 1.0), (model.y[problem.group_of[q], s, k], -most)]
        model.rows.row(f"link_rate_to_choice_{q}_{s}_{k}", terms, high=0)


@family
def route_prompts(model: Model) -> None:
    """sum of x_qska over the arcs of a part = r_qsk, likewise b_qska of those between: every prompt goes somewhere."""
    known: dict[tuple[int, int, int, Share], list[tuple[int, float]]] = {}
    for (q, s, k, part, _), column in model.x.items():
        known.setdefault((q, s, k, part), []).append((column, 1.0))
    for (q, s, k, _, _), column in model.between.items():
        known.setdefault((q, s, k, "between"), []).append((column, 1.0))
    for (q, s, k), (r, rate) in model.r.items():
        for share in _shares(model, q, _cell(model, q, s, k)):
            terms = [*known.get((q, s, k, share), ()), (r, -rate)]
            model.rows.row(f"route_prompts_{q}_{s}_{k}_{share}", terms, 0, 0)


@family
def route_decode(model: Model) -> None:
    """sum of d_qsi over i = what the stream has of the demand: every request is decoded at its stream's site."""
    pools: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for (q, s, _), column in model.d.items():
        pools.setdefault((q, s), []).append((column, 1.0))
    for (q, s), terms in pools.items():
        model.rows.row(f"route_decode_{q}_{s}", [*terms, *model.taken[q, s]], 0, 0)


@family
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


@family
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


@family
def bound_link_bytes(model: Model) -> None:
    """sum of x_qska S_qka <= sum of m_lj B_lj: mean traffic fits the ports."""
    sent: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for (_, s, _, _, arc), column, _, sent_bytes in model.uses:
        if arc.link is not None:
            sent.setdefault((arc.link, s), []).append((column, GBIT_PER_BYTE * sent_bytes))
    busy = model.question.loads.most_link_busy()
    for (index, s), terms in sent.items():
        tiers = zip(model.ports[index], model.problem.links[index].tiers, strict=True)
        ports = [(m, -busy * tier.capacity_gbps) for m, tier in tiers]
        model.shared.append(model.rows.row(f"bound_link_bytes_{index}_{s}", [*terms, *ports], high=0))


@family
def open_used_links(model: Model) -> None:
    """sum of m_lj B_lj >= b_l u_l and sum of x_qska S_qka <= most u_l: a link in use has what transfers count with."""
    counted = model.question.loads.gbps
    for index, link in enumerate(model.problem.links if counted else ()):
        used = model.rows.column(f"use_{index}", 0, 1, is_integer=True)
        ports = [(m, tier.capacity_gbps) for m, tier in zip(model.ports[index], link.tiers, strict=True)]
        model.rows.row(f"open_used_links_{index}", [*ports, (used, -counted[index])], low=0)
        for (q, s, k, part, arc), column in model.x.items():
            if arc.link == index:
                most = model.rows.highs[model.scale] * model.problem.peak_req_per_s[q]
                model.rows.row(f"use_link_{q}_{s}_{k}_{part}_{arc.pool}", [(column, 1.0), (used, -most)], high=0)


@family
def bound_accelerators(model: Model) -> None:
    """sum of a_i n_i over the pools of an inventory <= its accelerators."""
    for v, inventory in enumerate(model.problem.inventories):
        for h in sorted({h for _, h in model.n}):
            terms = [(n, model.problem.pools[i].n_accelerators) for i in inventory.pools for n in _sizes(model, i, h)]
            if terms:
                row = model.rows.row(f"bound_accelerators_{v}_{h}", terms, high=inventory.n_accelerators)
                model.shared.append(row)


@family
def bound_families(model: Model) -> None:
    """Limits of a scenario's pool that is planned as several: their sum, and one layout of all."""
    problem = model.problem
    for f, (key, members) in enumerate(problem.families.items()):
        pool = problem.scenario.pools[key]
        low, high = pool.min_instances, inf if pool.max_instances is None else pool.max_instances
        if pool.n_instances != "free":
            low, high = pool.n_instances, pool.n_instances
        for h in sorted({h for _, h in model.n}):
            if (low, high) != (0, inf):
                terms = [(n, 1.0) for i in members for n in _sizes(model, i, h)]
                model.rows.row(f"bound_families_{f}_{h}", terms, low, high)
            _choose_one_layout(model, f, members, h)


def _choose_one_layout(model: Model, f: int, members: Sequence[int], h: int) -> None:
    layouts = dict.fromkeys(model.problem.pools[i].layout for i in members)
    if len(layouts) == 1:
        return
    chosen = {layout: model.rows.column(f"layout_{f}_{h}_{j}", 0, 1, 0, True) for j, layout in enumerate(layouts)}
    model.rows.row(f"choose_one_layout_{f}_{h}", [(c, 1.0) for c in chosen.values()], high=1)
    for i in members:
        terms = [*((z, 1.0) for z in model.z[i, h].values()), (chosen[model.problem.pools[i].layout], -1.0)]
        model.rows.row(f"use_layout_{i}_{h}", terms, high=0)


@family
def own_accelerators(model: Model) -> None:
    """a_i n_ih summed over the roles of a kind and model at a site <= what is bought, in every period."""
    problem = model.problem
    if not problem.scenario.routing.role_conversion:
        return
    owners: dict[tuple[str, str, str | None], list[int]] = {}
    for i, pool in enumerate(problem.pools):
        model_name = problem.classes[pool.classes[0]].model if pool.classes else None
        owners.setdefault((pool.site, pool.hardware, model_name), []).append(i)
    for o, members in enumerate(owners.values()):
        pool = problem.pools[members[0]]
        bought = model.rows.column(f"bought_{o}")
        model.cost[bought] = (pool.usd_per_hour or 0.0) / pool.n_accelerators
        for h in sorted({h for _, h in model.n}):
            terms = [(n, float(problem.pools[i].n_accelerators)) for i in members for n in _sizes(model, i, h)]
            model.rows.row(f"own_accelerators_{o}_{h}", [*terms, (bought, -1.0)], high=0)


@family
def price_use(model: Model) -> None:
    """Traffic by volume and the power of busy instances, weighted by the hours of the period."""
    problem, loads = model.problem, model.question.loads
    for (_, s, _, _, arc), column, seconds, sent_bytes in model.uses:
        situation = model.question.situations[s]
        if situation.loss is None:
            usd = problem.pools[arc.pool].busy_usd_per_hour * seconds
            if arc.link is not None:
                usd += SECONDS_PER_HOUR / GB * problem.links[arc.link].usd_per_gb * sent_bytes
            _charge(model, column, problem.weights[situation.period] * usd)
    for (q, s, i), column in model.d.items():
        situation = model.question.situations[s]
        if situation.loss is None:
            usd = problem.pools[i].busy_usd_per_hour * loads.decode_s(q, i)
            _charge(model, column, problem.weights[situation.period] * usd)


def _charge(model: Model, column: int, usd_per_hour: float) -> None:
    if usd_per_hour > 0:
        model.cost[column] = usd_per_hour


@family
def bound_budget(model: Model) -> None:
    """Cost <= budget."""
    budget = model.problem.scenario.budget_usd_per_hour
    if budget is not None:
        model.shared.append(model.rows.row("bound_budget", model.cost.items(), high=budget))


def _objective(model: Model) -> None:
    """Cost, or without prices accelerators; for throughput the scale, negative since the objective is kept low."""
    if not model.problem.is_min_cost and model.question.least_scale is None:
        model.rows.costs[model.scale] = -1.0
        return
    if model.problem.is_priced:
        for column, usd in model.cost.items():
            model.rows.costs[column] = usd
        return
    for (i, _), segments in model.n.items():
        for column in segments.values():
            model.rows.costs[column] = float(model.problem.pools[i].n_accelerators)


def _sizes(model: Model, pool: int, h: int) -> Iterator[int]:
    yield from model.n[pool, h].values()


def _cells(model: Model, q: int, s: int) -> list[int]:
    cells = model.question.cells[model.problem.group_of[q], model.question.situations[s].period]
    return [k for k in range(len(cells)) if (q, s, k) in model.r]


def _cell(model: Model, q: int, s: int, k: int) -> Cell:
    return model.question.cells[model.problem.group_of[q], model.question.situations[s].period][k]


def _is_open(model: Model, q: int, s: int) -> bool:
    """Whether a stream may carry anything in a situation: its site is there, and some demand may take it."""
    loss = model.question.situations[s].loss
    if loss is not None and loss == ("site", model.problem.streams[q].site):
        return False
    return any(
        q in (d.refuges if loss is not None and loss == ("site", d.home) else d.streams) for d in model.problem.demands
    )


def _known_rate(model: Model, q: int, s: int) -> float | None:
    """What a stream takes in a situation where nothing else can take it and the scale is settled [req/s]."""
    rows, situation = model.rows, model.question.situations[s]
    if rows.lows[model.scale] != rows.highs[model.scale] or situation.loss is not None:
        return None
    mine = [demand for demand in model.problem.demands if q in demand.streams]
    if any(len(demand.streams) > 1 for demand in mine):
        return None
    return rows.lows[model.scale] * sum(demand.req_per_s[situation.period] for demand in mine)


def _rate(model: Model, q: int, s: int) -> float:
    """Most that a stream takes in a period of everything in place [req/s]."""
    period = model.question.situations[s].period
    return sum(d.req_per_s[period] for d in model.problem.demands if q in d.streams)
