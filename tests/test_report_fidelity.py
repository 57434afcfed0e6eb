"""The report and tables of fidelity, from hand-made answers: aggregates only, figures whole, gaps told."""

from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from planner.cli.common import print_rich
from planner.report.canvas import style
from planner.report.fidelity_folder import (
    check_fidelity_report,
    fidelity_charts,
    fidelity_markdown,
    write_fidelity_report,
)
from planner.report.fidelity_tables import fidelity_tables, worst_points
from planner.report.figures import digest
from planner.results.fidelity import Fidelity, FidelityGroup, LatencyError, PredictedPoint, RefusedPoints
from planner.results.fidelity_survey import (
    CurvePoint,
    Doubt,
    FidelitySurvey,
    HardwareScore,
    MeasuredFile,
    Peer,
    Scored,
    ScoredCurve,
    StackScore,
)
from tests.test_report_figures import PIXEL, written

ERROR = LatencyError(mean_abs_error=0.123, median_abs_error=0.101, bias=-0.045)
NOTHING = LatencyError()
SCORED = Scored(n=12, ttft=ERROR, tpot=ERROR)
SECRET_S = (0.123457, 0.0765432)
"""Measured latencies that no report may show."""


def row(index: int, ratio: float, **changes: object) -> PredictedPoint:
    usual: dict[str, object] = {
        "index": index,
        "model": "llama-3.1-70b",
        "hardware": "h200-sxm",
        "framework": "vllm 0.19.0",
        "stack": "vllm-0.19.0",
        "label": "fp8, tp=8,ep=1,dp=1,pp=1, 1024/8192, C 64",
        "ttft_s": SECRET_S[0],
        "tpot_s": SECRET_S[1],
        "predicted_ttft_s": SECRET_S[0] * ratio,
        "predicted_tpot_s": SECRET_S[1] / ratio,
    }
    return PredictedPoint.model_validate(usual | changes)


ROWS = tuple(row(index, 0.7 + 0.05 * index) for index in range(12))
REFUSED = row(
    12,
    1.0,
    model="nobody/Nothing-7B",
    stack=None,
    predicted_ttft_s=None,
    predicted_tpot_s=None,
    reason="nobody/Nothing-7B is no model profile",
)
GROUP = FidelityGroup(
    model="llama-3.1-70b",
    hardware="h200-sxm",
    framework="vllm",
    mode="agg",
    n=12,
    n_predicted=12,
    ttft=ERROR,
    tpot=ERROR,
)
UNANSWERED = GROUP.model_copy(
    update={
        "model": "nobody/Nothing-7B",
        "mode": "disagg",
        "n": 1,
        "n_predicted": 0,
        "ttft": NOTHING,
        "tpot": NOTHING,
    }
)
FIDELITY = Fidelity(
    n_points=13,
    n_predicted=12,
    ttft=ERROR,
    tpot=ERROR,
    groups=(GROUP, UNANSWERED),
    refused=(RefusedPoints(model="nobody/Nothing-7B", hardware="h200-sxm", reason=str(REFUSED.reason), n=1),),
    points=(*ROWS, REFUSED),
)
BARE = Fidelity(
    n_points=1, n_predicted=0, ttft=NOTHING, tpot=NOTHING, groups=(UNANSWERED,), refused=(), points=(REFUSED,)
)


def curve(origin: str, published: bool, fitted: bool) -> ScoredCurve:
    seconds = (0.387654, 1.87654)
    return ScoredCurve(
        model="qwen3-235b",
        hardware="h20-141gb",
        n_accelerators=8,
        precision="bf16",
        stack="sglang",
        origin=origin,
        is_fitted=fitted,
        is_published=published,
        note=None,
        points=tuple(
            CurvePoint(tokens=n, measured_s=s, predicted_s=1.1 * s) for n, s in zip((1024, 8192), seconds, strict=True)
        ),
    )


SURVEY = FidelitySurvey(
    title="Predictions against measurements",
    notes="- A remark.\n",
    fidelity=FIDELITY,
    files=(
        MeasuredFile(
            name="points.csv",
            sha256="0f" * 32,
            what="latencies",
            source="somebody (a licence)",
            models=("llama-3.1-70b",),
            hardware=("h200-sxm",),
            frameworks=("vllm",),
            n_predicted=12,
            scored=SCORED,
        ),
    ),
    by_hardware=(HardwareScore(hardware="h200-sxm", n_predicted=12, scored=SCORED, cleared=SCORED),),
    stacks=(
        StackScore(
            stack="vllm",
            models=("a", "b"),
            hardware=("h200-sxm",),
            in_sample=SCORED,
            held_out_models=SCORED,
            held_out_hardware=None,
        ),
    ),
    curves=(curve("model profile qwen3-235b, table-3", True, True), curve("secret.csv", False, False)),
    doubts=(Doubt(what="points at concurrency 512", why="they contradict", own=SCORED, others=SCORED),),
    without_doubts=SCORED,
    peers=(Peer(what="a peer", ttft="50 %", tpot="14 %", answered="a third"),),
)
EMPTY = FidelitySurvey(
    title="Nothing",
    notes="",
    fidelity=BARE,
    files=(),
    by_hardware=(),
    stacks=(),
    curves=(),
    doubts=(),
    without_doubts=None,
    peers=(),
)


