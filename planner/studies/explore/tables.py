"""Tables of what a pool does: work by threshold, waits by threshold, instances and utilisation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.comparison.evaluation import MANY_KINDS
from planner.optimizer.delays import DecodeDemand, loaded_step_s, places_waits
from planner.optimizer.network.period_operation import (
    Flow,
    Kinds,
    PeriodOperation,
    busy_instances,
    kinds_of,
    link_gbps,
)
from planner.optimizer.problem import Problem
from planner.optimizer.routes import Route
from planner.optimizer.solution import Solution
from planner.queueing.service import Service
from planner.queueing.streams import split_scv
from planner.queueing.wait import Wait
from planner.queueing.waits import gigc_waits
from planner.results.explorer import LinkTable, PathTable, PoolTable, StockTable, Tables, WaitTable
from planner.schema import dotted
from planner.workload.mix import RequestMix

N_FINE = 61
"""Thresholds at which work is stated;"""
N_NODES = 9
"""those among them at which waits are."""
LEAST_PART = 0.04
"""Share of the requests on either side of a threshold that is looked at."""
N_KINDS = 96
TAIL = 1.3
"""How much finer the kinds of request are where they are slow."""
USE = (0.05, 0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.87, 0.92, 0.96, 0.985)
MULTIPLES = (0.0, 0.2, 0.45, 0.75, 1.1, 1.6, 2.2, 3.0, 4.2, 6.0, 9.0)
NEAR = 2
"""Instances more or less than the plan's for which waits are tabulated;"""
MANY = 16
"""beyond so many, a tenth and a fifth of them."""
LEAST = 1e-12
DIGITS = 9
FEW_DIGITS = 5
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Turned:
    """A plan of one route whose threshold and rate are turned."""

    problem: Problem
    solution: Solution

    @cached_property
    def operation(self) -> PeriodOperation:
        """Operation of the plan."""
        return self.solution.operations[0]

    @property
    def planned_tokens(self) -> float:
        """Its threshold."""
        return self.operation.flows[0].threshold_tokens

    @property
    def is_split(self) -> bool:
        """True if the threshold decides anything: a plan may send all requests one way."""
        return len(self.operation.flows) > 1

    def at(self, threshold_tokens: float, req_per_s: float) -> Solution:
        """The plan at another threshold and rate."""
        flows = tuple(
            flow._replace(req_per_s=req_per_s, threshold_tokens=threshold_tokens) for flow in self.operation.flows
        )
        decodings = tuple(d._replace(req_per_s=req_per_s) for d in self.operation.decodings)
        one = replace(self.operation, flows=flows, decodings=decodings)
        operations = tuple(replace(one, period=p) for p in range(len(self.solution.operations)))
        scale = req_per_s / self.problem.mean_req_per_s
        return replace(
            self.solution,
            operations=operations,
            scale=scale,
            routed=None,
            highest_req_per_s=req_per_s,
            goodput_req_per_s=req_per_s,
        )

    def kinds(self, flow: Flow, threshold_tokens: float) -> Kinds | None:
        """Requests of a flow at another threshold."""
        turned = flow._replace(threshold_tokens=threshold_tokens)
        return kinds_of(self.problem, turned, self.solution.ports, MANY_KINDS)


def can_turn(problem: Problem) -> bool:
    """True if a plan has one route and one period, of which a few numbers say all."""
    return problem.has_one_route and len(problem.periods) == 1


def threshold_grid(turned: Turned) -> tuple[Array, Array]:
    """Fine thresholds and the nodes among them, ascending, the plan's in both [tokens]."""
    planned = turned.planned_tokens
    if not turned.is_split:
        return np.array([planned]), np.array([planned])
    mix, route = turned.problem.classes[0].mix, turned.problem.route
    stated = np.array([planned])
    nodes = _between(mix.threshold_grid(round((N_NODES - 1) / (1 - 2 * LEAST_PART)) + 1), mix, route)
    fine = _between(mix.threshold_grid(N_FINE), mix, route)
    nodes = np.unique(np.concatenate([nodes, stated]))
    return np.unique(np.concatenate([fine, nodes])), nodes


def _between(grid: Array, mix: RequestMix, route: Route) -> Array:
    """Thresholds that leave requests on both sides, and that the pools hold."""
    long = np.array([float(mix.long_fraction(t)) for t in grid])
    inside = grid[(long >= LEAST_PART) & (long <= 1 - LEAST_PART)]
    return np.asarray(np.unique(np.round(route.thresholds_that_fit(inside))), dtype=np.float64)


