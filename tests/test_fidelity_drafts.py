"""Measured points with drafted tokens: predicted with them where a row says so, and no proof of fast kernels."""

from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from planner.profiles.points import ServingPoint
from planner.profiles.points.reader import csv_points
from planner.roofline import stack
from planner.studies.fidelity import PointsOf, calibrated_stack, fidelity
from planner.studies.fidelity.cases import case_of, cases_of
from planner.studies.fidelity.closed_loops import is_run
from planner.studies.fidelity.loads import case_model, loads_of
from tests.fidelity_points import POINT

DEEPSEEK = replace(POINT, model="deepseek-v3", precision="fp8", n_accelerators=8, tp_size=8, moe_tp_size=8)
DAY = date(2026, 1, 1)
SGLANG = stack("sglang")


def tpot_s(*points: ServingPoint) -> list[float]:
    cases, refused = cases_of(points)
    assert not refused
    return loads_of(cases, SGLANG.run_as).latencies(SGLANG.factors)[1].tolist()


@pytest.mark.parametrize("n", [1, 3])
def test_a_request_alone_with_stated_drafts_takes_a_step_over_the_tokens_that_it_yields(n: int) -> None:
    point = replace(DEEPSEEK, concurrency=1.0, lengths_are_means=True, draft_tokens=n, acceptance=0.8)
    case = case_of(point)
    served = replace(case_model(case, SGLANG.run_as, "decode", True), factors=SGLANG.factors)
    assert served.speculation is not None
    assert served.speculation.acceptance == (0.8,) * n
    context = point.input_tokens + point.output_tokens / 2
    assert tpot_s(point)[0] == pytest.approx(float(served.token_time([1], [context]).total_s[0]))


def test_a_prompt_holds_up_others_by_its_own_seconds_whatever_is_drafted() -> None:
    """Drafts share the step among tokens; what prompts add to passes is shared by no one."""
    plain, drafted = (
        loads_of([case_of(replace(DEEPSEEK, concurrency=64.0, draft_tokens=n, acceptance=1.0))], SGLANG.run_as)
        for n in (0, 1)
    )
    assert (plain.tokens_per_step.tolist(), drafted.tokens_per_step.tolist()) == ([1.0], [2.0])
    seconds = [float(loads.latencies(SGLANG.factors)[1][0]) for loads in (plain, drafted)]
    assert seconds[0] / 2 < seconds[1] < seconds[0]


def test_no_drafts_and_nothing_said_of_them_are_predicted_alike() -> None:
    silent, none = tpot_s(DEEPSEEK, replace(DEEPSEEK, draft_tokens=0))
    assert silent == none


def test_loops_with_drafts_have_their_means_in_closed_form() -> None:
    drafted = replace(DEEPSEEK, draft_tokens=1, acceptance=0.8)
    assert [is_run(case_of(point)) for point in (DEEPSEEK, drafted)] == [True, False]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"acceptance": None}, "acceptance does not say how many are accepted"),
        ({"model": "qwen3-32b", "precision": "bf16"}, "the profile qwen3-32b has no MTP layers"),
        ({"pp_size": 2, "tp_size": 4}, "2 pipeline stages"),
    ],
)
def test_drafts_that_nobody_can_count_are_refused_with_the_reason(changes: dict[str, object], said: str) -> None:
    point = replace(DEEPSEEK, draft_tokens=2, acceptance=0.8)
    _, refused = cases_of([replace(point, **changes)])  # type: ignore[arg-type]
    assert said in refused[0].reason


SERIES = [
    replace(DEEPSEEK, series="a run", concurrency=c, source=None, input_tokens=1024.0, output_tokens=1024.0)
    for c in (4.0, 16.0, 64.0, 128.0)
]


def as_measured(points: list[ServingPoint], acceptance: float, faster: float = 1.0) -> list[ServingPoint]:
    """Points with the TPOT that drafts of three tokens have, and not a word of them."""
    drafted = [replace(point, draft_tokens=3, acceptance=acceptance) for point in points]
    return [replace(point, tpot_s=t / faster) for point, t in zip(points, tpot_s(*drafted), strict=True)]


def test_a_series_that_hides_its_drafts_is_predicted_with_them_and_said() -> None:
    found = fidelity(as_measured(SERIES, 0.7), "sglang")
    assert [row.predicted_tpot_s / row.tpot_s for row in found.points] == pytest.approx([1.0] * 4, rel=0.01)
    (said,) = (str(note) for note in found.notes)
    assert "each accepted at 0.70 (4 points) (note: drafts-inferred)" in said


@pytest.mark.parametrize(
    ("points", "why"),
    [
        (as_measured(SERIES[:2], 0.7), "two rows are no series"),
        ([replace(point, series=None) for point in as_measured(SERIES, 0.7)], "nothing says that they are one run"),
        ([replace(point, draft_tokens=0) for point in as_measured(SERIES, 0.7)], "they say that nothing is drafted"),
        (as_measured(SERIES, 0.9, faster=1.5), "no acceptance of three tokens explains them"),
        (as_measured(SERIES, 0.2), "an error of the model would be as large"),
    ],
)
def test_no_drafts_are_inferred_where(points: list[ServingPoint], why: str) -> None:
    found = fidelity(points, "sglang")
    assert "drafts-inferred" not in str(found.notes), why


def test_a_fit_leaves_out_series_that_hide_their_drafts() -> None:
    """Their TPOT says nothing of kernels: a fit with them is the fit without them."""
    plain = [replace(point, framework="sglang", tpot_s=t) for point, t in zip(SERIES, tpot_s(*SERIES), strict=True)]
    hidden = [replace(point, framework="sglang", series="another") for point in as_measured(SERIES, 0.8)]
    with_hidden, without = (
        calibrated_stack("own", "sglang", [PointsOf(None, tuple(points))], settings=SGLANG.settings, day=DAY)
        for points in (plain + hidden, plain)
    )
    assert with_hidden.factors == without.factors


def test_a_series_is_stated_or_is_the_source_up_to_its_shape() -> None:
    columns = "model,hardware,framework,gpus,input_tokens,output_tokens,concurrency,tpot_ms,series,source"
    rows = [
        "m,h,vllm,8,1024,128,4,9,config 7,x",
        'm,h,vllm,8,1024,128,4,9,,"a.csv, m_h_agg_1024x128_c4_tp8_12"',
        "m,h,vllm,8,1024,128,4,9,,",
    ]
    found = csv_points("x.csv", "\n".join([columns, *rows]))
    assert [point.series for point in found] == ["config 7", "a.csv, m_h_agg", None]


def test_the_prediction_of_a_row_with_drafts_is_that_of_its_step_over_more_tokens() -> None:
    rates = np.array(tpot_s(*(replace(DEEPSEEK, draft_tokens=2, acceptance=a) for a in (0.2, 0.6, 1.0))))
    assert np.all(np.diff(rates) < 0)
