"""Attention of prompts: what its tiles lose by length, heads and cached tokens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.profiles import GqaLayers, SwaLayers, hardware_profile, profile_names
from planner.roofline import Chip, Sequences
from planner.roofline.attention import head_attention
from planner.roofline.chip import ATTENTION_HEADS, ATTENTION_TOKENS
from planner.roofline.kernel_rates import TYPICAL_HALF_TOKENS
from planner.roofline.operator import FloatArray

MEASURED = [
    *("a100-sxm-80gb", "b200-sxm", "b300-sxm", "gb200", "gb300"),
    *("h100-sxm", "h20-141gb", "h20-96gb", "h200-sxm", "l40s"),
]
TOKENS = np.array([256.0, 1024, 4096, 16384, 65536])


def heads(n: int) -> GqaLayers:
    return GqaLayers(kind="gqa", n_layers=1, n_heads=n, n_kv_heads=1, head_dim=128)


def reached(chip: Chip, layers: GqaLayers | SwaLayers, sequences: Sequences) -> FloatArray:
    """Fraction of the peak that attention reaches before any stack."""
    operator, peak = head_attention(layers, sequences), chip.peak_flop_per_s("bf16")
    assert operator.tiles is not None
    ideal = operator.flop / peak
    rate = chip.kernel_rate("attention_prefill")
    fixed_s, divided_s = rate.seconds(ideal, chip.ceiling, chip.tiled_s(ideal, operator.tiles, peak))
    return ideal / (fixed_s + divided_s)


@pytest.mark.parametrize("name", MEASURED)
def test_at_the_lengths_that_were_measured_attention_reaches_the_measured_fraction(name: str) -> None:
    hardware = hardware_profile(name)
    fraction = hardware.efficiency.attention_prefill_fraction
    assert fraction is not None
    found = reached(Chip(hardware), heads(int(ATTENTION_HEADS)), Sequences.prefill(ATTENTION_TOKENS))
    assert float(found) == pytest.approx(fraction.value, rel=1e-3)


@pytest.mark.parametrize("name", MEASURED)
def test_of_many_heads_a_prompt_of_the_half_length_reaches_half_of_an_endless_one(name: str) -> None:
    hardware = hardware_profile(name)
    half = hardware.efficiency.attention_half_tokens
    assert half is not None
    short, endless = (
        float(reached(Chip(hardware), heads(100_000), Sequences.prefill(tokens))) for tokens in (half.value, 1e9)
    )
    assert short == pytest.approx(endless / 2, rel=0.02)


@pytest.mark.parametrize("name", profile_names("hardware"))
def test_longer_prompts_more_heads_and_more_prompts_fill_an_accelerator_better(name: str) -> None:
    hardware = hardware_profile(name)
    if not hardware.peak_flop_per_s("bf16"):
        pytest.skip("its peak is unknown")
    chip = Chip(hardware)
    few, many = (reached(chip, heads(n), Sequences.prefill(TOKENS)) for n in (4, 64))
    assert (np.diff(few) > 0).all()
    assert (few < many).all()
    assert (few < reached(chip, heads(4), Sequences.prefill(TOKENS, 0, 8))).all()
    assert (many <= 1).all()


@given(st.integers(64, 8192), st.integers(1, 100_000))
def test_a_chunk_on_cached_tokens_reaches_more_than_one_alone(tokens: int, cached: int) -> None:
    """Its tiles are longer; only what is lost at the end grows with them."""
    chip = Chip(hardware_profile("h200-sxm"))
    alone, later = (reached(chip, heads(4096), Sequences.prefill(tokens, before)) for before in (0, cached))
    assert later > alone


def test_a_window_keeps_tiles_short_however_long_the_prompt() -> None:
    chip, sequences = Chip(hardware_profile("b200-sxm")), Sequences.prefill(np.array([2048.0, 65536.0]))
    window = SwaLayers(kind="swa", n_layers=1, n_heads=64, n_kv_heads=8, head_dim=128, window=128)
    short, long = reached(chip, window, sequences)
    assert long < 2 * short < reached(chip, heads(64), sequences)[0]


def test_without_timings_by_length_the_loss_is_typical_of_the_accelerators_balance() -> None:
    """What starting a tile costs is time, in which an accelerator of a lower peak over bandwidth computes less."""
    fast, slow = Chip(hardware_profile("tpu-v6e")), Chip(hardware_profile("h20-96gb"))
    short, long = (float(reached(fast, heads(100_000), Sequences.prefill(n))) for n in (TYPICAL_HALF_TOKENS, 1e9))
    assert short < long
    loss_fast, loss_slow = (
        float(np.subtract(*(1 / reached(chip, heads(100_000), Sequences.prefill(np.array([512.0, 65536.0]))))))
        for chip in (fast, slow)
    )
    assert loss_slow < loss_fast


def test_neither_decode_nor_the_bare_datasheet_has_tiles() -> None:
    assert head_attention(heads(8), Sequences.decode(8, 4096)).tiles is None
    assert (reached(Chip(hardware_profile("h100-sxm"), derated=False), heads(8), Sequences.prefill(TOKENS)) == 1).all()
