"""The delta rule by chunks is the recurrence token by token, and that is its definition as a product of matrices."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.hybrid.delta_rule import LEAST_LOG_DECAY, chunked_delta_rule, delta_step, unit_lower_inverse
from planner.hybrid.products import Products
from tests import hybrid_oracles as oracle

Array = np.ndarray[Any, np.dtype[Any]]


def inputs(
    n: int, seed: int = 0, heads: int = 2, key: int = 8, value: int = 5, dtype: Any = np.float64
) -> dict[str, Array]:
    """Queries to beta of some heads, and the state they begin with."""
    rng = np.random.default_rng(seed)
    k = rng.standard_normal((heads, n, key))
    drawn = {
        "state": rng.standard_normal((heads, key, value)),
        "q": rng.standard_normal((heads, n, key)),
        "k": k / np.linalg.norm(k, axis=-1, keepdims=True),
        "v": rng.standard_normal((heads, n, value)),
        "log_decay": -rng.exponential(0.3, (heads, n, key)).clip(0, -LEAST_LOG_DECAY),
        "beta": rng.uniform(0, 1, (heads, n)),
    }
    return {name: array.astype(dtype) for name, array in drawn.items()}


def by_chunks(given_inputs: dict[str, Array]) -> tuple[Array, Array]:
    state = given_inputs["state"].copy()
    rest = {name: array for name, array in given_inputs.items() if name != "state"}
    return chunked_delta_rule(Products(), state, **rest), state


def by_token(given_inputs: dict[str, Array]) -> tuple[Array, Array]:
    state = given_inputs["state"].copy()
    rest = {name: array for name, array in given_inputs.items() if name != "state"}
    n = rest["beta"].shape[-1]
    out = [delta_step(Products(), state, **{name: array[:, t] for name, array in rest.items()}) for t in range(n)]
    return np.stack(out, axis=1), state


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 33, 63, 64, 65, 80, 128, 201])
def test_chunks_are_the_recurrence(n: int) -> None:
    drawn = inputs(n, seed=n)
    for found, expected in zip(by_chunks(drawn), by_token(drawn), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-11)


def test_a_step_is_the_definition_as_a_product_of_matrices() -> None:
    drawn = inputs(20)
    out, state = by_token(drawn)
    for head in range(2):
        one = {name: array[head] for name, array in drawn.items()}
        expected, last = oracle.delta_rule(**one)
        np.testing.assert_allclose(out[head], expected, atol=1e-12)
        np.testing.assert_allclose(state[head], last, atol=1e-12)


@given(
    n=st.integers(1, 150),
    seed=st.integers(0, 10**6),
    decay=st.sampled_from([0.0, -1e-3, -0.5, LEAST_LOG_DECAY]),
    beta=st.sampled_from([0.0, 0.5, 1.0]),
    repeated=st.booleans(),
)
def test_chunks_hold_at_the_extremes_in_single_precision(
    n: int, seed: int, decay: float, beta: float, repeated: bool
) -> None:
    """No decay or the strongest, no update or a full one, one key all along: nothing overflows, nothing drifts."""
    drawn = inputs(n, seed, dtype=np.float32)
    drawn["log_decay"][:] = decay
    drawn["beta"][:] = beta
    if repeated:
        drawn["k"][:] = drawn["k"][:, :1]
    exact = {name: array.astype(np.float64) for name, array in drawn.items()}
    for found, expected in zip(by_chunks(drawn), by_token(exact), strict=True):
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, expected, atol=3e-4)


def test_decays_may_differ_by_channel_within_a_block_as_far_as_the_floor_allows() -> None:
    drawn = inputs(128, dtype=np.float32)
    drawn["log_decay"][..., ::2] = LEAST_LOG_DECAY
    drawn["log_decay"][..., 1::2] = 0.0
    exact = {name: array.astype(np.float64) for name, array in drawn.items()}
    for found, expected in zip(by_chunks(drawn), by_token(exact), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("cut", [1, 16, 63, 64, 100])
def test_a_state_carries_everything_from_one_part_to_the_next(cut: int) -> None:
    drawn = inputs(130)
    whole, last = by_chunks(drawn)
    first = {name: a if name == "state" else a[:, :cut] for name, a in drawn.items()}
    out_first, between = by_chunks(first)
    second = {name: between if name == "state" else a[:, cut:] for name, a in drawn.items()}
    out_second, end = by_chunks(second)
    np.testing.assert_allclose(np.concatenate([out_first, out_second], axis=1), whole, atol=1e-11)
    np.testing.assert_allclose(end, last, atol=1e-11)


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 40, 64])
def test_the_triangular_inverse_is_the_inverse(n: int) -> None:
    strict = np.tril(np.random.default_rng(n).standard_normal((3, 2, n, n)) / np.sqrt(n), -1)
    np.testing.assert_allclose(unit_lower_inverse(Products(), strict), np.linalg.inv(np.eye(n) + strict), atol=1e-9)


def test_the_inverse_of_a_full_triangle_of_ones_keeps_single_precision() -> None:
    """What one key repeated without decay makes: powers of this matrix reach 1e17, its inverse holds ones."""
    strict = np.tril(np.ones((64, 64), np.float32), -1)
    np.testing.assert_allclose(unit_lower_inverse(Products(), strict) @ (np.eye(64) + strict), np.eye(64), atol=1e-5)
