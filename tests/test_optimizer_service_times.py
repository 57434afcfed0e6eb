"""Pools that nobody measured are planned from the roofline, within their memory and their step limit."""

from pathlib import Path

import numpy as np
import pytest

from planner.errors import InfeasibleError, InputError
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.resolution import whole_work_s
from planner.profiles import hardware_profile, model_profile
from planner.roofline import Chip, InstanceModel, Layout, stack
from planner.roofline.engine_memory import memory_settings
from planner.scenario import Scenario, load_scenario, read_scenario
from tests.builders import sketch

INFERRED = "model.profile=prfaas-1t-inferred"
STEP = "pools.pd-d.tpot_ms=25"


def scenario(*overrides: str) -> Scenario:
    return read_scenario("prfaas-paper", [INFERRED, STEP, *overrides])


def served(hardware: str, name: str) -> InstanceModel:
    used = stack(name)
    settings = used.settings
    return InstanceModel(
        model_profile("prfaas-1t-inferred"),
        Chip(hardware_profile(hardware)),
        Layout(tp_size=8),
        used.factors,
        "fp8",
        "bf16",
        settings.chunk_tokens,
        memory_settings(settings),
    )


def test_a_pool_without_measurements_takes_its_prefill_seconds_from_the_roofline() -> None:
    pool = next(p for p in planning_problem(scenario()).pools if p.name == "prfaas")
    assert pool.rates.prefill is not None
    assert pool.rates.stack is not None
    tokens = np.array([3.0, 11.0, 24.0, 48.0, 2000.0, 20000.0, 100000.0])
    expected = served("h200-sxm", pool.rates.stack).prefill_time(tokens).total_s
    # The curve is sampled four times per doubling; chunks make small stairs between the samples.
    assert pool.rates.prefill.curve(tokens) == pytest.approx(expected, rel=0.03)


def test_the_decode_batch_is_the_largest_within_the_step_limit_and_the_memory() -> None:
    problem = planning_problem(scenario())
    pool = next(p for p in problem.pools if p.name == "pd-d")
    decode = pool.rates.decode
    assert decode is not None
    assert pool.rates.stack is not None
    mix = problem.classes[0].mix
    context = mix.mean_total_tokens + mix.mean_output_tokens / 2
    instance = served("h20-141gb", pool.rates.stack)
    batches = np.arange(1.0, 200.0)
    within_step = int((instance.decode_time(batches, context).total_s <= 0.025).sum())
    assert decode.step_s <= 0.025
    assert decode.batch == min(within_step, int(instance.largest_batch(context)))


@pytest.mark.parametrize("limits", [(20, 25), (25, 40)])
def test_a_longer_step_limit_never_lowers_the_decode_rate(limits: tuple[int, int]) -> None:
    rates = []
    for limit in limits:
        pools = planning_problem(scenario(f"pools.pd-d.tpot_ms={limit}")).pools
        decode = next(p for p in pools if p.name == "pd-d").rates.decode
        assert decode is not None
        rates.append(decode.batch / decode.step_s)
    assert rates[0] <= rates[1] * (1 + 1e-9)


def test_figures_that_somebody_published_win_unless_the_roofline_is_asked_for() -> None:
    base = ["model.profile=qwen3.5-397b", "model.precision=bf16", "pools.pd-d.hardware=h200-sxm"]
    base += ["pools.pd-p.hardware=h200-sxm", "sites.local.accelerators.h200-sxm=64"]
    measured = planning_problem(read_scenario("prfaas-paper", base))
    roofline = planning_problem(read_scenario("prfaas-paper", [*base, "pools.prfaas.service_times=roofline"]))
    assert [p.rates.basis for p in measured.pools] == ["measured", "measured", "calibrated"]
    assert [p.rates.basis for p in roofline.pools] == ["calibrated", "measured", "calibrated"]


def test_a_model_that_does_not_fit_is_refused_with_the_bytes_it_lacks() -> None:
    with pytest.raises(InfeasibleError, match=r"pools\.pd-p: prfaas-1t-inferred does not fit 8 x h20-96gb: each lacks"):
        planning_problem(scenario("pools.pd-p.hardware=h20-96gb", "sites.local.accelerators.h20-96gb=64"))


