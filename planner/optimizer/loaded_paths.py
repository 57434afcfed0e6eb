"""Paths of the requests of a period under load: waits, transfers on busy links, places in batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from planner.optimizer.delays import Array, DecodeDemand, places_wait, stretched
from planner.optimizer.network.batches import own_rate
from planner.queueing.processor_sharing import ALONE, ENDLESS, Senders, TransferSlowdown, link_stretch
from planner.queueing.streams import merged_scv, split_scv
from planner.queueing.ttft import Path
from planner.queueing.wait import Wait, sum_of_waits

if TYPE_CHECKING:
    from planner.optimizer.network.period_operation import Flow, Kinds, PeriodWaits

MOST_KINDS = 512
"""Kinds of request of a flow whose transfers are stretched."""
ROUNDING = 1e-9


class LoadedPaths:
    """A period's paths under load; stretches and waits are found once."""

    def __init__(self, period: PeriodWaits) -> None:
        self.period, self.problem = period, period.problem

    def paths(self, streams: Sequence[int]) -> list[Path] | None:
        """Paths of the requests of some streams; None where a queue has no steady state, or nothing flows."""
        mine = [(flow, kinds) for flow, kinds in self.period.kinds if flow.stream in streams]
        total = sum(flow.req_per_s * kinds.fraction for flow, kinds in mine)
        if total <= 0:
            return None
        found = []
        for flow, kinds in mine:
            share = flow.req_per_s * kinds.fraction / total
            if self.problem.pools[flow.arc.pool].batching is not None:
                joint = self._in_batch(flow, share)
                if joint is None:
                    return None
                found += joint
                continue
            sent = self._sent(flow, kinds)
            if sent is None:
                return None
            service_s, after_s, weights = sent
            for pool, part in self._decoded(flow.stream):
                wait = self._both_waits(flow.arc.pool, pool)
                if wait is None:
                    return None
                found.append(Path.of(min(share * part, 1.0), service_s, weights, wait, after_s))
        return found

    def _sent(self, flow: Flow, kinds: Kinds) -> tuple[Array, Array, Array] | None:
        """Prefill, what is left of the transfer then, and weights; None on a link without a steady state."""
        if flow.arc.link is None:
            return kinds.service_s, kinds.transfer_s, kinds.weights
        if flow.arc.link not in self._stretches:
            self._stretches[flow.arc.link] = self._stretch(flow.arc.link)
        stretch = self._stretches[flow.arc.link]
        if stretch.mean == np.inf:
            return None
        if stretch is ALONE:
            return kinds.service_s, kinds.transfer_s, kinds.weights
        round_trip_s = self.problem.links[flow.arc.link].round_trip_s
        service_s, transfer_s, sending_s, weights = _fewer(kinds)
        kind, after_s, levels = stretched(stretch, round_trip_s, service_s, transfer_s, sending_s)
        return service_s[kind], after_s, weights[kind] * levels

    def _stretch(self, link: int) -> TransferSlowdown:
        """Factor by which sharing stretches transfers on a link."""
        users = [(flow, kinds) for flow, kinds in self.period.kinds if flow.arc.link == link]
        if any(not np.isfinite(kinds.sending_s).all() for _, kinds in users):
            return ENDLESS
        rtt_s, senders, n_layers = self.problem.links[link].round_trip_s, [], []
        for pool in dict.fromkeys(flow.arc.pool for flow, _ in users):
            mine = [(flow, kinds) for flow, kinds in users if flow.arc.pool == pool]
            rates = [flow.req_per_s * kinds.fraction for flow, kinds in mine]
            n, total = self.problem.pools[pool].rates.n_layers or 1, sum(rates)
            weights = np.concatenate([k.weights * (r / total) for r, (_, k) in zip(rates, mine, strict=True)])
            service_s = np.concatenate([kinds.service_s for _, kinds in mine])
            link_s = np.concatenate([_link_s(kinds, n, rtt_s) for _, kinds in mine])
            n_places = self.period.operation.n_instances[pool] * self.problem.pools[pool].rates.places
            senders.append(Senders(n_places, total, service_s, link_s, weights))
            n_layers.append(n)
        return link_stretch(senders, n_layers, self._start_scv(users))

    def _start_scv(self, users: Sequence[tuple[Flow, Kinds]]) -> float:
        """Squared variation of the gaps between all requests that go over a link: streams split off, then merged."""
        rates: dict[int, float] = {}
        for flow, kinds in users:
            rates[flow.stream] = rates.get(flow.stream, 0.0) + flow.req_per_s * kinds.fraction
        scvs = [split_scv(self._class_scv(q), min(rate / self._rate(q), 1.0)) for q, rate in rates.items()]
        return merged_scv([*rates.values()], scvs)

    def _class_scv(self, stream: int) -> float:
        return self.problem.classes[self.problem.streams[stream].request_class].arrival_scv

    def _rate(self, stream: int) -> float:
        return self.period.operation.rate_of(stream)

    def _decoded(self, stream: int) -> list[tuple[int, float]]:
        """Pools that decode what prefill pools computed of a stream, each with its fraction of these requests."""
        operation, rates = self.period.operation, dict[int, float]()
        for d in operation.decodings:
            if d.stream == stream and d.req_per_s > 0:
                own = own_rate(self.problem, operation, d.pool, stream)
                rates[d.pool] = max(d.req_per_s - own, 0.0)
        kept = {pool: rate for pool, rate in rates.items() if rate > ROUNDING * sum(rates.values())}
        return [(pool, rate / sum(kept.values())) for pool, rate in kept.items()]

    def _in_batch(self, flow: Flow, share: float) -> list[Path] | None:
        """Paths of prompts that a colocated pool computes; None where its batches have no steady state."""
        queue, batch = self.period.batch_queue(flow.arc.pool), self.period.batches[flow.arc.pool].batch
        if queue is None:
            return None
        own = (self.problem.streams[flow.stream].request_class, flow.part, flow.threshold_tokens)
        k = next((k for k, part in enumerate(batch.parts) if part[:3] == own), None)
        if k is None:  # too few to count
            return []
        return [
            replace(path, share_fraction=min(share * path.share_fraction, 1.0), unloaded_s=path.unloaded_s + before_s)
            for before_s in [batch.load.before_s]
            for path in queue.of_classes[k].paths
        ]

    def _both_waits(self, prefill: int, decode: int) -> Wait | None:
        """Wait before prefill and for a place in a batch, remembered: many streams share two pools."""
        if (prefill, decode) not in self._waits:
            place, wait = self._place(decode), self.period.wait(prefill)
            self._waits[prefill, decode] = None if wait is None or place is None else sum_of_waits(wait, place)
        return self._waits[prefill, decode]

    def _place(self, pool: int) -> Wait | None:
        """Wait for a place in the batches of a decode pool; None where it has no steady state."""
        if pool not in self._places:
            if self.problem.pools[pool].batching is not None:
                queue = self.period.batch_queue(pool)
                self._places[pool] = None if queue is None else queue.admission
                return self._places[pool]
            asked = [
                DecodeDemand.of(self.problem.classes[self.problem.streams[d.stream].request_class], d.req_per_s, share)
                for d in self.period.operation.decodings
                if d.pool == pool and d.req_per_s > 0
                for share in [d.req_per_s / self._rate(d.stream)]
            ]
            point, n = self.problem.pools[pool].rates.decode, self.period.operation.n_instances[pool]
            self._places[pool] = places_wait(point, asked, n)
        return self._places[pool]

    @cached_property
    def _stretches(self) -> dict[int, TransferSlowdown]:
        return {}

    @cached_property
    def _waits(self) -> dict[tuple[int, int], Wait | None]:
        return {}

    @cached_property
    def _places(self) -> dict[int, Wait | None]:
        return {}


