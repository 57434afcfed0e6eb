"""Targets given to the optimizer after a run: stricter by what the run missed, and no more than that asks for."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.executor.run_question import RunQuestion, run_on
from planner.promises.outcomes import STEP, promise_outcome
from planner.promises.period_results import RunSettings
from planner.promises.targets import LEAST_ROOM, SAFETY, LatencyTargets, as_asked, as_long, tightened
from planner.results.certified import Promise
from planner.results.run import Interval
from tests.builders import small_with

LIMIT_S = 8.0
NAME = "small"
SETTLED, FILLING = (SimpleNamespace(is_transient=is_transient) for is_transient in (False, True))


def seen(executed_s: float, half_s: float = 0.5, *, still_grows: bool = False) -> Promise:
    sure = Interval(low=executed_s - half_s, high=executed_s + half_s)
    return promise_outcome("ttft_p90_s", LIMIT_S, executed_s, sure, -1, 0.0, still_grows=still_grows)


def handed_after(executed_s: float, idle_s: float) -> tuple[float, float]:
    """What was planned for first, and what after a run."""
    scenario = small_with({"slo": {"ttft_s": LIMIT_S}})
    first = as_asked(scenario)
    (name,) = first.ttft_s
    found: LatencyTargets = tightened(scenario, first, [seen(executed_s)], {name: idle_s})
    return first.ttft_s[name], found.ttft_s[name]


@given(executed_s=st.floats(7.6, 200.0), idle_s=st.floats(0.0, 12.0))
def test_a_broken_promise_is_handed_stricter_but_leaves_a_part_of_its_waits(executed_s: float, idle_s: float) -> None:
    first, found = handed_after(executed_s, idle_s)
    assert found < first
    assert found >= LEAST_ROOM * first
    if idle_s < LIMIT_S:
        assert found >= idle_s + LEAST_ROOM * (first - idle_s) - 1e-9
    assert handed_after(executed_s + 1.0, idle_s)[1] <= found


@given(
    idle_s=st.floats(0.1, 5.0),
    room_s=st.floats(0.5, 10.0),
    factor=st.floats(0.3, 3.0),
    planned_s=st.floats(6.0, 20.0),
)
def test_waits_that_are_a_multiple_of_the_predicted_ones_are_planned_right_at_once(
    idle_s: float, room_s: float, factor: float, planned_s: float
) -> None:
    """A system whose waits are always that multiple of what was planned just keeps the limit, but for the safety."""
    limit_s = idle_s + room_s
    found = as_long(planned_s, limit_s, idle_s + factor * (planned_s - idle_s), idle_s)
    assert idle_s + factor * (found - idle_s) == pytest.approx(idle_s + SAFETY * room_s)


def test_what_a_filling_system_shows_can_break_a_promise_but_not_keep_it() -> None:
    for executed_s, is_known in ((4.0, False), (8.2, False), (12.0, True)):
        settled, filling = seen(executed_s), seen(executed_s, still_grows=True)
        assert not filling.holds
        assert filling.decided is is_known
        assert settled.holds is (executed_s == 4.0)


@pytest.mark.parametrize(
    ("run", "promises", "is_enough"),
    [
        (SETTLED, [seen(4.0), seen(12.0)], True),
        (SETTLED, [seen(4.0), seen(8.2)], False),
        (SETTLED, [seen(8.0, 0.001)], False),
        (FILLING, [seen(8.0, 0.1, still_grows=True)], False),
        (FILLING, [seen(4.0, still_grows=True)], False),
        (FILLING, [seen(4.0)], False),
        (FILLING, [seen(4.0).model_copy(update={"metric": STEP})], True),
        (FILLING, [seen(4.0, still_grows=True), seen(12.0, still_grows=True)], True),
    ],
)
def test_a_run_ends_where_a_promise_is_broken_for_certain_or_all_are_decided_of_a_settled_system(
    run: Any, promises: list[Promise], is_enough: bool
) -> None:
    assert RunSettings(RunQuestion()).is_enough(run, promises) is is_enough


@given(n=st.integers(4, 1000), most=st.integers(1, 200), settling=st.integers(1, 300_000))
def test_a_filling_system_is_run_longer_until_it_settles_within_the_limit_and_little_of_it_twice(
    n: int, most: int, settling: int
) -> None:
    lengths: list[int] = []

    def run(asked: RunQuestion, some: range) -> Any:
        if some.start == 0:
            lengths.append(asked.n_requests)
        is_transient = asked.n_requests < settling
        return SimpleNamespace(is_transient=is_transient, settling_requests=settling if is_transient else None)

    run_on(RunQuestion(n, most_requests=most * n), run, lambda found: not found.is_transient)
    *before, last = lengths
    assert sum(before) < last
    assert last <= most * n
    if 2 * settling <= most * n:
        assert last >= settling
    else:
        assert 2 * last > most * n
    assert last < 4 * max(settling, n)
