"""The streams of a plan: requests of a class that are decoded at a site, with their rate, threshold and pools."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planner.errors import InputError, did_you_mean
from planner.results.plan import Fleet, PeriodPlan, Plan, PoolShares
from planner.results.threshold import Threshold
from planner.scenario import Scenario, requests_of

N_ATOMS = 4096
"""Requests that stand for a continuous length distribution."""


@dataclass(frozen=True)
class RequestStream:
    """Requests of a class that are decoded at a site."""

    request_class: str
    site: str | None
    """None: at any site that a way leads to."""
    req_per_s: float
    """At the plan's own rate [1/s]."""
    threshold: Threshold
    pool_shares: PoolShares | None
    """What every pool takes, where the plan says; else it is in proportion to the pools' rates."""


def chosen_period(scenario: Scenario, fleet: Fleet, name: str | None) -> PeriodPlan | None:
    """The period that is run: the one named, or the only one; None of a plan without periods.

    Raises:
        InputError: no such period, several and none named, one without demand, or of other pools or links.
    """
    periods = {period.name: period for period in fleet.periods} if isinstance(fleet, Plan) else {}
    if name is None and not periods:
        return None
    if name is None and len(periods) > 1:
        what = f"are several: {', '.join(periods)}"
        raise InputError(scenario.problem(("periods",), what, "the name of the one to run"))
    found = next(iter(periods.values())) if name is None else periods.get(name)
    if found is None:
        allowed = did_you_mean(str(name), [*periods]) if periods else "a plan that has periods"
        raise InputError(scenario.problem(("periods",), f"has no '{name}' in the plan", allowed))
    if found.demand_req_per_s <= 0:
        raise InputError(scenario.problem(("periods", found.name), "has no demand to run", "a period with demand"))
    for table, now, ever in (("pools", found.pools, fleet.pools), ("links", found.links, fleet.links)):
        if [part.name for part in now] != [part.name for part in ever]:
            what = f"has other {table} in the plan's '{found.name}' than in all of it"
            raise InputError(scenario.problem(("periods",), what, "the plan as `optimize` printed it"))
    return found


def streams_of(
    scenario: Scenario, fleet: Fleet, period: PeriodPlan | None, data_dirs: Sequence[Path] = ()
) -> tuple[RequestStream, ...]:
    """The streams of a plan, in the order of the scenario's classes; those without requests are left out.

    Args:
        period: the period that is run; None: the plan has one demand.

    Raises:
        InputError: the plan is of other classes or sites, or does not say where a class is decoded.
    """
    if period is None:
        return tuple(_of_one_demand(scenario, fleet, data_dirs))
    found = tuple(_of_period(scenario, period))
    if not found:
        what = f"has no requests in '{period.name}' of the plan"
        raise InputError(scenario.problem(("classes",), what, "the plan as `optimize` printed it"))
    return found


def _of_one_demand(scenario: Scenario, fleet: Fleet, data_dirs: Sequence[Path]) -> Iterator[RequestStream]:
    stated = {c.name: c for c in fleet.classes} if isinstance(fleet, Plan) else {}
    for name, (share, _) in scenario.workloads.items():
        plan = stated.get(name)
        tokens = fleet.threshold_tokens if plan is None or plan.threshold_tokens is None else plan.threshold_tokens
        if tokens is None:
            tokens = _threshold_that_offloads(scenario, name, fleet.offload_fraction, data_dirs)
        shares = None if plan is None else plan.pool_shares or None
        sites: Mapping[str | None, float] = _sites(scenario, name) or {None: 1.0}
        for site, part in sites.items():
            rate = share * part * fleet.throughput_req_per_s
            yield RequestStream(name, site, rate, Threshold.of_plan(tokens), shares)


def _sites(scenario: Scenario, name: str) -> dict[str | None, float]:
    """Where the requests of a class arrive, where the scenario says so."""
    stated = scenario.classes[name].sites if name in scenario.classes else {}
    return {site: part for site, part in stated.items() if part > 0}


def _threshold_that_offloads(scenario: Scenario, name: str, fraction: float, data_dirs: Sequence[Path]) -> float:
    """The threshold of a plan that states only how many are sent away: it follows from the lengths [tokens]."""
    total, cached, weights = requests_of(scenario, name, data_dirs).atoms(N_ATOMS)
    uncached = total - cached
    order = np.argsort(uncached, kind="stable")
    kept = np.searchsorted(np.cumsum(weights[order]), 1.0 - fraction)
    return float(uncached[order][min(int(kept), order.size - 1)])


def _of_period(scenario: Scenario, period: PeriodPlan) -> Iterator[RequestStream]:
    rates = period.decoded_req_per_s or _where_they_arrive(scenario, period)
    if foreign := next((name for name in (*rates, *period.thresholds) if name not in scenario.workloads), None):
        what = f"the plan's class '{foreign}' is not the scenario's"
        raise InputError(scenario.problem(("classes",), what, "the plan of this scenario"))
    for name in scenario.workloads:
        for site, rate in rates.get(name, {}).items():
            if rate <= 0:
                continue
            if site not in period.thresholds.get(name, {}):
                what = f"has no threshold for '{site}' in '{period.name}' of the plan"
                raise InputError(scenario.problem(("classes", name), what, "the plan of this scenario"))
            shares = period.pool_shares.get(name, {}).get(site)
            yield RequestStream(name, site, rate, Threshold.of_plan(period.thresholds[name][site]), shares)


def _where_they_arrive(scenario: Scenario, period: PeriodPlan) -> dict[str, dict[str, float]]:
    """Rates of a plan that does not state them: every class is decoded where it arrives, or at the only site."""
    when, found = period.name if period.name in scenario.periods else None, dict[str, dict[str, float]]()
    for name in scenario.workloads:
        arriving, decoded = _sites(scenario, name), [*period.thresholds.get(name, {})]
        if not arriving and len(decoded) > 1:
            what = f"is decoded at {' and '.join(decoded)}, and the plan does not say how much of it at each"
            raise InputError(scenario.problem(("classes", name), what, "a plan of this version of the planner"))
        at = {site: scenario.demand_of(name, site, when) for site in arriving if site is not None}
        found[name] = at or {site: scenario.demand_of(name, None, when) for site in decoded}
    total = sum(rate for at in found.values() for rate in at.values())
    scale = period.demand_req_per_s / total if total > 0 else 1.0
    return {name: {site: rate * scale for site, rate in at.items()} for name, at in found.items()}
