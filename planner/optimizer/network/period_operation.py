"""Operation of a plan in a period: exact loads, waits by the best model, and which classes are within their SLOs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from planner.optimizer.delays import sent_bytes
from planner.optimizer.loaded_paths import LoadedPaths
from planner.optimizer.network.batches import PoolBatch, pool_batches
from planner.optimizer.network.cells import Array, point_cell
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.problem import Arc, Problem
from planner.optimizer.problem_parts import Part
from planner.queueing.decode_only_arrivals import JoinedQueue
from planner.queueing.service import Service
from planner.queueing.streams import merged_scv, split_scv
from planner.queueing.ttft import Path, Ttft
from planner.queueing.wait import NO_WAIT, Wait
from planner.queueing.waits import gigc_wait
from planner.roofline import exposed_transfer_s
from planner.ties import largest_first
from planner.units import BITS_PER_BYTE, BITS_PER_GBIT, bytes_per_s
from planner.work_clock import spend

N_KINDS = 1024
"""Requests that stand for the lengths of a class where its TTFT is found."""
FULL = 1 - 1e-6
"""Use of a queue beyond which it has no steady state worth speaking of."""
TINY = 1e-9
OVERLOAD = 1e-6
"""Part by which a pool may be asked for more than it serves: the solver's tolerance."""
FLOW_S = 3e-3
"""What the waits of a flow take to be found, most of it to solve queues that were not met before [s]."""


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
class PeriodOperation:
    """Operation of a plan in a period: sizes, flows and decoding."""

    period: int
    n_instances: tuple[int, ...]
    flows: tuple[Flow, ...]
    decodings: tuple[Decoding, ...]

    def scaled_to(self, period: int, ratios: Sequence[float]) -> "PeriodOperation":
        """The same arcs and thresholds for another period, every stream at a multiple of its rate.

        Args:
            ratios: multiple of every stream, shape (streams,) [-].
        """
        flows = tuple(f._replace(req_per_s=f.req_per_s * ratios[f.stream]) for f in self.flows)
        decodings = tuple(d._replace(req_per_s=d.req_per_s * ratios[d.stream]) for d in self.decodings)
        return PeriodOperation(period, self.n_instances, flows, decodings)

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
    """What is left of the transfer when prefill ends, on an idle link [s]."""
    sending_s: Array
    """Time that the whole transfer takes on an idle link, from the first layer's end on [s]."""
    weights: Array


def kinds_of(problem: Problem, flow: Flow, ports: Sequence[Sequence[int]], n_kinds: int = N_KINDS) -> Kinds | None:
    """Requests of a flow, with transfers on an idle link.

    Their work is exact where few requests stand for a continuous mix: a pool may be nearly full with it.

    Args:
        problem: the resolved scenario.
        flow: the flow.
        ports: ports of every tier of every link [count].
        n_kinds: requests that stand for the lengths of the flow [count].

    Returns:
        The requests; None where there are none.
    """
    mix = problem.classes[problem.streams[flow.stream].request_class].mix
    service = problem.pools[flow.arc.pool].rates.prefill
    part_atoms = mix.long_atoms if flow.part == "long" else mix.short_atoms
    total, cached, weights = part_atoms(flow.threshold_tokens, n_kinds)
    if weights.size == 0 or service is None:
        return None
    service_s = np.asarray(service.seconds(total, cached))
    work_s = mix.long_work if flow.part == "long" else mix.short_work
    service_s = service_s * (float(work_s(service, flow.threshold_tokens)) / float(service_s @ weights))
    transfer_s, sending_s = transfers_s(problem, flow.arc, ports, (total, cached))
    return Kinds(float(weights.sum()), *_condensed(service_s, transfer_s, sending_s, weights / weights.sum(), n_kinds))


