"""Worth of one more of a network's limits, against every fleet counted out and against searches from the start."""

import re
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.network.search import network_search
from planner.optimizer.network.ttft_bisection import GAP as BISECTION_GAP
from planner.optimizer.network.ttft_bisection import least_ttft_by_bisection
from planner.optimizer.prices.least_ttft import ttft_prices
from planner.optimizer.prices.programs import IntegerProgramNearPlan, program_prices
from planner.optimizer.problem import Problem
from planner.optimizer.solution import Solution
from planner.report import bottleneck_text
from planner.results.plan_parts import Bottleneck, PlannedAgain
from tests.builders import GPUS, HOME, small_with
from tests.cpu_cost import cached
from tests.test_network_plan import DAY, DECODE_S, FAST_USD, HOME_USD

LENGTHS = (1024.0, 8192.0, 32768.0)
LINK_USD, PEAK, MEAN = 20.0, 10.0, 7.5
"""Rent of the link [USD/h], demand of the day and over day and night [req/s]."""
THREE: dict[str, Any] = {**DAY, "workload.lengths": {"kind": "empirical", "tokens": LENGTHS}}
N_HOME = 13
SHORT_OF_HOME = {"sites.local.accelerators": {HOME: N_HOME * GPUS}}
"""Too few to prefill everything near: one more instance there spares half of one elsewhere."""


def problem_of(changes: Mapping[str, Any]) -> Problem:
    return planning_problem(small_with({**THREE, **changes}))


@cached
def solved(changes: tuple[tuple[str, Any], ...]) -> tuple[Problem, Solution]:
    problem = problem_of({key: {HOME: n} if key == "sites.local.accelerators" else n for key, n in changes})
    found = network_search(problem, 600.0, 0.0)
    assert found is not None
    return problem, found


def prices_of(problem: Problem, solution: Solution) -> dict[str, Bottleneck]:
    return {b.constraint: b for b in program_prices(problem, solution, 600.0)}


def work_s(problem: Problem) -> list[tuple[float, float]]:
    """Seconds per request of the pools for long and for short prompts, at every threshold that makes a difference."""
    fast, near = (np.asarray(problem.pools[i].rates.prefill.seconds(np.array(LENGTHS), 0.0)) for i in (0, 1))
    return [(float(fast[k:].sum()) / 3, float(near[:k].sum()) / 3) for k in range(len(LENGTHS) + 1)]


def least_usd(problem: Problem, n_home: int, peak: float = PEAK) -> float:
    """The cheapest of all fleets of at most so many instances at home, counted out [USD/h]."""
    n_decode = int(np.ceil(peak * DECODE_S - 1e-9))
    bills = [
        n_fast * FAST_USD + (n_near + n_decode) * HOME_USD + LINK_USD * (n_fast > 0)
        for (long_s, short_s), n_fast, n_near in product(work_s(problem), range(41), range(n_home - n_decode + 1))
        if peak * long_s <= n_fast + 1e-9 and peak * short_s <= n_near + 1e-9
    ]
    return min(bills)


def most_req_per_s(problem: Problem, n_fast: int, n_near: int, n_decode: int) -> float:
    """The most of the day's profile that a fleet serves with any threshold, as a mean rate [req/s]."""
    rates = []
    for long_s, short_s in work_s(problem):
        limits = [n / s for n, s in ((n_fast, long_s), (n_near, short_s), (n_decode, DECODE_S)) if s > 0]
        rates.append(min(limits) * MEAN / PEAK)
    return max(rates)


def holds(again: PlannedAgain | None, value: float, slack: float = 1e-6) -> bool:
    return again is not None and again.least - slack <= value <= again.most + slack


def test_an_instance_that_was_not_to_be_had_saves_what_counting_every_fleet_says() -> None:
    problem, solution = solved((("sites.local.accelerators", N_HOME * GPUS),))
    assert solution.objective == pytest.approx(least_usd(problem, N_HOME))
    saved = least_usd(problem, N_HOME) - least_usd(problem, N_HOME + 1)
    assert saved > 0
    price = prices_of(problem, solution)[f"sites.local.accelerators.{HOME}"]
    assert price.planned_again is not None
    assert price.planned_again.n_more == GPUS
    assert holds(price.planned_again, saved)


