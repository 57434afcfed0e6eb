"""Points that contradict physics or their load are flagged, and no others."""

from dataclasses import replace

import pytest

from planner.profiles.points import ServingPoint
from planner.results.fidelity import Fidelity
from planner.studies.fidelity import fidelity
from tests.cpu_cost import cached
from tests.fidelity_points import POINT, configurations, made_by, slower


@cached
def true_points() -> tuple[ServingPoint, ...]:
    return tuple(made_by("vllm", configurations()))


def reasons(found: Fidelity) -> list[str | None]:
    return [row.doubt for row in found.points]


@pytest.mark.parametrize("ratio", [1.0, 2.0, 3.5])
def test_a_server_that_is_slower_than_predicted_is_no_doubt(ratio: float) -> None:
    found = fidelity(slower(true_points(), ratio))
    assert reasons(found) == [None] * 48
    assert (found.sound_ttft, found.sound_tpot) == (found.ttft, found.tpot)


def test_a_wait_that_no_queue_of_the_loop_has_is_flagged_and_scored_apart() -> None:
    points = [*true_points()]
    points[5] = replace(points[5], ttft_s=5 * (points[5].ttft_s or 0.0))
    found = fidelity(points)
    assert [k for k, reason in enumerate(reasons(found)) if reason] == [5]
    assert "over 4 times that of its loop" in (reasons(found)[5] or "")
    assert found.sound_ttft.mean_abs_error == pytest.approx(0.0, abs=1e-9)
    assert found.ttft.mean_abs_error == pytest.approx(0.8 / 48)
    (row,) = found.doubtful
    assert (row.n, row.model) == (1, found.points[5].model)


def test_a_first_token_before_its_prompts_products_can_be_done_is_flagged() -> None:
    """32 billion parameters times 2 x 16,384 tokens are 1.05 PFLOP: on one H100 more than a second in bf16."""
    long = replace(POINT, model="qwen3-32b", hardware="h100-sxm", precision="bf16", input_tokens=16_384.0)
    one = replace(long, n_accelerators=1, tp_size=1, moe_tp_size=None, concurrency=1.0, tpot_s=0.05)
    quick, slow = (fidelity([replace(one, ttft_s=seconds)]) for seconds in (1.0, 2.5))
    assert "80% of the peak" in (reasons(quick)[0] or "")
    assert reasons(slow) == [None]


def test_a_loop_whose_prompts_ask_for_more_than_the_peak_is_flagged() -> None:
    """64 in flight, back every two seconds, are 32 prompts a second, and each takes 0.27 s at the peak."""
    many = replace(POINT, model="qwen3-32b", hardware="h100-sxm", precision="bf16", input_tokens=4096.0)
    loop = replace(many, n_accelerators=1, tp_size=1, moe_tp_size=None, concurrency=64.0, output_tokens=64.0)
    found = fidelity([replace(loop, ttft_s=1.0, tpot_s=0.016)])
    assert "prompts alone ask for more than 80%" in (reasons(found)[0] or "")
