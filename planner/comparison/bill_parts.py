"""Parts of a bill that answers state by themselves: electricity, and the price of what is bought."""

from collections.abc import Mapping

from planner.optimizer.network.cost import rent_usd_per_hour
from planner.optimizer.problem import Problem
from planner.optimizer.solution import Solution
from planner.results.plan import PoolPlan


def electricity_usd_per_hour(problem: Problem, solution: Solution, plans: Mapping[int, PoolPlan]) -> float | None:
    """Part of the pools' bills that is electricity; None where no site prices it, or a pool has no bill."""
    scenario, found = problem.scenario, None
    rents = rent_usd_per_hour(problem, solution.operations)
    for i in plans:
        pool, bill, rent = problem.pools[i], plans[i].usd_per_hour, rents[i]
        price = scenario.price_named(pool.hardware)
        if bill is None or rent is None or price is None:
            return None
        if scenario.sites[pool.site].usd_per_kwh and pool.usd_per_hour:
            idle_fraction = 1 - pool.n_accelerators * price.hourly_usd / pool.usd_per_hour
            found = (found or 0.0) + rent * idle_fraction + (bill - rent)
    return found


def purchase_usd(problem: Problem, plans: Mapping[int, PoolPlan]) -> float | None:
    """Price of the accelerators that are bought rather than rented; None where none are."""
    bought = [
        plans[i].n_accelerators * price.paid_usd
        for i in plans
        if (price := problem.scenario.price_named(problem.pools[i].hardware)) and price.paid_usd
    ]
    return sum(bought) if bought else None