def test_one_more_request_per_second_costs_what_counting_every_fleet_says() -> None:
    problem, solution = solved((("sites.local.accelerators", N_HOME * GPUS),))
    more = PEAK * (1 + 1 / MEAN)
    dearer = least_usd(problem, N_HOME, more) - least_usd(problem, N_HOME)
    price = prices_of(problem, solution)["demand_req_per_s"]
    assert holds(price.planned_again, -dearer)
    assert price.shadow_price < 0


@pytest.mark.parametrize("added", ["fast", "near", "decode"])
def test_an_instance_beside_the_fleet_adds_what_counting_every_threshold_says(added: str) -> None:
    problem, solution = solved((("sites.local.accelerators", N_HOME * GPUS),))
    sizes = dict(zip(("fast", "near", "decode"), solution.operations[0].n_instances, strict=True))
    before, after = (
        most_req_per_s(problem, *(n + more * (name == added) for name, n in sizes.items())) for more in (0, 1)
    )
    price = prices_of(problem, solution).get(f"pools.{added}.n_instances")
    if price is None:
        assert after == pytest.approx(before, rel=1e-6)
    else:
        assert holds(price.planned_again, after - before, 1e-4 * before)


def test_ten_gbps_more_on_a_full_link_add_what_a_search_with_them_finds() -> None:
    sizes = {"pools.fast.n_instances": 8, "pools.near.n_instances": 8, "pools.decode.n_instances": 16}
    changes = {**sizes, "objective": "max-throughput", "links.wan.capacity_gbps": 60}
    problem = problem_of(changes)
    before, after = (
        network_search(p, 600.0, 0.0) for p in (problem, problem_of({**changes, "links.wan.capacity_gbps": 70}))
    )
    assert before is not None
    assert after is not None
    price = prices_of(problem, before)["links.wan.capacity_gbps"]
    assert price.planned_again is not None
    assert price.planned_again.n_more == 10
    assert after.scale > before.scale
    assert holds(price.planned_again, (after.scale - before.scale) * MEAN, 1e-4 * MEAN)
    assert price.unit == "req/s per Gbps"


def test_a_later_promise_saves_no_more_than_what_a_search_with_it_proves() -> None:
    problem, solution = solved((("slo.ttft_s", 6.0),))
    price = prices_of(problem, solution)["slo.ttft_s"]
    assert price.planned_again is not None
    later = network_search(problem_of({"slo.ttft_s": 6.0 + price.planned_again.n_more / 1000}), 600.0, 0.0)
    assert later is not None
    assert price.planned_again.least <= solution.objective - later.bound + 1e-6
    assert price.planned_again.most >= 0


def test_a_full_inventory_of_one_pool_has_a_price_where_its_accelerators_are_lacking() -> None:
    lengths = {"kind": "lognormal", "mu": 9.0, "sigma": 1.0, "low_tokens": 128, "high_tokens": 65536}
    changes: dict[str, Any] = {"objective": "max-throughput", "workload.lengths": lengths}
    changes["sites.remote.accelerators"] = {"h100-sxm": 8 * GPUS}
    problem = problem_of(changes)
    solution = network_search(problem, 600.0, 1e-4)
    assert solution is not None
    price = prices_of(problem, solution)["sites.remote.accelerators.h100-sxm"]
    larger = problem_of({**changes, "sites.remote.accelerators": {"h100-sxm": 9 * GPUS}})
    again = network_search(larger, 600.0, 1e-4)
    assert again is not None
    assert holds(price.planned_again, (again.scale - solution.scale) * MEAN, 1e-3 * solution.scale * MEAN)
    # Where there is no more to prefill at the plan's threshold, only planning again sees what it is worth.
    said = bottleneck_text.bottleneck(price.model_copy(update={"shadow_price": 0.0}))
    assert said.startswith("8 more accelerators of h100-sxm at remote would add ")
    assert said.endswith(" req/s to the highest rate")


def test_what_is_not_planned_again_in_time_is_said_and_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, solution = solved((("sites.local.accelerators", N_HOME * GPUS),))
    monkeypatch.setattr(IntegerProgramNearPlan, "objective", lambda *_: None)
    prices = program_prices(problem, solution, 600.0)
    assert prices
    assert all(b.planned_again is None for b in prices)
    assert all(bottleneck_text.bottleneck(b).endswith("; planning again was not done in the time") for b in prices)
    assert program_prices(problem, solution, -1.0) == ()


FEW = {"pools.near.n_instances": 33, "pools.fast.n_instances": 0, "pools.decode.n_instances": 8}


