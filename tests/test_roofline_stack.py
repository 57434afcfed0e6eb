"""Stacks by name and version, and the memory that weights leave for caches."""

import numpy as np
import pytest

from planner.errors import InputError
from planner.profiles import model_profile, profile_names, stack_profile
from planner.roofline import FACTOR_NAMES, Layout, best_stack, factors_of, memory_fit, stack, weights_bytes
from planner.roofline.engine_memory import RUNTIME_BYTES, MemorySettings
from planner.roofline.memory_fit import largest_batch


def test_every_shipped_stack_gives_every_factor_in_si_units() -> None:
    for name in profile_names("stack"):
        profile, factors = stack_profile(name), factors_of(stack_profile(name))
        assert set(vars(factors)) == set(FACTOR_NAMES)
        assert factors.kernel_latency_s == pytest.approx(profile.factors.kernel_latency_us.value * 1e-6)
        assert factors.request_overhead_s == pytest.approx(profile.factors.request_overhead_ms.value * 1e-3)


def test_a_version_multiplies_its_ratios_and_a_prefix_finds_it() -> None:
    profile = stack_profile("vllm")
    exact, short = stack("vllm-0.18.0"), stack("vllm-0.18")
    assert exact.name == short.name == "vllm-0.18.0"
    ratio = profile.versions["0.18.0"].kernel_latency
    assert exact.on("minimax-m2.5").factors.kernel_latency_s == pytest.approx(
        factors_of(profile).kernel_latency_s * ratio
    )


def test_a_version_that_was_not_fitted_has_the_frameworks_factors_and_says_so() -> None:
    found = stack("vllm-9.9")
    assert not found.version_is_fitted
    assert found.factors.kernel_latency_s == factors_of(stack_profile("vllm")).kernel_latency_s


@pytest.mark.parametrize("version", ["1; rm -rf ~", "$(x)", "1\nx", "a b", "<1>", "@x"])
def test_a_version_is_letters_digits_and_a_few_signs(version: str) -> None:
    with pytest.raises(InputError, match="names no version"):
        stack(f"vllm-{version}")


def test_a_frameworks_name_alone_means_its_default_version_unless_told_otherwise() -> None:
    assert stack("sglang").name == "sglang-0.5.9"
    assert stack("sglang", default_version=False).name == "sglang-unversioned"


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
    assert best_stack(model, hardware).name.startswith(framework)


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


def test_the_default_stack_of_a_calibrated_pair_is_at_the_version_it_was_measured_with() -> None:
    for name in profile_names("stack"):
        found = stack_profile(name).calibration
        for group in found.groups if found else ():
            best = best_stack(group.model, group.hardware)
            if best.name.startswith(name):
                assert best.name == f"{name}-{group.version or 'unversioned'}"
                assert vars(stack(best.name).factors) == vars(best.factors)