def tables_of(problem: Problem, solution: Solution) -> Tables:
    """The tables of a plan that `can_turn`; without exact nodes."""
    turned = Turned(problem, solution)
    fine, nodes = threshold_grid(turned)
    spec = problem.classes[0]
    at = [turned.at(float(t), 1.0).operations[0] for t in fine]
    pools = _pools(turned, at, fine, nodes)
    return Tables(
        fine_tokens=row(fine, None),
        node_tokens=row(nodes, None),
        planned_tokens=float(turned.planned_tokens),
        planned_req_per_s=solution.scale * problem.mean_req_per_s,
        is_split=turned.is_split,
        by_factor=False,
        kind_weights=kind_weights(),
        wait_multiples=MULTIPLES,
        pools=tuple(pools),
        offload_fraction=next(pool.taken_fraction for pool in pools if pool.role == "prefill"),
        paths=tuple(_paths(turned, pools, nodes)),
        links=tuple(_links(problem, solution, at)),
        stocks=stock_tables(problem),
        promised_ttft_s=spec.ttft_s,
        promised_percentile=problem.ttft_percentile,
        mean_total_tokens=spec.mix.mean_total_tokens,
        mean_output_tokens=spec.mix.mean_output_tokens,
        exact=None,
        fixed=tuple(fixed_links(problem, solution)),
    )


def stock_tables(problem: Problem) -> tuple[StockTable, ...]:
    """Accelerators that several pools share."""
    return tuple(
        StockTable(
            site=stock.site,
            hardware=stock.hardware,
            n_accelerators=stock.n_accelerators,
            pools=tuple(problem.pools[i].name for i in stock.pools),
        )
        for stock in problem.inventories
    )


def fixed_links(problem: Problem, solution: Solution) -> Iterator[str]:
    """Keys that keep a plan's links, where the planner chose them; a bundle of ports that is no tier has its rent."""
    for link, ports in zip(problem.links, solution.ports, strict=True):
        stated, gbps, rent = problem.scenario.links[link.name], link.gbps(ports), link.ports_usd_per_hour(ports)
        if stated.capacity_gbps != "free" or gbps <= 0:
            continue
        yield f"{dotted(('links', link.name, 'capacity_gbps'))}={gbps:.15g}"
        if rent is not None and gbps not in {tier.capacity_gbps for tier in stated.tiers}:
            yield f"{dotted(('links', link.name, 'usd_per_hour'))}={rent:.15g}"


def _links(problem: Problem, solution: Solution, at: Sequence[PeriodOperation]) -> list[LinkTable]:
    sent = np.array([link_gbps(problem, one) for one in at]).T
    return [
        LinkTable(
            name=link.name,
            capacity_gbps=link.gbps(ports),
            gbps_per_req_per_s=row(sent[j]),
            usd_per_hour=link.ports_usd_per_hour(ports),
            usd_per_gb=link.usd_per_gb,
        )
        for j, (link, ports) in enumerate(zip(problem.links, solution.ports, strict=True))
    ]


def _pools(turned: Turned, at: Sequence[PeriodOperation], fine: Array, nodes: Array) -> list[PoolTable]:
    problem, decode = turned.problem, turned.problem.route.decode
    work = np.array([busy_instances(problem, one) for one in at]).T
    long = np.array([float(problem.classes[0].mix.long_fraction(t)) for t in fine])
    taken = {decode: np.ones_like(long)}
    taken |= {flow.arc.pool: long if flow.part == "long" else 1 - long for flow in turned.operation.flows}
    found = []
    for i, part in sorted(taken.items()):
        pool = problem.pools[i]
        found.append(
            PoolTable(
                name=pool.name,
                size_key=dotted(("pools", pool.key, "n_instances")),
                role="prefill" if pool.is_prefill else "decode",
                n_planned=turned.operation.n_instances[i],
                accelerators_per_instance=pool.n_accelerators,
                usd_per_instance_hour=pool.usd_per_hour,
                busy_usd_per_hour=pool.busy_usd_per_hour,
                taken_fraction=row(part, None),
                work_s=row(work[i], None),
                **(_prefill(turned, i, nodes) if pool.is_prefill else _decode(turned, i)),
            )
        )
    return found


def sizes_near(n_planned: int) -> tuple[int, ...]:
    """Instances for which waits are tabulated.

    >>> sizes_near(2), sizes_near(50)
    ((1, 2, 3, 4), (40, 45, 50, 55, 60))
    """
    if n_planned <= MANY:
        return tuple(range(max(n_planned - NEAR, 1), n_planned + NEAR + 1))
    return tuple(round(n_planned * x) for x in (0.8, 0.9, 1.0, 1.1, 1.2))


def _flow_of(turned: Turned, i: int) -> Flow:
    """The flow that a prefill pool takes."""
    (flow,) = (f for f in turned.operation.flows if f.arc.pool == i)
    return flow


def _kinds(turned: Turned, flow: Flow, threshold_tokens: float) -> Kinds:
    kinds = turned.kinds(flow, threshold_tokens)
    if kinds is None:
        raise ValueError(f"no request is {flow.part} at {threshold_tokens} tokens")
    return kinds


def _paths(turned: Turned, pools: Sequence[PoolTable], nodes: Array) -> Iterator[PathTable]:
    """The way through every prefill pool."""
    names = [pool.name for pool in pools]
    decode = names.index(turned.problem.pools[turned.problem.route.decode].name)
    for flow in turned.operation.flows:
        at = [_kinds(turned, flow, float(t)) for t in nodes]
        prefill = names.index(turned.problem.pools[flow.arc.pool].name)
        yield PathTable(
            prefill=prefill,
            decode=decode,
            share=pools[prefill].taken_fraction,
            kinds_s=tuple(few_kinds(kinds) for kinds in at),
        )


