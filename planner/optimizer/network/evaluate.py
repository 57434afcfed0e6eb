"""What happens in a period of a plan: exact loads, waits by the best model, and which promises that keeps."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from planner.optimizer.delays import place_wait
from planner.optimizer.network.loads import Array, NetworkLoads, point
from planner.optimizer.network.problem import Arc, NetworkProblem, Part
from planner.queueing import NO_WAIT, Path, Service, Ttft, Wait, gigc_wait, merged_scv, split_scv, sum_of_waits
from planner.roofline import exposed_transfer_s
from planner.units import BITS_PER_BYTE, BITS_PER_GBIT, bytes_per_s

N_KINDS = 1024
"""Requests that stand for the lengths of a class where its TTFT is found."""
FULL = 1 - 1e-9
TINY = 1e-9


class Flow(NamedTuple):
    """Requests of a stream that a prefill pool takes."""

    stream: int
    part: Part
    arc: Arc
    threshold_tokens: float
    """Prompts with more uncached tokens are long."""
    req_per_s: float
    """Rate of all requests of the stream that are routed so, of which the part is prefilled there [req/s]."""


class Decoding(NamedTuple):
    """Requests of a stream that a decode pool takes."""

    stream: int
    pool: int
    req_per_s: float


@dataclass(frozen=True)
class Settled:
    """A period with sizes and rates."""

    period: int
    n_instances: tuple[int, ...]
    flows: tuple[Flow, ...]
    decodings: tuple[Decoding, ...]

    def scaled_to(self, period: int, ratios: Sequence[float]) -> "Settled":
        """The same ways for another period, every stream at a ratio of its rate."""
        flows = tuple(f._replace(req_per_s=f.req_per_s * ratios[f.stream]) for f in self.flows)
        decodings = tuple(d._replace(req_per_s=d.req_per_s * ratios[d.stream]) for d in self.decodings)
        return Settled(period, self.n_instances, flows, decodings)

    def rate_of(self, stream: int) -> float:
        """Rate of a stream [req/s]."""
        return sum(d.req_per_s for d in self.decodings if d.stream == stream)


@dataclass(frozen=True, eq=False)
class Kinds:
    """The requests of a flow: arrays of one shape."""

    fraction: float
    """Of the stream's requests."""
    service_s: Array
    transfer_s: Array
    weights: Array


def kinds_of(problem: NetworkProblem, flow: Flow, ports: Sequence[Sequence[int]], link_busy: float) -> Kinds | None:
    """Requests of a flow, with transfers at what the mean traffic leaves of the link; None where there are none.

    Their work is exact where few requests stand for a continuous mix: a pool may be nearly full with it.
    """
    mix = problem.classes[problem.streams[flow.stream].request_class].mix
    service = problem.pools[flow.arc.pool].rates.prefill
    part_atoms = mix.long_atoms if flow.part == "long" else mix.short_atoms
    total, cached, weights = part_atoms(flow.threshold_tokens, N_KINDS)
    if weights.size == 0 or service is None:
        return None
    service_s = np.asarray(service.seconds(total, cached))
    work_s = NetworkLoads(problem).work_s(flow.stream, flow.arc, flow.part, point(flow.threshold_tokens))
    service_s = service_s * (work_s / float(service_s @ weights))
    transfer_s = _transfer_s(problem, flow.arc, ports, link_busy, total, cached, service_s)
    return Kinds(float(weights.sum()), service_s, transfer_s, weights / weights.sum())


def _transfer_s(
    problem: NetworkProblem,
    arc: Arc,
    ports: Sequence[Sequence[int]],
    link_busy: float,
    total: Array,
    cached: Array,
    service_s: Array,
) -> Array:
    """What is left of the transfer when prefill ends; a shared link serves as one of (1 - busy) of its bandwidth."""
    if arc.link is None:
        return NetworkLoads(problem).transfer_s(arc, total, cached, service_s)  # the fabric of the site
    link, pool = problem.links[arc.link], problem.pools[arc.pool]
    sent = pool.rates.kv_bytes(total)
    if link.destination_holds_prefix:
        sent = sent - (pool.rates.kv_bytes(cached) - pool.rates.kv_bytes(0.0))
    gbps = link.gbps(ports[arc.link]) * (1 - link_busy)
    return exposed_transfer_s(service_s, sent, bytes_per_s(gbps), link.round_trip_s, pool.rates.n_layers)


