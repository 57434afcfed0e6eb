"""Shadow prices of a network: what one more unit of a limit is worth, by linear programs and by integer ones."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from planner.errors import UndecidedError
from planner.optimizer.network.cells import Cell, mix_of
from planner.optimizer.network.cost import use_usd_per_hour
from planner.optimizer.network.formulation import build
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.program import ProgramSpec
from planner.optimizer.network.refinement import first_cells_of, has_ttft_slo, points_in_cell, segments_around
from planner.optimizer.network.search import network_search, peak_situations
from planner.optimizer.prices.raised_limits import RaisedLimit, fleet_limits, stated_limits
from planner.optimizer.problem import Problem, Situation
from planner.optimizer.problem_parts import PoolSpec
from planner.optimizer.settings import SETTINGS
from planner.optimizer.sized import sized_problem
from planner.optimizer.solution import Solution, objective_unit
from planner.results.plan_parts import Bottleneck, PlannedAgain
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
            yield _Priced(base, more, gained * objective_unit(base) / more.marginal_amount)


def _confirmed(found: Iterable[_Priced], solution: Solution, limit_s: float) -> Iterator[Bottleneck]:
    """Shadow prices with what integer programs say of them, as far as time allows.

    A limit that is worth nothing at the thresholds of the plan may be worth something at others.
    """
    deadline = work_s() + limit_s
    optima: dict[int, tuple[float, float] | None] = {}
    for base, more, price in sorted(found, key=lambda one: one.price == 0):
        program, unit = IntegerProgramNearPlan(base, solution), objective_unit(base)
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


@dataclass(frozen=True)
class IntegerProgramNearPlan:
    """An integer program at the thresholds of a plan and a few others, and at sizes around the plan's."""

    base: Problem
    """The problem that raised limits are compared with."""
    solution: Solution
    """Its plan."""

    def objective(self, problem: Problem, deadline: float) -> tuple[float, float] | None:
        """Bound and best objective of a problem in whole instances.

        Args:
            problem: the base problem, or one with a raised limit.
            deadline: `work_s()` time to stop at.

        Returns:
            Bound and objective as programs minimise it; None where no solution was found in time.

        Valid:
            The peak periods are in the program; what use costs in the others is that of the plan's flows, scaled.
        """
        situations = self._situations(problem)
        if work_s() > deadline or len(problem.pools) * len(situations) > SETTINGS.most_price_sizes:
            return None
        if len(situations) == 1 and not any(spec.ttft_s is not None for spec in problem.classes):
            return _searched(problem, deadline)
        loads = NetworkLoads(problem, gbps=tuple(self._gbps(problem)))
        points, near_sizes = self._points(loads, situations), dict(enumerate(self.solution.largest_sizes))
        spec = ProgramSpec(loads, situations, points, self._segments(problem), True, near_sizes=near_sizes)
        with suppress(UndecidedError):
            found = build(spec).rows.solved(deadline - work_s(), SETTINGS.price_gap)
            others = self._use_of_others(problem, situations)
            return None if found is None else (found.bound + others, found.objective + others)
        return None

    def _situations(self, problem: Problem) -> tuple[Situation, ...]:
        """The peak periods, with everything in place and with every loss that is to be survived."""
        peaks = peak_situations(problem)
        return (*peaks, *(Situation(s.period, loss) for s in peaks for loss in problem.losses()))

    def _use_of_others(self, problem: Problem, situations: tuple[Situation, ...]) -> float:
        """Cost of use in periods outside the program, with the plan's flows scaled to the demand [USD/h]."""
        if not problem.is_min_cost or not problem.is_priced:
            return 0.0
        held, total = {s.period for s in situations}, 0.0
        for one in self.solution.operations:
            before, after = (sum(d.req_per_s[one.period] for d in p.demands) for p in (self.base, problem))
            if one.period not in held and before > 0:
                then = one.scaled_to(one.period, [after / before] * len(problem.streams))
                total += problem.weights[one.period] * use_usd_per_hour(self.base, then)
        return total

    def _gbps(self, problem: Problem) -> list[float]:
        """Bandwidth that transfers count with [Gbps]: of a large port, or of the ports where these are fixed."""
        if not _has_fixed_sizes(problem):
            return [max(tier.capacity_gbps for tier in link.tiers) for link in problem.links]
        return [link.max_gbps() for link in self.base.links]

    def _points(self, loads: NetworkLoads, situations: tuple[Situation, ...]) -> dict[tuple[int, int], list[Cell]]:
        """Thresholds of the plan in any period, some near them and some over all lengths, with some allowances each."""
        points: dict[tuple[int, int], list[Cell]] = {}
        for g, members in enumerate(loads.problem.groups):
            flows = [flow for one in self.solution.operations for flow in one.flows if flow.stream in members]
            first = first_cells_of(loads.problem, members)
            low, high = first[0].low_tokens, first[0].high_tokens if len(first) == 1 else first[-2].high_tokens
            own = sorted({flow.threshold_tokens for flow in flows})
            has_slo = any(has_ttft_slo(loads.problem, q) for q in members)
            factors, n_wide = SETTINGS.price_multiples, SETTINGS.price_thresholds
            if has_slo and not _has_fixed_sizes(loads.problem):
                factors, n_wide = SETTINGS.few_price_multiples, SETTINGS.few_price_thresholds
            near = [t * factor for t in own for factor in factors if low < t * factor < high]
            grid = mix_of(loads.problem, members).threshold_grid(n_wide) if len(first) > 1 else ()
            cells = [Cell(t, t) for t in dict.fromkeys([*own, *near, *map(float, grid)])]
            cells += [cell for cell in first if cell.low_tokens == cell.high_tokens]
            offers = list(dict.fromkeys(point for cell in cells for point in points_in_cell(loads, members, cell)))
            points.update({(g, s.period): offers for s in situations})
        return points

    def _segments(self, problem: Problem) -> dict[int, list[tuple[int, int]]]:
        """Segments of sizes, finer near the plan's; one where a size is fixed."""
        pieces = {}
        for i, (pool, n) in enumerate(zip(problem.pools, self.solution.largest_sizes, strict=True)):
            most = max(pool.max_instances, 1)
            is_fixed = pool.min_instances == pool.max_instances
            pieces[i] = [(most, most)] if is_fixed else segments_around([(1, most)], min(n, most))
        return pieces


def _has_fixed_sizes(problem: Problem) -> bool:
    return all(pool.min_instances == pool.max_instances for pool in problem.pools)


def _searched(problem: Problem, deadline: float) -> tuple[float, float] | None:
    """Bound and objective of a problem that few programs settle, over every threshold; None where none was found."""
    sign = 1 if problem.is_min_cost else -1
    with suppress(UndecidedError):
        found = network_search(problem, deadline - work_s(), SETTINGS.price_gap)
        return None if found is None else (sign * found.bound, sign * found.objective)
    return None