def few_kinds(kinds: Kinds) -> tuple[float, ...]:
    """Seconds of a few kinds of request after the wait, transfer included [s]."""
    return row(_few(kinds.service_s + kinds.transfer_s, kinds.weights))


def _prefill(turned: Turned, i: int, nodes: Array) -> dict[str, Any]:
    """Waits of a prefill pool."""
    if not turned.problem.has_queueing_model:
        return {"waits": None}
    flow, sizes = _flow_of(turned, i), sizes_near(turned.operation.n_instances[i])
    waits = [[_prefill_waits(turned, i, _kinds(turned, flow, float(t)), n) for n in sizes] for t in nodes]
    return {"waits": wait_table(sizes, waits)}


def _prefill_waits(turned: Turned, i: int, kinds: Kinds, n: int) -> list[Wait]:
    service = Service.of(kinds.service_s, kinds.weights)
    places = n * turned.problem.pools[i].rates.places
    scv = split_scv(turned.problem.classes[0].arrival_scv, min(kinds.fraction, 1.0))
    found = gigc_waits(places, np.array(USE) * places / service.mean_s, service, scv)
    return [found.wait(k) for k in range(len(USE))]


def _decode(turned: Turned, i: int) -> dict[str, Any]:
    """Waits for a place in a batch, and seconds per output token."""
    point, spec = turned.problem.pools[i].rates.decode, turned.problem.classes[0]
    if point is None or not turned.problem.has_queueing_model:
        return {"waits": None}
    sizes, tokens = sizes_near(turned.operation.n_instances[i]), spec.mix.mean_output_tokens
    each_s, waits, steps = point.seconds_per_request(tokens), [], []
    for n in sizes:
        scales = np.array(USE) * n / each_s
        found = places_waits(point, [DecodeDemand.of(spec, 1.0)], n, scales)
        waits.append([wait for wait in found if wait is not None])
        steps.append(row(np.array([loaded_step_s(point, float(r), tokens, n) for r in scales])))
    return {"waits": wait_table(sizes, [waits]), "step_s": tuple(steps)}


def wait_table(sizes: tuple[int, ...], waits: Sequence[Sequence[Sequence[Wait]]]) -> WaitTable:
    """Waits by threshold node, instances and utilisation."""
    idle = 1 - np.array(USE)
    waiting, scaled, survival = [], [], []
    for by_size in waits:
        waiting.append(
            tuple(row(np.log([max(w.waiting_fraction, LEAST) for w in some]), FEW_DIGITS + 1) for some in by_size)
        )
        means = [np.array([_given_s(w) for w in some]) for some in by_size]
        scaled.append(tuple(row(np.log(np.maximum(m * idle, LEAST)), FEW_DIGITS + 1) for m in means))
        survival.append(tuple(tuple(_shape(w) for w in some) for some in by_size))
    return WaitTable(
        n_instances=sizes,
        use=USE,
        log_waiting=tuple(waiting),
        log_idle_wait=tuple(scaled),
        log_survival=tuple(survival),
    )


def _given_s(wait: Wait) -> float:
    """E[W | W > 0] [s]."""
    return wait.mean_s / wait.waiting_fraction if wait.waiting_fraction > 0 else 0.0


def _shape(wait: Wait) -> tuple[float, ...]:
    """log P(W > x m | W > 0) at the multiples x of its conditional mean m; of no wait, the exponential's."""
    if wait.waiting_fraction <= LEAST:
        return tuple(-x for x in MULTIPLES)
    late = wait.survival(np.array(MULTIPLES) * _given_s(wait)) / wait.waiting_fraction
    return row(np.log(np.maximum(np.minimum(late, 1.0), LEAST)), FEW_DIGITS)


def _edges() -> Array:
    """Quantiles between the kinds of request: closer together the slower they are."""
    return np.asarray(1 - (1 - np.linspace(0, 1, N_KINDS + 1)) ** TAIL)


def kind_weights() -> tuple[float, ...]:
    """Weights of the few kinds of request."""
    return row(np.diff(_edges()), FEW_DIGITS + 3)


def _few(seconds: Array, weights: Array) -> Array:
    """Means between quantiles: few kinds for many, with their mean kept."""
    order = np.argsort(seconds, kind="stable")
    upto = np.concatenate([[0.0], np.cumsum(weights[order])])
    total = np.concatenate([[0.0], np.cumsum(weights[order] * seconds[order])])
    edges = _edges()
    return np.asarray(np.diff(np.interp(edges * upto[-1], upto, total)) / (np.diff(edges) * upto[-1]))


def row(values: Array, digits: int | None = DIGITS) -> tuple[float, ...]:
    """Values as they are written; None: with all their digits."""
    return tuple(float(x) if digits is None else float(f"{x:.{digits}g}") for x in values)
