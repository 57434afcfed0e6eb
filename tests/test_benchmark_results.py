"""Results of serving benchmarks as their tools write them: one run each, read alike as points and as a demand."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from planner.benchmarks import BenchmarkRun, benchmark_runs, looks_like
from planner.benchmarks.reader import FORMATS, format_of
from planner.cli import app
from planner.errors import InputError, InputProblem
from planner.profiles.points import PointDefaults, read_points
from planner.workload.observed import observed

FOLDER = Path(__file__).parent / "benchmark_results"
FILES = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".json", ".csv"))
H200 = PointDefaults(model="llama-3.1-8b", hardware="h200-sxm", framework="vllm", n_accelerators=1)


def planner(*arguments: object) -> Result:
    """What the command line says to it."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def runs_of(name: str) -> list[BenchmarkRun]:
    """Runs of a file that a tool wrote."""
    return benchmark_runs(name, (FOLDER / name).read_text(encoding="utf-8")) or []


@pytest.mark.parametrize(
    ("name", "n", "prompt", "answer", "ttft_ms", "tpot_ms", "rate", "in_flight"),
    [
        ("aiperf_concurrency.json", 60, 192.0, 111.0, 45.1657, 1.56989, None, 4.0),
        ("aiperf_rate.json", 60, 192.0, 111.0, 45.164, 1.51765, 15.0, None),
        ("aiperf_concurrency.csv", 60, 192.0, 111.0, 45.17, 1.57, None, None),
        ("genai_perf.json", 80, 1125.11, 253.562, 135.825, 11.1696, None, 1.0),
        ("genai_perf.csv", 80, 1125.11, 253.56, 135.82, 11.17, None, None),
        ("guidellm.json", 60, 122.0, 32.0, 43.8912, 5.55015, None, 4.0),
        ("guidellm.csv", 60, 122.0, 32.0, 43.891191, 5.5501538, None, 4.0),
        ("inference_perf.json", 598, 1016.0, 198.0, 211.86, 13.759, 10.0, None),
    ],
)
def test_a_run_has_the_figures_that_its_tool_wrote(
    name: str,
    n: int,
    prompt: float,
    answer: float,
    ttft_ms: float,
    tpot_ms: float,
    rate: float | None,
    in_flight: float | None,
) -> None:
    run = runs_of(name)[0]
    assert (run.n_completed, run.request_rate_req_per_s, run.concurrency) == (n, rate, in_flight)
    assert (run.prompts.mean, run.outputs.mean) == pytest.approx((prompt, answer), rel=1e-6)
    assert run.ttft_s is not None
    assert run.tpot_s is not None
    assert (run.ttft_s.median, run.tpot_s.median) == pytest.approx((ttft_ms / 1e3, tpot_ms / 1e3), rel=1e-5)


@pytest.mark.parametrize(("json_name", "csv_name"), [(f"{n}.json", f"{n}.csv") for n in ("guidellm", "genai_perf")])
def test_the_csv_of_a_run_tells_what_its_json_tells(json_name: str, csv_name: str) -> None:
    for one, other in zip(runs_of(json_name), runs_of(csv_name), strict=True):
        quantiles = [dict(run.ttft_s.quantiles) for run in (one, other) if run.ttft_s]
        shared = quantiles[0].keys() & quantiles[1].keys()
        assert len(shared) >= 10
        assert [quantiles[0][k] for k in shared] == pytest.approx([quantiles[1][k] for k in shared], rel=1e-3)


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_a_demand_and_points_of_the_same_lengths(name: str) -> None:
    """`scenario new` and `fidelity` read one record: means agree, and a load is asked for where the file has none."""
    run = runs_of(name)[-1]
    demand = observed(FOLDER / name)
    assert demand is not None
    assert demand.prompts.recorded_mean == run.prompts.mean
    assert demand.prompts.mean == pytest.approx(run.prompts.mean, rel=0.05)
    assert demand.req_per_s == (run.request_rate_req_per_s or run.served_req_per_s)
    if run.concurrency is None and run.request_rate_req_per_s is None:
        with pytest.raises(InputError, match="--concurrency here"):
            read_points(FOLDER / name, H200)
    with_load = replace(H200, concurrency=4.0)
    point = read_points(FOLDER / name, with_load)[-1]
    assert (point.input_tokens, point.output_tokens) == (run.prompts.mean, run.outputs.mean)
    assert point.ttft_s == pytest.approx(run.ttft_s.median if run.ttft_s else None)
    assert point.lengths_are_means


