"""Time to first token and per output token of a plan, with empty queues and at its operating point."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.delays import (
    SATURATED,
    admission_wait,
    arrival_scvs,
    decode_step_s,
    link_bytes_per_s,
    link_slowdown,
    sending_s,
    sent_bytes,
)
from planner.optimizer.evaluate import Operating, link_mean_bytes_per_s, pool_utilization
from planner.optimizer.formulation import Sizing
from planner.optimizer.problem import PlanningProblem
from planner.optimizer.promise import transfer_s
from planner.optimizer.search import Solution
from planner.queueing import (
    NO_WAIT,
    Path,
    Service,
    Ttft,
    Wait,
    gigc_wait,
    merged_scv,
    split_scv,
)
from planner.results import Latency
from planner.units import bytes_per_s

Array = NDArray[np.float64]

N_ATOMS = 4096
"""Requests that stand for a continuous length distribution: quantiles are then good to about 1e-3."""


@dataclass(frozen=True)
class Branch:
    """Requests of one route that take one pool: their service, what follows it, and how many there are per second."""

    request_class: int
    pool: int
    link: int | None
    decode: int
    req_per_s: float
    service_s: Array
    transfer_s: Array
    """What is left of the transfer when prefill ends, on an idle link [s]."""
    sending_s: Array
    """Time that the whole transfer takes on an idle link, from the first layer's end on [s]."""
    weights: Array


@dataclass(frozen=True, eq=False)
class Delays:
    """What load adds to the time to first token."""

    prefill: dict[int, Wait]
    """Wait of every prefill pool in use."""
    slowdown: dict[int, float]
    """Factor by which sharing stretches transfers, of every link in use."""
    admission: dict[int, Wait]
    """Wait for a place in the batches of every decode pool in use."""


NO_DELAYS = Delays(defaultdict(lambda: NO_WAIT), defaultdict(lambda: 1.0), defaultdict(lambda: NO_WAIT))
"""Those of an empty system."""


def branches(problem: PlanningProblem, solution: Solution, operating: Operating) -> list[Branch]:
    """Every stream of requests into a prefill pool at an operating point."""
    found = []
    for r, route in enumerate(problem.routes):
        mix = problem.classes[route.request_class].mix
        total, cached, weights = mix.atoms(N_ATOMS)
        is_long = (total - cached) > solution.thresholds_tokens[r]
        for pool, link, chosen in ((route.long, route.long_link, is_long), (route.short, route.short_link, ~is_long)):
            share = float(weights[chosen].sum())
            if pool is not None and share > 0 and operating.route_rates[r] > 0:
                kind = total[chosen], cached[chosen]
                service_s = _service_s(problem, pool, *kind)
                exposed_s = transfer_s(problem, solution.sizing, pool, link, *kind, service_s)
                sent = sent_bytes(problem, pool, link, *kind)
                on_link_s = sending_s(problem, solution.sizing, pool, link, sent, service_s)
                rate = operating.route_rates[r] * share
                kinds = _condensed(service_s, exposed_s, on_link_s, weights[chosen] / share)
                found.append(Branch(route.request_class, pool, link, route.decode, rate, *kinds))
    return found


def _condensed(service_s: Array, transfer_s: Array, sending_s: Array, weights: Array) -> tuple[Array, ...]:
    """At most N_ATOMS kinds of request: neighbours in time are merged at their mean, which keeps every mean exact."""
    if len(weights) <= N_ATOMS:
        return service_s, transfer_s, sending_s, weights
    order = np.argsort(service_s + transfer_s, kind="stable")
    group = np.minimum((np.cumsum(weights[order]) * N_ATOMS).astype(np.intp), N_ATOMS - 1)
    mass: Array = np.bincount(group, weights[order]).astype(np.float64)
    used = mass > 0
    seconds = (service_s, transfer_s, sending_s)
    return *(np.bincount(group, (x * weights)[order])[used] / mass[used] for x in seconds), mass[used]


def _service_s(problem: PlanningProblem, pool: int, total: Array, cached: Array) -> Array:
    service = problem.pools[pool].rates.prefill
    if service is None:
        raise ValueError("a prefill pool has no prefill times")
    return np.asarray(service.seconds(total, cached))


def extrapolated_fraction(problem: PlanningProblem, solution: Solution, pool: int) -> float:
    """Share of the prompts of a prefill pool whose length is outside what its curve was measured for."""
    service = problem.pools[pool].rates.prefill
    sent = beyond = 0.0
    for r, route in enumerate(problem.routes):
        total, cached, weights = problem.classes[route.request_class].mix.atoms(N_ATOMS)
        is_long = (total - cached) > solution.thresholds_tokens[r]
        mine = is_long * (route.long == pool) | ~is_long * (route.short == pool)
        rate = solution.operating.route_rates[r] * weights[mine]
        sent += float(rate.sum())
        beyond += float(rate[service.curve.is_extrapolated(total[mine])].sum()) if service else 0.0
    return beyond / sent if sent > 0 else 0.0


