"""Plans of large networks: they keep what they promise, and no bound is above any plan."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.network import completion as completion_module
from planner.optimizer.network import large_search as large_module
from planner.optimizer.network import search as search_module
from planner.optimizer.network.cells import Use
from planner.optimizer.network.large_search import large_search
from planner.optimizer.network.loads import LINK_BUSY, NetworkLoads
from planner.optimizer.network.period_operation import classes_missing_slo, link_gbps
from planner.optimizer.network.refinement import first_cells, first_segments
from planner.optimizer.network.search import network_search, peak_situations
from planner.optimizer.network.search_state import SearchState
from planner.optimizer.problem import Problem
from planner.optimizer.settings import SETTINGS
from planner.optimizer.solution import Solution
from planner.scenario import LinkTier, Routing, Spare
from planner.work_clock import work_s
from tests.network_scenarios import scale_scenario

LIMIT_S = 60.0
REAL_LOADS = large_module._loads


def small_network() -> Problem:
    return planning_problem(scale_scenario(1, n_hours=3, n_sites=2, n_kinds=2, n_models=1))


def found(problem: Problem) -> Solution:
    solution = network_search(problem, LIMIT_S, 0.1)
    assert solution is not None
    return solution


def test_a_plan_that_is_dived_for_keeps_its_promises_and_respects_every_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small_network()
    searched = found(problem)
    monkeypatch.setattr(search_module, "SETTINGS", replace(SETTINGS, large_columns=0))
    dived = found(problem)
    assert len(dived.operations) == 3
    assert classes_missing_slo(problem, dived.operations, dived.ports) == []
    assert min(searched.objective, dived.objective) >= max(searched.bound, dived.bound) * (1 - 1e-6)
    assert dived.objective <= 1.15 * searched.objective


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": "max-throughput", "budget_usd_per_hour": 300.0},
        {"spare": Spare(survive=("instance",))},
        {"routing": Routing(thresholds="per-model", role_conversion=True)},
    ],
    ids=["throughput", "spare", "roles"],
)
def test_what_is_dived_for_and_what_is_searched_respect_each_others_bounds(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    scenario = scale_scenario(1, n_hours=2, n_sites=2, n_kinds=2, n_models=1).model_copy(update=changes)
    problem = planning_problem(scenario)
    searched = found(problem)
    monkeypatch.setattr(search_module, "SETTINGS", replace(SETTINGS, large_columns=0))
    dived = found(problem)
    assert classes_missing_slo(problem, dived.operations, dived.ports) == []
    sign = 1.0 if problem.is_min_cost else -1.0
    best = min(sign * searched.objective, sign * dived.objective)
    assert best >= max(sign * searched.bound, sign * dived.bound) - 1e-6 * abs(best)


def begun(problem: Problem) -> SearchState:
    loads, factors = NetworkLoads(problem, is_optimistic=True), [1.0] * len(problem.classes)
    return SearchState(problem, peak_situations(problem), {}, first_segments(problem), factors, loads, 0.1)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"objective": "max-throughput", "budget_usd_per_hour": 300.0}, False),
        ({"spare": Spare(survive=("instance",))}, True),
        ({"spare": Spare(survive=("instance", "link"))}, False),
        ({"routing": Routing(thresholds="per-model", role_conversion=True)}, True),
        ({"budget_usd_per_hour": 1e6}, True),
    ],
    ids=["plain", "throughput", "spare", "links may fail", "roles", "budget"],
)
def test_what_periods_share_besides_sizes_is_noticed(changes: dict[str, object], expected: bool) -> None:
    scenario = scale_scenario(1, n_hours=2, n_sites=2, n_kinds=2, n_models=1).model_copy(update=changes)
    assert search_module._is_separable_by_period(planning_problem(scenario)) is expected


@pytest.mark.parametrize(("req_per_s", "expected"), [(1e5, False), (200.0, True)])
def test_a_large_search_tells_a_network_without_a_plan_from_one_with(req_per_s: float, expected: bool) -> None:
    scenario = scale_scenario(1, n_hours=2, n_sites=2, n_kinds=2, n_models=1)
    problem = planning_problem(scenario.model_copy(update={"demand_req_per_s": req_per_s}))
    state = begun(problem)
    assert large_search(state, LIMIT_S, work_s() + LIMIT_S) is expected
    assert (state.best is not None) is expected


def small_ports(req_per_s: float, smallest_gbps: float) -> Problem:
    """Two sites whose links have ports of two sizes, at one price per Gbps."""
    scenario = scale_scenario(1, n_hours=3, n_sites=2, n_kinds=2, n_models=1)
    problem = planning_problem(scenario.model_copy(update={"demand_req_per_s": req_per_s}))
    tiers = tuple(LinkTier(capacity_gbps=g, usd_per_hour=0.225 * g, max_ports=8) for g in (smallest_gbps, 100.0))
    return replace(problem, links=tuple(replace(link, tiers=tiers) for link in problem.links))


def test_a_link_with_little_traffic_gets_small_ports_if_they_keep_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small_ports(100.0, 10.0)
    monkeypatch.setattr(search_module, "SETTINGS", replace(SETTINGS, large_columns=0))
    found = network_search(problem, LIMIT_S, 0.015)
    assert found is not None
    gbps, sent = problem.gbps(found.ports), np.max([link_gbps(problem, one) for one in found.operations], axis=0)
    assert [there for there, most in zip(gbps, sent, strict=True) if most > 0] == [10.0]
    assert (sent <= LINK_BUSY * np.array(gbps) * (1 + 1e-9)).all()
    assert classes_missing_slo(problem, found.operations, found.ports) == []


@pytest.mark.parametrize(
    ("is_late_anyhow", "port_step", "slo_factor"),
    [(False, 1, 1.0), (True, 0, SETTINGS.slo_tightening)],
    ids=["ports", "waits"],
)
def test_a_broken_promise_asks_for_larger_ports_where_these_are_at_fault_and_else_for_shorter_waits(
    monkeypatch: pytest.MonkeyPatch, is_late_anyhow: bool, port_step: int, slo_factor: float
) -> None:
    problem = small_network()
    all_ports = [[tier.max_ports for tier in link.tiers] for link in problem.links]
    seen: list[tuple[int, float]] = []

    def broken(_problem: Problem, _operations: object, ports: object) -> list[int]:
        return [0] if is_late_anyhow or ports != all_ports else []

    def noted(state: SearchState) -> NetworkLoads:
        seen.append((state.port_step, state.slo_factors[0]))
        return REAL_LOADS(state)

    monkeypatch.setattr(completion_module, "classes_missing_slo", broken)
    monkeypatch.setattr(large_module, "classes_missing_slo", broken)
    monkeypatch.setattr(large_module, "_loads", noted)
    state = begun(problem)
    large_search(state, LIMIT_S, work_s() + 5.0)
    assert state.best is None
    assert seen[:2] == [(0, 1.0), (port_step, slo_factor)]
    largest = max(port_step for port_step, _ in seen)
    assert largest <= max(len(link.tiers) for link in problem.links) - 1


@pytest.mark.parametrize("changing", [False, True], ids=["fixed", "changing"])
def test_a_plan_with_power_by_use_is_close_to_its_bound(monkeypatch: pytest.MonkeyPatch, changing: bool) -> None:
    problem = planning_problem(scale_scenario(1, n_hours=3, n_sites=2, n_kinds=2, n_models=1, conversion=changing))
    pools = tuple(replace(p, busy_usd_per_hour=0.5 + i % 3) for i, p in enumerate(problem.pools))
    problem = replace(problem, pools=pools)
    monkeypatch.setattr(search_module, "SETTINGS", replace(SETTINGS, large_columns=0))
    found = network_search(problem, LIMIT_S, 0.05)
    assert found is not None
    assert found.bound <= found.objective <= 1.15 * found.bound
    assert classes_missing_slo(problem, found.operations, found.ports) == []


def test_limits_found_together_are_those_found_alone() -> None:
    problem = small_network()
    together, alone = NetworkLoads(problem, is_optimistic=True), NetworkLoads(problem, is_optimistic=True)
    cells = first_cells(problem)[0, 0]
    uses = [
        Use(q, arc, part, cell)
        for q in problem.groups[0]
        for part, arcs in problem.arcs[q].items()
        for arc in arcs
        for cell in cells
    ]
    together.prepare(uses)
    assert len({tuple(together.most_busy(*use)) for use in uses}) > len(cells)
    for use in uses:
        np.testing.assert_allclose(together.most_busy(*use), alone.most_busy(*use), rtol=1e-12)
