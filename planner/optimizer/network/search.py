"""The search of a network: bounds over cells of thresholds, plans at points inside them, refined until both meet.

1. A relaxation with the optimistic limits of every cell, in the peak periods, bounds every plan.
2. A program with the limits of the strictest user, at points of the cells that the bound chose, gives a plan. The best
   model of waits then says whether that plan is within its SLOs.
3. Periods and losses that the plan does not cover join the program. The chosen cells, and the segments of sizes around
   the chosen sizes, are cut finer. This goes on until plan and bound meet.

Large networks are searched otherwise, see `large_search`.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

import numpy as np

from planner.errors import UndecidedError
from planner.optimizer.network.batch_needs import instances_per_rate
from planner.optimizer.network.cells import Cells, mix_of
from planner.optimizer.network.completion import at_the_best, evaluated_plan, use_outside_program
from planner.optimizer.network.formulation import build
from planner.optimizer.network.indices import CellChoice, PeriodArc, StreamArc, StreamInCell
from planner.optimizer.network.large_search import large_search
from planner.optimizer.network.loads import LINK_BUSY, NetworkLoads
from planner.optimizer.network.local_search import at_highest_scale, repaired
from planner.optimizer.network.program import MixedIntegerProgram, ProgramSpec, cell_of
from planner.optimizer.network.program_solution import chosen_cells, largest_sizes, start_values, used_arcs
from planner.optimizer.network.refinement import (
    first_cells,
    first_cells_of,
    first_segments,
    points_in_cell,
    segments_around,
    split_cell,
)
from planner.optimizer.network.rows import ProgramSolution
from planner.optimizer.network.rows_of_passes import stated_needs
from planner.optimizer.network.search_state import SearchState, is_better
from planner.optimizer.problem import Problem, Situation
from planner.optimizer.settings import SETTINGS
from planner.optimizer.single_route import at_best_threshold
from planner.optimizer.sized import Sizing
from planner.optimizer.solution import ANY_PLAN, GAP_TARGET, Solution
from planner.optimizer.time_limit import nothing_found
from planner.ties import first_largest
from planner.work_clock import work_s

TINY = 1e-7
NOTHING = 1e-6
"""A scale of the demand that is none, within the solver's tolerance."""


class PlanLimits(NamedTuple):
    """Limits that a plan is sought with; several are tried."""

    gbps: tuple[float, ...]
    """Bandwidth of every link that transfers count with [Gbps]."""
    link_busy: float = LINK_BUSY
    """Greatest mean use of a link [fraction]."""
    is_optimistic: bool = False
    """Whether waits are the shortest that the closed form may stand for."""
    late_multiple: float = 1.0
    """Multiple of the late requests of an SLO that every pool may have; above 1 local search repairs the plan."""
    n_spare: int = 0
    """Instances of every pool that its work leaves out: the same flows then survive the loss of any."""


def network_search(
    problem: Problem,
    time_limit_s: float = 60.0,
    gap: float = GAP_TARGET,
    first: Solution | None = None,
    bound: float | None = None,
) -> Solution | None:
    """The best plan of a network and its bound.

    Args:
        problem: the resolved scenario.
        time_limit_s: time after which the best plan so far is returned with its gap [s].
        gap: relative distance of plan and bound at which to stop [fraction].
        first: a plan to begin with; None: none is known.
        bound: one that is proven already; None: none is known.

    Returns:
        The plan with its bound; None where it is proven that there is no plan.

    Raises:
        UndecidedError: time is up without a plan and without such a proof.

    Valid:
        The bound holds for all plans that are within every SLO over the pools of a class together, see `lateness`, with
        the shortest waits that the closed form may stand for. The plan is within its SLOs in the best model of waits.

    Source:
        Branch and bound (Land and Doig 1960) over thresholds; periods and losses join with their columns and rows as in
        column-and-constraint generation (Zeng and Zhao 2013).
    """
    deadline = work_s() + time_limit_s
    state = _begun(problem, gap)
    state.best = state.best or first
    state.bound = state.bound if bound is None else max(state.bound, state.sign * bound)
    if not _searched(state, gap, time_limit_s, deadline):
        return None
    if state.best is not None and state.best.objective > _most_usd_per_hour(problem):
        if state.bound > _most_usd_per_hour(problem):
            return None
        state.best = None
    if state.best is None and (work_s() >= deadline or gap >= ANY_PLAN or state.is_large):
        raise nothing_found(is_time_up=work_s() >= deadline, looked_at=f"{SETTINGS.max_rounds} rounds")
    if state.best is None:  # points of wide cells may do where those of fine ones do not
        first = network_search(problem, deadline - work_s(), ANY_PLAN)
        return first and network_search(problem, deadline - work_s(), gap, first, state.sign * state.bound)
    return replace(state.best, bound=state.sign * min(state.bound, state.sign * state.best.objective))


