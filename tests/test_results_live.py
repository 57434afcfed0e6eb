"""Figures of a live run agree with themselves, or are refused by their keys."""

from typing import Any

import pytest
from pydantic import ValidationError

from planner.results.live import LiveCheck


def check(**changes: Any) -> LiveCheck:
    stated: dict[str, Any] = {
        "metric": "ttft_mean_s",
        "unit": "s",
        "predicted": 1.1,
        "executed": None,
        "measured": 1.0,
        "ci_low": 0.9,
        "ci_high": 1.1,
        "relative_error": 0.1,
        "tolerance": 0.2,
        "holds": True,
    }
    return LiveCheck(**{**stated, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"ci_low": 1.0, "ci_high": 1.0},
        {"ci_low": None},
        {"ci_high": None, "ci_low": 9.0},
        {"tolerance": 0.05, "holds": False},
        {"predicted": 0.9, "relative_error": -0.1},
        {"predicted": 0.7, "relative_error": -0.3, "holds": False},
        {"predicted": 0.0, "measured": 0.0, "relative_error": 0.0},
        {"predicted": None, "relative_error": None, "holds": False},
    ],
)
def test_a_check_that_agrees_with_itself_is_taken(changes: dict[str, Any]) -> None:
    assert check(**changes).metric == "ttft_mean_s"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ci_low": 1.2}, "at most ci_high"),
        ({"relative_error": -0.1}, "as predicted over measured"),
        ({"relative_error": None}, "is nothing"),
        ({"holds": False}, "whether the error is within"),
        ({"predicted": 0.7, "relative_error": -0.3}, "whether the error is within"),
        ({"predicted": None, "relative_error": None}, "whether the error is within"),
        ({"predicted": 1.0, "measured": 0.0, "relative_error": 1.0}, "unknown"),
    ],
)
def test_a_check_that_does_not_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        check(**changes)
