"""How many requests keep a TTFT promise, and the rate at which the promise still holds, for fixed sizes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from itertools import count
from math import inf
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.capacity import first_intervals, interval_loads, split_interval
from planner.optimizer.delays import (
    admission_wait,
    arrival_scvs,
    link_bytes_per_s,
    link_slowdown,
    sending_s,
    sent_bytes,
)
from planner.optimizer.evaluate import rate_limits
from planner.optimizer.formulation import Sizing
from planner.optimizer.problem import Problem
from planner.optimizer.routes import Route
from planner.queueing import NO_WAIT, Path, Service, Ttft, Wait, gigc_wait, split_scv
from planner.roofline import exposed_transfer_s
from planner.units import bytes_per_s
from planner.workload import weighted_quantile

Array = NDArray[np.float64]
Stream = tuple[int, int | None, NDArray[np.bool_]]
"""Prefill pool, link and which of the requests go there."""
N_ATOMS = 4096
"""Requests that stand for a length distribution, as for the latencies of the answer."""
EXACT_STEPS = 13
"""Halvings of the rate at one threshold: a part in 8,192 is left."""
BOUND_STEPS = 3
"""Halvings for an interval, which will be cut again anyway."""
MOST_BUSY = 0.98
"""Of decode and links under a promise: their waits grow without bound beyond."""
GAP = 2e-3
"""Goodput is found and proven to this."""
PARTS = 4
FIRST_CELLS = 16
SATURATED = 1 - 1e-9
SHARE_TOLERANCE = 1e-12


@dataclass(frozen=True)
class Goodput:
    """The rate at which a promise still holds."""

    rate: float
    """The best that was found [req/s]; 0 when the promise holds at no rate."""
    threshold_tokens: float
    """Threshold that reaches it [tokens]."""
    bound: float
    """No threshold reaches more than this [req/s]."""


@dataclass(frozen=True, eq=False)
class PromisedFleet:
    """Fixed sizes of a problem with one route, ready to be held against its promise."""

    problem: Problem
    sizing: Sizing

    @property
    def promise_s(self) -> float:
        """TTFT that is promised [s]."""
        slo = self.problem.slo
        return inf if slo is None or slo.ttft_s is None else slo.ttft_s

    @property
    def late_allowed(self) -> float:
        """Fraction of requests that may take longer."""
        return 1 - self.problem.ttft_percentile / 100

    def late_fraction(self, low_tokens: float, high_tokens: float, req_per_s: float) -> float:
        """Fraction of requests that break the promise, at the least, with any threshold of an interval.

        Equation:
            P(L > high) P(W_long + T + X > x | L > high) + P(L <= low) P(W_short + T > x | L <= low): requests between
            low and high load no queue and are never late; exact where both ends are one threshold

        Args:
            low_tokens: least threshold [tokens].
            high_tokens: greatest threshold [tokens].
            req_per_s: rate of the whole fleet [req/s].

        Returns:
            Fraction of all requests; a queue without a steady state makes all of its requests late.

        Valid:
            One shared queue per pool, renewal arrivals; transfers stretched by the mean, by the load of these requests
            alone; places in decode batches as in `planner.optimizer.delays.admission_wait`.

        Source:
            A queue with fewer arrivals has no longer waits (coupling); waits as in `planner.queueing.gigc_wait`.
        """
        paths = self._paths(low_tokens, high_tokens, req_per_s)
        if paths is None:
            return 1.0
        return sum(
            share if path is None else share * float(Ttft.of([path]).survival(self.promise_s)) for share, path in paths
        )

    def goodput_within(self, low_tokens: float, high_tokens: float, most: float, least: float = 0.0) -> float:
        """Highest rate up to `most` at which any threshold of an interval might keep the promise [req/s].

        Args:
            low_tokens: least threshold [tokens].
            high_tokens: greatest threshold [tokens].
            most: rate that capacity allows [req/s].
            least: rate below which the answer does not matter [req/s].

        Returns:
            The rate; 0 where not even `least` is kept.
        """
        is_exact = low_tokens == high_tokens
        steps = EXACT_STEPS if is_exact else BOUND_STEPS
        if most <= 0 or not self._keeps(low_tokens, high_tokens, max(least, most * 2.0**-EXACT_STEPS)):
            return 0.0
        if self._keeps(low_tokens, high_tokens, most):
            return most
        low, high = least, most
        for _ in range(steps):
            middle = (low + high) / 2
            low, high = (middle, high) if self._keeps(low_tokens, high_tokens, middle) else (low, middle)
        return low if is_exact else high

    def unloaded_percentile_s(self, threshold_tokens: float) -> float:
        """The promised percentile of TTFT without waiting, at one threshold [s]."""
        route, is_long = self._route, self._uncached > threshold_tokens
        seconds = np.zeros_like(self._weights)
        for pool, link, chosen in ((route.long, route.long_link, is_long), (route.short, route.short_link, ~is_long)):
            if pool is not None:
                seconds[chosen] = (self._service_s(pool) + self._transfer_s(pool, link))[chosen]
        return float(weighted_quantile(seconds, self._weights, np.array(1 - self.late_allowed)))

    def may_fill_a_link(self) -> bool:
        """Whether the instances that send over a link, all busy with whatever requests, could ask for more than it has.

        Equation:
            sum over pools of n max over requests of min(B, S / (T (n_layers - 1) / n_layers)) > B: where it does not
            hold, `link_slowdown` is 1 at every threshold and rate
        """
        return any(
            sum(self._most_sent_per_s(pool, link) for pool in senders)
            > link_bytes_per_s(self.problem, self.sizing, link)
            for link, senders in self.senders.items()
        )

    @property
    def senders(self) -> dict[int, list[int]]:
        """Prefill pools that send over each link that the route uses."""
        route, found = self._route, dict[int, list[int]]()
        for pool, link in ((route.long, route.long_link), (route.short, route.short_link)):
            if pool is not None and link is not None:
                found.setdefault(link, []).append(pool)
        return found

    def _most_sent_per_s(self, pool: int, link: int) -> float:
        sending_s, sent = self._sending_s(pool, link), self._sent_bytes(pool, link)
        is_sent = sending_s > 0
        speeds = sent[is_sent] / sending_s[is_sent]
        return self._n_places(pool) * float(speeds.max(initial=0.0))

    def _n_places(self, pool: int) -> int:
        """Prompts that a pool prefills at once."""
        return self.sizing.n_instances[pool] * self.problem.pools[pool].rates.places

    def _keeps(self, low: float, high: float, rate: float) -> bool:
        return self.late_fraction(low, high, rate) <= self.late_allowed + 1e-12

    def _slowdown(self, link: int | None, streams: Sequence[Stream], req_per_s: float) -> float:
        mine = [(pool, chosen) for pool, used, chosen in streams if used == link]
        if link is None or not any(chosen.any() for _, chosen in mine):
            return 1.0
        load, n_at_once = (
            req_per_s * sum(float((table(pool, link) * self._weights)[chosen].sum()) for pool, chosen in mine)
            for table in (self._sent_bytes, self._sending_s)
        )
        n_places = [self._n_places(pool) for pool, _ in mine]
        n_busy = [req_per_s * float((self._service_s(pool) * self._weights)[chosen].sum()) for pool, chosen in mine]
        return link_slowdown(link_bytes_per_s(self.problem, self.sizing, link), load, n_at_once, n_places, n_busy)

    def _paths(self, low_tokens: float, high_tokens: float, req_per_s: float) -> list[tuple[float, Path | None]] | None:
        """Shares of all requests and what they go through; None where decode has no place for them in the long run."""
        admission = admission_wait(self.problem, self.sizing, self._route.decode, (req_per_s,))
        if admission is None:
            return None
        streams = self._streams(low_tokens, high_tokens)
        slowdown = {link: self._slowdown(link, streams, req_per_s) for _, link, _ in streams}
        return [
            (share, self._path(*stream, req_per_s, slowdown[stream[1]], admission))
            for stream in streams
            if (share := float(self._weights[stream[2]].sum())) > 0
        ]

    def _path(
        self,
        pool: int,
        link: int | None,
        chosen: NDArray[np.bool_],
        req_per_s: float,
        slowdown: float,
        admission: Wait,
    ) -> Path | None:
        """What the chosen requests go through, as if they were all; None where their queue has no steady state."""
        share = float(self._weights[chosen].sum())
        n, service_s = self._n_places(pool), self._service_s(pool)[chosen]
        weights = self._weights[chosen] / share
        service = Service.of(service_s, weights)
        rate = req_per_s * share
        if n == 0 or rate * service.mean_s >= n * SATURATED or slowdown == inf:
            return None
        wait = gigc_wait(n, rate, service, split_scv(arrival_scvs(self.problem)[0], share))
        extra_s = self._transfer_s(pool, link) + (slowdown - 1) * self._sending_s(pool, link)
        return Path.of(1.0, service_s, weights, wait, extra_s[chosen], admission)

    def percentile_s(self, low_tokens: float, high_tokens: float, req_per_s: float) -> float:
        """The promised percentile of TTFT at a rate, at the least, with any threshold of an interval.

        Equation:
            inf x with late_fraction(low, high, rate) <= 1 - percentile / 100 for a promise of x

        Args:
            low_tokens: least threshold [tokens].
            high_tokens: greatest threshold [tokens].
            req_per_s: rate of the whole fleet [req/s].

        Returns:
            Seconds; inf where a queue has no steady state. Exact where both ends are one threshold.

        Valid:
            As for `late_fraction`; whether decode and links carry the rate is not looked at.
        """
        found = self._paths(low_tokens, high_tokens, req_per_s)
        if found is None or any(path is None for _, path in found):
            return inf
        paths = [replace(path, share_fraction=share) for share, path in found if path is not None]
        rest = 1.0 - sum(share for share, _ in found)
        if rest > SHARE_TOLERANCE:
            paths.append(Path.of(rest, [0.0], [1.0], NO_WAIT))  # between the ends: never late
        total = sum(path.share_fraction for path in paths)
        whole = [replace(path, share_fraction=path.share_fraction / total) for path in paths]
        return Ttft.of(whole).quantile_s(1 - self.late_allowed)

    def _streams(self, low_tokens: float, high_tokens: float) -> list[Stream]:
        """Pool, link and requests that surely take them with any threshold of an interval: long ones, short ones."""
        return [
            (pool, link, chosen)
            for pool, link, chosen in (
                (self._route.long, self._route.long_link, self._uncached > high_tokens),
                (self._route.short, self._route.short_link, self._uncached <= low_tokens),
            )
            if pool is not None
        ]

    @property
    def _route(self) -> Route:
        return self.problem.routes[0]

    @cached_property
    def _atoms(self) -> tuple[Array, Array, Array]:
        total, cached, weights = self.problem.classes[0].mix.atoms(N_ATOMS)
        return total, cached, weights

    @property
    def _uncached(self) -> Array:
        return self._atoms[0] - self._atoms[1]

    @property
    def _weights(self) -> Array:
        return self._atoms[2]

    def _service_s(self, pool: int) -> Array:
        if pool not in self._services:
            service = self.problem.pools[pool].rates.prefill
            if service is None:
                raise ValueError("a prefill pool has no prefill times")
            self._services[pool] = np.asarray(service.seconds(*self._atoms[:2]))
        return self._services[pool]

    def _transfer_s(self, pool: int, link: int | None) -> Array:
        if (pool, link) not in self._transfers:
            self._transfers[pool, link] = transfer_s(
                self.problem, self.sizing, pool, link, *self._atoms[:2], self._service_s(pool)
            )
        return self._transfers[pool, link]

    def _sent_bytes(self, pool: int, link: int | None) -> Array:
        if (pool, link) not in self._sent:
            self._sent[pool, link] = sent_bytes(self.problem, pool, link, *self._atoms[:2])
        return self._sent[pool, link]

    def _sending_s(self, pool: int, link: int | None) -> Array:
        if (pool, link) not in self._sending:
            self._sending[pool, link] = sending_s(
                self.problem, self.sizing, pool, link, self._sent_bytes(pool, link), self._service_s(pool)
            )
        return self._sending[pool, link]

    @cached_property
    def _sent(self) -> dict[tuple[int, int | None], Array]:
        return {}

    @cached_property
    def _sending(self) -> dict[tuple[int, int | None], Array]:
        return {}

    @cached_property
    def _services(self) -> dict[int, Array]:
        return {}

    @cached_property
    def _transfers(self) -> dict[tuple[int, int | None], Array]:
        return {}


def least_promise_s(problem: Problem, sizing: Sizing) -> float:
    """Shortest TTFT that fixed sizes could promise: without any waiting, over the thresholds of the first grid [s].

    Equation:
        min over t of the stated percentile of T + X, each request in the pool that t sends it to

    Args:
        problem: a problem with one route and a promise.
        sizing: instances and ports; only the ports matter.

    Returns:
        Seconds.
    """
    fleet = PromisedFleet(problem, sizing)
    return min(fleet.unloaded_percentile_s(float(t)) for t in first_intervals(problem, problem.routes[0])[1])


def least_decode_instances(problem: Problem, req_per_s: float, most: int) -> int:
    """Decode instances below which no size of anything else keeps the promise.

    Equation:
        the least n with P(A_n + min over pools of T > x) <= the fraction that may be late, A_n the wait for a place in
        the batches of n instances

    Args:
        problem: a problem with one route and a promise.
        req_per_s: rate of the whole fleet [req/s].
        most: instances beyond which not to look.

    Returns:
        Instances; `most` where even those are too few.
    """
    route, decode = problem.routes[0], problem.routes[0].decode
    fleet = PromisedFleet(problem, Sizing((0,) * len(problem.pools), tuple((0,) * len(k.tiers) for k in problem.links)))
    pools = [pool for pool in (route.long, route.short) if pool is not None]
    least_s = np.min([fleet._service_s(pool) for pool in pools], axis=0)
    low, high = 0, most
    while high - low > 1:
        n = (low + high) // 2
        sizing = Sizing(tuple(n if i == decode else 0 for i in range(len(problem.pools))), fleet.sizing.n_ports)
        admission = admission_wait(problem, sizing, decode, (req_per_s,))
        kept = (
            admission is not None
            and Ttft.of([Path.of(1.0, least_s, fleet._weights, NO_WAIT, 0.0, admission)]).survival(fleet.promise_s)
            <= fleet.late_allowed + 1e-9
        )
        low, high = (low, n) if kept else (n, high)
    return high


def transfer_s(
    problem: Problem,
    sizing: Sizing,
    pool: int,
    link: int | None,
    total: Array,
    cached: Array,
    service_s: Array,
) -> Array:
    """What is left of the KV transfer of each request when its prefill ends, on an idle link [s]."""
    rates = problem.pools[pool].rates
    sent = sent_bytes(problem, pool, link, total, cached)
    if link is None:
        fabric = problem.scenario.sites[problem.pools[pool].site].fabric_gbps
        if fabric is None:
            return np.zeros_like(service_s)
        return exposed_transfer_s(service_s, sent, bytes_per_s(fabric), 0.0, rates.n_layers)
    spec = problem.links[link]
    bandwidth = bytes_per_s(spec.gbps(sizing.n_ports[link]))
    if bandwidth <= 0:
        return np.full_like(service_s, inf)
    return exposed_transfer_s(service_s, sent, bandwidth, spec.round_trip_s, rates.n_layers)


def best_goodput(problem: Problem, sizing: Sizing, deadline: float, least: float = 0.0) -> Goodput:
    """The highest rate at which fixed sizes keep the promise, over every threshold, and a proof of how high it may be.

    Intervals of thresholds wait in a heap by their bound: what capacity allows, then what the promise might. The best
    one is tried at a threshold inside and cut, until nothing left in the heap can do better.

    Args:
        problem: a problem with one route and a promise.
        sizing: instances and ports.
        deadline: `monotonic()` time to stop at.
        least: rate below which the answer does not matter [req/s].

    Returns:
        The goodput, its threshold and its bound.

    Source:
        Branch and bound (Land and Doig 1960).
    """
    fleet, order = PromisedFleet(problem, sizing), count()
    best = _tried_at(fleet, Goodput(0.0, 0.0, 0.0), balanced_threshold(problem, sizing), inf)
    heap: list[tuple[float, int, float, float, bool]] = []

    def add(lows: Array, highs: Array, most: float) -> None:
        for low, high, bound in zip(lows, highs, promised_capacity(problem, sizing, lows, highs), strict=True):
            heappush(heap, (-min(bound, most), next(order), float(low), float(high), False))

    add(*first_cells(problem), inf)
    while heap:
        negative, _, low, high, is_tight = heappop(heap)
        floor = max(best.rate, least)
        if -negative <= floor * (1 + GAP) or monotonic() > deadline:
            return Goodput(best.rate, best.threshold_tokens, max(-negative, floor * (1 + GAP)))
        if not is_tight:
            tight = fleet.goodput_within(low, high, -negative, floor)
            if tight > floor * (1 + GAP):
                heappush(heap, (-tight, next(order), low, high, True))
            continue
        best = _tried(fleet, best, low, high, -negative)
        if low < high:
            mix = problem.classes[0].mix
            lows, highs = split_interval(mix, low, high, PARTS)
            if len(lows) > 1:
                add(lows, highs, -negative)
    return Goodput(best.rate, best.threshold_tokens, max(best.rate, least) * (1 + GAP))


def sizes_to_settle(problem: Problem, sizing: Sizing) -> Iterator[Sizing]:
    """Sizes whose best plans bound those of some sizes and of all smaller ones.

    Where instances can fill a link together, more of them send more at once, and every transfer is stretched further:
    such sizes come one by one, down to those that cannot.

    Args:
        problem: a problem with one route and a promise.
        sizing: the largest sizes.
    """
    waiting, seen = [sizing], {sizing}
    while waiting:
        sizing = waiting.pop()
        yield sizing
        fleet = PromisedFleet(problem, sizing)
        if not fleet.may_fill_a_link():
            continue
        for pool in sorted({pool for senders in fleet.senders.values() for pool in senders}):
            n = tuple(m - (i == pool) for i, m in enumerate(sizing.n_instances))
            fewer = replace(sizing, n_instances=n)
            if n[pool] > 0 and fewer not in seen:
                waiting.append(fewer)
                seen.add(fewer)


def best_settled(problem: Problem, sizing: Sizing, deadline: float, least: float = 0.0) -> tuple[Sizing, Goodput]:
    """The best goodput of some sizes and of all smaller ones, with a bound for all of them.

    Args:
        problem: a problem with one route and a promise.
        sizing: the largest sizes.
        deadline: `monotonic()` time to stop at.
        least: rate below which the answer does not matter [req/s].

    Returns:
        The sizes that reach it, and the goodput [req/s]; the bound is `sizing`'s own and that of every smaller one.
    """
    at, best, bound = sizing, Goodput(0.0, 0.0, 0.0), 0.0
    for smaller in sizes_to_settle(problem, sizing):
        if bound > 0 and monotonic() > deadline:  # capacity bounds what is left: it never falls with the sizes
            return at, replace(best, bound=max(promised_capacity(problem, sizing, *first_cells(problem))))
        found = best_goodput(problem, smaller, deadline, max(least, best.rate))
        bound = max(bound, found.bound)
        if found.rate > best.rate:
            at, best = smaller, found
    return at, replace(best, bound=bound)


def first_cells(problem: Problem) -> tuple[Array, Array]:
    """A few wide intervals that together hold every threshold: those that matter are cut soon enough."""
    lows, highs = first_intervals(problem, problem.routes[0])
    step = -(-len(lows) // FIRST_CELLS)
    return lows[::step], np.append(highs[step - 1 : len(highs) - 1 : step], highs[-1])


def _tried(fleet: PromisedFleet, best: Goodput, low: float, high: float, most: float) -> Goodput:
    """The better of a plan and a threshold from the middle of an interval, or the interval's own if it is one."""
    inner = fleet.problem.classes[0].mix.split_points(low, high, 1) if low < high else np.array([low])
    return _tried_at(fleet, best, float(inner[len(inner) // 2]) if len(inner) else high, most)


def _tried_at(fleet: PromisedFleet, best: Goodput, threshold: float, most: float) -> Goodput:
    exact = promised_capacity(fleet.problem, fleet.sizing, np.array([threshold]), np.array([threshold]))[0]
    rate = fleet.goodput_within(threshold, threshold, min(exact, most), best.rate)
    return Goodput(rate, threshold, rate) if rate > best.rate else best


def balanced_threshold(problem: Problem, sizing: Sizing) -> float:
    """Threshold that serves most by prefill capacity: where the search begins [tokens]."""
    _, highs = first_intervals(problem, problem.routes[0])
    limits = rate_limits(problem, sizing, interval_loads(problem, problem.routes[0], highs, highs))
    decode = problem.pools[problem.routes[0].decode].name
    prefill = np.min([limit for name, limit in limits.items() if name != decode], axis=0)
    return float(highs[int(np.argmax(prefill))])


def promised_capacity(problem: Problem, sizing: Sizing, lows: Array, highs: Array) -> list[float]:
    """Rate that fits any threshold of each interval, decode and links at most MOST_BUSY [req/s]."""
    limits = rate_limits(problem, sizing, interval_loads(problem, problem.routes[0], lows, highs))
    prefill = {pool.name for pool in problem.pools if pool.role == "prefill"}
    found = [limit * (SATURATED if name in prefill else MOST_BUSY) for name, limit in limits.items()]
    return [float(rate) for rate in np.min(found, axis=0)]
