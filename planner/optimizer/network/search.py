"""The search: bounds over cells of thresholds, plans at points inside them, and both closing in.

1. The model with the optimistic limits of every cell, in the periods that matter, bounds every plan.
2. Points of the cells it chose, with the limits of the strictest user, give a plan; queues are then evaluated exactly.
3. What the plan does not cover yet, a period or a loss, joins the model; the chosen cells, and the sizes around the
   chosen ones, are cut finer; until plan and bound meet.

Large networks take another way, see `large` and `dive`: one close look for the bound, and thresholds before sizes.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import monotonic
from typing import NamedTuple

import numpy as np

from planner.errors import UndecidedError
from planner.optimizer.network.cells import (
    Cells,
    around,
    first_cells,
    first_cells_of,
    largest_sizes,
    points_of,
    settled_of,
    split,
    used_arcs,
)
from planner.optimizer.network.cost import least_use_usd_per_hour, use_usd_per_hour
from planner.optimizer.network.descent import Descent, Offers, begun_from, descent_of, is_settled_by_period, units_of
from planner.optimizer.network.dive import NEAR_SHARES, Dive
from planner.optimizer.network.evaluate import Settled, broken_classes
from planner.optimizer.network.formulation import build
from planner.optimizer.network.large import Look, Way, answered, asked, every
from planner.optimizer.network.loads import LINK_BUSY, OPTIMISTIC_WAITS, Cell, NetworkLoads, mix_of
from planner.optimizer.network.model import Model, Question, segments_of
from planner.optimizer.network.problem import Arc, NetworkProblem, Situation
from planner.optimizer.network.rows import Found

GAP_TARGET = 0.01
"""Relative distance of plan and bound at which a network counts as solved."""
BOUND_GAP = 0.25
"""Of the target: what the solver may leave open in a bound."""
PLAN_GAP = 0.15
"""Of the target: what it may leave open in a plan."""
MAX_ROUNDS = 30
SOME = 0.02
"""Of a choice between cells that a relaxed answer must put on one for it to count as chosen."""
PATIENCE = 0.97
"""Factor on the promised TTFT of a class whose exact wait is longer than the closed form's."""
QUIET_LINK = 0.2
"""Mean use of links at which transfers are hardly slowed down."""
MAX_TIGHTENINGS = 8
LARGE = 8_000
"""Columns from which on a model is not solved with whole numbers at once."""
ROUGH_STEP = 4
"""Of all thresholds, those that looks at a large network offer where its plan is sought: every so many-th."""
MOST_BINDING = 12
"""Periods that thresholds are chosen for together;"""
MOST_IN_BOUND = 6
"""those that its bound counts with."""
BLOCK_STEP = 0.2
"""Of the time limit: the longest that the thresholds of a model may take."""
DIVE_STEP = 0.12
"""Of the time limit: the longest that each step of a dive may take."""
NEAR = 2
"""Thresholds before and after those of a plan from which better ones choose,"""
N_CHANGES = 100
"""and the changes after which these are others."""
DIVE = 0.55
"""Of the time limit: what a dive, and a descent from what it finds, need where there is a plan already."""
AT_LAST = 0.05
"""Of the time limit: what is left to judge a plan when it is not made better any more."""
RESOLVE_LIMIT_S = 120.0
PLAN_LIMIT_S = 120.0
MOST_NEW = 4
"""Losses that join the model in one round."""
TINY = 1e-7

Pieces = dict[int, list[tuple[int, int]]]


@dataclass(frozen=True)
class NetworkSolution:
    """A plan for every period, and how good it is proven to be."""

    settled: tuple[Settled, ...]
    """What happens in every period."""
    ports: tuple[tuple[int, ...], ...]
    scale: float
    """Factor on the demand that is served."""
    objective: float
    """USD per hour, or accelerators where a price is missing, or the scale."""
    bound: float

    @property
    def gap(self) -> float:
        """Relative distance of objective and bound."""
        return abs(self.bound - self.objective) / max(abs(self.objective), 1e-12)


