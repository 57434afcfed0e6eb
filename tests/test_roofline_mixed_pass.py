"""Passes that carry prompts and running sequences: their limits, and the table that an engine reads them from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.executor.engine import EngineLoad, engine_run
from planner.executor.passes import EngineRules
from planner.profiles import hardware_profile, model_profile
from planner.roofline import Chip, Factors, InstanceModel, Layout, PromptTokens, Reach, mixed_pass_time, pass_times
from tests.engine_reference import interpolated

INSTANCES = {
    "dense": ("llama-3.1-70b", "h200-sxm", Layout(tp_size=4)),
    "windows": ("gpt-oss-120b", "h100-sxm", Layout(tp_size=2)),
    "experts": ("deepseek-v3", "b200-sxm", Layout(tp_size=8, ep_size=8)),
    "replicas": ("deepseek-v3", "b200-sxm", Layout(tp_size=1, dp_size=8, ep_size=8)),
}
FACTORS = Factors(request_overhead_s=0.0)
MOST_ERROR, MEAN_ERROR = 0.15, 0.015
"""Of a table between its knots, where a pass turns from one bound to another, and on average."""


def served(name: str, chunk_tokens: int = 8192) -> InstanceModel:
    model, hardware, layout = INSTANCES[name]
    return InstanceModel(
        model_profile(model), Chip(hardware_profile(hardware)), layout, FACTORS, chunk_tokens=chunk_tokens
    )


@pytest.fixture(params=INSTANCES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("prompt", [256, 1024, 4096])
def test_one_prompt_at_a_time_is_a_prefill(name: str, prompt: int) -> None:
    """As in a pool that prefills alone, to 1e-6: no limit on a pass, nobody decodes."""
    instance = served(name, 10**6)
    times = pass_times(instance, Reach(prompt, prompt, prompt + 1, prompt, 1))
    load = EngineLoad(np.full(3, prompt), np.full(3, 1), concurrency=1)
    found = engine_run(EngineRules(tokens_per_pass=10**6, room_tokens=1e9, n_replicas=instance.n_places), times, load)
    assert found.ttft_s == pytest.approx(np.full(3, instance.prefill_time([prompt]).total_s[0]), rel=1e-6)


@pytest.mark.parametrize("batch", [1, 8, 48])
def test_with_all_prompts_done_there_are_decode_steps(name: str, batch: int) -> None:
    """As in a pool that decodes alone, to 1e-6."""
    instance, prompt, output = served(name), 16, 33
    times = pass_times(instance, Reach(10_000, prompt, prompt + output, prompt, batch))
    load = EngineLoad(np.full(batch, prompt), np.full(batch, output), concurrency=batch)
    rules = EngineRules(tokens_per_pass=10**6, room_tokens=1e9, n_replicas=instance.n_places)
    contexts = prompt + np.arange(1.0, output)
    steps = instance.decode_time(batch, contexts).total_s
    assert engine_run(rules, times, load).tpot_s == pytest.approx(np.full(batch, steps.mean()), rel=1e-6)


@given(st.integers(1, 8192), st.floats(1, 9000))
def test_prompts_alike_have_the_tokens_and_the_keys_that_were_asked_for(tokens: int, keys: float) -> None:
    found = PromptTokens(tokens, max(keys, 1.0)).sequences()
    assert float(found.rows) == pytest.approx(tokens)
    assert float(found.pairs()) == pytest.approx(tokens * max(keys, 1.0))
    assert float(found.n_sequences) >= 1.0


@given(st.integers(1, 8192), st.integers(0, 256), st.integers(100, 8000))
def test_a_mixed_pass_is_longer_than_each_part_and_shorter_than_both(tokens: int, batch: int, context: int) -> None:
    instance = served("dense")
    chunk = PromptTokens(tokens, (tokens + 1) / 2)
    alone, beside = mixed_pass_time(instance, chunk, [0, batch], context).total_s
    assert alone <= beside <= alone + instance.decode_time(max(batch, 1), context).total_s[0] + 1e-12


def test_a_prompt_on_every_replica_takes_longer_than_on_one_and_less_than_in_turn() -> None:
    instance = served("replicas")
    one, all_ = mixed_pass_time(instance, PromptTokens(4096, 2048.5, [1.0, 8.0]), 64, 2000).total_s
    assert one < all_ < 8 * one


def test_several_prompts_on_one_replica_are_as_heavy_there_as_spread_over_all() -> None:
    """Attention of the fullest replica is the same; experts see fewer tokens."""
    instance = served("replicas")
    one, all_ = mixed_pass_time(instance, PromptTokens(4096, 256.5, [1.0, 8.0]), 0, 0).total_s
    alone = mixed_pass_time(instance, PromptTokens(512, 256.5, 1.0), 0, 0).total_s[0]
    assert alone < one < all_


def test_a_table_is_close_to_the_roofline_between_its_knots(name: str) -> None:
    instance = served(name)
    times = pass_times(instance, Reach(8192, 8192, 9216, 819, 512))
    draw = np.random.default_rng(3)
    n = 200
    tokens = np.exp(draw.uniform(np.log(20), np.log(8192), n)).round()
    keys = np.minimum((tokens + 1) / 2 * draw.choice([0.2, 1.0, 3.0], n), 8000)
    batch, context = np.exp(draw.uniform(0, np.log(512), n)).round(), draw.uniform(900, 9000, n)
    spread = draw.choice(times.spread, n)
    exact = mixed_pass_time(instance, PromptTokens(tokens, keys, spread), batch, context).total_s
    loads = zip(tokens, spread, keys, batch.astype(int), context, strict=True)
    found = [interpolated(times, *load) for load in loads]
    errors = np.abs(found / exact - 1)
    assert errors.max() < MOST_ERROR
    assert errors.mean() < MEAN_ERROR
    steps = [interpolated(times, 0, 1, 0, int(b), c) for b, c in zip(batch, context, strict=True)]
    assert steps == pytest.approx(instance.decode_time(batch, context).total_s, rel=0.03)


def test_a_table_says_the_same_of_a_pass_whatever_else_it_reaches() -> None:
    instance = served("dense")
    small, large = (pass_times(instance, Reach(n, n, n + 200, 700, b)) for n, b in ((2000, 20), (16_000, 300)))
    for tokens in (0.0, 333.0, 1999.0):
        asked = (tokens, 1.0, max((tokens + 1) / 2, 1.0), 17, 1500.0)
        assert interpolated(small, *asked) == pytest.approx(interpolated(large, *asked), rel=1e-12)
