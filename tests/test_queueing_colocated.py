"""Queues of colocated instances: limits with a closed form, laws, and a sample of the campaign against runs."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.queueing import colocated
from planner.queueing.colocated import colocated_capacity_req_per_s, colocated_queue, steady_pass_s
from planner.queueing.decode import decode_batch
from planner.queueing.erlang import Floats
from planner.queueing.pass_loop import PassLoop, Prompts
from planner.queueing.service import Service
from planner.queueing.waits import mgc_wait
from tests.campaigns.colocated import TOLERANCES, errors, random_pool

CLOSE = pytest.approx
SEVERAL = {"ttft_mean": 0.10, "ttft_p90": 0.15, "tpot_mean": 0.06}
"""Of several instances, which a router keeps busy alike: execution alone certifies their first tokens."""
BASE_S, TOKEN_S, SEQUENCE_S = 0.01, 2e-5, 1e-4


def pass_s(p: Floats, b: Floats) -> Floats:
    return np.asarray(BASE_S + TOKEN_S * p + SEQUENCE_S * b)


def a_loop(budget: float = 2048.0, most: int = 64, scale: float = 1.0, first: bool = False) -> PassLoop:
    return PassLoop(lambda p, b: scale * pass_s(p, b), budget, most, first)


def some_prompts(tokens: float = 600.0, output: float = 100.0, scale: float = 1.0, budget: float = 2048.0) -> Prompts:
    kinds = np.array([0.5, 1.0, 1.5]) * tokens
    alone = scale * (BASE_S * np.maximum(np.ceil(kinds / budget), 1) + TOKEN_S * kinds)
    return Prompts(kinds, np.array([0.25, 0.5, 0.25]), alone, output)


@pytest.mark.parametrize("load", [0.2, 0.6, 0.9])
def test_one_request_at_a_time_of_one_token_is_a_prefill_pool(load: float) -> None:
    prompts = some_prompts(output=1.0, budget=np.inf)
    rate = load / float(prompts.alone_s @ prompts.weights)
    found = colocated_queue(a_loop(budget=1e12, most=1), prompts, rate)
    wait = mgc_wait(1, rate, Service.of(prompts.alone_s, prompts.weights))
    assert found.utilization == CLOSE(load, rel=1e-6)
    assert found.ttft.mean_s == CLOSE(wait.mean_s + float(prompts.alone_s @ prompts.weights), rel=1e-6)
    assert found.tpot_mean_s is None


@pytest.mark.parametrize("n_instances", [1, 3])
@pytest.mark.parametrize("load", [0.2, 0.6, 0.9])
def test_no_prompts_is_a_decode_pool(load: float, n_instances: int) -> None:
    loop, none = a_loop(most=32), Prompts(np.zeros(1), np.ones(1), np.zeros(1), 101.0)
    rate = load * n_instances * colocated_capacity_req_per_s(loop, none)
    found = colocated_queue(loop, none, rate, n_instances)
    steps = pass_s(np.zeros(32), np.arange(1.0, 33.0))
    batch = decode_batch(rate, 100.0, steps, n_instances)
    assert found.tpot_mean_s == CLOSE(batch.tpot_mean_s, rel=1e-6)
    assert found.batch is not None
    assert found.batch.mean_batch == CLOSE(batch.mean_batch, rel=1e-6)
    assert found.batch.admission.mean_s == CLOSE(batch.admission.mean_s, rel=1e-6)
    assert colocated_capacity_req_per_s(loop, none) == CLOSE(32 / (100.0 * steps[-1]), rel=1e-6)


@pytest.mark.parametrize("first", [False, True])
def test_seconds_twice_as_long_at_half_the_rate_give_times_twice_as_long(first: bool) -> None:
    slow, fast = (colocated_queue(a_loop(scale=s, first=first), some_prompts(scale=s), 8 / s) for s in (2.0, 1.0))
    assert slow.utilization == CLOSE(fast.utilization, rel=1e-9)
    assert slow.ttft.mean_s == CLOSE(2 * fast.ttft.mean_s, rel=1e-6)
    assert slow.tpot_mean_s == CLOSE(2 * (fast.tpot_mean_s or 0.0), rel=1e-9)


@settings(max_examples=12)
@given(st.floats(0.1, 0.7), st.sampled_from([512.0, 2048.0, 8192.0]), st.booleans(), st.integers(1, 4))
def test_more_requests_wait_longer_and_decode_more_slowly(load: float, budget: float, first: bool, n: int) -> None:
    loop, prompts = a_loop(budget, first=first), some_prompts(budget=budget)
    capacity = n * colocated_capacity_req_per_s(loop, prompts)
    few, many = (colocated_queue(loop, prompts, x * capacity, n) for x in (load, load + 0.15))
    assert few.ttft.mean_s < many.ttft.mean_s * (1 + 1e-6)
    assert (few.tpot_mean_s or 0.0) < (many.tpot_mean_s or 0.0)


def test_prompts_cost_those_that_decode() -> None:
    alone = decode_batch(10.0, 99.0, pass_s(np.zeros(64), np.arange(1.0, 65.0)))
    assert (colocated_queue(a_loop(), some_prompts(), 10.0).tpot_mean_s or 0.0) > 1.1 * alone.tpot_mean_s


def test_a_step_carries_the_prompts_of_those_that_take_the_place_of_others() -> None:
    prompts, batch = some_prompts(), np.array([33.0])
    # A third of a request ends in a step: a prompt every third pass.
    expected = pass_s(np.zeros(1), batch) + TOKEN_S * 600 / 3
    assert steady_pass_s(a_loop(), prompts, batch) == CLOSE(expected, rel=1e-9)


def test_a_limit_on_the_time_per_token_takes_capacity_away_until_none_is_left() -> None:
    loop, prompts = a_loop(), some_prompts()
    limits = (np.inf, 0.02, 0.015, 0.0121)
    found = [colocated_capacity_req_per_s(loop, prompts, limit) for limit in limits]
    assert found == sorted(found, reverse=True)
    assert found[-1] > 0
    assert colocated_capacity_req_per_s(loop, prompts, 0.009) == 0.0


def test_a_rate_that_no_pool_serves_is_refused() -> None:
    with pytest.raises(ValueError, match="no steady state"):
        colocated_queue(a_loop(), some_prompts(), 1e3)


@pytest.mark.parametrize("seed", [2, 3, 6, 9, 10, 14, 17, 25])
def test_one_instance_has_the_times_of_its_run(seed: int) -> None:
    pool = random_pool(seed)
    assert pool.n_instances == 1
    found = errors(pool)
    assert {name for name, most in TOLERANCES.items() if abs(found[name]) > most} == set()


@pytest.mark.parametrize("seed", [8, 12, 13, 15, 18, 24, 29])
def test_several_instances_are_near_their_run(seed: int) -> None:
    pool = random_pool(seed)
    assert pool.n_instances > 1
    found = errors(pool)
    assert {name for name, most in SEVERAL.items() if abs(found[name]) > most} == set()


def test_a_pool_at_another_load_is_the_same_pool() -> None:
    light, own = random_pool(2, utilization=0.1), random_pool(2)
    assert light.rules == own.rules
    assert errors(replace(light))["tpot_mean"] == CLOSE(0.0, abs=0.02)


def test_places_that_are_taken_vary_more_where_prompts_slow_each_other() -> None:
    """Prompts of 100 and 300 tokens alike: E[n^2] = 1.25 E[n]^2. By two fifths slower: 1 + 0.4 + 0.16 * 1.25 / 2."""
    prompts: Any = SimpleNamespace(
        tokens=np.array([100.0, 300.0]),
        weights=np.array([0.5, 0.5]),
        mean_tokens=200.0,
        decoded_tokens=100.0,
        output_scv=1.0,
    )
    loop: Any = SimpleNamespace(held_dispersion=1.0, most_running=64)
    assert colocated._dispersion(prompts) == pytest.approx(1.25)
    assert colocated._peakedness(loop, prompts, 0.4) == pytest.approx(1.5)
    # In a stay of 100 tokens of 50 ms come 10 prompts, 5 by the variation of answers.
    assert colocated._prompt_jitter_s(prompts, 2.0, 0.05, 0.4) == pytest.approx(0.05 * 0.4 * (1.25 / 5) ** 0.5)
    prompts.mean_tokens = 0.0
    assert colocated._prompt_jitter_s(prompts, 2.0, 0.05, 0.4) == 0.0
    assert colocated._room(loop, 48.0, 4 / 3) == pytest.approx(2.0)
