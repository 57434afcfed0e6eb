"""Bounds of small networks against every plan of them: sizes, ports, thresholds and ways, each judged by its queues."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import UndecidedError
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.network.cells import point_cell
from planner.optimizer.network.loads import LINK_BUSY, NetworkLoads
from planner.optimizer.network.period_operation import (
    Decoding,
    Flow,
    PeriodOperation,
    busy_instances,
    classes_missing_slo,
    link_gbps,
)
from planner.optimizer.network.relaxation import all_thresholds, relaxed_program, solved_relaxation
from planner.optimizer.network.search import network_search, peak_situations
from planner.optimizer.problem import Problem
from tests.builders import BOTH_WAYS, FAST, GPUS, HOME, small_with

Changes = dict[str, Any]


@st.composite
def promised_network(draw: st.DrawFn) -> Changes:
    """One class at one site, a few lengths, a day and a night, a handful of instances and a promise that binds."""
    tokens = draw(st.lists(st.integers(500, 30_000), min_size=1, max_size=3, unique=True))
    return {
        "objective": "min-cost",
        "workload.lengths": {"kind": "empirical", "tokens": tokens},
        "slo": {"ttft_s": draw(st.floats(2.0, 12.0)), "ttft_percentile": draw(st.sampled_from([50.0, 90.0, 99.0]))},
        "periods": {"day": {"hours": 12}, "night": {"hours": 12, "demand": draw(st.floats(0.2, 0.9))}},
        "demand_req_per_s": draw(st.floats(0.05, 1.5)),
        "links.wan.capacity_gbps": draw(st.sampled_from([10.0, 100.0])),
        "links.wan.usd_per_hour": draw(st.floats(0.0, 30.0)),
        f"prices.{FAST}.usd_per_accelerator_hour": draw(st.floats(1.0, 6.0)),
        f"sites.remote.accelerators.{FAST}": GPUS * 2,
        f"sites.local.accelerators.{HOME}": GPUS * 4,
    }


@st.composite
def network_of_two_ways(draw: st.DrawFn) -> Changes:
    """Two classes at two sites that prefill each other's long prompts beside their own short ones."""
    lengths = st.lists(st.integers(300, 30_000), min_size=1, max_size=2, unique=True)
    slo = st.builds(
        lambda ttft_s, percentile: {"ttft_s": ttft_s, "ttft_percentile": percentile},
        st.floats(2.0, 12.0),
        st.sampled_from([50.0, 90.0, 99.0]),
    )
    classes = {
        name: {
            "share": share,
            "sites": {site: 1.0},
            "slo": draw(slo),
            "workload": {
                "lengths": {"kind": "empirical", "tokens": draw(lengths)},
                "output_lengths": {"kind": "constant", "tokens": 400},
            },
        }
        for name, site, share in (("east", "local", 0.6), ("west", "remote", 0.4))
    }
    return {
        **BOTH_WAYS,
        "objective": "min-cost",
        "workload": None,
        "demand_req_per_s": draw(st.floats(0.1, 2.5)),
        "classes": classes,
        f"prices.{FAST}.usd_per_accelerator_hour": draw(st.floats(1.0, 6.0)),
        "sites.remote.accelerators": {FAST: GPUS * 2, HOME: GPUS * 2},
        f"sites.local.accelerators.{HOME}": GPUS * 4,
    }


def sizings(problem: Problem) -> Iterator[tuple[tuple[int, ...], tuple[tuple[int, ...], ...], float]]:
    """Sizes and ports within every limit, the cheapest first, each with its rent [USD/h]."""
    found = []
    for n in product(*(range(pool.max_instances + 1) for pool in problem.pools)):
        used = [sum(n[i] * problem.pools[i].n_accelerators for i in inv.pools) for inv in problem.inventories]
        if any(u > inv.n_accelerators for u, inv in zip(used, problem.inventories, strict=True)):
            continue
        for ports in product(*(range(link.tiers[0].max_ports + 1) for link in problem.links)):
            rent = sum(m * (pool.usd_per_hour or 0.0) for m, pool in zip(n, problem.pools, strict=True))
            rent += sum(m * (link.tiers[0].usd_per_hour or 0.0) for m, link in zip(ports, problem.links, strict=True))
            found.append((n, tuple((m,) for m in ports), rent))
    yield from sorted(found, key=lambda item: item[2])


