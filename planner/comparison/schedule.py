"""The schedule of a plan whose pools are rented by the period, and what it saves."""

from planner.optimizer.network.cost import rent_usd_per_hour
from planner.optimizer.problem import Problem
from planner.optimizer.rent import ByPeriod, starts
from planner.optimizer.solution import Solution
from planner.results import PoolSchedule, Replicas, Schedule
from planner.units import SECONDS_PER_HOUR


def schedule_of(problem: Problem, solution: Solution) -> Schedule | None:
    """Instances by pool and period; None where no pool is rented by the period.

    Args:
        problem: the question.
        solution: its plan.
    """
    if not problem.is_followed:
        return None
    peak_usd = None if solution.always is None else solution.always.objective
    if solution.routed is not None:  # of one rate at all times, which nothing has to follow
        peak_usd = solution.objective
    saved = None if peak_usd is None else peak_usd - solution.objective
    return Schedule(
        pools=tuple(
            _of_pool(problem, solution, i, pool.by_period)
            for i, pool in enumerate(problem.pools)
            if pool.by_period is not None and any(one.n_instances[i] for one in solution.operations)
        ),
        peak_usd_per_hour=peak_usd,
        saved_usd_per_hour=saved,
        saved_fraction=None if saved is None or not peak_usd else saved / peak_usd,
    )


def _of_pool(problem: Problem, solution: Solution, i: int, rented: ByPeriod) -> PoolSchedule:
    sizes = [one.n_instances[i] for one in solution.operations]
    begun, found, begins_h = starts(sizes), list[Replicas](), 0.0
    for period, n, new in zip(problem.periods, sizes, begun, strict=True):
        found.append(Replicas(period=period.name, begins_h=begins_h, hours=period.hours, n_instances=n, starts=new))
        begins_h += period.hours
    return PoolSchedule(
        pool=problem.pools[i].name,
        least_time_up_h=rented.least_up_h,
        start_up_s=rented.start_up_h * SECONDS_PER_HOUR,
        replicas=tuple(found),
        usd_per_hour=rent_usd_per_hour(problem, solution.operations)[i],
    )
