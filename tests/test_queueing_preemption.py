"""Requests that give way in a full cache, and the capacity that is left, beside saturated runs of the engine."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from planner.executor.engine import EngineLoad, engine_run
from planner.executor.passes import EngineRules
from planner.queueing.colocated import colocated_capacity_req_per_s, full_instance_rate
from planner.queueing.erlang import Floats
from planner.queueing.pass_loop import PassLoop, Prompts
from planner.queueing.preemption import Held, Preemption, preemption_when_full
from planner.roofline import PassTimes, strata
from tests.cpu_cost import cached

N_REQUESTS, N_POOLS, SEED = 6000, 24, 4407
COUNTED = slice(int(0.4 * N_REQUESTS), int(0.95 * N_REQUESTS))
"""Answers that count, by their order."""
MOST_RUNNING = 4096


class Pool(NamedTuple):
    """Requests, a cache, and passes that take a + b tokens + c sequences."""

    prompts: np.ndarray
    answers: np.ndarray
    room_tokens: float
    seconds: tuple[float, float, float]
    tokens_per_pass: int


def drawn(rng: np.random.Generator) -> Pool:
    prompt, answer = 10 ** rng.uniform(1.5, 3.7), 10 ** rng.uniform(1.7, 3.3)
    spreads, n_held = rng.uniform(0, 1.2, 2), 10 ** rng.uniform(0.6, 2.2)
    room = n_held * (prompt + answer * np.exp(spreads[1] ** 2) / 2)
    lengths = [
        np.clip(np.round(mean * np.exp(s * rng.standard_normal(N_REQUESTS) - s * s / 2)), low, 0.3 * room).astype(int)
        for mean, s, low in ((prompt, spreads[0], 1), (answer, spreads[1], 2))
    ]
    a, b, c = 10 ** rng.uniform([-2.3, -5, -5], [-1.5, -3.7, -3.7])
    return Pool(lengths[0], lengths[1], room, (a, b, c), int(rng.choice([2048, 8192])))


def times(pool: Pool) -> PassTimes:
    """Its passes as the engine's loop takes them."""
    a, b, c = pool.seconds
    spread, tokens, keys, contexts = (np.array(ends) for ends in ([1.0, 2.0], [1.0, 1e5], [0.0, 1e6], [0.0, 1.0]))
    sequences = np.array([0.0, float(MOST_RUNNING)])
    _, t, _, n, _ = np.meshgrid(spread, tokens, keys, sequences, contexts, indexing="ij")
    steps = np.repeat((a + c * np.arange(MOST_RUNNING + 1.0))[:, None], 2, axis=1)
    return PassTimes(spread, tokens, keys, sequences, contexts, a + b * t + c * n, steps)


def executed(pool: Pool) -> tuple[float, float]:
    """Answers per second of an instance with more requests than memory holds, and how often each gives way."""
    held = pool.prompts.mean() + pool.answers.mean() / 2
    load = EngineLoad(pool.prompts, pool.answers, concurrency=int(min(3 * pool.room_tokens / held + 20, 2000)))
    rules = EngineRules(pool.tokens_per_pass, pool.room_tokens, most_running=MOST_RUNNING)
    run = engine_run(rules, times(pool), load)
    order = np.argsort(run.done_s)[COUNTED]
    span_s = run.done_s[order[-1]] - run.done_s[order[0]]
    return (len(order) - 1) / span_s, float(run.n_preempted[order].mean())


def fluid(pool: Pool) -> tuple[PassLoop, Prompts]:
    """The same as the model takes it."""
    a, b, c = pool.seconds
    tokens, weights = strata(pool.prompts.astype(float), np.ones(N_REQUESTS) / N_REQUESTS, 128)
    scv = float(pool.answers.var() / pool.answers.mean() ** 2)
    held = Held(tokens, tokens, weights, float(pool.answers.mean()), scv)
    stay = float(tokens @ weights) + held.output_tokens * (1 + scv) / 2

    def pass_s(prompt_tokens: Floats, batch: Floats) -> Floats:
        return np.asarray(a + b * prompt_tokens + c * batch)

    loop = PassLoop(
        pass_s,
        float(pool.tokens_per_pass),
        max(int(pool.room_tokens / stay), 1),
        preemption=preemption_when_full(held, pool.room_tokens),
    )
    return loop, Prompts(tokens, weights, tokens, held.output_tokens, scv)


