"""The integer program near a plan: it confirms shadow prices that linear programs found."""

from contextlib import suppress
from dataclasses import dataclass

from planner.errors import UndecidedError
from planner.optimizer.network.cells import Cell, mix_of
from planner.optimizer.network.cost import use_usd_per_hour
from planner.optimizer.network.formulation import build
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.program import ProgramSpec
from planner.optimizer.network.refinement import first_cells_of, has_ttft_slo, points_in_cell, segments_around
from planner.optimizer.network.search import network_search, peak_situations
from planner.optimizer.problem import Problem, Situation
from planner.optimizer.settings import SETTINGS
from planner.optimizer.solution import Solution
from planner.work_clock import work_s


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