def leaving_tokens(problem: PlanningProblem, solution: Solution, pool: int) -> float:
    """Mean tokens per instance of a prefill pool whose caches are prefilled and have not left yet.

    Equation:
        lambda / n E[L X], X the part of the transfer that is left when prefill ends

    Args:
        problem: the resolved scenario.
        solution: sizes and thresholds.
        pool: index of the pool.

    Returns:
        Tokens [tokens]; 0 for a pool without instances.

    Source:
        Little (1961), Operations Research 9, 383, of tokens instead of customers.
    """
    n, tokens_s = solution.sizing.n_instances[pool], 0.0
    for r, route in enumerate(problem.routes):
        total, cached, weights = problem.classes[route.request_class].mix.atoms(N_ATOMS)
        is_long = (total - cached) > solution.thresholds_tokens[r]
        for end, link, chosen in ((route.long, route.long_link, is_long), (route.short, route.short_link, ~is_long)):
            if end == pool and chosen.any():
                kind = total[chosen], cached[chosen]
                left_s = transfer_s(problem, solution.sizing, pool, link, *kind, _service_s(problem, pool, *kind))
                tokens_s += solution.operating.route_rates[r] * float(weights[chosen] @ (total[chosen] * left_s))
    return tokens_s / n if n else 0.0


def longest_sent(problem: PlanningProblem, solution: Solution, pool: int) -> float:
    """Longest prompt that a solution sends to a prefill pool [tokens]; 0 where it sends none."""
    found = [0.0]
    for route, t in zip(problem.routes, solution.thresholds_tokens, strict=True):
        mix = problem.classes[route.request_class].mix
        found += [mix.longest_tokens(t)] if route.long == pool else []
        found += [mix.longest_tokens(high_tokens=t)] if route.short == pool else []
    return max(found)


def latencies(problem: PlanningProblem, solution: Solution, operating: Operating) -> list[Latency]:
    """Latency of every class, then of all requests together.

    Args:
        problem: the resolved scenario.
        solution: sizes and thresholds.
        operating: the rate and its spread over routes.

    Returns:
        One more latency than classes; loaded TTFT is None where a pool is saturated or its discipline has no model.
    """
    streams = branches(problem, solution, operating)
    delays = _delays(problem, solution, operating, streams)
    groups = [[b for b in streams if b.request_class == c] for c in range(len(problem.classes))]
    return [_latency(problem, solution.sizing, operating, group, delays) for group in (*groups, streams)]


def loaded_ttft(problem: PlanningProblem, solution: Solution, req_per_s: float) -> Ttft | None:
    """Distribution of TTFT over all requests at a rate [req/s]; None where the queueing room has no answer."""
    operating = solution.operating.scaled_to(req_per_s)
    streams = branches(problem, solution, operating)
    delays = _delays(problem, solution, operating, streams)
    return None if delays is None else _ttft(streams, delays)


def _delays(
    problem: PlanningProblem, solution: Solution, operating: Operating, streams: Sequence[Branch]
) -> Delays | None:
    """What load adds in every pool and on every link in use; None where the queueing room has no answer."""
    if not has_queueing_model(problem) or _is_saturated(problem, solution, operating):
        return None
    waits = {}
    for pool, group in _grouped(streams, lambda b: b.pool).items():
        wait = _prefill_wait(problem, operating, solution.sizing.n_instances[pool], group)
        if wait is None:
            return None
        waits[pool] = wait
    decode = {b.decode for b in streams}
    admission = {p: admission_wait(problem, solution.sizing, p, operating.route_rates) or NO_WAIT for p in decode}
    by_link = _grouped([b for b in streams if b.link is not None], lambda b: b.link or 0)
    slowdown = {link: _slowdown(problem, solution, operating, link, group) for link, group in by_link.items()}
    return Delays(waits, slowdown, admission)


def _grouped(streams: Sequence[Branch], key: Callable[[Branch], int]) -> dict[int, list[Branch]]:
    groups: dict[int, list[Branch]] = defaultdict(list)
    for branch in streams:
        groups[key(branch)].append(branch)
    return groups


def _prefill_wait(
    problem: PlanningProblem, operating: Operating, n_instances: int, group: Sequence[Branch]
) -> Wait | None:
    """Wait of a prefill pool; None where it has no steady state."""
    rate = sum(b.req_per_s for b in group)
    weights = np.concatenate([b.weights * b.req_per_s / rate for b in group])
    service = Service.of(np.concatenate([b.service_s for b in group]), weights)
    if rate * service.mean_s >= n_instances * SATURATED:
        return None
    return gigc_wait(n_instances, rate, service, _pool_scv(problem, operating, group))


