"""A promise is a class's: judged over the pools that serve it, whichever of them is late."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import UndecidedError
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.network.formulation import build
from planner.optimizer.network.indices import PoolInSituation, PoolSizing
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.period_operation import (
    Decoding,
    Flow,
    PeriodOperation,
    busy_instances,
    classes_missing_slo,
    late_fractions,
    period_waits,
)
from planner.optimizer.network.program import MixedIntegerProgram, ProgramSpec
from planner.optimizer.network.refinement import first_cells_of
from planner.optimizer.network.search import network_search
from planner.optimizer.problem import Arc, Problem, Situation
from planner.optimizer.solution import Solution
from planner.queueing.staffing import QueuedRequests, late_fraction, most_timely_servers
from planner.scenario import Scenario
from tests.builders import FAST, GPUS, HOME, small_with
from tests.cpu_cost import cached

LIMIT_S = 120.0
"""More than a search needs on a busy machine: it stops by itself."""


def request_class(share: float, tokens: list[int], ttft_s: float) -> dict[str, Any]:
    workload = {
        "lengths": {"kind": "empirical", "tokens": tokens},
        "output_lengths": {"kind": "constant", "tokens": 200},
    }
    return {"share": share, "sites": {"local": 1.0}, "slo": {"ttft_s": ttft_s}, "workload": workload}


def two_kinds(**changes: Any) -> Scenario:
    """Chat, and documents half of which the slow kind cannot prefill in time; of the quick kind there is too little."""
    return small_with(
        {
            "objective": "min-cost",
            "demand_req_per_s": 5.9,
            "workload": None,
            "classes": {
                "chat": request_class(0.84, [800, 3000], 2.0),
                "documents": request_class(0.16, [20_000, 40_000], 7.5),
            },
            "links": {},
            "pools.fast.site": "local",
            "sites.local.accelerators": {FAST: 3 * GPUS, HOME: 12 * GPUS},
            "periods": {"all": {"hours": 1.0}},
            **changes,
        }
    )


@cached
def planned() -> tuple[Problem, Solution]:
    problem = planning_problem(two_kinds())
    found = network_search(problem, LIMIT_S)
    assert found is not None
    return problem, found


def divided(problem: Problem, n: tuple[int, ...], on_first: tuple[float, ...]) -> PeriodOperation:
    """A period in which a part of every class goes to the first prefill pool, and the rest to the second."""
    demands = [demand.req_per_s[0] for demand in problem.demands]
    first, second = (i for i, pool in enumerate(problem.pools) if pool.is_prefill)
    flows, decodings = [], []
    for q, (rate, part) in enumerate(zip(demands, on_first, strict=True)):
        end = problem.classes[problem.streams[q].request_class].mix.support[1]
        shares = ((first, part), (second, 1 - part))
        flows += [Flow(q, "short", Arc(i, None), end, rate * of_pool) for i, of_pool in shares if of_pool > 0]
        decodings.append(Decoding(q, problem.decoders[q][0], rate))
    return PeriodOperation(0, n, tuple(flows), tuple(decodings))


def keeps(problem: Problem, operation: PeriodOperation) -> bool:
    """Whether queues keep every promise, and no pool is full."""
    busy = busy_instances(problem, operation)
    if any(b >= n for b, n in zip(busy, operation.n_instances, strict=True) if b > 0):
        return False
    return classes_missing_slo(problem, [operation], ()) == []


def test_a_plan_may_be_late_in_one_pool_where_the_class_keeps_its_promise_over_all() -> None:
    """Neither kind alone keeps it: of the quick one there is too little, and the slow one is late with every other."""
    problem, found = planned()
    assert classes_missing_slo(problem, found.operations, found.ports) == []
    fast, near = (next(i for i, p in enumerate(problem.pools) if p.name == name) for name in ("fast", "near"))
    (one,), documents = found.operations, next(q for q, s in enumerate(problem.streams) if s.request_class == 1)
    most = tuple(pool.max_instances for pool in problem.pools)
    (first, _) = (i for i, pool in enumerate(problem.pools) if pool.is_prefill)
    for alone in (fast, near):
        part = 1.0 if alone == first else 0.0
        chat = 1.0 if near == first else 0.0
        late = late_fractions(period_waits(problem, divided(problem, most, (chat, part)), ()))
        assert late[1] > problem.classes[1].late_allowed
    taken = {f.arc.pool: f.req_per_s for f in one.flows if f.stream == documents}
    assert set(taken) == {fast, near}


def cheaper(problem: Problem, usd_per_hour: float) -> Iterator[tuple[int, ...]]:
    """Sizes within stock that cost less."""
    sizes = product(*(range(1 if not pool.is_prefill else 0, pool.max_instances + 1) for pool in problem.pools))
    for n in sizes:
        stock = (
            sum(n[i] * problem.pools[i].n_accelerators for i in v.pools) <= v.n_accelerators
            for v in problem.inventories
        )
        rent = sum(m * (pool.usd_per_hour or 0.0) for m, pool in zip(n, problem.pools, strict=True))
        if rent < usd_per_hour and all(stock):
            yield n


@settings(max_examples=8, deadline=None)
@given(st.floats(3.0, 6.5), st.floats(5.0, 9.0), st.sampled_from([1, 2, 3]))
def test_no_sizes_and_no_division_of_the_classes_are_cheaper_than_the_bound(
    demand: float, ttft_s: float, n_fast: int
) -> None:
    stock = {FAST: n_fast * GPUS, HOME: 9 * GPUS}
    changes = {"demand_req_per_s": demand, "classes.documents.slo.ttft_s": ttft_s, "sites.local.accelerators": stock}
    problem = planning_problem(two_kinds(**changes))
    try:
        found = network_search(problem, LIMIT_S)
    except UndecidedError:
        return
    bound = np.inf if found is None else found.bound * (1 - 1e-9)
    for n in cheaper(problem, bound):
        for parts in product(np.linspace(0, 1, 9), repeat=2):
            assert not keeps(problem, divided(problem, n, tuple(map(float, parts)))), (n, parts)


def test_a_plan_is_within_a_tenth_of_the_cheapest_division_of_two_classes() -> None:
    problem, found = planned()
    for n in cheaper(problem, 0.9 * found.objective):
        for parts in product(np.linspace(0, 1, 9), repeat=2):
            assert not keeps(problem, divided(problem, n, tuple(map(float, parts)))), (n, parts)


def test_requests_that_move_to_the_pool_that_is_late_leave_room_for_more() -> None:
    """The most that is served as promised, both with all documents on the quick kind and with some on the slow one."""
    problem = planning_problem(two_kinds(objective="max-throughput", demand_req_per_s=None))
    found = network_search(problem, LIMIT_S)
    assert found is not None
    assert classes_missing_slo(problem, found.operations, found.ports) == []
    assert found.objective <= found.bound
    (one,) = found.operations
    together = {problem.pools[f.arc.pool].name for f in one.flows if f.stream == 1}
    assert together == {"fast", "near"}


def test_a_class_that_is_late_at_one_site_keeps_its_promise_where_the_other_makes_up_for_it() -> None:
    """One class at two sites: one in ten of its requests is late altogether, though more are at the small site."""
    sites = {"local": 0.9, "remote": 0.1}
    problem = planning_problem(
        small_with(
            {
                "workload": None,
                "objective": "min-cost",
                "demand_req_per_s": 4.0,
                "links": {},
                "pools.fast.prompts": "short",
                "pools.far": {"site": "remote", "hardware": HOME, "role": "decode"},
                "sites.remote.accelerators": {FAST: 9 * GPUS, HOME: 9 * GPUS},
                "classes": {"all": {**request_class(1.0, [2000], 1.5), "sites": sites}},
            }
        )
    )
    flows, decodings = [], []
    for q, stream in enumerate(problem.streams):
        rate = 4.0 * sites[stream.site]
        flows.append(Flow(q, "short", problem.arcs[q]["short"][0], 2000.0, rate))
        decodings.append(Decoding(q, problem.decoders[q][0], rate))
    ample = {flow.arc.pool for flow in flows if problem.pools[flow.arc.pool].site == "local"}
    n = tuple(9 if i in ample or not p.is_prefill else 1 for i, p in enumerate(problem.pools))
    one = PeriodOperation(0, n, tuple(flows), tuple(decodings))
    period = period_waits(problem, one, ())
    by_site = {problem.streams[q].site: period.late_fraction([q], 0.5) for q in range(2)}
    together = period.late_fraction([0, 1], 0.5)
    assert together == pytest.approx(sum(sites[site] * late for site, late in by_site.items()))
    assert late_fractions(period) == {0: period.late_fraction([0, 1], 1.5)}


@given(
    st.integers(1, 60),
    st.floats(0.0, 3.0),
    st.lists(st.floats(-1.0, 8.0), min_size=1, max_size=3),
    st.floats(0.01, 50.0),
    st.floats(0.0, 0.999),
)
def test_load_less_the_price_of_late_load_is_below_its_limit_at_every_load(
    n: int, scv: float, slack_s: list[float], weight: float, use: float
) -> None:
    sizes, load = np.array([float(n)]), np.array([use * n])
    requests = QueuedRequests(1.0, scv, np.array(slack_s), np.full(len(slack_s), 1 / len(slack_s)))
    (most,) = most_timely_servers(sizes, requests, weight)
    (late,) = late_fraction(sizes, load, requests)
    assert load[0] * (1 - weight * late) <= most + 1e-4 * n


def bounding_model(problem: Problem, n: int) -> MixedIntegerProgram:
    """The program of the bound with pools of one size, where pools share what a class may be late."""
    loads = NetworkLoads(problem, is_optimistic=True)
    cells = {(g, 0): first_cells_of(problem, members) for g, members in enumerate(problem.groups)}
    segments = {i: [(n, n)] for i in range(len(problem.pools))}
    return build(ProgramSpec(loads, (Situation(0),), cells, segments, shares_lateness=True))


@given(st.integers(1, 12), st.floats(0.02, 0.98), st.floats(0.5, 0.99), st.booleans())
def test_late_requests_of_a_mixed_pool_keep_every_row_of_the_bound(
    n: int, chat_work: float, use: float, is_fast: bool
) -> None:
    """Short and long services in one queue: what the queue itself makes late is no less than rows ask for."""
    problem, model = mixed(n)
    pool = next(i for i, p in enumerate(problem.pools) if p.name == ("fast" if is_fast else "near"))
    columns = {q: (column, arc) for (q, _, _, _, arc), column, *_ in model.prefill_uses if arc.pool == pool}
    seconds = {q: s for (q, *_, arc), _, s, _ in model.prefill_uses if arc.pool == pool}
    rates = {q: use * n * share / seconds[q] for q, share in enumerate((chat_work, 1 - chat_work))}
    ends = [problem.classes[stream.request_class].mix.support[1] for stream in problem.streams]
    flows = tuple(Flow(q, "short", columns[q][1], ends[q], rate) for q, rate in rates.items())
    decodings = tuple(Decoding(q, problem.decoders[q][0], rate) for q, rate in rates.items())
    sizes = tuple(10_000 if not p.is_prefill else n for p in problem.pools)
    period = period_waits(problem, PeriodOperation(0, sizes, flows, decodings), ())
    values = np.zeros(len(model.rows.names))
    for q, rate in rates.items():
        values[columns[q][0]] = rate
        ttft_s = problem.classes[problem.streams[q].request_class].ttft_s
        assert ttft_s is not None
        values[model.late_rates[columns[q][0]]] = rate * period.late_fraction([q], ttft_s)
    for choice, size in ((model.segment_choices, 1.0), (model.instances, float(n))):
        values[list(choice[PoolSizing(pool, 0)].values())] = size
    for row in model.prefill_rows[PoolInSituation(pool, 0)]:
        terms = slice(model.rows.starts[row], model.rows.starts[row + 1])
        used = float(np.array(model.rows.factors[terms]) @ values[model.rows.columns[terms]])
        assert used <= model.rows.row_highs[row] + 1e-6 * n, model.rows.row_names[row]


@cached
def mixed(n: int) -> tuple[Problem, MixedIntegerProgram]:
    problem = planning_problem(two_kinds(**{"sites.local.accelerators": {FAST: 12 * GPUS, HOME: 24 * GPUS}}))
    return problem, bounding_model(problem, n)
