"""One plan per point of a grid of scenario keys, several at a time."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from planner.errors import InfeasibleError, UndecidedError, UsageError
from planner.optimizer import optimize
from planner.results import PlanSweep, SweepPoint
from planner.scenario import read_scenario

MOST_POINTS = 10_000


def plan_sweep(
    scenario: str,
    over: Mapping[str, Sequence[str]],
    overrides: Sequence[str] = (),
    data_dirs: Sequence[Path] = (),
    time_limit_s: float = 60.0,
    n_workers: int = 1,
) -> PlanSweep:
    """Plans of a scenario over a grid.

    Args:
        scenario: a bundled name or a path.
        over: values of every key that varies, as `--set` would take them.
        overrides: further `KEY=VALUE` changes, the same at every point.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds that the search for one plan may take.
        n_workers: processes; the answer does not depend on it.

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
    name = {read_scenario(scenario, change).name for change in changes}.pop()
    points = _planned(scenario, grid, changes, data_dirs, time_limit_s, n_workers)
    return PlanSweep(scenario=name, over={key: tuple(values) for key, values in over.items()}, points=tuple(points))


def _planned(
    scenario: str,
    grid: Sequence[dict[str, str]],
    changes: Sequence[Sequence[str]],
    data_dirs: Sequence[Path],
    time_limit_s: float,
    n_workers: int,
) -> list[SweepPoint]:
    jobs = [(scenario, point, change, data_dirs, time_limit_s) for point, change in zip(grid, changes, strict=True)]
    if n_workers == 1:
        return [point_plan(*job) for job in jobs]
    from joblib import Parallel, delayed

    return list(Parallel(n_jobs=n_workers)(delayed(point_plan)(*job) for job in jobs))


def point_plan(
    scenario: str, point: dict[str, str], changes: Sequence[str], data_dirs: Sequence[Path], time_limit_s: float
) -> SweepPoint:
    """The plan of one point, or why it has none."""
    try:
        plan = optimize(read_scenario(scenario, changes), data_dirs, time_limit_s)
    except (InfeasibleError, UndecidedError) as error:
        return SweepPoint(set=point, plan=None, failure=str(error))
    return SweepPoint(set=point, plan=plan, failure=None)
