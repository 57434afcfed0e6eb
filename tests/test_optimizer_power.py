"""What an accelerator costs by the hour: rent or purchase, and the power that its site pays for."""

from typing import Any

import pytest

from planner.errors import InputError
from planner.optimizer import optimize
from planner.scenario import Price
from tests.builders import FAST, GPUS, HOME, problem_of, small_with

POWER = {"usd_per_kwh": 0.10, "pue": 1.3, "draw_fraction": 1.2}


def rents(changes: dict[str, Any]) -> dict[str, float | None]:
    return {pool.name: pool.usd_per_hour for pool in problem_of(changes).pools}


def test_a_purchase_costs_its_price_over_the_hours_of_its_years() -> None:
    price = Price(purchase_usd=30_000.0, amortized_years=5.0, basis="quoted", source="x")
    assert price.hourly_usd == pytest.approx(30_000 / (5 * 8760))
    changes = {f"prices.{FAST}": {"purchase_usd": 35_040.0, "amortized_years": 4.0, "basis": "quoted", "source": "x"}}
    assert rents(changes)["fast"] == pytest.approx(GPUS * 1.0)


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
        optimize(small_with(wide | {"demand_req_per_s": 10.0, "sites.remote.usd_per_kwh": usd})).cost.usd_per_hour
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