def _most_usd_per_hour(problem: Problem) -> float:
    """Most that a plan of the least cost may cost, and a little for rounding; inf without a budget, or for other plans.

    Sizes of large networks are sought for the least cost, whatever the budget.
    """
    budget = problem.scenario.budget_usd_per_hour
    return inf if budget is None or not (problem.is_min_cost and problem.is_priced) else budget * (1 + TINY)


def _searched(state: SearchState, gap: float, time_limit_s: float, deadline: float) -> bool:
    """Bounds and plans in turn until they meet or time is up; False where there is no plan."""
    relaxed, n_stalled = len(state.problem.periods) > 1, 0
    for _ in range(SETTINGS.max_rounds):
        begun = state.best
        try:
            program, found = _bound(state, gap, deadline, relaxed)
        except UndecidedError:
            break
        if found is None:
            return state.best is not None
        risen = found.bound + use_outside_program(state) - state.bound
        state.bound = max(state.bound, found.bound + use_outside_program(state))
        is_alike = not (state.problem.is_followed or state.problem.has_batches)
        state.is_large |= _n_columns_to_solve(program) > SETTINGS.large_columns and is_alike
        if state.is_large:
            return large_search(state, time_limit_s, deadline) or state.best is not None
        was_relaxed, relaxed = relaxed, relaxed and risen > SETTINGS.bound_gap_share * gap * abs(state.bound)
        if not relaxed and state.gap > gap:
            _plans_from_relaxation(state, program, found, gap, deadline)
        has_moved = relaxed or state.best is not begun or risen > SETTINGS.stalled_share * abs(state.bound)
        n_stalled = 0 if has_moved else n_stalled + 1
        if (
            state.gap <= gap
            or work_s() > deadline
            or (state.problem.has_batches and n_stalled >= SETTINGS.most_stalled)
        ):
            break
        if not _refine(state, program, found) and not relaxed and not was_relaxed:
            break
    return True


def _n_columns_to_solve(program: MixedIntegerProgram) -> float:
    """Columns but for those of late requests; of all periods where sizes are all that these share [count]."""
    n_columns, periods = len(program.rows.costs) - len(program.late_rates), program.problem.periods
    if not _is_separable_by_period(program.problem):
        return n_columns
    return n_columns * len(periods) / len({situation.period for situation in program.spec.situations})


def _is_separable_by_period(problem: Problem) -> bool:
    """True if sizes, ports and stock are all that periods share, and cost is minimised: a budget is then a limit of it.

    Where any instance may be lost, the work of every pool leaves one out.
    """
    scenario = problem.scenario
    is_alone = set(scenario.spare.survive) <= {"instance"} and not problem.is_followed
    is_about_cost = problem.is_min_cost and (problem.is_priced or scenario.budget_usd_per_hour is None)
    return is_about_cost and is_alone and not problem.has_options and problem.ratio is None


def _begun(problem: Problem, gap: float) -> SearchState:
    """The state at the start: wide cells."""
    return SearchState(
        problem,
        peak_situations(problem),
        first_cells(problem),
        first_segments(problem),
        [1.0] * len(problem.classes),
        NetworkLoads(problem, is_optimistic=True),
        gap,
    )


