"""Result files of serving benchmarks: what they state, what must be said for them, and what is no steady state."""

import json

import pytest

from planner.errors import InputError
from planner.profiles.points import PointDefaults, read_points

VLLM = {
    "date": "20260301-101500",
    "endpoint_type": "vllm",
    "backend": "vllm",
    "label": None,
    "model_id": "lab/tiny-7b",
    "tokenizer_id": "lab/tiny-7b",
    "num_prompts": 100,
    "hardware": "h200-sxm",
    "tp_size": "8",
    "framework_version": "0.18.0",
    "precision": "fp8",
    "request_rate": "inf",
    "burstiness": 1.0,
    "max_concurrency": 16,
    "duration": 60.5,
    "completed": 100,
    "failed": 0,
    "total_input_tokens": 102400,
    "total_output_tokens": 12850,
    "mean_ttft_ms": 300.0,
    "median_ttft_ms": 250.0,
    "mean_tpot_ms": 13.0,
    "median_tpot_ms": 12.5,
    "input_lens": [1024],
}
SERVER = {
    "model_path": "lab/tiny-moe",
    "served_model_name": "tiny",
    "tp_size": 8,
    "dp_size": 1,
    "ep_size": 1,
    "pp_size": 1,
    "version": "0.5.9",
    "quantization": "fp8",
    "kv_cache_dtype": "fp8_e4m3",
    "disaggregation_mode": "null",
}
SGLANG = {
    "tag": None,
    "backend": "sglang-oai",
    "dataset_name": "random",
    "request_rate": 4.0,
    "max_concurrency": None,
    "random_input_len": 4096,
    "random_output_len": 512,
    "server_info": SERVER,
    "completed": 50,
    "total_input_tokens": 204800,
    "total_output_tokens": 25600,
    "mean_ttft_ms": 410.0,
    "median_ttft_ms": 400.0,
    "mean_tpot_ms": 21.0,
    "median_tpot_ms": 20.0,
    "concurrency": 9.7,
}
NOTHING = PointDefaults()
H20 = PointDefaults(hardware="h20-96gb")


@pytest.fixture
def points_of(tmp_path):
    """Reads a file of JSON objects, one a line; or of some text."""

    def read(*results, defaults=NOTHING):
        path = tmp_path / "run.txt"
        path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in results), encoding="utf-8")
        return read_points(path, defaults)

    return read


@pytest.fixture
def problems_of(points_of, tmp_path):
    """Every problem of a file as text, without its folder."""

    def read(*results, defaults=NOTHING):
        with pytest.raises(InputError) as caught:
            points_of(*results, defaults=defaults)
        return [str(problem).replace(f"{tmp_path}/", "") for problem in caught.value.problems]

    return read


def without(result, *keys):
    return {key: value for key, value in result.items() if key not in keys}


def test_a_vllm_result_states_means_of_lengths_medians_of_latencies_and_its_metadata(points_of):
    (point,) = points_of(VLLM)
    assert (point.model, point.hardware, point.framework, point.framework_version) == (
        "lab/tiny-7b",
        "h200-sxm",
        "vllm",
        "0.18.0",
    )
    assert (point.input_tokens, point.output_tokens) == (1024.0, 128.5)
    assert (point.concurrency, point.request_rate_req_per_s, point.is_closed_loop) == (16.0, None, True)
    assert (point.ttft_s, point.tpot_s) == (0.25, 0.0125)
    assert (point.n_accelerators, point.tp_size, point.precision) == (8, 8, "fp8")
    assert (point.measured_date, point.mode) == ("2026-03-01", "agg")


def test_a_result_may_be_written_over_many_lines(points_of):
    assert points_of(json.dumps(VLLM, indent=2))[0].ttft_s == 0.25


def test_several_results_of_a_file_are_points_with_their_lines(points_of):
    points = points_of(VLLM, "", SGLANG | {"hardware": "l20"})
    assert [(point.line, point.framework) for point in points] == [(1, "vllm"), (3, "sglang")]


def test_means_stand_in_for_medians_that_are_absent_or_could_not_be_measured(points_of):
    (point,) = points_of(without(VLLM, "median_ttft_ms") | {"median_tpot_ms": 0.0})
    assert (point.ttft_s, point.tpot_s) == (0.3, 0.013)


