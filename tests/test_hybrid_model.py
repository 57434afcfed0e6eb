"""The hybrid model: every layer is its definition, and every way through the model gives the same logits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.errors import InputError
from planner.hybrid import DecodeBatch, HybridModel, hybrid_model, layer_shapes, shrunk
from planner.hybrid.cache import empty_cache
from planner.hybrid.kda import KdaLayer
from planner.hybrid.mla import MlaLayer
from planner.hybrid.mlp import SparseMlp
from planner.hybrid.model import decode_batch
from planner.hybrid.products import Products
from planner.profiles import ModelProfile, model_profile, profile_names, total_parameters
from tests import hybrid_oracles as oracle

TINY = str(Path(__file__).with_name("hybrid-tiny.toml"))
N = 150


def kimi_small() -> ModelProfile:
    return shrunk(
        model_profile("kimi-linear-48b"),
        "kimi-small",
        n_layers=8,
        hidden_size=48,
        n_heads=2,
        head_dim=16,
        n_experts=8,
        vocab_size=61,
    )


PROFILES = [model_profile(TINY), kimi_small()]


@pytest.fixture(scope="module", params=PROFILES, ids=lambda profile: profile.name)
def exact(request: pytest.FixtureRequest) -> HybridModel:
    """In fp64 and without rounding, so that two ways to the same number agree to many digits."""
    return hybrid_model(request.param, seed=3, dtype=np.float64, rounds_cache=False)


def tokens(model: HybridModel, n: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, len(model.embedding), n)


def prefilled(model: HybridModel, prompt: Any, **options: Any) -> tuple[Any, Any]:
    cache = model.empty_cache()
    return model.prefill(prompt, cache, **options), cache


def test_the_whole_model_is_its_definition(exact: HybridModel) -> None:
    prompt = tokens(exact, 90)
    np.testing.assert_allclose(prefilled(exact, prompt)[0], oracle.logits(exact, prompt), atol=1e-11)


@pytest.mark.parametrize(("rounds_cache", "error"), [(False, 1e-4), (True, 0.05)])
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_single_precision_stays_near_the_definition(profile: ModelProfile, rounds_cache: bool, error: float) -> None:
    """With fp32 alone to 1e-4 of the largest logit; with latents and taps of 8 significant bits to some per cent."""
    model = hybrid_model(profile, seed=3, rounds_cache=rounds_cache)
    prompt = tokens(model, 90)
    expected = oracle.logits(hybrid_model(profile, seed=3, dtype=np.float64, rounds_cache=False), prompt)
    assert np.abs(prefilled(model, prompt)[0] - expected).max() < error * np.abs(expected).max()


@pytest.mark.parametrize("chunk", [1, 7, 64, 100])
def test_passes_of_any_size_give_the_same_logits(exact: HybridModel, chunk: int) -> None:
    prompt = tokens(exact, N)
    whole, _ = prefilled(exact, prompt)
    np.testing.assert_allclose(prefilled(exact, prompt, chunk_tokens=chunk)[0], whole, atol=1e-11)


def test_prefill_then_decode_is_one_full_pass(exact: HybridModel) -> None:
    prompt = tokens(exact, N)
    _, cache = prefilled(exact, prompt[:70])
    batch = decode_batch(exact, [cache])
    for n in range(70, N):
        found = exact.decode(prompt[n : n + 1], batch)[0]
        if n % 20 == 9:
            np.testing.assert_allclose(found, prefilled(exact, prompt[: n + 1])[0], atol=1e-11)


def test_requests_decoded_together_get_what_each_gets_alone(exact: HybridModel) -> None:
    """Of different lengths, joining and leaving at different steps."""
    lengths = (1, 40, 129)
    prompts = [tokens(exact, n + 6, seed=n) for n in lengths]
    batch = DecodeBatch(exact, capacity=3)
    at: list[int] = []
    for index, n in enumerate(lengths):
        batch.join(prefilled(exact, prompts[index][:n])[1])
        at.append(index)
        exact.decode(np.array([prompts[i][lengths[i] + index - i] for i in at]), batch)
    # Steps so far: 3, 2 and 1. The first leaves; the last takes its place.
    batch.leave(0)
    exact.decode(np.array([prompts[2][lengths[2] + 1], prompts[1][lengths[1] + 2]]), batch)
    found = exact.decode(np.array([prompts[2][lengths[2] + 2], prompts[1][lengths[1] + 3]]), batch)
    np.testing.assert_allclose(found[0], prefilled(exact, prompts[2][: lengths[2] + 3])[0], atol=1e-11)
    np.testing.assert_allclose(found[1], prefilled(exact, prompts[1][: lengths[1] + 4])[0], atol=1e-11)


def test_absorbed_and_expanded_latent_attention_agree(exact: HybridModel) -> None:
    prompt = tokens(exact, N)
    expanded, _ = prefilled(exact, prompt, chunk_tokens=60)
    absorbed, _ = prefilled(exact, prompt, chunk_tokens=60, absorbed=True)
    np.testing.assert_allclose(absorbed, expanded, atol=1e-11)


def test_every_latent_layer_is_dense_attention(exact: HybridModel) -> None:
    x = np.random.default_rng(1).standard_normal((100, exact.embedding.shape[1]))
    for layer in (layer.mixer for layer in exact.layers if isinstance(layer.mixer, MlaLayer)):
        (cache,) = empty_cache([layer.group], np.float64).latents
        np.testing.assert_allclose(layer.prefill(Products(), x, cache), oracle.mla_layer(layer, x), atol=1e-11)


def test_every_delta_layer_is_its_definition(exact: HybridModel) -> None:
    x = np.random.default_rng(2).standard_normal((100, exact.embedding.shape[1]))
    for layer in (layer.mixer for layer in exact.layers if isinstance(layer.mixer, KdaLayer)):
        (cache,) = empty_cache([layer.group], np.float64).states
        np.testing.assert_allclose(layer.prefill(Products(), x, cache), oracle.kda_layer(layer, x), atol=1e-11)


def test_experts_sorted_and_batched_do_what_a_loop_over_tokens_does(exact: HybridModel) -> None:
    x = np.random.default_rng(3).standard_normal((50, exact.embedding.shape[1]))
    found = [layer.mlp for layer in exact.layers if isinstance(layer.mlp, SparseMlp)]
    assert found
    for mlp in found:
        np.testing.assert_allclose(mlp(Products(), x), oracle.sparse_mlp(mlp, x), atol=1e-11)


def test_a_seed_decides_every_weight_and_another_gives_another_model() -> None:
    first, again, other = (hybrid_model(PROFILES[0], seed) for seed in (1, 1, 2))
    prompt = tokens(first, 30)
    assert prefilled(first, prompt)[0].tobytes() == prefilled(again, prompt)[0].tobytes()
    assert np.abs(prefilled(first, prompt)[0] - prefilled(other, prompt)[0]).max() > 0.1


def arrays(item: Any) -> list[Any]:
    """Every array reachable from a model's parts."""
    if isinstance(item, np.ndarray):
        return [item]
    if isinstance(item, tuple):
        return [array for part in item for array in arrays(part)]
    fields = getattr(item, "__dataclass_fields__", {})
    skipped = ("profile", "products", "group")
    return [array for name in fields if name not in skipped for array in arrays(getattr(item, name))]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_the_model_has_as_many_parameters_as_the_profiles_count(profile: ModelProfile) -> None:
    assert sum(array.size for array in arrays(hybrid_model(profile))) == total_parameters(profile)


