"""One rank's share of a pass, and its seconds, against arithmetic written out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from planner.errors import InputError
from planner.profiles import ModelProfile, hardware_profile, model_profile
from planner.roofline import (
    Chip,
    Factors,
    InstanceModel,
    Layout,
    RankWork,
    Sequences,
    operator_seconds,
    pass_operators,
    pass_time,
    rank_work,
    weights_bytes,
)
from planner.roofline.factors import DATASHEET
from planner.roofline.rank_work import GEMM
from tests.model_counts import total_flop

H200 = Chip(hardware_profile("h200-sxm"))
BARE = Chip(hardware_profile("h200-sxm"), derated=False)
LLAMA = model_profile("llama-3.1-8b")
MOE = model_profile("qwen3-235b")


def work(model: ModelProfile, layout: Layout, *parts: Sequences, chip: Chip = BARE) -> RankWork:
    return rank_work(model, chip, layout, parts or (Sequences.decode(1, 1024),))


def summed(found: RankWork, column: str, *names: str) -> float:
    chosen = np.isin(found.name, names) if names else np.ones(found.name.shape, bool)
    return float((found.n_layers * getattr(found, column))[chosen].sum())


def test_one_rank_alone_has_all_the_work_of_the_model() -> None:
    parts = [Sequences.prefill(777, 55)]
    assert summed(work(LLAMA, Layout(), *parts), "flop") == pytest.approx(
        float(total_flop(pass_operators(LLAMA, parts)))
    )


def test_weights_of_a_rank_are_the_models_over_the_ranks_but_for_what_is_copied() -> None:
    one, eight = (summed(work(LLAMA, Layout(tp_size=n)), "weight_s") for n in (1, 8))
    assert eight == pytest.approx(one / 8, rel=1e-9)
    total = sum(weights_bytes(LLAMA).values())
    # The embedding table is read row by row: one row of 4096 bf16 values for the one token.
    embedding = weights_bytes(LLAMA)["embedding"]
    norms = weights_bytes(LLAMA)["norms"]
    assert one == pytest.approx((total - embedding - norms + 4096 * 2) / 4.8e12, rel=1e-6)


def test_a_bare_decode_step_of_one_sequence_is_its_bytes_over_the_bandwidth() -> None:
    served = InstanceModel(LLAMA, BARE, Layout(), DATASHEET)
    step = float(served.decode_time([1], [1024]).total_s[0])
    weights = sum(n for part, n in weights_bytes(LLAMA).items() if part not in ("embedding", "norms"))
    cache = 1024 * 32 * 2 * 8 * 128 * 2
    assert step == pytest.approx((weights + cache) / 4.8e12, rel=0.01)


def test_the_products_of_a_bare_long_prefill_take_their_flops_over_the_peak() -> None:
    served = InstanceModel(LLAMA, BARE, Layout(), DATASHEET, chunk_tokens=8192)
    time = served.prefill_time([8192])
    flop = float(total_flop(pass_operators(LLAMA, [Sequences.prefill(8192)])))
    assert float(time.compute_s[0]) == pytest.approx(flop / 989e12, rel=0.001)
    # What is left are norms and activations, which only move bytes, and the last token's lm_head.
    assert float(time.memory_s[0]) < 0.07 * float(time.compute_s[0])


def test_experts_are_dealt_out_and_split_so_that_ranks_share_tokens_and_weights() -> None:
    experts = ("experts_gate_up", "experts_down")
    parts = [Sequences.decode(64, 2048)]
    one = work(MOE, Layout(tp_size=1), *parts)
    for layout in (Layout(tp_size=8), Layout(tp_size=8, ep_size=8), Layout(tp_size=4, dp_size=2, ep_size=4)):
        shared = work(MOE, layout, *parts)
        assert summed(shared, "flop", *experts) == pytest.approx(summed(one, "flop", *experts) / 8)
        assert summed(shared, "weight_s", *experts) == pytest.approx(summed(one, "weight_s", *experts) / 8)


def test_a_rank_reads_whole_inputs_or_writes_whole_outputs_however_many_share_a_product() -> None:
    rows, hidden, inner = 100.0, 4096, 14336
    found = work(LLAMA, Layout(tp_size=8), Sequences.prefill(rows))
    wanted = 32 * 2 * rows * (hidden + 2 * inner / 8) / 4.8e12
    assert summed(found, "activation_s", "gate_up_proj") == pytest.approx(wanted)
    wanted = 32 * 2 * rows * (hidden + inner / 8) / 4.8e12
    assert summed(found, "activation_s", "down_proj") == pytest.approx(wanted)


def test_attention_replicas_share_sequences_and_experts_but_not_one_sequences_attention() -> None:
    parts = [Sequences.decode(64, 4096)]
    replicas, tensor = work(MOE, Layout(tp_size=4, dp_size=2), *parts), work(MOE, Layout(tp_size=4), *parts)
    assert summed(replicas, "kv_s", "attention") == pytest.approx(summed(tensor, "kv_s", "attention") / 2)
    assert summed(replicas, "weight_s", "qkv_proj") == pytest.approx(summed(tensor, "weight_s", "qkv_proj"))


def test_an_all_reduce_moves_twice_the_tokens_but_for_the_own_share() -> None:
    n, rows, hidden = 8, 1000.0, 4096
    found = work(LLAMA, Layout(tp_size=n), Sequences.prefill(rows))
    each = 2 * (n - 1) / n * rows * hidden * 2 / 450e9
    assert summed(found, "transfer_s", "all_reduce_attention", "all_reduce_mlp") == pytest.approx(2 * 32 * each)
    assert summed(work(LLAMA, Layout(), Sequences.prefill(rows)), "transfer_s") == 0


def test_the_recurrence_of_a_long_prompt_does_not_shrink_with_more_ranks() -> None:
    kimi = model_profile("kimi-linear-48b")
    few, many = (
        summed(work(kimi, Layout(tp_size=n), Sequences.prefill(32768), chip=H200), "serial_s", "recurrence")
        for n in (1, 8)
    )
    assert few == many
    assert few == pytest.approx(20 * 32768 / 64 * H200.recurrence_chunk_s)


def test_an_operator_takes_the_longer_of_its_products_and_its_bytes() -> None:
    found = work(LLAMA, Layout(), Sequences.prefill([1.0, 4096.0]), chip=H200)
    compute, memory = operator_seconds(found, Factors())
    time = pass_time(found, replace(DATASHEET, tile_rows=Factors().tile_rows))
    assert (compute[found.pass_index == 0].sum() < memory[found.pass_index == 0].sum()).item()
    assert time.bound.tolist() == ["memory", "compute"]


def test_tiles_waste_nothing_that_was_not_measured_and_more_the_fewer_rows_there_are() -> None:
    """Fractions of the peak were measured from 256 rows on, with what tiles waste there."""
    rows = np.array([1.0, 16.0, 64.0, 255.0, 256.0, 1000.0, 8192.0])
    found = work(LLAMA, Layout(), Sequences.prefill(rows), chip=H200)
    wasteful, exact = (operator_seconds(found, Factors(tile_rows=tile))[0] for tile in (64.0, 0.0))
    is_product = (found.work_class == GEMM) & (found.rows == rows[found.pass_index])
    sums = (np.bincount(found.pass_index[is_product], seconds[is_product]) for seconds in (wasteful, exact))
    more = np.divide(*sums)
    assert more == pytest.approx((1 + 32 / np.minimum(rows, 256)) / (1 + 32 / 256))
    assert (np.diff(more) <= 0).all()
    assert more[0] == pytest.approx(33 / 1.125)


def test_passes_timed_together_take_what_each_takes_alone() -> None:
    single = [
        pass_time(work(MOE, Layout(tp_size=8), Sequences.decode(n, 2048), chip=H200), Factors(), n) for n in (1, 32)
    ]
    joined = RankWork.joined([work(MOE, Layout(tp_size=8), Sequences.decode(n, 2048), chip=H200) for n in (1, 32)])
    both = pass_time(joined, Factors(), np.array([1, 32]))
    assert both.total_s == pytest.approx([float(time.total_s[0]) for time in single])


def test_a_prompt_in_chunks_has_the_flops_of_a_whole_one() -> None:
    whole = InstanceModel(LLAMA, BARE, Layout(), DATASHEET, chunk_tokens=1 << 20)
    chunked = InstanceModel(LLAMA, BARE, Layout(), DATASHEET, chunk_tokens=2048)
    tokens = [5000.0, 16384.0]
    assert chunked.prefill_time(tokens).compute_s == pytest.approx(whole.prefill_time(tokens).compute_s, rel=0.01)


def test_pipeline_stages_cost_latency_but_share_the_work_of_many_chunks() -> None:
    one = InstanceModel(MOE, H200, Layout(tp_size=8), Factors())
    two = InstanceModel(MOE, H200, Layout(tp_size=8, pp_size=2), Factors())
    short, long = [1024.0], [131072.0]
    assert float(two.prefill_time(short).total_s[0]) >= float(one.prefill_time(short).total_s[0]) * 0.99
    assert float(two.prefill_time(long).total_s[0]) < 0.6 * float(one.prefill_time(long).total_s[0])


def test_quantised_inputs_cost_a_kernel_only_where_products_run_in_the_weights_format() -> None:
    fp8 = rank_work(LLAMA, H200, Layout(), [Sequences.decode(1, 1)], precision="fp8")
    fp4 = rank_work(LLAMA, H200, Layout(), [Sequences.decode(1, 1)], precision="fp4")
    bf16 = rank_work(LLAMA, H200, Layout(), [Sequences.decode(1, 1)])
    assert summed(fp8, "n_kernels") == summed(bf16, "n_kernels") + 4 * 32
    assert summed(fp4, "n_kernels") == summed(bf16, "n_kernels")


def test_host_work_hides_behind_a_long_pass_and_shows_in_a_short_one() -> None:
    found = work(LLAMA, Layout(), Sequences.prefill([1.0, 8192.0]))
    slow = replace(DATASHEET, host_step_s=0.02)
    longer = pass_time(found, slow).total_s - pass_time(found, DATASHEET).total_s
    assert longer[0] > 0.015
    assert longer[1] < 0.001


def test_more_stages_than_layers_are_refused() -> None:
    with pytest.raises(InputError, match=r"at most 32, the layers of llama-3\.1-8b"):
        InstanceModel(LLAMA, H200, Layout(pp_size=33), Factors())
