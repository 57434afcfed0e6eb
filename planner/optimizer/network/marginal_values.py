"""What one more unit of a limit is worth to a network: by linear programs, and by planning again in whole instances."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import monotonic

from planner.errors import UndecidedError
from planner.optimizer.network.cells import Cell
from planner.optimizer.network.fixed_plan import fixed_plan_problem
from planner.optimizer.network.formulation import build
from planner.optimizer.network.integer_near_plan import IntegerProgramNearPlan
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.program import ProgramSpec
from planner.optimizer.network.raised_limits import RaisedLimit, largest_sizes, more_allowed, more_capacity
from planner.optimizer.network.search import peak_situations
from planner.optimizer.network.settings import SETTINGS
from planner.optimizer.problem import PoolSpec, Problem, Situation
from planner.optimizer.solution import Solution
from planner.results import Bottleneck, PlannedAgain

NO_WORTH = 1e-6
"""Of the objective: below it a limit does not bind."""


def network_bottlenecks(
    problem: Problem, solution: Solution, limit_s: float = SETTINGS.price_limit_s
) -> tuple[Bottleneck, ...]:
    """Worth of one more of every limit, and what planning again with more of it brings, most valuable first.

    Equation:
        C(limits + d) - C(limits) over d, C the most scale (or, negative, the least cost) of the linear program at the
        thresholds of the plan; with its sizes and ports where the limit is one of them, else with sizes that may be
        fractions; over all periods, where there are many pools over the busiest. Confirmed by the same difference of
        programs in whole instances, whose thresholds are chosen anew

    Args:
        problem: the resolved scenario.
        solution: its plan.
        limit_s: longest time for the linear programs together, and for the whole ones together [s].

    Returns:
        Requests per second gained by an instance or a Gbps beside the fleet of the plan, and by what max-throughput is
        limited by; for min-cost, USD per hour saved by what is allowed beyond the question, and what the demand costs.

    Valid:
        For small changes of large fleets: whole instances make the true answer a staircase around it. Waits are those
        of the closed form.

    Source:
        Sensitivity of linear programs by re-solving (Bertsimas and Tsitsiklis 1997, chapter 5).
    """
    deadline = monotonic() + limit_s
    found: list[tuple[Bottleneck, RaisedLimit, Problem]] = []
    for base, changes in _changes(problem, solution):
        found += _prices(base, solution, changes, deadline)
    confirmed = _confirmed(found, solution, limit_s)
    return tuple(sorted(confirmed, key=lambda b: (b.unit.split(" per ")[0] != "USD/h", -abs(b.shadow_price))))


def _changes(problem: Problem, solution: Solution) -> Iterator[tuple[Problem, Iterable[RaisedLimit]]]:
    """What is changed: the question as it was asked, and the fleet as it was planned."""
    yield problem, more_allowed(problem, solution)
    if not problem.scenario.routing.role_conversion:
        at_plan = fixed_plan_problem(problem, solution)
        if all(any(arcs.values()) for arcs in at_plan.arcs):
            yield at_plan, more_capacity(at_plan, solution)


def _prices(
    base: Problem, solution: Solution, changes: Iterable[RaisedLimit], deadline: float
) -> Iterator[tuple[Bottleneck, RaisedLimit, Problem]]:
    """What more of every limit is worth by the linear program, with what it is a change of."""
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


def unit_of(problem: Problem) -> float:
    """What a unit of the objective is in the answer: money, or for a scale of the demand its requests per second."""
    return 1.0 if problem.is_min_cost else problem.mean_req_per_s


def _confirmed(
    found: Iterable[tuple[Bottleneck, RaisedLimit, Problem]], solution: Solution, limit_s: float
) -> Iterator[Bottleneck]:
    """The prices with what planning in whole instances says of them, as far as the time allows.

    At settled thresholds a limit may be worth nothing that is worth something at others.
    """
    deadline = monotonic() + limit_s
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
        # A bound is below what a program truly comes to, a point above it: so the true difference lies between these.
        low, high = (before[0] - after[1]) * unit, (before[1] - after[0]) * unit
        if more.constraint != "demand_req_per_s":
            low = max(low, 0.0)  # more of a limit leaves every fleet possible
        again = PlannedAgain(n_more=more.step_amount, least=low, most=max(high, low))
        if bottleneck.shadow_price or abs(low) > 2 * SETTINGS.price_gap * abs(before[1]) * unit:
            yield bottleneck.model_copy(update={"planned_again": again})


def _cells(problem: Problem, solution: Solution) -> Mapping[tuple[int, int], list[Cell]]:
    """The plan's thresholds, each with any allowance."""
    cells = {}
    for g, members in enumerate(problem.groups):
        for one in solution.operations:
            thresholds = {flow.threshold_tokens for flow in one.flows if flow.stream in members} or {0.0}
            cells[g, one.period] = [Cell(t, t) for t in sorted(thresholds)]
    return cells


def _near(pool: PoolSpec, n_instances: int) -> tuple[int, int]:
    """Sizes between which what a pool may be asked for is taken as a line: a quarter around the plan's, or all."""
    if n_instances == 0:
        return 1, max(pool.max_instances, 1)
    width = n_instances // 4 + 1
    return max(n_instances - width, 1), max(min(n_instances + width, pool.max_instances), 1)


def _relaxed_optimum(
    problem: Problem, sizes: Sequence[int], cells: Mapping[tuple[int, int], list[Cell]], deadline: float
) -> float | None:
    """The least objective with sizes that may be fractions; None where there is none, or time is up."""
    if monotonic() > deadline:
        return None
    is_small = len(problem.pools) * len(problem.periods) <= SETTINGS.all_periods_sizes
    everything = [Situation(p) for p in range(len(problem.periods))]
    situations = tuple(everything if is_small else peak_situations(problem))
    pieces = {i: [_near(pool, n)] for i, (pool, n) in enumerate(zip(problem.pools, sizes, strict=True))}
    program = build(ProgramSpec(NetworkLoads(problem), situations, cells, pieces))
    try:
        found = program.rows.solved(deadline - monotonic(), 0.0, integers=())
    except UndecidedError:
        return None
    return None if found is None else found.objective
