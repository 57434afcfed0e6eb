"""Fronts of cost: every point is a plan within its budget, none is dominated, nonsense is refused by key."""

from typing import Any

import pytest

from planner.errors import InputError
from planner.results.studies import Front, FrontPoint
from planner.scenario import Scenario
from planner.studies.front import budgets, front_points, pareto_front
from tests.builders import FAST, HOME, sketch, small_with
from tests.cpu_cost import cached

DEMAND: dict[str, Any] = {"demand_req_per_s": 1.0}


def point(usd: float, value: float) -> FrontPoint:
    return FrontPoint(
        budget_usd_per_hour=usd, usd_per_hour=usd, value=value, n_instances={"fast": 1}, threshold_tokens=None
    )


def front_of(scenario: Scenario, against: Any, n: int = 4) -> Front:
    return pareto_front(scenario, sketch(scenario), against, n)


@cached
def throughput() -> Front:
    return front_of(small_with(DEMAND), "throughput", 6)


def test_what_a_report_asks_of_the_demand_is_no_part_of_a_front_without_one() -> None:
    asked = {
        "break_even": [{"key": "demand_req_per_s", "title": "demand", "low": 0.5, "high": 2.0}],
        "report": {"hours": {"factors": [0.5, 1.0], "source": "a test's day"}},
    }
    assert front_of(small_with({**DEMAND, **asked}), "throughput", 2).points[-1].value > 1.0


def test_each_dearer_plan_of_the_front_serves_more() -> None:
    points = throughput().points
    assert len(points) >= 3
    assert [p.usd_per_hour for p in points] == sorted({p.usd_per_hour for p in points})
    assert [p.value for p in points] == sorted({p.value for p in points})
    assert all(p.usd_per_hour <= p.budget_usd_per_hour * (1 + 1e-6) for p in points)


def test_the_front_ends_at_the_plan_and_begins_at_what_serves_anything() -> None:
    plan = sketch(small_with(DEMAND))
    assert throughput().points[-1].value == pytest.approx(plan.max_throughput_req_per_s, rel=1e-6)
    # One instance that prefills at home and one that decodes: 16 accelerators for 2 USD/h.
    assert throughput().points[0].usd_per_hour == pytest.approx(32.0)


def test_a_point_of_the_front_is_the_plan_of_its_budget() -> None:
    middle = throughput().points[1]
    plan = sketch(small_with({"budget_usd_per_hour": middle.budget_usd_per_hour * (1 + 1e-9)}))
    assert middle.n_instances == {pool.name: pool.n_instances for pool in plan.pools}
    assert middle.value == pytest.approx(plan.max_throughput_req_per_s)


def test_ttft_falls_along_its_front() -> None:
    stock = {f"sites.remote.accelerators.{FAST}": 24, f"sites.local.accelerators.{HOME}": 24}
    front = front_of(small_with({**DEMAND, **stock}), "ttft", 3)
    values = [p.value for p in front.points]
    assert values == sorted(values, reverse=True)
    assert front.percentile == 90.0
    assert all("ttft_s" in row for row in front.answer())


def test_points_as_json_carry_the_unit_in_the_name() -> None:
    assert set(throughput().answer()[0]) == {"usd_per_hour", "throughput_req_per_s", "n_instances", "threshold_tokens"}


def test_dominated_points_are_dropped_either_way() -> None:
    points = [point(10, 1.0), point(20, 0.9), point(20, 2.0), point(30, 2.0), point(40, 3.0)]
    assert [p.usd_per_hour for p in front_points(points, "throughput")] == [10, 20, 40]
    assert [p.usd_per_hour for p in front_points(points, "ttft")] == [10, 20]


def test_one_budget_is_the_highest() -> None:
    assert budgets(10.0, 30.0, 1) == (30.0,)


@pytest.mark.parametrize(
    ("changes", "against", "message"),
    [
        ({}, "ttft", "demand_req_per_s: is not stated; a front of TTFT needs it"),
        (DEMAND, "goodput", "slo.*ttft_s: is not stated; a front of goodput needs it"),
        ({f"prices.{FAST}.usd_per_accelerator_hour": 1.0, "links.wan.usd_per_hour": None}, "throughput", "links.wan"),
    ],
)
def test_a_front_without_what_it_needs_is_refused_by_key(changes: dict[str, Any], against: Any, message: str) -> None:
    scenario = small_with(changes)
    with pytest.raises(InputError, match=message):
        pareto_front(scenario, sketch(scenario), against, 3)
