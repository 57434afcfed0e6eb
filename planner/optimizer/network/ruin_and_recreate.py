"""Sizes of a large plan by ruin and recreate: from fractions, made larger until every period fits, then cheaper.

Sizes are all that periods share. So sizes are judged period by period, and each period chooses its own thresholds. To
make a plan cheaper, a part of its units is taken out, and what periods then miss is put back at least cost. Periods
that did not fit the last sizes are asked first: most steps fail early. A step may cost a little more than the cheapest
plan so far, because cheaper plans may lie behind dearer ones.

Source:
    Ruin and recreate (Schrimpf, Schneider, Stamm-Wilbrandt and Dueck 2000); acceptance by record-to-record travel
    (Dueck 1993).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.optimizer.network.cells import Array, Cell, Cells
from planner.optimizer.network.formulation import build
from planner.optimizer.network.indices import PeriodArc
from planner.optimizer.network.period_operation import PeriodOperation
from planner.optimizer.network.period_subproblem import PeriodSubproblem, period_subproblem
from planner.optimizer.network.program import ProgramSpec
from planner.optimizer.network.refinement import finest_cells
from planner.optimizer.network.relax_and_fix import RelaxAndFix
from planner.optimizer.network.shared_units import SharedUnits, Units, shared_units
from planner.optimizer.problem import Problem, Situation
from planner.optimizer.settings import SETTINGS
from planner.work_clock import work_s

NOTHING = 1e-6


def is_separable_by_period(problem: Problem) -> bool:
    """Whether sizes, ports and stock are all that periods share, and cost is minimised: a budget is then a limit of it.

    Where any instance may be lost, the work of every pool leaves one out.

    Args:
        problem: the resolved scenario.
    """
    scenario = problem.scenario
    is_alone = set(scenario.spare.survive) <= {"instance"} and not problem.is_followed
    is_about_cost = problem.is_min_cost and (problem.is_priced or scenario.budget_usd_per_hour is None)
    return is_about_cost and is_alone and not problem.has_options and problem.ratio is None


@dataclass(frozen=True)
class ThresholdOffers:
    """Thresholds that periods may choose: around given ones, with some allowances each."""

    thresholds_tokens: Mapping[tuple[int, int], Sequence[float]]
    """By group and period; none where a group has no demand."""
    reach: int
    """Thresholds offered before the first and after the last of them."""
    shares: Sequence[float]
    """Allowances, as `RelaxAndFix.points` takes them."""
    n_inside: int = 0
    """Thresholds offered inside each interval, where lengths are continuous."""


def ruin_and_recreate(
    heuristic: RelaxAndFix, offers: ThresholdOffers, order: Array, units: Units, deadline: float, seed: int = 0
) -> "RuinAndRecreate":
    """A search over sizes, with the subproblem of every period.

    Args:
        heuristic: coefficients, arcs that may be used and, where roles change, segments of sizes.
        offers: thresholds that periods may choose.
        order: weight of every period at first, shape (periods,).
        units: sizes that are about right, shape (units,).
        deadline: `work_s()` time to stop at.
        seed: seed of what is taken out.
    """
    problem, shared, periods = heuristic.loads.problem, shared_units(heuristic.loads.problem), []
    is_fixed = not problem.scenario.routing.role_conversion
    sizes = {i: [(max(int(units[i]), 1),) * 2] for i in range(len(problem.pools))} if is_fixed else heuristic.segments
    n_spare = int("instance" in problem.scenario.spare.survive)
    known: dict[tuple[int, float], list[Cell]] = {}
    ends = [list(_thresholds(finest_cells(problem, members), offers.n_inside)) for members in problem.groups]
    for p in range(len(problem.periods)):
        cells: Cells = {}
        for g, of_group in enumerate(ends):
            thresholds_tokens = offers.thresholds_tokens.get((g, p), of_group[:1])
            used = [int(np.argmin(np.abs(np.array(of_group) - t))) for t in thresholds_tokens]
            near = of_group[max(min(used) - offers.reach, 0) : max(used) + offers.reach + 1]
            known |= {(g, t): heuristic.points(g, [t], offers.shares) for t in near if (g, t) not in known}
            cells[g, p] = [cell for t in near for cell in known[g, t]]
        arcs = frozenset(PeriodArc(q, p, arc) for q, arc in heuristic.arcs)
        periods.append(
            period_subproblem(
                build(ProgramSpec(heuristic.loads, (Situation(p),), cells, sizes, True, arcs, n_spare=n_spare)), shared
            )
        )
    return RuinAndRecreate(shared, periods, order, deadline, seed)


def _thresholds(cells: Sequence[Cell], n_inside: int) -> Iterator[float]:
    """Ends of cells, and some thresholds inside of those that are intervals."""
    for cell in cells:
        if cell.low_tokens < cell.high_tokens:
            yield from np.linspace(cell.low_tokens, cell.high_tokens, n_inside + 2)[1:-1].tolist()
        yield cell.high_tokens


class RuinAndRecreate:
    """Sizes and ports of a plan that are made cheaper step by step.

    Args:
        shared: the units that periods share; their cost is minimised.
        periods: the subproblem of every period.
        order: weight of every period at first, shape (periods,).
        deadline: `work_s()` time to stop at.
        seed: seed of what is taken out.
    """

    def __init__(
        self, shared: SharedUnits, periods: Sequence[PeriodSubproblem], order: Array, deadline: float, seed: int = 0
    ) -> None:
        self.units: Units = np.zeros(len(shared.usd), np.int64)
        self.values: list[Array] = []
        """Columns of every period."""
        self.periods = periods
        self._shared, self._usd, self._deadline = shared, shared.usd, deadline
        self._failed = order / max(float(order.max()), NOTHING)
        self._rng = np.random.default_rng(seed)
        self._cheapest: tuple[float, Units, list[Array]] | None = None
        self._least, self._most = shared.least, shared.most

    @property
    def cost(self) -> float:
        """Rent of the present units, and what use costs over all periods [USD/h]."""
        return self._cost_of(self.units, self.values)

    def start_from(self, units: Units) -> bool:
        """Start from some units, made larger until every period fits.

        A period for which no units are left comes first in the next attempt. If it then fails again, the start has
        units of the wrong kinds, which leave no stock for others: the next attempt starts from fewer.

        Args:
            units: units to start from, shape (units,) [count].

        Returns:
            Whether units that fit every period were found in time.
        """
        came_first: set[int] = set()
        while work_s() < self._deadline:
            units = np.clip(units, self._least, self._most)
            found = self._recreated(units, np.inf)
            if found is not None:
                self.units, self.values = found
                return True
            stuck = self._order()[0]
            if stuck in came_first:
                if not (units > self._least).any():
                    break
                units, came_first = (SETTINGS.restart_factor * units).astype(np.int64), set()
            came_first.add(stuck)
        return False

    def drop_idle_units(self) -> None:
        """Take out every single unit that no period needs, the dearest first."""
        for u in np.argsort(-self._usd, kind="stable"):
            while self.units[u] > self._least[u] and work_s() < self._deadline:
                units = self.units.copy()
                units[u] -= 1
                if not self._is_taken(self._points_of_all(units), units):
                    break

    def step(self) -> bool:
        """Take out a part and put back what is missed at least cost; whether the plan is the cheapest so far."""
        least = self._cheapest[0] if self._cheapest else self.cost
        self._cheapest = self._cheapest or (self.cost, self.units, self.values)
        found = self._recreated(self._ruined(), (1 + SETTINGS.detour) * least)
        if found is None or self._cost_of(*found) > (1 + SETTINGS.detour) * least:
            return False
        self.units, self.values = found
        if self.cost > least - NOTHING:
            return False
        self.drop_idle_units()
        self._cheapest = self.cost, self.units, self.values
        return True

    def restore_cheapest(self) -> None:
        """Return to the cheapest plan so far."""
        if self._cheapest is not None:
            _, self.units, self.values = self._cheapest

    def operations(self) -> tuple[PeriodOperation, ...]:
        """Sizes, flows and decoding of every period."""
        return tuple(p.operation(self.units, columns) for p, columns in zip(self.periods, self.values, strict=True))

    def ports(self) -> tuple[tuple[int, ...], ...]:
        """Ports of every tier of every link [count]."""
        return self._shared.ports(self.units)

    def _is_taken(self, values: list[Array] | None, units: Units) -> bool:
        if values is None or self._cost_of(units, values) > self.cost - NOTHING:
            return False
        self.units, self.values = units, values
        return True

    def _cost_of(self, units: Units, values: Sequence[Array]) -> float:
        use = sum(period.use_usd_per_hour(columns) for period, columns in zip(self.periods, values, strict=True))
        return float(self._usd @ units) + use

    def _ruined(self) -> Units:
        """Fewer units of a few pools and links, or of all pools that streams of one group may use."""
        units, rng = self.units.copy(), self._rng
        open_to = np.flatnonzero(units > self._least)
        if rng.random() < SETTINGS.whole_group_share:
            of_group = self._shared.of_group(int(rng.integers(len(self._shared.problem.groups))))
            chosen, share = np.intersect1d(open_to, of_group), float(rng.uniform(0, SETTINGS.deepest_ruin))
            units[chosen] = np.maximum((units[chosen] * (1 - share)).astype(np.int64), self._least[chosen])
            return units
        for u in rng.choice(open_to, min(int(rng.integers(1, SETTINGS.most_ruined + 1)), len(open_to)), replace=False):
            deepest = max(int(SETTINGS.deepest_ruin * units[u]), 1)
            units[u] = max(units[u] - int(rng.integers(1, deepest + 1)), self._least[u])
        return units

    def _recreated(self, units: Units, cost: float) -> tuple[Units, list[Array]] | None:
        """Units that every period fits, with a rent below a cost, and the columns of every period."""
        values: dict[int, Array] = {}
        for p in self._order():
            if work_s() > self._deadline:
                return None
            period = self.periods[p]
            known = self.values[p] if self.values else None
            found = period.solution_at(units, known)
            self._failed[p] += found is None
            while found is None:
                more = period.cheapest_addition(units, self._most, known) if work_s() < self._deadline else None
                added, known = (None, known) if more is None else more
                units = units if added is None else units + added
                if self._usd @ units >= cost:
                    return None
                found = None if added is None else period.solution_at(units, known)
                if found is None and (added is None or not added.any()):
                    self._failed[p] = self._failed[p] if self.values else SETTINGS.stuck_weight + self._failed.max()
                    return None
            values[p] = found
        return units, [values[p] for p in range(len(self.periods))]

    def _points_of_all(self, units: Units) -> list[Array] | None:
        values: dict[int, Array] = {}
        for p in self._order():
            found = self.periods[p].solution_at(units, self.values[p]) if work_s() < self._deadline else None
            if found is None:
                self._failed[p] += 1
                return None
            values[p] = found
        return [values[p] for p in range(len(self.periods))]

    def _order(self) -> list[int]:
        self._failed = SETTINGS.forgetting * self._failed
        return [int(p) for p in np.argsort(-self._failed, kind="stable")]
