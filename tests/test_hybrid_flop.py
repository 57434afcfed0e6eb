"""FLOPs counted at every product that the hybrid model does are those of the roofline's closed form, to the unit.

One operator differs, and by how much is a formula too: the recurrence by chunks. The closed form gives a chunk of C
tokens and each head 6 C k v + C^2 (3 k + 2 v) + C^3. The model does, of the same terms:
- products with the state: the same 6 C k v;
- scores of queries (triangle with its diagonal) and of keys (without it): together C^2 entries, the same 2 C^2 k;
- T times keys and values, and scores times updates: triangles with their diagonals, C (C + 1) / 2 entries where the
  closed form counts half a square: C (k + 2 v) more;
- the inverse T by blocks: about 2/3 C^3 for C^3, which stands for any way to solve the triangle.
A last chunk of r < C tokens costs what r tokens cost among themselves; the closed form charges C per token always.
"""

from math import prod
from pathlib import Path

import numpy as np
import pytest

from planner.hybrid import DecodeBatch, HybridModel, Products, hybrid_model, shrunk
from planner.profiles import KdaLayers, ModelProfile, model_profile
from planner.roofline import Operator
from tests.model_counts import decode_operators, prefill_operators

CHUNK = 64
TINY = model_profile(str(Path(__file__).with_name("hybrid-tiny.toml")))
KIMI = shrunk(
    model_profile("kimi-linear-48b"),
    "kimi-small",
    n_layers=5,
    hidden_size=64,
    n_heads=2,
    head_dim=32,
    n_experts=8,
    vocab_size=97,
)
IN_LATENT = ("qkv_a_proj", "q_a_proj", "kv_a_proj", "q_b_proj", "q_proj")
"""Products that make queries and latents; the roofline fuses some of them."""


def closed(operators: tuple[Operator, ...]) -> dict[str, int]:
    """FLOPs by operator over all layers, of those that have any."""
    found: dict[str, int] = {}
    for operator in operators:
        flop = operator.n_layers * float(operator.flop)
        assert flop == int(flop)
        found[operator.name] = found.get(operator.name, 0) + int(flop)
    return {name: flop for name, flop in found.items() if flop}


def merged(flop: dict[str, int]) -> dict[str, int]:
    """The same with what makes queries and latents under one name."""
    rest = {name: n for name, n in flop.items() if name not in IN_LATENT}
    return rest | {"queries_and_latents": sum(flop.get(name, 0) for name in IN_LATENT)}


def counted(model: HybridModel) -> Products:
    model.products.performed_flop.clear()
    model.products.kept_flop.clear()
    return model.products


