"""What an accelerator costs by the hour: rent or purchase, and the power that its site pays for."""

from typing import Any

import pytest

from planner.comparison import optimize
from planner.errors import InputError
from planner.profiles import hardware_profile
from planner.report import phrases
from planner.scenario import Price, accelerator_usd_per_hour, busy_usd_per_hour
from tests.builders import FAST, GPUS, HOME, fleet_of, problem_of, routed_search, sketch, small_with

POWER = {"usd_per_kwh": 0.10, "pue": 1.3, "draw_fraction": 1.2}


def rents(changes: dict[str, Any]) -> dict[str, float | None]:
    return {pool.name: pool.usd_per_hour for pool in problem_of(changes).pools}


def test_a_purchase_costs_its_price_over_the_hours_of_its_years() -> None:
    price = Price(purchase_usd=30_000.0, amortized_years=5.0, basis="quoted", source="x")
    assert price.hourly_usd == pytest.approx(30_000 / (5 * 8760))
    changes = {f"prices.{FAST}": {"purchase_usd": 35_040.0, "amortized_years": 4.0, "basis": "quoted", "source": "x"}}
    assert rents(changes)["fast"] == pytest.approx(GPUS * 1.0)


def test_a_discount_is_off_the_rent_the_purchase_and_every_bill() -> None:
    bought = Price(purchase_usd=40_000.0, amortized_years=4.0, discount_fraction=0.25)
    assert bought.paid_usd == 30_000
    assert bought.hourly_usd == pytest.approx(30_000 / (4 * 8760))
    full, less = optimize(small_with({})), optimize(small_with({f"prices.{HOME}.discount_fraction": 0.3}))
    home = sum(pool.usd_per_hour or 0.0 for pool in full.pools if pool.hardware == HOME)
    assert less.cost.usd_per_hour == pytest.approx((full.cost.usd_per_hour or 0.0) - 0.3 * home)


def test_a_thousand_requests_cost_their_part_of_the_bill() -> None:
    plan = optimize(small_with({}))
    hours = 1_000 / (3_600 * plan.throughput_req_per_s)
    assert plan.cost.usd_per_thousand_requests == pytest.approx((plan.cost.usd_per_hour or 0.0) * hours)
    assert "per thousand requests" in phrases.cost(plan)


def test_a_site_that_prices_electricity_pays_for_tdp_draw_and_pue() -> None:
    before, after = rents({}), rents({f"sites.remote.{key}": value for key, value in POWER.items()})
    # H100: 700 W; 0.7 kW x 1.2 x 1.3 x 0.10 USD/kWh each.
    assert after["fast"] == pytest.approx((before["fast"] or 0) + GPUS * 0.7 * 1.2 * 1.3 * 0.10)
    assert after["near"] == before["near"]
    assert after["decode"] == before["decode"]


def test_free_electricity_and_none_stated_cost_the_same() -> None:
    assert rents({"sites.remote.usd_per_kwh": 0.0}) == rents({})


def test_the_bill_of_a_plan_and_of_homogeneous_fleets_counts_power() -> None:
    dear = {"sites.local.usd_per_kwh": 1.0}
    plain, powered = optimize(small_with({})), optimize(small_with(dear))
    assert plain.n_accelerators == powered.n_accelerators
    home = sum(pool.n_accelerators for pool in powered.pools if pool.hardware == HOME)
    extra = (powered.cost.usd_per_hour or 0) - (plain.cost.usd_per_hour or 0)
    assert extra == pytest.approx(home * 0.7 * 1.0)
    # One home accelerator costs 2.70 instead of 2.00 USD/h: the same rent buys what it buys at that price.
    spent = powered.cost.accelerators_usd_per_hour or 0
    bought = powered.baseline("equal-cost-homogeneous-pd").n_accelerators
    assert bought == GPUS * int(spent / (2.7 * GPUS) + 1e-9)


