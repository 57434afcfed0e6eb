"""The search of a large network by decomposition: a Lagrangian bound, and plans whose periods are solved one by one.

Relaxations of the peak periods and of the whole day say which arcs, periods and thresholds matter (`relaxation`). Plans
come from sizes first, period by period (`ruin_and_recreate`), or from thresholds first (`relax_and_fix`).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from math import inf

import numpy as np

from planner.errors import UndecidedError
from planner.optimizer.network.cells import Array, Cells, mix_of
from planner.optimizer.network.completion import evaluated_plan, tightened_classes, use_outside_program
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.period_operation import PeriodOperation, classes_missing_slo
from planner.optimizer.network.program import Segments
from planner.optimizer.network.relax_and_fix import RelaxAndFix
from planner.optimizer.network.relaxation import (
    Relaxation,
    relaxed_program,
    sampled_thresholds,
    solved_relaxation,
    thresholds_around_mean,
    tightest_relaxation,
)
from planner.optimizer.network.ruin_and_recreate import (
    RuinAndRecreate,
    ThresholdOffers,
    is_separable_by_period,
    ruin_and_recreate,
)
from planner.optimizer.network.search_state import Pieces, SearchState, is_better
from planner.optimizer.network.shared_units import shared_units
from planner.optimizer.problem import Problem, Situation
from planner.optimizer.settings import SETTINGS
from planner.optimizer.solution import Solution
from planner.work_clock import work_s


def decomposed_search(state: SearchState, time_limit_s: float, deadline: float) -> bool:
    """Improve bound and plan of a large network until time is up.

    Args:
        state: the search; its bound, its best plan and its arcs are updated.
        time_limit_s: time of the whole search [s].
        deadline: `work_s()` time to stop at.

    Returns:
        False where the relaxation of the bound has no solution: then there is no plan.

    Source:
        Lagrangian decomposition of the bound (Geoffrion 1974; Fisher 1981, "The Lagrangian relaxation method for
        solving integer programming problems"); for plans see the modules named above.
    """
    peaks, stop = list(state.active), deadline - SETTINGS.last_time_share * time_limit_s
    try:
        if state.problem.scenario.routing.role_conversion and is_separable_by_period(state.problem):
            _start_with_fixed_roles(state, stop - (1 - SETTINGS.fixed_roles_time_share) * time_limit_s)
        days = _day_relaxations(state, deadline)
        day = days[-1] if days else None
        first = [] if day is None else day.binding_periods()[: SETTINGS.most_binding_periods]
        binding = [s for s in first if s not in peaks]
        state.active = peaks + binding[: max(SETTINGS.most_bound_periods - len(peaks), 0)]
        if not _bound(state, day, work_s() + SETTINGS.bound_time_share * _left_s(deadline)):
            return False
        if day is not None:
            _recreate_from_relaxations(state, days, stop)
        if day is not None and state.best is None:
            _relax_and_fix(state, sorted(peaks + binding), time_limit_s, deadline)
            improve_by_ruin_and_recreate(state, day.used_segments(), day.period_prices(), None, stop)
    except UndecidedError:
        pass
    return True


def _recreate_from_relaxations(state: SearchState, days: Sequence[Relaxation], stop: float) -> None:
    """Plans near the optimum of relaxations of the whole day, or near the best plan."""
    day = days[-1]
    state.segments, state.arcs = day.segments(), state.arcs.union(*(relaxation.arcs() for relaxation in days))
    begun = None
    if state.best is None:
        # The last relaxation may leave out what some period needs.
        begun = _first_plan(state, day, stop) or (_first_plan(state, days[0], stop) if len(days) > 1 else None)
    improve_by_ruin_and_recreate(state, _sizes(state, day), day.period_prices(), None if state.best else begun, stop)


def _start_with_fixed_roles(state: SearchState, stop: float) -> None:
    """A plan whose roles do not change: sizes for all periods are found sooner than for each."""
    routing = state.problem.scenario.routing.model_copy(update={"role_conversion": False})
    problem = replace(state.problem, scenario=state.problem.scenario.model_copy(update={"routing": routing}))
    loads, sizes = NetworkLoads(problem, is_optimistic=True), {i: [(1, most)] for i, most in enumerate(_most(problem))}
    slo_factors = list(state.slo_factors)
    fixed = SearchState(problem, list(state.active), state.cells, sizes, slo_factors, loads, state.target)
    try:
        if days := _day_relaxations(fixed, stop):
            _recreate_from_relaxations(fixed, days, stop)
    except UndecidedError:
        pass
    state.arcs |= fixed.arcs
    if fixed.best is not None and is_better(state, fixed.best):
        state.best = fixed.best


def _most(problem: Problem) -> list[int]:
    return [max(pool.max_instances, 1) for pool in problem.pools]


def _sizes(state: SearchState, day: Relaxation) -> Pieces:
    """One segment of sizes per pool: from half to twice the best plan's, or all that the relaxation uses."""
    pieces, most = day.used_segments(), _most(state.problem)
    for i, n in enumerate(np.max([one.n_instances for one in state.best.operations], axis=0) if state.best else ()):
        pieces[i] = [(max(int(n) // 2, 1), min(2 * int(n), most[i]))] if n else pieces[i]
    return pieces


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


def _day_relaxations(state: SearchState, deadline: float) -> list[Relaxation]:
    """Relaxations of the whole day, each with closer thresholds, over the arcs that one of the peaks uses.

    Raises:
        UndecidedError: time is up.
    """
    loads, whole_day = state.optimistic, [Situation(p) for p in range(len(state.problem.periods))]
    offers = sampled_thresholds(loads, state.active, SETTINGS.rough_step)
    rough = solved_relaxation(relaxed_program(loads, state.active, state.segments, offers), _left_s(deadline))
    if rough is None:
        return []
    offers, state.segments = sampled_thresholds(loads, whole_day, SETTINGS.rough_step), rough.segments()
    is_stated = all(mix_of(state.problem, members).is_discrete for members in state.problem.groups)
    days: list[Relaxation] = []
    for reach in (None, *(() if is_stated else SETTINGS.reaches)):
        offers = offers if reach is None else thresholds_around_mean(days[-1], reach)
        day = solved_relaxation(
            relaxed_program(loads, whole_day, state.segments, offers, rough.arcs()), _left_s(deadline)
        )
        if day is None:
            break
        days.append(day)
    return days


def _left_s(deadline: float) -> float:
    return deadline - work_s()


def _first_plan(state: SearchState, day: Relaxation, deadline: float) -> RuinAndRecreate | None:
    """A plan whose periods share sizes alone, from a relaxation of the day; None where none was found."""
    if not is_separable_by_period(state.problem):
        return None
    units = shared_units(state.problem).of_relaxation(day)
    heuristic = RelaxAndFix(_safe_loads(state, state.port_step), state.arcs, day.used_segments(), 0.0, deadline)
    recreate = ruin_and_recreate(
        heuristic,
        ThresholdOffers(day.mixed_thresholds(), SETTINGS.rough_step, (0.5,)),
        day.period_prices(),
        units,
        deadline,
    )
    if not recreate.start_from(units):
        return None
    recreate.drop_idle_units()
    _meets_slo(state, recreate)
    return recreate


def improve_by_ruin_and_recreate(
    state: SearchState,
    segments: Segments,
    period_prices: Array,
    last: RuinAndRecreate | None,
    deadline: float,
    most_in_vain: float = inf,
) -> None:
    """Better plans near the best one, with thresholds near its own, as long as there is time.

    Args:
        state: the search; its best plan is updated.
        segments: where roles change, segments of the sizes of every pool.
        period_prices: weight of every period at first, shape (periods,).
        last: a plan to go on from where no plan is within its SLOs yet; None: the best plan.
        deadline: `work_s()` time to stop at.
        most_in_vain: steps in a row without a gain, after which a plan is judged; the search ends with a plan that is
            no better than the one before.

    Source:
        Ruin and recreate (Schrimpf et al. 2000).
    """
    shared, begun_at, seeds = shared_units(state.problem), work_s(), count()
    while is_separable_by_period(state.problem) and state.gap > state.target and work_s() < deadline:
        if last is not None:
            # A plan that misses an SLO needs more of the same.
            units, operations = last.units, last.operations()
        elif state.best is not None:
            units, operations = shared.of_plan(state.best.operations, state.best.ports), state.best.operations
        else:
            return
        heuristic = RelaxAndFix(_safe_loads(state, state.port_step), state.arcs, segments, 0.0, deadline)
        offers = ThresholdOffers(
            _thresholds(state.problem, operations),
            SETTINGS.near_thresholds,
            SETTINGS.near_shares,
            SETTINGS.inside_thresholds,
        )
        recreate = ruin_and_recreate(heuristic, offers, period_prices, units, deadline, next(seeds))
        if not recreate.start_from(units):
            return
        recreate.drop_idle_units()
        judged_at, in_vain = min(work_s() + SETTINGS.judge_time_share * (deadline - begun_at), deadline), 0
        while last is None and in_vain < most_in_vain and state.gap > state.target and work_s() < judged_at:
            in_vain += 1
            if recreate.step():
                in_vain = 0
        recreate.restore_cheapest()
        before = state.best
        is_news = before is None or recreate.cost < before.objective
        last = recreate if is_news and not _meets_slo(state, recreate) else None
        if in_vain >= most_in_vain and state.best is before:
            return


def _thresholds(problem: Problem, operations: Sequence[PeriodOperation]) -> dict[tuple[int, int], list[float]]:
    """Threshold of every group that has demand, by group and period [tokens]."""
    flows = ((flow, one.period) for one in operations for flow in one.flows)
    return {(problem.group_of[flow.stream], period): [flow.threshold_tokens] for flow, period in flows}


def _meets_slo(state: SearchState, recreate: RuinAndRecreate) -> bool:
    """Whether a plan is within every SLO: noted if it is the best that is.

    Else links in use get larger ports from now on, or a shorter TTFT is planned for where ports are not the reason.
    """
    problem, operations, slo_factors = state.problem, recreate.operations(), list(state.slo_factors)
    solution = Solution(operations, recreate.ports(), 1.0, recreate.cost, state.bound)
    if not tightened_classes(state, solution, slo_factors):
        return True
    if state.port_step < max((len(link.tiers) for link in problem.links), default=0) - 1:
        all_ports = [[tier.max_ports for tier in link.tiers] for link in problem.links]
        if not classes_missing_slo(problem, operations, all_ports):
            state.port_step += 1
            return False
    state.slo_factors = slo_factors
    return False


def _safe_loads(state: SearchState, port_step: int | None = None) -> NetworkLoads:
    """Coefficients of plans of a large network, with transfers at the bandwidth of a large port.

    Args:
        state: the search.
        port_step: least size, by index, of the ports of a link in use, unless the best plan does with less; None: the
            largest.
    """
    sizes = [sorted(tier.capacity_gbps for tier in link.tiers) for link in state.problem.links]
    gbps, slo_factors = tuple(of_link[-1] for of_link in sizes), tuple(state.slo_factors)
    if port_step is None:
        return NetworkLoads(state.problem, slo_factors=slo_factors, gbps=gbps)
    known = state.problem.gbps(state.best.ports) if state.best else [0.0 for _ in sizes]
    steps = [of_link[min(port_step, len(of_link) - 1)] for of_link in sizes]
    least = tuple(min(step, there or step) for step, there in zip(steps, known, strict=True))
    return NetworkLoads(state.problem, slo_factors=slo_factors, gbps=gbps, least_gbps=least)


def _relax_and_fix(state: SearchState, begun: list[Situation], time_limit_s: float, deadline: float) -> None:
    """A plan of a large network from thresholds that suit every served model in whole instances."""
    loads, step_s = state.optimistic, SETTINGS.fix_time_share * time_limit_s
    choice = relaxed_program(
        loads, begun, state.segments, sampled_thresholds(loads, begun, SETTINGS.rough_step), state.arcs
    )
    seen = solved_relaxation(choice, _left_s(deadline))
    first = (
        seen.integer_thresholds(min(SETTINGS.block_time_share * time_limit_s, _left_s(deadline))) if seen else Cells()
    )
    situations, cells = list(begun), Cells()
    for _ in range(SETTINGS.max_tightenings):
        heuristic = RelaxAndFix(_safe_loads(state), state.arcs, state.segments, step_s, deadline)
        cells = heuristic.joined(situations, cells) if cells else heuristic.allowances(situations, first)
        cells = cells or heuristic.thresholds(situations)
        if not cells:  # time is up
            return
        found = heuristic.sizes(situations, cells)
        if found is None:
            return
        _, missing, broken = evaluated_plan(state, *found, state.slo_factors)
        if not missing and not broken:
            return
        busiest = sorted(missing, key=lambda s: -sum(d.req_per_s[s.period] for d in state.problem.demands))
        situations += busiest[: SETTINGS.most_new_losses]
