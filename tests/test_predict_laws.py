"""Predicted seconds against hand calculations, and laws that every prediction obeys whatever the stack."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.profiles import (
    HardwareProfile,
    ModelProfile,
    hardware_profile,
    missing_shapes,
    model_profile,
    profile_names,
)
from planner.roofline import Chip, InstanceModel, Layout, Operator
from planner.roofline.engine_memory import memory_settings
from planner.roofline.operators import pass_operators
from planner.roofline.sequences import Sequences
from planner.roofline.served_model import prefill_passes
from planner.roofline.stack import stack
from planner.studies.predict import PredictQuestion, predict
from tests.cpu_cost import cached
from tests.model_counts import total_flop

MODELS = [name for name in profile_names("model") if not missing_shapes(model_profile(name).architecture)]
CHIPS = ["h200-sxm", "h20-141gb", "b200-sxm", "mi300x", "a100-sxm-80gb", "tpu-v5p"]
STACKS = ["datasheet", "vllm", "sglang", "trtllm"]
LAYOUTS = ["tp=8", "tp=2,dp=4,ep=8", "tp=4,pp=2"]
ROUNDING = 1 + 1e-9


def served(
    model: str, chip: Chip, layout: str = "tp=8", name: str = "datasheet", precision: str | None = None
) -> InstanceModel:
    found = stack(name)
    return InstanceModel(
        model_profile(model),
        chip,
        Layout.parse(layout),
        found.factors,
        precision=precision,
        chunk_tokens=found.settings.chunk_tokens,
        memory_settings=memory_settings(found.settings),
    )


@cached
def chip(name: str, stack_name: str = "datasheet") -> Chip:
    return Chip(hardware_profile(name), stack(stack_name).derated)


def faster(name: str, *keys: str, times: float = 2.0, derated: bool = False) -> Chip:
    """An accelerator with some of its figures multiplied."""
    found = hardware_profile(name)
    changed = {}
    for key in keys:
        figure = getattr(found.figures, key)
        if figure is not None:
            changed[key] = figure.model_copy(update={"value": figure.value * times})
    figures = found.figures.model_copy(update=changed)
    hardware: HardwareProfile = found.model_copy(update={"figures": figures})
    return Chip(hardware, derated)


# Hand calculations on the bare datasheet, where nothing but peaks counts


def test_a_decode_step_of_one_sequence_reads_every_weight_and_its_cache_once() -> None:
    # Llama 3.1 8B: 32 layers, hidden 4096, 32 heads and 8 KV heads of 128, MLP of 14336, vocabulary of 128256.
    attention = 4096 * 4096 + 2 * 4096 * 1024 + 4096 * 4096
    mlp = 3 * 4096 * 14336
    weights_bytes = 2 * (32 * (attention + mlp) + 4096 * 128256)  # bf16; of the embedding one row is read
    cache_bytes = 32 * 2 * 8 * 128 * 2 * 4096
    hand_s = (weights_bytes + cache_bytes) / 3.35e12
    (row,) = predict(PredictQuestion("llama-3.1-8b", "h100-sxm", layout="tp=1", stack="datasheet", batch=(1,))).decode
    assert row.step_s == pytest.approx(hand_s, rel=2e-3)  # activations of one token come on top
    assert row.step_s is not None
    assert row.step_s > hand_s
    assert row.bound == "memory"


def test_a_prefill_computes_two_operations_per_weight_and_token_and_the_lower_triangle_of_attention() -> None:
    tokens = 8192  # one chunk
    layer = 4096 * 4096 + 2 * 4096 * 1024 + 4096 * 4096 + 3 * 4096 * 14336
    products = 2 * tokens * 32 * layer
    attention = 32 * 4 * 32 * 128 * tokens * (tokens + 1) / 2  # scores and values, 2 operations each, 32 heads of 128
    time = served("llama-3.1-8b", chip("h100-sxm"), "tp=1").prefill_time(tokens)
    assert time.compute_s[0] == pytest.approx((products + attention) / 989e12, rel=1e-9)
    head_s = 2 * 4096 * 128256 / 3.35e12  # the last token alone needs the vocabulary: its weights are what takes time
    assert head_s < time.memory_s[0] < 0.1 * time.compute_s[0]
    assert time.network_s[0] == 0
    assert abs(time.overhead_s[0]) < 1e-12 * time.compute_s[0]  # what is left of a sum, to its rounding


def test_eight_ranks_share_weights_and_heads_and_pay_two_all_reduces_per_layer() -> None:
    # Llama 3.1 70B: 80 layers, hidden 8192; ring all-reduce of 2 (n - 1) / n of the activations over 450 GB/s.
    tokens = 4096
    network_s = 80 * 2 * (2 * 7 / 8) * (2 * 8192 * tokens) / 450e9
    time = served("llama-3.1-70b", chip("h200-sxm"), "tp=8").prefill_time(tokens)
    alone = served("llama-3.1-70b", chip("h200-sxm"), "tp=1").prefill_time(tokens)
    assert time.network_s[0] == pytest.approx(network_s, rel=1e-9)
    assert time.compute_s[0] == pytest.approx(alone.compute_s[0] / 8, rel=1e-9)


def test_two_accelerators_over_pcie_are_faster_than_one_and_eight_are_slower() -> None:
    """NCCL over 2, 4 and 8 L40S: 20.1, 5.16 and 1.45 GB/s. Llama 3.1 8B: 32 layers, hidden 4096."""
    tokens = 4096
    times = {n: served("llama-3.1-8b", chip("l40s", "vllm"), f"tp={n}").prefill_time(tokens) for n in (1, 2, 4, 8)}
    for n, gb_per_s in ((2, 20.1), (4, 5.16), (8, 1.45)):
        moved_s = 32 * 2 * (2 * (n - 1) / n) * (2 * 4096 * tokens) / (gb_per_s * 1e9)
        assert times[n].network_s[0] == pytest.approx(moved_s, rel=1e-3)
    assert times[2].total_s[0] < times[1].total_s[0] < times[4].total_s[0] < times[8].total_s[0]


def test_mla_decode_reads_the_whole_latent_cache_on_every_rank() -> None:
    # DeepSeek-V3: 61 layers of 512 + 64 latent values; a longer context costs its bytes at 4.8 TB/s and nothing else.
    many = served("deepseek-v3", chip("h200-sxm"), "tp=8")
    long, short = many.decode_time([16.0, 16.0], [32768.0, 16384.0]).total_s
    assert long - short == pytest.approx(16 * 16384 * 61 * 576 * 2 / 4.8e12, rel=0.02)


# Laws


@given(
    model=st.sampled_from(MODELS),
    hardware=st.sampled_from(CHIPS),
    name=st.sampled_from(STACKS),
    layout=st.sampled_from(LAYOUTS),
    tokens=st.lists(st.integers(1, 200_000), min_size=2, max_size=6, unique=True),
    cached=st.integers(0, 50_000),
)
def test_a_longer_prompt_never_takes_less(
    model: str, hardware: str, name: str, layout: str, tokens: list[int], cached: int
) -> None:
    new = np.sort(np.asarray(tokens, float))
    seconds = served(model, chip(hardware, name), layout, name).prefill_time(new, float(cached)).total_s
    assert (seconds > 0).all()
    assert (np.diff(seconds) >= -1e-9 * seconds[1:]).all()


@given(
    model=st.sampled_from(MODELS),
    hardware=st.sampled_from(CHIPS),
    name=st.sampled_from(STACKS),
    layout=st.sampled_from(LAYOUTS),
    batch=st.integers(1, 2000),
    context=st.integers(1, 200_000),
    more=st.floats(1.0, 4.0),
)
def test_a_step_takes_no_less_with_more_sequences_or_more_context(
    model: str, hardware: str, name: str, layout: str, batch: int, context: int, more: float
) -> None:
    many = served(model, chip(hardware, name), layout, name)
    batches, contexts = [batch, more * batch, batch], [context, context, more * context]
    base, fuller, longer = many.decode_time(np.asarray(batches, float), np.asarray(contexts, float)).total_s
    assert base <= fuller * ROUNDING
    assert base <= longer * ROUNDING


@given(model=st.sampled_from(MODELS), hardware=st.sampled_from(CHIPS), layout=st.sampled_from(LAYOUTS))
def test_twice_of_every_rate_halves_the_datasheets_time(model: str, hardware: str, layout: str) -> None:
    rates = ("bf16_tflops", "fp8_tflops", "fp4_tflops", "int8_tops", "memory_bandwidth_tb_per_s")
    links = ("scaleup_gb_per_s", "nic_gbps", "pcie_gb_per_s")
    slow, fast = served(model, chip(hardware), layout), served(model, faster(hardware, *rates, *links), layout)
    tokens, batch = np.array([100.0, 10_000.0]), np.array([1.0, 64.0])
    assert fast.prefill_time(tokens).total_s == pytest.approx(slow.prefill_time(tokens).total_s / 2)
    context = np.full(2, 4096.0)
    assert fast.decode_time(batch, context).total_s == pytest.approx(slow.decode_time(batch, context).total_s / 2)


@given(
    model=st.sampled_from(MODELS),
    hardware=st.sampled_from(CHIPS),
    name=st.sampled_from(STACKS),
    times=st.floats(1.0, 10.0),
)
def test_more_memory_bandwidth_is_never_slower(model: str, hardware: str, name: str, times: float) -> None:
    derated = name != "datasheet"
    slow = served(model, chip(hardware, name), name=name)
    fast = served(model, faster(hardware, "memory_bandwidth_tb_per_s", times=times, derated=derated), name=name)
    tokens, batch = np.array([100.0, 10_000.0]), np.array([1.0, 64.0])
    context = np.full(2, 4096.0)
    assert (fast.prefill_time(tokens).total_s <= slow.prefill_time(tokens).total_s * ROUNDING).all()
    assert (fast.decode_time(batch, context).total_s <= slow.decode_time(batch, context).total_s * ROUNDING).all()


@given(
    model=st.sampled_from(MODELS),
    hardware=st.sampled_from(CHIPS),
    tokens=st.integers(1, 100_000),
    batch=st.integers(1, 512),
    pair=st.sampled_from([("fp8", "bf16"), ("fp4", "fp8"), ("int8", "bf16"), ("int4", "bf16")]),
)
def test_narrower_weights_are_never_slower_on_the_datasheet(
    model: str, hardware: str, tokens: int, batch: int, pair: tuple[str, str]
) -> None:
    own = model_profile(model).checkpoint
    if own and own.bytes_per_weight.keys() & {*pair} and model_profile(model).precision in pair:
        return  # the checkpoint's own width counts its scales, which the format's does not
    narrow, wide = (served(model, chip(hardware), precision=precision) for precision in pair)
    assert narrow.prefill_time(float(tokens)).total_s <= wide.prefill_time(float(tokens)).total_s * ROUNDING
    steps = [one.decode_time(float(batch), 4096.0).total_s for one in (narrow, wide)]
    assert steps[0] <= steps[1] * ROUNDING


@given(
    model=st.sampled_from(MODELS),
    hardware=st.sampled_from(CHIPS),
    name=st.sampled_from(["vllm", "sglang", "trtllm"]),
    tokens=st.integers(1, 100_000),
)
def test_no_stack_is_faster_than_the_datasheet(model: str, hardware: str, name: str, tokens: int) -> None:
    bare, real = served(model, chip(hardware)), served(model, chip(hardware, name), name=name)
    assert bare.prefill_time(float(tokens)).total_s <= real.prefill_time(float(tokens)).total_s * ROUNDING
    assert bare.decode_time(64.0, 4096.0).total_s <= real.decode_time(64.0, 4096.0).total_s * ROUNDING


@given(
    question=st.builds(
        PredictQuestion,
        st.sampled_from(MODELS),
        st.sampled_from(CHIPS),
        stack=st.sampled_from([None, *STACKS]),
        context_tokens=st.integers(1, 100_000),
    )
)
def test_a_time_lies_in_its_own_band_and_seconds_are_null_together(question: PredictQuestion) -> None:
    found = predict(question)
    rows: list[Any] = [(row.prefill_s, row.low_s, row.high_s) for row in found.prefill]
    rows += [(row.step_s, row.low_s, row.high_s) for row in found.decode]
    for value, low, high in rows:
        assert (value is None) <= (low is None)
        assert (low is None) == (high is None)
    assert [(low, high) for _, low, high in rows if low is not None and low > high] == []
    assert found.fits == all(row.step_s is not None for row in found.decode)
    assert all(row.fits == (row.prefill_s is not None) for row in found.prefill)
    assert found.fits >= any(row.fits for row in found.prefill)
    assert found.fits >= any(row.fits for row in found.decode)


# Chunks


@given(
    model=st.sampled_from(MODELS),
    new=st.integers(1, 60_000),
    cached=st.integers(0, 30_000),
    chunk=st.sampled_from([512, 2048, 8192]),
)
def test_chunks_compute_every_token_once_and_all_pairs_of_the_whole(
    model: str, new: int, cached: int, chunk: int
) -> None:
    passes = prefill_passes(np.array([float(new)]), np.array([float(cached)]), chunk)
    one = Sequences.prefill(float(new), float(cached))
    assert float(passes.times @ passes.sequences.new_tokens) == new
    assert float(passes.times @ passes.sequences.pairs()) == pytest.approx(float(one.pairs()), rel=1e-12)
    assert float(passes.is_first.sum()) == 1
    profile = model_profile(model)
    is_bent = any(group.kind == "swa" or getattr(group, "indexer", None) for group in profile.architecture.attention)
    if not is_bent:  # windows and sparse attention bend within the middle chunks, which are timed as their mean
        chunked = total_flop(_shared_out(profile, passes.sequences)) @ passes.times
        assert chunked == pytest.approx(float(total_flop(_shared_out(profile, one))), rel=1e-9)


def _shared_out(profile: ModelProfile, sequences: Sequences) -> list[Operator]:
    """Operators whose work chunks share: not the vocabulary's row, nor latents that each chunk expands anew."""
    return [o for o in pass_operators(profile, [sequences]) if o.name not in ("lm_head", "kv_b_proj")]
