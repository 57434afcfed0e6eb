"""Tables of a plan of several classes, sites or periods: one set for every period."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import ceil
from typing import NamedTuple

import numpy as np

from planner.comparison.evaluation import MANY_KINDS
from planner.optimizer.delays import DecodeDemand, loaded_step_s, places_waits
from planner.optimizer.network.cells import point_cell
from planner.optimizer.network.period_operation import Flow, Kinds, kinds_of
from planner.optimizer.problem import Arc, Problem
from planner.optimizer.problem_parts import Part
from planner.optimizer.solution import Solution
from planner.queueing.service import Service
from planner.queueing.streams import merged_scv, split_scv
from planner.queueing.wait import Wait
from planner.queueing.waits import gigc_waits
from planner.results.explorer import LinkTable, PathTable, PoolTable, Tables, WaitTable
from planner.schema import dotted
from planner.studies.explore.network import TurnedNetwork, used_pools
from planner.studies.explore.tables import (
    MULTIPLES,
    USE,
    Array,
    few_kinds,
    fixed_links,
    kind_weights,
    row,
    sizes_near,
    stock_tables,
    wait_table,
)
from planner.units import BITS_PER_BYTE, BITS_PER_GBIT

WELL_USED = 0.75
"""Utilisation at which a pool is sized that the plan leaves without instances."""
MOST_SIZES = 5


class Used(NamedTuple):
    """A way of some requests: what prefills them, and what decodes them."""

    flow: Flow
    decode: int
    share: float
    """Of the flow's requests that are decoded there."""


class RouteArrivals(NamedTuple):
    """Requests that come to a prefill pool by one way."""

    req_per_s: float
    scv: float
    kinds: Kinds


Waits = tuple[WaitTable | None, tuple[tuple[float, ...], ...]]
"""Waits of a pool, and of one that decodes its steps."""


