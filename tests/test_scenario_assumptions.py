"""What a scenario assumes: figures that profiles lack, stacks of its own, and spans to look for break-evens in."""

from typing import Any

import pytest

from planner.errors import InputError
from planner.optimizer.service_times import pool_stack
from planner.profiles import hardware_profile
from planner.roofline import Chip
from planner.scenario import Scenario, accelerator_usd_per_hour
from tests.builders import problem_of, small_with

TDP = {"tdp_w": {"value": 300.0, "source": "a guess"}}
SPAN = {"key": "demand_req_per_s", "title": "demand", "low": 1.0, "high": 9.0}


def with_lpu(**assumed: Any) -> Scenario:
    return small_with({"assumed.groq-lp30": assumed})


def test_an_assumed_figure_completes_the_profile_and_says_so() -> None:
    found = with_lpu(**TDP).hardware_named("groq_lp30")
    assert found.tdp_w == 300
    assert found.figures.tdp_w is not None
    assert (found.figures.tdp_w.basis, found.figures.tdp_w.note) == ("assumed", "a guess")
    assert hardware_profile("groq-lp30").tdp_w is None
    assert small_with({}).hardware_named("groq-lp30") == hardware_profile("groq-lp30")


def test_assumed_power_is_in_the_bill() -> None:
    changes = {
        "assumed.groq-lp30": TDP,
        "sites.local.usd_per_kwh": 0.1,
        "prices.groq-lp30": {"usd_per_accelerator_hour": 1.0, "basis": "assumed", "source": "a test"},
    }
    scenario = small_with(changes)
    assert accelerator_usd_per_hour(scenario, "local", scenario.hardware_named("groq-lp30")) == pytest.approx(1.03)


def test_an_assumed_fraction_is_used_and_counts_as_no_measurement() -> None:
    fraction = {"gemm_bf16_m4096_fraction": {"value": 0.4, "source": "a guess"}}
    chip = Chip(small_with({"assumed.rubin-vr200": fraction}).hardware_named("rubin-vr200"))
    assert chip.gemm_rate("bf16", [8192]).fraction.tolist() == [0.4]
    assert not chip.is_measured
    assert not Chip(hardware_profile("ascend-910c")).is_measured  # a planner's default that somebody quotes
    assert Chip(hardware_profile("h20-96gb")).is_measured


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"assumed.groq-lp30": {"memory_gb": {"value": 1.0, "source": "x"}}},
            r"assumed\.groq-lp30\.memory_gb: is known: the profile of groq-lp30 says 0\.5 \(announced\) \(only what",
        ),
        (
            {"assumed.groq-lp30": {"tdp_watt": {"value": 1.0, "source": "x"}}},
            r"assumed\.groq-lp30\.tdp_watt: is no figure of an accelerator \(did you mean 'tdp_w'\?\)",
        ),
        (
            {"assumed.groq-lp30": {"n_sm": {"value": 1.5, "source": "x"}}},
            r"assumed\.groq-lp30\.n_sm: is 1\.5 \(a whole number\)",
        ),
        (
            {"assumed.groq-lp30": {"all_reduce_fraction": {"value": 1.5, "source": "x"}}},
            r"all_reduce_fraction: is 1\.5 \(a fraction of at most 1\)",
        ),
        (
            {"assumed.groq-lp30": {"bf16_tflops": {"value": 200.0, "source": "x"}}},
            r"assumed\.groq-lp30\.bf16_tflops: fp8_tflops = 1230 is 6\.15 x bf16_tflops = 200 \(at most 5 x",
        ),
        (
            {"assumed.groq-lp30": {"int8_tops": {"value": 9000.0, "source": "x"}}},
            r"assumed\.groq-lp30\.int8_tops: int8_tops = 9000 is 7\.32 x fp8_tflops = 1230",
        ),
        ({"assumed.groq-lp03": TDP}, r"assumed\.groq-lp03: 'groq-lp03' is no hardware profile \(did you mean"),
        (
            {"assumed.groq-lp30": TDP, "assumed.groq_lp30": TDP},
            r"'groq_lp30' is completed already as assumed\.groq-lp30",
        ),
        ({"assumed.groq-lp30": {"tdp_w": {"value": 300.0}}}, r"assumed\.groq-lp30\.tdp_w\.source: is required"),
        (
            {"stacks.own": {"source": "x", "factors": {"kernel_latency": 1.0}}},
            r"stacks\.own\.factors\.kernel_latency: is no factor of a stack \(did you mean 'kernel_latency_us'\?\)",
        ),
        (
            {"stacks.own": {"source": "x", "factors": {"weight_read_fraction": 0.0}}},
            r"stacks\.own\.factors\.weight_read_fraction: is 0 \(at least 1e-09: times are divided by it\)",
        ),
        (
            {"stacks.own": {"source": "x", "factors": {"gemm_efficiency": 1e-10}}},
            r"stacks\.own\.factors\.gemm_efficiency: is 1e-10 \(at least 1e-09: times are divided by it\)",
        ),
        ({"break_even": [SPAN]}, r"break_even\[0\]\.key: 'demand_req_per_s' is no number that the scenario states"),
        (
            {"demand_req_per_s": 2.0, "break_even": [{**SPAN, "decides": "all-gpu"}]},
            r"break_even\[0\]\.decides: names no comparison: 'all-gpu' \(known: verdict\)",
        ),
        (
            {"demand_req_per_s": 2.0, "break_even": [{**SPAN, "low": 9.0}]},
            r"break_even\[0\]: low 9 is not below high 9",
        ),
    ],
)
def test_faults_are_told_at_their_keys(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small_with(changes)


def test_a_pool_may_run_on_a_stack_of_the_scenario() -> None:
    own = {"like": "vllm", "factors": {"kernel_latency_us": 1.0}, "chunk_tokens": 512, "source": "a test"}
    changes = {"stacks.mine": own, "pools.decode.stack": "mine", "pools.decode.service_times": "roofline"}
    scenario = small_with(changes)
    pool = scenario.pools["decode"]
    found = pool_stack(scenario, pool)
    assert (found.name, found.settings.chunk_tokens, found.calibration) == ("mine", 512, None)
    assert found.factors.kernel_latency_s == pytest.approx(1e-6)
    rates = next(spec.rates for spec in problem_of(changes).pools if spec.name == "decode")
    assert (rates.stack, rates.basis) == ("mine", "inferred")


def test_a_value_is_found_as_set_would_change_it() -> None:
    scenario = small_with({"assumed.groq-lp30": TDP})
    assert scenario.value_at("assumed.groq-lp30.tdp_w.value") == 300
    assert scenario.value_at("links.wan.usd_per_hour") == 20
    assert scenario.value_at("links.wan.tiers[0].usd_per_hour") is None
    assert scenario.varied({"assumed.groq-lp30.tdp_w.value": 400.0}).hardware_named("groq-lp30").tdp_w == 400
