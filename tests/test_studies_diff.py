"""What of two plans differs, beyond what their own gaps say nothing about."""

from typing import Any

import pytest

from planner.studies.diff import MOST_NOISE, SOLVER_NOISE, _Noise, _noise_of_search
from tests.test_report_records import make_plan


def noise_of(before: float, after: float) -> float:
    return _noise_of_search(make_plan(gap=before), make_plan(gap=after))


def test_figures_of_two_fleets_may_differ_by_the_gaps_of_both_plans_up_to_a_hundredth() -> None:
    assert noise_of(0.001, 0.003) == pytest.approx(0.004)
    assert noise_of(0.0, 0.0) == SOLVER_NOISE
    assert noise_of(0.3, 0.0) == MOST_NOISE


@pytest.mark.parametrize(
    ("before", "after", "differs", "n_hidden"),
    [
        (1.0, 1.0, False, 0),
        (100.0, 104.0, False, 1),
        (100.0, 104.5, True, 0),
        (-100.0, -104.0, False, 1),
        (104.0, 100.0, False, 1),
        (100, 101, True, 0),
        (100.0, None, True, 0),
        (None, 100.0, True, 0),
        ("a", "b", True, 0),
        (100, 101.0, True, 0),
    ],
)
def test_measures_that_differ_by_no_more_are_hidden_and_counted_and_all_else_differs(
    before: Any, after: Any, differs: bool, n_hidden: int
) -> None:
    found = _Noise(0.04)
    assert found.differ(before, after) is differs
    assert found.n_hidden == n_hidden
