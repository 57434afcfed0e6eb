"""The batches of colocated pools in a period: what each computes and what joins it, what it serves, and its waits."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.optimizer.batch_loads import Engine, Load, load_of
from planner.optimizer.batching import Batching, output_square
from planner.queueing.colocated import colocated_capacity_req_per_s, full_instance_rate, steady_pass_s
from planner.queueing.decode_only_arrivals import JoinedQueue, joined_capacity_req_per_s, joined_prompts, joined_queue
from planner.roofline import RequestKinds, cells
from planner.work_clock import spend
from planner.workload.mix import RequestAtoms, RequestMix

if TYPE_CHECKING:
    from planner.optimizer.network.period_operation import Flow, PeriodOperation
    from planner.optimizer.problem import Problem
    from planner.optimizer.problem_parts import Part

N_ATOMS = 4096
"""Requests that stand for a part of a class,"""
N_KINDS = 128
"""and kinds that remain of all parts together."""
DIGITS = 9
"""To which shares of parts agree in batches that count as one."""
TINY = 1e-9
"""Share of requests, or rate, that counts as none."""
BUSIEST = 0.99
"""Utilisation up to which waits are computed."""
QUEUE_S, CLASS_S = 0.03, 0.03
"""What the queue of a batch takes to be solved, and the times of each part of a class [s]."""
CAPACITY_S = 7e-3
"""What the capacity of a batch takes to be found [s]."""


class MixPart(NamedTuple):
    """Requests of a class, or those longer or shorter than a threshold."""

    request_class: int
    part: "Part | None"
    threshold_tokens: float
    share: float
    """Of the requests that are meant [fraction]."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Requests at the instances of a colocated pool, whatever their rate."""

    load: Load
    joining_fraction: float
    """Share of the requests whose prompt is computed elsewhere."""
    capacity_req_per_s: float
    """Of an instance, over all requests."""
    parts: tuple[MixPart, ...]
    """Of which prompts are computed here, in the order of the classes of the load's prompts."""
    tpot_s: float | None
    """Limit on the mean time per token [s]."""

    @cached_property
    def full_tpot_s(self) -> float | None:
        """Mean time per token at the capacity [s]; None without a second token."""
        load = replace(self.load, prompts=joined_prompts(self.load.prompts, self.joining_fraction))
        return full_tpot_s(load, self.tpot_s)

    def queue(self, n_instances: int, req_per_s: float) -> JoinedQueue | None:
        """The steady state at a rate, remembered; None without one."""
        key = n_instances, float(f"{req_per_s:.12g}")
        if key not in self._queues:
            self._queues[key] = self._queue(*key)
        return self._queues[key]

    def _queue(self, n_instances: int, req_per_s: float) -> JoinedQueue | None:
        if req_per_s <= 0 or req_per_s > BUSIEST * (1 + TINY) * n_instances * self.capacity_req_per_s:
            return None
        spend(QUEUE_S + CLASS_S * len(self.parts))
        try:
            n = n_instances * self.load.n_replicas
            return joined_queue(self.load.loop, self.load.prompts, self.joining_fraction, req_per_s, n)
        except ValueError:  # places in memory are taken all the time
            return None

    @cached_property
    def _queues(self) -> dict[tuple[int, float], JoinedQueue | None]:
        return {}


class PoolBatch(NamedTuple):
    """A colocated pool in a period."""

    batch: Batch
    req_per_s: float
    """That it decodes."""

    @property
    def busy(self) -> float:
        """Busy instances [count]."""
        return self.req_per_s / max(self.batch.capacity_req_per_s, TINY)


def pool_batches(problem: "Problem", operation: "PeriodOperation") -> dict[int, PoolBatch]:
    """The batches of the colocated pools in use, by pool."""
    found: dict[int, PoolBatch] = {}
    for i, pool in enumerate(problem.pools):
        rate = sum(d.req_per_s for d in operation.decodings if d.pool == i)
        if pool.batching is not None and rate > TINY:
            own, joined = _own(problem, operation, i), _joined(problem, operation, i)
            found[i] = PoolBatch(remembered_batch(problem, pool.batching, own, joined), rate)
    return found


