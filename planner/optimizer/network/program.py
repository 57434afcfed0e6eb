"""The mixed-integer program of a network: what it is built from, and the column of every variable.

Sets: pools i, links l with port tiers j, streams q (a class decoded at a site), groups g of streams with a common
threshold, situations s (a period, with everything in place or with a loss), cells k of a group in a period (an interval
of thresholds and one of allowances), segments j of a pool's sizes, owners o (pools between which accelerators may
change roles).

Variables: instances n_ij and the choice z_ij of a segment (integer), accelerators b_o, ports m_lj (integer), choices
y_gsk (binary), rates r_qsk, x_qska (arc a, long and short), b_qska (between a cell's ends), d_qsi (decode), late
requests l_qska of x and b [req/s], and the scale R of the demand. What a cell costs and allows is a constant, so every
row is linear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from planner.optimizer.network.batch_needs import Need
from planner.optimizer.network.cells import PARTS, Cell
from planner.optimizer.network.indices import (
    CellChoice,
    DecodeRate,
    PeriodArc,
    PoolInSituation,
    PoolSizing,
    PoolUser,
    PrefillRate,
    PrefillUse,
    Share,
    StreamInCell,
    StreamInSituation,
)
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.rows import Rows
from planner.optimizer.problem import Arc, Problem, Situation
from planner.optimizer.problem_parts import Part
from planner.optimizer.sized import Sizing

Segments = Mapping[int, Sequence[tuple[int, int]]]
"""Sizes of every pool in pieces, from 1 to its most."""


@dataclass(frozen=True)
class ProgramSpec:
    """Specification of a program: coefficients, situations, cells of thresholds, and what is fixed or allowed."""

    loads: NetworkLoads
    situations: tuple[Situation, ...]
    cells: Mapping[tuple[int, int], Sequence[Cell]]
    """Cells of every group in every period."""
    segments: Segments
    is_conservative: bool = False
    """Whether every solution is to be within the SLOs (an inner approximation): limits are those of the strictest user.
    Else limits lie above those of every plan, so that the optimum is a bound (a relaxation)."""
    arcs: frozenset[PeriodArc] | None = None
    """Arcs that may be used; None: all."""
    least_scale: float | None = None
    """Scale of the demand to be served at least, where cost is the objective; None: what the scenario asks for."""
    fixed: Sizing | None = None
    """Instances and ports that are given; None: they are chosen."""
    shares_lateness: bool = False
    """Whether the pools of a class share its late requests, so that the optimum bounds every division of them. Else
    every pool keeps to the SLO alone. Not in conservative programs."""
    near_sizes: Mapping[int, int] = field(default_factory=dict)
    """Sizes of pools near which a solution is sought: there the limits of mixed work are exact."""
    n_spare: int = 0
    """Instances of every pool that its work leaves out: so the same flows go on after the loss of any."""
    needs: Mapping[Need, float] = field(default_factory=dict)
    """Instances for a request per second of colocated pools at the least, as far as they were found [s]."""


@dataclass
class MixedIntegerProgram:
    """A mixed-integer program of a network: its rows, and the column of every variable by its indices."""

    spec: ProgramSpec
    rows: Rows = field(default_factory=Rows)
    """Columns and rows as numbers."""
    scale: int = -1
    """Column of the scale R of the demand."""
    instances: dict[PoolSizing, dict[int, int]] = field(default_factory=dict)
    """Columns n of instances, by segment of the pool's sizes."""
    segment_choices: dict[PoolSizing, dict[int, int]] = field(default_factory=dict)
    """Columns z that choose a segment of a pool's sizes, by segment."""
    starts: dict[PoolSizing, int] = field(default_factory=dict)
    """Columns of instances that start with a period, of pools that are rented by the period."""
    ports: list[list[int]] = field(default_factory=list)
    """Columns m of ports, by link and tier."""
    link_choices: list[int] = field(default_factory=list)
    """Columns that are 1 where a link is in use, if a used link needs a least bandwidth."""
    bought_accelerators: dict[int, int] = field(default_factory=dict)
    """Columns b of accelerators by owner, where accelerators change roles."""
    cell_choices: dict[CellChoice, int] = field(default_factory=dict)
    """Columns y that choose a cell."""
    stream_rates: dict[StreamInCell, tuple[int, float]] = field(default_factory=dict)
    """Rates r [req/s], each as a column and a factor. Where the whole rate is known, the column is that of the choice
    of the cell and the factor is the rate, so that relaxations see what a choice costs."""
    part_rates: dict[PrefillRate, int] = field(default_factory=dict)
    """Columns x of the rates of long and short prompts."""
    between_rates: dict[PrefillRate, int] = field(default_factory=dict)
    """Columns b of the rates of prompts between the ends of a cell; the part is the one that the pool prefills."""
    late_rates: dict[int, int] = field(default_factory=dict)
    """Columns l of late requests [req/s], by the column of their rate, where pools share them."""
    decode_rates: dict[DecodeRate, int] = field(default_factory=dict)
    """Columns d of the rates into decode pools."""
    demand_terms: dict[StreamInSituation, list[tuple[int, float]]] = field(default_factory=dict)
    """Minus the demand that a stream serves [req/s], as terms of a row."""
    usd_per_hour: dict[int, float] = field(default_factory=dict)
    """Price of a unit of a column [USD/h]."""
    shared_rows: list[int] = field(default_factory=list)
    """Rows that couple several served models: accelerators, links, the budget."""
    prefill_rows: dict[PoolInSituation, list[int]] = field(default_factory=dict)
    """Rows about the work of a prefill pool."""

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.spec.loads.problem

    def sizing_of(self, situation: Situation) -> int:
        """Index of the sizes that hold in a situation: 0 for all, or the period where sizes follow it."""
        return situation.period if self.problem.has_sizes_by_period else 0

    @cached_property
    def between_columns(self) -> frozenset[int]:
        """Columns of prompts between the ends of a cell."""
        return frozenset(self.between_rates.values())

    @cached_property
    def users_of_pool(self) -> dict[PoolInSituation, list[PoolUser]]:
        """Columns of requests into every prefill pool in every situation."""
        found: dict[PoolInSituation, list[PoolUser]] = {}
        for (stream, situation, cell, part, arc), column, seconds, _ in self.prefill_uses:
            user = PoolUser(stream, cell, part, arc, column, seconds)
            found.setdefault(PoolInSituation(arc.pool, situation), []).append(user)
        return found

    @cached_property
    def prefill_uses(self) -> list[PrefillUse]:
        """Every column of requests into a prefill pool, with what a request asks for."""
        found = []
        known: dict[tuple[object, ...], tuple[float, float]] = {}
        for columns, is_between in ((self.part_rates, False), (self.between_rates, True)):
            for rate, column in columns.items():
                share: Share = "between" if is_between else rate.part
                cell = cell_of(self, rate.stream, rate.situation, rate.cell)
                use = rate.stream, rate.part, share, rate.arc, cell
                if use not in known:  # periods often have cells in common
                    known[use] = use_per_request(self, *use)
                found.append(PrefillUse(rate, column, *known[use]))
        return found


