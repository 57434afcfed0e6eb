"""Exhaustive search over sizes and thresholds: slow, obvious, and independent of the mixed-integer model."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from planner.optimizer.problem import Problem
from planner.optimizer.sized import is_within_limits
from planner.ties import exceeds, first_largest
from planner.units import bytes_per_s


@dataclass(frozen=True)
class Exhaustive:
    """The best of every plan tried."""

    rate: float
    """Highest rate [req/s]."""
    n_instances: tuple[int, ...]
    threshold_tokens: float


def exhaustive_search(problem: Problem, n_thresholds: int = 2001) -> Exhaustive:
    """Try every combination of pool sizes with every threshold of a dense grid.

    Args:
        problem: a max-throughput problem of one class with one pool for long prompts, one for short ones, one that
            decodes, and at most one link, all ports used.
        n_thresholds: thresholds between the shortest and the longest length.

    Returns:
        The highest rate and where it was found; for a continuous mix a lower bound that closes as the grid gets finer.

    Raises:
        ValueError: when the problem has several routes.

    Valid:
        Capacity rule `expected-work` or `mean-length`; accelerator limits, budget and ratio are respected.

    Source:
        Enumeration; the paper finds its own optimum by such a grid search.
    """
    if not problem.has_one_route:
        raise ValueError("exhaustive search covers one class with one route")
    mix = problem.classes[0].mix
    low, high = mix.support
    fixed = problem.scenario.routing.threshold_tokens
    every = np.concatenate([[-1.0, low, high], mix.split_points(low, high, n_thresholds)])
    thresholds = problem.route.thresholds_that_fit(every)
    if problem.route.is_split and fixed != "free":
        thresholds = np.array([float(fixed)])
    work = _work_per_request(problem, thresholds)
    ceiling = _link_ceiling(problem, thresholds)
    best = Exhaustive(0.0, (0,) * len(problem.pools), float(high))
    for sizes in _sizes(problem):
        rates = ceiling.copy()
        for n, seconds in zip(sizes, work, strict=True):
            rates = np.minimum(rates, np.divide(n, seconds, out=np.full_like(seconds, np.inf), where=seconds > 0))
        k = first_largest(rates)
        if exceeds(float(rates[k]), best.rate):
            best = Exhaustive(float(rates[k]), sizes, float(thresholds[k]))
    return best


def _sizes(problem: Problem) -> Iterator[tuple[int, ...]]:
    """Every combination of sizes within limits, inventories, budget and ratio."""
    ranges = [range(pool.min_instances, pool.max_instances + 1) for pool in problem.pools]
    yield from (sizes for sizes in product(*ranges) if is_within_limits(problem, sizes))


def _work_per_request(problem: Problem, thresholds: np.ndarray) -> list[np.ndarray]:
    """Instance-seconds per request in every pool, by threshold."""
    mix, exact = problem.classes[0].mix, problem.scenario.capacity_rule == "expected-work"
    p = mix.long_fraction(thresholds)
    work = []
    for pool in problem.pools:
        service, decode = pool.rates.prefill, pool.rates.decode
        prefill = None if service is None else service.occupancy
        if pool.role == "decode" and decode is not None:
            seconds = np.full_like(thresholds, decode.seconds_per_token * mix.mean_output_tokens)
        elif prefill is not None and pool.prompts == "long":
            at_mean = p * prefill.curve(np.nan_to_num(mix.mean_long_length(thresholds)))
            seconds = mix.long_work(prefill, thresholds) if exact else at_mean
        elif prefill is not None:
            length = mix.mean_short_length(thresholds)
            at_mean = np.where(np.isnan(length), 0.0, (1 - p) * prefill.curve(np.nan_to_num(length)))
            seconds = mix.short_work(prefill, thresholds) if exact else at_mean
        work.append(seconds)
    return work


def _link_ceiling(problem: Problem, thresholds: np.ndarray) -> np.ndarray:
    """Rate that the largest link allows, by threshold."""
    route, mix = problem.route, problem.classes[0].mix
    if route.long is None or route.long_link is None:
        return np.full_like(thresholds, np.inf)
    link, kv = problem.links[route.long_link], problem.pools[route.long].rates.kv_bytes
    if problem.scenario.capacity_rule == "expected-work":
        sent = mix.long_wire_bytes(kv, thresholds, link.destination_holds_prefix)
    else:
        sent = mix.long_fraction(thresholds) * kv(np.nan_to_num(mix.mean_long_length(thresholds)))
    capacity = bytes_per_s(link.max_gbps())
    return np.divide(capacity, sent, out=np.full_like(sent, np.inf), where=sent > 0)
