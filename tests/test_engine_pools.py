"""What must hold of several engines behind one router."""

from dataclasses import replace

import numpy as np
import pytest

from planner.errors import InputError
from planner.executor.engine import EngineLoad, engine_run
from planner.executor.passes import EngineRules
from tests.engine_cases import linear_times, mixed, rules

CLOSE = pytest.approx
RULES = [rules(), rules(is_prefill_first=True), rules(tokens_per_pass=300, n_replicas=2), rules(room_tokens=6000.0)]


def an_open_load(n: int = 300, gap_s: float = 0.05, **more: object) -> EngineLoad:
    return mixed(n, None, arrivals_s=np.cumsum(np.random.default_rng(1).exponential(gap_s, n)), **more)


def part(load: EngineLoad, chosen: np.ndarray) -> EngineLoad:
    arrivals = np.asarray(load.arrivals_s)[chosen]
    return replace(
        load,
        prompt_tokens=load.prompt_tokens[chosen],
        output_tokens=load.output_tokens[chosen],
        arrivals_s=arrivals,
        instances=None,
    )


@pytest.mark.parametrize("how", RULES)
def test_instances_that_requests_are_dealt_to_run_as_if_each_were_alone(how: EngineRules) -> None:
    times, n = linear_times(300, how.n_replicas), 3
    load = an_open_load(instances=np.random.default_rng(2).integers(0, n, 300))
    together = engine_run(how, times, load, n)
    passes = 0
    for i in range(n):
        mine = np.flatnonzero(load.instances == i)
        alone = engine_run(how, times, part(load, mine))
        assert np.array_equal(together.first_s[mine], alone.first_s)
        assert np.array_equal(together.done_s[mine], alone.done_s)
        passes += alone.n_passes
    assert together.n_passes == passes


@pytest.mark.parametrize("how", RULES)
@pytest.mark.parametrize("concurrency", [None, 24])
def test_a_pool_answers_every_request_once(how: EngineRules, concurrency: int | None) -> None:
    load = an_open_load() if concurrency is None else mixed(300, concurrency)
    found = engine_run(how, linear_times(300, how.n_replicas), load, 4)
    assert (found.done_s >= found.first_s).all()
    assert (found.first_s > found.arrival_s).all()


def test_a_closed_loop_over_a_pool_keeps_as_many_in_flight_as_it_says() -> None:
    found = engine_run(rules(), linear_times(300), mixed(300, 24), 4)
    moments = np.sort(found.done_s)[:-24]
    inside = [(found.arrival_s <= t).sum() - (found.done_s <= t).sum() for t in moments]
    assert set(inside) == {24}


def test_the_instance_of_the_least_load_is_sooner_done_than_one_drawn_by_lot() -> None:
    lots = np.random.default_rng(3).integers(0, 4, 300)
    fewest = engine_run(rules(), linear_times(300), an_open_load(gap_s=0.01), 4)
    drawn = engine_run(rules(), linear_times(300), an_open_load(gap_s=0.01, instances=lots), 4)
    assert fewest.ttft_s.mean() < drawn.ttft_s.mean()
    assert np.nanmean(fewest.tpot_s) < np.nanmean(drawn.tpot_s)


def test_equal_requests_at_once_are_dealt_out_evenly() -> None:
    load = EngineLoad(np.full(8, 100), np.full(8, 5), arrivals_s=np.zeros(8))
    found = engine_run(rules(), linear_times(), load, 4)
    one = engine_run(rules(), linear_times(), EngineLoad(np.full(2, 100), np.full(2, 5), arrivals_s=np.zeros(2)))
    assert np.sort(found.first_s) == CLOSE(np.repeat(np.sort(one.first_s), 4), rel=1e-12)


def test_equal_answers_do_not_lock_a_pool_into_bursts() -> None:
    n, gap_s = 4000, 0.01
    arrivals = np.cumsum(np.random.default_rng(4).exponential(gap_s, n))
    ttft = {}
    for n_instances in (1, 8):
        load = EngineLoad(np.full(n, 400), np.full(n, 60), arrivals_s=arrivals * 8 / n_instances)
        found = engine_run(rules(tokens_per_pass=10**6), linear_times(1100), load, n_instances)
        ttft[n_instances] = np.quantile(found.ttft_s[n // 10 :], 0.9)
    assert ttft[8] < ttft[1]


def test_a_pool_without_instances_and_a_request_sent_nowhere_are_named() -> None:
    with pytest.raises(InputError, match="n_instances: is 0"):
        engine_run(rules(), linear_times(), mixed(3, None), 0)
    with pytest.raises(InputError, match="names one that is not there"):
        engine_run(rules(), linear_times(), mixed(3, None, instances=np.array([0, 1, 2])), 2)