@pytest.mark.parametrize("name", FILES)
def test_buckets_of_lengths_rise_and_hold_every_request(name: str) -> None:
    demand = observed(FOLDER / name)
    assert demand is not None
    for lengths in (demand.prompts, demand.outputs):
        assert all(low < high for low, high in pairwise(lengths.edges))
        assert sum(lengths.weights) == pytest.approx(runs_of(name)[-1].n_completed)


def test_the_least_that_aiperf_writes_is_a_demand_of_means(tmp_path: Path) -> None:
    figures: dict[str, Any] = {
        "request_throughput": {"unit": "requests/sec", "avg": 2.5},
        "time_to_first_token": {"unit": "ms", "avg": 70.0, "p99": 92.0},
        "inter_token_latency": {"unit": "ms", "avg": 18.0},
        "output_sequence_length": {"unit": "tokens", "avg": 200.0},
        "input_sequence_length": {"unit": "tokens", "avg": 100.0},
    }
    path = tmp_path / "run.json"
    path.write_text(json.dumps(figures), encoding="utf-8")
    demand = observed(path)
    assert demand is not None
    assert (demand.prompts.edges, demand.req_per_s) == ((100.0,), 2.5)
    assert dict(demand.latency_s) == pytest.approx({"ttft_mean_s": 0.07, "ttft_p99_s": 0.092, "tpot_mean_s": 0.018})
    point = read_points(path, PointDefaults("m", "h", "vllm", n_accelerators=1, concurrency=8.0))[0]
    assert (point.ttft_s, point.tpot_s, point.concurrency) == (0.07, 0.018, 8.0)


@pytest.mark.parametrize(
    ("name", "key", "value", "said"),
    [
        ("aiperf_rate.json", ("time_to_first_token", "unit"), "min", 'time_to_first_token.unit: is "min"'),
        ("aiperf_rate.json", ("input_sequence_length", "avg"), "x", 'input_sequence_length.avg: is "x"'),
        ("aiperf_rate.json", ("input_sequence_length", "p50"), 9e9, "has percentiles that fall"),
        ("genai_perf.json", ("inter_token_latency", "p50"), -1, "inter_token_latency.p50: is -1"),
        ("guidellm.json", ("benchmarks", 0, "metrics"), None, "benchmarks[0].metrics: is missing"),
        ("inference_perf.json", ("successes", "prompt_len"), None, "successes.prompt_len: is missing"),
        ("inference_perf.json", ("successes", "count"), True, "successes.count: is true"),
    ],
)
def test_a_broken_figure_is_named_with_its_place(name: str, key: tuple[str | int, ...], value: Any, said: str) -> None:
    content = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    inner = content
    for part in key[:-1]:
        inner = inner[part]
    inner[key[-1]] = value
    with pytest.raises(InputError) as caught:
        benchmark_runs(name, json.dumps(content))
    assert said in str(caught.value.problems[0])


def test_drafts_that_vllm_counted_are_those_of_the_point(tmp_path: Path) -> None:
    """Three tokens a step, each accepted at 0.7: 0.7 + 0.49 + 0.343 accepted of every three."""
    run = {
        "completed": 9,
        "total_input_tokens": 900,
        "total_output_tokens": 900,
        "max_concurrency": 2,
        "median_tpot_ms": 9.0,
        "spec_decode_num_drafts": 1000,
        "spec_decode_draft_tokens": 3000,
        "spec_decode_accepted_tokens": 1533,
    }
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run), encoding="utf-8")
    (point,) = read_points(path, H200)
    assert point.draft_tokens == 3
    assert point.acceptance == pytest.approx(0.7, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[{"timestamp": 0, "input_length": 3, "output_length": 1}]',
            "JSON list: one of requests has an object a line",
        ),
        ('{\n"timestamp": 0, "input_length": 3,\n"output_length": 1}', "several lines: it has one object a line"),
        ('{"model_type": "llama", "hidden_size": 8}', "a model's config.json"),
        ('{"experiments": []}', "profile_export_genai_perf.json"),
        ('{"metadata": {}, "metrics": {}}', "profile_export_aiperf.json"),
        ("<html></html>", "a web page"),
        ("PAR1\x15", "a Parquet file"),
        ("benchmarks:\n- config:\n", "YAML"),
    ],
)
@pytest.mark.parametrize("reader", [read_points, observed])
def test_a_file_that_is_none_is_told_what_it_looks_like(text: str, said: str, reader: Any, tmp_path: Path) -> None:
    assert said in looks_like(text)
    path = tmp_path / "file"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="looks like") as caught:
        reader(path)
    assert said in str(caught.value.problems[0])


