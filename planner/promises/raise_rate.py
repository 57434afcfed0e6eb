"""A rate above the goodput of the latency model, sought where a run keeps the promise with room."""

from collections.abc import Iterator
from dataclasses import replace
from math import sqrt

from planner.comparison import Planned
from planner.promises.cheaper_fleets import relaxed_targets
from planner.promises.outcomes import STEP
from planner.promises.targets import as_long
from planner.promises.tighten import Attempt, PromiseSearch, as_stated, claiming, run

PRECISE_FRACTION = 0.015
"""Half of an interval over its figure, below which a rate is not run on for: a little lower one decides sooner."""
MOST_RAISES = 4
"""Runs of higher rates."""
LEAST_RAISE = 5e-3
"""Part of the rate that is worth another run."""
HALVINGS = 8
NEARLY_FULL = 0.999
"""Of the most that a fleet serves, what is claimed at most."""


def raise_rate(search: PromiseSearch) -> None:
    """Run the same fleet, ways and thresholds at higher rates, as long as a run leaves room for more.

    The latency model says what rate goes with the room that a run shows, up to a rate at which it predicts more than is
    promised by its stated error. After one that is not kept, or that is all but at its promise, a lower one is tried.

    Args:
        search: what is asked for, with a plan that is kept; plans that were run are added to it.
    """
    kept, broken = search.best, None
    rough = replace(search, settings=replace(search.settings, precise_fraction=PRECISE_FRACTION))
    for _ in range(MOST_RAISES):
        if kept is None or search.settings.is_over:
            return
        times = _times(search, kept, broken)
        if times < 1 + LEAST_RAISE:
            return
        targets = claiming(kept.targets, times)
        tried = run(rough, as_stated(search, targets, kept.problem, kept.found))
        search.tried.append(tried)
        if tried.is_cut_short:
            return
        kept, broken = (tried, broken) if tried.is_kept else (kept, tried)


def _times(search: PromiseSearch, kept: Attempt, broken: Attempt | None) -> float:
    """Multiple of the rate that was kept to try next."""
    if broken is None:
        return _fitting(search, kept, 1.0, _most(search, kept))
    known = broken.targets.claimed_fraction / kept.targets.claimed_fraction
    found = known * _fitting(search, broken, 1 / known, 1.0)
    return found if 1 + LEAST_RAISE < found < known / (1 + LEAST_RAISE) else sqrt(known)


def _most(search: PromiseSearch, kept: Attempt) -> float:
    """Multiple of the rate of a plan that it may serve at most: of a demand that is asked for not more than that."""
    plan, demand = kept.plan, search.scenario.demand_req_per_s
    most = NEARLY_FULL * plan.max_throughput_req_per_s
    if demand is not None and kept.stated.is_plain:
        most = min(most, demand)
    return max(most / plan.throughput_req_per_s, 1.0)


def _fitting(search: PromiseSearch, seen: Attempt, low: float, high: float) -> float:
    """Highest multiple of the rate of a plan whose predicted TTFT is what its run leaves room for, in a range."""
    goals = list(_goals(search, seen))

    def fits(times: float) -> bool:
        return all(_predicted_s(seen, name, share, period, times) <= most_s for name, share, period, most_s in goals)

    if not goals or fits(high):
        return high if goals else low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _goals(search: PromiseSearch, seen: Attempt) -> Iterator[tuple[str, float, str | None, float]]:
    """Of every promise on TTFT its class, the fraction of requests, the period, and what may be predicted [s]."""
    idle_s, allowed_s = seen.idle_s, relaxed_targets(search).ttft_s
    for one in seen.promises:
        name = one.request_class or next(iter(search.scenario.workloads))
        slo = search.scenario.slo_of(name)
        if one.metric == STEP or slo is None or name not in allowed_s:
            continue
        predicted_s = seen.ttft_quantile_s(name, slo.ttft_percentile, one.period)
        if predicted_s is not None:
            goal_s = as_long(predicted_s, one.limit, one.ci_high or one.executed, idle_s.get(name, 0.0))
            yield name, slo.ttft_percentile / 100, one.period, min(goal_s, allowed_s[name])


def _predicted_s(seen: Attempt, name: str, fraction: float, period: str | None, times: float) -> float:
    """TTFT that is predicted of a class at a multiple of the rate of a plan; infinite where a queue has no end [s]."""
    if seen.rate is None:
        found = Planned(seen.stated, seen.served.at(times)).class_ttft(name, period)
    else:
        found = Planned(seen.stated, seen.served).class_ttft(name, period, times * seen.rate)
    return float("inf") if found is None else found.quantile_s(fraction)
