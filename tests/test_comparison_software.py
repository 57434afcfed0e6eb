"""Pools of one model run on one software unless something else is stated, and a plan says where they differ."""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from planner.comparison import best_fleet, optimize
from planner.comparison.baselines import variants
from planner.executor.service import source
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.service_times import pool_stack
from planner.profiles import hardware_profile, missing_shapes, model_profile, profile_names
from planner.roofline import best_stack, stack
from planner.scenario import Scenario, load_scenario, read_scenario
from tests.builders import sketch
from tests.cpu_cost import cached

QUESTION = """
schema = "planner.scenario/1"
name = "two-kinds"
objective = "min-cost"
demand_req_per_s = 3.0

[model]
profile = "{model}"

[workload]
lengths = {{ kind = "lognormal", mu = 8.0, sigma = 1.0, low_tokens = 128, high_tokens = 16384 }}
output_lengths = {{ kind = "constant", tokens = 300 }}

[sites.remote]
[sites.local]

{pools}

[links.wan]
from = "remote"
to = "local"
capacity_gbps = 400
usd_per_hour = 1
"""
SITES = {"far": ("remote", "prefill"), "near": ("local", "prefill"), "decode": ("local", "decode")}
PAIR = ("h200-sxm", "h20-141gb")


def text_of(model: str, hardware: dict[str, str], order: tuple[str, ...] = tuple(SITES)) -> str:
    """A question of three pools on some accelerators, written in some order."""
    tables = []
    for name in order:
        site, role = SITES[name]
        keys = {"site": site, "hardware": hardware[name], "role": role, "service_times": "roofline"}
        tables.append(f"[pools.{name}]\n" + "\n".join(f'{key} = "{value}"' for key, value in keys.items()))
    prices = "\n".join(
        f'[prices.{kind}]\nusd_per_accelerator_hour = {1 + i}.0\nbasis = "assumed"\nsource = "a test"'
        for i, kind in enumerate(sorted({*hardware.values()}))
    )
    return QUESTION.format(model=model, pools="\n".join(tables)) + prices


def asked(model: str, far: str, home: str, *overrides: str, order: tuple[str, ...] = tuple(SITES)) -> Scenario:
    text = text_of(model, {"far": far, "near": home, "decode": home}, order)
    return load_scenario(text, "two-kinds.toml", Path(), overrides)


def names_of(scenario: Scenario) -> set[str]:
    return {pool_stack(scenario, pool).name for pool in scenario.pools.values()}


@cached
def timed_models() -> tuple[str, ...]:
    return tuple(n for n in profile_names("model") if not missing_shapes(model_profile(n).architecture))


@cached
def timed_chips() -> tuple[str, ...]:
    """Accelerators that the roofline can say something of."""
    found = {name: hardware_profile(name) for name in profile_names("hardware")}
    return tuple(name for name, chip in found.items() if chip.memory_bytes and chip.memory_bytes_per_s)


@cached
def telling_chips() -> tuple[str, ...]:
    """Every accelerator that a stack was fitted on, and two of which none tells: the rule sees no others apart."""
    found = (stack(name).calibration for name in profile_names("stack"))
    fitted = {name for calibration in found if calibration for name in calibration.hardware}
    return (*sorted(fitted), *[name for name in timed_chips() if name not in fitted][:2])