def test_dearer_power_at_a_site_never_lowers_the_cost_of_a_demand() -> None:
    wide = {f"sites.remote.accelerators.{FAST}": 400, f"sites.local.accelerators.{HOME}": 800, "objective": "min-cost"}
    costs = [
        sketch(small_with(wide | {"demand_req_per_s": 10.0, "sites.remote.usd_per_kwh": usd})).cost.usd_per_hour
        for usd in (0.0, 0.5, 5.0)
    ]
    assert costs == sorted(costs, key=lambda usd: usd or 0.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({f"prices.{FAST}": {"basis": "quoted", "source": "x"}}, "usd_per_accelerator_hour or purchase_usd"),
        (
            {
                f"prices.{FAST}": {
                    "usd_per_accelerator_hour": 1.0,
                    "purchase_usd": 1.0,
                    "amortized_years": 1.0,
                    "basis": "quoted",
                    "source": "x",
                }
            },
            "and not both",
        ),
        ({f"prices.{FAST}": {"purchase_usd": 1.0, "basis": "quoted", "source": "x"}}, "amortized_years together"),
        ({"sites.local.pue": 0.9}, "pue"),
    ],
)
def test_half_a_price_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small_with(changes)


BY_USE = {"usd_per_kwh": 0.50, "pue": 1.3, "draw_fraction": 1.2, "idle_draw_fraction": 0.4}
EVERYWHERE = {f"sites.{site}.{key}": value for site in ("remote", "local") for key, value in BY_USE.items()}
MIN_COST = {"objective": "min-cost", "demand_req_per_s": 10.0} | {
    f"sites.{site}.accelerators.{hardware}": 800 for site, hardware in (("remote", FAST), ("local", HOME))
}


def test_an_idle_accelerator_pays_its_idle_draw_and_a_busy_one_the_rest() -> None:
    scenario, h100 = small_with(EVERYWHERE), hardware_profile(FAST)
    # H100: 700 W, 4.00 USD/h; a TDP costs 0.7 kW x 1.3 x 0.50 USD/kWh = 0.455 USD/h.
    assert accelerator_usd_per_hour(scenario, "remote", h100) == pytest.approx(4.0 + 0.4 * 0.455)
    assert busy_usd_per_hour(scenario, "remote", h100) == pytest.approx((1.2 - 0.4) * 0.455)
    (fast, *_) = problem_of(EVERYWHERE).pools
    assert fast.usd_per_hour == pytest.approx(GPUS * (4.0 + 0.4 * 0.455))
    assert fast.busy_usd_per_hour == pytest.approx(GPUS * 0.8 * 0.455)


@pytest.mark.parametrize(
    "changes",
    [{}, {"sites.remote.idle_draw_fraction": 0.4}, {f"sites.remote.{key}": value for key, value in POWER.items()}],
)
def test_without_a_price_or_an_idle_draw_use_costs_nothing(changes: dict[str, Any]) -> None:
    scenario = small_with(changes)
    assert busy_usd_per_hour(scenario, "remote", hardware_profile(FAST)) == 0
    assert not problem_of(changes).charges_use


def test_accelerators_without_a_price_have_no_bill_for_use() -> None:
    scenario = small_with(EVERYWHERE)
    unpriced = scenario.model_copy(update={"prices": {}})
    assert accelerator_usd_per_hour(unpriced, "remote", hardware_profile(FAST)) is None
    assert busy_usd_per_hour(unpriced, "remote", hardware_profile(FAST)) == 0


@pytest.mark.parametrize("objective", [{}, MIN_COST])
def test_the_bill_counts_power_by_the_utilisation_of_every_pool(objective: dict[str, Any]) -> None:
    plan = sketch(small_with(EVERYWHERE | objective))
    tdp_usd_per_hour = 0.7 * 1.3 * 0.5
    for pool in plan.pools:
        rent = 4.0 if pool.hardware == FAST else 2.0
        draw = 0.4 + pool.utilization * (1.2 - 0.4)
        assert pool.usd_per_hour == pytest.approx(pool.n_accelerators * (rent + draw * tdp_usd_per_hour))
    pools = sum(pool.usd_per_hour or 0 for pool in plan.pools)
    links = sum(link.usd_per_hour or 0 for link in plan.links)
    assert plan.cost.accelerators_usd_per_hour == pytest.approx(pools)
    assert plan.cost.usd_per_hour == pytest.approx(pools + links)
    if objective:
        assert plan.bound <= (plan.cost.usd_per_hour or 0) * (1 + 1e-9)
        assert plan.gap < 1e-3


