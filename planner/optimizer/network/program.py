"""What the mixed-integer model of a network is built from, and where its columns are.

Sets: pools i, links l with port tiers j, streams q (a class decoded at a site), groups g of streams with a common
threshold, situations s (a period, perhaps with something lost), cells k of a group in a period (an interval of
thresholds and one of allowances), segments j of a pool's size, owners o (pools between which accelerators may change
roles). Columns: instances n_ij in segment j and its choice z_ij (integer), accelerators b_o, ports m_lj (integer),
choices y_gsk (binary), rates r_qsk, x_qska (arc a, long and short), b_qska (between a cell's ends), d_qsi (decode) and
l_qska (late ones of x and b) [req/s], and the scale R of the demand. What a cell costs and allows is a constant, so
everything is linear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from planner.optimizer.network.loads import PARTS, Array, Cell, NetworkLoads
from planner.optimizer.network.rows import Rows
from planner.optimizer.problem import Arc, Part, Problem, Situation

Share = Literal["long", "short", "between"]
"""Of a stream's prompts in a cell: long or short whatever the threshold, or between its ends."""
Segments = Mapping[int, Sequence[tuple[int, int]]]
"""Sizes of every pool in pieces, from 1 to its most."""


@dataclass(frozen=True)
class ProgramSpec:
    """What a model is built from."""

    loads: NetworkLoads
    situations: tuple[Situation, ...]
    cells: Mapping[tuple[int, int], Sequence[Cell]]
    """Cells of every group in every period."""
    segments: Segments
    is_conservative: bool = False
    """Whether an answer is to be kept by the promise: limits of the strictest user, instead of bounds."""
    arcs: frozenset[tuple[int, int, Arc]] | None = None
    """Streams, periods and arcs that may be used; None: all."""
    least_scale: float | None = None
    """Scale of the demand to be served at least, where cost is the objective; None: what the scenario asks for."""
    fixed: tuple[tuple[int, ...], tuple[tuple[int, ...], ...]] | None = None
    """Instances and ports that are settled."""
    shares_lateness: bool = False
    """Whether pools share what a class may be late, so that the answer bounds every division of it; else each keeps the
    promise alone. Not in safe models."""
    near_sizes: Mapping[int, int] = field(default_factory=dict)
    """Sizes of pools around which an answer is sought: there limits of mixed work are exact."""


@dataclass
class MixedIntegerProgram:
    """A program and where its columns are."""

    spec: ProgramSpec
    rows: Rows = field(default_factory=Rows)
    scale: int = -1
    instances: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)
    """Instances by pool and sizing, then segment."""
    segment_choices: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)
    ports: list[list[int]] = field(default_factory=list)
    link_choices: list[int] = field(default_factory=list)
    """Whether a link is in use, where that asks for ports."""
    bought_accelerators: dict[int, int] = field(default_factory=dict)
    """Accelerators of every owner of the problem, where they change roles."""
    cell_choices: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """Choice by group, situation and cell."""
    stream_rates: dict[tuple[int, int, int], tuple[int, float]] = field(default_factory=dict)
    """Rate by stream, situation and cell: a column and its factor. Where all the rate is known, it is that of the
    choice: no column of its own, and what a choice costs is seen from the choice."""
    part_rates: dict[tuple[int, int, int, Part, Arc], int] = field(default_factory=dict)
    """Rate by stream, situation, cell, part and arc."""
    between_rates: dict[tuple[int, int, int, Part, Arc], int] = field(default_factory=dict)
    """Rate at which an arc takes the prompts between a cell's ends, keyed as `x`; the part is the pool's."""
    late_rates: dict[int, int] = field(default_factory=dict)
    """Late requests [req/s] by the column of their rate, where pools share what a class may be late."""
    decode_rates: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """Rate by stream, situation and decode pool."""
    demand_terms: dict[tuple[int, int], list[tuple[int, float]]] = field(default_factory=dict)
    """What a stream has of the demand in a situation, with a minus [req/s]."""
    usd_per_hour: dict[int, float] = field(default_factory=dict)
    """USD per hour of a unit of every column."""
    shared_rows: list[int] = field(default_factory=list)
    """Rows about what several models use: accelerators, links, the budget."""
    prefill_rows: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """Rows about the work of a prefill pool in a situation."""
    size_limits: dict[int, tuple[int, Array]] = field(default_factory=dict)
    """Of rows about the work of a pool: the pool, and the limit at sizes of GRID."""

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.spec.loads.problem

    def sizing_of(self, situation: Situation) -> int:
        """Index of the sizes that hold in a situation: one for all, or one for each period."""
        return situation.period if self.problem.scenario.routing.role_conversion else 0

    @cached_property
    def is_between(self) -> frozenset[int]:
        """Columns of prompts between the ends of a cell."""
        return frozenset(self.between_rates.values())

    @cached_property
    def users_of_pool(self) -> dict[tuple[int, int], list[tuple[int, int, Part, Arc, int, float]]]:
        """Rates into every pool in every situation: stream, cell, part, arc, column and seconds of a unit."""
        found: dict[tuple[int, int], list[tuple[int, int, Part, Arc, int, float]]] = {}
        for (q, s, k, part, arc), column, seconds, _ in self.prefill_uses:
            found.setdefault((arc.pool, s), []).append((q, k, part, arc, column, seconds))
        return found

    @cached_property
    def prefill_uses(self) -> list[tuple[tuple[int, int, int, Part, Arc], int, float, float]]:
        """Every rate into a prefill pool: its key, its column, and the seconds and bytes of a unit of it."""
        found = []
        known: dict[tuple[object, ...], tuple[float, float]] = {}
        for columns, is_between in ((self.part_rates, False), (self.between_rates, True)):
            for key, column in columns.items():
                q, s, k, part, arc = key
                of: tuple[Part, Share] = (part, "between" if is_between else part)
                use = q, of, arc, cell_of(self, q, s, k)
                if use not in known:  # periods often have cells in common
                    known[use] = use_of(self, *use)
                found.append((key, column, *known[use]))
        return found