class Limits(NamedTuple):
    """What a plan is sought with."""

    gbps: tuple[float, ...]
    """Bandwidth of every link that transfers count with [Gbps]."""
    link_busy: float = LINK_BUSY
    """Mean use of links at the most."""
    wait_factor: float = 1.0
    """Factor on the waits of the closed form."""


@dataclass
class _State:
    problem: NetworkProblem
    active: list[Situation]
    cells: Cells
    segments: Pieces
    patience: list[float]
    optimistic: NetworkLoads
    """What bounds count with."""
    target: float
    """Relative distance of plan and bound at which to stop."""
    best: NetworkSolution | None = None
    bound: float = -np.inf
    is_large: bool = False
    ways: frozenset[Way] = frozenset()
    """What relaxed answers have used in any period: where plans of a large network are sought."""

    @property
    def gap(self) -> float:
        if self.best is None:
            return np.inf
        return (self.best.objective * self.sign - self.bound) / max(abs(self.best.objective), 1e-12)

    @property
    def sign(self) -> float:
        """Objectives are kept low inside: a scale counts negative."""
        return 1.0 if self.problem.is_min_cost else -1.0


def network_search(
    problem: NetworkProblem, time_limit_s: float = 60.0, gap: float = GAP_TARGET
) -> NetworkSolution | None:
    """The best plan of a network and its bound, or None when no plan exists.

    Args:
        problem: the resolved scenario.
        time_limit_s: seconds after which the best plan so far is returned with its gap.
        gap: relative distance of plan and bound at which to stop.

    Raises:
        UndecidedError: when time is up without a plan.

    Valid:
        The bound holds for all plans that keep every promise pool by pool, as `loads` says, in the closed form of
        waits; the plan keeps it in the best model of waits.

    Source:
        Branch and bound (Land and Doig 1960) over thresholds; row generation for periods and losses (Benders 1962).
    """
    deadline = monotonic() + time_limit_s
    state = _State(
        problem,
        peak_situations(problem),
        first_cells(problem),
        {i: [(1, max(pool.max_instances, 1))] for i, pool in enumerate(problem.pools)},
        [1.0] * len(problem.classes),
        NetworkLoads(problem, OPTIMISTIC_WAITS),
        gap,
    )
    relaxed = True
    for _ in range(MAX_ROUNDS):
        try:
            model, found = _bound(state, gap, deadline, relaxed)
        except UndecidedError:
            break
        if found is None:
            return None
        risen = found.bound + _idle_use(state) - state.bound
        state.bound = max(state.bound, found.bound + _idle_use(state))
        state.is_large |= len(model.rows.costs) > LARGE
        if state.is_large:
            if not _large(state, time_limit_s, deadline) and state.best is None:
                return None
            break
        was_relaxed, relaxed = relaxed, relaxed and risen > BOUND_GAP * gap * abs(state.bound)
        if not relaxed and state.gap > gap:
            _improve(state, model, found, gap, deadline)
        if state.gap <= gap or monotonic() > deadline:
            break
        if not _refine(state, model, found) and not relaxed and not was_relaxed:
            break
    if state.best is None:
        raise UndecidedError("no plan was found, and none is excluded either; allow more time or shrink the scenario")
    return replace(state.best, bound=state.sign * min(state.bound, state.sign * state.best.objective))


def _bound(state: _State, gap: float, deadline: float, relaxed: bool) -> tuple[Model, Found | None]:
    model = build(Question(state.optimistic, tuple(state.active), state.cells, state.segments))
    start = {} if state.best is None or relaxed else _start(model, state.best)
    found = model.rows.solved(deadline - monotonic(), BOUND_GAP * gap, start, () if relaxed else None)
    if found is not None:
        state.ways |= {(q, arc) for q, _, arc in used_arcs(model, found)}
    return model, found


