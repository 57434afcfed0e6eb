"""Verdicts, money, and the figures of pools and links that must add up."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.comparison import optimize
from planner.optimizer.layout_choice import planning_problem
from planner.results.plan import Fleet, Plan
from planner.scenario import read_scenario
from tests.builders import FAST, HOME, Draw, fleet_of, problem_of, reference, routed_search, small, small_with

SEEDS = st.integers(0, 10_000)


def plan(changes: dict[str, Any] | None = None) -> Plan:
    return optimize(small_with(changes or {}))


def fleet(seed: int, **changes: Any) -> Fleet | None:
    problem = problem_of(Draw(np.random.default_rng(seed)).question() | changes)
    solution = routed_search(problem)
    return None if solution is None else fleet_of(problem, solution)


@given(seed=SEEDS)
def test_pools_are_sent_every_request_once_per_role(seed: int) -> None:
    answer = fleet(seed)
    if answer is not None:
        offered = {
            role: sum(p.offered_req_per_s for p in answer.pools if p.role == role) for role in ("prefill", "decode")
        }
        assert offered["prefill"] == pytest.approx(answer.throughput_req_per_s)
        assert offered["decode"] == pytest.approx(answer.throughput_req_per_s)
        assert answer.pool("fast").offered_req_per_s == pytest.approx(
            answer.offload_fraction * answer.throughput_req_per_s, abs=1e-9
        )


@given(seed=SEEDS, load=st.floats(0.05, 0.95))
def test_utilisation_is_offered_over_capacity_and_at_most_one(seed: int, load: float) -> None:
    problem = problem_of(Draw(np.random.default_rng(seed)).question())
    solution = routed_search(problem)
    if solution is None:
        return
    demand = load * solution.highest_req_per_s
    asked = problem.demanding(demand, problem.scenario.objective)
    answer = fleet_of(asked, solution)
    assert answer.throughput_req_per_s == pytest.approx(demand)
    for pool in answer.pools:
        if pool.n_instances:
            assert pool.utilization == pytest.approx(pool.offered_req_per_s / pool.capacity_req_per_s, abs=1e-9)
        assert 0 <= pool.utilization <= load * (1 + 1e-6)
        assert pool.n_accelerators == 8 * pool.n_instances
    for link in answer.links:
        assert link.mean_gbps <= load * link.capacity_gbps * (1 + 1e-6)


@given(seed=SEEDS)
def test_something_is_full_at_the_highest_rate(seed: int) -> None:
    answer = fleet(seed)
    if answer is not None:
        use = [p.utilization for p in answer.pools] + [link.utilization for link in answer.links]
        assert max(use) == pytest.approx(1, abs=1e-6)


def test_cost_per_token_times_tokens_is_the_cost_per_hour_of_the_plan_and_every_baseline() -> None:
    scenario = reference("expected-work")
    answer, mix = optimize(scenario), planning_problem(scenario).classes[0].mix
    assert {"homogeneous-pd", "colocated"} <= {fleet.name for fleet in answer.baselines}
    for fleet in (answer, *answer.baselines):
        for tokens, usd_per_million in (
            (mix.mean_total_tokens, fleet.cost.usd_per_million_input_tokens),
            (mix.mean_output_tokens, fleet.cost.usd_per_million_output_tokens),
        ):
            assert usd_per_million is not None
            usd_per_hour = 3600 * fleet.throughput_req_per_s * tokens * usd_per_million / 1e6
            assert usd_per_hour == pytest.approx(fleet.cost.usd_per_hour)


def test_cost_per_hour_is_the_rent_of_every_pool_and_link() -> None:
    answer = plan()
    fast, near, decode = (pool.n_instances for pool in answer.pools)
    assert answer.cost.accelerators_usd_per_hour == pytest.approx(32 * fast + 16 * (near + decode))
    assert answer.cost.usd_per_hour == pytest.approx(32 * fast + 16 * (near + decode) + 20)
    assert [pool.usd_per_hour for pool in answer.pools] == [32 * fast, 16 * near, 16 * decode]


def test_traffic_is_charged_by_the_gigabyte() -> None:
    answer = plan({"links.wan.usd_per_gb": 0.01})
    (link,) = answer.links
    traffic = 0.01 * 3600 * link.mean_gbps / 8
    assert traffic > 0
    rent = sum(pool.usd_per_hour or 0 for pool in answer.pools) + 20
    assert answer.cost.usd_per_hour == pytest.approx(rent + traffic)


def test_without_a_price_cost_is_unknown_and_named_while_the_rate_stands() -> None:
    scenario = small()
    unpriced = scenario.model_copy(update={"prices": {HOME: scenario.prices[HOME]}})
    answer = optimize(unpriced)
    assert answer.cost.usd_per_hour is None
    assert answer.cost.usd_per_million_input_tokens is None
    assert answer.cost.missing_prices == (f"prices.{FAST}",)
    assert answer.max_throughput_req_per_s == pytest.approx(plan().max_throughput_req_per_s)


def test_one_site_is_not_worth_a_second_one_it_does_not_have() -> None:
    answer = optimize(read_scenario("not-worth-it"))
    assert not answer.verdict.worth_it
    assert answer.verdict.because.startswith("0.05 req/s cost 40.00 USD/h")


def test_an_offer_that_costs_more_than_it_saves_is_not_worth_it() -> None:
    scenario = read_scenario("not-worth-it")
    offered = scenario.varied(scenario.comparisons["offered-prefill"].set)
    answer = optimize(offered)
    assert not answer.verdict.worth_it
    assert "sends nothing" in answer.verdict.because


@pytest.mark.parametrize(
    ("usd", "stock", "worth_it", "decided"),
    [
        (0.5, 64, True, True),
        (0.5, 400, False, False),  # as many at home would do as much in one batch, if prefill and decode overlapped
        (50.0, 400, False, True),
    ],
)
def test_cheap_fast_chips_are_worth_it_and_dear_ones_are_not(
    usd: float, stock: int, worth_it: bool, decided: bool
) -> None:
    at_home = {f"sites.local.accelerators.{HOME}": stock, "budget_usd_per_hour": 600.0}
    verdict = plan({f"prices.{FAST}.usd_per_accelerator_hour": usd, "pools.fast.n_instances": 1} | at_home).verdict
    assert (verdict.worth_it, verdict.decided) == (worth_it, decided)
    assert (verdict.recommendation == "separate-sites") is worth_it
    assert verdict.because.endswith(".")


@pytest.mark.parametrize(("usd", "worth_it"), [(0.5, True), (50.0, False)])
def test_the_verdict_for_a_demand_goes_by_the_bill(usd: float, worth_it: bool) -> None:
    changes = {
        "objective": "min-cost",
        "demand_req_per_s": 2.0,
        "links.wan.usd_per_hour": 1.0,
        f"prices.{FAST}.usd_per_accelerator_hour": usd,
        "pools.fast.min_instances": 1,
        f"sites.local.accelerators.{HOME}": 400,
    }
    answer = plan(changes)
    assert answer.verdict.worth_it is worth_it
    saving = answer.baseline("cheapest-homogeneous-pd").cost.usd_per_hour
    assert saving is not None
    assert answer.cost.usd_per_hour is not None
    assert (answer.cost.usd_per_hour < saving) is worth_it


def test_the_reference_case_stops_being_worth_it_when_the_fast_chip_costs_enough() -> None:
    """Break-even of the case study lies between 2 and 3 times the price of an H20; without more of those, nowhere."""
    stock = "Stock is what makes it worth it"
    said = {
        ratio: optimize(reference(**{"prices.h200-sxm.usd_per_accelerator_hour": 1.25 * ratio})).verdict
        for ratio in (1.2, 2.0, 4.0)
    }
    assert all(one.worth_it for one in said.values())
    assert {ratio: stock in one.because for ratio, one in said.items()} == {1.2: False, 2.0: False, 4.0: True}


def test_more_instances_of_a_bottleneck_raise_the_rate_by_its_shadow_price() -> None:
    sizes = {"pools.fast.n_instances": 2, "pools.near.n_instances": 2, "pools.decode.n_instances": 3}
    sizes |= {f"sites.local.accelerators.{HOME}": 48}
    before = plan(sizes)
    assert before.bottlenecks
    for bottleneck in before.bottlenecks:
        if bottleneck.unit == "req/s per instance":
            after = plan({**sizes, bottleneck.constraint: sizes[bottleneck.constraint] + 1})
            gain = after.max_throughput_req_per_s - before.max_throughput_req_per_s
            assert gain == pytest.approx(bottleneck.shadow_price, rel=1e-4)
            assert gain > 0
    prices = [b.shadow_price for b in before.bottlenecks]
    assert prices == sorted(prices, reverse=True)


def test_a_link_that_is_full_is_a_bottleneck_per_gbps() -> None:
    changes = {"links.wan.capacity_gbps": 2.0, "pools.near.n_instances": 1}
    before = plan(changes)
    price = {b.constraint: b for b in before.bottlenecks}["links.wan.capacity_gbps"]
    assert price.unit == "req/s per Gbps"
    after = plan({**changes, "links.wan.capacity_gbps": 3.0})
    assert after.max_throughput_req_per_s - before.max_throughput_req_per_s >= price.shadow_price * (1 - 1e-4)


def test_the_sweep_peaks_at_the_plan() -> None:
    answer = plan()
    assert answer.sweep is not None
    limits = np.array([[np.inf if x is None else x for x in row] for row in answer.sweep.limits_req_per_s.values()])
    rates = limits.min(axis=0)
    assert rates.max() == pytest.approx(answer.max_throughput_req_per_s, rel=1e-6)
    assert answer.sweep.threshold_tokens[int(rates.argmax())] == pytest.approx(answer.threshold_tokens, rel=1e-3)


def test_a_pool_that_hardly_any_prompt_reaches_limits_no_rate() -> None:
    sweep = plan({"workload.lengths.sigma": 0.3}).sweep
    assert sweep is not None
    near = sweep.limits_req_per_s["near"]
    assert near[0] is None  # prompts of fewer than 128 tokens are 14 standard deviations from the mean
    assert all(rate is None or rate <= 1e15 for rates in sweep.limits_req_per_s.values() for rate in rates)
    assert None not in sweep.limits_req_per_s["decode"]
    assert None not in near[-100:]


def test_a_bill_that_pays_for_more_instances_than_are_planned_has_no_fleet_to_compare_with() -> None:
    answer = plan({"prices.h100-sxm.usd_per_accelerator_hour": 1e9})
    assert "equal-bill-colocated" not in {baseline.name for baseline in answer.baselines}
    assert any("no equal-bill-colocated to compare with: nothing limits its size" in note for note in answer.notes)


def test_json_answer_names_what_the_contract_promises() -> None:
    answer = plan().answer()
    promised = (
        "schema scenario status gap capacity_rule threshold_tokens offload_fraction throughput_req_per_s "
        "max_throughput_req_per_s goodput_req_per_s pools links latency cost bottlenecks verdict classes periods "
        "survives baselines"
    )
    assert set(promised.split()) <= set(answer)
    assert answer["schema"] == "planner.plan/1"
    assert {"name", "from", "to", "capacity_gbps", "mean_gbps", "utilization"} <= set(answer["links"][0])
