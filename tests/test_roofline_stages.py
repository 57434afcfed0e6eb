"""Pipeline stages of whole layers: the fullest bounds memory, the slowest sets the pace."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.profiles import hardware_profile, model_profile, profile_names
from planner.roofline import Chip, InstanceModel, Layout, altered, memory_fit, stack, weights_bytes
from planner.roofline.engine_memory import MemorySettings, memory_settings
from planner.roofline.factors import DATASHEET
from planner.roofline.stages import mixers_by_stage, slowest_stage_fraction, stage_sizes

KIMI, LLAMA = model_profile("kimi-linear-48b"), model_profile("llama-3.1-8b")
H200 = Chip(hardware_profile("h200-sxm"), derated=False)


def served(pp: int, tp: int = 1) -> InstanceModel:
    return InstanceModel(KIMI, H200, Layout(tp_size=tp, pp_size=pp), DATASHEET)


@given(layers=st.integers(1, 200), data=st.data())
def test_stages_hold_all_layers_and_differ_by_one_at_most(layers: int, data: st.DataObject) -> None:
    sizes = stage_sizes(layers, data.draw(st.integers(1, layers)))
    assert sizes.sum() == layers
    assert sizes.max() - sizes.min() <= 1
    assert sizes.min() >= 1


@pytest.mark.parametrize("name", profile_names("model"))
def test_every_mixer_of_every_model_is_on_one_stage(name: str) -> None:
    architecture = model_profile(name).architecture
    counts = mixers_by_stage(architecture, 4)
    assert counts.shape == (4, len(architecture.attention))
    assert counts.sum(axis=0).tolist() == [group.n_layers for group in architecture.attention]


def test_weights_of_the_fullest_stage_are_those_of_its_whole_layers() -> None:
    parts = weights_bytes(KIMI, "fp8")
    vocabulary = parts["embedding"] + parts["lm_head"]
    layers = sum(parts.values()) - vocabulary
    one = memory_fit(KIMI, 141e9, Layout(), precision="fp8").weights_bytes
    assert one == pytest.approx(layers + vocabulary)
    # 16 stages of one or two of 27 layers: the vocabulary fills those of one.
    found = memory_fit(KIMI, 141e9, Layout(pp_size=16), precision="fp8").weights_bytes
    assert found == pytest.approx(layers * 2 / 27)
    # Stages that are alike have no room for it to themselves.
    even = memory_fit(KIMI, 141e9, Layout(pp_size=27), precision="fp8").weights_bytes
    assert even == pytest.approx((layers + vocabulary) / 27)


def test_a_full_pipeline_moves_at_the_pace_of_its_longest_stage() -> None:
    # 8 stages of 27 layers: three have 4. A batch of 80 runs as 8 parts of 10, each with the time of 10 alone.
    part = float(served(1).decode_time([10], [4096]).total_s[0])
    hand_over = float(served(8).decode_time([1], [4096]).total_s[0]) - float(
        served(1).decode_time([1], [4096]).total_s[0]
    )
    full = float(served(8).decode_time([80], [4096]).total_s[0])
    assert full == pytest.approx((part + 10 * hand_over) * 8 * 4 / 27, rel=1e-6)
    # Fewer sequences than stages never wait for each other.
    assert float(served(8).decode_time([1], [4096]).total_s[0]) < 1.01 * float(
        served(1).decode_time([1], [4096]).total_s[0]
    )


def test_stages_that_divide_the_layers_lose_nothing() -> None:
    assert slowest_stage_fraction(32, 8) * 8 == 1
    one = InstanceModel(LLAMA, H200, Layout(), DATASHEET)
    eight = InstanceModel(LLAMA, H200, Layout(pp_size=8), DATASHEET)
    alone, shared = one.decode_time([10], [4096]).total_s, eight.decode_time([80], [4096]).total_s
    assert shared == pytest.approx(alone, rel=0.01)


def test_many_chunks_take_the_share_of_the_longest_stage_each() -> None:
    tokens = np.array([8192.0 * 32])
    whole, first = served(1).prefill_time(tokens).total_s, served(1).prefill_time([8192.0]).total_s
    expected = whole * 4 / 27 + first * 23 / 27
    assert served(8).prefill_time(tokens).total_s == pytest.approx(expected, rel=0.02)


def test_a_small_memory_holds_a_model_only_beside_a_small_runtime() -> None:
    layout = Layout(tp_size=4, dp_size=8, pp_size=8, ep_size=32)
    own_process = MemorySettings(runtime_bytes=20e6)
    usual = memory_fit(KIMI, 0.5e9, layout, precision="fp8", chunk_tokens=256)
    own = memory_fit(KIMI, 0.5e9, layout, precision="fp8", chunk_tokens=256, settings=own_process)
    assert not usual.fits
    assert own.fits
    assert own.cache_bytes - usual.cache_bytes == pytest.approx(2e9 - 20e6)


def test_a_stack_may_state_what_its_process_takes_of_the_memory() -> None:
    own = altered(stack("vllm"), "own", {"kernel_latency_us": 1.5}, {"runtime_gb": 0.5, "chunk_tokens": None})
    assert memory_settings(own.settings).runtime_bytes == 0.5e9
    assert own.settings.chunk_tokens == stack("vllm").settings.chunk_tokens
    assert own.factors.kernel_latency_s == pytest.approx(1.5e-6)
    assert own.factors.tile_rows == stack("vllm").factors.tile_rows
    assert own.calibration is None
