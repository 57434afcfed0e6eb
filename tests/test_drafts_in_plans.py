"""Drafted tokens of a scenario's model: in plans, in the executor's draws, and where nobody can tell."""

from pathlib import Path

import numpy as np
import pytest

from planner.errors import InputError
from planner.executor.run import drawn_steps, simulate, yield_chances
from planner.executor.run_question import RunQuestion
from planner.executor.service import DecodeTimes, decode_times, source
from planner.notes import code_of
from planner.optimizer.delays import spread
from planner.optimizer.layout_choice import planning_problem
from planner.roofline import DecodeLimit, tokens_per_step, tokens_per_step_variance
from planner.scenario import Scenario, read_scenario
from tests.builders import sketch

TEXT = """
schema = "planner.scenario/1"
name = "drafts"
[model]
profile = "deepseek-v3"
draft_tokens = 2
acceptance = [0.85, 0.7]
[workload]
prefix_hits = "none"
lengths = { kind = "constant", tokens = 4096 }
output_lengths = { kind = "constant", tokens = 512 }
[sites.one]
[pools.p]
site = "one"
hardware = "h200-sxm"
role = "prefill"
n_instances = 4
[pools.d]
site = "one"
hardware = "h200-sxm"
role = "decode"
n_instances = 2
[prices.h200-sxm]
usd_per_accelerator_hour = 2.5
"""
CONTEXT = 4096 + 256.0


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.toml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def decode_point(scenario: Scenario) -> DecodeLimit:
    found = next(pool.rates.decode for pool in planning_problem(scenario).pools if pool.name == "d")
    assert found is not None
    return found


def test_a_plan_decodes_at_the_seconds_of_a_token(asked: Path) -> None:
    with_drafts, plain = (read_scenario(asked, changes) for changes in ([], ["model.draft_tokens=0"]))
    served = source(with_drafts, "d").served
    assert served is not None
    point = decode_point(with_drafts)
    sizes = np.arange(1.0, point.batch + 1)
    assert point.steps_s == pytest.approx(served.token_time(sizes, np.full(sizes.shape, CONTEXT)).total_s)
    assert point.token_variance == tokens_per_step_variance((0.85, 0.7)) / tokens_per_step((0.85, 0.7))
    assert decode_point(plain).token_variance == 0
    assert point.seconds_per_token < decode_point(plain).seconds_per_token


def test_optimizer_and_executor_agree_on_what_a_full_instance_decodes(asked: Path) -> None:
    scenario = read_scenario(asked)
    times = decode_times(source(scenario, "d"), CONTEXT)
    full = times.full_tokens_per_s(np.full(2000, 4096), np.full(2000, 512))
    assert full == pytest.approx(1 / decode_point(scenario).seconds_per_token, rel=0.01)


@pytest.mark.parametrize("n", [60, 200, 5000])
def test_the_rate_of_a_full_instance_does_not_depend_on_how_many_requests_it_is_told_from(n: int) -> None:
    """Batches at the end, which lack requests to fill the memory, are not counted."""
    steps = np.column_stack([0.01 + 0.001 * np.arange(101), np.zeros(101)])
    times = DecodeTimes(100, steps, memory_bytes=50 * 1500.0, state_bytes=0.0, bytes_per_token=1.0)
    assert times.full_tokens_per_s(np.full(n, 1000), np.full(n, 500)) == pytest.approx(50 / 0.06)


def test_what_drafts_is_on_the_wire_and_in_the_caches(asked: Path) -> None:
    rates = {pool.name: pool.rates for pool in planning_problem(read_scenario(asked)).pools}
    plain = {pool.name: pool.rates for pool in planning_problem(read_scenario(asked, ["model.draft_tokens=0"])).pools}
    assert float(rates["p"].kv_bytes(8192) / plain["p"].kv_bytes(8192)) == pytest.approx(62 / 61)
    assert rates["p"].longest_tokens < plain["p"].longest_tokens


# Chance