def _condensed(
    service_s: Array, transfer_s: Array, sending_s: Array, weights: Array, n_kinds: int
) -> tuple[Array, Array, Array, Array]:
    """At most so many kinds of request: neighbours in time are merged at their mean, which keeps every mean exact."""
    if len(weights) <= n_kinds:
        return service_s, transfer_s, sending_s, weights
    order = np.argsort(service_s + transfer_s, kind="stable")
    group = np.minimum((np.cumsum(weights[order]) * n_kinds).astype(np.intp), n_kinds - 1)
    mass: Array = np.bincount(group, weights[order]).astype(np.float64)
    used = mass > 0
    service_s, transfer_s, sending_s = (
        np.bincount(group, (x * weights)[order])[used] / mass[used] for x in (service_s, transfer_s, sending_s)
    )
    return service_s, transfer_s, sending_s, mass[used]


def transfers_s(
    problem: Problem, arc: Arc, ports: Sequence[Sequence[int]], lengths: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Remaining time of each transfer when its prefill ends, and its time in all, on an idle link.

    Args:
        problem: the resolved scenario.
        arc: prefill pool, and link if it is at another site.
        ports: ports of every tier of every link [count].
        lengths: total and cached tokens of every request, shape (n,) each [tokens].

    Returns:
        Seconds left, and seconds in all, shape (n,) each; inf without ports.
    """
    total, cached = lengths
    service = problem.pools[arc.pool].rates.prefill
    if service is None:
        raise ValueError("a prefill pool has no prefill times")
    service_s = np.asarray(service.seconds(total, cached))
    if arc.link is None:  # the fabric of the site is of each instance alone
        return NetworkLoads(problem).transfer_s(arc, total, cached, service_s), np.zeros_like(service_s)
    link, rates = problem.links[arc.link], problem.pools[arc.pool].rates
    sent, bandwidth = sent_bytes(problem, arc.pool, arc.link, total, cached), bytes_per_s(link.gbps(ports[arc.link]))
    if bandwidth <= 0:
        return np.full_like(service_s, np.inf), np.full_like(service_s, np.inf)
    left_s = exposed_transfer_s(service_s, sent, bandwidth, link.round_trip_s, rates.n_layers)
    n_layers = rates.n_layers or 1
    return left_s, np.maximum(sent / bandwidth, service_s * (n_layers - 1) / n_layers)


def link_gbps(problem: Problem, operation: PeriodOperation) -> tuple[float, ...]:
    """Mean traffic on every link [Gbps].

    Args:
        problem: the resolved scenario.
        operation: what the period does.
    """
    loads, sent = NetworkLoads(problem), [0.0] * len(problem.links)
    for flow in operation.flows:
        if flow.arc.link is not None:
            cell = point_cell(flow.threshold_tokens)
            sent[flow.arc.link] += flow.req_per_s * loads.sent_bytes(flow.stream, flow.arc, flow.part, cell)
    return tuple(b * BITS_PER_BYTE / BITS_PER_GBIT for b in sent)


def busy_instances(problem: Problem, operation: PeriodOperation) -> tuple[float, ...]:
    """Busy instances of every pool [count].

    Equation:
        sum over its flows of rate times instance-seconds per request (Little's law); of a colocated pool its rate over
        what an instance serves of the same mix

    Args:
        problem: the resolved scenario.
        operation: what the period does.
    """
    loads, busy = NetworkLoads(problem), [0.0] * len(problem.pools)
    for i, found in pool_batches(problem, operation).items():
        busy[i] = found.busy
    for flow in operation.flows:
        if problem.pools[flow.arc.pool].batching is not None:
            continue
        seconds = loads.work_s(flow.stream, flow.arc, flow.part, point_cell(flow.threshold_tokens))
        busy[flow.arc.pool] += flow.req_per_s * seconds
    for decoding in operation.decodings:
        if problem.pools[decoding.pool].batching is None:
            busy[decoding.pool] += decoding.req_per_s * loads.decode_s(decoding.stream, decoding.pool)
    return tuple(busy)


@dataclass(frozen=True, eq=False)
class PeriodWaits:
    """A period of a plan with its waits."""

    problem: Problem
    operation: PeriodOperation
    kinds: tuple[tuple[Flow, Kinds], ...]

    def paths(self, streams: Sequence[int], loaded: bool = True) -> list[Path] | None:
        """Paths of the requests of some streams.

        Args:
            loaded: whether waits and slower transfers count; else every queue is empty.

        Returns:
            Their paths; None where a queue has no steady state, or nothing flows.
        """
        if loaded:
            return self._loaded.paths(streams)
        mine = [(flow, kinds) for flow, kinds in self.kinds if flow.stream in streams]
        total = sum(flow.req_per_s * kinds.fraction for flow, kinds in mine)
        if total <= 0:
            return None
        shares = [min(flow.req_per_s * kinds.fraction / total, 1.0) for flow, kinds in mine]
        return [
            Path.of(share, kinds.service_s, kinds.weights, NO_WAIT, kinds.transfer_s)
            for share, (_, kinds) in zip(shares, mine, strict=True)
        ]

    @cached_property
    def batches(self) -> dict[int, PoolBatch]:
        """Batches of the colocated pools in use, by pool."""
        return pool_batches(self.problem, self.operation)

    def batch_queue(self, pool: int) -> JoinedQueue | None:
        """The steady state of a colocated pool in use; None where it has none."""
        n, found = self.operation.n_instances[pool], self.batches[pool]
        return found.batch.queue(n, found.req_per_s) if n > 0 else None

    @cached_property
    def _loaded(self) -> LoadedPaths:
        return LoadedPaths(self)

    def wait(self, pool: int) -> Wait | None:
        """Wait of a prefill pool in use, remembered; None where it has no steady state."""
        if pool not in self._prefill_waits:
            users = [(flow, kinds) for flow, kinds in self.kinds if flow.arc.pool == pool]
            self._prefill_waits[pool] = _wait(self.problem, self.operation, pool, users)
        return self._prefill_waits[pool]

    @cached_property
    def _prefill_waits(self) -> dict[int, Wait | None]:
        return {}

    def late_fraction(self, streams: Sequence[int], slo_ttft_s: float) -> float:
        """Fraction of some streams' requests whose first token takes longer than a TTFT, waits for decode included
        [fraction].

        Equation:
            P(W + T + X + D > x) over the flows and decode pools of the streams

        Args:
            streams: the streams.
            slo_ttft_s: the TTFT x [s].
        """
        paths = self.paths(streams)
        return 1.0 if paths is None else float(Ttft.of(paths).survival(slo_ttft_s))


def period_waits(
    problem: Problem, operation: PeriodOperation, ports: Sequence[Sequence[int]], n_kinds: int = N_KINDS
) -> PeriodWaits:
    """A period with its waits: every prefill pool is one queue of all flows into it, every link is shared by its
    transfers.

    Args:
        problem: the resolved scenario.
        operation: sizes, flows and decoding of the period.
        ports: ports of every tier of every link [count].
        n_kinds: requests that stand for the lengths of a flow [count].

    Source:
        `planner.queueing.gigc_wait`; links and places in decode batches as in `planner.optimizer.loaded_paths`.
    """
    kinds = []
    for flow in operation.flows:
        found = kinds_of(problem, flow, ports, n_kinds) if flow.req_per_s > 0 else None
        if found is not None:
            kinds.append((flow, found))
    return PeriodWaits(problem, operation, tuple(kinds))


def _wait(problem: Problem, operation: PeriodOperation, pool: int, users: Sequence[tuple[Flow, Kinds]]) -> Wait | None:
    """Wait of a prefill pool: one queue of what its flows are split off their streams and merged again."""
    rates = [flow.req_per_s * kinds.fraction for flow, kinds in users]
    rate, n_servers = sum(rates), operation.n_instances[pool] * problem.pools[pool].rates.places
    weights = np.concatenate([k.weights * (r / rate) for r, (_, k) in zip(rates, users, strict=True)])
    service = Service.of(np.concatenate([kinds.service_s for _, kinds in users]), weights)
    if n_servers == 0 or rate * service.mean_s >= n_servers * FULL:
        return None
    scvs = []
    for part, (flow, _) in zip(rates, users, strict=True):
        spec = problem.classes[problem.streams[flow.stream].request_class]
        whole = max(operation.rate_of(flow.stream), part)
        scvs.append(split_scv(spec.arrival_scv, part / whole))
    return gigc_wait(n_servers, rate, service, merged_scv(rates, scvs))


def late_fractions(period: PeriodWaits) -> dict[int, float]:
    """Late fraction of every class with an SLO on TTFT that has requests, over all its streams and pools."""
    problem, found = period.problem, {}
    spend(FLOW_S * len(period.kinds))
    for c, spec in enumerate(problem.classes):
        mine = [q for q, stream in enumerate(problem.streams) if stream.request_class == c]
        if spec.ttft_s is not None and sum(period.operation.rate_of(q) for q in mine) > TINY:
            found[c] = period.late_fraction(mine, spec.ttft_s)
    return found


def classes_missing_slo(
    problem: Problem, operations: Sequence[PeriodOperation], ports: Sequence[Sequence[int]]
) -> list[int]:
    """Classes that miss their SLO on TTFT in some period, in the best model of waits.

    An SLO is judged over all pools that serve the class: some may be later than others.

    Args:
        ports: ports of every tier of every link [count].
    """
    broken: dict[int, None] = {}
    for one in operations:
        if overfull := overfull_classes(problem, one):
            broken |= dict.fromkeys(overfull)
            continue
        if not any(spec.ttft_s is not None for spec in problem.classes):
            continue
        waits = period_waits(problem, one, ports)
        late = late_fractions(waits)
        broken |= {c: None for c, part in late.items() if part > problem.classes[c].late_allowed + TINY}
        broken |= {c: None for c, ratio in slowness(waits).items() if ratio > 1}
    return list(broken)


def overfull_classes(problem: Problem, operation: PeriodOperation) -> list[int]:
    """Classes of which a colocated pool is asked to serve more than it can, in a period."""
    batches = pool_batches(problem, operation)
    full = {i for i, found in batches.items() if found.busy > operation.n_instances[i] * (1 + OVERLOAD)}
    served = (problem.streams[d.stream].request_class for d in operation.decodings if d.pool in full)
    return list(dict.fromkeys(served))


def slowness(period: PeriodWaits) -> dict[int, float]:
    """Time per token in colocated pools over what is promised, at the percentile of each class with an SLO on TTFT."""
    problem, found = period.problem, dict[int, float]()
    for decoding in period.operation.decodings:
        c, how = problem.streams[decoding.stream].request_class, problem.pools[decoding.pool].batching
        slo = problem.classes[c].slo
        if how is None or how.engine.tpot_s is None or slo is None or slo.ttft_s is None or decoding.req_per_s <= TINY:
            continue
        queue = period.batch_queue(decoding.pool)
        tpot_s = np.inf if queue is None else queue.tpot_quantile_s(slo.ttft_percentile / 100) or 0.0
        found[c] = max(found.get(c, 0.0), tpot_s / how.engine.tpot_s)
    return found


def dominating_periods(operations: Sequence[PeriodOperation]) -> list[PeriodOperation]:
    """Periods of which no other asks as much or more of every way, at the same sizes and thresholds: all keep what
    these keep.

    Args:
        operations: what every period does.
    """
    kept: list[PeriodOperation] = []
    for one in largest_first(operations, lambda one: sum(d.req_per_s for d in one.decodings)):
        if not any(_asks_less(one, other) for other in kept):
            kept.append(one)
    return kept


def _asks_less(one: PeriodOperation, other: PeriodOperation) -> bool:
    """True if a period has the sizes of another and only flows of it, none at a higher rate."""
    ours, theirs = (
        {f._replace(req_per_s=0.0): f.req_per_s for f in period.flows}
        | {d._replace(req_per_s=0.0): d.req_per_s for d in period.decodings}
        for period in (one, other)
    )
    is_as_large = one.n_instances == other.n_instances
    return is_as_large and all(rate <= theirs.get(way, 0.0) for way, rate in ours.items() if rate > 0)
