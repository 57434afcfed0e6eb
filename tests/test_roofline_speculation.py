"""Speculative decoding: a step verifies what was drafted, and yields as many tokens as are accepted."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.profiles import (
    ModelProfile,
    Speculation,
    hardware_profile,
    model_profile,
    parameters_by_part,
    profile_names,
)
from planner.roofline import (
    Chip,
    InstanceModel,
    Layout,
    PromptTokens,
    Sequences,
    distinct_experts,
    kv_bytes_per_rank,
    mixed_pass_time,
    pass_operators,
    stack,
    tokens_per_step,
    tokens_per_step_variance,
)
from planner.roofline.factors import DATASHEET
from planner.roofline.speculation import mtp_model
from tests.model_counts import decode_operators, mtp_parameters

DEEPSEEK, LLAMA, SMALL = (model_profile(name) for name in ("deepseek-v3", "llama-3.1-70b", "llama-3.1-8b"))
BARE, H200 = (Chip(hardware_profile("h200-sxm"), derated) for derated in (False, True))
ACCEPTANCES = st.lists(st.floats(0, 1), max_size=6)
BATCHES = np.array([1.0, 8.0, 64.0, 512.0])


def served(
    model: ModelProfile = DEEPSEEK, chip: Chip = H200, speculation: Speculation | None = None, layout: str = "tp=8"
) -> InstanceModel:
    factors = DATASHEET if chip is BARE else stack("sglang").factors
    return InstanceModel(model, chip, Layout.parse(layout), factors, speculation=speculation)


def with_mtp() -> list[str]:
    return [name for name in profile_names("model") if model_profile(name).architecture.n_mtp_layers]


# How many tokens


@pytest.mark.parametrize("acceptance", [(0.7,), (0.9, 0.5), (0.85, 0.75, 0.65, 0.0), (1.0, 0.3, 1.0)])
def test_mean_and_variance_of_tokens_per_step_are_those_of_drafts_accepted_up_to_the_first_that_is_not(
    acceptance: tuple[float, ...],
) -> None:
    n = 400_000
    accepted = np.random.default_rng(7).random((n, len(acceptance))) < acceptance
    found = 1 + np.cumprod(accepted, axis=1).sum(axis=1)
    spread = float(found.std())
    assert tokens_per_step(acceptance) == pytest.approx(found.mean(), abs=5 * spread / n**0.5)
    assert tokens_per_step_variance(acceptance) == pytest.approx(found.var(), rel=0.02)


@given(a=st.floats(0, 0.99), n=st.integers(0, 12))
def test_one_acceptance_gives_the_geometric_sum_of_leviathan(a: float, n: int) -> None:
    assert tokens_per_step([a] * n) == pytest.approx((1 - a ** (n + 1)) / (1 - a))


@given(acceptance=ACCEPTANCES)
def test_a_step_yields_one_token_at_least_and_all_at_most(acceptance: list[float]) -> None:
    found = tokens_per_step(acceptance)
    assert 1 <= found <= len(acceptance) + 1
    assert 0 <= tokens_per_step_variance(acceptance) <= (len(acceptance) / 2) ** 2 + 1e-9


@given(acceptance=ACCEPTANCES, more=st.floats(0, 1))
def test_one_more_drafted_token_adds_the_probability_that_all_are_accepted(
    acceptance: list[float], more: float
) -> None:
    added = tokens_per_step([*acceptance, more]) - tokens_per_step(acceptance)
    assert added == pytest.approx(float(np.prod([*acceptance, more])), abs=1e-9)


# What verifying costs


@pytest.mark.parametrize("model", [DEEPSEEK, LLAMA, model_profile("deepseek-v3.2")], ids=lambda m: m.name)
@pytest.mark.parametrize("n", [1, 3, 7])
def test_products_of_a_verification_have_the_rows_of_as_many_sequences_and_the_cache_is_read_once(
    model: ModelProfile, n: int
) -> None:
    context, batch = 4096.0, 16.0
    verified = pass_operators(model, [Sequences.decode(batch, context, n + 1.0)])
    many = decode_operators(model, batch * (n + 1), context)
    plain = decode_operators(model, batch, context)
    for one, more, single in zip(verified, many, plain, strict=True):
        if one.kv_bytes > 0:
            kept = min(single.n_kv_shards or 1, 1) * float(single.kv_bytes)
            assert kept < float(one.kv_bytes) <= (n + 1) * kept
            if one.name != "sparse_attention":  # whose queries choose keys of their own
                assert float(one.kv_bytes) < 1.05 * kept
        else:
            assert float(one.flop) == pytest.approx(float(more.flop))
            assert float(one.weight_bytes) == pytest.approx(float(more.weight_bytes))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_drafted_tokens_visit_experts_like_so_many_more_sequences(n: int) -> None:
    operators = pass_operators(DEEPSEEK, [Sequences.decode(8, 4096, n + 1.0)])
    visited = next(op.gemm.n_products for op in operators if op.name == "experts_down" and op.gemm)
    moe = DEEPSEEK.architecture.moe
    assert moe is not None
    assert float(visited) == pytest.approx(float(distinct_experts(moe.n_experts, moe.n_experts_per_token, 8 * (n + 1))))


def test_attention_of_drafted_tokens_counts_those_before_them() -> None:
    assert float(Sequences.decode(3, 100, 4).pairs()) == 3 * (100 + 101 + 102 + 103)


def test_the_head_is_computed_for_every_token_that_is_verified_and_for_the_last_of_a_prompt() -> None:
    parts = [Sequences.prefill(1000), Sequences.decode(5, 2000, 4)]
    head = pass_operators(SMALL, parts)[-1]
    assert head.gemm is not None
    assert float(head.gemm.m) == 1 + 5 * 4


# Limits


@pytest.mark.parametrize(("a", "n"), [(0.0, 1), (0.6, 1), (0.8, 3), (1.0, 5)])
def test_a_token_takes_the_step_over_the_tokens_that_it_yields(a: float, n: int) -> None:
    found = served(speculation=Speculation.of(n, a))
    step, token = found.decode_time(BATCHES, 4096).total_s, found.token_time(BATCHES, 4096).total_s
    assert token * tokens_per_step([a] * n) == pytest.approx(step)


@pytest.mark.parametrize("draft", [None, SMALL])
@pytest.mark.parametrize("n", [1, 4])
def test_without_acceptance_drafting_only_costs(draft: ModelProfile | None, n: int) -> None:
    model = DEEPSEEK if draft is None else LLAMA
    plain, found = served(model), served(model, speculation=Speculation.of(n, 0.0, draft))
    assert np.all(found.token_time(BATCHES, 4096).total_s > plain.decode_time(BATCHES, 4096).total_s)
    assert found.token_time(BATCHES, 4096).total_s == pytest.approx(found.decode_time(BATCHES, 4096).total_s)


def test_verifying_never_costs_less_than_the_plain_step_and_drafting_comes_on_top() -> None:
    plain, found = served(), served(speculation=Speculation.of(3, 0.7))
    verify_s = found.verification_time(BATCHES, 4096).total_s
    assert np.all(plain.decode_time(BATCHES, 4096).total_s <= verify_s)
    assert np.all(verify_s < found.decode_time(BATCHES, 4096).total_s)


@pytest.mark.parametrize("n", [1, 3, 7])
def test_with_every_draft_accepted_a_memory_bound_step_is_shared_by_all_its_tokens(n: int) -> None:
    """A dense model at batch 1 streams its weights, whatever the rows: what is left is the cost of drafting."""
    used = Speculation.of(n, 1.0, SMALL)
    plain, found = served(LLAMA, BARE, layout="tp=1"), served(LLAMA, BARE, used, "tp=1")
    step_s, draft_s = (one.decode_time([1], 4096).total_s[0] for one in (plain, served(SMALL, BARE, layout="tp=1")))
    assert found.token_time([1], 4096).total_s[0] == pytest.approx((step_s + n * draft_s) / (n + 1), rel=0.01)


def test_drafting_pays_least_where_products_bind() -> None:
    """A compute-bound verification costs as many plain steps as it has tokens."""
    plain, found = served(LLAMA, BARE), served(LLAMA, BARE, Speculation.of(4, 0.8, SMALL))
    gains = [plain.decode_time([b], 512).total_s[0] / found.token_time([b], 512).total_s[0] for b in (1, 4096)]
    assert gains[0] > 2 > 1 > gains[1]


@pytest.mark.parametrize("acceptance", [0.85, 0.9])
def test_one_mtp_token_of_deepseek_speeds_decode_up_about_as_its_report_has_it(acceptance: float) -> None:
    """DeepSeek-V3 (arXiv 2412.19437), section 5.4.3: the second token is accepted at 85 to 90 %, 1.8 times the TPS."""
    plain, found = served(), served(speculation=Speculation.of(1, acceptance))
    gain = plain.decode_time([1], 4096).total_s[0] / found.token_time([1], 4096).total_s[0]
    assert gain == pytest.approx(1.8, rel=0.1)


# What drafts


@pytest.mark.parametrize("name", with_mtp())
def test_an_mtp_layer_has_the_parameters_of_the_published_module(name: str) -> None:
    model = model_profile(name)
    parts = parameters_by_part(mtp_model(model).architecture)
    own = sum(n for part, n in parts.items() if part not in ("embedding", "lm_head"))
    assert model.architecture.n_mtp_layers * own == mtp_parameters(model)


def test_mtp_layers_share_the_vocabulary_and_another_model_brings_its_own() -> None:
    ours, theirs = served(speculation=Speculation((0.8,))), served(LLAMA, speculation=Speculation((0.8,), SMALL))
    added = [one.memory.weights_bytes - replace(one, speculation=None).memory.weights_bytes for one in (ours, theirs)]
    dense = (mtp_parameters(DEEPSEEK) or 0) / 8  # fp8 over 8 ranks; routers and projections are whole on each
    assert dense < added[0] < 1.2 * dense
    assert added[1] == served(SMALL).memory.weights_bytes


def test_drafts_take_weights_and_caches_from_the_batch() -> None:
    plain, found = served(), served(speculation=Speculation((0.8,)))
    assert found.largest_batch(4096) < plain.largest_batch(4096)
    assert found.longest_request < plain.longest_request
    per_token = [float(one.kv_bytes_per_rank(8192) - one.kv_bytes_per_rank(4096)) for one in (plain, found)]
    assert per_token[1] / per_token[0] == pytest.approx(62 / 61)


def test_recurrences_keep_a_state_after_every_token_to_go_back_to() -> None:
    model = model_profile("qwen3.5-397b")
    found, n = served(model, speculation=Speculation.of(3, 0.8)), 3
    state = float(kv_bytes_per_rank(model, 0.0, tp_size=8))
    assert float(found.kv_bytes_per_rank(0) - kv_bytes_per_rank(found.cached_model, n, tp_size=8)) == (n + 1) * state
    written = [
        sum(
            float(op.kv_bytes)
            for op in pass_operators(model, [Sequences.decode(1, 4096, k)])
            if op.name == "recurrence"
        )
        for k in (1.0, 4.0)
    ]
    assert written[1] / written[0] == pytest.approx((4 + 1) / (1 + 1))


@pytest.mark.parametrize("draft", [None, SMALL])
def test_what_drafts_computes_its_own_cache_of_a_prompt(draft: ModelProfile | None) -> None:
    model, tokens = (DEEPSEEK if draft is None else LLAMA), np.array([512.0, 20000.0])
    plain, found = served(model), served(model, speculation=Speculation.of(2, 0.8, draft))
    more = found.prefill_time(tokens).total_s - plain.prefill_time(tokens).total_s
    alone = served(SMALL if draft else mtp_model(DEEPSEEK)).prefill_time(tokens).total_s
    assert np.all(more > 0)
    assert np.all(more < alone)


# What cannot be


@pytest.mark.parametrize(
    ("model", "used", "layout", "said"),
    [
        (DEEPSEEK, Speculation((0.8,)), "tp=8,pp=2", "2 beside draft tokens"),
        (DEEPSEEK, Speculation((0.8,), SMALL), "tp=8", "vocabulary of 128,256"),
        (LLAMA, Speculation((0.8,), model_profile("prfaas-1t")), "tp=8", "lacks hidden_size"),
        (LLAMA, Speculation((0.8,)), "tp=8", "no MTP layers"),
    ],
)
def test_drafts_that_cannot_be_are_refused(model: ModelProfile, used: Speculation, layout: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        served(model, speculation=used, layout=layout).decode_time([1], 4096)


def test_passes_of_prompts_and_drafts_together_are_refused() -> None:
    with pytest.raises(InputError, match="not modelled"):
        mixed_pass_time(served(speculation=Speculation((0.8,))), PromptTokens(512, 256.5), [8], [4096])
