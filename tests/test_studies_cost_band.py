"""The bill as a band over the predictor's error, and prices that are only supposed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.comparison import best_fleet, optimize
from planner.errors import InputError
from planner.report.phrases import cost
from planner.report.tables import plan_tables
from planner.results.plan import Plan
from planner.results.plan_file import plan_from
from planner.scenario import Scenario, load_scenario, read_scenario
from planner.studies.cost_band import cost_band
from planner.studies.plan_sweep import plan_sweep, planned_points, sweep_question
from planner.studies.sensitivity import model_error
from tests.builders import FAST, SMALL, small, small_with
from tests.test_comparison_one_site import ONE, one

PREDICTED: dict[str, Any] = {"objective": "min-cost", "demand_req_per_s": 2.0}
TWO_SITES = PREDICTED | {f"pools.{name}.service_times": "roofline" for name in ("fast", "near", "decode")}


@pytest.mark.parametrize(
    ("question", "changes"),
    [
        (one, {}),
        (one, {"slo.ttft_s": 2.0}),
        (one, {"periods": {"day": {}, "night": {"demand": 0.5}}}),
        (one, {"objective": "max-throughput", "budget_usd_per_hour": 150.0}),
        (small_with, TWO_SITES),
        (small_with, PREDICTED | {"pools.fast.service_times": "roofline"}),
    ],
    ids=["one site", "a promise", "a network", "a budget", "two sites", "one pool of three"],
)
def test_the_band_is_what_the_plans_for_both_ends_of_the_error_cost_and_holds_the_bill(
    question: Callable[[dict[str, Any]], Scenario], changes: dict[str, Any]
) -> None:
    scenario = question(changes)
    band, stated = cost_band(scenario), best_fleet(scenario).fleet.cost
    assert band is not None
    (varied,) = model_error(scenario, [])
    ends = [best_fleet(scenario.varied(change.keys)).fleet.cost for change in varied.changes]
    assert [end.usd_per_hour for end in ends] == [band.low_usd_per_hour, band.high_usd_per_hour]
    assert {f"pools.{name}.time_factor" for name in band.pools} == set(varied.changes[0].keys)
    for name in ("usd_per_hour", "usd_per_million_input_tokens"):
        low, high = getattr(band, f"low_{name}"), getattr(band, f"high_{name}")
        assert low <= getattr(stated, name) * (1 + 1e-9)
        is_given = scenario.objective == "max-throughput" and name == "usd_per_hour"
        if not is_given:
            assert getattr(stated, name) <= high * (1 + 1e-9)


def test_an_end_without_a_plan_is_unknown_and_said_so() -> None:
    fleet = best_fleet(one()).fleet
    stock = {"sites.here.accelerators": {"h200-sxm": fleet.n_accelerators}}
    scenario = one(stock | {"demand_req_per_s": 0.99 * fleet.max_throughput_req_per_s})
    band = cost_band(scenario)
    assert band is not None
    assert band.low_usd_per_hour is not None
    assert band.high_usd_per_hour is None
    plan = optimize(scenario).model_copy(update={"cost_band": band})
    said = cost(plan)
    assert f". {band.low_usd_per_hour:.2f} USD/h at the fast end of the 90 % band" in said
    assert said.endswith(f"At its slow end no fleet within the limits serves {scenario.demand_req_per_s:.4g} req/s")


@pytest.mark.parametrize(
    ("slo", "promise"), [({"slo.ttft_s": 0.22}, "s to the first token"), ({"slo.tpot_ms": 8.0}, "on TPOT")]
)
def test_an_end_without_a_plan_says_which_promise_no_fleet_keeps(slo: dict[str, float], promise: str) -> None:
    (key, tight), *_ = slo.items()
    while (band := cost_band(one({key: tight}))) is not None and band.high_usd_per_hour is not None:
        tight *= 0.93  # down to where only the slow end breaks it
    assert band is not None
    said = cost(optimize(one({key: tight})).model_copy(update={"cost_band": band}))
    assert "no plan USD/h" not in said
    assert promise in said.partition("At its slow end no fleet ")[2]


UNPRICED = {"prices": {}, "objective": "max-throughput", "sites.here.accelerators": {"h200-sxm": 32}}


@pytest.mark.parametrize(
    "scenario",
    [small_with(PREDICTED), one({"model.stack": "datasheet"}), one(UNPRICED)],
    ids=["measured", "no error known", "no price"],
)
def test_there_is_no_band_where_no_error_or_no_price_is_known(scenario: Scenario) -> None:
    assert cost_band(scenario) is None
    assert "band" not in cost(optimize(scenario))


def test_points_of_a_sweep_have_no_band(tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.write_text(ONE, encoding="utf-8")
    asked = sweep_question(str(path), {"demand_req_per_s": ["2", "4"]}, ())
    found = plan_sweep(asked, dict(planned_points(asked)))
    assert all(point.plan is not None and point.plan.cost_band is None for point in found.points)


def test_a_price_without_a_source_is_assumed_and_the_plan_says_so() -> None:
    changes = [f"prices.{FAST}.usd_per_accelerator_hour=5.5"]
    quoted = f'{FAST} = {{ usd_per_accelerator_hour = 4.0, basis = "assumed", source = "a test" }}'
    written = SMALL.replace(quoted, f"{FAST} = {{ usd_per_accelerator_hour = 5.5 }}")
    for text, overrides in ((SMALL, changes), (SMALL.replace(quoted, ""), changes), (written, [])):
        scenario = load_scenario(text, "small.toml", Path(), overrides)
        price = scenario.prices[FAST]
        assert (price.hourly_usd, price.basis, price.source) == (5.5, "assumed", "")
    for question in (scenario, scenario.varied({"periods": {"day": {}}})):
        found = optimize(question).notes
        assert any(note.startswith(f"assumed without a source: the price of {FAST} ") for note in found)
    assert not any("without a source" in note for note in optimize(small()).notes)


def test_a_price_that_is_set_with_its_source_keeps_it_and_another_quoted_one_needs_one() -> None:
    own = [
        f"prices.{FAST}.usd_per_accelerator_hour=5.5",
        f"prices.{FAST}.source=an offer",
        f"prices.{FAST}.basis=quoted",
    ]
    price = load_scenario(SMALL, "small.toml", Path(), own).prices[FAST]
    assert (price.basis, price.source) == ("quoted", "an offer")
    with pytest.raises(InputError, match=rf"prices\.{FAST}\.source: is required of a quoted price"):
        small_with({f"prices.{FAST}": {"usd_per_accelerator_hour": 5.5, "basis": "quoted"}})


def printed(plan: Plan) -> str:
    return json.dumps(plan.answer())


def test_a_plan_file_from_before_still_loads_with_what_it_does_not_say_unknown() -> None:
    plan = optimize(read_scenario("prfaas-paper"))
    answer = json.loads(printed(plan))
    new = ("accelerators_per_instance", "layout", "stack", "precision", "kv_precision", "batch_limit")
    for fleet in (answer, *answer["baselines"]):
        for pool in fleet["pools"]:
            for key in new:
                del pool[key]
    del answer["cost_band"]
    old = plan_from(json.dumps(answer), "old.json")
    assert all(getattr(pool, key) is None for pool in old.pools for key in new)
    assert plan_from(printed(plan), "new.json").pools == plan.pools
    assert len(plan_tables(old)) == len(plan_tables(plan))


def test_a_band_has_the_layouts_that_the_plan_chose() -> None:
    scenario = one({f"pools.{name}.layouts": ["tp=4", "tp=8"] for name in ("prefill", "decode")})
    plan = optimize(scenario)
    chosen = {pool.name: pool.layout for pool in plan.pools}
    pinned = scenario.on_layouts({name: layout for name, layout in chosen.items() if layout is not None})
    assert cost_band(scenario, plan=plan) == cost_band(pinned)


def test_there_is_no_band_around_a_plan_that_was_not_found_nearly_enough() -> None:
    assert cost_band(one(), plan=optimize(one()).model_copy(update={"gap": 0.13})) is None
