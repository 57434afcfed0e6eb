"""Shadow prices of a network: what one more unit of a limit is worth, by linear programs and by integer ones."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from planner.errors import UndecidedError
from planner.optimizer.network.cells import Cell
from planner.optimizer.network.formulation import build
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.program import ProgramSpec
from planner.optimizer.network.search import peak_situations
from planner.optimizer.prices.integer_program import IntegerProgramNearPlan
from planner.optimizer.prices.raised_limits import RaisedLimit, fleet_limits, stated_limits
from planner.optimizer.problem import PoolSpec, Problem, Situation
from planner.optimizer.settings import SETTINGS
from planner.optimizer.sized import sized_problem
from planner.optimizer.solution import Solution, unit_of
from planner.results import Bottleneck, PlannedAgain
from planner.ties import SOLVED, largest_first
from planner.work_clock import work_s

NO_WORTH = 1e-6
"""Change of the objective, as a part of it, below which a limit does not bind."""


class _Priced(NamedTuple):
    """A raised limit, the problem that it is of, and its price by the linear program in the unit of the answer."""

    base: Problem
    more: RaisedLimit
    price: float


def program_prices(problem: Problem, solution: Solution, limit_s: float) -> tuple[Bottleneck, ...]:
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
    found = [
        one for base, raised in _limits(problem, solution) for one in _linear_prices(base, solution, raised, deadline)
    ]
    confirmed = largest_first(_confirmed(found, solution, limit_s), lambda b: abs(b.shadow_price), SOLVED)
    return tuple(sorted(confirmed, key=lambda b: b.unit.split(" per ")[0] != "USD/h"))


def _limits(problem: Problem, solution: Solution) -> Iterator[tuple[Problem, Iterable[RaisedLimit]]]:
    """Raised limits of the question of the user, and of the fleet of the plan."""
    yield problem, stated_limits(problem, solution)
    if not problem.has_sizes_by_period:
        fleet = sized_problem(problem, solution.operations[0].n_instances, solution.ports)
        if all(any(arcs.values()) for arcs in fleet.arcs):
            yield fleet, fleet_limits(fleet, [i for i, pool in enumerate(fleet.pools) if pool.max_instances])


def _linear_prices(
    base: Problem, solution: Solution, raised: Iterable[RaisedLimit], deadline: float
) -> Iterator[_Priced]:
    """The price of every limit by the linear program, until time is up."""
    least = _relaxed_optimum(base, solution, deadline)
    for more in raised if least is not None else ():
        other = _relaxed_optimum(more.marginal, solution, deadline)
        if least is not None and other is not None:
            gained = least - other if abs(least - other) > NO_WORTH * abs(least) else 0.0
            yield _Priced(base, more, gained * unit_of(base) / more.marginal_amount)


def _confirmed(found: Iterable[_Priced], solution: Solution, limit_s: float) -> Iterator[Bottleneck]:
    """Shadow prices with what integer programs say of them, as far as time allows.

    A limit that is worth nothing at the thresholds of the plan may be worth something at others.
    """
    deadline = work_s() + limit_s
    optima: dict[int, tuple[float, float] | None] = {}
    for base, more, price in sorted(found, key=lambda one: one.price == 0):
        program, unit = IntegerProgramNearPlan(base, solution), unit_of(base)
        if id(base) not in optima:
            optima[id(base)] = program.objective(base, deadline)
        before = optima[id(base)]
        after = None if before is None else program.objective(more.step, deadline)
        again, is_gain = None, False
        if before is not None and after is not None:
            # The optimum of a program lies between its bound and its solution: so does the true difference.
            low, high = (before[0] - after[1]) * unit, (before[1] - after[0]) * unit
            if more.constraint != "demand_req_per_s":
                low = max(low, 0.0)  # more of a limit leaves every fleet possible
            again = PlannedAgain(n_more=more.step_amount, least=low, most=max(high, low))
            is_gain = abs(low) > 2 * SETTINGS.price_gap * abs(before[1]) * unit
        if price or is_gain:
            yield Bottleneck(
                constraint=more.constraint,
                shadow_price=price,
                unit=more.unit,
                basis="linear-program",
                planned_again=again,
            )


def _relaxed_optimum(problem: Problem, solution: Solution, deadline: float) -> float | None:
    """The optimum with sizes that may be fractions; None where there is none, or time is up."""
    if work_s() > deadline:
        return None
    is_small = len(problem.pools) * len(problem.periods) <= SETTINGS.all_periods_sizes
    everything = [Situation(p) for p in range(len(problem.periods))]
    situations = tuple(everything if is_small else peak_situations(problem))
    pieces = {
        i: [_near(pool, n)] for i, (pool, n) in enumerate(zip(problem.pools, solution.largest_sizes, strict=True))
    }
    program = build(ProgramSpec(NetworkLoads(problem), situations, _cells(problem, solution), pieces))
    with suppress(UndecidedError):
        found = program.rows.solved(deadline - work_s(), 0.0, integers=())
        return None if found is None else found.objective
    return None


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