def chunk_excess(group: KdaLayers, tokens: int) -> int:
    """What one layer does more than the closed form for tokens that are prefilled in one pass."""
    k = v = group.head_dim
    sizes = [CHUNK] * (tokens // CHUNK) + ([tokens % CHUNK] if tokens % CHUNK else [])
    done = sum(6 * c * k * v + 2 * c * c * k + c * (c + 1) * (k + v) + c * (c + 1) * v + inverse_flop(c) for c in sizes)
    return group.n_heads * (done - tokens * (6 * k * v + CHUNK * (3 * k + 2 * v) + CHUNK**2))


def inverse_flop(n: int) -> int:
    """Rows by forward substitution up to 16 of them; else two halves and two products between them."""
    if n <= 16:
        return sum(2 * i * i for i in range(1, n))
    half = 16 * ((n + 16) // 32)
    rest = n - half
    return inverse_flop(half) + inverse_flop(rest) + 2 * rest * rest * half + 2 * rest * half * half


@pytest.mark.parametrize("profile", [TINY, KIMI], ids=lambda profile: profile.name)
@pytest.mark.parametrize(("new", "cached"), [(64, 0), (128, 0), (200, 0), (1, 0), (37, 70), (128, 64)])
def test_a_prefill_does_what_the_closed_form_counts(profile: ModelProfile, new: int, cached: int) -> None:
    model = hybrid_model(profile)
    prompt = np.random.default_rng(0).integers(0, 50, cached + new)
    cache = model.empty_cache()
    if cached:
        model.prefill(prompt[:cached], cache)
    products = counted(model)
    model.prefill(prompt[cached:], cache)
    expected = merged(closed(prefill_operators(profile, new, cached)))
    groups = [group for group in profile.architecture.attention if isinstance(group, KdaLayers)]
    expected["recurrence"] += sum(group.n_layers * chunk_excess(group, new) for group in groups)
    assert merged(dict(products.kept_flop)) == expected


@pytest.mark.parametrize("profile", [TINY, KIMI], ids=lambda profile: profile.name)
@pytest.mark.parametrize(("batch", "context"), [(1, 1), (1, 40), (3, 100)])
def test_a_decode_step_does_what_the_closed_form_counts(profile: ModelProfile, batch: int, context: int) -> None:
    """All of it: nothing is masked in a step, and the recurrence does its 7 FLOP per state value."""
    model = hybrid_model(profile)
    together = DecodeBatch(model, batch)
    for seed in range(batch):
        cache = model.empty_cache()
        if context > 1:
            model.prefill(np.random.default_rng(seed).integers(0, 50, context - 1), cache)
        together.join(cache)
    products = counted(model)
    model.decode(np.arange(batch), together)
    expected = merged(closed(decode_operators(profile, batch, context)))
    assert merged(dict(products.kept_flop)) == merged(dict(products.performed_flop)) == expected


def test_attention_query_by_query_multiplies_nothing_that_the_mask_drops() -> None:
    model = hybrid_model(TINY, query_tokens=1)
    products = counted(model)
    model.prefill(np.arange(50), model.empty_cache())
    expected = closed(prefill_operators(TINY, 50))["mla_attention"]
    assert products.performed_flop["mla_attention"] == products.kept_flop["mla_attention"] == expected


def test_attention_by_blocks_of_queries_wastes_half_a_block_per_query() -> None:
    """Within a block of b queries b (b - 1) / 2 pairs are multiplied and masked away."""
    model = hybrid_model(TINY, query_tokens=16)
    products = counted(model)
    model.prefill(np.arange(48), model.empty_cache())
    wasted = products.performed_flop["mla_attention"] - products.kept_flop["mla_attention"]
    per_pair = sum(
        2 * g.n_heads * (g.qk_nope_head_dim + g.qk_rope_head_dim + g.v_head_dim) * g.n_layers
        for g in TINY.architecture.attention
        if g.kind == "mla"
    )
    assert wasted == per_pair * 3 * 16 * 15 // 2


def test_the_chunkwise_excess_is_about_a_hundredth_at_the_published_shapes() -> None:
    group = next(g for g in model_profile("kimi-linear-48b").architecture.attention if isinstance(g, KdaLayers))
    per_token = 6 * group.head_dim**2 + CHUNK * 5 * group.head_dim + CHUNK**2
    assert abs(chunk_excess(group, CHUNK)) < 0.01 * CHUNK * group.n_heads * per_token


def test_products_are_counted_as_done_and_as_kept() -> None:
    products = Products()
    a, b = np.ones((3, 2, 4)), np.ones((3, 4, 5))
    assert products.product("x", a, b, kept_entries=7).shape == (3, 2, 5)
    assert products.total_performed_flop == 2 * prod((3, 2, 4, 5))
    assert products.total_kept_flop == 2 * 4 * 7


def test_passes_count_what_the_closed_form_of_each_pass_counts() -> None:
    """Chunked prefill expands earlier latents again in each pass, in the model as in the roofline."""
    model = hybrid_model(TINY)
    counted(model)
    model.prefill(np.arange(50).repeat(3)[:128], model.empty_cache(), chunk_tokens=64)
    found = dict(model.products.kept_flop)
    passes = [closed(prefill_operators(TINY, 64, 0)), closed(prefill_operators(TINY, 64, 64))]
    for name in ("kv_b_proj", "mla_attention", "lm_head"):
        expected = passes[0][name] + passes[1][name]
        # The output head runs once, after the last pass.
        assert found[name] == (passes[1][name] if name == "lm_head" else expected)
