"""Caches as bytes: what travels is S_kv of the roofline, what is resumed gives the same logits, no block is lost."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.hybrid import (
    BlockPool,
    DecodeBatch,
    HybridModel,
    PrefixCache,
    block_layout,
    cache_bytes,
    hybrid_model,
    restore,
    shrunk,
    snapshot,
    take_payload,
)
from planner.profiles import ModelProfile, model_profile
from planner.roofline import kv_bytes, kv_bytes_per_token, recurrent_state_bytes
from tests.hybrid_requests import request_payload, take_request

TINY = model_profile(str(Path(__file__).with_name("hybrid-tiny.toml")))
KIMI = shrunk(
    model_profile("kimi-linear-48b"),
    "kimi-small",
    n_layers=5,
    hidden_size=32,
    n_heads=2,
    head_dim=16,
    n_experts=8,
    vocab_size=53,
)
MODELS = {profile.name: hybrid_model(profile) for profile in (TINY, KIMI)}
BLOCK = 16


@pytest.fixture(params=MODELS, ids=str)
def model(request: pytest.FixtureRequest) -> HybridModel:
    return MODELS[request.param]


def prompt(n: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 53, n)


def prefix_cache(model: HybridModel, n_blocks: int = 200) -> PrefixCache:
    return PrefixCache(model.mixers, BlockPool(block_layout(model, BLOCK), n_blocks))


def prefilled(model: HybridModel, tokens: Any) -> Any:
    cache = model.empty_cache()
    model.prefill(tokens, cache)
    return cache


@pytest.mark.parametrize("profile", [TINY, KIMI], ids=lambda profile: profile.name)
@pytest.mark.parametrize("n", [1, 2, 63, 64, 100])
def test_what_travels_is_the_rooflines_kv_size_to_the_byte(profile: ModelProfile, n: int) -> None:
    cache = prefilled(MODELS[profile.name], prompt(n))
    travelled = sum(map(len, request_payload(cache)))
    assert travelled == cache_bytes(cache) == float(kv_bytes(profile, n))


def test_block_sizes_are_the_rooflines_rounded_up_to_the_alignment(model: HybridModel) -> None:
    layout = block_layout(model, BLOCK)
    latents = kv_bytes_per_token(model.profile) * BLOCK
    assert layout.block_bytes % 64 == 0
    assert latents <= layout.block_bytes < latents + 64
    assert layout.state_bytes == recurrent_state_bytes(model.profile)
    assert (layout.n_state_blocks - 1) * layout.block_bytes < layout.state_bytes
    assert layout.state_bytes <= layout.n_state_blocks * layout.block_bytes


def test_the_published_model_would_keep_what_the_paper_prints() -> None:
    """Table 3 of the paper with its 8,064 B per token; the sizes come from shapes, no weight is drawn."""
    from planner.hybrid.wire import latent_bytes_per_token, state_bytes

    groups = model_profile("kimi-linear-48b").architecture.attention
    assert sum(g.n_layers * latent_bytes_per_token(g) for g in groups) == 8064  # type: ignore[arg-type]
    assert sum(g.n_layers * state_bytes(g) for g in groups) == 43_417_600  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [1, 64, 101])
def test_a_request_that_travelled_decodes_bit_for_bit_as_where_it_came_from(model: HybridModel, n: int) -> None:
    """Values are rounded to their 16 bits before their first use, so that sending them loses nothing."""
    here = prefilled(model, prompt(n))
    there = model.empty_cache()
    take_request(there, request_payload(here), n)
    logits = []
    for cache in (here, there):
        batch = DecodeBatch(model, 1)
        batch.join(cache)
        logits.append([model.decode(np.array([token]), batch)[0].tobytes() for token in (3, 1, 4)])
    assert logits[0] == logits[1]


def test_a_resumed_prefix_gives_bit_for_bit_the_logits_of_the_same_passes_without_it(model: HybridModel) -> None:
    tokens = prompt(90)
    kept = prefix_cache(model)
    cold = model.empty_cache()
    model.prefill(tokens[:80], cold)
    assert kept.keep(tokens[:80], cold)
    expected = model.prefill(tokens[80:], cold)
    warm = model.empty_cache()
    assert kept.resume(tokens, warm) == 80
    assert model.prefill(tokens[80:], warm).tobytes() == expected.tobytes()


@pytest.mark.parametrize("profile", [TINY, KIMI], ids=lambda profile: profile.name)
def test_a_resumed_prefix_gives_the_logits_of_one_pass_over_everything(profile: ModelProfile) -> None:
    exact = hybrid_model(profile, dtype=np.float64)
    tokens = prompt(90)
    kept = prefix_cache(exact)
    kept.keep(tokens[:64], prefilled(exact, tokens[:64]))
    warm = exact.empty_cache()
    assert kept.resume(tokens, warm) == 64
    # The kept state is fp32.
    whole = exact.prefill(tokens, exact.empty_cache())
    np.testing.assert_allclose(exact.prefill(tokens[64:], warm), whole, atol=1e-4)


def test_a_state_of_another_length_is_refused(model: HybridModel) -> None:
    saved = snapshot(prefilled(model, prompt(48)))
    for n in (47, 49, 32):
        with pytest.raises(InputError, match=f"was saved at 48 tokens.*exactly {n} tokens"):
            restore(model.empty_cache(), saved, n)


def test_latents_alone_are_no_hit_and_a_state_hits_at_its_exact_length_only(model: HybridModel) -> None:
    tokens = prompt(100)
    kept = prefix_cache(model)
    kept.keep(tokens[:48], prefilled(model, tokens[:48]))
    # A longer request goes on from 48; a shorter one has its latents there, but no state of 32.
    assert kept.reusable_tokens(tokens) == 48
    assert kept.reusable_tokens(tokens[:49]) == 48
    assert kept.reusable_tokens(tokens[:40]) == 0
    assert kept.reusable_tokens(prompt(100, seed=1)) == 0
    # A request of exactly that length computes its last token, and so cannot go on from there.
    assert kept.reusable_tokens(tokens[:48]) == 0


def test_a_state_must_be_kept_at_a_block_boundary_and_with_its_own_tokens(model: HybridModel) -> None:
    kept = prefix_cache(model)
    for n, given_tokens in ((40, 40), (32, 48)):
        with pytest.raises(InputError, match="a multiple of 16"):
            kept.keep(prompt(given_tokens), prefilled(model, prompt(n)))


def test_requests_share_the_blocks_of_their_common_beginning(model: HybridModel) -> None:
    kept = prefix_cache(model)
    first = prompt(64)
    second = np.concatenate([first[:32], prompt(32, seed=5)])
    kept.keep(first, prefilled(model, first))
    used = kept.pool.n_blocks - kept.pool.n_free
    kept.keep(second, prefilled(model, second))
    assert kept.pool.n_blocks - kept.pool.n_free == used + 2 + kept.pool.layout.n_state_blocks


def test_the_least_recently_used_prefix_makes_room(model: HybridModel) -> None:
    per_prefix = 2 + block_layout(model, BLOCK).n_state_blocks
    kept = prefix_cache(model, n_blocks=2 * per_prefix)
    prompts = [prompt(33, seed) for seed in range(3)]
    for tokens in prompts[:2]:
        kept.keep(tokens[:32], prefilled(model, tokens[:32]))
    assert kept.resume(prompts[0], model.empty_cache()) == 32
    kept.keep(prompts[2][:32], prefilled(model, prompts[2][:32]))
    assert [kept.reusable_tokens(tokens) for tokens in prompts] == [32, 0, 32]
    assert kept.hits.n_evicted_blocks >= 1


def test_a_prefix_larger_than_the_pool_is_not_kept_and_throws_nothing_out(model: HybridModel) -> None:
    kept = prefix_cache(model, n_blocks=block_layout(model, BLOCK).n_state_blocks + 2)
    small = prompt(33)
    assert kept.keep(small[:32], prefilled(model, small[:32]))
    assert not kept.keep(prompt(64, seed=1), prefilled(model, prompt(64, seed=1)))
    assert kept.reusable_tokens(small) == 32


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.booleans()), max_size=12), st.integers(0, 12))
def test_blocks_are_neither_lost_nor_given_twice(steps: list[tuple[int, int, bool]], spare: int) -> None:
    """Whatever is kept and resumed: every block is free or in one entry, and what is found is what was kept."""
    model = MODELS["hybrid-tiny"]
    kept = prefix_cache(model, n_blocks=block_layout(model, BLOCK).n_state_blocks + spare)
    for seed, n_blocks, resumes in steps:
        tokens = prompt(BLOCK * n_blocks + 1, seed)
        if resumes:
            warm = model.empty_cache()
            n = kept.resume(tokens, warm)
            fresh = prefilled(model, tokens[:n]) if n else model.empty_cache()
            assert request_payload(warm) == request_payload(fresh)
        else:
            kept.keep(tokens[:-1], prefilled(model, tokens[:-1]))
        held = [block for blocks in kept._entries.values() for block in blocks]
        assert sorted(held + kept.pool._free) == list(range(kept.pool.n_blocks))


def test_payloads_of_another_shape_are_refused(model: HybridModel) -> None:
    state, latents = model.empty_cache().states[0], model.empty_cache().latents[0]
    with pytest.raises(InputError, match="bytes"):
        take_payload(state, b"\0" * 10)
    with pytest.raises(InputError, match="a multiple of"):
        take_payload(latents, b"\0" * 11)