def _bound(
    state: SearchState, gap: float, deadline: float, relaxed: bool
) -> tuple[MixedIntegerProgram, ProgramSolution | None]:
    """The optimum of the relaxation of the present cells; with integers where it is not relaxed."""
    for _ in range(SETTINGS.max_rounds):
        program = build(
            ProgramSpec(
                state.optimistic,
                tuple(state.active),
                state.cells,
                state.segments,
                shares_lateness=True,
                needs=dict(state.needs),
            )
        )
        start = {} if state.best is None or relaxed else start_values(program, state.best)
        found = program.rows.solved(deadline - work_s(), SETTINGS.bound_gap_share * gap, start, () if relaxed else None)
        if found is None or relaxed or not _learn_needs(state, program, found):
            break
    if found is not None:
        state.arcs |= {StreamArc(q, arc) for q, _, arc in used_arcs(program, found)}
    return program, found


def _learn_needs(state: SearchState, program: MixedIntegerProgram, found: ProgramSolution) -> bool:
    """Note what colocated pools need in the cells that a bound chose; False where its program counts with that."""
    is_new = False
    for need, is_used in stated_needs(program, found.values):
        if need not in state.needs:
            state.needs[need] = instances_per_rate(state.problem, need, is_promised=False)
            is_new = True
        if is_used and need not in state.judged:
            state.judged.add(need)
            before, state.needs[need] = state.needs[need], instances_per_rate(state.problem, need)
            is_new |= state.needs[need] > before
    return is_new


def _plans_from_relaxation(
    state: SearchState, program: MixedIntegerProgram, found: ProgramSolution, gap: float, deadline: float
) -> None:
    """Plans from points of the chosen cells, with limits from conservative to optimistic.

    Where closed forms say what sizes serve, the plan of the chosen sizes does.
    """
    if state.problem.is_capacity_only and state.problem.has_one_route and not state.problem.charges_use:
        _plan_of_sizes(state, program, found)
        if state.best is not None:
            return
    chosen = state.problem.gbps([[round(found.values[m]) for m in row] for row in program.ports])
    sizes = [[tier.capacity_gbps for tier in link.tiers] for link in state.problem.links]
    frugal = tuple(max(gbps, min(of_link)) for gbps, of_link in zip(chosen, sizes, strict=True))
    ample = tuple(max(gbps, max(of_link)) for gbps, of_link in zip(chosen, sizes, strict=True))
    tries, has_promise = [PlanLimits(frugal)], any(spec.ttft_s is not None for spec in state.problem.classes)
    can_move = can_repair(state.problem) or can_raise_rate(state.problem)
    if has_promise and state.problem.has_options:
        # What programs are too strict about, `judged_moves` makes up for.
        tries = [PlanLimits(ample), PlanLimits(frugal), PlanLimits(ample, SETTINGS.full_link_busy, late_multiple=inf)]
    elif has_promise:  # else nothing waits, and limits make no difference
        tries = [
            PlanLimits(ample),
            PlanLimits(ample, SETTINGS.quiet_link_busy),
            PlanLimits(frugal),
            PlanLimits(ample, SETTINGS.quiet_link_busy, is_optimistic=True),
        ]
        if can_move:
            tries += [
                PlanLimits(ample, SETTINGS.quiet_link_busy, late_multiple=late_multiple)
                for late_multiple in SETTINGS.late_multiples
            ]
    if "instance" in state.problem.scenario.spare.survive:
        tries.insert(0, tries[0]._replace(n_spare=1))
    for limits in dict.fromkeys(tries):
        # No bound has chosen cells for a situation that has just joined: the next bound comes first.
        if state.gap > gap and len(state.active) == len(program.spec.situations):
            _try_limits(state, program, found, gap, deadline, limits)
    if can_move and state.best is not None and state.best is not state.locally_searched:
        _repair(state, state.best, PlanLimits(ample), deadline)
        state.locally_searched = state.best


def _plan_of_sizes(state: SearchState, program: MixedIntegerProgram, found: ProgramSolution) -> None:
    """The plan of the sizes that a bound chose, at the best threshold of their route: noted if it is the best."""
    ports = tuple(tuple(round(found.values[m]) for m in row) for row in program.ports)
    ((cell,),) = chosen_cells(program, found.values).values()
    plan = at_best_threshold(state.problem, Sizing(tuple(largest_sizes(program, found)), ports), cell.high_tokens)
    if plan is not None and is_better(state, plan):
        state.best = plan


