"""From the solution of a program for some periods to a plan for all: what is not covered, and which SLOs are missed."""

from collections.abc import Mapping, Sequence

import numpy as np

from planner.errors import UndecidedError
from planner.optimizer.network.batches import pool_batches
from planner.optimizer.network.cells import Cell
from planner.optimizer.network.cost import least_use_usd_per_hour, plan_cost
from planner.optimizer.network.formulation import build
from planner.optimizer.network.indices import PeriodArc
from planner.optimizer.network.judged_moves import improved
from planner.optimizer.network.loads import BatchLimit
from planner.optimizer.network.period_operation import PeriodOperation, classes_missing_slo, overfull_classes
from planner.optimizer.network.program import MixedIntegerProgram, ProgramSpec
from planner.optimizer.network.program_solution import operation_of
from planner.optimizer.network.rows import ProgramSolution
from planner.optimizer.network.rows_of_passes import seconds_by_facet
from planner.optimizer.network.search_state import SearchState, is_better
from planner.optimizer.problem import Problem, Situation
from planner.optimizer.settings import SETTINGS
from planner.optimizer.sized import Sizing
from planner.optimizer.solution import Solution
from planner.ties import first_largest
from planner.work_clock import work_s

TINY = 1e-7


def evaluated_plan(
    state: SearchState, safe: MixedIntegerProgram, plan: ProgramSolution, slo_factors: list[float]
) -> tuple[Solution, list[Situation], list[int]]:
    """The plan that a solution stands for, with what it does not cover and the SLOs that it misses.

    Args:
        state: the search; it notes the plan if it is the best that covers everything and misses no SLO.
        slo_factors: factor on the TTFT of the SLO of every class, shape (classes,); lowered for those that are missed.

    Returns:
        The plan, the periods and losses that its sizes do not cover, and the classes that miss their SLO.
    """
    solution, missing = _completed(state, safe, plan)
    _learn_batches(state, safe, plan, solution)
    return solution, missing, [] if missing else tightened_classes(state, solution, slo_factors)


def tightened_classes(state: SearchState, solution: Solution, slo_factors: list[float]) -> list[int]:
    """Classes that miss their SLO in a plan; the next plans are sought with a shorter TTFT for them.

    Args:
        state: the search; it notes the plan if it is the best and misses no SLO.
        slo_factors: factor on the TTFT of the SLO of every class, shape (classes,); lowered for those that are missed.
    """
    if state.problem.has_options:
        better = improved(state.problem, solution, state.best, work_s() + SETTINGS.resolve_limit_s)
        state.best = better or state.best
    broken = classes_missing_slo(state.problem, solution.operations, solution.ports)
    if not broken and is_better(state, solution):
        state.best = solution
    for c in broken:
        slo_factors[c] *= SETTINGS.slo_tightening
    _leave_room(state, solution, broken)
    return broken


def _learn_batches(state: SearchState, safe: MixedIntegerProgram, plan: ProgramSolution, solution: Solution) -> None:
    """Note how many instances the batches of a plan keep busy, over what its program counted with."""
    by_facet = seconds_by_facet(safe, plan.values) if state.problem.has_batches else {}
    operations = {one.period: one for one in solution.operations}
    for (i, s), seconds in by_facet.items():
        period, loss = safe.spec.situations[s]
        found = pool_batches(state.problem, operations[period]).get(i) if period in operations else None
        if found is not None and loss is None:
            facet = first_largest(np.array(seconds))
            most_busy = state.most_busy.get(i, 1.0)
            state.batches[i, period] = BatchLimit(facet, found.busy / seconds[facet], most_busy)


def _leave_room(state: SearchState, solution: Solution, broken: Sequence[int]) -> None:
    """Let colocated pools of classes that miss their SLO be less busy in the next plans, if none is overfull."""
    problem = state.problem
    late = [c for c in broken if problem.classes[c].ttft_s is not None]
    pools = {
        d.pool
        for one in solution.operations
        for d in one.decodings
        if problem.streams[d.stream].request_class in late and problem.pools[d.pool].batching is not None
    }
    if not pools or any(overfull_classes(problem, one) for one in solution.operations):
        return
    for i in pools:
        state.most_busy[i] = state.most_busy.get(i, 1.0) * SETTINGS.batch_tightening
    for (i, p), limit in state.batches.items():
        state.batches[i, p] = limit._replace(most_busy=state.most_busy.get(i, 1.0))


def at_the_best(state: SearchState) -> dict[tuple[int, int], BatchLimit]:
    """Limits of colocated pools whose batches are as fast as passes can be: a plan with them shows how fast."""
    return {
        (i, s.period): BatchLimit(most_busy=state.most_busy.get(i, 1.0))
        for i, pool in enumerate(state.problem.pools)
        for s in state.active
        if pool.batching is not None
    }