def link_gbps(problem: NetworkProblem, settled: Settled) -> tuple[float, ...]:
    """Mean traffic on every link [Gbps]."""
    loads, sent = NetworkLoads(problem), [0.0] * len(problem.links)
    for flow in settled.flows:
        if flow.arc.link is not None:
            cell = point(flow.threshold_tokens)
            sent[flow.arc.link] += flow.req_per_s * loads.sent_bytes(flow.stream, flow.arc, flow.part, cell)
    return tuple(b * BITS_PER_BYTE / BITS_PER_GBIT for b in sent)


def busy_instances(problem: NetworkProblem, settled: Settled) -> tuple[float, ...]:
    """Busy instances of every pool [count]."""
    loads, busy = NetworkLoads(problem), [0.0] * len(problem.pools)
    for flow in settled.flows:
        seconds = loads.work_s(flow.stream, flow.arc, flow.part, point(flow.threshold_tokens))
        busy[flow.arc.pool] += flow.req_per_s * seconds
    for decoding in settled.decodings:
        busy[decoding.pool] += decoding.req_per_s * loads.decode_s(decoding.stream, decoding.pool)
    return tuple(busy)


@dataclass(frozen=True, eq=False)
class Period:
    """A settled period with its waits."""

    problem: NetworkProblem
    settled: Settled
    kinds: tuple[tuple[Flow, Kinds], ...]
    waits: dict[int, Wait | None]
    """Wait of every prefill pool in use; None where it has no steady state."""
    places: dict[int, Wait | None]
    """Wait for a place in the batches of every decode pool in use; None where it has no steady state."""

    def paths(self, streams: Sequence[int], loaded: bool = True) -> list[Path] | None:
        """Paths of the requests of some streams; None where a queue has no steady state, or nothing flows."""
        mine = [(flow, kinds) for flow, kinds in self.kinds if flow.stream in streams]
        total = sum(flow.req_per_s * kinds.fraction for flow, kinds in mine)
        if total <= 0:
            return None
        found = []
        for flow, kinds in mine:
            share = flow.req_per_s * kinds.fraction / total
            for decoding, part in self._decoded(flow.stream):
                wait = self._both_waits(flow.arc.pool, decoding) if loaded else NO_WAIT
                if wait is None:
                    return None
                path = Path.of(min(share * part, 1.0), kinds.service_s, kinds.weights, wait, kinds.transfer_s)
                found.append(path)
        return found

    def _both_waits(self, prefill: int, decode: int) -> Wait | None:
        """Wait before prefill and for a place in a batch, remembered: many streams share two pools."""
        if (prefill, decode) not in self._known_waits:
            wait, place = self.waits[prefill], self.places[decode]
            self._known_waits[prefill, decode] = None if wait is None or place is None else sum_of_waits(wait, place)
        return self._known_waits[prefill, decode]

    @cached_property
    def _known_waits(self) -> dict[tuple[int, int], Wait | None]:
        return {}

    def _decoded(self, stream: int) -> list[tuple[int, float]]:
        """Decode pools of a stream, each with its fraction of the stream's requests."""
        rate = self.settled.rate_of(stream)
        return [(d.pool, d.req_per_s / rate) for d in self.settled.decodings if d.stream == stream and d.req_per_s > 0]

    def late_fraction(self, streams: Sequence[int], promise_s: float) -> float:
        """Fraction of some streams' requests whose first token takes longer than promised, waits for decode included.

        Equation:
            P(W + T + X + D > x) over the flows and decode pools of the streams
        """
        paths = self.paths(streams)
        return 1.0 if paths is None else float(Ttft.of(paths).survival(promise_s))


