"""Stacks by name and version, and the memory that weights leave for caches."""

import numpy as np
import pytest

from planner.errors import InputError
from planner.profiles import model_profile, profile_names, stack_profile
from planner.roofline import FACTOR_NAMES, Layout, best_stack, factors_of, memory_fit, stack, weights_bytes
from planner.roofline.engine_memory import RUNTIME_BYTES, MemorySettings
from planner.roofline.factors import PRIOR
from planner.roofline.memory_fit import largest_batch
from planner.studies.fidelity.fit import OF_A_FRAMEWORK


def test_every_shipped_stack_has_its_three_factors_in_si_units_and_the_others_as_of_any_framework() -> None:
    units = {"_us": 1e-6, "_ms": 1e-3}
    for name in profile_names("stack"):
        profile, factors = stack_profile(name), factors_of(stack_profile(name))
        stated = {key: (key[:-3] + "_s" if key[-3:] in units else key) for key in profile.factors.stated}
        assert {*stated.values()} == {*OF_A_FRAMEWORK}
        for key, own in stated.items():
            value = profile.factors.stated[key].value * units.get(key[-3:], 1.0)
            assert getattr(factors, own) == pytest.approx(value)
        for other in {*FACTOR_NAMES} - {*OF_A_FRAMEWORK}:
            assert getattr(factors, other) == getattr(PRIOR, other)


@pytest.mark.parametrize("name", ["vllm", "trtllm", "sglang"])
@pytest.mark.parametrize("version", ["0.18", "0.18.0", "0.5.9", "1.2.0rc2.post2", "99", "unversioned", "nightly-5b8c"])
def test_a_version_has_the_factors_of_its_framework_and_keeps_its_name(name: str, version: str) -> None:
    framework, found = stack(name), stack(f"{name}-{version}")
    assert (found.name, found.version) == (f"{name}-{version}", version)
    assert (framework.name, framework.version) == (name, "")
    assert vars(found.factors) == vars(framework.factors)
    same = (framework.settings, framework.harnesses, framework.calibration, framework.derated)
    assert (found.settings, found.harnesses, found.calibration, found.derated) == same


def test_a_frameworks_name_may_be_written_in_any_case() -> None:
    assert (stack("SGLang").name, stack("vLLM-0.18").name) == ("sglang", "vllm-0.18")


def test_a_dash_without_a_version_is_the_framework() -> None:
    assert (stack("vllm-").name, stack("vllm-").version) == ("vllm", "")


@pytest.mark.parametrize("version", ["1; rm -rf ~", "$(x)", "1\nx", "a b", "<1>", "@x"])
def test_a_version_is_letters_digits_and_a_few_signs(version: str) -> None:
    with pytest.raises(InputError, match="names no version"):
        stack(f"vllm-{version}")


def test_an_unknown_framework_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"no known framework .*vllm"):
        stack("vlllm")


@pytest.mark.parametrize(
    ("model", "hardware", "framework"),
    [
        ("kimi-linear-48b", "h200-sxm", "sglang"),
        ("qwen3-235b", "h20-141gb", "sglang"),
        ("minimax-m2.5", "b200-sxm", "vllm"),
    ],
)
def test_the_best_stack_is_one_that_measured_the_model_on_the_accelerator(
    model: str, hardware: str, framework: str
) -> None:
    assert best_stack(model, hardware).name == framework


def test_for_a_model_nobody_measured_the_best_stack_knows_prefill_and_decode_of_the_accelerator() -> None:
    found = best_stack("deepseek-v3", "h200-sxm").calibration
    assert found is not None
    assert found.in_sample.ttft is not None
    assert found.in_sample.tpot is not None


def test_weights_of_a_rank_follow_from_the_layout() -> None:
    model = model_profile("deepseek-v3")
    parts = weights_bytes(model)
    fit = memory_fit(model, 141e9, Layout(tp_size=4, dp_size=2, ep_size=8))
    dense = parts["shared_experts"] + parts["dense_mlp"]
    quarter = parts["attention"] + parts["embedding"] + parts["lm_head"]
    whole = parts["router"] + parts["norms"]
    assert fit.weights_bytes == pytest.approx(parts["experts"] / 8 + (quarter + dense) / 4 + whole)
    all_ranks = memory_fit(model, 141e9, Layout(tp_size=4, dp_size=2, ep_size=1))
    assert all_ranks.weights_bytes == pytest.approx((parts["experts"] + dense) / 8 + quarter / 4 + whole)


def test_a_trillion_fp8_weights_lack_the_bytes_that_eight_small_accelerators_do_not_have() -> None:
    model = model_profile("kimi-k2")
    fit = memory_fit(model, 96e9, Layout(tp_size=8), settings=MemorySettings(fraction=0.9))
    assert not fit.fits
    lacking = fit.weights_bytes + fit.workspace_bytes - 0.9 * 96e9
    assert fit.lacking_bytes == pytest.approx(lacking)
    assert 8 * fit.lacking_bytes > 1.0e12 - 768e9


def test_the_largest_batch_fills_the_memory_and_no_more() -> None:
    model, layout = model_profile("llama-3.1-70b"), Layout(tp_size=4)
    fit = memory_fit(model, 141e9, layout)
    batch = float(largest_batch(model, fit, layout, 8192))
    per_sequence = 8192 * 80 * 2 * 2 * 128 * 2  # 2 of 8 KV heads per rank, keys and values, bf16
    assert batch == np.floor(fit.cache_bytes / per_sequence)
    assert fit.memory_bytes - fit.weights_bytes - fit.workspace_bytes == fit.cache_bytes
    assert fit.workspace_bytes > RUNTIME_BYTES


def test_the_default_stack_is_a_framework_alone_and_found_again_by_its_name() -> None:
    for name in profile_names("stack"):
        found = stack_profile(name).calibration
        for group in found.groups if found else ():
            best = best_stack(group.model, group.hardware)
            assert best.name in profile_names("stack")
            assert best.version == ""
            assert vars(stack(best.name).factors) == vars(best.factors)