def _try_limits(
    state: SearchState,
    program: MixedIntegerProgram,
    found: ProgramSolution,
    gap: float,
    deadline: float,
    limits: PlanLimits,
) -> None:
    """A plan from the points of the chosen cells: noted if it is the best; or what it does not cover joins."""
    arcs: frozenset[PeriodArc] | None = used_arcs(program, found)
    sizes = {i: n and n + limits.n_spare for i, n in enumerate(largest_sizes(program, found))}
    segments = {i: segments_around(state.segments[i], n) for i, n in sizes.items()}
    # An SLO missed with optimistic limits says nothing of conservative ones.
    slo_factors = list(state.slo_factors) if limits.is_optimistic or limits.late_multiple > 1 else state.slo_factors
    is_open = state.problem.has_batches  # whether batches may yet turn out to serve more than they count with
    for _ in range(SETTINGS.max_tightenings):
        loads = replace(_loads(state.problem, limits, slo_factors), batches=dict(state.batches))
        points = _points(loads, program, found)
        safe = build(
            ProgramSpec(
                loads, program.spec.situations, points, segments, True, arcs, near_sizes=sizes, n_spare=limits.n_spare
            )
        )
        start = {} if state.best is None else start_values(safe, state.best)
        limit_s = min(deadline - work_s(), SETTINGS.plan_limit_s)
        try:
            plan = safe.rows.solved(limit_s, SETTINGS.plan_gap_share * gap, start)
        except UndecidedError:
            return
        if plan is None and is_open:
            state.batches, is_open = at_the_best(state), False
            continue
        if plan is None and arcs is None:
            return
        if plan is None:
            arcs = None  # the strictest user of a pool leaves too little room there: other arcs may leave more
            continue
        solution, missing, broken = evaluated_plan(state, safe, plan, slo_factors)
        state.active += missing
        if limits.late_multiple > 1 and not missing and not state.problem.has_batches:
            _repair(state, solution, limits, deadline)
        if missing or not broken or limits.late_multiple > 1:
            return


def _loads(problem: Problem, limits: PlanLimits, slo_factors: Sequence[float]) -> NetworkLoads:
    gbps, busy, late_multiple = limits.gbps, limits.link_busy, limits.late_multiple
    return NetworkLoads(problem, limits.is_optimistic, tuple(slo_factors), gbps, busy, late_multiple=late_multiple)


def _repair(state: SearchState, begun: Solution, limits: PlanLimits, deadline: float) -> None:
    """Bring a plan within its SLOs, and improve it, by local search: noted if it is the best."""
    loads = _loads(state.problem, limits._replace(late_multiple=1.0), [1.0] * len(state.problem.classes))
    if state.problem.is_min_cost:
        found = repaired(loads, begun, np.inf if state.best is None else state.best.objective, deadline)
    else:
        found = at_highest_scale(loads, begun, 0.0 if state.best is None else state.best.scale, deadline)
    if found is not None and is_better(state, found):
        state.best = found


def _points(loads: NetworkLoads, program: MixedIntegerProgram, found: ProgramSolution) -> Cells:
    """Thresholds and allowances inside the chosen cells, and a few over all lengths."""
    points: Cells = {}
    for g, members in enumerate(loads.problem.groups):
        wide = [p for cell in first_cells_of(loads.problem, members) for p in points_in_cell(loads, members, cell)]
        for s, situation in enumerate(program.spec.situations):
            cells = program.spec.cells[g, situation.period]
            offers = points.setdefault((g, situation.period), list(dict.fromkeys(wide)))
            for k, cell in enumerate(cells):
                if found.values[program.cell_choices[CellChoice(g, s, k)]] > SETTINGS.chosen_share:
                    inner = _dividing_thresholds(program, found, CellChoice(g, s, k))
                    offers += [p for p in points_in_cell(loads, members, cell, inner) if p not in offers]
    return points


