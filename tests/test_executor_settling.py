"""How long a run must be warmed up: stays of requests, and relaxation times of queues."""

import numpy as np
import pytest

from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.executor.warm_up import RELAXATIONS_TO_WARM_UP, relaxation_s
from planner.promises.validation import promise_check
from planner.results.run import Interval
from tests.executor_cases import fleet, scenario

N_QUEUES = 40_000


def waits_from_empty(busy: float, n: int, *, is_constant: bool) -> np.ndarray:
    """Mean wait of the k-th customer of a single server that begins empty, by Lindley's recursion, over many runs."""
    rng, wait = np.random.default_rng(7), np.zeros(N_QUEUES)
    found = np.zeros(n)
    for k in range(n):
        found[k] = wait.mean()
        work = 1.0 if is_constant else rng.exponential(1.0, N_QUEUES)
        wait = np.maximum(wait + work - rng.exponential(1 / busy, N_QUEUES), 0.0)
    return found


@pytest.mark.parametrize(("busy", "is_constant"), [(0.7, False), (0.8, False), (0.8, True)])
def test_after_so_many_relaxation_times_a_queue_that_began_empty_is_near_its_mean(
    busy: float, is_constant: bool
) -> None:
    """By Pollaczek and Khinchine's mean; after half a relaxation time it is still far from it."""
    scv = 0.0 if is_constant else 1.0
    relaxed = relaxation_s(busy, busy, 1.0, scv) * busy  # in customers
    found = waits_from_empty(busy, int(RELAXATIONS_TO_WARM_UP * relaxed) + 1, is_constant=is_constant)
    steady = busy * (1 + scv) / (2 * (1 - busy))
    assert found[-1] == pytest.approx(steady, rel=0.12)
    assert found[int(0.5 * relaxed)] < 0.8 * steady


@pytest.mark.parametrize("factor", [2.0, 10.0])
def test_relaxation_is_in_the_unit_of_time_and_grows_with_variation_and_load(factor: float) -> None:
    base = relaxation_s(2.0, 0.9, 1.0, 1.0)
    assert relaxation_s(2.0 * factor, 0.9, 1.0, 1.0) == pytest.approx(base / factor)
    assert relaxation_s(2.0, 0.9, factor, factor) == pytest.approx(base * factor)
    assert relaxation_s(2.0, 0.95, 1.0, 1.0) > base
    assert np.isfinite(relaxation_s(2.0, 1.0, 1.0, 1.0))


@pytest.mark.parametrize(("load", "is_settled"), [(0.5, True), (0.99, False)])
def test_a_run_is_settled_where_its_warm_up_lasts_for_the_queue_of_the_busiest_pool(
    load: float, is_settled: bool
) -> None:
    """One instance that prefills in 1 s: stays are short beside the warm-up either way."""
    lengths = {"workload.lengths": {"kind": "constant", "tokens": 100_000}}
    run, _ = simulate(scenario(lengths), fleet(n_decode=2), RunQuestion(20_000, 1, load, 4))
    assert run.is_transient != is_settled
    assert (run.settling_requests is None) == is_settled
    if not is_settled:
        assert run.settling_requests is not None
        assert run.settling_requests > 20_000
        assert any("the queue of near" in note for note in run.notes)


@pytest.mark.parametrize(("predicted", "is_off"), [(4.0, "low"), (2.0, "high")])
def test_before_a_run_has_settled_a_figure_too_low_is_undecided_and_one_too_high_refutes(
    predicted: float, is_off: str
) -> None:
    sure = Interval(low=3.0, high=3.1)
    settled, not_settled = (promise_check("ttft_mean_s", predicted, 3.05, sure, 1000, n) for n in (None, 64_000))
    assert (settled.decided, settled.holds) == (True, False)
    assert not not_settled.holds
    assert not_settled.decided == (is_off == "high")
    assert not_settled.enough_requests == (None if not_settled.decided else 64_000)


def test_what_holds_before_a_run_has_settled_needs_no_more_requests() -> None:
    found = promise_check("ttft_mean_s", 3.05, 3.05, Interval(low=3.0, high=3.1), 1000, 64_000)
    assert (found.decided, found.holds, found.enough_requests) == (True, True, None)