def _start(model: Model, best: NetworkSolution) -> dict[int, float]:
    """The integers of a plan as the model has them."""
    start: dict[int, float] = {}
    settled = {one.period: one for one in best.settled}
    for (i, h), columns in model.n.items():
        n = settled[h if len(best.settled) > 1 and h else best.settled[0].period].n_instances[i]
        for (j, column), (low, high) in zip(columns.items(), segments_of(model, i), strict=True):
            start[column], start[model.z[i, h][j]] = (float(n), 1.0) if low <= n <= high else (0.0, 0.0)
    for row, ports in zip(model.ports, best.ports, strict=True):
        start |= {column: float(m) for column, m in zip(row, ports, strict=True)}
    for (g, s, k), y in model.y.items():
        period = model.question.situations[s].period
        members = model.problem.groups[g]
        used = [f for f in settled[period].flows if f.stream in members]
        cells = model.question.cells[g, period]
        held = [
            c
            for c, cell in enumerate(cells)
            if used and cell.low_tokens <= used[0].threshold_tokens <= cell.high_tokens
        ]
        start[y] = float(k == (held[0] if held else 0))
    return start


def _improve(state: _State, model: Model, found: Found, gap: float, deadline: float) -> None:
    """Plans from points of the chosen cells, with limits from safe to hopeful: the last word is that of the queues."""
    chosen = [
        sum(round(found.values[m]) * tier.capacity_gbps for m, tier in zip(row, link.tiers, strict=True))
        for row, link in zip(model.ports, state.problem.links, strict=True)
    ]
    sizes = [[tier.capacity_gbps for tier in link.tiers] for link in state.problem.links]
    frugal = tuple(max(gbps, min(of_link)) for gbps, of_link in zip(chosen, sizes, strict=True))
    ample = tuple(max(gbps, max(of_link)) for gbps, of_link in zip(chosen, sizes, strict=True))
    tries = [Limits(ample), Limits(ample, QUIET_LINK), Limits(frugal), Limits(ample, QUIET_LINK, OPTIMISTIC_WAITS)]
    for limits in dict.fromkeys(tries):
        # A situation that joined has no cells chosen yet: the next bound comes first.
        if state.gap > gap and len(state.active) == len(model.question.situations):
            _try_limits(state, model, found, gap, deadline, limits)


def _large(state: _State, time_limit_s: float, deadline: float) -> bool:
    """Bound and plan of a large network: ways by its peaks, periods that bind by a whole day, and closer looks.

    Returns:
        False where the closest look has no answer: then there is no plan.
    """
    loads, peaks = state.optimistic, list(state.active)
    try:
        day = _day(state, deadline)
        binding = [] if day is None else [s for s in day.binding()[:MOST_BINDING] if s not in peaks]
        state.active = peaks + binding[: max(MOST_IN_BOUND - len(peaks), 0)]
        close = asked(loads, state.active, state.segments, every(loads, state.active))
        with ThreadPoolExecutor(1) as aside:
            bounding = aside.submit(answered, close, _left(deadline))
            if day is not None:
                state.segments, state.ways = day.pieces(), day.ways()
                _begin(state, day, deadline)
            bounded = bounding.result()
        if bounded is None:
            return False
        state.bound = max(state.bound, bounded.bound() + _idle_use(state))
        if day is not None and state.gap > state.target:
            if state.best is None or _left(deadline) > DIVE * time_limit_s:
                _dive(state, sorted(peaks + binding), time_limit_s, deadline)
            _descend(state, day, deadline - AT_LAST * time_limit_s)
    except UndecidedError:
        pass
    return True


def _day(state: _State, deadline: float) -> Look | None:
    """A rough look at the whole day, over ways that one at the peaks uses."""
    loads, whole_day = state.optimistic, [Situation(p) for p in range(len(state.problem.periods))]
    offers = every(loads, state.active, ROUGH_STEP)
    rough = answered(asked(loads, state.active, state.segments, offers), _left(deadline))
    if rough is None:
        return None
    offers, state.segments = every(loads, whole_day, ROUGH_STEP), rough.pieces()
    return answered(asked(loads, whole_day, state.segments, offers, rough.ways()), _left(deadline))


def _left(deadline: float) -> float:
    return deadline - monotonic()


