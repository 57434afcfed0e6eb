"""The fleets that the tables know, by cost: the most that each budget serves with the plan's pools and links."""

from collections.abc import Sequence
from itertools import product
from math import ceil

import numpy as np

from planner.results.case import CaseFront
from planner.results.explorer import Tables
from planner.results.plan import Baseline
from planner.results.studies import Front, FrontPoint
from planner.studies.explore.combination import Knobs, fleet_req_per_s, usd_per_hour
from planner.ties import first_largest

MOST_FLEETS = 20_000
WIDER = 2.0
"""Over the plan's instances, what is looked at of a pool without a stock."""
N_POINTS = 40
TITLE = "Most that every budget serves: these pools and this link, or another fleet that can be had"


def reachable_front(tables: Tables, percentile: float, others: Sequence[Baseline] = ()) -> CaseFront | None:
    """Rate against cost for every fleet of the plan's pools that its stock allows, and for other fleets that can be
    had; None where a price is missing.

    Args:
        percentile: what a TTFT is about; stated in every front.
    """
    if any(p.usd_per_instance_hour is None for p in tables.pools) or any(k.usd_per_hour is None for k in tables.links):
        return None
    sizes = np.array([s for s in product(*_ranges(tables)) if _is_in_stock(tables, s)])
    work = np.array([pool.work_s for pool in tables.pools])
    rates = np.min(sizes[:, :, None] / np.where(work > 0, work, 1e-30)[None], axis=1)
    for link in tables.links:
        each = np.array(link.gbps_per_req_per_s)
        rates = np.minimum(rates, np.where(each > 0, link.capacity_gbps / np.where(each > 0, each, 1.0), np.inf))
    best = [first_largest(row) for row in rates]
    found, most = [], 0.0
    knobs = [Knobs(tuple(map(int, s)), tables.fine_tokens[t], 1.0) for s, t in zip(sizes, best, strict=True)]
    at_most = [k._replace(req_per_s=fleet_req_per_s(tables, k)) for k in knobs]
    priced = [_point(tables, k, usd_per_hour(tables, k) or 0.0) for k in at_most]
    bills = ((other, other.cost.usd_per_hour) for other in others if not other.beyond_stock)
    priced += [_point_of(other, usd) for other, usd in bills if usd is not None]
    for point in sorted(priced, key=lambda point: point.usd_per_hour):
        if point.value > most * (1 + 1e-6):
            most = point.value
            found.append(point)
    step = max(len(found) // N_POINTS, 1)
    kept = (*found[:-1:step], found[-1])
    front = Front(against="throughput", percentile=percentile, points=kept)
    return CaseFront(
        title=TITLE,
        set={},
        front=front,
    )


def _point(tables: Tables, knobs: Knobs, usd: float) -> FrontPoint:
    sizes = {pool.name: n for pool, n in zip(tables.pools, knobs.n_instances, strict=True)}
    return FrontPoint(
        budget_usd_per_hour=usd,
        usd_per_hour=usd,
        value=knobs.req_per_s,
        n_instances=sizes,
        threshold_tokens=knobs.threshold_tokens if tables.is_split else None,
    )


def _point_of(fleet: Baseline, usd: float) -> FrontPoint:
    sizes = {pool.name: pool.n_instances for pool in fleet.pools if pool.n_instances}
    return FrontPoint(
        budget_usd_per_hour=usd,
        usd_per_hour=usd,
        value=fleet.max_throughput_req_per_s,
        n_instances=sizes,
        threshold_tokens=fleet.threshold_tokens,
    )


def _ranges(tables: Tables) -> list[range]:
    """Instances looked at of every pool, thinned where that would be too many fleets."""
    most = []
    for pool in tables.pools:
        stocks = [s.n_accelerators // pool.accelerators_per_instance for s in tables.stocks if pool.name in s.pools]
        most.append(max(min([*stocks, max(round(WIDER * pool.n_planned), 8)]), pool.n_planned, 1))
    each = int(MOST_FLEETS ** (1 / len(most)))
    return [range(n, 0, -ceil(n / each)) for n in most]


def _is_in_stock(tables: Tables, sizes: tuple[int, ...]) -> bool:
    each = {p.name: n * p.accelerators_per_instance for p, n in zip(tables.pools, sizes, strict=True)}
    return all(sum(each.get(name, 0) for name in stock.pools) <= stock.n_accelerators for stock in tables.stocks)