def segments_of(program: MixedIntegerProgram, pool: int) -> Sequence[tuple[int, int]]:
    """Pieces of a pool's sizes; at most what it may have."""
    most = program.problem.pools[pool].max_instances
    return [(low, min(high, most)) for low, high in program.spec.segments[pool] if low <= most]


def sizes_of(program: MixedIntegerProgram, pool: int, h: int) -> Iterator[int]:
    yield from program.instances[pool, h].values()


def cell_of(program: MixedIntegerProgram, q: int, s: int, k: int) -> Cell:
    return program.spec.cells[program.problem.group_of[q], program.spec.situations[s].period][k]


def open_cells(program: MixedIntegerProgram, q: int, s: int) -> list[int]:
    cells = program.spec.cells[program.problem.group_of[q], program.spec.situations[s].period]
    return [k for k in range(len(cells)) if (q, s, k) in program.stream_rates]


def shares_in_cell(program: MixedIntegerProgram, q: int, cell: Cell) -> list[Share]:
    """Shares of a stream's prompts that are there in a cell."""
    loads = program.spec.loads
    shares: list[Share] = [part for part in PARTS if loads.fraction(q, part, cell) > 0]
    return [*shares, "between"] if loads.holds_between(q, cell) else shares


def part_arcs(program: MixedIntegerProgram, q: int, s: int, share: Share, cell: Cell) -> list[tuple[Part, Arc]]:
    """Arcs that a share of a stream's prompts may take, and the part of their pools."""
    parts = PARTS if share == "between" else (share,)
    return [(part, arc) for part in parts for arc in usable_arcs(program, q, s, part, cell)]


def usable_arcs(program: MixedIntegerProgram, q: int, s: int, part: Part, cell: Cell) -> list[Arc]:
    """Arcs of a stream that a situation leaves, to pools that hold a part of its prompts under some threshold."""
    problem, situation, allowed = program.problem, program.spec.situations[s], program.spec.arcs
    arcs = [arc for arc in problem.arcs[q][part] if program.spec.loads.holds(q, arc, part, cell)]
    if allowed is not None:
        arcs = [arc for arc in arcs if (q, situation.period, arc) in allowed]
    if situation.loss is None or situation.loss.kind == "instance":
        return arcs
    kind, name = situation.loss
    if kind == "link":
        return [arc for arc in arcs if arc.link is None or problem.links[arc.link].name != name]
    return [arc for arc in arcs if problem.pools[arc.pool].site != name]


def use_of(program: MixedIntegerProgram, q: int, of: tuple[Part, Share], arc: Arc, cell: Cell) -> tuple[float, float]:
    """Seconds of a pool and bytes on a link, at the least, per request of a stream whose share takes an arc."""
    loads, (part, share) = program.spec.loads, of
    if share == "between":
        return loads.between_s(q, arc, cell), loads.between_bytes(q, arc, cell)
    return loads.work_s(q, arc, part, cell), loads.sent_bytes(q, arc, part, cell)


def is_open(program: MixedIntegerProgram, q: int, s: int) -> bool:
    """Whether a stream may carry anything in a situation: its site is there, and some demand may take it."""
    loss = program.spec.situations[s].loss
    if loss is not None and loss == ("site", program.problem.streams[q].site):
        return False
    return any(
        q in (d.refuges if loss is not None and loss == ("site", d.home) else d.streams)
        for d in program.problem.demands
    )


def known_rate(program: MixedIntegerProgram, q: int, s: int) -> float | None:
    """What a stream takes in a situation where nothing else can take it and the scale is settled [req/s]."""
    rows, situation = program.rows, program.spec.situations[s]
    if rows.lows[program.scale] != rows.highs[program.scale] or situation.loss is not None:
        return None
    mine = [demand for demand in program.problem.demands if q in demand.streams]
    if any(len(demand.streams) > 1 for demand in mine):
        return None
    return rows.lows[program.scale] * sum(demand.req_per_s[situation.period] for demand in mine)


def period_rate(program: MixedIntegerProgram, q: int, s: int) -> float:
    """Most that a stream takes in a period of everything in place [req/s]."""
    period = program.spec.situations[s].period
    return sum(d.req_per_s[period] for d in program.problem.demands if q in d.streams)
