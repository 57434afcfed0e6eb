"""The same model in torch: weights, counts, caches and bytes are NumPy's, and logits what NumPy gives.

Without rounding of caches, fp32 logits may differ by what sums in another order do. With it a value that lies at the
border between two bf16 values may fall to either side, which moves logits by a part in a thousand; so what is rounded
is compared in fp64, where values lie a billion times closer together.
"""

from typing import Any

import numpy as np
import pytest

from planner.hybrid import (
    BlockPool,
    DecodeBatch,
    HybridModel,
    PrefixCache,
    RequestCache,
    block_layout,
    hybrid_model,
    shrunk,
)
from planner.hybrid.arrays import HOST, Backend, n_values, to_host
from planner.hybrid.machine import gemm_flop_per_s, machine_description
from planner.hybrid.numerics import rounded_to_bf16
from planner.hybrid.timing import DecodePoint, PrefillPoint, time_models
from planner.profiles import model_profile
from tests.hybrid_requests import request_payload, take_request

torch = pytest.importorskip("torch")
pytest.importorskip("array_api_compat")

SMALL = shrunk(
    model_profile("kimi-linear-48b"),
    "small",
    n_layers=8,
    hidden_size=64,
    n_heads=2,
    head_dim=16,
    n_experts=8,
    vocab_size=128,
)
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")),
]
PROMPT = np.random.default_rng(5).integers(0, 128, 203)


@pytest.fixture(params=DEVICES)
def backend(request: pytest.FixtureRequest) -> Backend:
    return Backend("torch", request.param)


def both(backend: Backend, **options: Any) -> tuple[HybridModel, HybridModel]:
    return hybrid_model(SMALL, 3, **options), hybrid_model(SMALL, 3, backend=backend, **options)


def relative_difference(a: Any, b: Any) -> float:
    a, b = to_host(a), to_host(b)
    return float(np.abs(a - b).max() / np.abs(b).max())


def prefilled(model: HybridModel, chunk_tokens: int = 64) -> tuple[RequestCache, Any]:
    cache = model.empty_cache()
    return cache, model.prefill(PROMPT, cache, chunk_tokens=chunk_tokens)


def decoded(model: HybridModel, cache: RequestCache, n_steps: int = 6) -> list[Any]:
    """A request beside a shorter one, so that a batch holds two lengths."""
    other = model.empty_cache()
    model.prefill(PROMPT[:7], other)
    batch = DecodeBatch(model, 3)
    for each in (cache, other):
        batch.join(each)
    return [model.decode(np.array([step, 2 * step]), batch) for step in range(n_steps)]


@pytest.mark.parametrize("chunk_tokens", [37, 64, 512])
def test_logits_of_a_prompt_are_those_of_numpy_whatever_its_chunks(backend: Backend, chunk_tokens: int) -> None:
    found, expected = (prefilled(model, chunk_tokens)[1] for model in reversed(both(backend, rounds_cache=False)))
    assert relative_difference(found, expected) < 1e-4


def test_logits_of_decode_steps_are_those_of_numpy(backend: Backend) -> None:
    expected, found = (decoded(model, prefilled(model)[0]) for model in both(backend, rounds_cache=False))
    assert max(map(relative_difference, found, expected)) < 1e-4


def test_absorbed_attention_gives_the_logits_of_numpy(backend: Backend) -> None:
    expected, found = (
        model.prefill(PROMPT, model.empty_cache(), absorbed=True) for model in both(backend, rounds_cache=False)
    )
    assert relative_difference(found, expected) < 1e-4


def test_rounded_caches_are_byte_for_byte_those_of_numpy(backend: Backend) -> None:
    plain, moved = both(backend, dtype=np.float64)
    (expected, logits), (found, moved_logits) = prefilled(plain), prefilled(moved)
    assert relative_difference(moved_logits, logits) < 1e-10
    for kept, own, payload, own_payload in zip(
        expected.layers, found.layers, request_payload(expected), request_payload(found), strict=True
    ):
        assert len(payload) == len(own_payload)
        if kept in expected.latents:
            assert payload == own_payload
        else:
            # fp32 of two fp64 states: the last bit may fall to either side.
            state_bytes = 4 * n_values(kept.state)
            mine, theirs = (np.frombuffer(p[:state_bytes], "<f4") for p in (own_payload, payload))
            np.testing.assert_allclose(mine, theirs, rtol=2**-23, atol=1e-12)
            assert payload[state_bytes:] == own_payload[state_bytes:]
            assert own in found.states


