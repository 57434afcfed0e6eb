"""Scores of measured points: what is predicted, by which stack, what is refused and why, and how errors are counted."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.profiles.points import ServingPoint, read_points
from planner.profiles.points.reader import csv_points
from planner.profiles.stack_writer import stack_toml
from planner.studies.fidelity import fidelity
from planner.studies.fidelity.cases import case_of
from tests.cpu_cost import cached
from tests.fidelity_points import POINT, configurations, made_by, slower
from tests.stacks import CALIBRATED, NAME

EXACT = 1e-9
DISAGG = replace(
    POINT,
    mode="disagg",
    n_accelerators=16,
    tp_size=None,
    moe_tp_size=None,
    prefill_num_workers=2,
    prefill_tp_size=4,
    decode_num_workers=1,
    decode_tp_size=8,
)


@cached
def true_points() -> tuple[ServingPoint, ...]:
    """Points whose latencies are what a shipped stack predicts."""
    return tuple(made_by("vllm", configurations()))


def test_points_that_a_stack_made_are_predicted_by_it_without_error() -> None:
    found = fidelity(true_points())
    assert (found.n_points, found.n_predicted) == (48, 48)
    assert {row.stack for row in found.points} == {"vllm"}
    for error in (found.ttft, found.tpot):
        assert error.mean_abs_error == pytest.approx(0.0, abs=EXACT)
        assert error.median_abs_error == pytest.approx(0.0, abs=EXACT)


def test_a_throughput_is_scored_like_a_latency_and_by_group() -> None:
    (made,) = made_by("vllm", [POINT])
    predicted = fidelity([made]).points[0].predicted_tokens_per_s
    assert predicted is not None
    found = fidelity([replace(made, output_tokens_per_s_per_gpu=predicted / 1.25)])
    for score in (found.throughput, found.groups[0].throughput):
        assert (score.mean_abs_error, score.bias) == (pytest.approx(0.25), pytest.approx(0.25))
    assert fidelity([made]).throughput.mean_abs_error is None
    open_loop = replace(made, request_rate_req_per_s=2.0)  # whose concurrency is the most that may be
    generated = fidelity([open_loop]).points[0].predicted_tokens_per_s
    assert generated == pytest.approx(2.0 * made.output_tokens / made.n_accelerators, rel=0.11), "lengths below nominal"


def test_workers_of_either_side_have_replicas_and_experts_of_their_own() -> None:
    """Of a prefill worker with eight replicas each takes a prompt, so that none waits for another."""
    sides = {"prefill_num_workers": 1, "prefill_tp_size": 1, "prefill_attention_dp_size": 8, "prefill_moe_ep_size": 8}
    wide = replace(DISAGG, model="deepseek-v3", hardware="h200-sxm", precision="fp8", concurrency=8.0, **sides)
    case = case_of(wide)
    assert str(case.prefill_layout) == "tp=1,ep=8,dp=8,pp=1"
    assert str(case.decode_layout) == "tp=8,ep=1,dp=1,pp=1"
    (row,) = fidelity([replace(wide, n_accelerators=16)]).points
    assert row.predicted_ttft_s is not None
    refused = fidelity([replace(wide, prefill_moe_ep_size=3)]).refused
    assert "prefill_moe_ep_size 3 does not divide tp x dp, 8" in refused[0].reason


@pytest.mark.parametrize(("ratio", "error"), [(2.0, -0.5), (0.8, 0.25)])
def test_errors_are_fractions_of_the_measured_value_and_bias_has_the_sign_of_too_slow(
    ratio: float, error: float
) -> None:
    found = fidelity(slower(true_points(), ratio))
    for score in (found.ttft, found.tpot, *(group.tpot for group in found.groups)):
        assert score.mean_abs_error == pytest.approx(abs(error))
        assert score.bias == pytest.approx(error)


def test_bias_and_median_are_those_of_the_middle_point() -> None:
    points = [slower([point], ratio)[0] for point, ratio in zip(true_points(), (1.0, 0.5, 0.8), strict=False)]
    found = fidelity(points)
    assert found.tpot.mean_abs_error == pytest.approx((0.0 + 1.0 + 0.25) / 3)
    assert (found.tpot.median_abs_error, found.tpot.bias) == (pytest.approx(0.25), pytest.approx(0.25))


def test_groups_are_by_model_accelerator_framework_and_mode_and_add_up() -> None:
    found = fidelity([*true_points(), DISAGG])
    keys = [(group.model, group.hardware, group.framework, group.mode) for group in found.groups]
    assert keys == sorted(set(keys))
    assert len(keys) == 5
    assert sum(group.n for group in found.groups) == found.n_points == 49


def test_names_of_points_files_are_found_in_the_catalogue() -> None:
    names = (("meta-llama/Llama-3.1-70B-Instruct", "llama-3.1-70b"), ("deepseek-ai/DeepSeek-R1", "deepseek-v3"))
    for written, name in names:
        (row,) = fidelity(
            [replace(POINT, model=written, hardware="h200_sxm", precision="fp8", tp_size=8, n_accelerators=8)]
        ).points
        assert (row.model, row.hardware, row.reason) == (name, "h200-sxm", None)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"model": "nobody/Nothing-7B"}, "nobody/Nothing-7B is no model profile"),
        ({"hardware": "h300_sxm"}, "h300_sxm is no hardware profile"),
        ({"precision": "fp3"}, "precision 'fp3' is unknown"),
        ({"concurrency": None}, "neither a concurrency nor a rate"),
        ({"model": "prfaas-1t", "precision": "fp8"}, "the profile prfaas-1t lacks"),
        ({"mode": "disagg"}, "is disagg without prefill_num_workers, prefill_tp_size, decode_num_workers"),
        ({"mode": "disagg", "prefill_num_workers": 1, "prefill_tp_size": 4}, "without decode_num_workers"),
    ],
)
def test_what_cannot_be_predicted_is_refused_with_its_reason_and_counted(
    fields: dict[str, object], reason: str
) -> None:
    odd = [replace(POINT, line=line, **fields) for line in (100, 101)]  # type: ignore[arg-type]
    found = fidelity([odd[0], *true_points()[:8], odd[1]])
    (refused,) = found.refused
    assert (refused.n, found.n_points, found.n_predicted) == (2, 10, 8)
    assert reason in refused.reason
    assert [row.index for row in found.points if row.reason] == [0, 9]
    assert found.answered_fraction == 0.8


def test_a_refused_point_belongs_to_a_group_but_not_to_its_errors() -> None:
    found = fidelity([replace(POINT, model="nobody/Nothing-7B"), *true_points()])
    (group,) = (group for group in found.groups if group.model == "nobody/Nothing-7B")
    assert (group.n, group.n_predicted, group.ttft.mean_abs_error) == (1, 0, None)
    assert found.ttft.mean_abs_error == pytest.approx(0.0, abs=EXACT)


def test_disaggregated_workers_are_predicted_and_shown() -> None:
    (row,) = fidelity([DISAGG]).points
    assert row.reason is None
    assert row.predicted_ttft_s is not None
    assert row.predicted_tpot_s is not None
    assert "2x4 P + 1x8 D" in row.label


def test_decode_of_disaggregated_workers_is_not_held_up_by_prefill() -> None:
    long = replace(DISAGG, input_tokens=16384.0, concurrency=32.0)
    together = replace(POINT, input_tokens=16384.0, concurrency=32.0, n_accelerators=8, tp_size=8, moe_tp_size=8)
    apart, shared = fidelity([long, together]).points
    assert (apart.predicted_tpot_s or 0.0) < 0.7 * (shared.predicted_tpot_s or 0.0)


def test_more_prefill_workers_shorten_ttft_only() -> None:
    busy = replace(DISAGG, input_tokens=8192.0, concurrency=64.0)
    few, many = fidelity([busy, replace(busy, prefill_num_workers=8, n_accelerators=40)]).points
    assert (many.predicted_ttft_s or 0.0) < (few.predicted_ttft_s or 0.0)
    assert many.predicted_tpot_s == pytest.approx(few.predicted_tpot_s)


@pytest.mark.parametrize("precision", ["fp4", "nvfp4", "mxfp4", "fp8", "bf16", "fp16", "bfloat16", "int4", "FP8", None])
@pytest.mark.parametrize("hardware", ["h100_sxm", "b200_sxm"])
def test_every_number_format_is_answered_also_where_the_chip_has_no_unit_for_it(
    precision: str | None, hardware: str
) -> None:
    point = replace(POINT, model="openai/gpt-oss-120b", hardware=hardware, precision=precision)
    found = fidelity([point])
    assert found.n_predicted == 1, found.refused
    assert (found.points[0].predicted_tpot_s or 0.0) > 0


def test_a_wider_format_is_never_faster() -> None:
    steps = [fidelity([replace(POINT, precision=name)]).points[0].predicted_tpot_s for name in ("bf16", "fp8", "fp4")]
    assert steps == sorted(steps, key=lambda step: -(step or 0.0))


def test_sizes_may_be_written_as_8_0_and_unknown_ones_left_empty() -> None:
    head = "model,hardware,framework,precision,mode,input_tokens,output_tokens,concurrency,tp_size,pp_size,"
    head += "attention_dp_size,moe_ep_size,ttft_ms,tpot_ms,gpus\n"
    rows = ["Qwen/Qwen3-32B,h200_sxm,vllm,bf16,agg,1024,512,8.0,8.0,1.0,1.0,1.0,200,12,8.0"]
    rows += ["Qwen/Qwen3-32B,h200_sxm,vllm,bf16,,1024,512,8,,,,,200,12,8"]
    first, second = fidelity(csv_points("x.csv", head + "\n".join(rows))).points
    assert first.reason is second.reason is None
    assert first.predicted_tpot_s == second.predicted_tpot_s


def test_a_bare_prefill_has_no_time_per_output_token() -> None:
    (row,) = fidelity([replace(POINT, output_tokens=1.0, concurrency=1.0, tpot_s=None)]).points
    assert row.predicted_tpot_s is None
    assert (row.predicted_ttft_s or 0.0) > 0


def test_an_open_loop_is_predicted_and_slows_with_its_rate() -> None:
    rates = (0.1, 1.0, 4.0)
    rows = fidelity([replace(POINT, concurrency=None, request_rate_req_per_s=rate) for rate in rates]).points
    steps = [row.predicted_tpot_s or 0.0 for row in rows]
    assert 0 < steps[0] < steps[1] < steps[2]


def test_a_framework_nobody_fitted_is_predicted_by_the_best_stack_there_is() -> None:
    (row,) = fidelity([replace(POINT, framework="LMDeploy", framework_version="1.0")]).points
    assert row.framework == "LMDeploy 1.0"
    assert row.stack in {"vllm", "trtllm", "sglang"}


def test_one_stack_for_all_points_is_taken_at_its_word() -> None:
    found = fidelity(true_points(), "datasheet")
    assert {row.stack for row in found.points} == {"datasheet"}
    assert (found.tpot.bias or 0.0) < 0, "the bare roofline is faster than any stack"


def test_a_stack_that_is_none_is_an_input_error() -> None:
    with pytest.raises(InputError, match="vlm"):
        fidelity(true_points(), "vlm")


def test_the_file_of_a_profile_predicts_points_of_any_version_and_framework_alike(tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.toml"
    path.write_text(CALIBRATED, encoding="utf-8")
    own = [replace(POINT, framework=NAME, framework_version=version) for version in ("0.9.1", "0.18.0", None)]
    rows = fidelity([*own, POINT], str(path)).points
    assert {row.stack for row in rows} == {NAME}
    assert len({(row.predicted_ttft_s, row.predicted_tpot_s) for row in rows}) == 1


def test_points_of_all_versions_of_a_framework_are_predicted_by_it_and_keep_their_names() -> None:
    versions = ("0.9.1", "0.18.0", "0.19.0rc1", None)
    rows = fidelity([replace(POINT, framework="vLLM", framework_version=version) for version in versions]).points
    assert [row.framework for row in rows] == ["vLLM 0.9.1", "vLLM 0.18.0", "vLLM 0.19.0rc1", "vLLM"]
    assert {row.stack for row in rows} == {"vllm"}
    assert len({(row.predicted_ttft_s, row.predicted_tpot_s) for row in rows}) == 1


def test_the_answer_leaves_out_points_but_holds_every_field_of_the_contract() -> None:
    content = fidelity(true_points()).model_dump(mode="json", by_alias=True)
    of_all = ["schema", "n_points", "n_predicted", "ttft", "tpot", "groups", "refused"]
    of_all += ["doubtful", "sound_ttft", "sound_tpot", "notes"]
    of_all.insert(5, "throughput")
    assert [*content] == of_all


def test_the_shipped_stacks_read_back_as_they_are_written() -> None:
    from planner.profiles import profile_names, stack_profile
    from planner.profiles.folders import profile_dir

    for name in profile_names("stack"):
        text = (profile_dir("stack") / f"{name}.toml").read_text(encoding="utf-8")
        assert stack_toml(stack_profile(name)) == text


@pytest.mark.parametrize("name", ["measured/serving_points.csv", "measured/h20_prefill.csv"])
def test_every_published_point_is_answered(name: str, data_file: Callable[[str], Path]) -> None:
    points = read_points(data_file(name))
    found = fidelity(points[::7])
    assert found.refused == ()