@pytest.mark.parametrize("acceptance", [(0.7,), (0.85, 0.7), (0.9, 0.2, 0.9, 0.5)])
@pytest.mark.parametrize("tokens", [1, 7, 511])
def test_drawn_steps_are_those_of_drafts_drawn_one_step_after_another(
    acceptance: tuple[float, ...], tokens: int
) -> None:
    n, rng = 4000, np.random.default_rng(3)
    accepted = np.cumprod(rng.random((n, tokens, len(acceptance))) < acceptance, axis=2).sum(axis=2)
    one_by_one = (np.cumsum(1 + accepted, axis=1) < tokens).sum(axis=1) + 1
    drawn = drawn_steps(np.full(n, tokens), yield_chances(acceptance), rng)
    error = 5 * (one_by_one.std() + 0.01) * (2 / n) ** 0.5
    assert drawn.mean() == pytest.approx(one_by_one.mean(), abs=error)
    assert drawn.std() == pytest.approx(one_by_one.std(), rel=0.1, abs=0.05)


def test_drawn_steps_have_the_mean_and_variance_that_plans_count_with() -> None:
    acceptance, tokens = (0.85, 0.7), 4000
    steps = drawn_steps(np.full(20_000, tokens), yield_chances(acceptance), np.random.default_rng(5))
    mean, variance = tokens_per_step(acceptance), tokens_per_step_variance(acceptance)
    assert steps.mean() == pytest.approx(tokens / mean, rel=0.002)
    assert (mean * steps).var() == pytest.approx(tokens * variance / mean, rel=0.05)


def test_no_answer_takes_fewer_steps_than_all_drafts_accepted_or_more_than_none() -> None:
    tokens = np.array([0, 1, 5, 100])
    for acceptance, expected in (((1.0, 1.0), [0, 1, 2, 34]), ((0.0, 0.9), [0, 1, 5, 100])):
        assert drawn_steps(tokens, yield_chances(acceptance), np.random.default_rng(0)).tolist() == expected


def test_spread_lengths_keep_their_mean_and_have_the_variance_of_steps() -> None:
    lengths, weights = np.array([100.0, 900.0]), np.array([0.75, 0.25])
    found, shares = spread(lengths, weights, 0.4)
    mean = float(lengths @ weights)
    assert float(found @ shares) == pytest.approx(mean)
    assert float(found**2 @ shares) == pytest.approx(float(lengths**2 @ weights) + 0.4 * mean)


def test_a_run_makes_tokens_at_the_pace_that_the_plan_has(asked: Path) -> None:
    """A step more or less of luck per answer is within the tolerance; without drafts it would take twice as long."""
    scenario = read_scenario(asked, ["demand_req_per_s=10.0"])
    plan = sketch(scenario)
    run, _ = simulate(scenario, plan, RunQuestion(3000, 1, 1.0))
    assert plan.latency.tpot_mean_s is not None
    assert run.tpot_mean_s == pytest.approx(plan.latency.tpot_mean_s, rel=0.03)
    assert any(code_of(text) == "tokens-drafted" for text in plan.notes)


# What cannot be


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["model.acceptance=1.5"], "model.acceptance"),
        (["model.draft_tokens=5"], "holds 2 values for 5 draft tokens"),
        (["model.draft_tokens=64"], "0 to 63"),
        (["model.profile=kimi-k2"], "kimi-k2 has no MTP layers"),
        (["model.draft_model=lama"], "model.draft_model=lama: 'lama' is no model profile"),
    ],
)
def test_drafts_that_a_scenario_cannot_have_are_refused_at_their_key(
    asked: Path, changes: list[str], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        read_scenario(asked, changes)


def test_acceptance_is_required_of_drafts(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(TEXT.replace("acceptance = [0.85, 0.7]\n", ""), encoding="utf-8")
    with pytest.raises(InputError, match=r"scenario.toml:\d+: model.acceptance: is required with draft_tokens = 2"):
        read_scenario(path)


@pytest.mark.parametrize("room", ["plan", "run"])
def test_measured_decode_steps_are_not_sped_up_by_drafts_that_nobody_tells_of(room: str) -> None:
    changes = ["model.draft_tokens=1", "model.acceptance=0.8", "model.draft_model=llama-3.1-8b"]
    scenario = read_scenario("prfaas-paper", changes)
    with pytest.raises(InputError, match="pd-d decodes as measured"):
        planning_problem(scenario) if room == "plan" else source(scenario, "pd-d")
