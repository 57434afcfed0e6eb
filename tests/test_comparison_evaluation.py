"""A fleet as answers state it, by hand: two lengths of prompts, one threshold between them, and every price."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planner.comparison import solved
from planner.comparison.evaluation import Evaluation
from planner.optimizer.capacity import exact_loads
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.network.period_operation import dominating_periods, transfers_s
from planner.optimizer.problem import Problem
from planner.optimizer.routed_capacity import highest_req_per_s
from planner.optimizer.single_route import RoutedSolution, solution_of_routes
from planner.optimizer.sized import Sizing
from tests.builders import fleet_of, small_with
from tests.test_optimizer_period_operation import arc_of
from tests.test_optimizer_routed_capacity import (
    LONG,
    POWER,
    RATE,
    SHARE_LONG,
    SHORT,
    SIZES,
    of,
    sent_bytes,
    work_s,
)

ASKED: dict[str, Any] = {"objective": "min-cost", "demand_req_per_s": RATE}


def planned(problem: Problem, threshold: float = 5000.0, ports: int = 1) -> RoutedSolution:
    sizing = Sizing(SIZES, ((ports,),))
    highest = highest_req_per_s(problem, sizing, exact_loads(problem, threshold))
    return RoutedSolution(sizing, threshold, highest, RATE, 1.0, 1.0, None)


def test_pools_are_busy_with_their_work_and_cost_their_rent_and_the_power_for_it() -> None:
    problem, *_ = of(**POWER, **ASKED)
    fleet = fleet_of(problem, planned(problem))
    taken = (SHARE_LONG, 1 - SHARE_LONG, 1.0)
    for pool, spec, n, work, part in zip(fleet.pools, problem.pools, SIZES, work_s(problem), taken, strict=True):
        assert (pool.name, pool.n_instances, pool.n_accelerators) == (spec.name, n, 8 * n)
        assert pool.offered_req_per_s == pytest.approx(RATE * part)
        assert pool.capacity_req_per_s == pytest.approx(n * part / work)
        assert pool.utilization == pytest.approx(RATE * work / n)
        assert spec.usd_per_hour is not None
        assert pool.usd_per_hour == pytest.approx(n * spec.usd_per_hour + RATE * work * spec.busy_usd_per_hour)


def test_a_fleet_has_one_threshold_the_rate_it_is_for_and_the_highest_that_it_serves() -> None:
    problem, *_ = of(**ASKED)
    fleet = fleet_of(problem, planned(problem))
    assert (fleet.threshold_tokens, fleet.offload_fraction) == (5000.0, pytest.approx(SHARE_LONG))
    assert fleet.throughput_req_per_s == pytest.approx(RATE)
    most = min(n / s for n, s in zip(SIZES, work_s(problem), strict=True))
    assert fleet.max_throughput_req_per_s == pytest.approx(min(most, 100e9 / 8 / sent_bytes(problem)))
    assert fleet.goodput_req_per_s is None
    (link,) = fleet.links
    gbps = RATE * sent_bytes(problem) * 8 / 1e9
    assert (link.mean_gbps, link.capacity_gbps, link.utilization) == pytest.approx((gbps, 100.0, gbps / 100))


def test_the_bill_is_all_rents_and_traffic_and_by_the_token_it_is_of_the_tokens_that_are_served() -> None:
    problem, *_ = of(**ASKED)
    fleet = fleet_of(problem, planned(problem))
    rent = 2 * 32.0 + 3 * 16.0 + 4 * 16.0
    traffic = 0.02 * 3600 * RATE * sent_bytes(problem) / 1e9
    total = rent + 20.0 + traffic
    cost = fleet.cost
    assert cost.usd_per_hour == pytest.approx(total)
    assert cost.accelerators_usd_per_hour == pytest.approx(rent)
    hourly = RATE * 3600
    mean_tokens = SHARE_LONG * LONG + (1 - SHARE_LONG) * SHORT
    assert cost.usd_per_million_input_tokens == pytest.approx(1e6 * total / (hourly * mean_tokens))
    assert cost.usd_per_million_output_tokens == pytest.approx(1e6 * total / (hourly * 500))
    assert cost.missing_prices == ()


def test_without_a_price_a_bill_is_unknown_and_what_has_none_is_named() -> None:
    price = {"h200-sxm": {"usd_per_accelerator_hour": 2.0, "basis": "assumed", "source": "a test"}}
    problem, *_ = of(prices=price)
    fleet = fleet_of(problem, planned(problem))
    cost = fleet.cost
    assert (cost.usd_per_hour, cost.usd_per_million_input_tokens, cost.accelerators_usd_per_hour) == (None, None, None)
    assert cost.missing_prices == ("prices.h100-sxm",)
    assert [pool.usd_per_hour is None for pool in fleet.pools] == [True, False, False]


def test_without_waits_a_first_token_takes_prefill_and_what_is_left_of_the_transfer() -> None:
    problem, *_ = of(**ASKED)
    latency = fleet_of(problem, planned(problem)).latency
    long_s, short_s = (
        work / part for work, part in zip(work_s(problem)[:2], (SHARE_LONG, 1 - SHARE_LONG), strict=True)
    )
    left_s, _ = transfers_s(problem, arc_of(problem, "fast", True), ((1,),), (np.array([LONG]), np.zeros(1)))
    mean_s = SHARE_LONG * (long_s + float(left_s[0])) + (1 - SHARE_LONG) * short_s
    assert latency.ttft_unloaded_mean_s == pytest.approx(mean_s)
    assert latency.ttft_unloaded_p90_s == pytest.approx(long_s + float(left_s[0]), rel=1e-6)
    assert latency.ttft_mean_s is not None
    assert latency.ttft_mean_s > mean_s
    assert latency.tpot_mean_s == pytest.approx(0.025)


def test_over_periods_rates_and_use_are_means_by_their_hours() -> None:
    """Two thirds of the day at the demand, a third at half of it: five sixths on average."""
    day = {"day": {"hours": 16.0}, "night": {"hours": 8.0, "demand": 0.5}}
    problem, *_ = of(**ASKED, periods=day)
    one, *_ = of(**ASKED)
    (operation,) = solution_of_routes(one, planned(one)).operations
    base = solution_of_routes(one, planned(one))
    both = tuple(operation.scaled_to(p, [ratio]) for p, ratio in enumerate((1.0, 0.5)))
    solution = replace(base, operations=both, scale=1.0, routed=None, highest_req_per_s=None)
    found = Evaluation(problem, solution)
    fleet = found.fleet()
    assert fleet["throughput_req_per_s"] == pytest.approx(RATE * 5 / 6)
    for pool, n, work in zip(fleet["pools"], SIZES, work_s(problem), strict=True):
        assert pool.utilization == pytest.approx(RATE * 5 / 6 * work / n)
    assert fleet["offload_fraction"] == pytest.approx(SHARE_LONG)
    assert fleet["threshold_tokens"] is None
    most = min(n / s for n, s in zip(SIZES, work_s(problem), strict=True))
    assert fleet["max_throughput_req_per_s"] == pytest.approx(5 / 6 * most)
    periods = list(found.periods())
    assert [(p.name, p.hours, p.demand_req_per_s) for p in periods] == [("day", 16.0, RATE), ("night", 8.0, RATE / 2)]
    for period, ratio in zip(periods, (1.0, 0.5), strict=True):
        busy = [ratio * RATE * work / n for n, work in zip(SIZES, work_s(problem), strict=True)]
        assert [pool.utilization for pool in period.pools] == pytest.approx(busy)
        taken = [ratio * RATE * part for part in (SHARE_LONG, 1 - SHARE_LONG, 1.0)]
        assert [pool.offered_req_per_s for pool in period.pools] == pytest.approx(taken)
        gbps = ratio * RATE * sent_bytes(problem) * 8 / 1e9
        assert [(link.mean_gbps, link.utilization) for link in period.links] == [pytest.approx((gbps, gbps / 100))]
        assert period.offload_fraction == pytest.approx(SHARE_LONG)
        assert period.thresholds == {"all": {"local": 5000.0}}


def test_periods_that_ask_for_no_more_of_any_way_than_another_are_dominated() -> None:
    problem = planning_problem(small_with({**ASKED, "demand_req_per_s": 2.0}))
    (day,), n_streams = solved(problem, 20.0).operations, len(problem.streams)
    night, more = day.scaled_to(1, [0.5] * n_streams), day.scaled_to(1, [1.5] * n_streams)
    other = replace(night, flows=tuple(f._replace(threshold_tokens=f.threshold_tokens + 1) for f in night.flows))
    for operations, kept in (
        ((day, night), [day]),
        ((night, day), [day]),
        ((day, more), [more]),
        ((day, other), [day, other]),
        ((day, replace(night, n_instances=tuple(n + 1 for n in night.n_instances))), None),
    ):
        assert dominating_periods(operations) == (kept or [*operations])
