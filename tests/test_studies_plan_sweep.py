"""Grids of scenarios, whatever goes wrong at a point, and which point is the best."""

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from planner.errors import InfeasibleError, UsageError
from planner.results.plan import Plan
from planner.results.plan_sweep import SweepPoint
from planner.studies import plan_sweep as sweeps
from planner.studies.plan_sweep import best_point, point_plan, sweep_question
from tests.builders import small_with
from tests.test_report_records import COST, make_plan


def plan_of(rate: float, usd: float | None, **changes: Any) -> Plan:
    cost = COST.model_copy(update={"usd_per_hour": usd})
    return make_plan(max_throughput_req_per_s=rate, throughput_req_per_s=rate, cost=cost, **changes)


def point(plan: Plan | None) -> SweepPoint:
    return SweepPoint(set={"key": "value"}, plan=plan, failure=None if plan else "infeasible")


def test_a_grid_has_every_combination_of_values_in_order_with_what_is_the_same_everywhere() -> None:
    over = {"demand_req_per_s": ("1", "2"), "pools.pd-p.n_instances": ("3", "4", "5")}
    found = sweep_question("prfaas-paper", over, ["capacity_rule=mean-length"])
    assert [tuple(one.values()) for one in found.grid] == [*product(*over.values())]
    assert [one.demand_req_per_s for one in found.scenarios] == [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]
    assert [one.pools["pd-p"].n_instances for one in found.scenarios] == [3, 4, 5] * 2
    assert {one.capacity_rule for one in found.scenarios} == {"mean-length"}
    assert (found.name, found.over) == ("prfaas-paper", over)


def test_a_grid_that_nobody_waits_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "MOST_POINTS", 2)
    assert len(sweep_question("prfaas-paper", {"demand_req_per_s": ("1", "2")}).grid) == 2
    with pytest.raises(UsageError, match=r"3 points \(at most 2\)"):
        sweep_question("prfaas-paper", {"demand_req_per_s": ("1", "2", "3")})


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [(InfeasibleError("too much"), 4, "too much"), (ZeroDivisionError("x"), 1, "a bug: Zero")],
)
def test_what_goes_wrong_at_a_point_stays_there(
    error: Exception, code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise error

    monkeypatch.setattr(sweeps, "optimize", fails)
    found = point_plan(small_with({}), {"key": "value"}, (), 1.0)
    assert (found.plan, found.exit_code) == (None, code)
    assert said in (found.failure or "")


RATE_AND_BILL = [(2.0, 50.0), (3.0, 90.0), (3.0, 70.0), (1.0, 20.0), (3.0, None)]


def asked(objective: str, *demands: float | None) -> list[Any]:
    return [SimpleNamespace(objective=objective, demand_req_per_s=demand, periods={}) for demand in demands]


def best(objective: str, demands: list[float | None], plans: list[Plan | None]) -> tuple[int | None, str]:
    return best_point([point(plan) for plan in plans], asked(objective, *demands))


def test_the_best_point_has_the_highest_rate_and_of_equal_ones_the_least_bill() -> None:
    plans: list[Plan | None] = [plan_of(rate, usd) for rate, usd in RATE_AND_BILL]
    assert best("max-throughput", [None] * 5, plans) == (2, "most req/s, then least USD/h")
    assert best("max-throughput", [None] * 3, [None, plans[0], plans[4]])[0] == 2
    close = [plan_of(3.0, 90.0), plan_of(3.0 * (1 + 5e-7), 95.0), plan_of(3.0 * (1 - 5e-6), 10.0)]
    assert best("max-throughput", [None] * 3, [*close])[0] == 0, "the first two differ by rounding alone"
    assert best("max-throughput", [None] * 2, [close[0], close[0]])[0] == 0
    assert best("max-throughput", [None], [None]) == (None, "most req/s, then least USD/h")


def test_the_best_point_of_one_demand_costs_least_and_of_several_least_by_the_request() -> None:
    plans: list[Plan | None] = [plan_of(rate, usd, objective="min-cost") for rate, usd in RATE_AND_BILL]
    assert best("min-cost", [1.0] * 5, plans) == (3, "least USD/h")
    # 25, 30, 23.3 and 20 USD/h for each request a second.
    assert best("min-cost", [2.0, 3.0, 3.0, 1.0, 3.0], plans)[0] == 3
    assert best("min-cost", [2.0, 3.0, 3.0], plans[:3]) == (2, "least USD per request, because demands differ")
    assert best("min-cost", [0.0, 3.0], [plan_of(0.0, 5.0, objective="min-cost"), plans[1]])[0] == 1


def test_where_objectives_differ_nothing_is_the_best() -> None:
    mixed = [*asked("min-cost", 1.0), *asked("max-throughput", None)]
    points = [point(plan_of(1.0, 1.0))] * 2
    assert best_point(points, mixed) == (None, "no common measure: objectives differ")
    assert best_point([], []) == (None, "")
