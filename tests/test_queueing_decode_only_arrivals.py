"""Colocated instances that some requests join without a prompt, and the times of classes in one batch."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planner.queueing.colocated import colocated_capacity_req_per_s, colocated_queue
from planner.queueing.decode import decode_batch
from planner.queueing.decode_only_arrivals import joined_capacity_req_per_s, joined_queue
from planner.queueing.pass_loop import PassLoop, Prompts


def passes(tokens: Any, batch: Any) -> Any:
    return 0.01 + 1e-5 * np.asarray(tokens) + 1e-4 * np.asarray(batch)


LOOP = PassLoop(passes, 8192.0, 64)
PROMPTS = Prompts(np.array([500.0, 2000.0]), np.array([0.5, 0.5]), np.array([0.015, 0.03]), 101.0, 0.0)


def test_where_nobody_joins_it_is_the_colocated_queue() -> None:
    one, other = joined_queue(LOOP, PROMPTS, 0.0, 20.0, 2), colocated_queue(LOOP, PROMPTS, 20.0, 2)
    assert one.ttft is not None
    assert one.ttft.mean_s == other.ttft.mean_s
    assert one.queue.tpot_mean_s == other.tpot_mean_s
    assert joined_capacity_req_per_s(LOOP, PROMPTS, 0.0) == colocated_capacity_req_per_s(LOOP, PROMPTS)


def test_where_all_join_it_is_a_decode_pool() -> None:
    steps_s = passes(0.0, np.arange(1.0, 65.0))
    rate = 0.9 * 2 * 64 / (100 * float(steps_s[-1]))
    one, decode = joined_queue(LOOP, PROMPTS, 1.0, rate, 2), decode_batch(rate, 100.0, steps_s, 2, 0.0)
    assert one.ttft is None
    assert one.queue.tpot_mean_s == pytest.approx(decode.tpot_mean_s, rel=1e-6)
    assert joined_capacity_req_per_s(LOOP, PROMPTS, 1.0) == pytest.approx(64 / (100 * float(steps_s[-1])), rel=1e-6)


def test_a_few_who_join_change_little_and_more_of_them_leave_more_room() -> None:
    capacities = [joined_capacity_req_per_s(LOOP, PROMPTS, j) for j in (0.0, 1e-9, 0.3, 0.6, 0.9, 1 - 1e-9, 1.0)]
    assert capacities == sorted(capacities)
    assert capacities[1] == pytest.approx(capacities[0], rel=1e-6)
    assert capacities[-2] == pytest.approx(capacities[-1], rel=1e-6)
    rate = 0.7 * capacities[0]
    slowed = [joined_queue(LOOP, PROMPTS, j, rate) for j in (0.0, 1e-9, 0.3, 0.6, 0.9)]
    times = [one.queue.tpot_mean_s or 0.0 for one in slowed]
    assert times == sorted(times, reverse=True)
    assert times[1] == pytest.approx(times[0], rel=1e-5)


def test_one_at_a_time_those_who_join_are_served_between_the_prompts() -> None:
    """M/G/1 by Pollaczek and Khinchine: prompts take their passes and answer, the others their answer alone."""
    alone = PassLoop(passes, 8192.0, 1)
    decode_s = 100 * float(passes(0.0, 1.0))
    service_s = np.array([0.015, 0.03, 0.0]) + decode_s
    shares = np.array([0.3, 0.3, 0.4])
    rate = 0.5 / float(service_s @ shares)
    wait_s = rate * float(service_s**2 @ shares) / 2 / (1 - 0.5)
    one = joined_queue(alone, PROMPTS, 0.4, rate)
    assert one.ttft is not None
    assert one.admission.mean_s == pytest.approx(wait_s, rel=1e-6)
    assert one.ttft.mean_s == pytest.approx(wait_s + 0.0225, rel=1e-6)


@pytest.mark.parametrize("joining", [0.0, 0.4])
def test_times_of_classes_are_those_of_all_where_these_are_put_together(joining: float) -> None:
    """Short and long prompts apart, in one batch: their times mix to those of both, and short ones are sooner."""
    short, long = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    found = joined_queue(LOOP, replace(PROMPTS, classes=(short, long)), joining, 20.0, 2)
    assert found.ttft is not None
    of_short, of_long = found.of_classes
    for seconds in (0.02, 0.05, 0.1):
        mixed = (float(of_short.survival(seconds)) + float(of_long.survival(seconds))) / 2
        assert mixed == pytest.approx(float(found.ttft.survival(seconds)), abs=5e-3)
    assert of_short.mean_s < of_long.mean_s
    assert (of_short.mean_s + of_long.mean_s) / 2 == pytest.approx(found.ttft.mean_s, rel=1e-3)


def test_the_only_class_of_a_batch_has_the_times_of_all() -> None:
    found = joined_queue(LOOP, replace(PROMPTS, classes=(PROMPTS.weights,)), 0.0, 20.0, 2)
    assert found.ttft is not None
    assert found.of_classes[0].quantile_s(0.9) == found.ttft.quantile_s(0.9)


def test_one_at_a_time_classes_differ_by_their_own_passes_alone() -> None:
    alone, short = PassLoop(passes, 8192.0, 1), np.array([1.0, 0.0])
    found = joined_queue(alone, replace(PROMPTS, classes=(short, 1 - short)), 0.4, 0.3)
    assert found.of_classes[1].mean_s - found.of_classes[0].mean_s == pytest.approx(0.015, rel=1e-9)
