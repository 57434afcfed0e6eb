"""The schedule of a plan whose pools are rented by the period, and what it and spare instances are worth."""

from collections.abc import Iterator

from planner.comparison.planned import Classes, planned_fleet
from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.notes import Note, note
from planner.optimizer.network.cost import rent_usd_per_hour
from planner.optimizer.problem import Problem
from planner.optimizer.rent import ByPeriod, starts
from planner.optimizer.solution import Solution
from planner.results.plan import Fleet
from planner.results.plan_parts import PoolSchedule, Replicas, Schedule
from planner.scenario import Scenario, Spare
from planner.units import SECONDS_PER_HOUR, number, percent


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


def spare_notes(scenario: Scenario, classes: Classes, plan: Fleet, deadline: float) -> Iterator[Note]:
    """Saving of the cheapest fleet without spare, where the question asks for spare at the least cost.

    Args:
        deadline: `work_s()` time to stop at.
    """
    kinds, ours = scenario.spare.survive, plan.cost.usd_per_hour
    if not kinds or scenario.objective != "min-cost" or ours is None:
        return
    try:
        bare = planned_fleet(scenario.model_copy(update={"spare": Spare()}), classes, deadline)
    except (UndecidedError, InputError, InfeasibleError):
        yield note("spare-cost-unknown", "what surviving a loss costs was not found in the time")
        return
    if bare is not None:
        more = ours - bare.objective
        what = " or ".join(f"one {kind}" for kind in kinds)
        yield note(
            "spare-cost",
            f"surviving the loss of any {what} costs {number(more)} USD/h, {percent(more / bare.objective)} more",
        )
