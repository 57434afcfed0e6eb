"""Load of one request of a class on each pool and link of a route, by threshold: coefficients of the formulation."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.problem import Problem
from planner.optimizer.routes import Route
from planner.optimizer.work import ROUNDING_OF_SUMS, long_bytes, long_work_s, short_bytes, short_work_s
from planner.workload.mix import ALL_LONG, RequestMix

Array = NDArray[np.float64]
TRIED_AT_ONCE = 16
"""Lengths that a search looks at together: one by one they take longer."""


@dataclass(frozen=True)
class RouteLoads:
    """Load per request of the class for each candidate threshold of a route; one entry per candidate in every array."""

    low_tokens: Array
    high_tokens: Array
    """The candidate is the interval [low, high] of thresholds; a single threshold where both are equal."""
    long_fraction: Array
    long_s: Array
    """Instance-seconds in the pool for long prompts [s]."""
    short_s: Array
    """Instance-seconds in the pool for short prompts [s]."""
    long_bytes: Array
    """Bytes on the link of the long prompts [B]."""
    short_bytes: Array
    """Bytes on the link of the short prompts [B]."""

    @property
    def n_candidates(self) -> int:
        """Number of candidates."""
        return len(self.low_tokens)


def threshold_loads(problem: Problem, route: Route, thresholds_tokens: Array) -> RouteLoads:
    """Loads at exact thresholds.

    Equation:
        expected-work: W_long(t) = E[T(L); L > t], W_short(t) = E[T(L); L <= t], S_long(t) = E[S_kv(L); L > t];
        mean-length: W_long(t) = p T(E[L | L > t]) and so on, with p = P(L > t)

    Args:
        problem: the resolved scenario.
        route: which pools and links take the class.
        thresholds_tokens: thresholds t [tokens], shape (n,).

    Returns:
        Loads, shape (n,) each.

    Source:
        mean-length: Prefill-as-a-Service (arXiv 2604.15039v2), section 3 (Theta_prfaas, Theta_pd_p);
        expected-work: utilisation law (Denning and Buzen 1978), the work rate of a pool is at most its instances.
    """
    t = np.asarray(thresholds_tokens, float)
    return _optimistic(problem, route, t, t)


def interval_loads(problem: Problem, route: Route, low_tokens: Array, high_tokens: Array) -> RouteLoads:
    """Loads that no threshold in [low, high] can undercut: the coefficients of a proven bound.

    Equation:
        W_long falls and W_short grows with t, so W_long(high) and W_short(low) hold for the whole interval. For
        mean-length, p(high) T(E[L | L > low]) does, because p falls and T of the mean grows with t

    Args:
        problem: the resolved scenario.
        route: which pools and links take the class.
        low_tokens: lower ends [tokens], shape (n,).
        high_tokens: upper ends [tokens], shape (n,).

    Returns:
        Loads, shape (n,) each.

    Valid:
        T and S_kv non-decreasing in length.

    Source:
        Interval relaxation as in branch and bound (Land and Doig 1960).
    """
    return _optimistic(problem, route, np.asarray(low_tokens, float), np.asarray(high_tokens, float))


def _optimistic(problem: Problem, route: Route, low: Array, high: Array) -> RouteLoads:
    mix = problem.classes[route.request_class].mix
    long_s, long_bytes = _long_loads(problem, route, mix, low, high)
    short_s, short_bytes = _short_loads(problem, route, mix, low)
    return RouteLoads(low, high, mix.long_fraction(high), long_s, short_s, long_bytes, short_bytes)


def _long_loads(problem: Problem, route: Route, mix: RequestMix, low: Array, high: Array) -> tuple[Array, Array]:
    if route.long is None:
        return np.zeros_like(low), np.zeros_like(low)
    rates, rule = problem.pools[route.long].rates, problem.scenario.capacity_rule
    holds = route.long_link is not None and problem.links[route.long_link].destination_holds_prefix
    work_s = long_work_s(rule, rates.prefill, mix, low, high)
    is_any = mix.long_fraction(high) > ROUNDING_OF_SUMS
    return work_s * is_any, long_bytes(rule, rates.kv_bytes, mix, (low, high), holds) * is_any


def _short_loads(problem: Problem, route: Route, mix: RequestMix, low: Array) -> tuple[Array, Array]:
    """Seconds and bytes; short prompts cross a link only when their pool is not at the decode site."""
    if route.short is None:
        return np.zeros_like(low), np.zeros_like(low)
    rates = problem.pools[route.short].rates
    is_any = 1 - mix.long_fraction(low) > ROUNDING_OF_SUMS
    work_s = short_work_s(problem.scenario.capacity_rule, rates.prefill, mix, low) * is_any
    if route.short_link is None:
        return work_s, np.zeros_like(low)
    sent = short_bytes(rates.kv_bytes, mix, low, problem.links[route.short_link].destination_holds_prefix)
    return work_s, sent * is_any


def decode_s(problem: Problem, route: Route) -> float:
    """Instance-seconds of the decode pool per request of the class [s]."""
    point = problem.pools[route.decode].rates.decode
    if point is None:
        raise ValueError("a decode pool has no decode point")
    return point.seconds_per_request(problem.classes[route.request_class].mix.mean_output_tokens)


def first_thresholds(problem: Problem, route: Route) -> Array:
    """The first grid of a route: the user's threshold, none where nothing is split, or quantiles of length [tokens]."""
    mix = problem.classes[route.request_class].mix
    fixed = problem.scenario.routing.threshold_tokens
    if route.long is None:
        return np.array([mix.support[1]])
    if route.short is None:
        return np.array([ALL_LONG])
    if fixed != "free":
        return np.array([float(fixed)])
    grid = mix.threshold_grid(problem.scenario.routing.n_candidates)
    return route.thresholds_that_fit(np.concatenate([[ALL_LONG], grid, [mix.support[1]]]))