def _link_s(kinds: Kinds, n_layers: int, round_trip_s: float) -> Array:
    """Time of each transfer on the link alone, all bytes at hand [s].

    Equation:
        D = max(s, p (n - 1) / n), X = max(s - p (n - 1) / n, s / n) + RTT / 2: s is D where that is more than prefill
        feeds, else n (X - RTT / 2)
    """
    fed_s = kinds.service_s * (n_layers - 1) / n_layers
    last_s = n_layers * (kinds.transfer_s - round_trip_s / 2)
    return np.where(kinds.sending_s > fed_s * (1 + ROUNDING), kinds.sending_s, last_s)


def _fewer(kinds: Kinds) -> tuple[Array, Array, Array, Array]:
    """At most MOST_KINDS kinds: neighbours in time are merged at their mean, which keeps every mean exact."""
    columns = kinds.service_s, kinds.transfer_s, kinds.sending_s
    if len(kinds.weights) <= MOST_KINDS:
        return *columns, kinds.weights
    order = np.argsort(kinds.service_s + kinds.transfer_s, kind="stable")
    group = np.minimum((np.cumsum(kinds.weights[order]) * MOST_KINDS).astype(np.intp), MOST_KINDS - 1)
    mass: Array = np.bincount(group, kinds.weights[order]).astype(np.float64)
    used = mass > 0
    service_s, transfer_s, sending_s = (
        np.bincount(group, (x * kinds.weights)[order])[used] / mass[used] for x in columns
    )
    return service_s, transfer_s, sending_s, mass[used]
