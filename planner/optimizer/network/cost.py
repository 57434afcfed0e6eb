"""Cost of a plan of a network: rent, power and traffic."""

from collections.abc import Sequence

import numpy as np

from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.period_operation import PeriodOperation, busy_instances, link_gbps
from planner.optimizer.problem import Problem
from planner.optimizer.rent import mean_instances
from planner.units import BITS_PER_BYTE, BITS_PER_GBIT, GB, SECONDS_PER_HOUR

N_KINDS = 192
GB_PER_GBIT = BITS_PER_GBIT / BITS_PER_BYTE / GB


def use_usd_per_hour(problem: Problem, operation: PeriodOperation) -> float:
    """Power of busy instances, and traffic by volume, in a period [USD/h].

    Equation:
        sum over pools of busy_i p_i + 3600 sum over links of GB/s g_l

    Args:
        problem: the resolved scenario.
        operation: what the period does.
    """
    busy = zip(busy_instances(problem, operation), problem.pools, strict=True)
    return sum(n * pool.busy_usd_per_hour for n, pool in busy) + traffic_usd_per_hour(problem, operation)


def traffic_usd_per_hour(problem: Problem, operation: PeriodOperation) -> float:
    """Charges by volume in a period [USD/h].

    Args:
        problem: the resolved scenario.
        operation: what the period does.
    """
    sent = zip(link_gbps(problem, operation), problem.links, strict=True)
    return SECONDS_PER_HOUR * sum(gbps * GB_PER_GBIT * link.usd_per_gb for gbps, link in sent)


def least_use_usd_per_hour(problem: Problem, period: int) -> float:
    """The least that use can cost in a period, wherever requests go [USD/h]."""
    total = 0.0
    for demand in problem.demands:
        rate = demand.req_per_s[period]
        if rate > 0:
            able = [q for q in demand.streams if problem.has_pools(q)]
            total += rate * min((_least_usd_per_request(problem, q) for q in able), default=0.0)
    return total


def _least_usd_per_request(problem: Problem, q: int) -> float:
    """Use of the cheapest pools per unit of rate: decode, and for every length the cheapest prefill."""
    loads = NetworkLoads(problem)
    decode = min(problem.pools[i].busy_usd_per_hour * loads.decode_s(q, i) for i in problem.decoders[q])
    total, cached, weights = problem.classes[problem.streams[q].request_class].mix.atoms(N_KINDS)
    pools = [problem.pools[i] for i in {arc.pool for arcs in problem.arcs[q].values() for arc in arcs}]
    seconds = [np.asarray(pool.work.seconds(total, cached)) * pool.busy_usd_per_hour for pool in pools]
    return decode + float(np.min(seconds, axis=0) @ weights)


def plan_cost(problem: Problem, operations: Sequence[PeriodOperation], ports: Sequence[Sequence[int]]) -> float:
    """Cost that the cheapest plan has least of: the bill [USD/h], or where a price is missing the accelerators [count].

    Equation:
        rent + ports + sum over periods of w_p use_p, w_p the fraction of the time

    Args:
        ports: ports of every tier of every link [count].
    """
    if not problem.is_priced:
        bought = zip(bought_instances(problem, operations), problem.pools, strict=True)
        return float(sum(n * pool.n_accelerators for n, pool in bought))
    rent = sum(usd or 0.0 for usd in rent_usd_per_hour(problem, operations))
    rent += sum(link.ports_usd_per_hour(own) or 0.0 for link, own in zip(problem.links, ports, strict=True))
    return rent + sum(problem.weights[one.period] * use_usd_per_hour(problem, one) for one in operations)


def rent_usd_per_hour(problem: Problem, operations: Sequence[PeriodOperation]) -> list[float | None]:
    """Rent or amortised purchase, and idle power, of every pool.

    Args:
        problem: the resolved scenario.
        operations: what every period does, in order.

    Returns:
        USD per hour of every pool, on average over the periods; None where a price is missing.
    """
    bought = zip(bought_instances(problem, operations), problem.pools, strict=True)
    return [0.0 if n == 0 else None if p.usd_per_hour is None else n * p.usd_per_hour for n, p in bought]


def bought_instances(problem: Problem, operations: Sequence[PeriodOperation]) -> list[float]:
    """Instances of every pool that are paid for at all times: its most, or on average what it rents by the period.

    Where accelerators change roles, the pools that share them have what they have when these are the most.

    Args:
        problem: the resolved scenario.
        operations: what every period does, in order.
    """
    found = [float(max(n)) for n in zip(*(one.n_instances for one in operations), strict=True)]
    if problem.scenario.routing.role_conversion:
        for owner in problem.owners:
            busiest = max(
                operations, key=lambda one: sum(one.n_instances[i] * problem.pools[i].n_accelerators for i in owner)
            )
            found = [float(busiest.n_instances[i]) if i in owner else n for i, n in enumerate(found)]
    if problem.is_followed:
        hours = [period.hours for period in problem.periods]
        for i, pool in enumerate(problem.pools):
            if pool.by_period is not None:
                sizes = [one.n_instances[i] for one in operations]
                found[i] = mean_instances(sizes, hours, pool.by_period.start_up_h)
    return found
