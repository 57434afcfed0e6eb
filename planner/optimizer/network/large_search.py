"""The search of a large network: one close look for the bound, and plans from rough ones, made better until time is up.

See `large` for looks, `descent` for sizes first, and `dive` for thresholds first.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from math import inf
from time import monotonic

import numpy as np

from planner.errors import UndecidedError
from planner.optimizer.network.cells import Cells
from planner.optimizer.network.completion import MOST_NEW, broken_by, idle_use, judged
from planner.optimizer.network.descent import Descent, Offers, descent_of, is_settled_by_period
from planner.optimizer.network.dive import NEAR_SHARES, Dive
from planner.optimizer.network.evaluate import Settled, broken_classes
from planner.optimizer.network.large import Look, answered, asked, closest, narrowed, some
from planner.optimizer.network.loads import Array, NetworkLoads, mix_of
from planner.optimizer.network.model import Segments
from planner.optimizer.network.shared_units import shared_units
from planner.optimizer.network.solution import Pieces, SearchState, is_better
from planner.optimizer.problem import Problem, Situation
from planner.optimizer.solution import Solution

ROUGH_STEP = 4
"""Of all thresholds, those that looks at a large network offer where its plan is sought: every so many-th."""
REACHES = (3, 1)
"""Where lengths are continuous: thresholds around the mean of those that the last look mixes, of the next ones.
Mixed from far ones they make what no single one does."""
MOST_BINDING = 12
"""Periods that thresholds are chosen for together;"""
MOST_IN_BOUND = 6
"""those that its bound counts with."""
BLOCK_STEP = 0.2
"""Of the time limit: the longest that the thresholds of a model may take."""
DIVE_STEP = 0.12
"""Of the time limit: the longest that each step of a dive may take."""
MAX_TIGHTENINGS = 8
NEAR = 2
"""Thresholds before and after those of a plan from which better ones choose,"""
INSIDE = 3
"""those inside of an interval of lengths,"""
ROUND = 0.4
"""and the part of the time for this after which a plan is judged, and these are others."""
FIXED_ROLES = 0.6
"""Of the time limit, where roles may change: what a plan is sought in whose roles do not."""
AT_LAST = 0.05
"""Of the time limit: what is left to judge a plan when it is not made better any more."""


def large_search(state: SearchState, time_limit_s: float, deadline: float) -> bool:
    """Bound and plan of a large network: ways by its peaks, periods that bind by a whole day, and closer looks.

    Returns:
        False where the closest look has no answer: then there is no plan.
    """
    peaks, stop = list(state.active), deadline - AT_LAST * time_limit_s
    try:
        days = _days(state, deadline)
        day = days[-1] if days else None
        binding = [] if day is None else [s for s in day.binding()[:MOST_BINDING] if s not in peaks]
        state.active = peaks + binding[: max(MOST_IN_BOUND - len(peaks), 0)]
        with ThreadPoolExecutor(1) as aside:
            bounding = aside.submit(_bound, state, dict(state.segments), day, deadline)
            if day is not None:
                if state.problem.scenario.routing.role_conversion and is_settled_by_period(state.problem):
                    _begin_with_fixed_roles(state, stop - (1 - FIXED_ROLES) * time_limit_s)
                _descend_from_looks(state, days, stop)
            if not bounding.result():
                return False
        if day is not None and state.best is None:
            _dive(state, sorted(peaks + binding), time_limit_s, deadline)
            descend(state, day.in_use(), day.worth(), None, stop)
    except UndecidedError:
        pass
    return True


def _descend_from_looks(state: SearchState, days: Sequence[Look], stop: float) -> None:
    """Plans near what looks at the whole day use, or near the best that there is."""
    day = days[-1]
    state.segments, state.ways = day.pieces(), state.ways.union(*(look.ways() for look in days))
    begun = None
    if state.best is None:
        # What the closest look leaves out may be what some period needs.
        begun = _begin(state, day, stop) or (_begin(state, days[0], stop) if len(days) > 1 else None)
    descend(state, _sizes(state, day), day.worth(), None if state.best else begun, stop)


def _begin_with_fixed_roles(state: SearchState, stop: float) -> None:
    """A plan whose roles do not change, where they might: sizes for all periods are found sooner than for each."""
    routing = state.problem.scenario.routing.model_copy(update={"role_conversion": False})
    problem = replace(state.problem, scenario=state.problem.scenario.model_copy(update={"routing": routing}))
    loads, sizes = NetworkLoads(problem, is_hopeful=True), {i: [(1, most)] for i, most in enumerate(_most(problem))}
    patience = list(state.patience)
    fixed = SearchState(problem, list(state.active), state.cells, sizes, patience, loads, state.target)
    try:
        if days := _days(fixed, stop):
            _descend_from_looks(fixed, days, stop)
    except UndecidedError:
        pass
    state.ways |= fixed.ways
    if fixed.best is not None and is_better(state, fixed.best):
        state.best = fixed.best


def _most(problem: Problem) -> list[int]:
    return [max(pool.max_instances, 1) for pool in problem.pools]


def _sizes(state: SearchState, day: Look) -> Pieces:
    """Sizes of every pool in one piece: half as many as the best plan has to twice, else all that a look uses."""
    pieces, most = day.in_use(), _most(state.problem)
    for i, n in enumerate(np.max([one.n_instances for one in state.best.settled], axis=0) if state.best else ()):
        pieces[i] = [(max(int(n) // 2, 1), min(2 * int(n), most[i]))] if n else pieces[i]
    return pieces


def _bound(state: SearchState, segments: Segments, day: Look | None, deadline: float) -> bool:
    """Raise the bound to that of the closest look; False where this has no answer."""
    leanings = {} if day is None else day.leanings()
    found = closest(state.optimistic, tuple(state.active), segments, leanings, deadline)
    if found is not None:
        state.bound = max(state.bound, found.bound() + idle_use(state))
    return found is not None


def _days(state: SearchState, deadline: float) -> list[Look]:
    """Looks at the whole day, over ways that one at the peaks uses: a rough one, then closer ones; none without answer.

    Raises:
        UndecidedError: time is up.
    """
    loads, whole_day = state.optimistic, [Situation(p) for p in range(len(state.problem.periods))]
    offers = some(loads, state.active, ROUGH_STEP)
    rough = answered(asked(loads, state.active, state.segments, offers), _left(deadline))
    if rough is None:
        return []
    offers, state.segments = some(loads, whole_day, ROUGH_STEP), rough.pieces()
    is_stated = all(mix_of(state.problem, members).is_discrete for members in state.problem.groups)
    days: list[Look] = []
    for reach in (None, *(() if is_stated else REACHES)):
        offers = offers if reach is None else narrowed(days[-1], reach)
        day = answered(asked(loads, whole_day, state.segments, offers, rough.ways()), _left(deadline))
        if day is None:
            break
        days.append(day)
    return days


def _left(deadline: float) -> float:
    return deadline - monotonic()


def _begin(state: SearchState, day: Look, deadline: float) -> Descent | None:
    """A plan of a network whose periods share units alone, from those of a look at the whole day; None: not begun."""
    if not is_settled_by_period(state.problem):
        return None
    units = shared_units(state.problem).of_look(day)
    dive = Dive(_safe_loads(state, state.port_step), state.ways, day.in_use(), 0.0, deadline)
    descent = descent_of(dive, Offers(day.leanings(), ROUGH_STEP, (0.5,)), day.worth(), units, deadline)
    if not descent.begun(units):
        return None
    descent.dropped()
    _is_kept(state, descent)
    return descent


def descend(
    state: SearchState,
    segments: Segments,
    worth: Array,
    last: Descent | None,
    deadline: float,
    most_in_vain: float = inf,
) -> None:
    """Better plans near the best, at other thresholds near its own, as long as there is time.

    Args:
        state: where the search stands.
        segments: where roles change, sizes of every pool in pieces.
        worth: how much every period matters at first.
        last: units and thresholds to go on from where there is no plan yet.
        deadline: `monotonic()` time to stop at.
        most_in_vain: changes in a row that came to nothing, after which a plan is judged; the search ends with one that
            is no better than the last.
    """
    shared, begun_at, seeds = shared_units(state.problem), monotonic(), count()
    while is_settled_by_period(state.problem) and state.gap > state.target and monotonic() < deadline:
        if last is not None:
            # A promise that is broken asks for more of the same.
            units, settled = last.units, last.settled()
        elif state.best is not None:
            units, settled = shared.of_plan(state.best.settled, state.best.ports), state.best.settled
        else:
            return
        dive = Dive(_safe_loads(state, state.port_step), state.ways, segments, 0.0, deadline)
        offers = Offers(_thresholds(state.problem, settled), NEAR, NEAR_SHARES, INSIDE)
        descent = descent_of(dive, offers, worth, units, deadline, next(seeds))
        if not descent.begun(units):
            return
        descent.dropped()
        judged_at, in_vain = min(monotonic() + ROUND * (deadline - begun_at), deadline), 0
        while last is None and in_vain < most_in_vain and state.gap > state.target and monotonic() < judged_at:
            in_vain += 1
            if descent.changed():
                in_vain = 0
        descent.back()
        before = state.best
        is_news = before is None or descent.cost < before.objective
        last = descent if is_news and not _is_kept(state, descent) else None
        if in_vain >= most_in_vain and state.best is before:
            return


def _thresholds(problem: Problem, settled: Sequence[Settled]) -> dict[tuple[int, int], list[float]]:
    """Threshold of every group that has demand, in every period."""
    flows = ((flow, one.period) for one in settled for flow in one.flows)
    return {(problem.group_of[flow.stream], period): [flow.threshold_tokens] for flow, period in flows}


def _is_kept(state: SearchState, descent: Descent) -> bool:
    """Whether a plan keeps every promise: noted if it is the best that does.

    Else links in use have larger ports from now on, or there is less patience where these are not at fault.
    """
    problem, settled, patience = state.problem, descent.settled(), list(state.patience)
    solution = Solution(settled, descent.ports(), 1.0, descent.cost, state.bound)
    if not broken_by(state, solution, patience):
        return True
    if state.port_step < max((len(link.tiers) for link in problem.links), default=0) - 1:
        all_ports = [[tier.max_ports for tier in link.tiers] for link in problem.links]
        if not broken_classes(problem, settled, all_ports):
            state.port_step += 1
            return False
    state.patience = patience
    return False


def _safe_loads(state: SearchState, port_step: int | None = None) -> NetworkLoads:
    """Limits that a plan of a large network is to keep, with transfers at the bandwidth of a large port.

    Args:
        state: where the search stands.
        port_step: size of the ports that a link in use has at least, in order, where the best plan does not do with
            less; None: the largest.
    """
    sizes = [sorted(tier.capacity_gbps for tier in link.tiers) for link in state.problem.links]
    gbps, patience = tuple(of_link[-1] for of_link in sizes), tuple(state.patience)
    if port_step is None:
        return NetworkLoads(state.problem, patience=patience, gbps=gbps)
    known = state.problem.gbps(state.best.ports) if state.best else [0.0 for _ in sizes]
    steps = [of_link[min(port_step, len(of_link) - 1)] for of_link in sizes]
    least = tuple(min(step, there or step) for step, there in zip(steps, known, strict=True))
    return NetworkLoads(state.problem, patience=patience, gbps=gbps, least_gbps=least)


def _dive(state: SearchState, begun: list[Situation], time_limit_s: float, deadline: float) -> None:
    """A plan of a large network from thresholds that suit every model in whole instances."""
    loads, step_s = state.optimistic, DIVE_STEP * time_limit_s
    choice = asked(loads, begun, state.segments, some(loads, begun, ROUGH_STEP), state.ways)
    seen = answered(choice, _left(deadline))
    first = seen.thresholds(min(BLOCK_STEP * time_limit_s, _left(deadline))) if seen else Cells()
    situations, cells = list(begun), Cells()
    for _ in range(MAX_TIGHTENINGS):
        dive = Dive(_safe_loads(state), state.ways, state.segments, step_s, deadline)
        cells = dive.joined(situations, cells) if cells else dive.allowances(situations, first)
        cells = cells or dive.thresholds(situations)
        if not cells:  # time is up
            return
        found = dive.sizes(situations, cells)
        if found is None:
            return
        _, missing, broken = judged(state, *found, state.patience)
        if not missing and not broken:
            return
        busiest = sorted(missing, key=lambda s: -sum(d.req_per_s[s.period] for d in state.problem.demands))
        situations += busiest[:MOST_NEW]