def segments_of(program: MixedIntegerProgram, pool: int) -> Sequence[tuple[int, int]]:
    """Least and greatest size of every segment of a pool's sizes, at most what the pool may have [count]."""
    most = program.problem.pools[pool].max_instances
    return [(low, min(high, most)) for low, high in program.spec.segments[pool] if low <= most]


def sizes_of(program: MixedIntegerProgram, pool: int, sizing: int) -> Iterator[int]:
    """Columns of a pool's instances, one per segment of its sizes."""
    yield from program.instances[PoolSizing(pool, sizing)].values()


def cell_of(program: MixedIntegerProgram, stream: int, situation: int, cell: int) -> Cell:
    """The cell with an index among those of a stream's group in a situation."""
    return _cells_of(program, stream, situation)[cell]


def open_cells(program: MixedIntegerProgram, stream: int, situation: int) -> list[int]:
    """Indices of the cells in which a stream has a rate in a situation."""
    cells = range(len(_cells_of(program, stream, situation)))
    return [k for k in cells if StreamInCell(stream, situation, k) in program.stream_rates]


def _cells_of(program: MixedIntegerProgram, stream: int, situation: int) -> Sequence[Cell]:
    return program.spec.cells[program.problem.group_of[stream], program.spec.situations[situation].period]


