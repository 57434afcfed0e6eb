"""Sizes of a large plan: begun from fractions, made larger until every period fits, then cheaper bit by bit.

Sizes are all that periods share, so sizes are judged period by period, each of which chooses its own thresholds for
them. To make a plan cheaper, a part of it is taken out, and what periods then miss is put back for least. Periods that
did not fit the last sizes are asked first: most changes come to nothing early. A change may cost a little more than the
cheapest plan so far: where every change of that one is dearer, others lie behind such.

Source:
    Ruin and recreate (Schrimpf et al. 2000); record-to-record travel (Dueck 1993).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np

from planner.optimizer.network.cells import Array, Cell, Cells
from planner.optimizer.network.formulation import build
from planner.optimizer.network.indices import PeriodArc
from planner.optimizer.network.period_operation import PeriodOperation
from planner.optimizer.network.period_subproblem import PeriodSubproblem, period_subproblem
from planner.optimizer.network.program import ProgramSpec
from planner.optimizer.network.refinement import finest_cells
from planner.optimizer.network.relax_and_fix import RelaxAndFix
from planner.optimizer.network.settings import SETTINGS
from planner.optimizer.network.shared_units import SharedUnits, Units, shared_units
from planner.optimizer.problem import Problem, Situation

NOTHING = 1e-6


def is_separable_by_period(problem: Problem) -> bool:
    """Whether sizes, ports and the stock of sites are all that periods share, and cost is to be low."""
    scenario = problem.scenario
    is_alone = not scenario.spare.survive and scenario.budget_usd_per_hour is None
    return problem.is_min_cost and is_alone and not problem.families


@dataclass(frozen=True)
class ThresholdOffers:
    """Thresholds that periods choose from: around some of them, with some allowances each."""

    thresholds_tokens: Mapping[tuple[int, int], Sequence[float]]
    """By group and period; none where a group has no demand."""
    reach: int
    """Thresholds before the first and after the last that are offered."""
    shares: Sequence[float]
    """Allowances, as `Dive.points` takes them."""
    n_inside: int = 0
    """Thresholds inside of each interval, where lengths are continuous."""


def ruin_and_recreate(
    dive: RelaxAndFix, offers: ThresholdOffers, order: Array, units: Units, deadline: float, seed: int = 0
) -> "RuinAndRecreate":
    """Every period with its program.

    Args:
        dive: limits to keep and ways that may be used; where roles change, pieces of sizes.
        offers: what periods choose from.
        order: how much every period matters at first.
        units: units that are about right.
        deadline: `monotonic()` time to stop at.
        seed: of what is taken out.
    """
    problem, shared, periods = dive.loads.problem, shared_units(dive.loads.problem), []
    is_fixed = not problem.scenario.routing.role_conversion
    sizes = {i: [(max(int(units[i]), 1),) * 2] for i in range(len(problem.pools))} if is_fixed else dive.segments
    known: dict[tuple[int, float], list[Cell]] = {}
    ends = [list(_thresholds(finest_cells(problem, members), offers.n_inside)) for members in problem.groups]
    for p in range(len(problem.periods)):
        cells: Cells = {}
        for g, of_group in enumerate(ends):
            thresholds_tokens = offers.thresholds_tokens.get((g, p), of_group[:1])
            used = [int(np.argmin(np.abs(np.array(of_group) - t))) for t in thresholds_tokens]
            near = of_group[max(min(used) - offers.reach, 0) : max(used) + offers.reach + 1]
            known |= {(g, t): dive.points(g, [t], offers.shares) for t in near if (g, t) not in known}
            cells[g, p] = [cell for t in near for cell in known[g, t]]
        arcs = frozenset(PeriodArc(q, p, arc) for q, arc in dive.arcs)
        periods.append(
            period_subproblem(build(ProgramSpec(dive.loads, (Situation(p),), cells, sizes, True, arcs)), shared)
        )
    return RuinAndRecreate(shared, periods, order, deadline, seed)


def _thresholds(cells: Sequence[Cell], n_inside: int) -> Iterator[float]:
    """Ends of cells, and some thresholds inside of those that are intervals."""
    for cell in cells:
        if cell.low_tokens < cell.high_tokens:
            yield from np.linspace(cell.low_tokens, cell.high_tokens, n_inside + 2)[1:-1].tolist()
        yield cell.high_tokens


class RuinAndRecreate:
    """Units of a plan on their way down.

    Args:
        shared: the units, whose cost is to be low.
        periods: every period.
        order: how much every period matters at first.
        deadline: `monotonic()` time to stop at.
        seed: of what is taken out.
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
        """Rent of the present sizes, and what use costs [USD/h]."""
        return self._cost_of(self.units, self.values)

    def start_from(self, units: Units) -> bool:
        """Start from some sizes, made larger until every period fits; False where that was not found in time.

        A period for which nothing is left comes first the next time. What is there from the start may be of the wrong
        kinds and leave stock for nothing else: when a period has come first in vain, there is less of it.
        """
        came_first: set[int] = set()
        while monotonic() < self._deadline:
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
            while self.units[u] > self._least[u] and monotonic() < self._deadline:
                units = self.units.copy()
                units[u] -= 1
                if not self._is_taken(self._points_of_all(units), units):
                    break

    def step(self) -> bool:
        """Take a part out and put back what is missed; whether that leads to the cheapest plan so far."""
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
        """To the cheapest plan so far."""
        if self._cheapest is not None:
            _, self.units, self.values = self._cheapest

    def operations(self) -> tuple[PeriodOperation, ...]:
        """What happens in every period."""
        return tuple(p.operation(self.units, columns) for p, columns in zip(self.periods, self.values, strict=True))

    def ports(self) -> tuple[tuple[int, ...], ...]:
        """Ports of every tier of every link."""
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
        """Sizes with less of a few pools and links, or of all that streams of one group may use."""
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
        """Sizes that every period fits, with a rent below a cost, and the columns of every period."""
        values: dict[int, Array] = {}
        for p in self._order():
            if monotonic() > self._deadline:
                return None
            period = self.periods[p]
            known = self.values[p] if self.values else None
            found = period.fits(units, known)
            self._failed[p] += found is None
            while found is None:
                more = period.added(units, self._most, known) if monotonic() < self._deadline else None
                added, known = (None, known) if more is None else more
                units = units if added is None else units + added
                if self._usd @ units >= cost:
                    return None
                found = None if added is None else period.fits(units, known)
                if found is None and (added is None or not added.any()):
                    self._failed[p] = self._failed[p] if self.values else SETTINGS.stuck_weight + self._failed.max()
                    return None
            values[p] = found
        return units, [values[p] for p in range(len(self.periods))]

    def _points_of_all(self, units: Units) -> list[Array] | None:
        values: dict[int, Array] = {}
        for p in self._order():
            found = self.periods[p].fits(units, self.values[p]) if monotonic() < self._deadline else None
            if found is None:
                self._failed[p] += 1
                return None
            values[p] = found
        return [values[p] for p in range(len(self.periods))]

    def _order(self) -> list[int]:
        self._failed = SETTINGS.forgetting * self._failed
        return [int(p) for p in np.argsort(-self._failed, kind="stable")]
