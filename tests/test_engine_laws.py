"""What must hold of any run of the pass loop: closed forms, conservation, theory, rules one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.executor import initial_state
from planner.executor.engine import EngineRun, engine_run
from planner.executor.passes import EngineRules
from tests.engine_cases import ROOMY, alike, linear_times, mixed, pass_s, rules, step_s

EVERY_RULE = [
    rules(),
    rules(is_prefill_first=True),
    rules(tokens_per_pass=500, splits_prompts=False),
    rules(tokens_per_pass=300, n_replicas=4),
    rules(room_tokens=6000.0, most_running=8),
    rules(room_tokens=6000.0, reserves_output=True, sequence_tokens=50.0),
    rules(polling_passes=20, is_prefill_first=True),
]
CLOSE = pytest.approx


def run_of(how: EngineRules, n: int = 200, concurrency: int | None = 12, **more: object) -> EngineRun:
    return engine_run(how, linear_times(n_replicas=how.n_replicas, most=n), mixed(n, concurrency, **more))


@pytest.mark.parametrize("how", EVERY_RULE)
def test_one_request_at_a_time_takes_the_sum_of_its_passes(how: EngineRules) -> None:
    prompt, output, delay_s = 1000, 50, 0.03
    found = engine_run(how, linear_times(n_replicas=how.n_replicas), alike(5, prompt, output, 1, delay_s=delay_s))
    chunk = how.tokens_per_pass if how.splits_prompts else prompt
    chunks = [(done, min(chunk, prompt - done)) for done in range(0, prompt, chunk)]
    prefill_s = sum(pass_s(tokens, done) for done, tokens in chunks)
    decode_s = sum(step_s(1, prompt + made) for made in range(1, output))
    assert found.ttft_s == CLOSE(np.full(5, delay_s + prefill_s), rel=1e-9)
    assert found.tpot_s == CLOSE(np.full(5, decode_s / (output - 1)), rel=1e-9)


@given(st.integers(1, 32), st.integers(2, 60), st.integers(1, 500))
def test_without_prompts_to_come_there_are_only_steps_of_the_batch(n: int, output: int, prompt: int) -> None:
    found = engine_run(rules(tokens_per_pass=10**6), linear_times(), alike(n, prompt, output, n))
    steps = [step_s(n, prompt + made) for made in range(1, output)]
    assert found.tpot_s == CLOSE(np.full(n, np.mean(steps)), rel=1e-9)
    assert found.n_prompt_passes == 1


@given(st.integers(1, 32), st.integers(2, 60), st.integers(1, 500))
def test_caches_that_stand_are_decoded_and_nothing_else(n: int, output: int, prompt: int) -> None:
    load = alike(n, prompt, output, arrivals_s=np.full(n, 1.0), is_standing=True)
    found = engine_run(rules(tokens_per_pass=10**6), linear_times(), load)
    steps = [step_s(n, prompt + made) for made in range(1, output)]
    assert found.n_prompt_passes == 0
    assert (found.first_s == 1.0).all()
    assert found.done_s == CLOSE(np.full(n, 1.0 + sum(steps)), rel=1e-9)


@given(st.integers(0, 900), st.integers(2, 60))
def test_a_cached_head_is_attended_to_and_not_computed(cached: int, output: int) -> None:
    found = engine_run(rules(), linear_times(), alike(1, 1000, output, 1, cached_tokens=cached))
    assert found.ttft_s == CLOSE([pass_s(1000 - cached, cached)], rel=1e-9)
    assert found.tpot_s == CLOSE([np.mean([step_s(1, 1000 + made) for made in range(1, output)])], rel=1e-9)


@pytest.mark.parametrize("how", EVERY_RULE)
@pytest.mark.parametrize("concurrency", [1, 12, 64, None])
def test_every_request_is_answered_once_after_it_came(how: EngineRules, concurrency: int | None) -> None:
    found = run_of(how, concurrency=concurrency)
    assert (found.done_s >= found.first_s).all()
    assert (found.first_s > found.arrival_s).all()
    assert found.busy_s <= found.done_s.max() * (1 + 1e-12)
    assert found.n_prompt_passes <= found.n_passes


@pytest.mark.parametrize("how", EVERY_RULE)
@pytest.mark.parametrize("concurrency", [1, 12, 64])
def test_a_closed_loop_keeps_as_many_in_flight_as_it_says(how: EngineRules, concurrency: int) -> None:
    found = run_of(how, concurrency=concurrency)
    arrivals = found.arrival_s[concurrency:]
    moments = (arrivals[arrivals < arrivals.max()] + 1e-12)[:, None]  # those who end last may have no successor
    inside = ((found.arrival_s <= moments) & (found.done_s > moments)).sum(axis=1)
    assert (inside == concurrency).all()


@pytest.mark.parametrize("how", EVERY_RULE)
def test_the_same_run_has_the_same_times(how: EngineRules) -> None:
    one, other = run_of(how), run_of(how)
    assert one.first_s.tolist() == other.first_s.tolist()
    assert one.done_s.tolist() == other.done_s.tolist()


@pytest.mark.parametrize("how", EVERY_RULE)
def test_twice_the_seconds_give_twice_the_times(how: EngineRules) -> None:
    times, load = linear_times(n_replicas=how.n_replicas, most=200), mixed(200, 12)
    double = type(times)(**{**vars(times), "prompt_s": 2 * times.prompt_s, "decode_s": 2 * times.decode_s})
    assert engine_run(how, double, load).done_s == CLOSE(2 * engine_run(how, times, load).done_s, rel=1e-9)


def test_a_successor_waits_for_the_pass_that_began_without_it() -> None:
    """Of two that began together the short one ends; the other makes a step before the successor's prompt begins."""
    load = alike(3, 100, 2, 2)
    load.output_tokens[:] = [2, 5, 2]
    found = engine_run(rules(), linear_times(), load)
    assert found.ttft_s[2] == CLOSE(step_s(1, 102) + pass_s(100, n=1, context=103), rel=1e-9)


