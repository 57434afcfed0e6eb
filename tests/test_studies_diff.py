"""What of two plans differs, beyond what their own gaps say nothing about."""

from typing import Any

import pytest

from planner.studies.diff import SOLVER_NOISE, _Noise
from tests.test_report_records import make_plan


def noise(before: float = 0.01, after: float = 0.03, bounds: tuple[float, float] = (10.0, -20.0)) -> _Noise:
    return _Noise(make_plan(gap=before, bound=bounds[0]), make_plan(gap=after, bound=bounds[1]))


def test_figures_may_differ_by_the_gaps_of_both_plans_and_objectives_by_what_these_are_of_their_bounds() -> None:
    assert noise().fraction == pytest.approx(0.04)
    assert noise().objective == pytest.approx(0.01 * 10 + 0.03 * 20)
    exact = noise(0.0, 0.0)
    assert (exact.fraction, exact.objective) == (SOLVER_NOISE, SOLVER_NOISE * 20.0)


@pytest.mark.parametrize(
    ("before", "after", "allowed", "differs", "n_hidden"),
    [
        (1.0, 1.0, None, False, 0),
        (100.0, 104.0, None, False, 1),
        (100.0, 104.5, None, True, 0),
        (-100.0, -104.0, None, False, 1),
        (104.0, 100.0, None, False, 1),
        (100.0, 104.0, 3.0, True, 0),
        (100.0, 110.0, 10.0, False, 1),
        (100, 101, None, True, 0),
        (100.0, None, None, True, 0),
        (None, 100.0, None, True, 0),
        ("a", "b", None, True, 0),
        (100, 101.0, None, True, 0),
    ],
)
def test_measures_that_differ_by_no_more_are_hidden_and_counted_and_all_else_differs(
    before: Any, after: Any, allowed: float | None, differs: bool, n_hidden: int
) -> None:
    found = noise()
    assert found.differ(before, after, allowed) is differs
    assert found.n_hidden == n_hidden
