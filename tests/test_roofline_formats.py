"""Number formats of what the weights' own does not say: attention, and products whose weights alone are quantised."""

from dataclasses import replace

import numpy as np
import pytest

from planner.profiles import HardwareProfile, ModelProfile, hardware_profile, model_profile
from planner.profiles.stack import StackSettings
from planner.roofline import Chip, Factors, InstanceModel, Layout, Sequences, product_formats
from planner.roofline.factors import DATASHEET
from planner.roofline.formats import ProductFormats

OSS, LLAMA = model_profile("gpt-oss-120b"), model_profile("llama-3.1-8b")
B200, H200 = hardware_profile("b200-sxm"), hardware_profile("h200-sxm")


def served(
    model: ModelProfile, hardware: HardwareProfile, formats: ProductFormats, precision: str | None = None
) -> InstanceModel:
    return InstanceModel(model, Chip(hardware, derated=False), Layout(), DATASHEET, precision, formats=formats)


def seconds(found: InstanceModel, name: str) -> float:
    work = found.work([Sequences.prefill([8192.0])])
    return float((work.n_layers * work.ceiling_s)[work.name == name].sum())


@pytest.mark.parametrize(("inputs", "times"), [("bf16", 4.0), ("fp8", 2.0)])
def test_weights_quantised_alone_run_at_the_peak_of_their_inputs(inputs: str, times: float) -> None:
    both = seconds(served(OSS, B200, ProductFormats(), "fp4"), "experts_down")
    checkpoint = OSS.checkpoint
    assert checkpoint is not None
    assert checkpoint.weight_only == ("fp4",)
    alike = OSS.model_copy(update={"checkpoint": checkpoint.model_copy(update={"weight_only": ()})})
    found = [served(m, B200, ProductFormats(weight_only=inputs)) for m in (OSS, alike)]
    alone, narrow = (seconds(one, "experts_down") for one in found)
    assert alone / narrow == pytest.approx(times)
    assert [one.product_precision for one in found] == [inputs, "fp4"]
    assert both == pytest.approx(alone if inputs == "bf16" else 2 * alone), "as the checkpoint stores them"


@pytest.mark.parametrize("hardware", [H200, B200, hardware_profile("a100-sxm-80gb")])
def test_four_bit_integers_are_expanded_to_bf16(hardware: HardwareProfile) -> None:
    assert Chip(hardware).product_format("int4") == "bf16"
    narrow, wide = (served(LLAMA, hardware, ProductFormats(), precision) for precision in ("int4", "bf16"))
    assert seconds(narrow, "down_proj") == seconds(wide, "down_proj")
    assert narrow.memory.weights_bytes < wide.memory.weights_bytes


def test_attention_in_fp8_is_faster_but_by_less_than_its_peak_where_kernels_were_measured() -> None:
    for derated, most in ((False, 2.01), (True, 1.9)):
        chip = Chip(H200, derated)
        times = []
        for name in ("bf16", "fp8"):
            found = InstanceModel(LLAMA, chip, Layout(), DATASHEET, formats=ProductFormats(attention=name))
            work = found.work([Sequences.prefill([65536.0])])
            mine = work.name == "attention"
            assert mine.any()
            times.append(float(np.maximum(work.fixed_s + work.kernel_s, work.ceiling_s)[mine].sum()))
        assert 1.2 < times[0] / times[1] <= most


@pytest.mark.parametrize("kv", ["bf16", "fp8"])
@pytest.mark.parametrize("is_quantized", [False, True])
def test_attention_runs_in_fp8_where_the_stack_does_so_and_the_cache_is(kv: str, is_quantized: bool) -> None:
    found = product_formats(StackSettings(quantized_attention=is_quantized), kv)
    assert found.attention == ("fp8" if is_quantized and kv == "fp8" else "bf16")


@pytest.mark.parametrize("cached", [0.0, 3000.0])
def test_every_token_of_a_prompt_costs_the_host_its_time_before_prefill(cached: float) -> None:
    one = InstanceModel(LLAMA, Chip(H200), Layout(), Factors())
    two = replace(one, factors=replace(one.factors, prompt_token_s=3e-6))
    tokens = np.array([64.0, 8192.0, 100_000.0])
    added = two.prefill_time(tokens, cached).total_s - one.prefill_time(tokens, cached).total_s
    assert added == pytest.approx(3e-6 * (tokens + cached))
