"""Bounds from blocks: never above the program they are of, and above its relaxation where blocks are whole."""

from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.network.cells import Cell
from planner.optimizer.network.lagrangian import LagrangianRelaxation
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.refinement import finest_cells
from planner.optimizer.network.relaxation import (
    all_thresholds,
    relaxed_program,
    sampled_thresholds,
    solved_relaxation,
    thresholds_around_mean,
    tightest_relaxation,
)
from planner.optimizer.network.rows import Rows
from planner.optimizer.network.search import peak_situations
from planner.optimizer.problem import Problem
from planner.work_clock import work_s
from tests.builders import small_with
from tests.network_scenarios import scale_scenario

MOST = 4


def fleet(costs: tuple[int, ...], rates: tuple[int, ...], needs: tuple[int, int], stock: int) -> Rows:
    """Two models, each with two kinds of instances that serve its demand; all instances draw on one stock."""
    rows = Rows()
    n = [rows.column(f"n_{i}", 0, MOST, cost, True) for i, cost in enumerate(costs)]
    for m, need in enumerate(needs):
        rows.row(f"serve_{m}", [(n[i], rates[i]) for i in (2 * m, 2 * m + 1)], low=need)
    rows.row("stock", [(c, 1.0) for c in n], high=stock)
    return rows


def blocks_of(rows: Rows) -> LagrangianRelaxation | None:
    relaxed = rows.solved(10.0, 0.0, integers=())
    if relaxed is None:
        return None
    assert relaxed.duals is not None
    return LagrangianRelaxation(rows, [2], relaxed.duals, relaxed.values)


@given(
    st.tuples(*[st.integers(1, 9)] * 4),
    st.tuples(*[st.integers(1, 5)] * 4),
    st.tuples(*[st.integers(1, 12)] * 2),
    st.integers(2, 8),
)
def test_the_bound_of_the_blocks_lies_between_the_relaxed_program_and_the_cheapest_fleet(
    costs: tuple[int, ...], rates: tuple[int, ...], needs: tuple[int, int], stock: int
) -> None:
    rows = fleet(costs, rates, needs, stock)
    blocks = blocks_of(rows)
    fleets = [
        float(np.dot(costs, n))
        for n in product(range(MOST + 1), repeat=4)
        if sum(n) <= stock
        and all(n[2 * m] * rates[2 * m] + n[2 * m + 1] * rates[2 * m + 1] >= needs[m] for m in (0, 1))
    ]
    if blocks is None:
        assert not fleets
        return
    relaxed = rows.solved(10.0, 0.0, integers=())
    assert relaxed is not None
    assert relaxed.bound - 1e-6 <= blocks.bound(10.0, 0.0) <= min(fleets, default=inf) + 1e-6


def test_without_a_price_blocks_are_the_program() -> None:
    """Stock for all: each model has its own cheapest fleet, 2 x 3 and 3 x 2."""
    blocks = blocks_of(fleet((3, 9, 2, 9), (4, 1, 2, 1), (7, 5), 16))
    assert blocks is not None
    assert blocks.bound(10.0, 0.0) == pytest.approx(2 * 3 + 3 * 2)


def test_a_program_without_whole_numbers_is_bounded_by_its_optimum() -> None:
    rows = Rows()
    rows.row("serve", [(rows.column("n", 0, 9, 2.0), 3.0)], low=4.0)
    assert rows.bounded(10.0, 0.0) == pytest.approx(2.0 * 4 / 3)


def two_models(is_spread: bool = False) -> Problem:
    return planning_problem(scale_scenario(2, n_hours=4, n_sites=2, n_kinds=2, n_models=2, is_spread=is_spread))


def apart_by_site() -> Problem:
    """Two models and two sites with dear links, of which one prefills long prompts of both and the other short ones."""
    scenario = scale_scenario(2, n_hours=4, n_sites=2, n_kinds=2, n_models=2, is_spread=True)
    takes = dict(zip(scenario.sites, ("long", "short"), strict=True))
    pools = {
        name: pool.model_copy(update={"prompts": takes[pool.site]}) if pool.role == "prefill" else pool
        for name, pool in scenario.pools.items()
    }
    links = {
        name: link.model_copy(
            update={"tiers": tuple(t.model_copy(update={"usd_per_hour": 1_000.0}) for t in link.tiers)}
        )
        for name, link in scenario.links.items()
    }
    return planning_problem(scenario.model_copy(update={"pools": pools, "links": links}))


def test_decode_in_whole_instances_lifts_the_bound_of_a_network_and_stays_below_its_optimum() -> None:
    problem = two_models()
    loads = NetworkLoads(problem, is_optimistic=True)
    situations = peak_situations(problem)[:1]
    segments = {i: [(1, p.max_instances)] for i, p in enumerate(problem.pools)}
    seen = solved_relaxation(relaxed_program(loads, situations, segments, all_thresholds(loads, situations)), 60.0)
    assert seen is not None
    assert seen.lagrangian_bound() > seen.solution.bound * (1 + 1e-4)
    whole = seen.program.rows.solved(60.0, 0.01)
    assert whole is not None
    assert seen.lagrangian_bound() <= whole.objective
    assert seen.binding_situations() == situations