def own_rate(problem: "Problem", operation: "PeriodOperation", pool: int, stream: int) -> float:
    """Requests of a stream whose prompts a colocated pool computes itself [req/s]."""
    flows = (f for f in operation.flows if f.stream == stream and f.arc.pool == pool)
    return sum(f.req_per_s * _fraction(problem, f) for f in flows)


def _fraction(problem: "Problem", flow: "Flow") -> float:
    """Part of the requests of a stream that a flow is about [fraction]."""
    long = float(problem.classes[problem.streams[flow.stream].request_class].mix.long_fraction(flow.threshold_tokens))
    return long if flow.part == "long" else 1 - long


def _own(problem: "Problem", operation: "PeriodOperation", pool: int) -> Iterator[tuple[MixPart, float]]:
    """Parts of classes whose prompts a pool computes, and their rates [req/s]."""
    for flow in operation.flows:
        if flow.arc.pool == pool:
            c = problem.streams[flow.stream].request_class
            yield MixPart(c, flow.part, flow.threshold_tokens, 0.0), flow.req_per_s * _fraction(problem, flow)


def _joined(problem: "Problem", operation: "PeriodOperation", pool: int) -> Iterator[tuple[MixPart, float]]:
    """Parts of classes that join the batches of a pool, their prompts computed elsewhere, and their rates [req/s]."""
    for stream in {d.stream for d in operation.decodings if d.pool == pool}:
        rate = sum(d.req_per_s for d in operation.decodings if d.pool == pool and d.stream == stream)
        rate -= own_rate(problem, operation, pool, stream)
        elsewhere = [
            (f, f.req_per_s * _fraction(problem, f))
            for f in operation.flows
            if f.stream == stream and problem.pools[f.arc.pool].batching is None
        ]
        total, c = sum(r for _, r in elsewhere), problem.streams[stream].request_class
        for flow, part in elsewhere if total > TINY and rate > TINY else ():
            yield MixPart(c, flow.part, flow.threshold_tokens, 0.0), rate * part / total


def remembered_batch(
    problem: "Problem",
    how: Batching,
    own: Iterable[tuple[MixPart, float]],
    joined: Iterable[tuple[MixPart, float]],
) -> Batch:
    """The batch of some parts of classes, remembered by their shares.

    Args:
        own: parts whose prompts it computes, and their rates.
        joined: parts that join with prompts that were computed elsewhere, and their rates.
    """
    sums: tuple[dict[MixPart, float], dict[MixPart, float]] = ({}, {})
    for into, parts in zip(sums, (own, joined), strict=True):
        for part, rate in parts:
            into[part] = into.get(part, 0.0) + rate
    total = sum(sum(rates.values()) for rates in sums)
    shares = [
        tuple(part._replace(share=round(rate / total, DIGITS)) for part, rate in rates.items() if rate > TINY * total)
        for rates in sums
    ]
    key = tuple(tuple((problem.classes[part.request_class].mix, part) for part in some) for some in shares)
    if key not in how.known:
        spend(CAPACITY_S)
        how.known[key] = batch_of([spec.mix for spec in problem.classes], how.engine, *shares)
    found = how.known[key]
    assert isinstance(found, Batch)
    return found


