"""A first plan that follows the periods: each planned by itself, and what then stops too soon kept up."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.errors import UndecidedError
from planner.optimizer.network.cost import rent_usd_per_hour, use_usd_per_hour
from planner.optimizer.network.period_operation import PeriodOperation, classes_missing_slo
from planner.optimizer.problem import Problem
from planner.optimizer.rent import is_kept_up, starts, times_within
from planner.optimizer.sized import with_ports, within
from planner.optimizer.solution import Solution
from planner.work_clock import work_s

Search = Callable[[Problem, float], Solution | None]


def period_by_period(problem: Problem, always: Solution, deadline: float, search: Search) -> Solution:
    """The cheapest of a plan that rents at all times and one whose periods are each planned for their own demand.

    The ports, and the pools that are rented at all times, are those of the first; so is a period that is not planned in
    the time. Instances that would stop before their least time up stay: a pool never serves less with more.

    Args:
        problem: a problem that follows its periods.
        always: its best plan with all pools rented at all times.
        deadline: `work_s()` time to stop at.
        search: finds the plan of a problem in so many seconds.
    """
    n_left, operations = len(problem.periods), list[PeriodOperation]()
    for p, known in enumerate(always.operations):
        part_s = max(deadline - work_s(), 0.0) / n_left
        operations.append(_planned(problem, always, p, part_s, search) or known)
        n_left -= 1
    found = _kept_up(problem, operations)
    if not _is_in_stock(problem, found) or classes_missing_slo(problem, found, always.ports):
        return always
    usd = sum(usd or 0.0 for usd in rent_usd_per_hour(problem, found))
    usd += sum(k.ports_usd_per_hour(m) or 0.0 for k, m in zip(problem.links, always.ports, strict=True))
    usd += sum(problem.weights[one.period] * use_usd_per_hour(problem, one) for one in found)
    return replace(always, operations=tuple(found), objective=usd) if usd < always.objective else always


def _planned(
    problem: Problem, always: Solution, period: int, time_limit_s: float, search: Search
) -> PeriodOperation | None:
    """A period by itself; None where it has no demand, or nothing better was found in the time."""
    if time_limit_s <= 0 or not any(demand.req_per_s[period] for demand in problem.demands):
        return None
    known = always.operations[period].n_instances
    pools = tuple(
        within(pool, n, n) if pool.by_period is None else replace(within(pool, pool.min_instances, n), by_period=None)
        for pool, n in zip(problem.pools, known, strict=True)
    )
    links = tuple(with_ports(link, own) for link, own in zip(problem.links, always.ports, strict=True) if any(own))
    if len(links) < len(problem.links):
        return None  # flows of a solution name links by their place
    alone = replace(
        problem,
        pools=pools,
        links=links,
        demands=tuple(demand._replace(req_per_s=(demand.req_per_s[period],)) for demand in problem.demands),
        periods=(problem.periods[period],),
    )
    try:
        found = search(alone, time_limit_s)
    except UndecidedError:
        return None
    return None if found is None else replace(found.operations[0], period=period)


def _kept_up(problem: Problem, operations: Sequence[PeriodOperation]) -> list[PeriodOperation]:
    """The same with instances that stay up as long as they must."""
    hours = [period.hours for period in problem.periods]
    sizes = [[one.n_instances[i] for one in operations] for i in range(len(problem.pools))]
    for i, pool in enumerate(problem.pools):
        if pool.by_period is not None:
            sizes[i] = _raised(sizes[i], hours, pool.by_period.least_up_h)
    return [replace(one, n_instances=tuple(row[p] for row in sizes)) for p, one in enumerate(operations)]


def _raised(n_instances: Sequence[int], hours: Sequence[float], least_up_h: float) -> list[int]:
    """Sizes raised until every instance stays up as long as it must; one size where that does not settle.

    >>> _raised([0, 2, 0], [8.0, 8.0, 8.0], 9.0), _raised([0, 2], [12.0, 12.0], 30.0)
    ([0, 2, 2], [2, 2])
    """
    sizes, periods = list(n_instances), range(len(hours))
    for _ in periods:
        if is_kept_up(sizes, hours, least_up_h):
            return sizes
        begun = starts(sizes)
        needed = [sum(times_within(hours, least_up_h, q, p) * begun[q] for q in periods) for p in periods]
        sizes = [min(max(n, m), max(n_instances)) for n, m in zip(sizes, needed, strict=True)]
    return sizes if is_kept_up(sizes, hours, least_up_h) else [max(n_instances)] * len(hours)


def _is_in_stock(problem: Problem, operations: Sequence[PeriodOperation]) -> bool:
    """Whether every period, and what starts up before its end, is within the stock."""
    begun = [starts([one.n_instances[i] for one in operations]) for i in range(len(problem.pools))]
    for p, one in enumerate(operations):
        following = (p + 1) % len(operations)
        held = [
            n + (begun[i][following] if pool.by_period is not None and pool.by_period.start_up_h else 0)
            for i, (n, pool) in enumerate(zip(one.n_instances, problem.pools, strict=True))
        ]
        for stock in problem.inventories:
            if sum(held[i] * problem.pools[i].n_accelerators for i in stock.pools) > stock.n_accelerators:
                return False
    return True