def test_a_format_is_a_module_that_says_what_it_reads() -> None:
    assert len({each.name for each in FORMATS}) == len(FORMATS)
    values = [json.loads((FOLDER / name).read_text(encoding="utf-8")) for name in FILES if name.endswith(".json")]
    assert all(sum(each.is_of(value) for each in FORMATS) == 1 for value in values)
    assert {format_of(value) for value in values} == {*FORMATS[1:]}


VALUES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-5, 10**15) | st.floats() | st.text(max_size=5) | st.just([]) | st.just({})
)


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_mutated_result_is_read_or_refused_with_its_place(name: str, data: st.DataObject, tmp_path: Path) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    if name.endswith(".json"):
        content = json.loads(text)
        inner: Any = content
        parent: Any = None
        key: Any = None
        while isinstance(inner, dict | list) and inner and (parent is None or data.draw(st.booleans())):
            parent, key = (
                inner,
                data.draw(st.sampled_from([*(inner if isinstance(inner, dict) else range(len(inner)))])),
            )
            inner = parent[key]
        parent[key] = data.draw(VALUES)
        text = json.dumps(content)
    else:
        at, width = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 40))
        text = text[:at] + data.draw(st.text(max_size=6)) + text[at + width :]
    path = tmp_path / "file"
    path.write_bytes(text.encode("utf-8", errors="replace"))
    for problem in [*faults(read_points, path, H200), *faults(observed, path)]:
        assert problem.file == str(path)


def faults(reader: Callable[..., object], *arguments: object) -> Sequence[InputProblem]:
    """What a reader finds wrong; nothing where it reads the file."""
    try:
        reader(*arguments)
    except InputError as error:
        return error.problems
    return ()


REQUESTS = "when,asked,said,first\n" + "".join(f"{t},{100 + 10 * t},{20 + t},{200 + t}\n" for t in range(11))
COLUMNS = "arrived=when,input=asked,output=said,ttft_ms=first"


def test_recorded_requests_are_one_point_by_their_columns(tmp_path: Path) -> None:
    """Eleven requests a second apart: means of lengths, the median of times, one request a second."""
    (tmp_path / "log.csv").write_text(REQUESTS, encoding="utf-8")
    options = ("--model", "llama-3.1-8b", "--hardware", "h200-sxm", "--framework", "vllm", "--accelerators", "1")
    out = tmp_path / "out.csv"
    found = planner("fidelity", tmp_path / "log.csv", "--columns", COLUMNS, *options, "--out", out)
    assert found.exit_code == 0, found.output
    (point,) = read_points(out)
    assert (point.input_tokens, point.output_tokens, point.request_rate_req_per_s) == (150.0, 25.0, 1.0)
    assert point.ttft_s == pytest.approx(0.205, rel=0.02)
    loop = planner("fidelity", tmp_path / "log.csv", "--columns", COLUMNS, *options, "--concurrency", "2", "--out", out)
    assert loop.exit_code == 0, loop.output
    (point,) = read_points(out)
    assert (point.concurrency, point.request_rate_req_per_s, point.is_closed_loop) == (2.0, None, True)


def test_requests_without_times_need_their_load(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(REQUESTS, encoding="utf-8")
    columns = COLUMNS.removeprefix("arrived=when,")
    found = planner("fidelity", tmp_path / "log.csv", "--columns", columns, "--framework", "vllm")
    assert isinstance(found.exception, InputError)
    assert "--concurrency here" in str(found.exception)


def test_an_option_comes_before_what_a_server_calls_itself(tmp_path: Path) -> None:
    """guidellm's file names the model `tiny`, as its server does; a key of the file's own is stated by hand."""
    (point,) = read_points(FOLDER / "guidellm.json", H200)[:1]
    assert point.model == "llama-3.1-8b"
    (point,) = read_points(FOLDER / "guidellm.json", PointDefaults(hardware="h", framework="vllm", n_accelerators=1))[
        :1
    ]
    assert point.model == "tiny"
    content = json.loads((FOLDER / "guidellm.json").read_text(encoding="utf-8")) | {"model": "by-hand"}
    (tmp_path / "run.json").write_text(json.dumps(content), encoding="utf-8")
    assert read_points(tmp_path / "run.json", H200)[0].model == "by-hand"