def first_intervals(problem: Problem, route: Route) -> tuple[Array, Array]:
    """Intervals between the thresholds of the first grid; together they cover every threshold."""
    grid = first_thresholds(problem, route)
    return intervals(grid, float(grid[-1]))


def intervals(starts: Array, end: float) -> tuple[Array, Array]:
    """Lower and upper ends: each interval stops one float before the next starts, and the last at `end`.

    Lengths that many requests share change the loads in steps. Were a step an inner end of two intervals, both could
    leave its requests out: those at the end are not long and those at the start not short.
    """
    return starts, np.append(np.nextafter(starts[1:], -np.inf), end)


def split_interval(mix: RequestMix, low: float, high: float, n: int) -> tuple[Array, Array]:
    """The interval cut into at most n + 3 parts that together hold every threshold of it; its last one is a part."""
    inner = mix.split_points(low, high, n)
    if not mix.is_discrete:
        inner = np.append(inner, _median(mix, low, high))
    inner = inner[(inner > low) & (inner < high)]
    return intervals(np.unique(np.concatenate([[low], inner, [high]])), high)


def _median(mix: RequestMix, low: float, high: float) -> float:
    """Least threshold of an interval that half of its requests do not exceed: the length that most share, if any."""
    half = (mix.long_fraction(low) + mix.long_fraction(high)) / 2
    while low < low + (high - low) / 2 < high:
        tried = np.unique(np.linspace(low, high, TRIED_AT_ONCE + 2))
        above = int(np.count_nonzero(mix.long_fraction(tried[1:-1]) > half))
        low, high = float(tried[above]), float(tried[above + 1])
    return high


def exact_loads(problem: Problem, threshold_tokens: float) -> RouteLoads:
    """Loads of the route of a problem that has one, at one threshold."""
    return threshold_loads(problem, problem.route, np.array([threshold_tokens]))