def markdown(survey: FidelitySurvey) -> str:
    return fidelity_markdown(survey, fidelity_charts(survey))


def test_tables_are_what_they_were(golden: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]) -> None:
    print_rich(*fidelity_tables(FIDELITY))
    text = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    assert max(map(len, text.splitlines())) <= 100
    golden("cli/fidelity.txt", f"{text}\n")


def test_the_report_is_what_it_was(golden: Callable[[str, str], None]) -> None:
    golden("reports/fidelity.md", markdown(SURVEY))


def test_a_report_of_nothing_has_only_what_there_is() -> None:
    text = markdown(EMPTY)
    assert fidelity_charts(EMPTY) == {}
    for heading in ("Prefill alone", "Known contradictions", "What it did not see\n", "Notes", "!["):
        assert heading not in text


def test_how_rows_were_read_is_said_and_shown_as_it_stands() -> None:
    note = "<b>x</b>/Qwen3-32B-FP8: fp8 by its name, as no precision is stated (2 points)"
    found = BARE.model_copy(update={"notes": (note,)})
    text = markdown(EMPTY.model_copy(update={"fidelity": found}))
    assert "## How rows were read" in text
    assert "Qwen3-32B-FP8: fp8 by its name, as no precision is stated (2 points)" in text
    assert "<b>" not in text
    assert "## How rows were read" not in markdown(EMPTY)


def test_a_report_shows_no_measured_value_that_nobody_published() -> None:
    text = markdown(SURVEY)
    secrets = [*SECRET_S, *(1e3 * value for value in SECRET_S)]
    secrets += [point.measured_s for point in SURVEY.curves[1].points]
    published, rest = text.split("| qwen3-235b | h20-141gb | 1,024 | –", 1)
    assert "0.388" in published, "what a profile publishes may be shown"
    assert not any(f"{value:.3g}" in rest for value in secrets)
    assert not any(f"{value:.3g}" in published for value in secrets[:4])


@pytest.mark.parametrize("name", list(fidelity_charts(SURVEY)))
def test_every_figure_shows_its_texts_whole(name: str) -> None:
    with style():
        figure = fidelity_charts(SURVEY)[name].draw()
        canvas = figure.canvas
        assert isinstance(canvas, FigureCanvasAgg)
        canvas.draw()
        for text in [*written(figure), *(axes.title for axes in figure.axes if axes.get_visible())]:
            box = text.get_window_extent()
            assert box.x0 >= -PIXEL, text
            assert box.x1 <= figure.bbox.x1 + PIXEL, text
            assert box.y0 >= -PIXEL, text
            assert box.y1 <= figure.bbox.y1 + PIXEL, text


def test_figures_know_what_they_show() -> None:
    other = SURVEY.model_copy(update={"fidelity": FIDELITY.model_copy(update={"points": ROWS[1:]})})
    same, changed = fidelity_charts(SURVEY), fidelity_charts(other)
    assert {name: digest(chart) for name, chart in fidelity_charts(SURVEY).items()} == {
        name: digest(chart) for name, chart in same.items()
    }
    assert digest(same["scatter"]) != digest(changed["scatter"])
    assert digest(same["spread"]) != digest(changed["spread"])
    assert digest(same["prefill"]) == digest(changed["prefill"])


def test_a_folder_is_current_after_it_is_written_and_keeps_its_notes(tmp_path: Path) -> None:
    (tmp_path / "notes.toml").write_text("title = 'x'\n")
    assert check_fidelity_report(SURVEY, tmp_path)[0] == "report.md: is missing"
    write_fidelity_report(SURVEY, tmp_path)
    assert check_fidelity_report(SURVEY, tmp_path) == []
    assert (tmp_path / "notes.toml").read_text() == "title = 'x'\n"
    other = SURVEY.model_copy(update={"curves": ()})
    text, image = check_fidelity_report(other, tmp_path)
    assert text.startswith("report.md: line ")
    assert image == "figures/prefill.png: is not a figure of this report, remove it"


def test_the_worst_points_are_those_with_the_largest_ratio_either_way() -> None:
    points = [row(0, 1.0), row(1, 0.5), row(2, 3.0), row(3, 1.1), REFUSED]
    assert [point.index for point in worst_points(points, 3)] == [2, 1, 3]