def test_fixed_lengths_lock_an_engine_that_prefills_first() -> None:
    """All prompts are computed before any decodes, so all end together, and meet again in every round."""
    n = 8
    locked = engine_run(rules(is_prefill_first=True, tokens_per_pass=1000), linear_times(), alike(10 * n, 1000, 50, n))
    rounds = locked.ttft_s.reshape(-1, n)
    assert rounds == CLOSE(np.tile(rounds[0], (10, 1)), rel=1e-9)
    assert rounds[0].tolist() == CLOSE([(k + 1) * pass_s(1000) for k in range(n)], rel=1e-9)


def test_prompts_first_have_passes_of_their_own() -> None:
    apart = run_of(rules(is_prefill_first=True), concurrency=12)
    shared = run_of(rules(), concurrency=12)
    assert np.nanmax(apart.tpot_s) > np.nanmax(shared.tpot_s)
    assert apart.n_passes > shared.n_passes


def test_polling_makes_a_successor_wait_for_the_next_look() -> None:
    quick, slow = (engine_run(rules(polling_passes=n), linear_times(), mixed(400, 4)) for n in (1, 40))
    assert slow.ttft_s[4:].mean() > quick.ttft_s[4:].mean() + 10 * step_s(2, 500)


def test_memory_decides_who_gives_way_and_more_of_it_preempts_nobody() -> None:
    tight, roomy = run_of(rules(room_tokens=6000.0), concurrency=32), run_of(rules(), concurrency=32)
    assert tight.n_preempted.sum() > 0 == roomy.n_preempted.sum()
    assert tight.done_s.max() > roomy.done_s.max()
    reserved = run_of(rules(room_tokens=6000.0, reserves_output=True), concurrency=32)
    assert reserved.n_preempted.sum() == 0


