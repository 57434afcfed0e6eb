"""Cache and state bytes: the references' derived sizes, Table 5, a measured physical size, and laws."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.profiles import GqaLayers, model_profile, profile_names
from planner.roofline import (
    index_key_bytes_per_token,
    kv_bytes,
    kv_bytes_curve,
    kv_bytes_per_rank,
    kv_bytes_per_token,
    physical_kv_bytes,
    physical_kv_bytes_per_token,
    recurrent_state_bytes,
    window_bytes,
    wire_bytes,
)
from planner.roofline.kv_cache import layer_state_bytes
from planner.roofline.kv_memory import layer_shard
from tests.test_profiles_parameters import REFERENCES, Reference

NAMES = profile_names("model")
PRECISIONS = ("bf16", "fp8", "fp4")
any_model = st.sampled_from(NAMES)


@pytest.mark.parametrize(("name", "reference"), REFERENCES.items(), ids=REFERENCES)
def test_bytes_per_token_and_fixed_state_are_the_references(name: str, reference: Reference) -> None:
    model = model_profile(name)
    assert kv_bytes_per_token(model) == reference.kv_bytes_per_token
    assert kv_bytes_per_token(model, "fp8") == reference.kv_bytes_per_token / 2
    fixed = recurrent_state_bytes(model) + float(window_bytes(model, 10_000))
    assert fixed == reference.fixed_state_bytes


@pytest.mark.parametrize("name", ["prfaas-1t", "prfaas-1t-inferred"])
def test_table_5_sizes_are_met_within_a_thousandth(name: str) -> None:
    printed = np.array([190.8, 308.9, 701.3, 2316.3])
    found = kv_bytes(model_profile(name), [1024, 8192, 32_000, 130_000]) / 2**20
    assert found == pytest.approx(printed, rel=1e-3)


def test_sparse_attention_keeps_index_keys_beside_its_latents() -> None:
    """Sizes per token of the reference files: 656 bytes fp8 (FlashMLA) or 1152 bf16, and 132 of index key."""
    for name, n_layers, bf16, fp8 in (("deepseek-v3.2", 61, 78_324, 48_068), ("glm-5", 78, 100_152, 61_464)):
        model = model_profile(name)
        assert index_key_bytes_per_token(model) == 132 * n_layers
        assert physical_kv_bytes_per_token(model) == bf16
        assert physical_kv_bytes_per_token(model, "fp8") == fp8
        assert float(wire_bytes(model, 1)) == bf16
        assert kv_bytes_per_token(model) == 1152 * n_layers


@pytest.mark.parametrize(
    ("name", "tp", "physical"),
    [("qwen3-235b", 8, 385_024), ("qwen3-next-80b", 8, 98_304), ("qwen3.5-397b", 8, 122_880)],
)
def test_heads_are_copied_where_ranks_exceed_them(name: str, tp: int, physical: int) -> None:
    assert physical_kv_bytes_per_token(model_profile(name), tp_size=tp) == physical


def test_latents_are_whole_on_every_rank_and_heads_are_not() -> None:
    for tp in (1, 2, 8):
        assert physical_kv_bytes_per_token(model_profile("deepseek-v3"), tp_size=tp) == tp * 70_272
        assert physical_kv_bytes_per_token(model_profile("llama-3.1-70b"), tp_size=tp) == 327_680


def test_h20_hand_off_sizes_are_met_within_their_rounding(data_file: Callable[[str], Path]) -> None:
    with data_file("measured/h20_prefill.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert rows
    for row in rows:
        megabytes = float(physical_kv_bytes(model_profile(row["model"]), int(row["input_tokens"]), tp_size=8)) / 1e6
        printed = float(row["kv_mb_physical_tp8"])
        assert abs(megabytes - printed) <= (0.5 if printed < 1000 else 5), row


def test_a_request_occupies_whole_blocks() -> None:
    model = model_profile("llama-3.1-8b")
    assert physical_kv_bytes(model, [1, 64, 65]).tolist() == [64 * 131_072, 64 * 131_072, 128 * 131_072]
    assert physical_kv_bytes(model, 65, block_tokens=1) == 65 * 131_072


def test_stages_share_the_layers_and_the_fullest_counts() -> None:
    model = model_profile("llama-3.1-8b")
    whole = kv_bytes_per_rank(model, 4096, tp_size=4)
    assert float(kv_bytes_per_rank(model, 4096, tp_size=4, pp_size=2)) == float(whole) / 2
    # 20 KDA and 7 MLA layers, of these 11 and 3 on the first of two stages, 9 and 4 on the second.
    hybrid = model_profile("kimi-linear-48b")
    kda, mla = (float(layer_state_bytes(layer_shard(hybrid.architecture.attention[0], 4))), 4096 * 576 * 2.0)
    assert float(kv_bytes_per_rank(hybrid, 4096, tp_size=4, pp_size=2)) == max(11 * kda + 3 * mla, 9 * kda + 4 * mla)


def test_a_shard_of_odd_heads_is_the_largest() -> None:
    group = GqaLayers(kind="gqa", n_layers=1, n_heads=12, n_kv_heads=6, head_dim=64)
    shard = layer_shard(group, 4)
    assert isinstance(shard, GqaLayers)
    assert shard.n_kv_heads == 2


@pytest.mark.parametrize("name", NAMES)
def test_the_curve_is_the_bytes_at_every_length(name: str) -> None:
    model = model_profile(name)
    tokens = np.array([0, 1, 64, 127, 128, 129, 5000, 131_072])
    for precision in PRECISIONS:
        curve = kv_bytes_curve(model, precision)
        assert curve(tokens) == pytest.approx(kv_bytes(model, tokens, precision), rel=1e-12)
        assert not curve.is_extrapolated(tokens).any()


@given(any_model, st.integers(0, 200_000), st.integers(0, 200_000), st.sampled_from(PRECISIONS))
def test_bytes_never_fall_with_tokens(name: str, tokens: int, more: int, precision: str) -> None:
    model = model_profile(name)
    few, many = kv_bytes(model, [tokens, tokens + more], precision).tolist()
    assert few <= many
    assert many - few <= more * (kv_bytes_per_token(model, precision) + float(window_bytes(model, 1, precision))) + 1


@given(any_model, st.integers(1, 200_000), st.sampled_from([1, 2, 4, 8, 16]))
def test_physical_is_never_less_than_logical_and_a_rank_never_more_than_it_alone(
    name: str, tokens: int, tp: int
) -> None:
    model = model_profile(name)
    assert float(physical_kv_bytes(model, tokens, tp_size=tp)) >= float(kv_bytes(model, tokens)) * (1 - 1e-12)
    alone, shared = (float(kv_bytes_per_rank(model, tokens, tp_size=n)) for n in (1, tp))
    assert shared <= alone


@given(any_model, st.integers(1, 100_000))
def test_layers_add_up(name: str, tokens: int) -> None:
    model = model_profile(name)
    shapes = model.architecture
    each = [
        model.model_copy(update={"architecture": shapes.model_copy(update={"attention": (group,)})})
        for group in shapes.attention
    ]
    assert sum(float(kv_bytes(part, tokens)) for part in each) == pytest.approx(
        float(kv_bytes(model, tokens)), rel=1e-12
    )
