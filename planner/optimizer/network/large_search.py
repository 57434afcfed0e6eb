"""The search of a large network: relaxations of the whole day, and whole sizes at the thresholds that these mix.

1. A relaxation of the peaks says which arcs are used, relaxations of the whole day which thresholds matter and which
   periods bind (`relaxation`).
2. A relaxation of the peaks and of some binding periods, with every threshold, bounds every plan.
3. The conservative program of the peaks and the binding periods, with the mean of those thresholds in each, gives whole
   sizes. Periods and losses that these do not cover join it.
4. The best model of waits judges the plan. The next program is laid around its sizes, where limits of pools are
   closest, with shorter SLOs or larger ports where it missed an SLO. Once that makes no plan better, thresholds are
   free as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from planner.errors import UndecidedError
from planner.optimizer.network.cells import Cells, mix_of
from planner.optimizer.network.completion import evaluated_plan, use_outside_program
from planner.optimizer.network.formulation import build
from planner.optimizer.network.indices import PeriodArc
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.period_operation import classes_missing_slo
from planner.optimizer.network.program import MixedIntegerProgram, ProgramSpec
from planner.optimizer.network.program_solution import chosen_cells, largest_sizes, start_values
from planner.optimizer.network.refinement import finest_cells, first_segments, points_at, segments_around
from planner.optimizer.network.relaxation import (
    Relaxation,
    relaxed_program,
    sampled_thresholds,
    solved_relaxation,
    thresholds_around_mean,
    tightest_relaxation,
)
from planner.optimizer.network.rows import ProgramSolution
from planner.optimizer.network.search_state import SearchState, is_better
from planner.optimizer.problem import Problem, Situation
from planner.optimizer.settings import SETTINGS
from planner.optimizer.solution import Solution
from planner.work_clock import work_s


def large_search(state: SearchState, time_limit_s: float, deadline: float) -> bool:
    """Improve bound and plan of a large network until time is up.

    Args:
        state: the search; its bound, its best plan and its arcs are updated.
        time_limit_s: time of the whole search [s].
        deadline: `work_s()` time to stop at.

    Returns:
        False where the relaxation of the bound has no solution: then there is no plan.

    Source:
        Lagrangian decomposition of the bound (Geoffrion 1974; Fisher 1981, "The Lagrangian relaxation method for
        solving integer programming problems"); periods join as in column-and-constraint generation (Zeng and Zhao
        2013).
    """
    peaks, stop = list(state.active), deadline - SETTINGS.last_time_share * time_limit_s
    step_s = SETTINGS.step_time_share * time_limit_s
    try:
        if state.problem.scenario.routing.role_conversion:
            _start_with_fixed_roles(state, step_s, stop - (1 - SETTINGS.fixed_roles_time_share) * time_limit_s)
        day = _day_relaxation(state, deadline)
        others = [] if day is None else [s for s in day.binding_situations() if s not in peaks]
        state.active = peaks + others[: max(SETTINGS.most_bound_periods - len(peaks), 0)]
        if not _bound(state, day, work_s() + SETTINGS.bound_time_share * _left_s(deadline)):
            return False
        if day is not None:
            state.active = peaks + others
            _search_plans(state, day, step_s, stop)
    except UndecidedError:
        pass
    return True


def _start_with_fixed_roles(state: SearchState, step_s: float, stop: float) -> None:
    """A plan whose roles do not change: sizes for all periods are found sooner than for each."""
    routing = state.problem.scenario.routing.model_copy(update={"role_conversion": False})
    problem = replace(state.problem, scenario=state.problem.scenario.model_copy(update={"routing": routing}))
    loads, slo_factors = NetworkLoads(problem, is_optimistic=True), list(state.slo_factors)
    segments, peaks = first_segments(problem), list(state.active)
    fixed = SearchState(problem, peaks, state.cells, segments, slo_factors, loads, state.target, is_large=True)
    try:
        day = _day_relaxation(fixed, stop)
        if day is not None:
            fixed.active += [s for s in day.binding_situations() if s not in peaks]
            _search_plans(fixed, day, step_s, stop)
    except UndecidedError:
        pass
    state.arcs |= fixed.arcs
    if fixed.best is not None and is_better(state, fixed.best):
        state.best = fixed.best


def _bound(state: SearchState, day: Relaxation | None, deadline: float) -> bool:
    """Raise the bound to that of the tightest relaxation that is solved in time; False where it has no solution."""
    mixed_thresholds = {} if day is None else day.mixed_thresholds()
    try:
        found = tightest_relaxation(state.optimistic, tuple(state.active), state.segments, mixed_thresholds, deadline)
    except UndecidedError:
        return True
    if found is not None:
        state.bound = max(state.bound, found.lagrangian_bound() + use_outside_program(state))
    return found is not None


def _day_relaxation(state: SearchState, deadline: float) -> Relaxation | None:
    """The last of the relaxations of the whole day, each with closer thresholds, over the arcs that the peaks use.

    Raises:
        UndecidedError: time is up.
    """
    loads, whole_day = state.optimistic, [Situation(p) for p in range(len(state.problem.periods))]
    offers = sampled_thresholds(loads, state.active, SETTINGS.rough_step)
    rough = solved_relaxation(relaxed_program(loads, state.active, state.segments, offers), _left_s(deadline))
    if rough is None:
        return None
    is_stated = all(mix_of(state.problem, members).is_discrete for members in state.problem.groups)
    offers, day = sampled_thresholds(loads, whole_day, SETTINGS.rough_step), None
    state.arcs = frozenset()
    for reach in (None, *(() if is_stated else SETTINGS.reaches)):
        offers = offers if reach is None or day is None else thresholds_around_mean(day, reach)
        program = relaxed_program(loads, whole_day, rough.segments(), offers, rough.arcs())
        closer = solved_relaxation(program, _left_s(deadline))
        if closer is None:
            break
        day = closer
        state.arcs |= day.arcs()
    return day


def _left_s(deadline: float) -> float:
    return deadline - work_s()


def _search_plans(state: SearchState, day: Relaxation, step_s: float, stop: float) -> None:
    """Plans near the best one, or the optimum of a relaxation of the day, then near the last, until none is better."""
    thresholds = {at: cell.high_tokens for at, (cell,) in thresholds_around_mean(day, 0).items()}
    plan, is_free = state.best, False
    if plan is None:
        sizes = largest_sizes(day.program, day.solution)
    else:
        sizes = np.max([one.n_instances for one in plan.operations], axis=0).tolist()
    if state.problem.has_sizes_by_period:  # periods have no sizes in common that one left out could be solved at
        state.active = list(day.program.spec.situations)
    while state.gap > state.target and work_s() < stop:
        program = _conservative(state, thresholds, sizes, is_free)
        start = {} if plan is None else start_values(program, plan)
        try:
            found = program.rows.solved(min(step_s, _left_s(stop)), SETTINGS.sizes_gap, start)
        except UndecidedError:
            step_s *= SETTINGS.longer_step
            continue
        if found is None and is_free:
            return
        if found is None:
            is_free = True
            continue
        before = state.best
        plan, is_complete = _judged(state, program, found)
        sizes = largest_sizes(program, found)
        thresholds |= {at: cell.high_tokens for at, (cell,) in chosen_cells(program, found.values).items()}
        is_stalled = is_complete and state.best is before
        if is_stalled and is_free:
            return
        is_free = is_stalled


def _conservative(
    state: SearchState, thresholds: Mapping[tuple[int, int], float], sizes: Sequence[int], is_free: bool
) -> MixedIntegerProgram:
    """The conservative program of the active situations around some sizes.

    Args:
        thresholds: threshold of every group and period [tokens].
        sizes: instances of every pool [count].
        is_free: whether the neighbours of these thresholds may be chosen instead.
    """
    problem, loads, situations = state.problem, _loads(state), tuple(state.active)
    arcs = frozenset(PeriodArc(q, s.period, arc) for q, arc in state.arcs for s in situations)
    points: Cells = {}
    for g, members in enumerate(problem.groups):
        ends = _thresholds(problem, g)
        for p in dict.fromkeys(s.period for s in situations):
            at, reach = int(np.searchsorted(ends, thresholds[g, p])), SETTINGS.near_plan if is_free else 0
            near = ends[max(at - reach, 0) : at + reach + 1]
            points[g, p] = points_at(loads, members, near) or points_at(loads, members, ends)
    n_spare = int("instance" in problem.scenario.spare.survive)
    near_sizes = {i: n and n + n_spare for i, n in enumerate(sizes)}
    segments = {i: segments_around(pieces, near_sizes[i]) for i, pieces in first_segments(problem).items()}
    spec = ProgramSpec(loads, situations, points, segments, True, arcs, near_sizes=near_sizes, n_spare=n_spare)
    return build(spec)


def _thresholds(problem: Problem, group: int) -> list[float]:
    """Thresholds of a group that make a difference, in order; some of each interval where lengths are continuous."""
    ends: list[float] = []
    for cell in finest_cells(problem, problem.groups[group]):
        if cell.low_tokens < cell.high_tokens:
            ends += np.linspace(cell.low_tokens, cell.high_tokens, SETTINGS.inside_thresholds + 2)[1:-1].tolist()
        ends.append(cell.high_tokens)
    return ends


def _judged(state: SearchState, program: MixedIntegerProgram, found: ProgramSolution) -> tuple[Solution, bool]:
    """The plan of a solution, and whether it covers everything within every SLO: noted then if it is the best.

    Else the next has shorter SLOs, larger ports where these are the reason, or more situations.
    """
    slo_factors, problem = list(state.slo_factors), state.problem
    plan, missing, broken = evaluated_plan(state, program, found, slo_factors)
    busiest = sorted(missing, key=lambda s: -sum(d.req_per_s[s.period] for d in problem.demands))
    state.active += busiest[: SETTINGS.most_new_losses]
    all_ports = [[tier.max_ports for tier in link.tiers] for link in problem.links]
    has_larger = state.port_step < max((len(link.tiers) for link in problem.links), default=0) - 1
    if broken and has_larger and not classes_missing_slo(problem, plan.operations, all_ports):
        state.port_step += 1
    else:
        state.slo_factors = slo_factors
    return plan, not missing and not broken


def _loads(state: SearchState) -> NetworkLoads:
    """Coefficients of plans: transfers at the bandwidth of the largest port, links in use with one of the least size
    that is tried, or with what the best plan does with."""
    sizes = [sorted(tier.capacity_gbps for tier in link.tiers) for link in state.problem.links]
    known = state.problem.gbps(state.best.ports) if state.best else [0.0 for _ in sizes]
    steps = [of_link[min(state.port_step, len(of_link) - 1)] for of_link in sizes]
    least = tuple(min(step, there or step) for step, there in zip(steps, known, strict=True))
    gbps, slo_factors = tuple(of_link[-1] for of_link in sizes), tuple(state.slo_factors)
    return NetworkLoads(state.problem, slo_factors=slo_factors, gbps=gbps, least_gbps=least)