def test_a_latency_of_zero_was_not_measured(points_of):
    assert points_of(VLLM | {"median_tpot_ms": 0.0, "mean_tpot_ms": 0.0})[0].tpot_s is None


def test_a_rate_makes_an_open_loop_and_a_concurrency_beside_it_a_bound(points_of):
    (bounded,) = points_of(VLLM | {"request_rate": 2.5})
    assert (bounded.request_rate_req_per_s, bounded.concurrency, bounded.is_closed_loop) == (2.5, 16.0, False)


def test_infinity_as_sglang_writes_it_is_no_rate(points_of):
    line = json.dumps(SGLANG | {"request_rate": float("inf"), "max_concurrency": 8})
    assert "Infinity" in line
    assert points_of(line, defaults=H20)[0].is_closed_loop


def test_an_sglang_result_says_what_its_server_says_and_the_defaults_the_rest(points_of):
    (point,) = points_of(SGLANG, defaults=H20)
    assert (point.model, point.hardware, point.framework, point.framework_version) == (
        "lab/tiny-moe",
        "h20-96gb",
        "sglang",
        "0.5.9",
    )
    assert (point.precision, point.kv_precision) == ("fp8", "fp8")
    assert (point.request_rate_req_per_s, point.concurrency) == (4.0, None), "9.7 in flight is an outcome"
    assert (point.n_accelerators, point.tp_size, point.moe_tp_size, point.moe_ep_size) == (8, 8, 8, 1)


@pytest.mark.parametrize(
    ("server", "layout"),
    [
        ({"dp_size": 4, "enable_dp_attention": True, "ep_size": 8}, (8, 2, 4, 1, 8)),
        ({"attn_dp_size": 4, "dp_size": 1, "enable_dp_attention": True, "ep_size": 2}, (8, 2, 4, 4, 2)),
        ({"dp_size": 2}, (16, 8, 2, 8, 1)),
        ({"pp_size": 2, "quantization": None}, (16, 8, 1, 8, 1)),
    ],
    ids=["attention groups", "attention groups, new spelling", "replicas", "stages"],
)
def test_sglang_counts_accelerators_per_replica_and_a_point_per_attention_group(points_of, server, layout):
    (point,) = points_of(SGLANG | {"server_info": SERVER | server}, defaults=H20)
    sizes = (point.tp_size, point.attention_dp_size, point.moe_tp_size, point.moe_ep_size)
    assert (point.n_accelerators, *sizes) == layout
    assert point.n_accelerators == point.tp_size * point.pp_size * point.attention_dp_size


def test_a_router_states_its_workers(points_of):
    info = {"prefill": [SERVER | {"tp_size": 4}] * 3, "decode": [SERVER]}
    (point,) = points_of(SGLANG | {"server_info": info}, defaults=H20)
    assert (point.mode, point.n_accelerators, point.model) == ("disagg", 20, "lab/tiny-moe")
    assert (point.prefill_num_workers, point.prefill_tp_size) == (3, 4)
    assert (point.decode_num_workers, point.decode_tp_size) == (1, 8)


def test_one_disaggregated_server_leaves_the_other_role_to_the_defaults(points_of, problems_of):
    result = SGLANG | {"server_info": SERVER | {"disaggregation_mode": "decode"}}
    workers = PointDefaults(
        hardware="h20-96gb", prefill_num_workers=1, prefill_tp_size=8, decode_num_workers=2, decode_tp_size=1
    )
    (point,) = points_of(result, defaults=workers)
    assert (point.mode, point.decode_tp_size, point.n_accelerators) == ("disagg", 8, 24)
    (problem,) = problems_of(result, defaults=H20)
    assert problem.startswith("run.txt:1: n_accelerators: is not stated, nor is gpus or tp_size")


def test_keys_of_the_file_come_before_its_server_and_before_the_defaults(points_of):
    result = SGLANG | {"model": "lab/other", "tp_size": 4, "gpus": 4, "precision": "bf16"}
    (point,) = points_of(result, defaults=PointDefaults(hardware="l20", model="no", n_accelerators=1, tp_size=1))
    assert (point.model, point.tp_size, point.precision, point.hardware) == ("lab/other", 4, "bf16", "l20")


