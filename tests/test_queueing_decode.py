"""Decode batches: closed forms of Erlang and Engset, and step-by-step simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, poisson

from planner.queueing.decode import decode_batch
from planner.queueing.erlang import erlang_b, erlang_c
from tests.service_simulation import decode_run

steps = st.tuples(st.floats(0.001, 0.1), st.floats(0.0, 0.01), st.integers(1, 40)).map(
    lambda p: p[0] + p[1] * np.arange(1, p[2] + 1)
)
loads = st.floats(0.05, 0.95)


def birth_death_fractions(birth_per_s: np.ndarray, death_per_s: np.ndarray) -> np.ndarray:
    """Long-run share of time in each state of a birth-death process (Erlang 1917).

    pi(k) = pi(0) product over j = 1 to k of birth(j - 1) / death(j), normalised; taken as logarithms.
    """
    if birth_per_s.shape != death_per_s.shape or birth_per_s.ndim != 1:
        raise ValueError(f"births and deaths need one equal length, got {birth_per_s.shape}, {death_per_s.shape}")
    if not ((birth_per_s >= 0) & np.isfinite(birth_per_s) & (death_per_s > 0) & np.isfinite(death_per_s)).all():
        raise ValueError("birth rates must be finite and at least 0, death rates finite and above 0")
    with np.errstate(divide="ignore"):
        log_share = np.append(0.0, np.cumsum(np.log(birth_per_s) - np.log(death_per_s)))
    share = np.exp(log_share - log_share.max())
    return np.asarray(share / share.sum())


def limit_req_per_s(step_s: np.ndarray, n_tokens: float) -> float:
    return len(step_s) / (n_tokens * step_s[-1])


def test_a_constant_step_without_limit_is_an_infinite_server_queue() -> None:
    batch = decode_batch(20.0, 5.0, np.full(100, 0.1))
    assert batch.fractions == pytest.approx(poisson.pmf(np.arange(101), 10.0), abs=1e-12)
    assert (batch.mean_batch, batch.tpot_mean_s) == pytest.approx((10.0, 0.1))


@pytest.mark.parametrize("limit", [1, 4, 30])
@pytest.mark.parametrize("load", [0.3, 0.9])
def test_a_constant_step_at_the_limit_waits_by_erlangs_formula(limit: int, load: float) -> None:
    batch = decode_batch(load * limit, 10.0, np.full(limit, 0.1))
    assert batch.admission.waiting_fraction == pytest.approx(erlang_c(limit, load * limit))
    assert batch.admission.mean_s == pytest.approx(erlang_c(limit, load * limit) / (limit * (1 - load)))
    assert batch.mean_batch == pytest.approx(load * limit)


@pytest.mark.parametrize("n_sources", [1, 5, 40])
def test_a_closed_loop_of_sources_is_engsets_binomial(n_sources: int) -> None:
    idle = np.arange(n_sources, 0, -1.0)
    fractions = birth_death_fractions(0.3 * idle, 1.2 * np.arange(1.0, n_sources + 1))
    assert fractions == pytest.approx(binom.pmf(np.arange(n_sources + 1), n_sources, 0.2), abs=1e-12)


def test_losing_what_does_not_fit_is_erlangs_loss_formula() -> None:
    fractions = birth_death_fractions(np.full(8, 5.0), np.arange(1.0, 9.0))
    assert fractions[-1] == pytest.approx(erlang_b(8, 5.0))


def test_two_places_match_a_hand_calculation() -> None:
    batch = decode_batch(1.0, 1.0, np.array([0.5, 0.8]))  # rates 2 and 2.5: shares 1, 1/2, 1/5 and 2/15 beyond
    assert batch.fractions == pytest.approx(np.array([1.0, 1 / 2, 1 / 3]) / (11 / 6))
    assert batch.tpot_mean_s == pytest.approx((1 / 2 + 2 / 3) / (11 / 6))


@given(steps, loads)
def test_tokens_are_conserved(step_s: np.ndarray, load: float) -> None:
    rate = load * limit_req_per_s(step_s, 100.0)
    batch = decode_batch(rate, 100.0, step_s)
    made_per_s = batch.fractions @ (np.arange(len(step_s) + 1) / batch.step_s)
    assert made_per_s == pytest.approx(rate * 100.0, rel=1e-9)
    assert step_s[0] * (1 - 1e-9) <= batch.tpot_mean_s <= step_s[-1] * (1 + 1e-9)
    assert batch.tpot_mean_s <= batch.token_quantile_s(0.999999) * (1 + 1e-9)


@given(steps, loads, st.floats(0.0, 0.99))
def test_more_load_makes_tokens_slower_and_admission_longer(step_s: np.ndarray, load: float, q: float) -> None:
    rate = load * limit_req_per_s(step_s, 100.0)
    light, heavy = decode_batch(0.9 * rate, 100.0, step_s), decode_batch(rate, 100.0, step_s)
    assert light.tpot_mean_s <= heavy.tpot_mean_s * (1 + 1e-9)
    assert light.token_quantile_s(q) <= heavy.token_quantile_s(q) * (1 + 1e-9)
    assert light.admission.mean_s <= heavy.admission.mean_s


@given(steps, loads, st.integers(2, 6))
def test_pooled_instances_wait_less_than_split_ones(step_s: np.ndarray, load: float, n_instances: int) -> None:
    rate = load * limit_req_per_s(step_s, 100.0)
    alone = decode_batch(rate, 100.0, step_s)
    pooled = decode_batch(n_instances * rate, 100.0, step_s, n_instances)
    assert pooled.admission.waiting_fraction <= alone.admission.waiting_fraction * (1 + 1e-9)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8, 0.9])
@pytest.mark.parametrize(("base_s", "slope_s", "limit", "n_tokens"), [(0.02, 5e-4, 32, 300), (0.01, 2e-3, 16, 100)])
def test_equal_outputs_simulated_step_by_step_agree(
    base_s: float, slope_s: float, limit: int, n_tokens: int, load: float
) -> None:
    step_s = base_s + slope_s * np.arange(1, limit + 1)
    rate = load * limit_req_per_s(step_s, n_tokens)
    batch = decode_batch(rate, n_tokens, step_s, output_scv=0.0)
    tpot_s, wait_s, mean_batch = decode_run(rate, n_tokens, step_s, 200_000, np.random.default_rng(round(100 * load)))
    assert batch.mean_batch == pytest.approx(mean_batch, rel=0.02)
    assert batch.tpot_mean_s == pytest.approx(tpot_s.mean(), rel=0.02)
    for q in (0.5, 0.9, 0.99):
        assert batch.tpot_quantile_s(q) == pytest.approx(np.quantile(tpot_s, q), rel=0.06)
    held = wait_s > step_s[-1]  # shorter waits are only for the running step to end
    assert batch.admission.waiting_fraction == pytest.approx(held.mean(), abs=0.06)
    assert batch.admission.mean_s == pytest.approx(wait_s.mean(), rel=0.3, abs=step_s[-1])


def test_decode_without_meaning_or_steady_state_is_refused() -> None:
    with pytest.raises(ValueError, match="no steady state"):
        decode_batch(10.0, 10.0, np.full(10, 0.1))
    with pytest.raises(ValueError, match="decode needs"):
        decode_batch(1.0, 0.0, np.full(10, 0.1))
    with pytest.raises(ValueError, match="step_s"):
        decode_batch(1.0, 1.0, np.array([0.1, 0.0]))
    with pytest.raises(ValueError, match="equal length"):
        birth_death_fractions(np.ones(2), np.ones(3))
    with pytest.raises(ValueError, match="finite"):
        birth_death_fractions(np.ones(2), np.zeros(2))
    with pytest.raises(ValueError, match="quantile"):
        decode_batch(1.0, 1.0, np.full(4, 0.1)).token_quantile_s(1.0)


def test_an_idle_pool_admits_at_once_at_the_fastest_step() -> None:
    batch = decode_batch(0.0, 10.0, np.array([0.1, 0.2]))
    assert (batch.mean_batch, batch.tpot_mean_s, batch.admission.waiting_fraction) == (0.0, 0.1, 0.0)
