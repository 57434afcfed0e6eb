"""One site: the verdict says what it costs, what binds and what at hand is cheaper; no opponent is the plan itself."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from planner.optimizer import optimize, outcome
from planner.optimizer.at_hand import is_same_fleet
from planner.results import Plan
from planner.scenario import Scenario, load_scenario, read_scenario
from tests.builders import small_with

ONE = """
schema = "planner.scenario/1"
name = "one"
objective = "min-cost"
demand_req_per_s = 4

[model]
profile = "qwen3-32b"

[workload]
lengths = { kind = "lognormal", mu = 8.0, sigma = 1.0, low_tokens = 128, high_tokens = 16384 }
output_lengths = { kind = "constant", tokens = 200 }

[sites.here]

[pools.prefill]
site = "here"
hardware = "h200-sxm"
role = "prefill"

[pools.decode]
site = "here"
hardware = "h200-sxm"
role = "decode"

[prices]
h200-sxm = { usd_per_accelerator_hour = 3.0, basis = "assumed", source = "a test" }
h20-141gb = { usd_per_accelerator_hour = 1.4, basis = "assumed", source = "a test" }
"""


def one(changes: dict[str, Any] | None = None) -> Scenario:
    return load_scenario(ONE, "one.toml", Path()).varied(changes or {})


def cheapest(plan: Plan) -> float:
    return min(other.cost.usd_per_hour or 0.0 for other in plan.baselines)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"slo.ttft_s": 2.0},
        {"pools.decode.hardware": "h20-141gb"},
        {"objective": "max-throughput", "budget_usd_per_hour": 150.0},
        {"periods": {"day": {"demand": 2.0}, "night": {}}},
    ],
)
def test_a_verdict_on_one_site_says_its_cost_what_binds_and_no_word_of_another_site(changes: dict[str, Any]) -> None:
    plan = optimize(one(changes))
    said = plan.verdict.because
    assert not plan.verdict.worth_it
    assert "second site" not in said
    assert "another site" not in said
    assert plan.cost.usd_per_hour is not None
    assert f"cost {plan.cost.usd_per_hour:.4g} USD/h" in said
    assert "What binds is " in said or "No load binds" in said
    assert "heaper" in said


def test_what_is_said_to_be_cheaper_is_what_that_question_is_answered_with() -> None:
    plan = optimize(one())
    assert "Cheaper would be: " in plan.verdict.because
    for other in plan.baselines:
        changes: dict[str, Any] = {}
        for pool in other.pools:
            key = f"pools.{pool.name}"
            changes |= {f"{key}.hardware": pool.hardware, f"{key}.layout": pool.layout}
            changes |= {f"{key}.accelerators_per_instance": pool.accelerators_per_instance}
        asked = outcome(one(changes | {"model.stack": plan.pools[0].stack})).fleet
        assert is_same_fleet(asked, other), other.name
        assert asked.cost == other.cost
        assert asked.max_throughput_req_per_s >= 4
    assert f"{cheapest(plan):.4g} USD/h" in plan.verdict.because


def test_nothing_is_said_to_be_cheaper_where_nothing_is() -> None:
    stated = {"pools.prefill.accelerators_per_instance": 1, "pools.decode.accelerators_per_instance": 1}
    dear = {"prices.h20-141gb.usd_per_accelerator_hour": 3.5}
    plan = optimize(one(stated | dear))
    assert plan.cost.usd_per_hour is not None
    assert all((other.cost.usd_per_hour or 0) >= plan.cost.usd_per_hour for other in plan.baselines)
    assert "Cheaper would be" not in plan.verdict.because


def test_a_kind_without_a_price_is_not_at_hand() -> None:
    changes = {"prices": {"h200-sxm": {"usd_per_accelerator_hour": 3.0, "basis": "assumed", "source": "a test"}}}
    plan = optimize(one(changes))
    assert {pool.hardware for other in plan.baselines for pool in other.pools} == {"h200-sxm"}


def test_a_site_whose_pools_are_all_measured_and_stated_so_has_nothing_to_compare_with() -> None:
    plan = optimize(
        read_scenario("not-worth-it", ["pools.pd-p.service_times=measured", "pools.pd-d.service_times=measured"])
    )
    assert plan.baselines == ()
    assert "could be planned to compare with" in plan.verdict.because


@pytest.mark.parametrize(("demand", "far"), [*product((0.2, 1.0, 3.0), (0.5, 4.0, 40.0))])
def test_no_fleet_is_compared_with_itself(demand: float, far: float) -> None:
    keys = {"objective": "min-cost", "demand_req_per_s": demand}
    for changes in ({}, {"periods": {"day": {}, "night": {"demand": 0.5}}}):
        plan = optimize(small_with({**keys, **changes, "prices.h100-sxm.usd_per_accelerator_hour": far}))
        assert not any(is_same_fleet(plan, other) for other in plan.baselines)
        sends = any(link.mean_gbps > 0 for link in plan.links)
        left_out = next((note for note in plan.notes if "that is the plan itself" in note), "")
        assert sends or left_out
        for other in plan.baselines:
            assert f"{other.name}," not in left_out
