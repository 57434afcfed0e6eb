"""Shadow prices of a network: what one more unit of a limit is worth, by linear programs and by integer ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from planner.errors import UndecidedError
from planner.optimizer.network.cells import Cell
from planner.optimizer.network.fixed_plan import fixed_plan_problem
from planner.optimizer.network.formulation import build
from planner.optimizer.network.integer_near_plan import IntegerProgramNearPlan
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.program import ProgramSpec
from planner.optimizer.network.raised_limits import RaisedLimit, largest_sizes, more_allowed, more_capacity
from planner.optimizer.network.search import peak_situations
from planner.optimizer.problem import PoolSpec, Problem, Situation
from planner.optimizer.settings import SETTINGS
from planner.optimizer.solution import Solution, unit_of
from planner.results import Bottleneck, PlannedAgain
from planner.ties import SOLVED, largest_first
from planner.work_clock import work_s

NO_WORTH = 1e-6
"""Change of the objective, as a part of it, below which a limit does not bind."""


def network_bottlenecks(
    problem: Problem, solution: Solution, limit_s: float = SETTINGS.price_limit_s
) -> tuple[Bottleneck, ...]:
    """Shadow price of every limit, and what planning again with a raised limit brings, most valuable first.

    Equation:
        (C(limits) - C(limits + d)) / d, C the least cost, or minus the greatest scale, of the linear program at the
        thresholds of the plan. Sizes and ports are those of the plan where the limit is one of them, else they may be
        fractions. The program holds all periods, or the peaks where there are many pools. Confirmed by the same
        difference of integer programs, which choose thresholds anew

    Args:
        problem: the resolved scenario.
        solution: its plan.
        limit_s: time for all linear programs, and again for all integer ones [s].

    Returns:
        Requests per second gained per instance or Gbps beside the fleet of the plan, and per unit of what limits
        max-throughput. For min-cost, USD per hour saved per unit that is allowed beyond the question, and the price of
        demand.

    Valid:
        For small changes of large fleets: with whole instances the true answer is a staircase around it. Waits are
        those of the closed form.

    Source:
        Shadow prices by solving perturbed linear programs again (Bertsimas and Tsitsiklis 1997, chapter 5).
    """
    deadline = work_s() + limit_s
    found: list[tuple[Bottleneck, RaisedLimit, Problem]] = []
    for base, changes in _changes(problem, solution):
        found += _prices(base, solution, changes, deadline)
    confirmed = largest_first(_confirmed(found, solution, limit_s), lambda b: abs(b.shadow_price), SOLVED)
    return tuple(sorted(confirmed, key=lambda b: b.unit.split(" per ")[0] != "USD/h"))


def _changes(problem: Problem, solution: Solution) -> Iterator[tuple[Problem, Iterable[RaisedLimit]]]:
    """Problems with their raised limits: the question of the user, and the fleet of the plan."""
    yield problem, more_allowed(problem, solution)
    if not problem.has_sizes_by_period:
        at_plan = fixed_plan_problem(problem, solution)
        if all(any(arcs.values()) for arcs in at_plan.arcs):
            yield at_plan, more_capacity(at_plan, solution)


def _prices(
    base: Problem, solution: Solution, changes: Iterable[RaisedLimit], deadline: float
) -> Iterator[tuple[Bottleneck, RaisedLimit, Problem]]:
    """Shadow price of every limit by the linear program, with the raised limit and the problem that it is of."""
    sizes, cells = largest_sizes(base, solution), _cells(base, solution)
    least = _relaxed_optimum(base, sizes, cells, deadline)
    for more in changes if least is not None else ():
        other = _relaxed_optimum(more.marginal, sizes, cells, deadline)
        if least is not None and other is not None:
            gained = least - other if abs(least - other) > NO_WORTH * abs(least) else 0.0
            price = gained * unit_of(base) / more.marginal_amount
            yield (
                Bottleneck(constraint=more.constraint, shadow_price=price, unit=more.unit, basis="linear-program"),
                more,
                base,
            )


def _confirmed(
    found: Iterable[tuple[Bottleneck, RaisedLimit, Problem]], solution: Solution, limit_s: float
) -> Iterator[Bottleneck]:
    """Shadow prices with what integer programs say of them, as far as time allows.

    A limit that is worth nothing at the thresholds of the plan may be worth something at others.
    """
    deadline = work_s() + limit_s
    bases: dict[int, tuple[float, float] | None] = {}
    for bottleneck, more, base in sorted(found, key=lambda item: item[0].shadow_price == 0):
        if id(base) not in bases:
            bases[id(base)] = IntegerProgramNearPlan(base, solution).objective(base, deadline)
        before = bases[id(base)]
        after = None if before is None else IntegerProgramNearPlan(base, solution).objective(more.step, deadline)
        if before is None or after is None:
            if bottleneck.shadow_price:
                yield bottleneck
            continue
        unit = unit_of(base)
        # The optimum of a program lies between its bound and its solution: so the true difference lies between these.
        low, high = (before[0] - after[1]) * unit, (before[1] - after[0]) * unit
        if more.constraint != "demand_req_per_s":
            low = max(low, 0.0)  # more of a limit leaves every fleet possible
        again = PlannedAgain(n_more=more.step_amount, least=low, most=max(high, low))
        if bottleneck.shadow_price or abs(low) > 2 * SETTINGS.price_gap * abs(before[1]) * unit:
            yield bottleneck.model_copy(update={"planned_again": again})


def _cells(problem: Problem, solution: Solution) -> Mapping[tuple[int, int], list[Cell]]:
    """The thresholds of the plan, each with any allowance."""
    cells = {}
    for g, members in enumerate(problem.groups):
        for one in solution.operations:
            thresholds = {flow.threshold_tokens for flow in one.flows if flow.stream in members} or {0.0}
            cells[g, one.period] = [Cell(t, t) for t in sorted(thresholds)]
    return cells


def _near(pool: PoolSpec, n_instances: int) -> tuple[int, int]:
    """Sizes between which the limit of a pool is taken as a line: a quarter around the plan's, or all."""
    if n_instances == 0:
        return 1, max(pool.max_instances, 1)
    width = n_instances // 4 + 1
    return max(n_instances - width, 1), max(min(n_instances + width, pool.max_instances), 1)


def _relaxed_optimum(
    problem: Problem, sizes: Sequence[int], cells: Mapping[tuple[int, int], list[Cell]], deadline: float
) -> float | None:
    """The optimum with sizes that may be fractions; None where there is none, or time is up."""
    if work_s() > deadline:
        return None
    is_small = len(problem.pools) * len(problem.periods) <= SETTINGS.all_periods_sizes
    everything = [Situation(p) for p in range(len(problem.periods))]
    situations = tuple(everything if is_small else peak_situations(problem))
    pieces = {i: [_near(pool, n)] for i, (pool, n) in enumerate(zip(problem.pools, sizes, strict=True))}
    program = build(ProgramSpec(NetworkLoads(problem), situations, cells, pieces))
    try:
        found = program.rows.solved(deadline - work_s(), 0.0, integers=())
    except UndecidedError:
        return None
    return None if found is None else found.objective