def _dividing_thresholds(program: MixedIntegerProgram, found: ProgramSolution, at: CellChoice) -> list[float]:
    """Thresholds that divide the prompts between the ends of a chosen cell as a bound does [tokens]."""
    loads, members, divisions = program.spec.loads, program.problem.groups[at.group], list[float]()
    if mix_of(program.problem, members).is_discrete:
        return divisions
    between: dict[int, dict[str, float]] = {}
    for (q, s, k, part, _), column in program.between_rates.items():
        if (s, k) == (at.situation, at.cell) and q in members:
            rates = between.setdefault(q, {"long": 0.0, "short": 0.0})
            rates[part] += float(found.values[column])
    for q, rates in between.items():
        if rates["long"] > TINY and rates["short"] > TINY:
            long = rates["long"] / (rates["long"] + rates["short"])
            divisions.append(loads.dividing_tokens(q, cell_of(program, q, at.situation, at.cell), long))
    return divisions


def _refine(state: SearchState, program: MixedIntegerProgram, found: ProgramSolution) -> bool:
    """Cut the chosen cells, and the segments around the chosen sizes, finer; False where nothing is left to cut."""
    changed = len(state.active) > len(program.spec.situations)
    for (g, s, k), y in program.cell_choices.items():
        streams = (StreamInCell(q, s, k) for q in state.problem.groups[g])
        rates = (program.stream_rates[at] for at in streams if at in program.stream_rates)
        carries = any(factor * found.values[column] > TINY for column, factor in rates)
        if found.values[y] > SETTINGS.chosen_share and carries:
            period = program.spec.situations[s].period
            cell = program.spec.cells[g, period][k]
            parts = split_cell(mix_of(state.problem, state.problem.groups[g]), cell, state.target)
            if len(parts) > 1 and cell in state.cells[g, period]:
                state.cells[g, period].remove(cell)
                state.cells[g, period] += parts
                changed = True
    for i, n in enumerate(largest_sizes(program, found)):
        pieces = segments_around(state.segments[i], n)
        changed |= pieces != state.segments[i]
        state.segments[i] = pieces
    return changed


def peak_situations(problem: Problem) -> list[Situation]:
    """Periods in which the demand of some stream, of some served model, or of all together is highest.

    Returns:
        Situations with everything in place, in order; all periods where sizes follow them or roles of few pools change.
    """
    n_sizes = len(problem.pools) * len(problem.periods)
    if problem.is_followed or (problem.scenario.routing.role_conversion and n_sizes <= SETTINGS.many_sizes):
        return [Situation(p) for p in range(len(problem.periods))]
    rates = np.array([demand.req_per_s for demand in problem.demands])
    models = [problem.classes[demand.request_class].model for demand in problem.demands]
    sums = [rates[[m == served for m in models]].sum(axis=0) for served in dict.fromkeys(models)]
    peaks = {first_largest(row) for row in (*rates, *sums, rates.sum(axis=0))}
    return [Situation(p) for p in sorted(peaks)]


def can_repair(problem: Problem) -> bool:
    """True if local search can bring plans of a problem within their SLOs, or make plans with spare cheaper.

    Sizes must be all that periods share, and cost must be minimised. Of losses only those of instances are looked at.
    """
    scenario = problem.scenario
    is_alone = set(scenario.spare.survive) <= {"instance"} and scenario.budget_usd_per_hour is None
    is_fixed = not problem.has_sizes_by_period and not problem.families and problem.ratio is None
    is_fixed &= not problem.has_batches
    is_of_use = bool(scenario.spare.survive) or any(c.ttft_s is not None for c in problem.classes)
    return problem.is_min_cost and is_alone and is_fixed and is_of_use


def can_raise_rate(problem: Problem) -> bool:
    """True if moved requests may leave room for more: the rate is maximised under some SLO."""
    is_fixed = not (problem.has_sizes_by_period or problem.scenario.spare.survive or problem.has_batches)
    return not problem.is_min_cost and is_fixed and any(c.ttft_s is not None for c in problem.classes)
