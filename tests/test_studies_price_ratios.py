"""What the rent of a plan buys at other prices, and from which price on the plan gains nothing."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planner.studies import price_ratios
from planner.studies.price_ratios import BREAK_EVEN_GRID, Rent, _break_even, _fast_pool, _gains
from tests.test_report_records import PD_P, PRFAAS, make_plan


@pytest.mark.parametrize(
    ("n_per_instance", "extra_usd", "expected"), [(1, 0.0, [60, 80]), (8, 0.0, [56, 80]), (8, 8.0, [64, 80])]
)
def test_as_many_accelerators_are_had_as_the_rent_pays_for_in_whole_instances(
    n_per_instance: int, extra_usd: float, expected: list[int]
) -> None:
    """Of 20 fast ones and 40 others at 2 USD: 2 (20 r + 40) USD at the ratio r, and more."""
    rent = Rent(20, 40, 2.0, n_per_instance)
    assert rent.accelerators(np.array([1.0, 2.0]), extra_usd).tolist() == expected


def test_the_break_even_is_the_least_ratio_without_a_gain() -> None:
    assert _break_even(2.005 - BREAK_EVEN_GRID) == pytest.approx(2.01)
    assert _break_even(np.where(BREAK_EVEN_GRID < 9.995, 1.0, -1.0)) == pytest.approx(10.0)
    assert _break_even(np.full(len(BREAK_EVEN_GRID), 0.1)) is None
    assert _break_even(np.zeros(len(BREAK_EVEN_GRID))) == pytest.approx(0.5), "as good is no gain"


def test_the_gain_is_over_what_the_money_buys_of_one_kind_but_no_less_than_one_instance_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An accelerator serves a tenth of a request a second; an instance of each role has eight."""
    pools = [SimpleNamespace(n_accelerators=n, is_prefill=prefills) for n in (8, 99) for prefills in (True, False)]
    fleet: Any = SimpleNamespace(pools=pools)
    monkeypatch.setattr(price_ratios, "homogeneous_rates", lambda _, n: n / 10)
    found = _gains(fleet, 12.0, Rent(20, 40, 2.0, 1), np.array([1.0, 2.0]), 0.0)
    assert found == pytest.approx([12 / 6 - 1, 12 / 8 - 1])
    assert _gains(fleet, 12.0, Rent(1, 1, 2.0, 1), np.array([1.0]), 0.0) == pytest.approx([12 / 1.6 - 1])


def test_the_fast_pool_is_one_in_use_for_long_prompts_on_other_hardware_with_a_price() -> None:
    assert _fast_pool(make_plan(), "h20-141gb") == PRFAAS
    assert _fast_pool(make_plan(), "h200-sxm") is None
    idle = PRFAAS.model_copy(update={"n_instances": 0})
    unpriced = PRFAAS.model_copy(update={"usd_per_hour": None})
    for pool in (idle, unpriced, PD_P):
        assert _fast_pool(make_plan(pools=(pool,)), "h20-141gb") is None
