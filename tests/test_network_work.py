"""Rows that keep pools within their sizes: lines on the right side of limits, and rows that know no other periods."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from planner.curves import PrefillService
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.network.cells import Use, point_cell
from planner.optimizer.network.formulation import build
from planner.optimizer.network.indices import PoolInSituation
from planner.optimizer.network.lateness import LateUse, tangents
from planner.optimizer.network.loads import GRID, NetworkLoads
from planner.optimizer.network.period_operation import Decoding, Flow, PeriodOperation, period_waits
from planner.optimizer.network.program import MixedIntegerProgram, ProgramSpec
from planner.optimizer.network.rows_of_work import chords
from planner.optimizer.network.shortest_waits import shortest_waits
from planner.optimizer.problem import Arc, Loss, Problem, Situation
from planner.optimizer.problem_parts import Part, PoolSpec
from planner.queueing.service import Service
from planner.queueing.staffing import QueuedRequests, most_busy_servers
from planner.queueing.waits import gigc_wait
from tests.builders import BOTH_WAYS, FAST, GPUS, HOME, small_with

LIMITS = np.array([GRID - np.sqrt(GRID), np.maximum(GRID - 3, 0.0)])
"""Busy instances that pools may have: one curve that bends down, one with a kink."""
NETWORK: dict[str, Any] = {
    "objective": "min-cost",
    "demand_req_per_s": 10.0,
    "slo": {"ttft_s": 6.0},
    "workload.lengths": {"kind": "empirical", "tokens": (1024, 8192, 32768)},
    "sites.remote.accelerators": {FAST: 40 * GPUS},
    "sites.local.accelerators": {HOME: 60 * GPUS},
    "links.wan.capacity_gbps": 2000,
    "periods": {"day": {"hours": 16.0}, "night": {"hours": 8.0, "demand": 0.25}},
    "spare": {"survive": ("instance",)},
}

SHARES = ((0, 0.5), (1, 0.25))
"""Allowances by day and by night."""


@given(st.integers(1, 300), st.integers(0, 300), st.integers(0, 1))
def test_lines_lie_on_one_side_of_limits_at_every_size_and_touch_them(low: int, more: int, n_lost: int) -> None:
    sizes = np.arange(low, low + more + 1.0)
    for above, side in ((True, 1), (False, -1)):
        lines = chords(LIMITS, low, low + more, n_lost, above)
        for limit, (slope, constant) in zip(LIMITS, lines, strict=True):
            limits = np.where(sizes > n_lost, np.interp(sizes - n_lost, GRID, limit), 0.0)
            beyond = side * (slope * sizes + constant - limits)
            assert -1e-9 <= beyond.min() <= 1e-9


def test_an_instance_that_is_lost_is_one_less_to_be_busy() -> None:
    for limit, (slope, constant) in zip(LIMITS, chords(LIMITS, 5, 6, 1, True), strict=True):
        assert [slope * n + constant for n in (5, 6)] == pytest.approx(np.interp([4, 5], GRID, limit), abs=1e-5)
    assert chords(LIMITS, 1, 1, 1, True) == [(1.0, -1.0), (1.0, -1.0)]


def service_of(scv: float) -> Service:
    """Log-normal services of mean 1."""
    seconds = np.exp(np.sqrt(np.log(1 + scv)) * ndtri((np.arange(200) + 0.5) / 200))
    return Service.of(seconds / seconds.mean())


@pytest.mark.parametrize("n_servers", [1, 2, 3, 4, 6, 8, 12, 40])
@pytest.mark.parametrize("class_arrival_scv", [0.25, 0.5, 1.0, 1.6])
def test_no_pool_keeps_a_promise_at_a_higher_load_than_bounds_allow(n_servers: int, class_arrival_scv: float) -> None:
    sizes = np.array([float(n_servers)])
    hopeful = min(class_arrival_scv, 1.0)
    for scv, slack_s, allowed in product((0.0, 0.1, 1.0), (0.2, 0.5, 1.0, 2.0, 8.0), (0.5, 0.1, 0.01, 0.001)):
        service = service_of(scv)
        requests = QueuedRequests(1.0, service.scv, np.array([slack_s]), np.ones(1), hopeful)
        (most,) = most_busy_servers(sizes, requests, allowed, shortest_waits(sizes, hopeful), hopeful)
        best = gigc_wait(n_servers, most, service, class_arrival_scv)
        assert float(best.survival(slack_s)) > 0.99 * allowed, (scv, slack_s, allowed)


@pytest.mark.parametrize("is_optimistic", [False, True])
def test_a_pool_is_as_busy_as_one_with_an_instance_for_each_of_its_places(is_optimistic: bool) -> None:
    """Four prompts at once in an instance: limits of n instances are those of 4 n, in instances of four places."""
    problem = planning_problem(small_with(NETWORK))
    pools = tuple(
        pool if pool.rates.prefill is None else replace(pool, rates=replace(pool.rates, prefill=of_places(pool, 4)))
        for pool in problem.pools
    )
    one, four = (NetworkLoads(p, is_optimistic=is_optimistic) for p in (problem, replace(problem, pools=pools)))
    arc = problem.arcs[0]["short"][0]
    use, sizes = Use(0, arc, "short", point_cell(8192.0)), [n for n in one.grid if 4 * n in one.grid]
    assert len(sizes) > 5
    found = np.interp(sizes, four.grid, four.most_busy(*use))
    assert 4 * found == pytest.approx(np.interp(np.multiply(4, sizes), one.grid, one.most_busy(*use)))
    n = sizes[3]
    late = [next(iter(tangents(loads, [LateUse(use, False, n)]).values())) for loads in (one, four)]
    assert 4 * late[1].busy_per_late == pytest.approx(
        next(iter(tangents(one, [LateUse(use, False, 4 * n)]).values())).busy_per_late
    )
    assert late[0].busy_per_late > late[1].busy_per_late
    assert one.residual_s(*use) == pytest.approx(four.residual_s(*use))


def of_places(pool: PoolSpec, places: int) -> PrefillService:
    assert pool.rates.prefill is not None
    return replace(pool.rates.prefill, places=places)


def test_bursts_that_are_divided_among_pools_are_not_counted_as_whole_ones_by_bounds() -> None:
    """Half of a stream with gaps of variation 4 has 2.5, and a fifth 1.6: every part is counted as Poisson's."""
    changes = {**NETWORK, "workload.arrivals": {"kind": "gamma", "squared_cv": 4.0}}
    bursty, poisson = (planning_problem(small_with(c)) for c in (changes, NETWORK))
    for loads, other in ((NetworkLoads(p, is_optimistic=True), NetworkLoads(p)) for p in (bursty, poisson)):
        arc = loads.problem.arcs[0]["short"][0]
        hopeful, safe = (found.most_busy(0, arc, "short", point_cell(8192.0)) for found in (loads, other))
        assert (hopeful >= safe).all()
    use = 0, bursty.arcs[0]["short"][0], "short", point_cell(8192.0)
    limits = [NetworkLoads(p, is_optimistic=True).most_busy(*use) for p in (bursty, poisson)]
    assert limits[0] == pytest.approx(limits[1])


