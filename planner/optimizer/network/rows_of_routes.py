"""Rows of a network's program that route every request: one function per family."""

from __future__ import annotations

from planner.optimizer.network.indices import CellChoice, Share, StreamInCell, StreamInSituation
from planner.optimizer.network.program import (
    MixedIntegerProgram,
    cell_of,
    known_rate,
    may_carry,
    open_cells,
    period_rate,
    shares_in_cell,
)


def serve_demand(program: MixedIntegerProgram) -> None:
    """Every request is served.

    Equation:
        sum of r_qsk over the streams q and cells k of a demand = R demand

    Args:
        program: the program; it gets a column for the part that a stream takes of a demand, where several may.
    """
    problem = program.problem
    for s, situation in enumerate(program.spec.situations):
        taken: dict[int, list[tuple[int, float]]] = {q: [] for q in range(len(problem.streams))}
        for c, demand in enumerate(problem.demands):
            is_lost = situation.loss is not None and situation.loss == ("site", demand.home)
            streams = [q for q in (demand.refuges if is_lost else demand.streams) if may_carry(program, q, s)]
            rate = demand.req_per_s[situation.period]
            if len(streams) == 1:
                taken[streams[0]].append((program.scale, -rate))
                continue
            parts = [program.rows.column(f"part_{c}_{q}_{s}") for q in streams]
            program.rows.row(f"serve_demand_{c}_{s}", [*((p, 1) for p in parts), (program.scale, -rate)], 0, 0)
            for q, part in zip(streams, parts, strict=True):
                taken[q].append((part, -1.0))
        for q, terms in taken.items():
            program.demand_terms[StreamInSituation(q, s)] = terms
            rates = [program.stream_rates[StreamInCell(q, s, k)] for k in open_cells(program, q, s)]
            if (rates or terms) and known_rate(program, q, s) is None:
                program.rows.row(f"serve_stream_{q}_{s}", [*rates, *terms], 0, 0)


def choose_one_cell(program: MixedIntegerProgram) -> None:
    """A group has one threshold and one allowance, or at most as many as it may divide its requests between.

    Equation:
        1 <= sum of y_gsk over k <= K_g

    Args:
        program: the program.
    """
    for g in range(len(program.problem.groups)):
        for s, situation in enumerate(program.spec.situations):
            cells = range(len(program.spec.cells[g, situation.period]))
            terms = [(program.cell_choices[CellChoice(g, s, k)], 1.0) for k in cells]
            program.rows.row(f"choose_one_cell_{g}_{s}", terms, 1, program.problem.most_thresholds[g])


def link_rate_to_choice(program: MixedIntegerProgram) -> None:
    """A stream has no rate in a cell that was not chosen.

    Equation:
        r_qsk <= U_q y_gsk, U_q the most that the stream ever serves

    Args:
        program: the program.
    """
    problem, top = program.problem, program.rows.highs[program.scale]
    for (q, s, k), (r, _) in program.stream_rates.items():
        if known_rate(program, q, s) is not None:
            continue
        most = top * problem.peak_req_per_s[q] if program.spec.situations[s].loss else top * period_rate(program, q, s)
        terms = [(r, 1.0), (program.cell_choices[CellChoice(problem.group_of[q], s, k)], -most)]
        program.rows.row(f"link_rate_to_choice_{q}_{s}_{k}", terms, high=0)


def route_prompts(program: MixedIntegerProgram) -> None:
    """Every prompt is prefilled somewhere.

    Equation:
        sum of x_qska over the arcs a of a part = r_qsk, and sum of b_qska over the arcs of prompts between the ends =
        r_qsk

    Args:
        program: the program.
    """
    known: dict[tuple[int, int, int, Share], list[tuple[int, float]]] = {}
    for (q, s, k, part, _), column in program.part_rates.items():
        known.setdefault((q, s, k, part), []).append((column, 1.0))
    for (q, s, k, _, _), column in program.between_rates.items():
        known.setdefault((q, s, k, "between"), []).append((column, 1.0))
    for (q, s, k), (r, rate) in program.stream_rates.items():
        for share in shares_in_cell(program, q, cell_of(program, q, s, k)):
            terms = [*known.get((q, s, k, share), ()), (r, -rate)]
            program.rows.row(f"route_prompts_{q}_{s}_{k}_{share}", terms, 0, 0)


def divide_alike(program: MixedIntegerProgram) -> None:
    """The threshold of a group divides prompts between the ends of a cell alike in streams whose prompts are alike.

    Equation:
        sum of b_qska over the arcs of long prompts = r_qsk v, with one v for all such streams

    Args:
        program: the program; it gets the column v.
    """
    long: dict[tuple[int, int, int], list[tuple[int, float]]] = {}
    alike: dict[tuple[int, int, int, tuple[int, int]], list[int]] = {}
    for (q, s, k, part, _), column in program.between_rates.items():
        if (q, s, k) not in long:
            kind = program.problem.group_of[q], s, k, program.spec.loads.division(q)
            alike.setdefault(kind, []).append(q)
        long.setdefault((q, s, k), []).extend([(column, 1.0)] if part == "long" else [])
    for (_, s, k, _), streams in alike.items():
        rates = {q: rate for q in streams if (rate := known_rate(program, q, s))}
        if len(rates) < 2:
            continue
        of_all = program.rows.column(f"v_{min(rates)}_{s}_{k}", 0, 1)
        for q, rate in rates.items():
            program.rows.row(f"divide_alike_{q}_{s}_{k}", [*long[q, s, k], (of_all, -rate)], 0, 0)


def route_decode(program: MixedIntegerProgram) -> None:
    """Every request is decoded at the site of its stream; where no pool decodes there, the stream serves none.

    Equation:
        sum of d_qsi over i = what the stream serves of the demand

    Args:
        program: the program.
    """
    pools: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for (q, s, _), column in program.decode_rates.items():
        pools.setdefault((q, s), []).append((column, 1.0))
    for (q, s), demand in program.demand_terms.items():
        program.rows.row(f"route_decode_{q}_{s}", [*pools.get((q, s), ()), *demand], 0, 0)