@pytest.mark.parametrize("concurrency", [4, None])
def test_what_memory_never_holds_is_refused_and_the_others_go_on_to_the_last(
    concurrency: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether any request is left is looked at after every event."""
    monkeypatch.setattr(initial_state, "EVENTS_AT_ONCE", 1)
    load = mixed(40, concurrency, **({} if concurrency else {"arrivals_s": np.arange(40.0)}))
    load.prompt_tokens[[1, 20, 37]] = 5000
    found = engine_run(rules(room_tokens=4000.0), linear_times(), load)
    assert np.flatnonzero(np.isnan(found.done_s)).tolist() == [1, 20, 37]


def test_replicas_share_what_arrives_and_step_at_the_pace_of_the_fullest() -> None:
    one = engine_run(rules(tokens_per_pass=500), linear_times(), alike(64, 500, 100, 16))
    four = engine_run(rules(tokens_per_pass=500, n_replicas=4), linear_times(n_replicas=4), alike(64, 500, 100, 16))
    assert four.n_prompt_passes <= one.n_prompt_passes / 2
    assert four.ttft_s[:4].tolist() == CLOSE([step_s(0, 0) + 4 * 500e-5 + 500e-9 * 250.5] * 4, rel=1e-9)


def test_a_host_makes_requests_ready_one_after_another() -> None:
    host_s = 0.2
    found = engine_run(rules(), linear_times(), alike(5, 10, 1, 5, host_s=host_s))
    assert found.ttft_s == CLOSE([(k + 1) * host_s + pass_s(10) for k in range(5)], rel=1e-9)


def test_open_arrivals_of_one_prompt_a_pass_queue_like_m_d_1() -> None:
    """Pollaczek and Khinchine: W = rho D / (2 (1 - rho))."""
    n, prompt, load = 200_000, 1000, 0.7
    service_s = pass_s(prompt)
    arrivals = np.cumsum(np.random.default_rng(1).exponential(service_s / load, n))
    how = rules(tokens_per_pass=prompt, most_running=1)
    found = engine_run(how, linear_times(), alike(n, prompt, 1, arrivals_s=arrivals))
    wait_s = (found.ttft_s - service_s).reshape(20, -1).mean(axis=1)
    expected = load * service_s / (2 * (1 - load))
    assert abs(wait_s.mean() - expected) < 3 * wait_s.std(ddof=1) / np.sqrt(20)


@pytest.mark.parametrize("name", ["tokens_per_pass", "n_replicas", "most_running", "polling_passes"])
def test_rules_without_a_meaning_are_named(name: str) -> None:
    with pytest.raises(InputError, match=name):
        engine_run(rules(**{name: 0}), linear_times(), alike(1, 1, 1, 1))


def test_loads_without_a_meaning_are_named() -> None:
    with pytest.raises(InputError, match="of prompts and of outputs"):
        engine_run(rules(), linear_times(), alike(1, 0, 1, 1))
    with pytest.raises(InputError, match="concurrency"):
        engine_run(rules(), linear_times(), alike(1, 1, 1, 0))
    with pytest.raises(InputError, match="goes back in time"):
        engine_run(rules(), linear_times(), alike(2, 1, 1, arrivals_s=np.array([1.0, 0.0])))
    with pytest.raises(InputError, match="a token left to compute"):
        engine_run(rules(), linear_times(), alike(1, 5, 2, 1, cached_tokens=5))
    with pytest.raises(InputError, match="outputs of 2 tokens"):
        engine_run(rules(), linear_times(), alike(1, 5, 1, 1, is_standing=True))
    with pytest.raises(InputError, match="ends at 64 sequences"):
        engine_run(rules(), linear_times(), alike(100, 1, 1, 65))


def test_nothing_asked_is_nothing_done() -> None:
    assert engine_run(rules(room_tokens=ROOMY), linear_times(), alike(0, 1, 1, 1)).n_passes == 0