def batch_of(
    mixes: Sequence[RequestMix], engine: Engine, own: tuple[MixPart, ...], joined: tuple[MixPart, ...]
) -> Batch:
    """The batch of parts of classes.

    Args:
        own: parts whose prompts it computes, with their shares of all requests.
        joined: parts that join with prompts that were computed elsewhere.

    Raises:
        InputError: a shape or a figure is unknown.
    """
    everyone, _ = request_kinds([(mixes[p.request_class], p) for p in (*own, *joined)])
    prompts, classes = request_kinds([(mixes[p.request_class], p) for p in own]) if own else (None, ())
    computed, limit_s = sum(p.share for p in own), engine.tpot_s
    joining = min(max(1 - computed, 0.0), 1.0) if joined else 0.0
    load = load_of(engine, prompts, everyone, 1 - joining)
    load = replace(load, prompts=replace(load.prompts, classes=classes))
    capacity = joined_capacity_req_per_s(load.loop, load.prompts, joining, np.inf if limit_s is None else limit_s)
    return Batch(load, joining, load.n_replicas * capacity, own, limit_s)


def full_tpot_s(load: Load, tpot_s: float | None) -> float | None:
    """Time per token at the capacity, of the smallest batch that reaches it [s]; None without a second token.

    Args:
        tpot_s: longest mean time per token; None: any [s].
    """
    limit_s = np.inf if tpot_s is None else tpot_s
    if load.prompts.decoded_tokens <= 0:
        return None
    batch = np.arange(1.0, load.loop.most_running + 1)
    seconds = steady_pass_s(load.loop, load.prompts, batch)
    rate = batch / (load.prompts.decoded_tokens * seconds)
    most = colocated_capacity_req_per_s(load.loop, load.prompts, limit_s)
    if load.loop.preemption is not None and (kept := full_instance_rate(load.loop, load.prompts))[0] <= most:
        return kept[1]
    reached = np.flatnonzero((rate >= most * (1 - 1e-3)) & (seconds <= limit_s))
    return float(seconds[reached[0]]) if len(reached) else None


def request_kinds(parts: Sequence[tuple[RequestMix, MixPart]]) -> tuple[RequestKinds, tuple[np.ndarray, ...]]:
    """Kinds of prompts with the means of all parts, and the moments of their answers.

    Args:
        parts: requests, of which a part is meant, with its share.

    Returns:
        The kinds of all; and for every part the shares of these kinds in it, shape (kinds,).
    """
    n = max(N_KINDS // len(parts), 1)
    of_parts = [_condensed(_atoms(mix, part), n) for mix, part in parts]
    total = sum(part.share for _, part in parts)
    shares = [part.share / total for _, part in parts]
    whole, held, weights = (np.concatenate([found[i] for found in of_parts]) for i in range(3))
    sizes = [len(found.weights) for found in of_parts]
    weights = weights * np.repeat(shares, sizes)
    mean = sum(s * mix.mean_output_tokens for s, (mix, _) in zip(shares, parts, strict=True))
    square = sum(s * output_square(mix) for s, (mix, _) in zip(shares, parts, strict=True))
    ends = np.cumsum([0, *sizes])
    classes = []
    for k, found in enumerate(of_parts):
        own = np.zeros(len(whole))
        own[ends[k] : ends[k + 1]] = found.weights
        classes.append(own)
    kinds = RequestKinds(whole, weights / weights.sum(), max(mean, 1.0), max(square, mean**2, 1.0), held)
    return kinds, tuple(classes)


def _atoms(mix: RequestMix, part: MixPart) -> RequestAtoms:
    if part.part is None:
        return mix.atoms(N_ATOMS)
    return (mix.long_atoms if part.part == "long" else mix.short_atoms)(part.threshold_tokens, N_ATOMS)


def _condensed(atoms: RequestAtoms, n: int) -> RequestAtoms:
    """At most n kinds of prompts, with the means of all; weights add up to 1."""
    total, cached, weights = atoms
    cell = cells(total - cached, weights, n)
    mass = np.bincount(cell, weights, n)
    kept = mass > 0
    whole, held = (np.bincount(cell, weights * x, n)[kept] / mass[kept] for x in (total, cached))
    return RequestAtoms(whole, held, mass[kept] / mass.sum())