def _begin(state: _State, day: Look, deadline: float) -> None:
    """A plan of a network whose periods share sizes alone, from those of a look at the whole day."""
    if is_settled_by_period(state.problem):
        units, dive = begun_from(day), Dive(_safe_loads(state), state.ways, {}, 0.0, deadline)
        descent = descent_of(dive, Offers(day.leanings(), ROUGH_STEP, (0.5,)), day.worth(), units, deadline)
        if descent.begun(units):
            descent.dropped()
            _is_kept(state, descent)


def _descend(state: _State, day: Look, deadline: float) -> None:
    """Better plans near the best, at other thresholds near its own, as long as there is time."""
    units = None
    while is_settled_by_period(state.problem) and state.gap > state.target and monotonic() < deadline:
        if state.best is None:
            return
        units = units_of(state.best.settled[0], state.best.ports) if units is None else units
        dive = Dive(_safe_loads(state), state.ways, {}, 0.0, deadline)
        offers = Offers(_thresholds(state.problem, state.best), NEAR, NEAR_SHARES)
        descent = descent_of(dive, offers, day.worth(), units, deadline)
        if not descent.begun(units):
            return
        descent.dropped()
        for _ in range(N_CHANGES):
            if state.gap > state.target and descent.changed():
                descent.dropped()
        # A promise that is broken asks for more of the same.
        units = None if _is_kept(state, descent) else descent.units


def _thresholds(problem: NetworkProblem, solution: NetworkSolution) -> dict[tuple[int, int], list[float]]:
    """Threshold of every group that has demand, in every period."""
    flows = ((flow, one.period) for one in solution.settled for flow in one.flows)
    return {(problem.group_of[flow.stream], period): [flow.threshold_tokens] for flow, period in flows}


def _is_kept(state: _State, descent: Descent) -> bool:
    """Whether a plan keeps every promise: noted if it is the best that does, else there is less patience."""
    settled, ports = descent.settled(), descent.ports()
    broken = broken_classes(state.problem, settled, ports)
    for c in broken:
        state.patience[c] *= PATIENCE
    solution = NetworkSolution(settled, ports, 1.0, descent.cost, state.bound)
    if not broken and _is_better(state, solution):
        state.best = solution
    return not broken


def _safe_loads(state: _State) -> NetworkLoads:
    """Limits that a plan of a large network is to keep, with transfers at the bandwidth of a large port."""
    gbps = tuple(max(tier.capacity_gbps for tier in link.tiers) for link in state.problem.links)
    return NetworkLoads(state.problem, 1.0, tuple(state.patience), gbps)


def _dive(state: _State, begun: list[Situation], time_limit_s: float, deadline: float) -> None:
    """A plan of a large network from thresholds that suit every model in whole instances."""
    loads, step_s = state.optimistic, DIVE_STEP * time_limit_s
    choice = asked(loads, begun, state.segments, every(loads, begun, ROUGH_STEP), state.ways)
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
        _, missing, broken = _judged(state, *found, state.patience)
        if not missing and not broken:
            return
        busiest = sorted(missing, key=lambda s: -sum(d.req_per_s[s.period] for d in state.problem.demands))
        situations += busiest[:MOST_NEW]


def _judged(
    state: _State, safe: Model, plan: Found, patience: list[float]
) -> tuple[NetworkSolution, list[Situation], list[int]]:
    """A plan with what it does not cover and whose promise it breaks; noted if it is the best that does neither."""
    solution, missing = _completed(state, safe, plan)
    broken = [] if missing else broken_classes(state.problem, solution.settled, solution.ports)
    if not missing and not broken and _is_better(state, solution):
        state.best = solution
    for c in broken:
        patience[c] *= PATIENCE
    return solution, missing, broken


