"""Curves of bare prefills: what of the rows is drawn, and what is said of it."""

from types import SimpleNamespace
from typing import Any

import pytest

from planner.studies.fidelity.survey import INFERRED_NOTE, _curve, _grouped


def row(tokens: float, measured_s: float | None, predicted_s: float | None, model: str = "a") -> Any:
    point = SimpleNamespace(input_tokens=tokens, ttft_s=measured_s, n_accelerators=8, precision=None)
    return point, SimpleNamespace(predicted_ttft_s=predicted_s, model=model, hardware="h100-sxm", stack=None)


@pytest.mark.parametrize("is_inferred", [False, True])
def test_a_curve_has_the_points_that_are_measured_and_predicted(is_inferred: bool) -> None:
    rows = [row(100.0, 1.0, 1.5), row(200.0, None, 2.0), row(300.0, 3.0, None), row(400.0, 4.0, 4.5)]
    (found,) = _curve(rows, "points.csv", published=True, fitted=False, inferred=is_inferred)
    assert [(p.tokens, p.measured_s, p.predicted_s) for p in found.points] == [(100.0, 1.0, 1.5), (400.0, 4.0, 4.5)]
    assert (found.model, found.hardware, found.n_accelerators) == ("a", "h100-sxm", 8)
    assert (found.precision, found.stack, found.origin) == ("", "", "points.csv")
    assert (found.is_fitted, found.is_published) == (False, True)
    assert found.note == (INFERRED_NOTE if is_inferred else None)


def test_a_single_point_is_a_curve_of_its_own_model_and_none_is_no_curve() -> None:
    (found,) = _curve([row(100.0, 1.0, 1.5, "b")], "x", published=False, fitted=True, inferred=False)
    assert (found.model, len(found.points)) == ("b", 1)
    assert list(_curve([row(100.0, None, 1.5)], "x", published=False, fitted=True, inferred=False)) == []


def test_rows_are_grouped_in_the_order_in_which_their_groups_come() -> None:
    rows = [row(1.0, 1.0, 1.0, "b"), row(2.0, 1.0, 1.0, "a"), row(3.0, 1.0, 1.0, "b")]
    found = [(key, [point.input_tokens for point, _ in own]) for key, own in _grouped(rows, lambda one: one[1].model)]
    assert found == [("b", [1.0, 3.0]), ("a", [2.0])]