def keeps(problem: Problem, operation: PeriodOperation, ports: tuple[tuple[int, ...], ...]) -> bool:
    """Whether a period is a plan of the family that the bound is for."""
    loads, busy = NetworkLoads(problem), busy_instances(problem, operation)
    if any(b >= n for b, n in zip(busy, operation.n_instances, strict=True) if b > 0):
        return False
    for gbps, m, link in zip(link_gbps(problem, operation), ports, problem.links, strict=True):
        if gbps > LINK_BUSY * m[0] * link.tiers[0].capacity_gbps:
            return False
    if any(
        loads.fraction(f.stream, f.part, point_cell(f.threshold_tokens)) > 0 and operation.n_instances[f.arc.pool] == 0
        for f in operation.flows
    ):
        return False
    return classes_missing_slo(problem, [operation], ports) == []


def ways(problem: Problem, q: int, rate: float) -> list[tuple[Flow, Flow, Decoding]]:
    """Everything that may be done with a stream that has one threshold and takes one way."""
    total, cached, _ = problem.classes[problem.streams[q].request_class].mix.atoms(64)
    return [
        (Flow(q, "long", a, float(t), rate), Flow(q, "short", b, float(t), rate), Decoding(q, d, rate))
        for t in (0.0, *np.unique(total - cached))
        for a, b, d in product(problem.arcs[q]["long"], problem.arcs[q]["short"], problem.decoders[q])
    ]


def serves(problem: Problem, n: tuple[int, ...], ports: tuple[tuple[int, ...], ...]) -> bool:
    """Whether some thresholds and ways serve every period with these sizes and ports."""
    for p in range(len(problem.periods)):
        choices = [ways(problem, q, demand.req_per_s[p]) for demand in problem.demands for q in demand.streams]
        plans = (
            PeriodOperation(
                p, n, tuple(f for long, short, _ in chosen for f in (long, short)), tuple(d for *_, d in chosen)
            )
            for chosen in product(*choices)
        )
        if not any(keeps(problem, plan, ports) for plan in plans):
            return False
    return True


@given(promised_network() | network_of_two_ways())
def test_no_plan_of_a_small_network_is_cheaper_than_the_bound(changes: Changes) -> None:
    problem = planning_problem(small_with(changes))
    cheapest = next((rent for n, ports, rent in sizings(problem) if serves(problem, n, ports)), None)
    try:
        found = network_search(problem, 30.0)
    except UndecidedError:
        return
    if found is None:
        assert cheapest is None
        return
    assert classes_missing_slo(problem, found.operations, found.ports) == []
    if cheapest is not None:
        assert found.bound <= cheapest * (1 + 1e-6)


@given(promised_network() | network_of_two_ways())
def test_no_plan_of_a_small_network_is_cheaper_than_the_bound_of_its_blocks(changes: Changes) -> None:
    problem = planning_problem(small_with(changes))
    cheapest = next((rent for n, ports, rent in sizings(problem) if serves(problem, n, ports)), None)
    loads = NetworkLoads(problem, is_optimistic=True)
    segments = {i: [(1, max(pool.max_instances, 1))] for i, pool in enumerate(problem.pools)}
    peaks = peak_situations(problem)
    seen = solved_relaxation(relaxed_program(loads, peaks, segments, all_thresholds(loads, peaks)), 30.0)
    if cheapest is not None:
        assert seen is not None
        assert seen.solution.bound * (1 - 1e-6) <= seen.lagrangian_bound() <= cheapest * (1 + 1e-6)
