"""One plan per point of a grid of scenario keys, several at a time."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from planner.errors import InfeasibleError, UndecidedError, UsageError
from planner.jobs import HERE, Workers, answers
from planner.optimizer import optimize
from planner.results import PlanSweep, SweepPoint
from planner.scenario import Scenario, read_scenario

MOST_POINTS = 10_000


def plan_sweep(
    scenario: str,
    over: Mapping[str, Sequence[str]],
    overrides: Sequence[str] = (),
    data_dirs: Sequence[Path] = (),
    time_limit_s: float = 60.0,
    workers: Workers = HERE,
) -> PlanSweep:
    """Plans of a scenario over a grid.

    Args:
        scenario: a bundled name or a path.
        over: values of every key that varies, as `--set` would take them.
        overrides: further `KEY=VALUE` changes, the same at every point.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds that the search for one plan may take.
        workers: who plans the points; the answer does not depend on it.

    Returns:
        A plan, or why there is none, for every point.

    Raises:
        UsageError: more points than anybody waits for.
        InputError: a point is no scenario; all of them are checked before any is planned.
    """
    grid = [dict(zip(over, values, strict=True)) for values in product(*over.values())]
    if len(grid) > MOST_POINTS:
        raise UsageError(f"--over: {len(grid):,} points (at most {MOST_POINTS:,})")
    changes = [[*overrides, *(f"{key}={value}" for key, value in point.items())] for point in grid]
    scenarios = [read_scenario(scenario, change) for change in changes]
    jobs = [(asked, point, data_dirs, time_limit_s) for asked, point in zip(scenarios, grid, strict=True)]
    points = answers(point_plan, jobs, workers)
    kept = {key: tuple(values) for key, values in over.items()}
    return PlanSweep(scenario=scenarios[0].name, over=kept, points=tuple(points))


def point_plan(scenario: Scenario, point: dict[str, str], data_dirs: Sequence[Path], time_limit_s: float) -> SweepPoint:
    """The plan of one point, or why it has none."""
    try:
        plan = optimize(scenario, data_dirs, time_limit_s)
    except (InfeasibleError, UndecidedError) as error:
        return SweepPoint(set=point, plan=None, failure=str(error))
    return SweepPoint(set=point, plan=plan, failure=None)