LONG_AND_SHORT: dict[str, Any] = {
    **BOTH_WAYS,
    "objective": "min-cost",
    "workload": None,
    "slo": {"ttft_s": 9.0},
    "demand_req_per_s": 90.0,
    "sites.local.accelerators": {HOME: 200 * GPUS},
    "classes": {
        name: {
            "share": 0.5,
            "sites": {site: 1.0},
            "workload": {
                "lengths": {"kind": "empirical", "tokens": (900, 1500, 2500, 14_000, 20_000)},
                "output_lengths": {"kind": "constant", "tokens": 400},
            },
        }
        for name, site in (("east", "local"), ("west", "remote"))
    },
}


@pytest.mark.parametrize("n", [3, 12, 40])
@pytest.mark.parametrize("long_share", [0.1, 0.4, 0.7, 1.0])
def test_a_pool_at_its_safe_limit_keeps_both_promises_and_not_with_much_more(n: int, long_share: float) -> None:
    """West's long prompts among east's short ones: the limit is within a sixth of what is free."""
    problem = planning_problem(small_with(LONG_AND_SHORT))
    near = next(i for i, pool in enumerate(problem.pools) if pool.name == "near")
    east, west = (next(q for q in range(4) if (c, s) == names_of(problem, q)) for c, s in ENDS)
    cell, loads = point_cell(8192.0), NetworkLoads(problem, gbps=(400.0, 400.0))
    cells = {(g, 0): [cell] for g in range(len(problem.groups))}
    segments = {i: [(n, n)] for i in range(len(problem.pools))}
    model = build(ProgramSpec(loads, (Situation(0),), cells, segments, True))
    uses: dict[tuple[int, Part], tuple[int, Arc, float]] = {
        (q, part): (column, arc, seconds)
        for (q, _, _, part, arc), column, seconds, _ in model.prefill_uses
        if arc.pool == near and (q, part) in ((east, "short"), (west, "long"))
    }
    rates = {use: (long_share if use[1] == "long" else 1 - long_share) / uses[use][2] for use in uses}
    free = n - (busy := _most_work(model, near, {uses[use][0]: rate for use, rate in rates.items()}))
    for load, is_kept in ((busy, True), (n - free * 5 / 6, False)):
        flows = tuple(Flow(q, part, uses[q, part][1], 8192.0, load * rate) for (q, part), rate in rates.items() if rate)
        sizes = tuple(n if i == near else 1000 for i in range(len(problem.pools)))
        decodings = tuple(Decoding(f.stream, problem.decoders[f.stream][0], f.req_per_s) for f in flows)
        waits = period_waits(problem, PeriodOperation(0, sizes, flows, decodings), ((10**4,), (10**4,)))
        late = [waits.late_fraction([f.stream], 9.0) / loads.allowed(f.stream, f.part, cell) for f in flows]
        assert (max(late) <= CLOSED_FORM) == is_kept, late