def test_a_step_limit_that_no_sequence_keeps_is_refused_with_what_one_needs() -> None:
    with pytest.raises(InfeasibleError, match=r"pools\.pd-d: not one sequence .* 1 ms; alone it needs"):
        planning_problem(scenario("pools.pd-d.tpot_ms=1"))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("pools.prfaas.stack=vlm", "no known framework"),
        ("pools.prfaas.layout='tp=4'", "4 accelerators"),
        ("pools.prfaas.layout='tp=8,xp=1'", "no kind of parallelism"),
        ("model.n_experts_per_token=500", "n_experts_per_token"),
        ("pools.prfaas.tpot_ms=25", "tpot_ms belongs to decode and colocated pools only"),
    ],
)
def test_what_the_roofline_cannot_use_is_refused_by_key(override: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        planning_problem(scenario(override))


def test_more_active_parameters_prefill_and_decode_more_slowly() -> None:
    few, many = (planning_problem(scenario(f"model.n_experts_per_token={n}")).pools for n in (4, 14))
    for a, b in zip(few, many, strict=True):
        if a.rates.prefill and b.rates.prefill:
            assert float(a.rates.prefill.curve(20000.0)) < float(b.rates.prefill.curve(20000.0))
        if a.rates.decode and b.rates.decode:
            assert a.rates.decode.batch / a.rates.decode.step_s >= b.rates.decode.batch / b.rates.decode.step_s


def test_the_plan_says_that_its_service_times_are_not_measured() -> None:
    plan = sketch(scenario())
    assert any("prfaas (h200-sxm) are inferred, not measured" in note for note in plan.notes)
    assert {pool.basis for pool in plan.pools} == {"inferred"}


DEALT = (
    "pools.prfaas.stack=datasheet",
    "pools.prfaas.accelerators_per_instance=16",
    "pools.prfaas.layout='tp=8,dp=2,ep=16'",
)


def test_a_pool_of_attention_replicas_prefills_a_prompt_on_each_at_once() -> None:
    problem = planning_problem(scenario(*DEALT))
    pool = next(p for p in problem.pools if p.name == "prfaas")
    service, mix = pool.rates.prefill, problem.classes[0].mix
    assert service is not None
    assert service.places == 2
    total, cached, weights = mix.atoms(4096)
    assert whole_work_s(pool, mix) == pytest.approx(float(service.seconds(total, cached) @ weights) / 2, rel=1e-3)


def test_the_capacity_of_a_plan_counts_every_replica() -> None:
    asked = scenario(*DEALT, "routing.threshold_tokens=20000")
    plan, problem = sketch(asked), planning_problem(asked)
    (planned,) = [p for p in plan.pools if p.name == "prfaas"]
    service, mix = next(p.rates.prefill for p in problem.pools if p.name == "prfaas"), problem.classes[0].mix
    assert service is not None
    long_s = float(mix.long_work(service, 20000.0) / mix.long_fraction(20000.0))
    seconds = {"expected-work": long_s, "mean-length": float(service.curve(mix.mean_long_length(20000.0)))}
    expected = planned.n_instances * 2 / seconds[plan.capacity_rule]
    assert planned.capacity_req_per_s == pytest.approx(expected, rel=1e-3)


GB200 = """
schema = "planner.scenario/1"
name = "gb200"
demand_req_per_s = 5
objective = "min-cost"
model = { profile = "deepseek-v3", precision = "fp8", stack = "STACK" }
sites.home = {}
[workload]
lengths = { kind = "constant", tokens = 4000 }
output_lengths = { kind = "constant", tokens = 200 }
[stacks.mine]
like = "sglang"
memory_fraction = 0.98
source = "the launch command"
[pools.p]
site = "home"
hardware = "gb200"
role = "prefill"
layout = "tp=1,dp=4,ep=4"
accelerators_per_instance = 4
n_instances = "free"
[pools.d]
site = "home"
hardware = "gb200"
role = "decode"
n_instances = "free"
[prices.gb200]
usd_per_accelerator_hour = 3.0
"""


def test_weights_that_fit_the_device_and_not_the_stacks_part_of_it_are_told_which_part_would_do() -> None:
    """183 GB of fp8 weights on each of four GB200 that report 199 GB: prefill is served so."""
    with pytest.raises(InfeasibleError, match=r"lacks 9\.9\d? GB.* or 0\.98 as stacks\.mine\.memory_fraction"):
        planning_problem(load_scenario(GB200.replace("STACK", "sglang"), "gb200.toml", Path()))
    problem = planning_problem(load_scenario(GB200.replace("STACK", "mine"), "gb200.toml", Path()))
    assert [pool.n_accelerators for pool in problem.pools] == [4, 8]