def test_a_cache_that_numpy_sent_goes_on_in_torch_and_back_unchanged(backend: Backend) -> None:
    plain, moved = both(backend)
    sent = request_payload(prefilled(plain)[0])
    received, returned = moved.empty_cache(), plain.empty_cache()
    take_request(received, sent, len(PROMPT))
    assert request_payload(received) == sent
    take_request(returned, request_payload(received), len(PROMPT))
    assert request_payload(returned) == sent
    free, free_moved = both(backend, rounds_cache=False)
    assert max(map(relative_difference, decoded(free_moved, received), decoded(free, returned))) < 1e-4


def test_a_prompt_resumed_from_kept_blocks_gives_the_logits_of_one_computed_whole(backend: Backend) -> None:
    model = hybrid_model(SMALL, 3, backend=backend)
    kept = PrefixCache(model.mixers, BlockPool(block_layout(model, 32), 64))
    first, again = model.empty_cache(), model.empty_cache()
    model.prefill(PROMPT[:192], first)
    assert kept.keep(PROMPT[:192], first)
    assert kept.resume(PROMPT, again) == 192
    resumed, whole = model.prefill(PROMPT[192:], again), model.prefill(PROMPT[192:], first)
    assert relative_difference(resumed, whole) < 1e-6
    assert request_payload(again) == request_payload(first)


def test_operations_are_counted_alike(backend: Backend) -> None:
    plain, moved = both(backend)
    for model in (plain, moved):
        decoded(model, prefilled(model)[0])
    assert moved.products == plain.products


def test_values_are_rounded_to_bf16_as_numpy_rounds_them() -> None:
    drawn = np.random.default_rng(0).integers(0, 2**32, 20000, dtype=np.uint32).view(np.float32)
    ties = np.array([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 0.0, -0.0], np.float32)
    # What rounds up beyond the largest bf16 is left out with what is no number.
    values = np.concatenate([drawn[np.abs(drawn) < 3e38], ties])
    assert np.array_equal(to_host(rounded_to_bf16(torch.tensor(values))), rounded_to_bf16(values))


def test_passes_and_products_are_timed_where_the_model_is(backend: Backend) -> None:
    model = hybrid_model(SMALL, backend=backend)
    (timed,) = time_models([model], [[PrefillPoint(40, 8), DecodePoint(2, 20)]], n_rounds=2, chunk_tokens=32)
    assert all(min(*item.busy_s, *item.wall_s) > 0 for item in timed)
    assert gemm_flop_per_s(64, 64, 64, model.embedding) > 0
    assert model.embedding.device.type == backend.device


def test_the_machine_is_described_with_torch(backend: Backend) -> None:
    found = machine_description(backend)
    assert found.torch == torch.__version__
    assert (found.device is None) == (backend.device == "cpu")
    assert machine_description().torch is None


def test_numpy_stays_numpy() -> None:
    model = hybrid_model(SMALL)
    assert isinstance(model.embedding, type(HOST))
    assert isinstance(prefilled(model)[1], np.ndarray)


def test_every_array_of_a_pass_is_on_the_device_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the meta device, which holds no values and refuses arrays of any other; the experts' choice is made up."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr("planner.hybrid.mlp.to_host", lambda x: rng.integers(0, 8, tuple(x.shape)))
    model = hybrid_model(SMALL, 3, backend=Backend("torch", "meta"))  # type: ignore[arg-type]
    cache, logits = prefilled(model)
    model.prefill(PROMPT[:70], model.empty_cache(), absorbed=True)
    received = model.empty_cache()
    take_request(received, request_payload(prefilled(hybrid_model(SMALL, 3))[0]), len(PROMPT))
    on = [logits, *decoded(model, cache), *decoded(model, received)]
    on += [array for kept in (cache, received) for state in kept.states for array in (state.state, state.taps)]
    assert {array.device.type for array in on} == {"meta"}