def test_an_instance_takes_off_the_least_ttft_what_a_search_from_the_start_finds() -> None:
    problem = problem_of({**FEW, "objective": "min-ttft"})
    found = least_ttft_by_bisection(problem, 600.0)
    assert found is not None
    prices = {b.constraint: b for b in ttft_prices(problem, found.as_solution(BISECTION_GAP), 600.0)}
    price = prices["pools.near.n_instances"]
    assert (price.unit, price.basis) == ("s per instance", "planned-again")
    again = least_ttft_by_bisection(problem_of({**FEW, "pools.near.n_instances": 34, "objective": "min-ttft"}), 600.0)
    assert again is not None
    assert price.shadow_price == pytest.approx(found.ttft_s - again.ttft_s, abs=2 * BISECTION_GAP * found.ttft_s)
    assert price.shadow_price > 2 * BISECTION_GAP * found.ttft_s
    assert price.planned_again is not None
    assert price.planned_again.least <= price.shadow_price <= price.planned_again.most
    assert again.bound_s <= found.ttft_s - price.planned_again.least
    # Long prompts cannot leave, and decode is not what they wait for.
    assert "links.wan.capacity_gbps" not in prices


@pytest.mark.parametrize(
    ("bottleneck", "text"),
    [
        (
            {"constraint": "pools.near.n_instances", "shadow_price": 0.25, "unit": "req/s per instance"},
            "one more instance of near would add 0.250 req/s to the highest rate",
        ),
        (
            {
                "constraint": "links.wan.tiers[0].max_ports",
                "shadow_price": 3.0,
                "unit": "USD/h per port of 10 Gbps",
                "basis": "linear-program",
                "planned_again": PlannedAgain(n_more=1.0, least=0.0, most=0.0),
            },
            "one more port of 10 Gbps on wan would change nothing",
        ),
        (
            {
                "constraint": "slo.ttft_s",
                "shadow_price": 0.01,
                "unit": "USD/h per ms",
                "basis": "linear-program",
                "planned_again": PlannedAgain(n_more=600.0, least=0.0, most=8.0),
            },
            "600 more ms of slo.ttft_s would save 8.00 USD/h at most",
        ),
        (
            {
                "constraint": "pools.near.n_instances",
                "shadow_price": 0.0,
                "unit": "req/s per instance",
                "basis": "linear-program",
                "planned_again": PlannedAgain(n_more=2.0, least=0.5, most=0.5),
            },
            "2 more instances of near would add 0.500 req/s to the highest rate",
        ),
        (
            {"constraint": "budget", "shadow_price": 0.5, "unit": "req/s per USD/h", "basis": "linear-program"},
            "one more USD/h of budget would add 0.500 req/s to the highest rate; planning again was not done in the "
            "time",
        ),
        (
            {
                "constraint": "sites.east.accelerators.h20-96gb",
                "shadow_price": 0.125,
                "unit": "s per accelerator",
                "planned_again": PlannedAgain(n_more=8.0, least=1.0, most=1.2),
            },
            "one more accelerator of h20-96gb at east would take 0.125 s off the TTFT; 8 more would take 1.00 s to "
            "1.20 s off the TTFT",
        ),
    ],
)
def test_a_price_is_told_with_what_planning_again_says(bottleneck: dict[str, Any], text: str) -> None:
    assert bottleneck_text.bottleneck(Bottleneck(**bottleneck)) == text


@given(
    price=st.floats(0.0, 10.0),
    n=st.sampled_from([1.0, 2.0, 600.0]),
    most=st.floats(0.0, 50.0),
    part=st.floats(0.0, 1.0),
)
@pytest.mark.parametrize("unit", ["USD/h per ms", "req/s per instance", "s per port of 10 Gbps"])
def test_no_sentence_of_what_binds_says_that_more_of_something_would_save_nothing(
    unit: str, price: float, n: float, most: float, part: float
) -> None:
    again = PlannedAgain(n_more=n, least=part * most, most=most)
    said = bottleneck_text.bottleneck(
        Bottleneck(constraint="c", shadow_price=price, unit=unit, basis="linear-program", planned_again=again)
    )
    assert not re.search(r"(save|add|take) (nothing|0 to)", said)
    assert said.startswith("one more " if n == 1 else f"{n:g} more ")
    assert ("change nothing" in said) is (most < bottleneck_text.NOTHING_GAINED)
