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


def bill_usd_per_hour(problem: Problem, operations: Sequence[PeriodOperation], ports: Sequence[Sequence[int]]) -> float:
    """Rent, ports and use of a plan over all periods [USD/h]; what has no price counts nothing.

    Args:
        ports: ports of every tier of every link [count].
    """
    rent = sum(usd or 0.0 for usd in rent_usd_per_hour(problem, operations))
    rent += sum(link.ports_usd_per_hour(own) or 0.0 for link, own in zip(problem.links, ports, strict=True))
    return rent + sum(problem.weights[one.period] * use_usd_per_hour(problem, one) for one in operations)


def rent_usd_per_hour(problem: Problem, operations: Sequence[PeriodOperation]) -> list[float | None]:
    """Rent or amortised purchase, and idle power, of every pool: of its most instances, or where it is rented by the
    period of those that each period has.

    Args:
        problem: the resolved scenario.
        operations: what every period does, in order.

    Returns:
        USD per hour of every pool, on average over the periods; None where a price is missing.
    """
    hours, found = [period.hours for period in problem.periods], list[float | None]()
    for i, pool in enumerate(problem.pools):
        sizes = [one.n_instances[i] for one in operations]
        n: float = max(sizes)
        if problem.is_followed and pool.by_period is not None:
            n = mean_instances(sizes, hours, pool.by_period.start_up_h)
        found.append(0.0 if n == 0 else None if pool.usd_per_hour is None else n * pool.usd_per_hour)
    return found