def test_what_nobody_states_is_one_problem_each_with_both_ways_to_state_it(problems_of):
    bare = without(VLLM, "hardware", "tp_size", "model_id", "backend") | {"endpoint_type": "openai", "hardwar": "l20"}
    ways = "a key {0!r} in the file, as vllm bench serve --metadata {0}=VALUE writes, or the option {1}"
    assert problems_of(bare) == [
        f"run.txt:1: model: is not stated ({ways.format('model', '--model')})",
        f"run.txt:1: hardware: is not stated, though there is 'hardwar' ({ways.format('hardware', '--hardware')})",
        f"run.txt:1: framework: is not stated ({ways.format('framework', '--framework')})",
        "run.txt:1: n_accelerators: is not stated, nor is gpus or tp_size "
        f"({ways.format('n_accelerators', '--accelerators')})",
    ]


BURST = "a burst of all prompts has no steady state"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"max_concurrency": None},
            f"max_concurrency: is not stated, nor is a request rate: {BURST} "
            "(give a concurrency or a rate to the benchmark, or --concurrency here)",
        ),
        (
            {"max_concurrency": 100},
            "max_concurrency: is 100, no less than the 100 prompts: a burst of all has no steady state "
            "(give the benchmark several times more prompts)",
        ),
        (
            {"max_concurrency": None, "ramp_up_strategy": "linear"},
            'ramp_up_strategy: is "linear": a rising rate has no steady state (one --request-rate)',
        ),
        (
            {"request_rate": "trace"},
            'request_rate: is "trace" (a number of 1e-06 or more)',
        ),
        ({"max_concurrency": 0.5}, "max_concurrency: is 0.5 (a number of 1 or more)"),
        ({"completed": 0}, "completed: is 0 (a benchmark that completed requests)"),
        ({"total_output_tokens": "many"}, 'total_output_tokens: is "many" (a number of 100 or more)'),
        ({"median_ttft_ms": -1.5}, "median_ttft_ms: is -1.5 (a number of 0 or more)"),
        ({"median_tpot_ms": float("nan")}, "median_tpot_ms: is NaN (a number of 0 or more)"),
        ({"tp_size": "8x"}, 'tp_size: is "8x" (a whole number from 1 to 1,000,000)'),
    ],
)
def test_a_result_that_cannot_be_used_says_why(problems_of, change, message):
    assert problems_of(VLLM | change) == [f"run.txt:1: {message}"]


def test_one_prompt_at_a_time_is_no_burst(points_of):
    assert points_of(VLLM | {"max_concurrency": 1, "num_prompts": 1})[0].concurrency == 1.0


def test_a_result_without_any_latency_is_no_point(problems_of):
    silent = without(VLLM, "mean_ttft_ms", "median_ttft_ms", "mean_tpot_ms", "median_tpot_ms")
    assert problems_of(silent) == [
        "run.txt:1: ttft_ms: is not stated, nor is tpot_ms or output_tokens_per_s_per_gpu (at least one of them)"
    ]


def test_all_broken_results_of_a_file_are_reported_together(problems_of):
    problems = problems_of(VLLM, VLLM | {"completed": 0}, '{"completed": ', VLLM | {"tp_size": -1}, {"other": 1}, "7")
    assert [problem.split(" (")[0] for problem in problems] == [
        "run.txt:2: completed: is 0",
        "run.txt:3: is not JSON: Expecting value",
        'run.txt:4: tp_size: is "-1"',
        "run.txt:5: is no result of a serving benchmark",
        "run.txt:6: is 7",
    ]


def test_other_json_is_refused_once_not_line_by_line(problems_of):
    (problem,) = problems_of(*[{"timestamp": 0, "input_length": 9}] * 3)
    assert problem.startswith("run.txt:1: is no result of a serving benchmark")


@pytest.mark.parametrize("text", ['{"a": ' * 100_000, '{"completed": 1' + "0" * 5000 + "}"], ids=["deep", "long"])
def test_absurd_json_is_an_input_error(problems_of, text):
    (problem,) = problems_of(text)
    assert problem.startswith(("run.txt:1: is nested too deep", "run.txt:1: holds a number of too many digits"))