def test_a_look_through_fewer_ways_and_thresholds_costs_more() -> None:
    problem = two_models()
    loads = NetworkLoads(problem, is_optimistic=True)
    situations = peak_situations(problem)
    segments = {i: [(1, p.max_instances)] for i, p in enumerate(problem.pools)}
    close = solved_relaxation(relaxed_program(loads, situations, segments, all_thresholds(loads, situations)), 60.0)
    assert close is not None
    rough = solved_relaxation(
        relaxed_program(loads, situations, segments, sampled_thresholds(loads, situations, 8)), 60.0
    )
    narrow = solved_relaxation(
        relaxed_program(loads, situations, segments, all_thresholds(loads, situations), close.arcs()), 60.0
    )
    assert rough is not None
    assert narrow is not None
    assert rough.solution.bound > close.solution.bound * (1 + 1e-6)
    # The limit of a pool is that of its most patient user: where users are left out, it may be a stricter one.
    assert close.solution.bound * (1 - 1e-6) <= narrow.solution.bound <= 1.001 * close.solution.bound


def test_the_closest_look_is_as_close_as_one_with_every_interval_though_it_begins_with_wide_ones() -> None:
    problem = two_models(is_spread=True)
    loads = NetworkLoads(problem, is_optimistic=True)
    situations = peak_situations(problem)
    segments = {i: [(1, p.max_instances)] for i, p in enumerate(problem.pools)}
    all_of_them = solved_relaxation(
        relaxed_program(loads, situations, segments, all_thresholds(loads, situations), shares_lateness=True), 60.0
    )
    found = tightest_relaxation(loads, situations, segments, {}, work_s() + 120.0)
    assert all_of_them is not None
    assert found is not None
    assert len(found.program.cell_choices) < len(all_of_them.program.cell_choices)
    assert 0.995 * all_of_them.solution.bound <= found.solution.bound <= all_of_them.solution.bound * (1 + 1e-6)


def test_an_interval_of_thresholds_costs_no_more_than_any_in_it_and_like_streams_are_divided_alike() -> None:
    problem = apart_by_site()
    loads, situations = NetworkLoads(problem, is_optimistic=True), peak_situations(problem)[:2]
    segments = {i: [(1, p.max_instances)] for i, p in enumerate(problem.pools)}

    def least(low: float, high: float) -> float:
        offers = {(g, s.period): [Cell(low, high)] for g in range(2) for s in situations}
        found = relaxed_program(loads, situations, segments, offers).rows.solved(60.0, 0.0, integers=())
        return inf if found is None else found.objective

    for low, high in ((1_500.0, 3_000.0), (4_000.0, 16_000.0)):
        wide, inside = least(low, high), [least(t, t) for t in np.linspace(low, high, 7)]
        assert wide <= min(inside) * (1 + 1e-9)
        assert wide > 0.8 * min(inside)
    offers = {(g, s.period): [Cell(4_000.0, 16_000.0)] for g in range(2) for s in situations}
    model = relaxed_program(loads, situations, segments, offers)
    names = [name for name in model.rows.row_names if name.startswith("divide_alike")]
    assert len(names) == len(problem.streams) / 2 * len(situations)
    for row, name in enumerate(model.rows.row_names):
        if name in names:
            model.rows.row_lows[row], model.rows.row_highs[row] = -inf, inf
    apart = model.rows.solved(60.0, 0.0, integers=())
    assert apart is not None
    assert apart.objective < least(4_000.0, 16_000.0) * (1 - 1e-4)


def test_narrowed_looks_offer_points_around_the_mean_of_what_was_mixed() -> None:
    problem = two_models(is_spread=True)
    loads, situations = NetworkLoads(problem, is_optimistic=True), peak_situations(problem)
    segments = {i: [(1, p.max_instances)] for i, p in enumerate(problem.pools)}
    seen = solved_relaxation(
        relaxed_program(loads, situations, segments, sampled_thresholds(loads, situations, 4)), 60.0
    )
    assert seen is not None
    ends = [cell.high_tokens for cell in finest_cells(problem, problem.groups[0])]
    for (g, period), cells in thresholds_around_mean(seen, 1).items():
        assert len(cells) <= 3
        assert all(cell.low_tokens == cell.high_tokens for cell in cells)
        used = seen.mixed_thresholds()[g, period]
        if g == 0:
            places = [ends.index(cell.high_tokens) for cell in cells]
            assert ends.index(min(used)) - 1 <= places[0] <= places[-1] <= ends.index(max(used)) + 1


def test_the_finest_cells_hold_every_threshold_of_stated_lengths() -> None:
    problem = planning_problem(small_with({"workload.lengths": {"kind": "empirical", "tokens": [700, 2000, 9000]}}))
    cells = finest_cells(problem, problem.groups[0])
    mix = problem.classes[0].mix
    offered = {round(float(mix.long_fraction(cell.low_tokens)), 9) for cell in cells}
    assert offered == {round(float(mix.long_fraction(t)), 9) for t in np.linspace(-1, 9000, 4001)}
    assert all(cell.low_tokens == cell.high_tokens for cell in cells)


def test_the_finest_cells_of_continuous_lengths_leave_no_threshold_out() -> None:
    problem = planning_problem(small_with({}))
    cells = finest_cells(problem, problem.groups[0])
    low, high = problem.classes[0].mix.support
    for t in np.linspace(low, high, 997):
        assert any(cell.low_tokens <= t <= cell.high_tokens for cell in cells)