def period_of(problem: NetworkProblem, settled: Settled, ports: Sequence[Sequence[int]]) -> Period:
    """A period with its waits: every prefill pool one queue of all flows into it.

    Source:
        `planner.queueing.gigc_wait`; places in decode batches as in `planner.optimizer.delays.place_wait`.
    """
    sent, capacity = link_gbps(problem, settled), problem.gbps(ports)
    use = [min(s / c, FULL) if c > 0 else 0.0 for s, c in zip(sent, capacity, strict=True)]
    kinds = []
    for flow in settled.flows:
        busy = 0.0 if flow.arc.link is None else use[flow.arc.link]
        found = kinds_of(problem, flow, ports, busy) if flow.req_per_s > 0 else None
        if found is not None:
            kinds.append((flow, found))
    pools = dict.fromkeys(flow.arc.pool for flow, _ in kinds)
    waits = {i: _wait(problem, settled, i, [(f, k) for f, k in kinds if f.arc.pool == i]) for i in pools}
    decoders = dict.fromkeys(d.pool for d in settled.decodings)
    return Period(problem, settled, tuple(kinds), waits, {i: _places(problem, settled, i) for i in decoders})


def _wait(problem: NetworkProblem, settled: Settled, pool: int, users: Sequence[tuple[Flow, Kinds]]) -> Wait | None:
    """Wait of a prefill pool: one queue of what its flows are split off their streams and merged again."""
    rates = [flow.req_per_s * kinds.fraction for flow, kinds in users]
    rate, n_servers = sum(rates), settled.n_instances[pool]
    weights = np.concatenate([k.weights * (r / rate) for r, (_, k) in zip(rates, users, strict=True)])
    service = Service.of(np.concatenate([kinds.service_s for _, kinds in users]), weights)
    if n_servers == 0 or rate * service.mean_s >= n_servers * FULL:
        return None
    scvs = []
    for part, (flow, _) in zip(rates, users, strict=True):
        spec = problem.classes[problem.streams[flow.stream].request_class]
        whole = max(settled.rate_of(flow.stream), part)
        scvs.append(split_scv(spec.arrival_scv, part / whole))
    return gigc_wait(n_servers, rate, service, merged_scv(rates, scvs))


def _places(problem: NetworkProblem, settled: Settled, pool: int) -> Wait | None:
    """Wait for a place in the batches of a decode pool."""
    mine = [d for d in settled.decodings if d.pool == pool]
    classes = [problem.classes[problem.streams[d.stream].request_class] for d in mine]
    tokens_per_s = sum(d.req_per_s * c.mix.mean_output_tokens for d, c in zip(mine, classes, strict=True))
    rate = sum(d.req_per_s for d in mine)
    return place_wait(problem.pools[pool].rates.decode, rate, tokens_per_s, settled.n_instances[pool])


def late_fractions(period: Period) -> dict[int, float]:
    """Late fraction of every class with a promise that has requests in a period: over all its streams and pools."""
    problem, found = period.problem, {}
    for c, spec in enumerate(problem.classes):
        mine = [q for q, stream in enumerate(problem.streams) if stream.request_class == c]
        if spec.ttft_s is not None and sum(period.settled.rate_of(q) for q in mine) > TINY:
            found[c] = period.late_fraction(mine, spec.ttft_s)
    return found


def broken_classes(problem: NetworkProblem, settled: Sequence[Settled], ports: Sequence[Sequence[int]]) -> list[int]:
    """Classes whose promise on TTFT some period breaks, in the best model of waits.

    A promise is judged over the mixture of the pools that serve the class: some may be later than others.
    """
    if not any(spec.ttft_s is not None for spec in problem.classes):
        return []
    broken: dict[int, None] = {}
    for one in settled:
        late = late_fractions(period_of(problem, one, ports))
        broken |= {c: None for c, part in late.items() if part > problem.classes[c].late_allowed + TINY}
    return list(broken)