def _try_limits(state: _State, model: Model, found: Found, gap: float, deadline: float, limits: Limits) -> None:
    """A plan from the points of the chosen cells, if it is the best so far; or what it does not cover yet."""
    arcs: frozenset[tuple[int, int, Arc]] | None = used_arcs(model, found)
    segments = {i: around(state.segments[i], n) for i, n in enumerate(largest_sizes(model, found))}
    # What hope broke says nothing of safer limits.
    patience = state.patience if limits.wait_factor >= 1 else list(state.patience)
    for _ in range(MAX_TIGHTENINGS):
        loads = NetworkLoads(state.problem, limits.wait_factor, tuple(patience), limits.gbps, limits.link_busy)
        points = _points(loads, model, found)
        safe = build(Question(loads, model.question.situations, points, segments, True, arcs))
        try:
            plan = safe.rows.solved(min(deadline - monotonic(), PLAN_LIMIT_S), PLAN_GAP * gap)
        except UndecidedError:
            return
        if plan is None and arcs is None:
            return
        if plan is None:
            arcs = None  # the strictest user of a pool leaves too little room: other ways may have more
            continue
        _, missing, broken = _judged(state, safe, plan, patience)
        state.active += missing
        if missing or not broken:
            return


def _is_better(state: _State, solution: NetworkSolution) -> bool:
    return state.best is None or solution.objective * state.sign < state.best.objective * state.sign


def _completed(state: _State, safe: Model, plan: Found) -> tuple[NetworkSolution, list[Situation]]:
    """The plan in every period, and the situations that its sizes do not cover."""
    problem = state.problem
    ports = tuple(tuple(round(plan.values[m]) for m in row) for row in safe.ports)
    settled = {s.period: settled_of(safe, plan, i) for i, s in enumerate(safe.question.situations) if s.loss is None}
    scale = float(plan.values[safe.scale])
    missing: list[Situation] = []
    for p in range(len(problem.periods)):
        if p not in settled:
            found = _copied(problem, settled, p) or _resolved(state, safe, plan, Situation(p))
            if found is None:
                missing.append(Situation(p))
            else:
                settled[p] = found
    if not missing:
        missing = _unsurvived(state, safe, plan)
    everything = tuple(settled[p] for p in sorted(settled))
    objective = scale if not problem.is_min_cost else _spend(problem, safe, plan, everything)
    return NetworkSolution(everything, ports, scale, objective, state.sign * state.bound), missing


def _copied(problem: NetworkProblem, known: Mapping[int, Settled], period: int) -> Settled | None:
    """The ways of a period that asks for at least as much of every stream."""
    if problem.scenario.routing.role_conversion:
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


def _resolved(state: _State, safe: Model, plan: Found, situation: Situation) -> Settled | None:
    """A situation of its own with the plan's sizes; None where they do not do."""
    problem, known = state.problem, {s.period for s in safe.question.situations}
    if problem.scenario.routing.role_conversion:
        return None
    offers = {
        (g, situation.period): list(dict.fromkeys(c for p in known for c in _chosen_points(safe, plan, g, p)))
        for g in range(len(problem.groups))
    }
    n = settled_of(safe, plan, 0).n_instances
    ports = tuple(tuple(round(plan.values[m]) for m in row) for row in safe.ports)
    scale = None if problem.is_min_cost else float(plan.values[safe.scale]) * (1 - TINY)
    segments = {i: [(max(size, 1), max(size, 1))] for i, size in enumerate(n)}
    arcs = frozenset((q, situation.period, arc) for q, arc in state.ways) if state.is_large else None
    question = Question(safe.question.loads, (situation,), offers, segments, True, arcs, scale, (n, ports))
    model = build(question)
    try:
        found = model.rows.solved(RESOLVE_LIMIT_S, 0.01)
    except UndecidedError:
        return None
    return None if found is None else settled_of(model, found, 0)


def _chosen_points(safe: Model, plan: Found, group: int, period: int) -> list[Cell]:
    cells = safe.question.cells[group, period]
    return [
        cells[k]
        for (g, s, k), y in safe.y.items()
        if g == group and safe.question.situations[s].period == period and plan.values[y] > 0.5
    ]


