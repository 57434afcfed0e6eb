"""Limits on how busy pools and links of a network may be with a use, and on which of its requests may be late.

A threshold divides the prompts of a class, and an allowance divides its late requests: of the fraction that may be
late, the share `beta` is for long prompts and the rest for short ones. Every pool that takes long prompts of the class
may be late with beta times that fraction of the class, counted over the long prompts; likewise for short ones. So the
class is within its SLO, and no pool is given up to late requests alone. Programs of plans count so. Bounds do not, see
`lateness`, and local search goes beyond it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.network.cells import N_KINDS, PARTS, Array, Cell, Use, end_of
from planner.optimizer.network.request_loads import RequestLoads
from planner.optimizer.network.shortest_waits import condensed, moments, shortest_waits
from planner.optimizer.problem import Arc
from planner.optimizer.problem_parts import ClassSpec, Part
from planner.queueing.staffing import QueuedRequests, most_busy_servers
from planner.roofline import DecodeLimit, exposed_transfer_s
from planner.units import bytes_per_s
from planner.work_clock import spend

LINK_BUSY = 0.7
"""Greatest mean use of a link under an SLO: a transfer then takes three times as long as on an idle link."""
MOST_STABLE = 0.998
"""Greatest use of a pool none of whose requests can miss an SLO: its queue still has a steady state."""
LIMIT_S = 1e-4
"""What a limit of a use takes to be found [s]."""
N_AT_ONCE = 64
"""Limits that are found together: some megabytes of tables."""
DECODE_TIME = 0.1
"""Part of the TTFT of an SLO that waiting for a place in the decode batch may take,"""
DECODE_LATE = 0.05
"""but for this part of the requests that may be late."""
SHORTEST_DECODE_WAITS = 0.85
"""What shortens waits for places in decode batches, where bounds count with the shortest."""
GRID = np.unique(np.geomspace(1, 100_000, 97).round())
"""Sizes of a pool at which limits are found; between them they are interpolated."""


class BatchLimit(NamedTuple):
    """Limit of a colocated pool in plans: as the model of batches found it for the mix of a period."""

    facet: int = 0
    """The facet that is greatest for the mix,"""
    factor: float = 1.0
    """and what the model of batches finds, over that."""
    most_busy: float = 1.0
    """Part of its instances that may be busy [fraction]."""


class _Kinds(NamedTuple):
    """Requests that stand for those of a class on an arc: four arrays of one shape."""

    uncached: Array
    weights: Array
    service_s: Array
    slack_s: Array
    """What prefill and transfer leave of the TTFT of the SLO [s]."""

    def in_part(self, part: Part, cell: Cell) -> NDArray[np.bool_]:
        """Which requests are in a part under every threshold of a cell, shape (n,)."""
        end = end_of(part, cell)
        return self.uncached > end if part == "long" else self.uncached <= end


@dataclass(frozen=True, eq=False)
class NetworkLoads(RequestLoads):
    """Coefficients of a problem, remembered by what they depend on: equal pools, and equal periods, share them."""

    is_optimistic: bool = False
    """Whether waits are the shortest that the closed form may stand for: for bounds."""
    slo_factors: tuple[float, ...] = ()
    """Factor on the TTFT of the SLO of every class: below 1 where the best model of waits found it missed."""
    gbps: tuple[float, ...] = ()
    """Bandwidth of every link that transfers may count with [Gbps]; none for bounds, which count with all ports."""
    link_busy: float = LINK_BUSY
    """Greatest mean use of a link [fraction]; transfers count with the rest of it."""
    least_gbps: tuple[float, ...] = ()
    """Bandwidth that every link has at least where it is used; none: what transfers count with."""
    late_multiple: float = 1.0
    """Multiple of the late requests of an SLO that every pool may have, where others are to make up for them."""
    batches: Mapping[tuple[int, int], "BatchLimit"] = field(default_factory=dict)
    """Of colocated pools in plans, by pool and period."""

    def batch_limit(self, pool: int, period: int) -> "BatchLimit":
        """Limit of a colocated pool in a period of a plan; where no batch was found for it, as in another one."""
        if (pool, period) in self.batches:
            return self.batches[pool, period]
        others = [limit for (i, _), limit in self.batches.items() if i == pool]
        how = self.problem.pools[pool].batching
        return max(others, key=lambda limit: limit.factor, default=BatchLimit(factor=how.factor if how else 1.0))

    def most_busy(self, stream: int, arc: Arc, part: Part, cell: Cell) -> Array:
        """Greatest number of busy instances with a part of a stream, by size of the pool.

        Returns:
            Busy instances at the sizes of `grid`, shape (sizes,) [count]; 0 where the pool can take none in time.
        """
        use = Use(stream, arc, part, cell)
        if use not in self._limits:
            self.prepare([use])
        return self._limits[use]

    def prepare(self, uses: Iterable["Use"]) -> None:
        """Find `most_busy` for many uses at once: several times faster than one by one."""
        new = {use: self._busy_key(*use) for use in dict.fromkeys(uses) if use not in self._limits}
        waiting: dict[int, dict[tuple[object, ...], tuple[QueuedRequests, float]]] = {}
        for use, key in new.items():
            places = self.problem.pools[use.arc.pool].rates.places
            if key in self.known or key in waiting.get(places, ()):
                continue
            allowed = self.allowed(use.stream, use.part, use.cell)
            requests = None if allowed >= 1 else self.queued(*use)
            if self.class_of(use.stream).ttft_s is None:
                self.known[key] = self.grid
            elif requests is None:
                self.known[key] = self.most_stable
            else:
                waiting.setdefault(places, {})[key] = requests, allowed
        for places, of_places in waiting.items():
            self._find(places, of_places)
        self._limits.update((use, self.known[key]) for use, key in new.items())

    def _find(self, places: int, waiting: Mapping[tuple[object, ...], tuple[QueuedRequests, float]]) -> None:
        """Limits of pools whose instances prefill so many prompts at once: every place is a server."""
        keys, waits = list(waiting), self.optimistic_waits(places)
        for some in (keys[i : i + N_AT_ONCE] for i in range(0, len(keys), N_AT_ONCE)):
            queues, allowances = zip(*(waiting[key] for key in some), strict=True)
            batch = QueuedRequests.batch(queues)
            limits = most_busy_servers(self.grid * places, batch, np.array(allowances), *waits) / places
            spend(LIMIT_S * len(some))
            self.known.update(zip(some, limits, strict=True))

    def _busy_key(self, stream: int, arc: Arc, part: Part, cell: Cell) -> tuple[object, ...]:
        c = self.problem.streams[stream].request_class
        if self.class_of(stream).ttft_s is None:
            return ("busy", c)
        start = cell.low_tokens if part == "long" else 0.0
        return ("busy", c, self.arc_keys[arc], part, start, end_of(part, cell), self.allowed(stream, part, cell))

    @cached_property
    def arc_keys(self) -> dict[Arc, tuple[object, ...]]:
        """Keys of arcs by what a prompt meets there: prefill times and transfer times."""
        return {arc: self._arc_key(arc) for arcs in self.problem.arcs for of_part in arcs.values() for arc in of_part}

    def _arc_key(self, arc: Arc) -> tuple[object, ...]:
        pool = self.problem.pools[arc.pool]
        return (id(pool.rates), pool.site if arc.link is None else self._link_key(arc.link))

    def allowed(self, stream: int, part: Part, cell: Cell) -> float:
        """Greatest fraction of the requests of a part that may be late, over a cell [fraction]."""
        fraction = self.fraction(stream, part, cell)
        share = cell.high_share if part == "long" else 1 - cell.low_share
        late = self.late_allowed(stream)
        return 1.0 if late * share >= fraction else late * share / fraction

    def has_ttft_slo(self, stream: int) -> bool:
        """True if the class of a stream has an SLO on TTFT."""
        return self.class_of(stream).ttft_s is not None

    def late_allowed(self, stream: int) -> float:
        """Fraction of a stream's requests that prefill may make late; in plans, decode has a part of it [fraction]."""
        late = self.class_of(stream).late_allowed * (1.0 if self.is_for_bounds else 1 - DECODE_LATE)
        return min(self.late_multiple * late, 1.0)

    def shares(self, stream: int, cell: Cell) -> tuple[float, float]:
        """Least and greatest allowance for long prompts, between which some idle pool is within the SLO for each part.

        Returns:
            Shares of the late requests [fraction].
        """
        late = min(self.late_multiple * self.class_of(stream).late_allowed * (1 - DECODE_LATE), 1.0)
        arcs = self.problem.arcs[stream]
        long, short = (min((self._late_anyhow(stream, arc, p, cell) for arc in arcs[p]), default=0.0) for p in PARTS)
        return long / late, 1 - short / late

    def _late_anyhow(self, stream: int, arc: Arc, part: Part, cell: Cell) -> float:
        """Fraction of a stream's requests that are in a part and late there without any wait [fraction]."""
        key = ("late", self.problem.streams[stream].request_class, self.arc_keys[arc], part, end_of(part, cell))
        if key not in self.known:
            kinds = self._kinds(stream, arc)
            chosen = kinds.in_part(part, cell)
            weights = kinds.weights[chosen]
            late = float((weights / weights.sum())[kinds.slack_s[chosen] < 0].sum()) if chosen.any() else 0.0
            self.known[key] = late * self.fraction(stream, part, cell)
        return float(self.known[key])

    @property
    def is_for_bounds(self) -> bool:
        """True if limits are to lie above those of every plan."""
        return self.is_optimistic and not self.gbps

    def most_link_busy(self) -> float:
        """Greatest mean use of a link [fraction]; 1 where no class has an SLO."""
        if self.is_for_bounds and self.problem.has_batches:
            return MOST_STABLE  # plans are judged with what transfers wait, and may be busier than programs allow
        return self.link_busy if any(c.ttft_s is not None for c in self.problem.classes) else 1.0

    @property
    def opened_gbps(self) -> tuple[float, ...]:
        """Least bandwidth of every link in use [Gbps]; none for bounds."""
        return self.least_gbps or self.gbps

    def class_arrival_scv(self, request_class: ClassSpec) -> float:
        """Squared coefficient of variation of the gaps between arrivals of a class; for bounds the least."""
        return self._least_arrival_scv if self.is_optimistic else request_class.arrival_scv

    @cached_property
    def _least_arrival_scv(self) -> float:
        """That of any merge of parts of streams: parts of bursts tend to Poisson arrivals."""
        return min(1.0, *(request_class.arrival_scv for request_class in self.problem.classes))

    def optimistic_waits(self, places: int) -> tuple[Array | float, float]:
        """Factors on waits of the closed form, shape (sizes,), and peakedness of arrivals; least for bounds, else 1.

        Args:
            places: prompts that an instance prefills at once [count].
        """
        if not self.is_optimistic:
            return 1.0, 1.0
        return shortest_waits(self.grid * places, self._least_arrival_scv), self._least_arrival_scv

    def queued(self, stream: int, arc: Arc, part: Part, cell: Cell) -> QueuedRequests | None:
        """A part of a stream as its queue sees it.

        Waits are those of the shortest services that any threshold of the cell leaves in the part: for long prompts,
        all beyond its start. Only requests that are in the part under every threshold may be late.

        Returns:
            The requests; None where the part is empty.
        """
        kinds = self._kinds(stream, arc)
        chosen, service = kinds.in_part(part, cell), self.queued_service(stream, arc, part, cell)
        if service is None or not chosen.any():
            return None
        weights = kinds.weights[chosen]
        slack_s, weights = condensed(kinds.slack_s[chosen], weights / weights.sum())
        return QueuedRequests(*service, slack_s, weights, self.class_arrival_scv(self.class_of(stream)))

    def queued_service(self, stream: int, arc: Arc, part: Part, cell: Cell) -> tuple[float, float] | None:
        """Mean [s] and squared variation of the services with which a part waits least; None of none."""
        kinds = self._kinds(stream, arc)
        queued = kinds.uncached > cell.low_tokens if part == "long" else kinds.in_part(part, cell)
        return moments(kinds.service_s[queued], kinds.weights[queued]) if queued.any() else None

    def _kinds(self, stream: int, arc: Arc) -> "_Kinds":
        """All requests of a stream on an arc."""
        key = ("kinds", self.problem.streams[stream].request_class, self.arc_keys[arc])
        if key not in self.known:
            total, cached, weights = self.class_of(stream).mix.atoms(N_KINDS)
            service = self.problem.pools[arc.pool].rates.prefill
            if service is None:
                raise ValueError("a prefill pool has no prefill times")
            service_s = np.asarray(service.seconds(total, cached))
            slack_s = self.slo_ttft_s(stream) - service_s - self.transfer_s(arc, total, cached, service_s)
            self.known[key] = _Kinds(total - cached, weights, service_s, slack_s)
        found: _Kinds = self.known[key]
        return found

    def transfer_s(self, arc: Arc, total: Array, cached: Array, service_s: Array) -> Array:
        """Remaining KV transfer time when prefill ends [s].

        Args:
            total: prompt lengths, shape (n,) [tokens].
            cached: cached tokens of them, shape (n,) [tokens].
            service_s: prefill times, shape (n,) [s].

        Returns:
            Seconds, shape (n,): on an idle link for bounds, else on one as busy as it may be.
        """
        pool = self.problem.pools[arc.pool]
        sent = pool.rates.kv_bytes(total)
        if arc.link is None:
            fabric = self.problem.scenario.sites[pool.site].fabric_gbps
            if fabric is None:
                return np.zeros_like(service_s)
            return exposed_transfer_s(service_s, sent, bytes_per_s(fabric), 0.0, pool.rates.n_layers)
        link = self.problem.links[arc.link]
        if link.destination_holds_prefix:
            sent = sent - (pool.rates.kv_bytes(cached) - pool.rates.kv_bytes(0.0))
        gbps = (1 - self.link_busy) * self.gbps[arc.link] if self.gbps else link.max_gbps()
        return exposed_transfer_s(service_s, sent, bytes_per_s(gbps), link.round_trip_s, pool.rates.n_layers)

    def most_busy_decode(self, stream: int, pool: int) -> Array:
        """Greatest number of busy instances of a decode pool with a stream, by size of the pool.

        In plans, at most a part of the late requests waits longer than a part of the TTFT for a place in the batch. In
        bounds, no more than the late requests wait longer than all of it; where a class has several decode pools, one
        may be any late.

        Returns:
            Busy instances at the sizes of `grid`, shape (sizes,) [count].
        """
        point, request_class = self.problem.pools[pool].rates.decode, self.class_of(stream)
        if request_class.ttft_s is None or point is None:
            return self.grid
        key = ("decode", id(self.problem.pools[pool].rates), self.problem.streams[stream].request_class)
        if key not in self.known:
            self.known[key] = self._most_places(point, request_class, request_class.ttft_s)
        return np.asarray(self.known[key])

    def _most_places(self, point: DecodeLimit, request_class: ClassSpec, ttft_s: float) -> Array:
        time, late = (1.0, 1.0) if self.is_for_bounds else (DECODE_TIME, DECODE_LATE)
        if self.is_for_bounds and self._n_decoders(request_class) > 1:
            return self.most_stable
        held_s = point.batch * point.seconds_per_request(request_class.mix.mean_output_tokens)
        requests = QueuedRequests(
            held_s, 1.0, np.array([time * ttft_s]), np.ones(1), self.class_arrival_scv(request_class)
        )
        allowed, (_, peakedness) = late * request_class.late_allowed, self.optimistic_waits(1)
        factor = SHORTEST_DECODE_WAITS if self.is_optimistic else 1.0
        return most_busy_servers(self.grid * point.batch, requests, allowed, factor, peakedness) / point.batch

    def _n_decoders(self, request_class: ClassSpec) -> int:
        """Decode pools that serve a class, at all sites [count]."""
        problem = self.problem
        decoders = zip(problem.streams, problem.decoders, strict=True)
        return sum(len(pools) for stream, pools in decoders if problem.classes[stream.request_class] is request_class)

    def slo_ttft_s(self, stream: int) -> float:
        """TTFT of a stream's SLO, times the factor on it [s]; inf without an SLO."""
        c = self.problem.streams[stream].request_class
        return (self.class_of(stream).ttft_s or np.inf) * (self.slo_factors[c] if self.slo_factors else 1.0)

    def _link_key(self, link: int) -> tuple[object, ...]:
        spec = self.problem.links[link]
        gbps = self.gbps[link] if self.gbps else spec.max_gbps()
        return (gbps, spec.round_trip_s, spec.destination_holds_prefix)

    @cached_property
    def grid(self) -> Array:
        """Sizes at which limits are found, shape (sizes,): those of GRID up to the largest pool, and one more."""
        largest = max((pool.max_instances for pool in self.problem.pools), default=1)
        return GRID[: int(np.searchsorted(GRID, largest)) + 1]

    @cached_property
    def most_stable(self) -> Array:
        """Busy instances of pools none of whose requests can miss an SLO, at the sizes of the grid [count]."""
        return self.grid * MOST_STABLE

    @cached_property
    def _limits(self) -> dict[Use, Array]:
        """Of most uses, by use: their keys, by which equal ones are found, take longer to make."""
        return {}