@cached
def errors() -> tuple[np.ndarray, np.ndarray]:
    """Of the capacity, as if nothing gave way and as it is predicted."""
    rng, found = np.random.default_rng(SEED), []
    for _ in range(N_POOLS):
        pool = drawn(rng)
        rate, _ = executed(pool)
        loop, prompts = fluid(pool)
        without = colocated_capacity_req_per_s(replace(loop, preemption=None), prompts)
        found.append((without / rate - 1, full_instance_rate(loop, prompts)[0] / rate - 1))
    return np.array(found)[:, 0], np.array(found)[:, 1]


def test_the_capacity_of_drawn_pools_whose_memory_is_full_is_what_the_engine_serves() -> None:
    without, found = errors()
    assert np.abs(found).mean() < 0.03
    assert np.abs(found).max() < 0.08
    assert np.abs(without).mean() > 3 * np.abs(found).mean()


def alike(prompt: float, answer: float, room: float) -> Preemption:
    return preemption_when_full(Held(np.array([prompt]), np.array([prompt]), np.ones(1), answer, 0.0), room)


def test_one_pool_of_long_answers_serves_what_its_engine_does_and_not_what_memory_would_hold() -> None:
    """Prompts of 450 tokens and answers of 800: each gives way more than once."""
    rng = np.random.default_rng(SEED)
    prompts, answers = (np.clip(rng.gamma(2.0, mean / 2, N_REQUESTS), 2, 20_000).astype(int) for mean in (450, 800))
    pool = Pool(prompts, answers, 60_000.0, (0.01, 1e-4, 2e-5), 8192)
    rate, n_preempted = executed(pool)
    loop, asked = fluid(pool)
    assert loop.preemption is not None
    assert loop.preemption.per_request == pytest.approx(n_preempted, rel=0.15)
    assert colocated_capacity_req_per_s(loop, asked) == pytest.approx(rate, rel=0.04)
    assert colocated_capacity_req_per_s(replace(loop, preemption=None), asked) > 1.1 * rate


def test_in_a_large_cache_a_request_gives_way_as_often_as_its_answer_is_longer_than_its_prompt() -> None:
    """A pass that adds few tokens beside an answer sees every fall: N = E[o] / E[n]."""
    for prompt, answer in ((2000.0, 20_000.0), (8000.0, 20_000.0)):
        assert alike(prompt, answer, 4e6).per_request == pytest.approx(answer / prompt, rel=0.5)
    few, many = alike(8000.0, 20_000.0, 4e6), alike(2000.0, 20_000.0, 4e6)
    assert few.per_request < many.per_request


def test_what_gives_way_scales_with_nothing_but_ratios_of_tokens() -> None:
    one = alike(1000.0, 500.0, 50_000.0)
    scaled = alike(4000.0, 2000.0, 200_000.0)
    assert scaled.per_request == pytest.approx(one.per_request, rel=0.05)


def test_a_tighter_limit_on_tokens_than_memory_keeps_its_own_capacity() -> None:
    pool = drawn(np.random.default_rng(SEED))
    loop, prompts = fluid(pool)
    _, full_s = full_instance_rate(loop, prompts)
    tight_s = 0.5 * (float(loop.pass_s(np.zeros(1), np.ones(1))[0]) + full_s)
    free = replace(loop, preemption=None)
    tight = colocated_capacity_req_per_s(free, prompts, tight_s)
    assert colocated_capacity_req_per_s(loop, prompts, tight_s) == min(tight, full_instance_rate(loop, prompts)[0])
