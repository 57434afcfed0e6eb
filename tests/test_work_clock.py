"""Searches end by counted work: machines that are slower or faster have the same answers, up to a limit on the wall."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from planner import work_clock
from planner.errors import UndecidedError
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.problem import Problem
from planner.optimizer.solution import Solution
from planner.optimizer.strategies import best_solution
from planner.optimizer.time_limit import TimeLimit, wall_notes
from planner.work_clock import LEAST_WALL_S, LOOK_S, SLOWEST, n_cut_offs, spend, wall_limit, work_s
from tests.builders import TWO_PERIODS, small_with

LIMIT_S = 0.6


@pytest.fixture(autouse=True)
def _clock_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_clock, "_CLOCK", work_clock._Clock())


@pytest.fixture(scope="module")
def problem() -> Problem:
    """A day that no search within LIMIT_S finishes."""
    return planning_problem(small_with({**TWO_PERIODS, "links.wan.usd_per_gb": 0.02, "slo": {"ttft_s": 6.0}}))


def wall(monkeypatch: pytest.MonkeyPatch, step_s: float) -> None:
    """A wall on which every look is so much later than the last."""
    seconds: Iterator[Any] = count(0, step_s)
    monkeypatch.setattr(work_clock, "monotonic", lambda: next(seconds))


def answered(problem: Problem) -> tuple[Solution, float]:
    """What a search finds, and the work that it took."""
    begun_s = work_s()
    found = best_solution(problem, LIMIT_S, 0.0)
    assert found is not None
    return found, work_s() - begun_s


def test_a_slower_machine_and_one_that_knows_its_queues_have_the_same_answer(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, work = answered(problem)
    assert first.gap > 0, "the search has to be cut off for this to say anything"
    assert LIMIT_S <= work < 2 * LIMIT_S
    wall(monkeypatch, 1e-3)
    before = n_cut_offs()
    assert answered(problem) == (first, pytest.approx(work, abs=1e-6))
    assert not wall_notes(before)


def test_a_wall_that_is_passed_ends_a_search_soon_and_the_answer_says_so(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall(monkeypatch, LEAST_WALL_S)
    before = n_cut_offs()
    with suppress(UndecidedError):
        best_solution(problem, LIMIT_S, 0.0)
    assert [note.split("note: ")[1] for note in wall_notes(before)] == ["ended-by-clock)"]
    assert not wall_notes(n_cut_offs()), "a later question in this process is not cut off"


def test_what_is_past_costs_looks_until_the_limit_is_left_and_nothing_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(work_clock, "monotonic", lambda: now_s)
    with wall_limit(100.0):
        limit = TimeLimit.of(100.0)
        with wall_limit(1e6):  # ends with the outer one
            now_s = SLOWEST * 100.0 - 1
            assert limit.left_s == 100.0
            spend(30.0)
            assert limit.left_s == 70.0
            now_s += 2
            assert limit.left_s == 70.0 - LOOK_S
            assert limit.left_s == 70.0 - 2 * LOOK_S
    known_s = work_s()
    assert work_s() == known_s