def _pool_scv(problem: PlanningProblem, operating: Operating, group: Sequence[Branch]) -> float:
    """Squared variation of the gaps between a pool's arrivals: each class split between pools, then merged in one."""
    scvs, rates = arrival_scvs(problem), [0.0] * len(problem.classes)
    for branch in group:
        rates[branch.request_class] += branch.req_per_s
    whole = [0.0] * len(problem.classes)
    for route, rate in zip(problem.routes, operating.route_rates, strict=True):
        whole[route.request_class] += rate
    used = [c for c, rate in enumerate(rates) if rate > 0]
    return merged_scv([rates[c] for c in used], [split_scv(scvs[c], rates[c] / whole[c]) for c in used])


def _slowdown(
    problem: PlanningProblem, solution: Solution, operating: Operating, link: int, group: Sequence[Branch]
) -> float:
    """Factor by which sharing stretches the transfers on a link."""
    load = link_mean_bytes_per_s(problem, solution.loads, operating)[link]
    n_at_once = sum(b.req_per_s * float(b.sending_s @ b.weights) for b in group)
    pools = sorted({b.pool for b in group})
    n_instances = [solution.sizing.n_instances[pool] for pool in pools]
    n_busy = [sum(b.req_per_s * float(b.service_s @ b.weights) for b in group if b.pool == pool) for pool in pools]
    return link_slowdown(link_bytes_per_s(problem, solution.sizing, link), load, n_at_once, n_instances, n_busy)


def _is_saturated(problem: PlanningProblem, solution: Solution, operating: Operating) -> bool:
    """Whether a pool or a link has no steady state at the operating point."""
    sent = link_mean_bytes_per_s(problem, solution.loads, operating)
    links = zip(problem.links, solution.sizing.n_ports, sent, strict=True)
    full = [b > 0 and b >= SATURATED * bytes_per_s(link.gbps(ports)) for link, ports, b in links]
    return any(full) or max(pool_utilization(problem, solution.sizing, solution.loads, operating)) >= SATURATED


def has_queueing_model(problem: PlanningProblem) -> bool:
    """Whether waits can be computed for the disciplines of the scenario."""
    scenario = problem.scenario
    return scenario.dispatch == "shared-queue" and scenario.prefill_batching == "one-at-a-time"


def _latency(
    problem: PlanningProblem, sizing: Sizing, operating: Operating, streams: Sequence[Branch], delays: Delays | None
) -> Latency:
    loaded = None if delays is None else _ttft(streams, delays)
    return latency_of(loaded, _ttft(streams, NO_DELAYS), _tpot_mean_s(problem, sizing, operating))


def latency_of(loaded: Ttft | None, unloaded: Ttft | None, tpot_mean_s: float | None) -> Latency:
    """Figures of latency as an answer states them [s], from TTFT with waits and without; None where one is unknown."""
    return Latency(
        ttft_mean_s=loaded.mean_s if loaded else None,
        ttft_p50_s=loaded.quantile_s(0.50) if loaded else None,
        ttft_p90_s=loaded.quantile_s(0.90) if loaded else None,
        ttft_p99_s=loaded.quantile_s(0.99) if loaded else None,
        ttft_unloaded_mean_s=unloaded.mean_s if unloaded else None,
        ttft_unloaded_p90_s=unloaded.quantile_s(0.90) if unloaded else None,
        tpot_mean_s=tpot_mean_s,
    )


def _ttft(streams: Sequence[Branch], delays: Delays) -> Ttft | None:
    total = sum(b.req_per_s for b in streams)
    if total <= 0:
        return None
    return Ttft.of([_path(b, b.req_per_s / total, delays) for b in streams])


def _path(branch: Branch, share: float, delays: Delays) -> Path:
    stretch = 0.0 if branch.link is None else delays.slowdown[branch.link] - 1
    extra_s = branch.transfer_s + stretch * branch.sending_s
    wait, admission = delays.prefill[branch.pool], delays.admission[branch.decode]
    return Path.of(share, branch.service_s, branch.weights, wait, extra_s, admission)


def _tpot_mean_s(problem: PlanningProblem, sizing: Sizing, operating: Operating) -> float | None:
    """Mean step time of the decode pools at the operating point, weighted by the rate each serves."""
    rates: dict[int, float] = defaultdict(float)
    for route, rate in zip(problem.routes, operating.route_rates, strict=True):
        rates[route.decode] += rate
    steps = [
        (rate, step_s)
        for pool, rate in rates.items()
        if (step_s := decode_step_s(problem, sizing, pool, operating.route_rates)) is not None
    ]
    total = sum(rate for rate, _ in steps)
    return sum(rate * step_s for rate, step_s in steps) / total if total > 0 else None
