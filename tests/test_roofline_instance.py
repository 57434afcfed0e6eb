"""Service times, bytes and transfers of one instance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.profiles import model_profile
from planner.roofline import (
    exposed_transfer_s,
    instance_rates,
    kv_bytes_curve,
    kv_bytes_per_token,
    recurrent_state_bytes,
)

MIB = 2**20
SECONDS = st.floats(1e-3, 100.0)
BYTES = st.floats(1e3, 1e12)
BANDWIDTH = st.floats(1e6, 1e12)
LAYERS = st.integers(1, 200)


@pytest.mark.parametrize(("tokens", "mib"), [(1024, 190.8), (8192, 308.9), (32_000, 701.3), (130_000, 2316.3)])
def test_shapes_give_the_published_cache_sizes_of_table_5(tokens: int, mib: float) -> None:
    """arXiv 2604.15039v2, Table 5, printed to 0.1 MiB; the last row is `about` 130,000 tokens."""
    size = float(kv_bytes_curve(model_profile("prfaas-1t"))(tokens)) / MIB
    assert size == pytest.approx(mib, abs=0.06 if tokens < 100_000 else 0.1)


def test_dense_attention_caches_keys_and_values_of_every_layer() -> None:
    """Qwen3-235B: 94 layers x 2 x 4 heads x 128 values x 2 bytes."""
    model = model_profile("qwen3-235b")
    assert kv_bytes_per_token(model) == 94 * 2 * 4 * 128 * 2
    assert recurrent_state_bytes(model) == 0


def test_hybrid_model_keeps_a_state_that_does_not_grow() -> None:
    """42 KDA layers x 64 heads x (128 x 128 fp32 + three bf16 taps of 3 x 128 channels)."""
    model = model_profile("prfaas-1t")
    assert recurrent_state_bytes(model) == 42 * 64 * (128 * 128 * 4 + 3 * 3 * 128 * 2)
    assert kv_bytes_per_token(model) == 15 * (512 + 64) * 2
    assert float(kv_bytes_curve(model)(0)) == recurrent_state_bytes(model)


@pytest.mark.parametrize(
    ("precision", "ratio"), [("bf16", 1), ("fp8", 0.5), ("int8", 0.5), ("int4", 0.25), ("fp4", 0.25)]
)
def test_cache_precision_scales_the_cache_and_not_the_state(precision: str, ratio: float) -> None:
    model = model_profile("prfaas-1t")
    curve = kv_bytes_curve(model, precision)
    assert kv_bytes_per_token(model, precision) == ratio * kv_bytes_per_token(model)
    assert float(curve(0)) == recurrent_state_bytes(model)


def test_an_unknown_precision_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        kv_bytes_per_token(model_profile("prfaas-1t"), "fp2")


def test_measured_instance_runs_through_its_published_rows() -> None:
    model = model_profile("prfaas-1t")
    rates = instance_rates(model, model.measured["table-5"])
    assert rates.prefill is not None
    assert rates.prefill.curve([1024, 8192, 32_000, 130_000]) == pytest.approx([0.44, 0.72, 1.84, 7.40])
    assert rates.kv_bytes([1024, 130_000]) / MIB == pytest.approx([190.8, 2316.3])
    assert (rates.decode, rates.n_layers, rates.basis) == (None, 57, "measured")


def test_inferred_instance_has_its_decode_point_and_takes_bytes_from_the_shapes() -> None:
    model = model_profile("prfaas-1t")
    rates = instance_rates(model, model.measured["table-6-h20"])
    assert rates.basis == "inferred"
    assert rates.decode is not None
    assert 1024 / rates.decode.seconds_per_request(1024) == pytest.approx(801, rel=2e-3)
    assert float(rates.kv_bytes(8192)) == float(kv_bytes_curve(model)(8192))


@given(prefill_s=SECONDS, sent=BYTES, bytes_per_s=BANDWIDTH)
def test_without_layers_to_stream_the_whole_transfer_follows_prefill(
    prefill_s: float, sent: float, bytes_per_s: float
) -> None:
    for n_layers in (1, None):
        assert exposed_transfer_s(prefill_s, sent, bytes_per_s, 0.0, n_layers) == pytest.approx(sent / bytes_per_s)


@given(prefill_s=SECONDS, bytes_per_s=BANDWIDTH, n_layers=LAYERS, slack=st.floats(0.0, 0.999))
def test_a_link_that_keeps_up_exposes_the_last_layer_only(
    prefill_s: float, bytes_per_s: float, n_layers: int, slack: float
) -> None:
    """S / B <= T: layer i is sent while layer i + 1 computes."""
    sent = slack * prefill_s * bytes_per_s
    exposed = exposed_transfer_s(prefill_s, sent, bytes_per_s, 0.0, n_layers)
    assert exposed == pytest.approx(sent / bytes_per_s / n_layers)


@given(prefill_s=SECONDS, bytes_per_s=BANDWIDTH, n_layers=LAYERS, factor=st.floats(1.001, 1000.0))
def test_a_link_that_cannot_keep_up_is_busy_from_the_first_layer_to_the_end(
    prefill_s: float, bytes_per_s: float, n_layers: int, factor: float
) -> None:
    """S / B > T: the link starts after layer one and never idles, so the end is T / n + S / B."""
    sent = factor * prefill_s * bytes_per_s
    exposed = exposed_transfer_s(prefill_s, sent, bytes_per_s, 0.0, n_layers)
    assert prefill_s + exposed == pytest.approx(prefill_s / n_layers + sent / bytes_per_s)


@given(prefill_s=SECONDS, sent=BYTES, bytes_per_s=BANDWIDTH, n_layers=st.integers(1, 40))
def test_exposed_transfer_is_that_of_a_schedule_played_layer_by_layer(
    prefill_s: float, sent: float, bytes_per_s: float, n_layers: int
) -> None:
    free_s = 0.0
    for layer in range(1, n_layers + 1):
        free_s = max(free_s, layer * prefill_s / n_layers) + sent / n_layers / bytes_per_s
    exposed = exposed_transfer_s(prefill_s, sent, bytes_per_s, 0.0, n_layers)
    assert exposed == pytest.approx(free_s - prefill_s, rel=1e-6, abs=1e-9 * (free_s + prefill_s))


@given(prefill_s=SECONDS, sent=BYTES, bytes_per_s=BANDWIDTH, n_layers=LAYERS, round_trip_s=st.floats(0, 1))
def test_half_a_round_trip_is_added_and_nothing_else(
    prefill_s: float, sent: float, bytes_per_s: float, n_layers: int, round_trip_s: float
) -> None:
    near, far = (exposed_transfer_s(prefill_s, sent, bytes_per_s, s, n_layers) for s in (0.0, round_trip_s))
    assert far - near == pytest.approx(round_trip_s / 2, rel=1e-9, abs=1e-12 * (1 + float(far)))


def test_transfers_keep_the_shape_of_their_inputs() -> None:
    exposed = exposed_transfer_s(np.ones((2, 3)), np.full((2, 3), 1e9), 1e9, 0.0, 10)
    assert exposed.shape == (2, 3)
    assert exposed_transfer_s(1.0, 0.0, 1e9, 0.0, 10) == 0.0
