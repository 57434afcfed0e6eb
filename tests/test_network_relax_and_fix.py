"""Plans of large networks, thresholds first: they keep what they promise, and no bound is above any plan."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planner.errors import UndecidedError
from planner.optimizer import planning_problem
from planner.optimizer.network import completion as completion_module
from planner.optimizer.network import decomposed_search as decomposed_module
from planner.optimizer.network import search as search_module
from planner.optimizer.network.cells import Cells, Use
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.period_operation import classes_missing_slo
from planner.optimizer.network.program import MixedIntegerProgram
from planner.optimizer.network.refinement import first_cells
from planner.optimizer.network.relax_and_fix import RelaxAndFix
from planner.optimizer.network.rows import ProgramSolution
from planner.optimizer.network.search import network_search
from planner.optimizer.problem import Problem, Situation
from planner.optimizer.settings import SETTINGS
from planner.optimizer.solution import Solution
from planner.scenario import Routing, Spare
from tests.network_scenarios import scale_scenario

LIMIT_S = 60.0
REAL_COMPLETED = completion_module._completed


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


def test_a_dive_without_time_for_every_period_ends_without_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds of the first period are those of its blocks; those of one that joins later are not found."""
    problem, n_calls = small_network(), 0

    def runs_out(*_: Any) -> Cells:
        nonlocal n_calls
        n_calls += 1
        return {}

    monkeypatch.setattr(search_module, "SETTINGS", replace(SETTINGS, large_columns=0))
    monkeypatch.setattr(decomposed_module, "SETTINGS", replace(SETTINGS, most_binding_periods=1))
    monkeypatch.setattr(completion_module, "_completed", never_complete)
    monkeypatch.setattr(decomposed_module, "_first_plan", lambda *_: None)
    monkeypatch.setattr(RelaxAndFix, "joined", runs_out)
    monkeypatch.setattr(RelaxAndFix, "thresholds", runs_out)
    with pytest.raises(UndecidedError):
        network_search(problem, LIMIT_S)
    assert n_calls == 2


def never_complete(state: Any, safe: MixedIntegerProgram, plan: ProgramSolution) -> tuple[Solution, list[Situation]]:
    """A plan that leaves a period out."""
    periods = {s.period for s in safe.spec.situations}
    solution, _ = REAL_COMPLETED(state, safe, plan)
    return solution, [Situation(p) for p in range(len(state.problem.periods)) if p not in periods][:1]


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