class NetworkTables:
    """Figures that the tables of all periods share."""

    def __init__(self, problem: Problem, solution: Solution) -> None:
        self.problem, self.turned = problem, TurnedNetwork(problem, solution)
        self.periods = range(len(solution.operations))
        self.fine, self.nodes = self.turned.factors
        self.used = used_pools(self.turned)
        self._kinds: dict[tuple[int, Part, Arc, float], Kinds | None] = {}

    @cached_property
    def waits(self) -> dict[int, Waits]:
        """Waits of every pool by threshold node, instances and use, and of a decode pool its steps."""
        if not self.problem.has_queueing_model:
            return dict.fromkeys(self.used, (None, ()))
        return {i: self._prefill(i) if self.problem.pools[i].is_prefill else self._decode(i) for i in self.used}

    def tables(self, p: int) -> Tables:
        """A period; without exact nodes."""
        problem, planned, rates = self.problem, self.turned.planned_tokens(p), self.turned.rates(p)
        total = sum(rates)
        promised = [c for c in problem.classes if c.ttft_s is not None]
        mixes = [problem.classes[stream.request_class].mix for stream in problem.streams]
        return Tables(
            fine_tokens=row(self.fine * planned, None),
            node_tokens=row(self.nodes * planned, None),
            planned_tokens=planned,
            planned_req_per_s=total,
            is_split=self.turned.is_turnable(p),
            by_factor=True,
            kind_weights=kind_weights(),
            wait_multiples=MULTIPLES,
            pools=tuple(self._pool(p, i) for i in self.used),
            offload_fraction=row(self._offloaded(p) / total),
            paths=tuple(self._paths(p)),
            links=tuple(self._links(p)),
            stocks=stock_tables(problem),
            promised_ttft_s=min((c.ttft_s or 0.0 for c in promised), default=None) if _same_promise(problem) else None,
            promised_percentile=problem.ttft_percentile,
            mean_total_tokens=sum(r * m.mean_total_tokens for r, m in zip(rates, mixes, strict=True)) / total,
            mean_output_tokens=sum(r * m.mean_output_tokens for r, m in zip(rates, mixes, strict=True)) / total,
            exact=None,
            fixed=tuple(fixed_links(problem, self.turned.solution)),
        )

    def _pool(self, p: int, i: int) -> PoolTable:
        turned, pool = self.turned, self.problem.pools[i]
        work, taken = np.zeros(len(self.fine)), np.zeros(len(self.fine))
        for k, factor in enumerate(self.fine):
            for flow in (f for f in turned.flows(p, float(factor)) if f.arc.pool == i):
                seconds = turned.loads.work_s(flow.stream, flow.arc, flow.part, point_cell(flow.threshold_tokens))
                work[k] += flow.req_per_s * seconds
                taken[k] += flow.req_per_s * self.turned.part(p, flow, float(factor))
        for d in turned.solution.operations[p].decodings:
            if d.pool == i:
                work += d.req_per_s * turned.loads.decode_s(d.stream, i)
                taken += d.req_per_s
        total, (waits, steps) = sum(turned.rates(p)), self.waits[i]
        return PoolTable(
            name=pool.name,
            size_key=dotted(("pools", pool.key, "n_instances")),
            role="prefill" if pool.is_prefill else "decode",
            n_planned=turned.solution.operations[p].n_instances[i],
            accelerators_per_instance=pool.n_accelerators,
            usd_per_instance_hour=pool.usd_per_hour,
            busy_usd_per_hour=pool.busy_usd_per_hour,
            taken_fraction=row(taken / total),
            work_s=row(work / total),
            waits=waits,
            step_s=steps,
        )

    def _offloaded(self, p: int) -> Array:
        """Rate of long prompts that leave their site or go to a pool for such alone [1/s]."""
        pools = self.problem.pools
        return np.array(
            [
                sum(
                    flow.req_per_s * self.turned.part(p, flow, float(factor))
                    for flow in self.turned.flows(p, float(factor))
                    if flow.part == "long" and (flow.arc.link is not None or len(pools[flow.arc.pool].parts) == 1)
                )
                for factor in self.fine
            ]
        )

    def _routes(self, p: int, factor: float) -> list[Used]:
        return [
            Used(flow, pool, share)
            for flow in self.turned.flows(p, factor)
            for pool, share in self.turned.decoded(p, flow.stream)
        ]

    def _paths(self, p: int) -> Iterator[PathTable]:
        total = sum(self.turned.rates(p))
        at_fine = [self._routes(p, float(f)) for f in self.fine]
        at_nodes = [self._routes(p, float(f)) for f in self.nodes]
        for j, one in enumerate(at_fine[0]):
            share = [
                ways[j].flow.req_per_s * one.share * self.turned.part(p, ways[j].flow, float(f)) / total
                for f, ways in zip(self.fine, at_fine, strict=True)
            ]
            kinds = [self.kinds(ways[j].flow) for ways in at_nodes]
            known = next((k for k in kinds if k is not None), None)
            if known is not None and max(share) > 0:
                yield PathTable(
                    prefill=self.used.index(one.flow.arc.pool),
                    decode=self.used.index(one.decode),
                    share=row(np.array(share)),
                    kinds_s=tuple(few_kinds(known if k is None else k) for k in kinds),
                )

    def kinds(self, flow: Flow) -> Kinds | None:
        """Requests of a flow, remembered: they do not depend on its rate."""
        key = flow.stream, flow.part, flow.arc, flow.threshold_tokens
        if key not in self._kinds:
            self._kinds[key] = kinds_of(self.problem, flow, self.turned.solution.ports, MANY_KINDS)
        return self._kinds[key]

    def _links(self, p: int) -> Iterator[LinkTable]:
        turned, total = self.turned, sum(self.turned.rates(p))
        for j, (link, ports) in enumerate(zip(self.problem.links, turned.solution.ports, strict=True)):
            sent = [
                sum(
                    flow.req_per_s
                    * turned.loads.sent_bytes(flow.stream, flow.arc, flow.part, point_cell(flow.threshold_tokens))
                    for flow in turned.flows(p, float(factor))
                    if flow.arc.link == j
                )
                for factor in self.fine
            ]
            yield LinkTable(
                name=link.name,
                capacity_gbps=link.gbps(ports),
                gbps_per_req_per_s=row(np.array(sent) * BITS_PER_BYTE / BITS_PER_GBIT / total),
                usd_per_hour=link.ports_usd_per_hour(ports),
                usd_per_gb=link.usd_per_gb,
            )

    def _busiest(self, i: int, factor: float) -> list[RouteArrivals]:
        """Arrivals at a prefill pool at a factor, in the period that gives it most to do."""
        return max((list(self._arrivals(p, i, factor)) for p in self.periods), key=_work)

    def _arrivals(self, p: int, i: int, factor: float) -> Iterator[RouteArrivals]:
        for flow in self.turned.flows(p, factor):
            kinds = self.kinds(flow) if flow.arc.pool == i else None
            if kinds is not None:
                spec = self.problem.classes[self.problem.streams[flow.stream].request_class]
                rate = flow.req_per_s * kinds.fraction
                whole = self.turned.solution.operations[p].rate_of(flow.stream)
                yield RouteArrivals(rate, split_scv(spec.arrival_scv, min(rate / whole, 1.0)), kinds)

    def _prefill(self, i: int) -> Waits:
        """Waits of a prefill pool; where it has nothing to do at a node, those of the nearest after it, or before."""
        found = [self._busiest(i, float(factor)) for factor in self.nodes]
        known = [some for some in found if some]
        if not known:
            return None, ()
        planned = self._n(i)
        sizes = sizes_near(planned) if planned else _sizes_for([_work(some) for some in known])
        return wait_table(sizes, [self._prefill_waits(i, some or known[0], sizes) for some in found]), ()

    def _prefill_waits(self, i: int, users: Sequence[RouteArrivals], sizes: Sequence[int]) -> list[list[Wait]]:
        """By instances and use: one queue of what its flows are split off their streams and merged again."""
        rates = [one.req_per_s for one in users]
        weights = np.concatenate([one.kinds.weights * (one.req_per_s / sum(rates)) for one in users])
        service = Service.of(np.concatenate([one.kinds.service_s for one in users]), weights)
        scv, places = merged_scv(rates, [one.scv for one in users]), self.problem.pools[i].rates.places
        found = [gigc_waits(n * places, np.array(USE) * n * places / service.mean_s, service, scv) for n in sizes]
        return [[waits.wait(k) for k in range(len(USE))] for waits in found]

    def _decode(self, i: int) -> Waits:
        """Waits for a place in a batch, and seconds per output token, in the period that gives it most to do."""
        batches = self.problem.pools[i].rates.decode
        asked = max((self._asked(p, i) for p in self.periods), key=lambda some: sum(a.req_per_s for a in some))
        rate = sum(a.req_per_s for a in asked)
        if batches is None or rate <= 0:
            return None, ()
        tokens = sum(a.req_per_s * a.mean_tokens for a in asked) / rate
        sizes, each_s, waits, steps = sizes_near(self._n(i)), batches.seconds_per_request(tokens), [], []
        for n in sizes:
            rates = np.array(USE) * n / each_s
            waits.append([wait for wait in places_waits(batches, asked, n, rates / rate) if wait is not None])
            steps.append(row(np.array([loaded_step_s(batches, float(r), tokens, n) for r in rates])))
        return wait_table(sizes, [waits]), tuple(steps)

    def _asked(self, p: int, i: int) -> list[DecodeDemand]:
        one = self.turned.solution.operations[p]
        mine = [d for d in one.decodings if d.pool == i and d.req_per_s > 0]
        specs = [self.problem.classes[self.problem.streams[d.stream].request_class] for d in mine]
        return [
            DecodeDemand.of(c, d.req_per_s, d.req_per_s / one.rate_of(d.stream))
            for c, d in zip(specs, mine, strict=True)
        ]

    def _n(self, i: int) -> int:
        return self.turned.solution.operations[0].n_instances[i]


def _work(users: Sequence[RouteArrivals]) -> float:
    """Busy instances of a pool [count]."""
    return sum(one.req_per_s * float(one.kinds.service_s @ one.kinds.weights) for one in users)


def _sizes_for(work: Sequence[float]) -> tuple[int, ...]:
    """Instances for which the waits of a pool are tabulated that the plan leaves without any.

    >>> _sizes_for([0.3, 6.0])
    (1, 2, 4, 8)
    """
    needed = np.geomspace(min(work), max(work), MOST_SIZES) / WELL_USED
    return tuple(sorted({ceil(n) for n in needed}))


def _same_promise(problem: Problem) -> bool:
    """True if all classes are promised the same, so that one line shows it."""
    return len({(c.ttft_s, c.late_allowed) for c in problem.classes}) == 1
