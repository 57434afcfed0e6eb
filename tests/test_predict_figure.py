"""The roofline figure: it shows the passes it names, no operator is above the roof, and no name covers another."""

from itertools import combinations

import pytest
from matplotlib.text import Text

from planner.errors import InputError
from planner.profiles import missing_shapes, model_profile, profile_names
from planner.report import canvas
from planner.report.chart_roofline import NAMED_SHARE, roofline_chart
from planner.results.roofline import RooflineSurvey
from planner.studies.predict import PredictQuestion, predict, roofline_survey

MODELS = [name for name in profile_names("model") if not missing_shapes(model_profile(name).architecture)]
TERA = 1e12


def survey(model: str, hardware: str = "b300-sxm", stack: str = "sglang", layout: str = "tp=8") -> RooflineSurvey:
    return roofline_survey(PredictQuestion(model, hardware, stack=stack, layout=layout))


@pytest.mark.parametrize("stack", ["datasheet", "sglang"])
@pytest.mark.parametrize("model", MODELS)
def test_no_operator_is_above_the_roof(model: str, stack: str) -> None:
    found = survey(model, stack=stack)
    peak = max(found.peaks_flop_per_s.values())
    for one in found.passes:
        for point in one.points:
            roof = min(peak, found.memory_bytes_per_s * point.intensity_flop_per_byte)
            assert point.flop_per_s <= roof * (1 + 1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_shares_are_parts_of_the_time_that_predict_states(model: str) -> None:
    found = survey(model)
    answer = predict(PredictQuestion(model, "b300-sxm", stack="sglang"))
    prefill, decode = found.passes
    assert prefill.seconds == pytest.approx(answer.prefill[0].prefill_s)
    fitting = [row for row in answer.decode if row.fits]
    assert decode.seconds == pytest.approx(fitting[-1].step_s)  # the largest batch asked for that fits
    for one in found.passes:
        assert 0 < sum(point.share for point in one.points) <= 1 + 1e-9
        assert all(point.share == pytest.approx(point.seconds / one.seconds) for point in one.points)


def test_a_prefill_of_several_chunks_is_shown_whole() -> None:
    question = PredictQuestion("llama-3.1-8b", "h100-sxm", stack="datasheet", layout="tp=1", tokens=(32768,))
    prefill = roofline_survey(question).passes[0]
    (down,) = (point for point in prefill.points if point.name == "down_proj")
    assert down.flop == pytest.approx(2 * 32768 * 32 * 4096 * 14336)


@pytest.mark.parametrize(
    ("model", "hardware", "layout"),
    [
        ("deepseek-v3", "h200-sxm", "tp=8"),
        ("llama-3.1-8b", "h100-sxm", "tp=1"),
        ("kimi-linear-48b", "h200-sxm", "tp=8"),
        ("gpt-oss-120b", "b200-sxm", "tp=2"),
        ("nemotron-3-super-120b", "gb300", "tp=4,dp=4,ep=16"),
    ],
)
@pytest.mark.parametrize("stack", ["datasheet", "sglang"])
def test_no_text_covers_another_and_the_longest_operator_of_each_pass_is_named(
    model: str, hardware: str, layout: str, stack: str
) -> None:
    found = survey(model, hardware, stack, layout)
    with canvas.style():
        figure = roofline_chart(found)
        figure.draw_without_rendering()
    axes = figure.axes[0]
    texts = [text for text in axes.texts if text.get_text()]
    # Of an annotation the text alone, without the line that leads to its marker.
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in texts if not text.get_rotation()]
    for (one, a), (other, b) in combinations(boxes, 2):
        assert not a.overlaps(b), (one, other)
    names = {text.get_text() for text in texts}
    assert {shown.points[0].name for shown in found.passes if shown.points[0].share >= NAMED_SHARE} <= names


def test_the_ceilings_are_the_datasheets() -> None:
    found = roofline_survey(PredictQuestion("llama-3.1-70b", "h100-sxm", precision="fp4", layout="tp=4"))
    assert found.memory_bytes_per_s == 3.35 * TERA
    assert found.peaks_flop_per_s == {"fp8": 1979 * TERA, "bf16": 989 * TERA}  # there is no fp4 unit


def test_a_model_without_shapes_has_no_figure() -> None:
    with pytest.raises(InputError, match="a model of known shapes"):
        survey("prfaas-1t")
