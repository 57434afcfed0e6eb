"""Sensitivity: each input is varied alone, by a law where there is one; the stated plan is held against it."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planner.comparison import best_fleet
from planner.optimizer.layout_choice import planning_problem
from planner.results.studies import InputSensitivity, Sensitivity, Variation
from planner.scenario import Scenario, read_scenario
from planner.studies import sensitivity as studied
from planner.studies.sensitivity import Input, inputs, longer, sensitivity
from tests.builders import FAST, HOME, problem_of, small_with
from tests.cpu_cost import cached

FEW = {"workload.lengths": {"kind": "empirical", "tokens": [round(128 * 2 ** (i / 1.5)) for i in range(1, 14)]}}
"""Prompts of a few lengths are planned five times faster than those of a density, and no law here is about lengths."""
CHEAP = {**FEW, "objective": "min-cost", "demand_req_per_s": 1.5, f"prices.{FAST}.usd_per_accelerator_hour": 1.0}
"""Prefill is cheapest at the other site, so that the link is paid for."""
FIXED: dict[str, Any] = {**FEW, "pools.fast.n_instances": 2, "pools.near.n_instances": 1, "pools.decode.n_instances": 9}
STOCK = {f"sites.local.accelerators.{HOME}": 80}


@cached
def fixed() -> Sensitivity:
    """A fleet of which prefill is the limit, at its highest rate."""
    return sensitivity(small_with({**FIXED, **STOCK}))


@cached
def cheapest() -> Sensitivity:
    return sensitivity(small_with(CHEAP))


def row(found: Sensitivity, title: str) -> dict[str, Variation]:
    item = next(item for item in found.inputs if item.title == title)
    return {v.label: v for v in item.variations}


def test_a_time_factor_scales_prefill_and_decode_and_nothing_else() -> None:
    plain, slow = problem_of(), problem_of({"pools.fast.time_factor": 1.5, "pools.decode.time_factor": 2.0})
    tokens = np.array([100.0, 5000.0, 90000.0])
    for i, factor in ((0, 1.5), (1, 1.0)):
        before, after = plain.pools[i].rates, slow.pools[i].rates
        assert before.prefill is not None
        assert after.prefill is not None
        assert after.prefill.seconds(tokens, [0, 900, 0]) == pytest.approx(
            factor * before.prefill.seconds(tokens, [0, 900, 0])
        )
        assert after.kv_bytes(tokens) == pytest.approx(before.kv_bytes(tokens))
    assert plain.pools[2].rates.decode is not None
    assert slow.pools[2].rates.decode is not None
    assert slow.pools[2].rates.decode.step_s == 2 * plain.pools[2].rates.decode.step_s


def test_a_roofline_pool_that_is_slower_keeps_the_limit_of_its_step() -> None:
    usual = {"pools.decode.service_times": "roofline", "pools.decode.tpot_ms": 40.0}
    for factor in (1.0, 1.3):
        point = planning_problem(small_with({**usual, "pools.decode.time_factor": factor})).pools[2].rates.decode
        assert point is not None
        assert point.step_s <= 0.040 * (1 + 1e-9)


def test_seconds_of_every_pool_by_a_factor_change_the_rate_by_its_inverse() -> None:
    # Law of unit scaling: with all work 1.2 times as long, and the link idle, 1 / 1.2 of the rate is left.
    names = ("fast", "near", "decode")
    slow = best_fleet(small_with({**FIXED, **STOCK, **{f"pools.{name}.time_factor": 1.2 for name in names}}))
    assert slow.objective == pytest.approx(best_fleet(small_with({**FIXED, **STOCK})).objective / 1.2, rel=1e-6)


def test_what_does_not_limit_a_fleet_does_not_change_its_rate() -> None:
    for title in ("decode step seconds of decode", "output lengths", "price of wan", f"price of {FAST}"):
        assert all(v.objective_change == pytest.approx(0.0, abs=1e-6) for v in row(fixed(), title).values())
        assert all(v.kept_fraction == pytest.approx(1.0, abs=1e-6) for v in row(fixed(), title).values())


def test_slower_prefill_leaves_less_and_new_thresholds_never_leave_less_than_old_ones() -> None:
    for item in fixed().inputs:
        for v in item.variations:
            assert v.kept_fraction is not None
            assert v.retuned_fraction is not None
            assert 0 <= v.kept_fraction <= v.retuned_fraction <= 1
    slow = row(fixed(), "prefill seconds of fast")["+20 %"]
    assert slow.kept_fraction == pytest.approx(1 / 1.2, rel=1e-4)
    assert slow.objective_change is not None
    assert slow.retuned_fraction == pytest.approx(1 + slow.objective_change, rel=1e-4)
    assert not slow.changes_fleet


def test_a_price_changes_the_bill_by_its_share_where_the_sizes_stay() -> None:
    found = cheapest()
    assert found.n_instances["fast"]
    stayed = [v for v in row(found, "price of wan").values() if not v.changes_fleet]
    assert stayed
    for v in stayed:
        assert v.objective == pytest.approx(found.stated + (v.factor - 1) * 20.0, rel=1e-6)


def test_more_demand_and_dearer_inputs_never_cost_less() -> None:
    for title in ("demand", f"price of {HOME}", "prefill seconds of fast", "output lengths"):
        costs = [v.objective for v in row(cheapest(), title).values()]
        known = [c for c in costs if c is not None]
        assert known == sorted(known)
    assert all(v.kept_fraction == 1.0 for v in row(cheapest(), f"price of {HOME}").values())


def test_inputs_that_matter_most_come_first() -> None:
    swings = [item.swing for item in cheapest().inputs]
    assert swings == sorted(swings, reverse=True)


def test_the_band_of_the_predictor_is_varied_where_the_roofline_times_a_pool() -> None:
    asked, _ = inputs(read_scenario("prfaas-roofline"))
    error = next(item for item in asked if item.key == "model-error")
    low, high = error.changes
    assert low.factor < 1 < high.factor
    assert set(low.keys) == set(high.keys)
    assert all(key.endswith(".time_factor") for key in low.keys)


def test_measured_pools_have_no_error_of_the_predictor() -> None:
    asked, notes = inputs(small_with({}))
    assert not any(item.key == "model-error" for item in asked)
    assert any("no pool is timed by the roofline" in note for note in notes)
    assert any("no demand is stated" in note for note in notes)


def test_every_kind_of_lengths_gets_longer() -> None:
    mixed = {
        "kind": "mixture",
        "components": [
            {"weight": 1, "lengths": {"kind": "empirical", "tokens": [10.0, 20.0]}},
            {"weight": 1, "lengths": {"kind": "lognormal", "mu": 9.0, "sigma": 1.0}},
            {"weight": 1, "lengths": {"kind": "histogram", "edges": [10.0, 20.0, 40.0], "weights": [1, 1]}},
        ],
    }
    first, second, third = (part["lengths"] for part in longer(mixed, 1.2)["components"])
    assert first["tokens"] == pytest.approx([12.0, 24.0])
    assert second["mu"] == pytest.approx(9.0 + np.log(1.2))
    assert third["edges"] == pytest.approx([12.0, 24.0, 48.0])


def test_the_sizes_of_a_network_are_kept_and_held_against_its_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.studies.sensitivity.inputs", lambda scenario: (demand_of(scenario), []))
    periods = {"periods.day.demand": 1.0, "periods.night.demand": 0.4}
    two = {"workload.lengths": {"kind": "empirical", "tokens": [500.0, 8000.0]}}
    scenario = small_with({**two, "objective": "min-cost", "demand_req_per_s": 2.0, **periods})
    assert not planning_problem(scenario).is_plain
    demand = row(sensitivity(scenario), "demand")
    assert demand["-20 %"].kept_fraction == pytest.approx(1.0, abs=0.02)
    assert demand["+20 %"].kept_fraction is not None
    assert demand["+20 %"].kept_fraction >= 1 / 1.2 * 0.98


def demand_of(scenario: Scenario) -> list[Input]:
    """The demand alone of what is varied."""
    asked, _ = inputs(scenario)
    return [item for item in asked if item.title == "demand"]


def test_a_change_without_a_plan_swings_most() -> None:
    lost = Variation(
        label="+20 %",
        factor=1.2,
        n_instances=None,
        objective=None,
        objective_change=None,
        changes_fleet=True,
        kept_fraction=0.5,
        retuned_fraction=0.5,
    )
    assert InputSensitivity(key="x", title="x", variations=(lost,)).swing == float("inf")


@pytest.mark.parametrize(
    ("kept", "retuned", "expected"),
    [(8.0, 8.0, (1.0, 1.0)), (2.0, 3.0, (0.5, 0.75)), (2.0, 9.0, (0.5, 1.0)), (2.0, 1.0, (0.5, 0.5))],
)
def test_shares_that_are_kept_are_of_the_demand_and_never_more_than_all(
    kept: float, retuned: float, expected: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 4 req/s, asked for or planned."""
    monkeypatch.setattr(studied, "_kept_rate", lambda *_: kept)
    monkeypatch.setattr(studied, "_retuned_rate", lambda *_: retuned)
    routed, fleet = SimpleNamespace(threshold_tokens=1000.0), SimpleNamespace(throughput_req_per_s=4.0)
    stated: Any = SimpleNamespace(solution=SimpleNamespace(routed=routed), fleet=fleet)
    for demand in (None, 4.0):
        assert studied._kept_fractions(small_with({"demand_req_per_s": demand}), stated, (), 1.0) == expected
    assert studied._kept_fractions(small_with({"demand_req_per_s": 16.0}), stated, (), 1.0)[0] == min(kept / 16, 1.0)