def shares_in_cell(program: MixedIntegerProgram, stream: int, cell: Cell) -> list[Share]:
    """Shares of a stream's prompts that are not empty in a cell."""
    loads = program.spec.loads
    shares: list[Share] = [part for part in PARTS if loads.fraction(stream, part, cell) > 0]
    return [*shares, "between"] if loads.holds_between(stream, cell) else shares


def part_arcs(
    program: MixedIntegerProgram, stream: int, situation: int, share: Share, cell: Cell
) -> list[tuple[Part, Arc]]:
    """Arcs that a share of a stream's prompts may take in a situation, each with the part that its pool prefills."""
    parts = PARTS if share == "between" else (share,)
    return [(part, arc) for part in parts for arc in usable_arcs(program, stream, situation, part, cell)]


def usable_arcs(program: MixedIntegerProgram, stream: int, situation: int, part: Part, cell: Cell) -> list[Arc]:
    """Arcs of a stream that a situation leaves, to pools with memory for a part under some threshold of a cell."""
    problem, (period, loss), allowed = program.problem, program.spec.situations[situation], program.spec.arcs
    arcs = [arc for arc in problem.arcs[stream][part] if program.spec.loads.holds(stream, arc, part, cell)]
    if allowed is not None:
        arcs = [arc for arc in arcs if PeriodArc(stream, period, arc) in allowed]
    if loss is None or loss.kind == "instance":
        return arcs
    if loss.kind == "link":
        return [arc for arc in arcs if arc.link is None or problem.links[arc.link].name != loss.name]
    return [arc for arc in arcs if problem.pools[arc.pool].site != loss.name]


def use_per_request(
    program: MixedIntegerProgram, stream: int, part: Part, share: Share, arc: Arc, cell: Cell
) -> tuple[float, float]:
    """Least use by a request of a stream if a share of its prompts takes an arc.

    Returns:
        Instance-seconds of the pool [s], and bytes on the link [B].
    """
    loads = program.spec.loads
    if share == "between":
        return loads.between_s(stream, arc, cell), loads.between_bytes(stream, arc, cell)
    return loads.work_s(stream, arc, part, cell), loads.sent_bytes(stream, arc, part, cell)


def may_carry(program: MixedIntegerProgram, stream: int, situation: int) -> bool:
    """True if a stream may carry requests in a situation: its site is in place, and some demand may use it."""
    loss = program.spec.situations[situation].loss
    if loss is not None and loss == ("site", program.problem.streams[stream].site):
        return False
    return any(
        stream in (d.refuges if loss is not None and loss == ("site", d.home) else d.streams)
        for d in program.problem.demands
    )


def known_rate(program: MixedIntegerProgram, stream: int, situation: int) -> float | None:
    """Rate of a stream whose demand no other stream may take, at a fixed scale and under one threshold [req/s]; None
    where it is free.
    """
    rows, (period, loss) = program.rows, program.spec.situations[situation]
    if rows.lows[program.scale] != rows.highs[program.scale] or loss is not None:
        return None
    if program.problem.most_thresholds[program.problem.group_of[stream]] > 1:
        return None
    mine = [demand for demand in program.problem.demands if stream in demand.streams]
    if any(len(demand.streams) > 1 for demand in mine):
        return None
    return rows.lows[program.scale] * sum(demand.req_per_s[period] for demand in mine)


def period_rate(program: MixedIntegerProgram, stream: int, situation: int) -> float:
    """Most that a stream serves in the period of a situation while everything is in place [req/s]."""
    period = program.spec.situations[situation].period
    return sum(d.req_per_s[period] for d in program.problem.demands if stream in d.streams)