def _unsurvived(state: _State, safe: Model, plan: Found) -> list[Situation]:
    """Losses that the plan does not survive, in the periods that matter; a few of them at a time."""
    periods = [s.period for s in safe.question.situations if s.loss is None]
    missing = []
    for p in periods:
        for loss in state.problem.losses():
            situation = Situation(p, loss)
            if situation not in state.active and _resolved(state, safe, plan, situation) is None:
                missing.append(situation)
                if len(missing) == MOST_NEW:
                    return missing
    return missing


def _spend(problem: NetworkProblem, safe: Model, plan: Found, settled: Sequence[Settled]) -> float:
    """Cost of the plan over all periods: what is bought or rented, and what use costs [USD/h]."""
    if not problem.is_priced:
        return float(sum(n * p.n_accelerators for n, p in zip(settled[0].n_instances, problem.pools, strict=True)))
    owned = {c: usd for c, usd in safe.cost.items() if c not in _rate_columns(safe)}
    rent = sum(usd * round(plan.values[c] * 1e6) / 1e6 for c, usd in owned.items())
    return float(rent + sum(problem.weights[one.period] * use_usd_per_hour(problem, one) for one in settled))


def _rate_columns(model: Model) -> set[int]:
    return {*model.x.values(), *model.between.values(), *model.d.values()}


def _idle_use(state: _State) -> float:
    """Least that use costs in the periods that the model does not hold [USD/h]."""
    if not state.problem.is_min_cost or not state.problem.is_priced:
        return 0.0
    active = {s.period for s in state.active}
    others = [p for p in range(len(state.problem.periods)) if p not in active]
    return sum(state.problem.weights[p] * least_use_usd_per_hour(state.problem, p) for p in others)


def _points(loads: NetworkLoads, model: Model, found: Found) -> Cells:
    """Thresholds and allowances inside the chosen cells, and a few of all."""
    points: Cells = {}
    for g, members in enumerate(loads.problem.groups):
        wide = [p for cell in first_cells_of(loads.problem, members) for p in points_of(loads, members, cell)]
        for s, situation in enumerate(model.question.situations):
            cells = model.question.cells[g, situation.period]
            offers = points.setdefault((g, situation.period), list(dict.fromkeys(wide)))
            for k, cell in enumerate(cells):
                if found.values[model.y[g, s, k]] > SOME:
                    offers += [p for p in points_of(loads, members, cell) if p not in offers]
    return points


def _refine(state: _State, model: Model, found: Found) -> bool:
    """Cut the chosen cells and the sizes around the chosen ones finer; False where nothing is left to cut."""
    changed = len(state.active) > len(model.question.situations)
    for (g, s, k), y in model.y.items():
        rates = (model.r[q, s, k] for q in state.problem.groups[g] if (q, s, k) in model.r)
        carries = any(factor * found.values[column] > TINY for column, factor in rates)
        if found.values[y] > SOME and carries:
            period = model.question.situations[s].period
            cell = model.question.cells[g, period][k]
            parts = split(mix_of(state.problem, state.problem.groups[g]), cell)
            if len(parts) > 1 and cell in state.cells[g, period]:
                state.cells[g, period].remove(cell)
                state.cells[g, period] += parts
                changed = True
    for i, n in enumerate(largest_sizes(model, found)):
        pieces = around(state.segments[i], n)
        changed |= pieces != state.segments[i]
        state.segments[i] = pieces
    return changed


def peak_situations(problem: NetworkProblem) -> list[Situation]:
    """Periods in which some stream, some model, or all together ask for most; all where roles change."""
    periods = range(len(problem.periods))
    if problem.scenario.routing.role_conversion:
        return [Situation(p) for p in periods]
    rates = np.array([demand.req_per_s for demand in problem.demands])
    models = [problem.classes[demand.request_class].model for demand in problem.demands]
    sums = [rates[[m == model for m in models]].sum(axis=0) for model in dict.fromkeys(models)]
    peaks = {int(np.argmax(row)) for row in (*rates, *sums, rates.sum(axis=0))}
    return [Situation(p) for p in sorted(peaks)]
