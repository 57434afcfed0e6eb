"""The requests that load the prefill pools of a fleet, by threshold: what they ask of pools and links."""

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.delays import link_bytes_per_s, sending_s, sent_bytes, transfer_s
from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import Part
from planner.optimizer.routes import Route
from planner.optimizer.sized import Sizing
from planner.queueing.processor_sharing import Senders
from planner.queueing.service import Service
from planner.queueing.ttft import Path
from planner.queueing.wait import NO_WAIT

Array = NDArray[np.float64]
N_ATOMS = 4096
"""Requests that stand for a length distribution, as for the latencies of the answer."""
REMEMBERED = 16
"""Streams that are kept: each is some 100 kB."""


class PrefillStream(NamedTuple):
    """Requests that load a prefill pool, and a link after it."""

    part: Part
    end_tokens: float
    """Threshold beyond which they are, or up to which."""
    pool: int
    link: int | None
    chosen: NDArray[np.bool_]
    """Which of the requests they are."""
    n_places: int
    """Prompts that the pool prefills at once."""
    share_fraction: float
    """Of all requests."""
    service: Service
    unhindered: Path
    """What they go through without waiting, alone on the link."""
    sender: Senders | None
    """The same as the link has it, at one request per second of all."""


@dataclass(frozen=True, eq=False)
class FleetStreams:
    """Load of the requests of a problem with one route on pools and links, at given sizes."""

    problem: Problem
    sizing: Sizing

    @property
    def route(self) -> Route:
        """The one route."""
        return self.problem.route

    def stream(self, part: Part, end_tokens: float) -> PrefillStream | None:
        """Requests that surely load a queue where the threshold is no further than an end; None without any.

        Args:
            end_tokens: the end [tokens].
        """
        if (part, end_tokens) not in self._known:
            if len(self._known) >= REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[part, end_tokens] = self._stream(part, end_tokens)
        return self._known[part, end_tokens]

    def _stream(self, part: Part, end_tokens: float) -> PrefillStream | None:
        is_long, route = self.uncached > end_tokens, self.route
        pool, link = (route.long, route.long_link) if part == "long" else (route.short, route.short_link)
        chosen = is_long if part == "long" else ~is_long
        if pool is None or not chosen.any():
            return None
        service_s, weights = self.service_s(pool)[chosen], self.weights[chosen]
        n, share, sender = self.n_places(pool), float(weights.sum()), None
        unhindered = Path.of(1.0, service_s, weights, NO_WAIT, self.transfer_s(pool, link)[chosen])
        if link is not None:
            bandwidth = link_bytes_per_s(self.problem, self.sizing, link)
            link_s = self.sent_bytes(pool, link)[chosen] / bandwidth if bandwidth > 0 else np.full(len(weights), inf)
            sender = Senders(n, share, service_s, link_s, weights / share)
        service = Service.of(service_s, weights)
        return PrefillStream(part, end_tokens, pool, link, chosen, n, share, service, unhindered, sender)

    def n_places(self, pool: int) -> int:
        """Prompts that a pool prefills at once."""
        return self.sizing.n_instances[pool] * self.problem.pools[pool].rates.places

    def service_s(self, pool: int) -> Array:
        """Prefill of every request in a pool [s], shape (n,)."""
        if pool not in self._services:
            service = self.problem.pools[pool].rates.prefill
            if service is None:
                raise ValueError("a prefill pool has no prefill times")
            self._services[pool] = np.asarray(service.seconds(*self._atoms[:2]))
        return self._services[pool]

    def transfer_s(self, pool: int, link: int | None) -> Array:
        """Remaining transfer time of every request when its prefill ends, on an idle link [s], shape (n,)."""
        if (pool, link) not in self._transfers:
            self._transfers[pool, link] = transfer_s(
                self.problem, self.sizing, pool, link, *self._atoms[:2], self.service_s(pool)
            )
        return self._transfers[pool, link]

    def sent_bytes(self, pool: int, link: int | None) -> Array:
        """Bytes that every request hands over [B], shape (n,)."""
        if (pool, link) not in self._sent:
            self._sent[pool, link] = sent_bytes(self.problem, pool, link, *self._atoms[:2])
        return self._sent[pool, link]

    def sending_s(self, pool: int, link: int | None) -> Array:
        """The whole transfer of every request, alone on a link and no faster than prefill goes [s], shape (n,)."""
        if (pool, link) not in self._sending:
            self._sending[pool, link] = sending_s(
                self.problem, self.sizing, pool, link, self.sent_bytes(pool, link), self.service_s(pool)
            )
        return self._sending[pool, link]

    @property
    def uncached(self) -> Array:
        """Tokens that every request has to prefill, shape (n,)."""
        return self._atoms[0] - self._atoms[1]

    @property
    def weights(self) -> Array:
        """Shares of the requests, shape (n,)."""
        return self._atoms[2]

    @cached_property
    def _atoms(self) -> tuple[Array, Array, Array]:
        total, cached, weights = self.problem.classes[0].mix.atoms(N_ATOMS)
        return total, cached, weights

    @cached_property
    def _known(self) -> dict[tuple[Part, float], PrefillStream | None]:
        return {}

    @cached_property
    def _services(self) -> dict[int, Array]:
        return {}

    @cached_property
    def _transfers(self) -> dict[tuple[int, int | None], Array]:
        return {}

    @cached_property
    def _sent(self) -> dict[tuple[int, int | None], Array]:
        return {}

    @cached_property
    def _sending(self) -> dict[tuple[int, int | None], Array]:
        return {}