def test_tied_embeddings_are_one_matrix() -> None:
    shapes = PROFILES[0].architecture.model_copy(update={"tie_word_embeddings": True})
    model = hybrid_model(PROFILES[0].model_copy(update={"architecture": shapes}))
    ratio = model.lm_head / model.embedding.T
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-5)


def test_the_layers_of_the_published_model_come_in_its_order() -> None:
    kinds = [layer.mixer.kind for layer in layer_shapes(model_profile("kimi-linear-48b"))]
    assert [index for index, kind in enumerate(kinds) if kind == "mla"] == [3, 7, 11, 15, 19, 23, 26]
    assert [layer.is_sparse for layer in layer_shapes(model_profile("kimi-linear-48b"))] == [False] + 26 * [True]


def test_a_model_that_cannot_be_run_is_refused_with_every_reason() -> None:
    with pytest.raises(InputError) as refused:
        layer_shapes(model_profile("nemotron-3-super-120b"))
    keys = [problem.key for problem in refused.value.problems]
    assert {"architecture.mlp_only", "architecture.gated_mlp", "architecture.moe.latent_size"} <= set(keys)
    assert "kimi-linear-48b" in str(refused.value)


def runs(name: str) -> bool:
    try:
        return len(layer_shapes(model_profile(name))) == model_profile(name).architecture.n_layers
    except InputError:
        return False


def test_of_the_catalogue_the_models_of_this_build_can_be_run() -> None:
    """MLA alone is such a build; sparse attention, grouped heads and the unpublished shapes of prfaas-1t are not."""
    assert [name for name in profile_names("model") if runs(name)] == [
        "deepseek-v3",
        "kimi-k2",
        "kimi-linear-48b",
        "prfaas-1t-inferred",
    ]


def test_tokens_outside_the_vocabulary_are_refused() -> None:
    model = hybrid_model(PROFILES[0])
    for wrong in (np.array([53]), np.array([-1]), np.array([], int)):
        with pytest.raises(InputError, match="one or more from 0 to 52"):
            model.prefill(wrong, model.empty_cache())


def test_a_full_batch_takes_nobody_in_and_a_step_needs_a_token_each() -> None:
    model = hybrid_model(PROFILES[0])
    _, cache = prefilled(model, tokens(model, 5))
    batch = decode_batch(model, [cache])
    with pytest.raises(InputError, match="all taken"):
        batch.join(prefilled(model, tokens(model, 5))[1])
    with pytest.raises(InputError, match="one per request: 1"):
        model.decode(np.array([1, 2]), batch)
