"""One period of a plan for many, run by itself and held against what was promised of it."""

from functools import cache
from typing import Any

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.errors import InputError, UsageError
from planner.executor import RunQuestion, simulate
from planner.optimizer import optimize
from planner.results import Plan
from planner.scenario import Scenario, read_scenario
from planner.studies.periods import one_period
from planner.studies.validation import validate
from tests.builders import FAST, GPUS, HOME, small_with

DAY: dict[str, Any] = {
    "objective": "min-cost",
    "demand_req_per_s": 10.0,
    "sites.remote.accelerators": {FAST: 40 * GPUS},
    "sites.local.accelerators": {HOME: 60 * GPUS},
    "links.wan.capacity_gbps": 400,
    "slo": {"ttft_s": 4.0},
    "periods": {"day": {"hours": 16.0}, "night": {"hours": 8.0, "demand": 0.25}},
}
OUTPUT = {"kind": "constant", "tokens": 500}


@cache
def planned() -> tuple[Scenario, Plan]:
    scenario = small_with(DAY)
    return scenario, optimize(scenario)


@pytest.mark.parametrize("name", ["day", "night"])
def test_a_period_runs_as_it_was_promised(name: str) -> None:
    scenario, plan = planned()
    period = next(p for p in plan.periods if p.name == name)
    asked, alone = one_period(scenario, plan, name)
    run, _ = simulate(asked, alone, RunQuestion(60_000, 1, 1.0))
    assert run.throughput_req_per_s == pytest.approx(period.demand_req_per_s, rel=0.02)
    assert period.latency.ttft_mean_s is not None
    assert period.latency.ttft_p90_s is not None
    assert run.ttft_mean_s == pytest.approx(period.latency.ttft_mean_s, rel=0.05)
    assert run.ttft_p90_s == pytest.approx(period.latency.ttft_p90_s, rel=0.10)
    assert run.ttft_p90_s <= 4.0
    for pool in period.pools:
        if pool.n_instances and pool.utilization > 0:
            assert run.utilization[pool.name] == pytest.approx(pool.utilization, rel=0.03)
    for link in period.links:
        assert run.links[link.name].mean_gbps == pytest.approx(link.mean_gbps, rel=0.03)


def test_decode_steps_are_those_of_each_periods_batch() -> None:
    roofline = {"pools.decode.service_times": "roofline", "pools.decode.tpot_ms": 30.0}
    scenario = small_with({**DAY, **roofline, f"sites.local.accelerators.{HOME}": 400})
    plan = optimize(scenario)
    steps = []
    for period in plan.periods:
        run, _ = simulate(*one_period(scenario, plan, period.name), RunQuestion(30_000, 1, 1.0))
        assert run.tpot_mean_s == pytest.approx(period.latency.tpot_mean_s, rel=0.02)
        steps.append(run.tpot_mean_s or 0.0)
    assert steps[0] > 1.5 * steps[1]


def test_a_validation_of_a_period_names_it_and_leaves_out_what_all_periods_share() -> None:
    found = validate(small_with(DAY), RunQuestion(40_000, 2), period="day")
    assert found.period == "day"
    assert not found.failed
    assert all(check.metric.startswith("ttft_") for check in found.undecided)
    metrics = {c.metric for c in found.checks}
    assert {"throughput_req_per_s", "ttft_p90_s", "offload_fraction"} <= metrics
    assert "max_throughput_req_per_s" not in metrics


@cache
def coasts() -> tuple[Scenario, Plan]:
    """East-west at two of its hours, with sizes given, so that the plan is found at once."""
    keep = ("h15", "h05")
    whole = read_scenario("east-west")
    sizes = {
        "wyoming-prefill": 96,
        "virginia-prefill": 10,
        "virginia-decode": 49,
        "california-prefill": 8,
        "california-decode": 40,
    }
    changes: dict[str, Any] = {f"pools.{name}.n_instances": n for name, n in sizes.items()}
    changes |= {"periods": {name: whole.value_at(f"periods.{name}") for name in keep}}
    changes |= {"comparisons": {}, "claims": [], "break_even": []}
    scenario = whole.varied(changes)
    return scenario, optimize(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["h15", "h05"])
def test_two_coasts_serve_each_its_own_requests_as_promised(name: str) -> None:
    scenario, plan = coasts()
    period = next(p for p in plan.periods if p.name == name)
    asked, alone = one_period(scenario, plan, name)
    run, kept = simulate(asked, alone, RunQuestion(300_000, 1, 1.0), keep=True)
    assert period.latency.ttft_p90_s is not None
    assert run.ttft_p90_s == pytest.approx(period.latency.ttft_p90_s, rel=0.10)
    for pool in period.pools:
        assert run.utilization[pool.name] == pytest.approx(pool.utilization, rel=0.03)
    assert kept is not None
    classes, pools = kept.words["request_class"], kept.words["decode_pool"]
    ways = {
        (classes[c], pools[p]) for c, p in zip(kept.columns["request_class"], kept.columns["decode_pool"], strict=True)
    }
    assert ways == {("east-virginia", "virginia-decode"), ("west-california", "california-decode")}


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (("simulate", "prfaas-paper", "--period", "noon"), InputError, "has no 'noon' in the plan"),
        (("validate", "east-west", "--period", "h15", "--load", "0.5"), UsageError, "--load: a period"),
    ],
)
def test_what_is_no_period_is_said_in_one_message(arguments: tuple[str, ...], error: Any, said: str) -> None:
    found = CliRunner().invoke(app, arguments)
    assert isinstance(found.exception, error), found.exception
    assert said in str(found.exception)
    assert len(str(found.exception).splitlines()) == 1


def test_a_period_that_is_mistyped_gets_a_hint_and_one_without_demand_is_refused() -> None:
    scenario, plan = planned()
    with pytest.raises(InputError, match="did you mean 'night'"):
        one_period(scenario, plan, "nigt")
    idle = plan.periods[1].model_copy(update={"demand_req_per_s": 0.0})
    with pytest.raises(InputError, match="has no demand to run"):
        one_period(scenario, plan.model_copy(update={"periods": (plan.periods[0], idle)}), "night")
