"""Figures of fidelity: every point where it belongs, quantiles by group, and curves in order of their lengths."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from planner.report.chart_fidelity import FEWEST, QUANTILES, RATIOS, curves_chart, scatter_chart, spread_chart


def point(model: str, ttft_s: float | None, tpot_s: float | None, error: float = 0.1, **changes: Any) -> Any:
    """A point that is predicted to take some part longer than it did."""
    stated = {
        "model": model,
        "hardware": "h100-sxm",
        "reason": None,
        "ttft_s": ttft_s,
        "tpot_s": tpot_s,
        "predicted_ttft_s": None if ttft_s is None else ttft_s * (1 + error),
        "predicted_tpot_s": None if tpot_s is None else tpot_s * (1 + error),
        "ttft_error": error,
        "tpot_error": 2 * error,
    }
    return SimpleNamespace(**{**stated, **changes})


def survey(*points: Any, curves: Any = ()) -> Any:
    return SimpleNamespace(fidelity=SimpleNamespace(points=points), curves=curves)


def test_clouds_have_measured_and_predicted_values_by_model_in_the_units_of_their_axes() -> None:
    points = (
        point("b", 2.0, 0.02),
        point("a", 1.0, None),
        point("b", 4.0, 0.04),
        point("c", 9.0, 0.9, reason="left out"),
    )
    chart = scatter_chart(survey(*points))
    assert chart is not None
    (ttft, first), (tpot, later) = chart.panels
    assert ("[s]" in ttft, "[ms]" in tpot) == (True, True)
    assert [(c.name, c.measured, c.predicted) for c in first] == [
        ("a", (1.0,), (pytest.approx(1.1),)),
        ("b", (2.0, 4.0), pytest.approx((2.2, 4.4))),
    ]
    assert [(c.name, c.measured, c.predicted) for c in later] == [
        ("a", (), ()),
        ("b", (20.0, 40.0), pytest.approx((22.0, 44.0))),
    ]
    axes, _ = chart.draw().axes
    ends = (1.0 / 1.3, 4.4 * 1.3)
    assert axes.get_xlim() == axes.get_ylim() == pytest.approx(ends)
    diagonal, *clouds = [([*line.get_xdata()], [*line.get_ydata()]) for line in axes.lines]
    assert diagonal == (pytest.approx(ends), pytest.approx(ends))
    assert clouds == [([1.0], [pytest.approx(1.1)]), ([2.0, 4.0], pytest.approx([2.2, 4.4]))]


def test_a_latency_of_which_nothing_is_known_has_no_panel() -> None:
    chart = scatter_chart(survey(point("a", 1.0, None)))
    assert chart is not None
    assert len(chart.panels) == 1
    assert scatter_chart(survey(point("a", None, None))) is None
    only_measured = point("a", 1.0, None, predicted_ttft_s=None)
    assert scatter_chart(survey(only_measured)) is None


@pytest.mark.parametrize(("n", "is_shown"), [(FEWEST, True), (FEWEST - 1, False)])
def test_groups_that_are_large_enough_have_quantiles_of_predicted_over_measured(n: int, is_shown: bool) -> None:
    errors = np.linspace(-0.3, 0.5, n)
    unknown = point("a", 1.0, 1.0, ttft_error=None)
    chart = spread_chart(survey(*(point("a", 1.0, 1.0, float(e)) for e in errors), unknown, point("b", 1.0, 1.0)))
    if not is_shown:
        assert chart is None
        return
    assert chart is not None
    for (_, (spread,)), times in zip(chart.panels, (1, 2), strict=True):
        assert (spread.name, spread.n) == ("a, h100-sxm", n)
        assert spread.quantiles == pytest.approx(tuple(np.quantile(1 + times * errors, QUANTILES)))
    axes = chart.draw().axes[0]
    low, first, middle, third, high = chart.panels[0][1][0].quantiles
    whole, centre = (line for line in axes.lines if len({*line.get_xdata()}) == 2 or {*line.get_xdata()} == {middle})
    assert list(whole.get_xdata()) == pytest.approx([low, high])
    assert list(centre.get_ydata()) == pytest.approx([-0.28, 0.28])
    *_, bar = (patch for patch in axes.patches if isinstance(patch, Rectangle))
    assert (bar.get_x(), bar.get_x() + bar.get_width()) == pytest.approx((first, third))
    assert axes.get_xlim() == RATIOS


def test_curves_of_several_lengths_are_drawn_in_order() -> None:
    def curve(*tokens: float, is_fitted: bool = True) -> Any:
        points = [SimpleNamespace(tokens=n, measured_s=n / 1000, predicted_s=n / 800) for n in tokens]
        return SimpleNamespace(model="a", hardware="h100", n_accelerators=8, is_fitted=is_fitted, points=points)

    assert curves_chart(survey(curves=(curve(128.0),))) is None
    chart = curves_chart(survey(curves=(curve(8192.0, 128.0), curve(256.0), curve(1.0, 2.0, is_fitted=False))))
    assert chart is not None
    first, second = chart.panels
    assert (first.tokens, first.measured, first.predicted) == ((128.0, 8192.0), (0.128, 8.192), (0.16, 10.24))
    assert (first.title, second.title) == ("a\n8 x h100", "a\n8 x h100, not fitted")
    shown = [axes for axes in chart.draw().axes if axes.get_visible()]
    assert len(shown) == 2
    assert shown[0].get_xlim() == pytest.approx((128 / 1.4, 8192 * 1.4))
    assert shown[0].get_ylim() == pytest.approx((0.128 / 1.3, 10.24 * 1.3))
    assert [label.get_text() for label in shown[0].get_xticklabels()] == ["128", "1K", "8K"]
