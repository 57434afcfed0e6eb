"""One plan per point of a grid of scenario keys, several at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from traceback import format_exc

from planner.comparison import optimize
from planner.errors import PlannerError, UsageError
from planner.jobs import HERE, Workers, finished
from planner.results.plan import Plan
from planner.results.plan_sweep import PlanSweep, SweepPoint, sought
from planner.scenario import Scenario, read_scenario

MOST_POINTS = 10_000
SAME = 1e-6
"""Relative difference of two values below which it is the solver's rounding."""
BUG = 1
"""Exit code of a point that went wrong in a way that is nobody's input."""


@dataclass(frozen=True)
class SweepQuestion:
    """A grid whose every point is a scenario that holds."""

    over: dict[str, tuple[str, ...]]
    grid: tuple[dict[str, str], ...]
    scenarios: tuple[Scenario, ...]

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.scenarios[0].name


def sweep_question(scenario: str, over: Mapping[str, Sequence[str]], overrides: Sequence[str] = ()) -> SweepQuestion:
    """The scenarios of a grid, all of them checked before any is planned.

    Args:
        scenario: a bundled name or a path.
        over: values of every key that varies, as `--set` would take them.
        overrides: further `KEY=VALUE` changes, the same at every point.

    Raises:
        UsageError: more points than anybody waits for.
        InputError: a point is no scenario.
    """
    grid = [dict(zip(over, values, strict=True)) for values in product(*over.values())]
    if len(grid) > MOST_POINTS:
        raise UsageError(f"--over: {len(grid):,} points (at most {MOST_POINTS:,})")
    changes = [[*overrides, *(f"{key}={value}" for key, value in point.items())] for point in grid]
    scenarios = [read_scenario(scenario, change) for change in changes]
    return SweepQuestion({key: tuple(values) for key, values in over.items()}, tuple(grid), tuple(scenarios))


def planned_points(
    asked: SweepQuestion, data_dirs: Sequence[Path] = (), time_limit_s: float = 60.0, workers: Workers = HERE
) -> Iterator[tuple[int, SweepPoint]]:
    """Every point's place in the grid and its plan, or why there is none, as soon as it is found.

    Args:
        asked: the grid.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds that the search for one plan may take.
        workers: who plans the points; the answer does not depend on it.
    """
    pairs = zip(asked.scenarios, asked.grid, strict=True)
    yield from finished(point_plan, [(one, point, data_dirs, time_limit_s) for one, point in pairs], workers)


def plan_sweep(asked: SweepQuestion, found: Mapping[int, SweepPoint]) -> PlanSweep:
    """The points that were finished, by their places, in the order of the grid and with the best of them."""
    points = tuple(found[place] for place in sorted(found))
    best, rule = best_point(points, [asked.scenarios[place] for place in sorted(found)])
    return PlanSweep(
        scenario=asked.name,
        over=asked.over,
        points=points,
        n_points=len(asked.grid),
        best=best,
        best_by=rule,
    )


def point_plan(scenario: Scenario, point: dict[str, str], data_dirs: Sequence[Path], time_limit_s: float) -> SweepPoint:
    """The plan of one point, or why it has none: whatever it is, it does not take the other points with it."""
    try:
        return SweepPoint(set=point, plan=optimize(scenario, data_dirs, time_limit_s), failure=None)
    except PlannerError as error:
        return SweepPoint(set=point, plan=None, failure=str(error), exit_code=error.exit_code)
    except Exception as error:
        text = f"a bug: {type(error).__name__}: {error}\n{format_exc()}"
        return SweepPoint(set=point, plan=None, failure=text, exit_code=BUG)


def best_point(points: Sequence[SweepPoint], scenarios: Sequence[Scenario]) -> tuple[int | None, str]:
    """Index of the best point and what makes it the best, by the objective that all scenarios share.

    Of points that are as good as each other the cheapest is taken, then the first.
    """
    objectives = {scenario.objective for scenario in scenarios}
    if len(objectives) != 1:
        return None, "no common measure: objectives differ" if objectives else ""
    has_one_demand = len({(scenario.demand_req_per_s, *_factors(scenario)) for scenario in scenarios}) == 1
    rule, value = _measure(objectives.pop(), has_one_demand)
    values = {i: known for i, p in enumerate(points) if p.plan and (known := value(p.plan)) is not None}
    if not values:
        return None, rule
    least = min(values.values())
    ties = [i for i, known in values.items() if known - least <= SAME * max(abs(known), abs(least))]
    return min(ties, key=lambda i: (_usd(points[i].plan), i)), rule


def _factors(scenario: Scenario) -> tuple[object, ...]:
    """Factors that scale the demand, with the hours of each period."""
    return tuple(
        (name, p.hours, p.demand, *p.by_site.items(), *p.by_class.items()) for name, p in scenario.periods.items()
    )


def _measure(objective: str, has_one_demand: bool) -> tuple[str, Callable[[Plan], float | None]]:
    """Measure of the best plan, in words, and the figure that is then least."""
    if objective == "max-throughput":
        return "most req/s, then least USD/h", lambda plan: -plan.most_req_per_s
    if objective == "min-ttft":
        return "least TTFT, then least USD/h", sought
    if has_one_demand:
        return "least USD/h", sought
    return "least USD per request, because demands differ", _usd_per_request


def _usd_per_request(plan: Plan) -> float | None:
    """Bill over rate, in USD/h per req/s: in proportion to what a request costs."""
    usd, rate = plan.cost.usd_per_hour, plan.throughput_req_per_s
    return None if usd is None or rate <= 0 else usd / rate


def _usd(plan: Plan | None) -> float:
    usd = None if plan is None else plan.cost.usd_per_hour
    return float("inf") if usd is None else usd