def test_an_idle_draw_as_high_as_the_busy_one_costs_what_power_without_use_does() -> None:
    power = {f"sites.{site}.{key}": value for site in ("remote", "local") for key, value in POWER.items()}
    same = power | {f"sites.{site}.idle_draw_fraction": POWER["draw_fraction"] for site in ("remote", "local")}
    for objective in ({}, MIN_COST):
        one, other = sketch(small_with(power | objective)), sketch(small_with(same | objective))
        assert one.cost == other.cost
        assert one.pools == other.pools


def test_dearer_use_never_lowers_the_cost_and_moves_work_to_cheap_power() -> None:
    plans = [
        sketch(
            small_with(MIN_COST | {f"sites.local.{k}": v for k, v in BY_USE.items()} | {"sites.local.usd_per_kwh": x})
        )
        for x in (0.0, 2.0, 8.0)
    ]
    costs = [plan.cost.usd_per_hour or 0 for plan in plans]
    assert costs == sorted(costs)
    assert plans[-1].offload_fraction >= plans[0].offload_fraction


def test_the_cheapest_threshold_is_no_dearer_than_any_other() -> None:
    local = {f"sites.local.{key}": value for key, value in BY_USE.items()}
    changes = MIN_COST | local | {"sites.local.usd_per_kwh": 1.2}
    best = sketch(small_with(changes))
    assert best.threshold_tokens is not None
    assert 0.1 < best.offload_fraction < 0.9
    for factor in (1.02, 1.25, 2.0):
        fixed = sketch(small_with(changes | {"routing.threshold_tokens": factor * best.threshold_tokens}))
        assert (best.cost.usd_per_hour or 0) <= (fixed.cost.usd_per_hour or 0) * (1 + 1e-6)


def test_a_budget_pays_for_use_too() -> None:
    free = sketch(small_with(EVERYWHERE)).cost.usd_per_hour or 0
    budget = {"budget_usd_per_hour": 0.7 * free}
    plan = sketch(small_with(EVERYWHERE | budget))
    assert (plan.cost.usd_per_hour or 0) <= 0.7 * free * (1 + 1e-6)
    assert any(pool.utilization > 0.5 for pool in plan.pools)


def test_fleets_for_the_same_money_are_priced_as_busy() -> None:
    plan = optimize(small_with(EVERYWHERE))
    baseline = plan.baseline("equal-cost-homogeneous-pd")
    price = 2.0 + 1.2 * 0.7 * 1.3 * 0.5
    spent = plan.cost.accelerators_usd_per_hour or 0
    assert baseline.n_accelerators == GPUS * int(spent / (price * GPUS) + 1e-9)
    assert (baseline.cost.usd_per_hour or 0) <= spent * (1 + 1e-9)


def test_traffic_by_volume_and_power_of_busy_instances_are_those_of_a_calculation_by_hand() -> None:
    """Prompts of 8,192 tokens, 2 a second, all prefilled far away in 0.8 s each and decoded at home."""
    asked = {
        "workload.lengths": {"kind": "constant", "tokens": 8192},
        "objective": "min-cost",
        "demand_req_per_s": 2.0,
        "links.wan.usd_per_gb": 0.02,
        "links.wan.usd_per_hour": 0.0,
        "routing.threshold_tokens": 4000.0,
        "pools.fast.n_instances": 3,
        "pools.near.n_instances": 0,
        "pools.decode.n_instances": 3,
    }
    problem = problem_of(EVERYWHERE | asked)
    routed = routed_search(problem)
    assert routed is not None
    plan = fleet_of(problem, routed)
    # Qwen3-235B caches 94 layers of keys and values, 4 heads of 128 bf16 values each.
    sent_gb_per_s = 2.0 * 8192 * 94 * 2 * 4 * 128 * 2 / 1e9
    assert plan.links[0].mean_gbps == pytest.approx(8 * sent_gb_per_s)
    # Of 3 instances 2 * 0.8 prefill at once, and of 3 others 2 * 500 * 0.025 / 20 decode.
    busy = {"fast": 2.0 * 0.8, "decode": 2.0 * 500 * 0.025 / 20}
    rent = 3 * GPUS * 4.0 + 3 * GPUS * 2.0
    power = sum(GPUS * 0.7 * 1.3 * 0.5 * (3 * 0.4 + n * (1.2 - 0.4)) for n in busy.values())
    assert plan.cost.accelerators_usd_per_hour == pytest.approx(rent + power)
    assert plan.cost.usd_per_hour == pytest.approx(rent + power + 3600 * 0.02 * sent_gb_per_s)
