"""Measured points with drafted tokens: predicted with them where a row says so, and no proof of fast kernels."""

from dataclasses import replace

import numpy as np
import pytest

from planner.profiles.points import ServingPoint
from planner.roofline import stack
from planner.studies.fidelity.cases import case_of, cases_of, surely_drafted
from planner.studies.fidelity.closed_loops import is_run
from planner.studies.fidelity.loads import loads_of, served_model
from tests.fidelity_points import POINT

DEEPSEEK = replace(POINT, model="deepseek-v3", precision="fp8", n_accelerators=8, tp_size=8, moe_tp_size=8)
SGLANG = stack("sglang")


def tpot_s(*points: ServingPoint) -> list[float]:
    cases, refused = cases_of(points)
    assert not refused
    return loads_of(cases, SGLANG.run_as).latencies(SGLANG.factors)[1].tolist()


@pytest.mark.parametrize("n", [1, 3])
def test_a_request_alone_with_stated_drafts_takes_a_step_over_the_tokens_that_it_yields(n: int) -> None:
    point = replace(DEEPSEEK, concurrency=1.0, lengths_are_means=True, draft_tokens=n, acceptance=0.8)
    case = case_of(point)
    served = replace(served_model(case, SGLANG.run_as, "decode", True), factors=SGLANG.factors)
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


@pytest.mark.parametrize(("tpot", "stated", "expected"), [(1e-3, None, True), (1e-3, 0, False), (0.02, None, False)])
def test_a_tpot_that_no_plain_step_can_have_tells_of_drafts_and_not_of_kernels(
    tpot: float, stated: int | None, expected: bool
) -> None:
    """One token of DeepSeek-V3 reads 37 GB: on eight accelerators of 4.8 TB/s no less than 0.96 ms, and all-reduces."""
    case = case_of(replace(DEEPSEEK, tpot_s=tpot, draft_tokens=stated))
    assert surely_drafted([case]) == [expected]


def test_the_prediction_of_a_row_with_drafts_is_that_of_its_step_over_more_tokens() -> None:
    rates = np.array(tpot_s(*(replace(DEEPSEEK, draft_tokens=2, acceptance=a) for a in (0.2, 0.6, 1.0))))
    assert np.all(np.diff(rates) < 0)
