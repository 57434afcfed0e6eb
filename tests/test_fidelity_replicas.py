"""A closed loop over attention replicas: how many prefill together, and what that makes of TTFT and TPOT."""

import random

import numpy as np
import pytest

from planner.roofline import LoopTimes, closed_loop_latency
from planner.studies.fidelity.loads import replicas_together


@pytest.mark.parametrize("n", [2, 8, 32])
@pytest.mark.parametrize("use", [0.01, 0.2, 0.7])
def test_replicas_prefill_together_as_often_as_independent_coins_fall_alike(n: int, use: float) -> None:
    rng = random.Random(n)
    passes = [sum(rng.random() < use for _ in range(n)) for _ in range(20_000)]
    some = [k for k in passes if k]
    assert replicas_together(use * n, 1.0, n) == pytest.approx(sum(some) / len(some), rel=0.03)


@pytest.mark.parametrize("n", [1, 4, 16])
def test_one_replica_prefills_at_least_and_all_at_most(n: int) -> None:
    found = [replicas_together(batch, 0.01, n) for batch in (1e-9, 1.0, 10.0, 1e2, 1e3, 1e9)]
    assert found == sorted(found)
    assert found[0] == pytest.approx(1.0)
    assert found[-1] == n


@pytest.mark.parametrize("n", [2, 8])
def test_replicas_wait_as_loops_of_their_own_where_their_prompts_share_passes(n: int) -> None:
    one, c, tokens = np.ones(1), np.array([16.0]), np.array([1000.0])
    alone = LoopTimes(0.2 * one, 0.1 * one, 0.01 * one)
    shared = LoopTimes(0.2 * one, 0.1 * one / n, 0.01 * one, 0.1 * one, float(n))
    single = closed_loop_latency(alone, c, c, tokens)
    found = closed_loop_latency(shared, n * c, n * c, tokens)
    # Of n c requests n c - 1 are others, of c replicas' shares c - 1: prompts of one's own pass hold nobody up twice.
    assert found.tpot_s == pytest.approx(single.tpot_s, rel=0.1 / 16 / single.tpot_s[0])
    assert found.ttft_s == pytest.approx(single.ttft_s, rel=0.02)


def test_replicas_with_a_request_each_wait_for_nobody() -> None:
    one = np.ones(1)
    times = LoopTimes(0.2 * one, 0.1 * one / 8, 0.01 * one, 0.1 * one, 8.0)
    assert closed_loop_latency(times, 8 * one, 8 * one, 1000 * one).ttft_s.tolist() == pytest.approx([0.21])