def _completed(
    state: SearchState, safe: MixedIntegerProgram, plan: ProgramSolution
) -> tuple[Solution, list[Situation]]:
    """The plan in every period, and the situations that its sizes do not cover."""
    problem = state.problem
    ports = tuple(tuple(round(plan.values[m]) for m in row) for row in safe.ports)
    operations = {s.period: operation_of(safe, plan, i) for i, s in enumerate(safe.spec.situations) if s.loss is None}
    scale = float(plan.values[safe.scale])
    missing, judged = list[Situation](), sorted(operations)
    for p in range(len(problem.periods)):
        if p not in operations:
            copied = _copied(problem, operations, p)  # which survives what the other period does
            found = copied or _resolved(state, safe, plan, Situation(p))
            judged += [] if copied else [p]
            if found is None:
                missing.append(Situation(p))
            else:
                operations[p] = found
    if not missing:
        missing = _unsurvived(state, safe, plan, judged)
    everything = tuple(operations[p] for p in sorted(operations))
    objective = scale if not problem.is_min_cost else plan_cost(problem, everything, ports)
    return Solution(everything, ports, scale, objective, state.sign * state.bound), missing


def _copied(problem: Problem, known: Mapping[int, PeriodOperation], period: int) -> PeriodOperation | None:
    """The flows of a period that asks for at least as much of every stream."""
    if problem.has_sizes_by_period:
        return None
    for one in known.values():
        ratios = [0.0] * len(problem.streams)
        for demand in problem.demands:
            now, then = demand.req_per_s[period], demand.req_per_s[one.period]
            for q in demand.streams:
                ratios[q] = now / then if then > 0 else (0.0 if now == 0 else np.inf)
        if max(ratios) <= 1:
            return one.scaled_to(period, ratios)
    return None


def _resolved(
    state: SearchState, safe: MixedIntegerProgram, plan: ProgramSolution, situation: Situation
) -> PeriodOperation | None:
    """A situation solved by itself at the sizes of the plan; None where they do not suffice."""
    problem, known = state.problem, {s.period for s in safe.spec.situations}
    if problem.has_sizes_by_period:
        return None
    offers = {
        (g, situation.period): list(dict.fromkeys(c for p in known for c in _chosen_points(safe, plan, g, p)))
        for g in range(len(problem.groups))
    }
    n = operation_of(safe, plan, 0).n_instances
    ports = tuple(tuple(round(plan.values[m]) for m in row) for row in safe.ports)
    scale = None if problem.is_min_cost else float(plan.values[safe.scale]) * (1 - TINY)
    segments = {i: [(max(size, 1), max(size, 1))] for i, size in enumerate(n)}
    arcs = frozenset(PeriodArc(q, situation.period, arc) for q, arc in state.arcs) if state.is_large else None
    n_spare = safe.spec.n_spare if situation.loss is None else 0
    spec = ProgramSpec(
        safe.spec.loads, (situation,), offers, segments, True, arcs, scale, Sizing(n, ports), n_spare=n_spare
    )
    program = build(spec)
    try:
        found = program.rows.solved(SETTINGS.resolve_limit_s, 0.01)
    except UndecidedError:
        return None
    return None if found is None else operation_of(program, found, 0)


def _chosen_points(safe: MixedIntegerProgram, plan: ProgramSolution, group: int, period: int) -> list[Cell]:
    cells = safe.spec.cells[group, period]
    return [
        cells[k]
        for (g, s, k), y in safe.cell_choices.items()
        if g == group and safe.spec.situations[s].period == period and plan.values[y] > 0.5
    ]


def _unsurvived(
    state: SearchState, safe: MixedIntegerProgram, plan: ProgramSolution, periods: Sequence[int]
) -> list[Situation]:
    """A few losses that the plan does not survive in some periods."""
    missing = []
    for p in periods:
        for loss in state.problem.losses():
            if loss.kind == "instance" and safe.spec.n_spare:
                continue  # the same flows go on
            situation = Situation(p, loss)
            if situation not in state.active and _resolved(state, safe, plan, situation) is None:
                missing.append(situation)
                if len(missing) == SETTINGS.most_new_losses:
                    return missing
    return missing


def use_outside_program(state: SearchState) -> float:
    """Least that use costs in the periods that the program leaves out [USD/h].

    Equation:
        sum over those periods of w_p min over pools of the use of every request, w_p the fraction of the time

    Args:
        state: the search.
    """
    if not state.problem.is_min_cost or not state.problem.is_priced:
        return 0.0
    active = {s.period for s in state.active}
    others = [p for p in range(len(state.problem.periods)) if p not in active]
    return sum(state.problem.weights[p] * least_use_usd_per_hour(state.problem, p) for p in others)
