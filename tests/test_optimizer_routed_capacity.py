"""Rates, loads and bills of one route: by hand, from the seconds and bytes of two lengths of prompts."""

from typing import Any

import pytest

from planner.optimizer.capacity import RouteLoads, exact_loads
from planner.optimizer.problem import Problem
from planner.optimizer.routed_capacity import (
    highest_req_per_s,
    link_bytes,
    rate_limits,
    spend_of,
    unit_rents_usd_per_hour,
)
from planner.optimizer.sized import Sizing
from tests.builders import problem_of

SHORT, LONG, SHARE_LONG = 1000.0, 16_000.0, 0.25
SIZES, PORTS, RATE = (2, 3, 4), ((1,),), 0.5
DECODE_S = 0.025 * 500 / 20
POWER: dict[str, Any] = {
    f"sites.{site}.{key}": value
    for site in ("remote", "local")
    for key, value in (("usd_per_kwh", 2.0), ("pue", 1.5), ("draw_fraction", 1.0), ("idle_draw_fraction", 0.25))
}


def of(**changes: Any) -> tuple[Problem, Sizing, RouteLoads]:
    lengths = {"kind": "empirical", "tokens": (SHORT, LONG), "weights": (1 - SHARE_LONG, SHARE_LONG)}
    stated = {"workload.lengths": lengths, "capacity_rule": "expected-work", "links.wan.usd_per_gb": 0.02, **changes}
    problem = problem_of(stated)
    return problem, Sizing(SIZES, PORTS), exact_loads(problem, 5000.0)


def work_s(problem: Problem) -> list[float]:
    """Instance-seconds of every pool for one request a second."""
    fast, near = (pool.rates.prefill for pool in problem.pools[:2])
    assert fast is not None
    assert near is not None
    return [SHARE_LONG * float(fast.seconds(LONG, 0.0)), (1 - SHARE_LONG) * float(near.seconds(SHORT, 0.0)), DECODE_S]


def sent_bytes(problem: Problem) -> float:
    return SHARE_LONG * float(problem.pools[0].rates.kv_bytes(LONG))


def test_a_pool_or_a_link_allows_the_rate_at_which_it_is_full_and_the_least_is_the_highest_rate() -> None:
    problem, sizing, loads = of()
    limits = rate_limits(problem, sizing, loads)
    expected = {p.name: n / s for p, n, s in zip(problem.pools, SIZES, work_s(problem), strict=True)}
    expected["wan"] = 100e9 / 8 / sent_bytes(problem)
    assert {name: float(limit[0]) for name, limit in limits.items()} == pytest.approx(expected)
    assert highest_req_per_s(problem, sizing, loads) == pytest.approx(min(expected.values()))
    narrow, _, of_narrow = of(**{"links.wan.capacity_gbps": 0.1})
    assert highest_req_per_s(narrow, sizing, of_narrow) == pytest.approx(0.1e9 / 8 / sent_bytes(narrow))


def test_a_link_carries_what_the_long_prompts_send() -> None:
    problem, _, loads = of()
    assert link_bytes(problem, loads, 0) == pytest.approx([sent_bytes(problem)])


def test_what_a_fleet_spends_is_rent_traffic_and_the_power_of_the_work_that_it_does() -> None:
    """A whole instance at work draws three quarters of 8 accelerators' power more than an idle one."""
    problem, sizing, loads = of(**POWER)
    watts = [problem.scenario.hardware_named(kind).tdp_w for kind in ("h100-sxm", "h200-sxm", "h200-sxm")]
    each = [2.0 * 1.5 * 8 * (w or 0.0) / 1000 for w in watts]
    busy = [0.75 * usd * RATE * s for usd, s in zip(each, work_s(problem), strict=True)]
    traffic = 0.02 * 3600 * RATE * sent_bytes(problem) / 1e9
    rent = [n * (price * 8 + 0.25 * usd) for n, price, usd in zip(SIZES, (4.0, 2.0, 2.0), each, strict=True)]
    assert dict(unit_rents_usd_per_hour(problem, sizing)) == pytest.approx(
        dict(zip(("fast", "near", "decode", "wan"), [*rent, 20.0], strict=True))
    )
    total = sum(rent) + 20.0 + sum(busy) + traffic
    assert spend_of(problem, sizing, loads, RATE) == pytest.approx(total)
    budget = 1.1 * (sum(rent) + 20.0)
    limited, _, known = of(**POWER, budget_usd_per_hour=budget)
    use = (sum(busy) + traffic) / RATE
    assert float(rate_limits(limited, sizing, known)["budget"][0]) == pytest.approx((budget - sum(rent) - 20.0) / use)
    poor, _, known = of(**POWER, budget_usd_per_hour=1.0)
    assert float(rate_limits(poor, sizing, known)["budget"][0]) == 0.0


def test_without_a_price_a_fleet_spends_accelerators_and_between_equal_ones_bandwidth() -> None:
    problem, sizing, loads = of(prices={})
    assert spend_of(problem, sizing, loads, RATE) == pytest.approx(8 * sum(SIZES) + 1e-6 * 100, rel=1e-9)
    assert spend_of(problem, Sizing(SIZES, ((0,),)), loads, RATE) == pytest.approx(8 * sum(SIZES), rel=1e-9)
    assert dict(unit_rents_usd_per_hour(problem, Sizing((0, 3, 4), PORTS))) == {
        "fast": 0.0,
        "near": None,
        "decode": None,
        "wan": 20.0,
    }