ENDS = (("east", "local"), ("west", "remote"))
CLOSED_FORM = 1.06
"""What it may be off by, as a factor on those who are late."""


def names_of(problem: Problem, q: int) -> tuple[str, str]:
    stream = problem.streams[q]
    return problem.classes[stream.request_class].name, stream.site


def _most_work(model: MixedIntegerProgram, pool: int, rates: dict[int, float]) -> float:
    """How many times some rates fit a pool's rows, with all its instances and the cells chosen."""
    rows, settled = model.rows, {c: 1.0 for c in model.cell_choices.values()}
    for (_, _), columns in model.instances.items():
        settled |= {c: float(rows.highs[c]) for c in columns.values()}
    for columns in model.segment_choices.values():
        settled |= {c: 1.0 for c in columns.values()}
    most = np.inf
    for row in model.prefill_rows[PoolInSituation(pool, 0)]:
        terms = range(rows.starts[row], rows.starts[row + 1])
        used = sum(rows.factors[t] * rates.get(rows.columns[t], 0.0) for t in terms)
        free = rows.row_highs[row] - sum(rows.factors[t] * settled.get(rows.columns[t], 0.0) for t in terms)
        most = min(most, free / used if used > 0 else np.inf)
    return float(most)


def work_rows(model: MixedIntegerProgram, s: int) -> dict[str, tuple[dict[str, float], float]]:
    """Rows of prefill work in a situation, with names of columns, as if it were the only one."""
    rows, found = model.rows, {}
    for (_, at), indices in model.prefill_rows.items():
        for row in indices if at == s else ():
            terms = range(rows.starts[row], rows.starts[row + 1])
            named = {_alone(rows.names[rows.columns[t]], s): rows.factors[t] for t in terms}
            found[_alone(rows.row_names[row], s, at=4)] = named, rows.row_highs[row]
    return found


def _alone(name: str, s: int, at: int = 2) -> str:
    """A name with its situation as the first one; sizes of pools know none."""
    parts = name.split("_")
    if parts[0] not in ("n", "z"):
        assert parts[at] == str(s)
        parts[at] = "0"
    return "_".join(parts)


@pytest.mark.parametrize("is_conservative", [False, True])
@pytest.mark.parametrize("loss", [None, Loss("instance", "near")])
def test_rows_of_work_are_those_of_a_model_of_their_situation_alone(is_conservative: bool, loss: Loss | None) -> None:
    problem = planning_problem(small_with(NETWORK))
    situations = (Situation(0), Situation(1, loss), Situation(0, Loss("instance", "fast")))
    segments = {i: [(1, 5), (6, 40)] for i in range(len(problem.pools))}
    # As many cells by night as by day, but not the same.
    cells = {
        (g, p): [point_cell(t, u) for t in (1024.0, 8192.0)] for g in range(len(problem.groups)) for p, u in SHARES
    }
    together = build(
        ProgramSpec(
            NetworkLoads(problem, is_optimistic=not is_conservative), situations, cells, segments, is_conservative
        )
    )
    for s, situation in enumerate(situations):
        alone = build(
            ProgramSpec(
                NetworkLoads(problem, is_optimistic=not is_conservative), (situation,), cells, segments, is_conservative
            )
        )
        assert work_rows(alone, 0)
        assert work_rows(together, s) == work_rows(alone, 0)


def test_plans_send_nothing_where_none_of_it_would_be_in_time_and_bounds_let_it_through() -> None:
    """32,768 tokens take longer than a second wherever they go, and 1,024 or 8,192 do not on fast instances."""
    problem = planning_problem(small_with({**NETWORK, "slo": {"ttft_s": 1.0}}))
    segments = {i: [(1, 40)] for i in range(len(problem.pools))}
    cells = {(g, p): [point_cell(8192.0)] for g in range(len(problem.groups)) for p in range(2)}
    seen = set()
    for is_conservative in (True, False):
        loads = NetworkLoads(problem, is_optimistic=not is_conservative)
        program = build(ProgramSpec(loads, (Situation(0),), cells, segments, is_conservative))
        for users in program.users_of_pool.values():
            for q, _, part, arc, column, _ in users:
                is_closed = program.rows.highs[column] == 0.0
                assert is_closed == (is_conservative and not loads.most_busy(q, arc, part, point_cell(8192.0)).any())
                seen.add((is_conservative, part, is_closed))
    assert (True, "long", True) in seen
    assert (False, "long", False) in seen
