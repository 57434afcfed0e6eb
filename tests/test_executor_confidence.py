"""Intervals of long runs: laws that any must obey, and how often they hold what is true."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from planner.executor.confidence import Batches, Stratum, bounds, mean_interval, quantile_interval, quantiles
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.promises.plan_to_run import plan_at_loads
from planner.results.plan import Plan
from planner.results.run import Interval
from tests.builders import small_with
from tests.campaigns.interval_coverage import QUEUES, coverage

Floats = NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)
FRACTIONS = st.floats(0.05, 0.99)


def waits(seed: int, n: int = 400, replications: int = 4) -> list[Floats]:
    """Times of a walk that is kept above nothing: long excursions, as queues have."""
    steps = np.random.default_rng(seed).normal(-0.1, 1.0, (replications, n)).cumsum(axis=1)
    return list(steps - np.minimum.accumulate(np.minimum(steps, 0.0), axis=1))


def batches(times: list[Floats], weight: float = 1.0) -> Batches:
    found = Batches.of([Stratum(weight, times)])
    assert found is not None
    return found


def ends(interval: Interval) -> list[float]:
    return [interval.low, interval.high]


@given(SEEDS, FRACTIONS)
def test_an_interval_of_a_quantile_holds_the_quantile_and_lies_within_what_was_seen(seed: int, q: float) -> None:
    times = waits(seed)
    found = quantile_interval(batches(times), q)
    (point,) = quantiles([Stratum(1.0, times)], [q])
    everything = np.sort(np.concatenate(times))
    near = everything[[int(q * 1600) - 1, min(int(q * 1600) + 1, 1599)]]  # between two requests there is no telling
    assert found.low <= near[1] + 1e-9
    assert found.high >= near[0] - 1e-9
    assert everything[0] <= found.low <= found.high <= everything[-1]
    assert everything[0] <= point <= everything[-1]


@given(SEEDS, FRACTIONS, st.floats(0.01, 100.0))
def test_intervals_are_of_the_unit_of_the_times_and_know_no_order_of_replications(
    seed: int, q: float, unit: float
) -> None:
    times = waits(seed)
    one, scaled = batches(times), batches([unit * t for t in times[::-1]])
    assert ends(mean_interval(scaled)) == pytest.approx([unit * x for x in ends(mean_interval(one))])
    assert ends(quantile_interval(scaled, q)) == pytest.approx(
        [unit * x for x in ends(quantile_interval(one, q))], rel=1e-4, abs=1e-6 * unit
    )


@given(SEEDS, st.tuples(FRACTIONS, FRACTIONS))
def test_a_higher_quantile_has_no_lower_interval(seed: int, fractions: tuple[float, float]) -> None:
    some = batches(waits(seed))
    low, high = (quantile_interval(some, q) for q in sorted(fractions))
    assert low.low <= high.low + 1e-5
    assert low.high <= high.high + 1e-5


@given(SEEDS)
def test_two_periods_that_are_alike_are_as_one(seed: int) -> None:
    times = waits(seed)
    one = batches(times)
    two = Batches.of([Stratum(2.0, times), Stratum(6.0, times)])
    assert two is not None
    assert ends(mean_interval(two)) == pytest.approx(ends(mean_interval(one)))
    assert ends(quantile_interval(two, 0.9)) == pytest.approx(ends(quantile_interval(one, 0.9)))


@given(SEEDS)
def test_the_longer_tail_has_the_longer_side_of_an_interval(seed: int) -> None:
    values = np.random.default_rng(seed).exponential(1.0, (4, 10)) ** 2
    low, high = bounds(values)
    skewness = float(((values - values.mean()) ** 3).mean())
    assert (high - values.mean() > values.mean() - low) == (skewness > 0)
    assert bounds(-values) == pytest.approx((-high, -low))


def test_times_that_depend_on_the_ones_before_are_less_sure_than_the_same_in_any_order() -> None:
    """The same batches, sorted: what comes after high ones is high, so that fewer of them tell something new."""
    values = np.random.default_rng(1).normal(0.0, 1.0, (4, 10))
    shuffled, ordered = (np.diff(bounds(rows))[0] for rows in (values, np.sort(values, axis=1)))
    assert ordered > 1.3 * shuffled


def test_times_that_are_all_alike_are_sure() -> None:
    some = batches([np.full(500, 3.0)] * 4)
    assert ends(mean_interval(some)) == [3.0, 3.0]
    assert ends(quantile_interval(some, 0.99)) == pytest.approx([3.0, 3.0])


@pytest.mark.parametrize("times", [[np.arange(9.0)], [np.arange(9.0), np.zeros(0)], []])
def test_what_has_nothing_to_compare_has_no_interval(times: list[Floats]) -> None:
    assert Batches.of([Stratum(1.0, times)]) is None


def test_intervals_hold_the_truth_of_a_busy_queue_as_often_as_they_say() -> None:
    """A sample of the campaign with shorter runs, of the queue whose truth is known in closed form."""
    short = QUEUES[0]._replace(n_requests=200_000)
    true = {"mean": 9.0} | {f"P{100 * q:g}": float(-9.0 * np.log(1 - q)) for q in (0.5, 0.9, 0.99)}
    for one in coverage(short, 11, 400, true):
        assert 0.915 <= one.held <= 0.98, one


def small_plan(**changes: Any) -> tuple[Any, Plan]:
    scenario = small_with({"slo": {"ttft_s": 4.0}, "objective": "min-cost", "demand_req_per_s": 1.5, **changes})
    plan = plan_at_loads(scenario).plan
    assert isinstance(plan, Plan)
    return scenario, plan


def test_a_run_that_goes_on_is_the_run_that_was_asked_to_be_as_long() -> None:
    scenario, plan = small_plan()
    lengths: list[int] = []

    def enough(run: Any) -> bool:
        lengths.append(run.n_replications)
        return run.n_replications > 4

    grown, _ = simulate(scenario, plan, RunQuestion(8_000, 3, most_requests=32_000), enough=enough)
    whole, _ = simulate(scenario, plan, RunQuestion(16_000, 3, n_replications=8))
    assert lengths == [4, 8]
    assert grown == whole


def test_a_run_that_never_says_enough_ends_at_the_limit() -> None:
    scenario, plan = small_plan()
    run, _ = simulate(scenario, plan, RunQuestion(4_000, 3, most_requests=11_000), enough=lambda _: False)
    assert (run.n_replications, run.n_requests) == (11, 11_000)