def same_on_all_pairs(model: str, chips: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Pairs on which the pools of a model do not run alike, or not alike when the accelerators change places."""
    for one, other in combinations(chips, 2):
        found = names_of(asked(model, one, other))
        if len(found) > 1 or found != names_of(asked(model, other, one)):
            yield one, other


@pytest.mark.parametrize("model", timed_models())
def test_pools_of_a_model_have_one_stack_by_default_whatever_they_are_made_of(model: str) -> None:
    assert not [*same_on_all_pairs(model, telling_chips())]


@pytest.mark.parametrize("model", timed_models())
def test_pools_of_a_model_have_one_stack_by_default_on_any_two_accelerators(model: str) -> None:
    assert not [*same_on_all_pairs(model, timed_chips())]


def test_the_order_of_pools_does_not_change_their_stack() -> None:
    for model in timed_models():
        for order in (("decode", "near", "far"), ("near", "decode", "far")):
            assert names_of(asked(model, *PAIR, order=order)) == names_of(asked(model, *PAIR))


def test_for_one_kind_of_accelerator_the_default_is_that_of_predict() -> None:
    for model in timed_models():
        for chip in telling_chips():
            assert names_of(asked(model, chip, chip)) == {best_stack(model, chip).name}


def test_the_accelerator_that_a_stack_knows_least_decides() -> None:
    # SGLang measured the model on one of the two and knows the other; vLLM and TensorRT-LLM know one of them at most.
    assert names_of(asked("qwen3-235b", *PAIR)) == {"sglang"}
    assert best_stack("llama-3.1-70b", "h200-sxm").name == "vllm"
    assert names_of(asked("llama-3.1-70b", *PAIR)) == {"sglang"}


def test_what_a_pool_or_its_model_states_wins() -> None:
    def stacks(*overrides: str) -> list[str]:
        scenario = asked("qwen3-235b", *PAIR, *overrides)
        return [pool_stack(scenario, pool).name for pool in scenario.pools.values()]

    default = stack("trtllm").name
    assert stacks("model.stack=trtllm") == [default] * 3
    assert stacks("model.stack=trtllm", "pools.near.stack=vllm-0.18") == [default, "vllm-0.18", default]
    assert stacks("pools.far.stack=datasheet")[1:] == stacks()[1:]


def test_a_default_stack_that_is_stated_by_its_name_gives_the_same_plan() -> None:
    scenario = asked("qwen3-235b", *PAIR)
    (name,) = names_of(scenario)
    stated = best_fleet(asked("qwen3-235b", *PAIR, f"model.stack={name}"))
    assert stated.fleet == best_fleet(scenario).fleet


def test_pools_run_on_what_others_of_their_model_were_measured_under_where_that_is_known() -> None:
    measured = """
[measured.{name}]
hardware = "h200-sxm"
n_accelerators = 8
precision = "bf16"
basis = "measured"
source = "a test"
stack = "{stack}"
prefill = {{ tokens = [64, 65536], seconds = [0.2, 6.0], interpolation = "linear" }}
"""
    text = text_of("deepseek-v3", {"far": "h200-sxm", "near": "h20-141gb", "decode": "h20-141gb"})
    text = text.replace('service_times = "roofline"\n\n[pools.near]', "\n[pools.near]", 1)
    for ran_under, expected in (("trtllm-1.3.0rc1", "trtllm-1.3.0rc1"), ("acme-1.0", "sglang")):
        whole = text + measured.format(name="fast", stack=ran_under).replace('"bf16"', '"fp8"')
        scenario = load_scenario(whole, "measured.toml", Path(), ["pools.far.service_times=measured"])
        assert pool_stack(scenario, scenario.pools["near"]).name == expected
        told = {pool.name: pool.stack for pool in sketch(scenario).pools}
        assert told == {"far": ran_under, "near": expected, "decode": expected}


KEYS = ("stack", "precision", "kv_precision")
OTHER = {"stack": "vllm-0.18", "precision": "int8", "kv_precision": "fp8"}
SAID = {"stack": "different software", "precision": "weights in different", "kv_precision": "caches in different"}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("pool", SITES)
def test_a_plan_says_that_pools_run_on_different_software_exactly_where_they_do(pool: str, key: str) -> None:
    scenario = asked("qwen3-235b", *PAIR, f"pools.{pool}.{key}={OTHER[key]}")
    notes = sketch(scenario).notes
    for kind, words in SAID.items():
        assert any(words in note for note in notes) == (kind == key)


@pytest.mark.parametrize("key", KEYS)
def test_a_plan_of_a_network_says_it_too_and_neither_does_where_all_pools_state_the_same(key: str) -> None:
    periods = {"periods": {"day": {"hours": 12.0}, "night": {"demand": 0.5}}}
    notes = sketch(asked("qwen3-235b", *PAIR, f"pools.far.{key}={OTHER[key]}").varied(periods)).notes
    assert [kind for kind, words in SAID.items() if any(words in note for note in notes)] == [key]
    alike = asked("qwen3-235b", *PAIR, *(f"pools.{name}.{key}={OTHER[key]}" for name in SITES))
    for scenario in (alike, alike.varied(periods)):
        assert not any(words in note for note in sketch(scenario).notes for words in SAID.values())


def test_the_difference_that_software_makes_is_the_one_that_planning_with_the_other_one_shows() -> None:
    scenario = asked("qwen3-235b", *PAIR, "pools.far.stack=vllm-0.18")
    note = next(note for note in sketch(scenario).notes if "different software" in note)
    tokens = planning_problem(scenario).classes[0].mix.mean_uncached_tokens
    for name, stacks in (("far", ("vllm-0.18", "sglang")), ("near", ("sglang", "vllm-0.18"))):
        seconds = []
        for used in stacks:
            problem = planning_problem(asked("qwen3-235b", *PAIR, f"model.stack={used}"))
            rates = next(pool.rates for pool in problem.pools if pool.name == name)
            assert rates.prefill is not None
            seconds.append(f"{float(rates.prefill.curve(tokens)):.3g} s")
        assert f"takes {name} {seconds[0]}, and with" in note
        assert f" {seconds[1]}" in note


@pytest.mark.parametrize("chip", ["a100-sxm-80gb", "h200-sxm", "b200-sxm"])
@pytest.mark.parametrize("precision", ["fp8", "bf16", "fp4"])
def test_a_format_that_an_accelerator_has_no_unit_for_is_said_to_be_emulated(chip: str, precision: str) -> None:
    scenario = asked("qwen3-32b", chip, "h20-141gb", f"pools.far.precision={precision}")
    peaks = hardware_profile(chip).figures
    said = any(f"{chip} has no {precision} unit" in note for note in sketch(scenario).notes)
    assert said == (getattr(peaks, f"{precision}_tflops", None) is None)


def test_fleets_that_a_plan_is_compared_with_run_on_its_software() -> None:
    scenario = asked("deepseek-v3", "h200-sxm", "h20-141gb", "demand_req_per_s=40", "pools.near.max_instances=2")
    problem = planning_problem(scenario)
    (expected,) = names_of(scenario)
    plan = optimize(scenario)
    for variant in variants(problem, plan):
        assert names_of(variant.scenario()) == {expected}, variant.name
    assert {pool.stack for pool in plan.pools} == {expected}
    assert {pool.stack for baseline in plan.baselines for pool in baseline.pools} == {expected}


def test_a_comparison_differs_from_its_scenario_in_what_it_sets_and_not_in_software() -> None:
    text = text_of("llama-3.1-70b", {"far": "h200-sxm", "near": "h20-141gb", "decode": "h20-141gb"})
    text += """
[comparisons.all-h200]
title = "one kind"
set = { "pools.near.hardware" = "h200-sxm", "pools.decode.hardware" = "h200-sxm" }
[comparisons.stated]
title = "other software"
set = { "model.stack" = "trtllm" }
"""
    scenario = load_scenario(text, "compared.toml", Path())
    assert names_of(asked("llama-3.1-70b", "h200-sxm", "h200-sxm")) != names_of(scenario)
    assert names_of(scenario.compared("all-h200")) == names_of(scenario)
    assert names_of(scenario.compared("stated")) == {stack("trtllm").name}


@pytest.mark.parametrize(
    "changes", [[], ["model.stack=trtllm"], ["pools.far.stack=vllm", "pools.decode.precision=fp8"]]
)
def test_the_executor_and_both_planners_run_a_pool_alike(changes: list[str]) -> None:
    scenario = asked("qwen3-235b", *PAIR, *changes)
    network = planning_problem(scenario.varied({"periods": {"day": {}}}))
    for spec in planning_problem(scenario).pools:
        setup = spec.rates.setup
        assert setup == next(pool.rates.setup for pool in network.pools if pool.name == spec.name)
        served = source(scenario, spec.name).served
        assert served is not None
        assert setup.precision == served.weights_precision
        assert setup.kv_precision == served.kv_precision
        assert setup.layout == str(served.layout)
        assert vars(served.factors) == vars(pool_stack(scenario, scenario.pools[spec.name]).factors)


def test_a_measured_pool_says_what_is_known_of_it_and_leaves_the_rest_open() -> None:
    plan = sketch(read_scenario("prfaas-paper"))
    known = {
        pool.name: (pool.layout, pool.stack, pool.precision, pool.kv_precision, pool.batch_limit) for pool in plan.pools
    }
    assert known["prfaas"] == (None, "sglang-0.5.9", "fp8", None, None)
    assert known["pd-d"] == (None, None, "fp8", None, 20)
    assert {pool.accelerators_per_instance for pool in plan.pools} == {8}
