"""Operators in closed form agree with an independent walk over layers and queries, and obey the laws of counting."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.profiles import (
    ModelProfile,
    active_parameters,
    missing_shapes,
    model_profile,
    parameters_by_part,
    profile_names,
    total_parameters,
)
from planner.roofline import (
    Operator,
    Sequences,
    distinct_experts,
    pass_operators,
    weights_bytes,
)
from tests.layer_walk import Sequence, Walk, layers_in_order
from tests.model_counts import decode_operators, prefill_operators, total_bytes, total_flop

MODELS = [name for name in profile_names("model") if not missing_shapes(model_profile(name).architecture)]
SOME = ["kimi-linear-48b", "deepseek-v3.2", "mimo-v2-flash", "nemotron-3-super-120b", "jamba-v0.1", "ring-2.5-1t"]
EXACTLY = {"rel": 1e-12}


def summed(operators: tuple[Operator, ...], name: str) -> float:
    return float(sum(operator.n_layers * getattr(operator, name) for operator in operators))


def flop(operators: tuple[Operator, ...]) -> float:
    return float(total_flop(operators))


def assert_same(operators: tuple[Operator, ...], walk: Walk) -> None:
    tally = walk.run()
    for name in ("flop", "weight_bytes", "activation_bytes", "kv_bytes"):
        assert summed(operators, name) == pytest.approx(getattr(tally, name), **EXACTLY), name


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("new", "cached"), [(1, 0), (65, 0), (200, 0), (3, 130), (150, 77)])
def test_a_prefill_is_what_a_walk_over_layers_and_queries_counts(name: str, new: int, cached: int) -> None:
    model = model_profile(name)
    assert_same(prefill_operators(model, new, cached), Walk(model, [Sequence(new, cached)]))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("batch", "context"), [(1, 1), (1, 200), (5, 129), (3, 2500)])
def test_a_decode_step_is_what_a_walk_counts(name: str, batch: int, context: int) -> None:
    model = model_profile(name)
    walk = Walk(model, [Sequence(1, context - 1, prefill=False)] * batch, kv="fp8")
    assert_same(decode_operators(model, batch, context, kv_precision="fp8"), walk)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "kimi-linear-48b", "gpt-oss-120b"])
def test_a_chunk_among_decoding_sequences_multiplies_matrices_once(name: str) -> None:
    model = model_profile(name)
    parts = [Sequences.prefill(100, 28), Sequences.decode(4, 300)]
    mixed = pass_operators(model, parts)
    gemms = [operator for operator in mixed if operator.name in ("o_proj", "qkv_proj", "q_proj", "router")]
    assert {float(operator.gemm.m) for operator in gemms if operator.gemm} == {104.0}
    alone = flop(prefill_operators(model, 100, 28)) + flop(decode_operators(model, 4, 300))
    assert flop(mixed) == pytest.approx(alone, rel=1e-9)
    assert summed(mixed, "weight_bytes") < summed(prefill_operators(model, 100, 28), "weight_bytes") + summed(
        decode_operators(model, 4, 300), "weight_bytes"
    )


@pytest.mark.parametrize("name", MODELS)
def test_layers_of_the_walk_add_up(name: str) -> None:
    shapes = model_profile(name).architecture
    layers = [*layers_in_order(model_profile(name))]
    assert len(layers) == shapes.n_layers
    assert sum(mlp == "sparse" for _, mlp in layers) == shapes.n_sparse_layers
    assert sum(mlp == "dense" for _, mlp in layers) == shapes.n_dense_layers


@pytest.mark.parametrize("name", MODELS)
def test_matrices_hold_all_parameters_but_norms_biases_and_the_embedding(name: str) -> None:
    model = model_profile(name)
    total = total_parameters(model)
    assert total
    matrices = Walk(model, [Sequence(1, 0, prefill=True)]).run().matrix_weights
    idle = total - _active_and_embedding(model)
    looked_up = parameters_by_part(model.architecture)["embedding"]
    rest = total - idle - looked_up - matrices
    assert 0 <= rest <= 0.002 * (total - idle)


def _active_and_embedding(model: ModelProfile) -> int:
    active = active_parameters(model)
    assert active
    return active + parameters_by_part(model.architecture)["embedding"]


@pytest.mark.parametrize("name", MODELS)
def test_a_huge_batch_reads_all_weights_once(name: str) -> None:
    model = model_profile(name)
    operators = [o for o in prefill_operators(model, 10_000_000) if o.name != "embedding"]
    expected = sum(bytes_ for part, bytes_ in weights_bytes(model).items() if part != "embedding")
    assert summed(tuple(operators), "weight_bytes") == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_a_short_prefill_takes_two_flops_per_active_parameter_and_token(name: str) -> None:
    model = model_profile(name)
    active, n = active_parameters(model), 256
    assert active
    shapes = model.architecture
    head = (shapes.vocab_size or 0) * (shapes.hidden_size or 0)
    expected = 2.0 * ((active - head) * n + head)
    assert expected * 0.97 < flop(prefill_operators(model, n)) < expected * 1.25


def test_llama_8b_prefill_by_hand() -> None:
    n, hidden, inner, layers = 1000, 4096, 14336, 32
    per_token = 2 * hidden * (4096 + 2 * 1024 + 4096) + 2 * 3 * hidden * inner
    attention = 2 * 32 * (128 + 128) * (n * (n + 1) // 2)
    expected = layers * (n * per_token + attention) + 2 * hidden * 128256
    assert flop(prefill_operators(model_profile("llama-3.1-8b"), n)) == expected


def test_deepseek_decode_reads_one_latent_per_token_and_layer() -> None:
    operators = decode_operators(model_profile("deepseek-v3"), 8, 1000)
    (attention,) = [operator for operator in operators if operator.kind == "attention"]
    assert attention.n_layers == 61
    assert float(attention.kv_bytes) == 8 * 1001 * 1152
    assert float(attention.flop) == 8 * 1000 * 128 * 2 * (512 + 64 + 512)


def test_sparse_attention_stops_growing_at_top_k_and_its_index_does_not() -> None:
    operators = {o.name: o for o in decode_operators(model_profile("deepseek-v3.2"), 1, [1024, 2048, 4096, 65536])}
    assert np.diff(operators["sparse_attention"].flop).tolist()[1:] == [0, 0]
    assert (np.diff(operators["index_scores"].flop) > 0).all()
    assert operators["index_scores"].kv_bytes[2] == 4097 * 132


def test_a_window_stops_growing_at_its_width() -> None:
    operators = {o.name: o for o in decode_operators(model_profile("mimo-v2-flash"), 1, [64, 128, 4096])}
    kv = operators["window_attention"].kv_bytes / 5120
    assert kv.tolist() == [65, 129, 129]


def test_a_recurrent_step_costs_the_same_at_any_context() -> None:
    operators = [
        o
        for o in decode_operators(model_profile("kimi-linear-48b"), 1, [2, 1000, 100_000])
        if o.serial_steps is not None
    ]
    (recurrence,) = operators
    assert len({*recurrence.flop.tolist()}) == len({*recurrence.kv_bytes.tolist()}) == 1
    assert float(recurrence.kv_bytes[0]) == 2 * 4 * 32 * 128 * 128


def test_chunks_of_a_recurrence_follow_one_another() -> None:
    (recurrence,) = [
        o for o in prefill_operators(model_profile("kimi-linear-48b"), [64, 65, 6400]) if o.kind == "recurrence"
    ]
    assert recurrence.serial_steps is not None
    assert recurrence.serial_steps.tolist() == [1, 2, 100]


def test_kda_by_chunks_costs_no_more_than_a_fifth_above_the_papers_formula() -> None:
    (recurrence,) = [o for o in prefill_operators(model_profile("kimi-linear-48b"), 1) if o.kind == "recurrence"]
    paper = 32 * (6 * 128**2 + 3 * 64 * 128 + 64**2)
    assert paper < float(recurrence.flop) < 1.2 * paper


def test_experts_weigh_what_the_checkpoint_stores() -> None:
    model = model_profile("gpt-oss-120b")
    experts = weights_bytes(model)["experts"]
    assert experts == pytest.approx(36 * 128 * 3 * 2880 * 2880 * 0.53125, rel=1e-3)
    assert weights_bytes(model, "fp8")["experts"] == pytest.approx(experts / 0.53125)
    assert weights_bytes(model, "fp8")["attention"] == weights_bytes(model)["attention"]


def test_weights_of_a_1t_model_in_fp8_are_about_a_terabyte() -> None:
    assert sum(weights_bytes(model_profile("kimi-k2")).values()) == pytest.approx(1.03e12, rel=0.01)
    assert sum(weights_bytes(model_profile("prfaas-1t-inferred")).values()) == pytest.approx(0.97e12, rel=0.01)


def test_a_model_with_unknown_shapes_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"prfaas-1t: architecture: lacks hidden_size, vocab_size"):
        prefill_operators(model_profile("prfaas-1t"), 100)


def test_experts_visited_by_hand() -> None:
    assert float(distinct_experts(4, 2, 1)) == 2
    assert float(distinct_experts(4, 2, 2)) == 3
    assert float(distinct_experts(8, 8, 5)) == 8


# Laws

models = st.sampled_from(SOME)
tokens = st.integers(1, 40_000)


@given(models, tokens, st.integers(0, 40_000), st.integers(1, 10_000))
def test_prefill_grows_with_new_and_cached_tokens(name: str, new: int, cached: int, more: int) -> None:
    model = model_profile(name)
    base = prefill_operators(model, new, cached)
    for other in (prefill_operators(model, new + more, cached), prefill_operators(model, new, cached + more)):
        assert flop(other) >= flop(base)
        assert float(total_bytes(other)) >= float(total_bytes(base))


@given(models, st.integers(1, 512), st.integers(1, 100_000), st.integers(1, 512))
def test_a_decode_step_grows_with_batch_and_context(name: str, batch: int, context: int, more: int) -> None:
    model = model_profile(name)
    base = decode_operators(model, batch, context)
    for other in (decode_operators(model, batch + more, context), decode_operators(model, batch, context + more)):
        assert flop(other) >= flop(base)
        assert float(total_bytes(other)) >= float(total_bytes(base))


@given(models, tokens, st.integers(1, 40_000))
def test_prefill_in_two_parts_costs_no_less_than_at_once(name: str, first: int, second: int) -> None:
    model = model_profile(name)
    parts = flop(prefill_operators(model, first)) + flop(prefill_operators(model, second, first))
    assert parts >= flop(prefill_operators(model, first + second)) * (1 - 1e-12)


@given(models, st.integers(1, 5000), st.integers(0, 5000), st.integers(1, 64))
def test_flops_of_sequences_alike_are_a_multiple(name: str, new: int, cached: int, count: int) -> None:
    model = model_profile(name)
    one, many = (flop(prefill_operators(model, new, cached, n)) for n in (1, count))
    assert many == pytest.approx(count * one, **EXACTLY)


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=8), models)
def test_arrays_give_what_each_length_gives_alone(lengths: list[int], name: str) -> None:
    model = model_profile(name)
    together = total_flop(prefill_operators(model, lengths))
    assert together.tolist() == [flop(prefill_operators(model, n)) for n in lengths]


@given(st.integers(1, 512), st.data(), st.integers(0, 10_000))
def test_experts_visited_are_at_least_one_tokens_and_at_most_all(n: int, data: Any, rows: int) -> None:
    k = data.draw(st.integers(1, n))
    few, more = distinct_experts(n, k, [rows, rows + 1]).tolist()
    assert 0 <= few <= more <= n
    assert more >= k * (1 - 1e-9)


@given(st.integers(1, 300), st.integers(0, 300), st.integers(1, 300))
def test_pairs_under_a_window_are_counted_one_by_one(new: int, cached: int, window: int) -> None:
    sequences = Sequences.prefill(new, cached)
    assert float(sequences.pairs(window)) == sum(min(cached + i, window) for i in range(1, new + 1))
    assert float(sequences.pairs()) == sum(cached + i for i in range(1, new + 1))


def test_layers_are_counted_once_each_so_a_deeper_model_is_a_sum() -> None:
    model = model_profile("llama-3.1-8b")
    shapes = model.architecture
    (group,) = shapes.attention

    def cut(n_layers: int) -> ModelProfile:
        attention = (group.model_copy(update={"n_layers": n_layers}),)
        return model.model_copy(
            update={"architecture": shapes.model_copy(update={"n_layers": n_layers, "attention": attention})}
        )

    one, two, five = (flop(prefill_operators(cut(n), 777, 33)) for n in (1, 2, 5))
    assert five - one == pytest.approx(4 * (two - one), rel=1e-12)
