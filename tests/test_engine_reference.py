"""The compiled pass loop against the same rules written apart, request by request."""

import numpy as np
import pytest

from planner.executor.engine import EngineLoad, engine_run
from planner.executor.passes import EngineRules
from planner.roofline import PassTimes
from tests.engine_reference import Reference

N_CASES = 60


def random_times(draw: np.random.Generator, n_replicas: int, most: int) -> PassTimes:
    """Seconds that rise along every axis, with kinks at the knots."""
    spread = np.array([1.0]) if n_replicas == 1 else np.array([1.0, float(n_replicas)])
    tokens, keys = np.array([1.0, 40.0, 200.0, 900.0]), np.array([1.0, 100.0, 700.0])
    sequences, contexts = np.array([0.0, 2.0, 7.0, float(max(most, 8))]), np.array([10.0, 300.0, 1000.0])
    sizes = [len(a) for a in (spread, tokens, keys, sequences, contexts)]
    prompt_s = 0.01 + draw.uniform(0, 0.01, sizes)
    for axis in range(5):
        prompt_s = np.cumsum(prompt_s, axis)
    decode_s = np.cumsum(np.cumsum(draw.uniform(0.001, 0.004, (most + 1, 3)), 0), 1)
    return PassTimes(spread, tokens, keys, sequences, contexts, prompt_s, decode_s)


def random_case(seed: int) -> tuple[EngineRules, PassTimes, EngineLoad]:
    draw = np.random.default_rng(seed)
    n, n_replicas = int(draw.integers(1, 40)), int(draw.choice([1, 1, 2, 4]))
    prompts, outputs = draw.integers(1, 400, n), draw.integers(1, 60, n)
    if draw.random() < 0.3:
        prompts[:], outputs[:] = prompts[0], outputs[0]
    rules = EngineRules(
        tokens_per_pass=int(draw.choice([7, 64, 300, 10_000])),
        room_tokens=float(draw.choice([350, 600, 1200, 1e6])),
        sequence_tokens=float(draw.choice([0, 0, 13])),
        n_replicas=n_replicas,
        most_running=int(draw.choice([1, 3, 8, 100])),
        is_prefill_first=bool(draw.random() < 0.5),
        splits_prompts=bool(draw.random() < 0.7),
        reserves_output=bool(draw.random() < 0.4),
        polling_passes=int(draw.choice([1, 1, 4, 30])),
    )
    is_closed = draw.random() < 0.6
    is_standing = (draw.random(n) < draw.choice([0.0, 0.3, 0.7, 1.0])) & (outputs > 1)
    cached_tokens = np.floor(prompts * draw.choice([0.0, 0.0, 0.5, 0.999]) * draw.random(n)).astype(int) * ~is_standing
    load = EngineLoad(
        prompts,
        outputs,
        delay_s=draw.choice([0.0, 0.013]) + draw.choice([0.0, 1e-4]) * prompts,
        host_s=draw.choice([0.0, 0.004]),
        concurrency=int(draw.integers(1, 12)) if is_closed else None,
        arrivals_s=0.0 if is_closed else np.sort(draw.uniform(0, 2.0, n)),
        cached_tokens=cached_tokens,
        is_standing=is_standing,
    )
    return rules, random_times(draw, n_replicas, n), load


@pytest.mark.parametrize("seed", range(N_CASES))
def test_every_request_has_the_times_of_the_slow_run(seed: int) -> None:
    rules, times, load = random_case(seed)
    found, expected = engine_run(rules, times, load), Reference(rules, times, load).run()
    assert found.n_passes == expected.n_passes
    assert found.n_preempted.tolist() == [s.n_preempted for s in expected.all]
    for name in ("begun_s", "first_s", "done_s"):
        assert getattr(found, name) == pytest.approx([getattr(s, name) for s in expected.all], rel=1e-9, nan_ok=True)
    assert found.busy_s == pytest.approx(sum(seconds for _, seconds in expected.passes), rel=1e-9)


def test_the_cases_meet_every_rule() -> None:
    cases = [random_case(seed) for seed in range(N_CASES)]
    runs = [Reference(*case).run() for case in cases]
    assert any(s.n_preempted for run in runs for s in run.all)
    assert any(run.refused for run in runs)
    for kind in (True, False):
        assert any(s.n_preempted and s.standing is kind for run in runs for s in run.all)
        assert any(s.n_preempted and bool(s.cached) is kind for run in runs for s in run.all if not s.standing)
    for name in ("is_prefill_first", "splits_prompts", "reserves_output"):
        assert {getattr(rules, name) for rules, _, _ in cases} == {True, False}
