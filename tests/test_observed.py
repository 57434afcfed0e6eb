"""`planner scenario new --from`: tables, metrics and benchmarks become the demand that they record, or say why not."""

import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from typer.testing import CliRunner, Result

from planner.benchmarks import benchmark_runs
from planner.cli import app
from planner.errors import InputError, UsageError
from planner.scenario import Scenario, read_scenario
from planner.workload.observed import CountedLengths, Observed, observed, reader
from planner.workload.observed.bench import observed_bench
from planner.workload.observed.counted_lengths import LengthCounter
from planner.workload.observed.demand import ArrivalCounter, by_hour
from planner.workload.observed.metrics import FRAMEWORKS, Names
from planner.workload.observed.reader import SMALL_TRACE_BYTES
from planner.workload.observed.request_table import observed_mooncake, observed_table, parsed_columns

COLUMNS = "arrived=when,input=asked,output=said"
BUCKETS = (1.0, 10.0, 100.0, 1000.0, 10000.0)
SECONDS = (0.01, 0.1, 1.0, 10.0)


@pytest.fixture(autouse=True, name="folder")
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def new(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["scenario", "new", "mine", "--one-site", "--force", *arguments])


def written(*arguments: str) -> Scenario:
    found = new(*arguments)
    assert found.exit_code == 0, (found.output, found.exception)
    return read_scenario("mine.toml")


def seen(path: Path, columns: str | None = None) -> Observed:
    found = observed(path, None if columns is None else parsed_columns(columns))
    assert found is not None
    return found


# Lengths


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=400), st.integers(1, 7))
def test_counted_lengths_keep_number_and_mean_within_their_buckets(tokens: list[int], n_parts: int) -> None:
    counter = LengthCounter()
    for part in np.array_split(np.array(tokens, dtype=np.int64), n_parts):
        if part.size:
            counter.add(part)
    found = counter.found()
    assert sum(found.weights) == len(tokens)
    assert found.recorded_mean == pytest.approx(np.mean(tokens))
    half = max(found.widest_fraction / 2, 0.0)
    assert abs((found.mean_error or 0.0) + 0.0) <= half / (1 - half / 2) + 0.51 / found.recorded_mean + 1e-9
    ordered = sorted(tokens)
    for q in (0.1, 0.5, 0.9):
        exact = ordered[max(int(np.ceil(q * len(tokens))) - 1, 0)]
        assert abs(found.quantile(q) - exact) <= half * 1.1 * exact + 1.0


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=30))
def test_few_different_lengths_are_kept_as_they_are(tokens: list[int]) -> None:
    counter = LengthCounter()
    counter.add(np.array(tokens, dtype=np.int64))
    found = counter.found()
    assert found.is_exact
    assert found.mean == pytest.approx(np.mean(tokens))


@given(st.lists(st.floats(1, 50_000), min_size=1, max_size=300))
def test_a_histogram_of_prometheus_keeps_number_order_and_quantiles_within_its_buckets(values: list[float]) -> None:
    ends = [*BUCKETS, np.inf]
    counts = [float(sum(v <= end for v in values)) for end in ends]
    found = CountedLengths.of_cumulative(ends, counts, sum(values))
    assert sum(found.weights) == pytest.approx(len(values))
    assert all(a < b for a, b in zip(found.edges, found.edges[1:], strict=False))
    assert min(found.edges) >= 1
    assert found.recorded_mean == pytest.approx(np.mean(values))
    for q in (0.25, 0.5, 0.9):
        exact = sorted(values)[max(int(np.ceil(q * len(values))) - 1, 0)]
        low = max((end for end in (0.0, *BUCKETS) if end < exact), default=0.0)
        assert low <= found.quantile(q) * (1 + 1e-9)


# Arrivals


@given(st.floats(0.02, 20), st.integers(0, 2**32 - 1))
def test_rate_and_dispersion_do_not_depend_on_order_or_parts(rate: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(1 / rate, 2000)) + 1e9
    one, many = ArrivalCounter(), ArrivalCounter()
    one.add(times)
    for part in np.array_split(rng.permutation(times), 7):
        many.add(part)
    assert one.req_per_s == pytest.approx(many.req_per_s)
    assert one.hours() == many.hours()
    assert one.dispersion() == many.dispersion()


def test_a_rate_that_drifts_from_hour_to_hour_is_hours_and_no_burst() -> None:
    rng = np.random.default_rng(4)
    rates = [1, 5, 2, 8, 3, 9]
    times = np.concatenate([3600 * i + np.sort(rng.uniform(0, 3600, 3600 * r)) for i, r in enumerate(rates)])
    counter = ArrivalCounter()
    counter.add(np.append(times, 6 * 3600.0))
    assert [hour.req_per_s for hour in counter.hours()] == pytest.approx(rates, rel=0.01)
    found = counter.dispersion()
    assert found is not None
    assert found.value == pytest.approx(1.0, abs=0.15)


@given(st.lists(st.floats(0.1, 100), min_size=24, max_size=100), st.integers(0, 23))
def test_hours_over_a_day_are_means_by_the_clock(rates: list[float], start: int) -> None:
    found = by_hour(rates, 3600.0 * start)
    if found:
        assert [hour.name for hour in found] == [f"h{i:02d}" for i in range(24)]
        expected = [r for i, r in enumerate(rates) if (start + i) % 24 == 5]
        assert found[5].req_per_s == pytest.approx(np.mean(expected))


# Tables


def table(path: Path, rows: list[tuple[object, ...]], header: str = "when,asked,said") -> Path:
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


TIMES: dict[str, Callable[[float], object]] = {
    "seconds": lambda s: s,
    "since 1970": lambda s: 1_700_000_000 + s,
    "dates": lambda s: str(np.datetime64("2024-05-10T00:00:00") + np.timedelta64(round(s * 1e6), "us")),
    "dates of a zone": lambda s: f"{np.datetime64('2024-05-10T00:00:00') + np.timedelta64(round(s * 1e3), 'ms')}+02:00",
}


@pytest.mark.parametrize("form", TIMES)
def test_a_table_of_any_columns_is_the_demand_it_records(form: str, folder: Path) -> None:
    times = np.arange(0, 400, 0.5)
    rows = [(TIMES[form](t), 100 + i % 50, 7, "x") for i, t in enumerate(times)]
    found = seen(table(folder / "log.csv", rows, "when,asked,said,who"), COLUMNS)
    assert found.req_per_s == pytest.approx(2.0, rel=0.01)
    assert found.prompts.recorded_mean == pytest.approx(np.mean([row[1] for row in rows]))
    assert found.outputs == CountedLengths((7.0,), (800.0,), 7.0)


def test_hits_and_latencies_of_a_table_are_taken_with_their_units(folder: Path) -> None:
    rows = [(100, 25, 10, 1500, 0.02)] * 10
    path = table(folder / "log.csv", rows, "in,hit,out,first,next")
    found = seen(path, "input=in,cached=hit,output=out,ttft_ms=first,tpot_s=next")
    assert found.hit_fraction == pytest.approx(0.25)
    assert dict(found.latency_s)["ttft_mean_s"] == pytest.approx(1.5)
    assert dict(found.latency_s)["ttft_p90_s"] == pytest.approx(1.5, rel=0.02)
    assert dict(found.latency_s)["tpot_mean_s"] == pytest.approx(0.02)


def test_cells_in_quotes_may_hold_commas_and_lines(folder: Path) -> None:
    (folder / "log.csv").write_text('text,asked,said\n"a, ""b""\nc",10,3\nd,20,5\n', encoding="utf-8")
    assert seen(folder / "log.csv", "input=asked,output=said").prompts.recorded_mean == 15


@pytest.mark.parametrize(
    ("row", "key", "allowed"),
    [
        ("x,10,3", "when", "date"),
        ("3,ten,3", "asked", "whole number"),
        ("3,10.5,3", "asked", "whole number"),
        ("3,0,3", "asked", "from 1"),
        ("3,-4,3", "asked", "from 1"),
        ("3,nan,3", "asked", "whole number"),
        ("3,10,1e300", "said", "whole number"),
        ("3,10,", "said", "whole number"),
        ("inf,10,3", "when", "date"),
        ("3,10", "", "as many cells"),
        ("3,10,3,4", "", "as many cells"),
    ],
)
@pytest.mark.parametrize("at", [2, 3, 25_003])
def test_the_first_broken_line_of_a_table_is_named(row: str, key: str, allowed: str, at: int, folder: Path) -> None:
    lines = ["when,asked,said", *["1,10,3"] * (at + 30)]
    lines[at - 1] = row
    (folder / "log.csv").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        observed(folder / "log.csv", parsed_columns(COLUMNS))
    (problem,) = caught.value.problems
    assert (problem.line, problem.key) == (at, key)
    assert allowed in problem.allowed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("input=a", "output is not named"),
        ("input=a,output=b,inputt=c", "did you mean 'input'"),
        ("input", "is not ROLE=COLUMN"),
        ("input=a,output=b,input=c", "named twice"),
        ("input=a,output=b,ttft_s=c,ttft_ms=d", "named twice"),
        ("", "is not ROLE=COLUMN"),
    ],
)
def test_columns_that_are_none_are_a_fault_of_usage(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parsed_columns(text)


def test_a_column_that_is_not_there_is_named_with_its_likeness(folder: Path) -> None:
    path = table(folder / "log.csv", [(1, 10, 3)])
    with pytest.raises(InputError, match=r"log\.csv:1: has no column \"askd\" \(did you mean 'asked'"):
        observed(path, parsed_columns("input=askd,output=said"))


# Traces of any size


def azure_rows(path: Path, n: int) -> Path:
    with path.open("w", encoding="utf-8") as file:
        file.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
        for i in range(n):
            hour, rest = divmod(i // 20, 3600)
            day, hour = divmod(hour, 24)
            minute, second = divmod(rest, 60)
            clock = f"2024-05-{10 + day:02d} {hour:02d}:{minute:02d}:{second:02d}.{(i % 20) * 500000:07d}"
            file.write(f"{clock},{1 + (i * 7919) % 5000},{1 + i % 300}\n")
    return path


def mooncake_rows(path: Path, n: int) -> Path:
    with path.open("w", encoding="utf-8") as file:
        for i in range(n):
            length = 1 + (i * 7919) % 5000
            line = {"timestamp": i * 50, "input_length": length, "output_length": 1 + i % 300, "hash_ids": [0] * 3}
            file.write(json.dumps(line) + "\n")
    return path


@pytest.mark.parametrize("kind", ["azure", "mooncake"])
def test_memory_does_not_grow_with_the_length_of_a_trace(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner.workload.observed.request_table.CHUNK_ROWS", 2_000)
    peaks = []
    for n in (10_000, 40_000):
        path = (azure_rows if kind == "azure" else mooncake_rows)(folder / f"{n}.trace", n)
        tracemalloc.start()
        columns = dict(
            zip(("arrived", "input", "output"), ("TIMESTAMP", "ContextTokens", "GeneratedTokens"), strict=True)
        )
        found = observed_table(path, columns) if kind == "azure" else observed_mooncake(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found.what == f"{n:,} requests"
        assert found.req_per_s == pytest.approx(20.0, rel=0.01)
        assert found.prompts.mean == pytest.approx(2500, rel=0.01)
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.parametrize("kind", ["azure", "mooncake"])
def test_a_trace_too_large_to_be_kept_whole_becomes_its_lengths_and_rate(kind: str, folder: Path) -> None:
    path = folder / "big.trace"
    n = 1 + SMALL_TRACE_BYTES // (36 if kind == "azure" else 88)
    (azure_rows if kind == "azure" else mooncake_rows)(path, n)
    assert path.stat().st_size > SMALL_TRACE_BYTES
    scenario = written("--from", "big.trace")
    assert scenario.workload is not None
    assert scenario.workload.trace is None
    assert scenario.workload.lengths.kind == "histogram"  # type: ignore[union-attr]
    assert scenario.demand_req_per_s == pytest.approx(20.0, rel=0.01)


def test_lines_of_an_unusual_form_are_read_as_the_usual_ones_are(folder: Path) -> None:
    usual = mooncake_rows(folder / "usual.jsonl", 300)
    lines = [json.loads(line) for line in usual.read_text(encoding="utf-8").splitlines()]
    forms: list[Callable[[dict[str, Any]], str]] = [
        lambda line: json.dumps(dict(reversed(line.items()))),
        lambda line: json.dumps(line, separators=(",", ":")),
        lambda line: json.dumps({**line, "user": "a"}),
        lambda line: json.dumps({**line, "timestamp": float(line["timestamp"])}),
    ]
    expected = observed_mooncake(usual)
    for i, form in enumerate(forms):
        path = folder / f"{i}.jsonl"
        path.write_text("\n".join(map(form, lines)), encoding="utf-8")
        assert observed_mooncake(path) == expected


def test_a_broken_line_of_json_is_named(folder: Path) -> None:
    path = mooncake_rows(folder / "t.jsonl", 30)
    lines = path.read_text(encoding="utf-8").splitlines()
    for bad, key in (("{", ""), ("[1]", ""), ('{"timestamp": 1, "input_length": 2}', "output_length")):
        lines[22] = bad
        path.write_text("\n".join(lines), encoding="utf-8")
        with pytest.raises(InputError) as caught:
            observed_mooncake(path)
        assert [(p.line, p.key) for p in caught.value.problems] == [(23, key)]


# Metrics

PROMPTS = (5, 50, 60, 500, 700, 900, 5000, 20_000)
OUTPUTS = (3, 30, 40, 50, 200, 300, 400, 2000)
FIRST_S = (0.05, 0.06, 0.5, 0.6, 0.7, 0.8, 0.9, 5.0)


ENGINES = [names for names in FRAMEWORKS if names.framework not in ("Dynamo", "the gateway")]
"""Those that count tokens beside their histograms."""
COUNT_HITS = [names for names in ENGINES if names.hits]


def plain(name: str) -> str:
    return name.removesuffix("_total")


def scrape(names: Names, times: int = 1, has_histograms: bool = True) -> str:
    """What a server of a framework exposes after it has served the requests above so many times."""
    registry = CollectorRegistry()
    if has_histograms:
        parts = (
            (names.prompts[0], BUCKETS, PROMPTS),
            (names.outputs[0], BUCKETS, OUTPUTS),
            (names.ttft[0], SECONDS, FIRST_S),
        )
        for name, buckets, values in parts:
            one = Histogram(name, "x", ["model_name"], buckets=buckets, registry=registry).labels("m")
            for value in values * times:
                one.observe(value)
    counters = {plain(names.requests[0]): len(PROMPTS), "other": 3}
    if names in ENGINES:
        counters |= {plain(names.output_tokens[0]): sum(OUTPUTS), plain(names.prompt_tokens[0]): sum(PROMPTS)}
    if names in COUNT_HITS:
        cached, asked = names.hits[0]
        counters |= {plain(cached): sum(PROMPTS) // 4, plain(asked): sum(PROMPTS)}
    for name, value in counters.items():
        Counter(name, "x", ["model_name"], registry=registry).labels("m").inc(value * times)
    return generate_latest(registry).decode()


@pytest.mark.parametrize("names", FRAMEWORKS, ids=lambda names: names.framework)
def test_a_scrape_is_the_lengths_hits_and_latencies_it_counted(names: Names, folder: Path) -> None:
    (folder / "metrics.txt").write_text(scrape(names), encoding="utf-8")
    found = seen(folder / "metrics.txt")
    assert found.prompts.recorded_mean == pytest.approx(np.mean(PROMPTS))
    assert found.outputs.recorded_mean == pytest.approx(np.mean(OUTPUTS))
    assert dict(found.latency_s)["ttft_mean_s"] == pytest.approx(np.mean(FIRST_S))
    assert found.req_per_s is None
    assert any("tells no rate" in note for note in found.notes)
    if names in COUNT_HITS:
        assert found.hit_fraction == pytest.approx(0.25, rel=0.01)
    scenario = written("--from", "metrics.txt", "--demand", "2")
    assert scenario.observed is not None
    assert scenario.observed.ttft_mean_s == pytest.approx(np.mean(FIRST_S), rel=1e-3)
    text = (folder / "mine.toml").read_text(encoding="utf-8")
    assert "as counted (" in text


@pytest.mark.parametrize("names", ENGINES, ids=lambda names: names.framework)
def test_without_histograms_lengths_are_the_means_of_the_counters_and_that_is_said(names: Names, folder: Path) -> None:
    (folder / "metrics.txt").write_text(scrape(names, has_histograms=False), encoding="utf-8")
    found = seen(folder / "metrics.txt")
    assert found.prompts.mean == pytest.approx(np.mean(PROMPTS))
    assert any("tails are not seen" in note for note in found.notes)


def samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    from prometheus_client.parser import text_string_to_metric_families

    for family in text_string_to_metric_families(text):
        yield from ((s.name, dict(s.labels), s.value) for s in family.samples)


def range_answer(names: Names, per_hour: list[int], resets: int | None = None) -> dict[str, Any]:
    """The answer to a range query of a server that serves the requests above so many times in every hour."""
    series: dict[str, dict[str, Any]] = {}
    n = 0
    for hour, times in enumerate([0, *per_hour]):
        n = times if hour == resets else n + times
        for name, labels, value in samples(scrape(names, n)):
            metric = {"__name__": name, "instance": "a", **labels}
            one = series.setdefault(json.dumps(metric, sort_keys=True), {"metric": metric, "values": []})
            one["values"].append([1_700_000_400 + 3600 * hour, str(value)])
    return {"status": "success", "data": {"resultType": "matrix", "result": list(series.values())}}


@pytest.mark.parametrize("names", FRAMEWORKS, ids=lambda names: names.framework)
@pytest.mark.parametrize("resets", [None, 3])
def test_a_range_is_rates_by_hour_whether_or_not_a_server_began_anew(
    names: Names, resets: int | None, folder: Path
) -> None:
    per_hour = [100, 300, 200]
    (folder / "range.json").write_text(json.dumps(range_answer(names, per_hour, resets)), encoding="utf-8")
    found = seen(folder / "range.json")
    served = [len(PROMPTS) * times / 3600 for times in per_hour]
    assert [hour.req_per_s for hour in found.hours] == pytest.approx(served)
    assert found.req_per_s == pytest.approx(np.mean(served))
    assert found.prompts.recorded_mean == pytest.approx(np.mean(PROMPTS))
    scenario = written("--from", "range.json")
    assert scenario.demand_req_per_s == pytest.approx(max(served), rel=1e-4)
    assert [period.demand for period in scenario.periods.values()] == pytest.approx([1 / 3, 1.0, 2 / 3], rel=1e-3)


def test_what_a_demand_by_the_hour_is_written_to_is_planned_for_every_hour(folder: Path) -> None:
    (folder / "range.json").write_text(json.dumps(range_answer(ENGINES[0], [50, 150])), encoding="utf-8")
    written("--from", "range.json", "--model", "llama-3.1-8b", "--hardware", "h100-sxm")
    found = CliRunner().invoke(app, ["optimize", "mine.toml", "--format", "json", "--time-limit", "20"])
    assert found.exit_code == 0, (found.output, found.exception)
    plan = json.loads(found.stdout)
    rates = [period["demand_req_per_s"] for period in plan["periods"]]
    assert rates == pytest.approx([len(PROMPTS) * n / 3600 for n in (50, 150)], rel=1e-3)


@pytest.mark.parametrize("at", [1, 4, 20])
def test_a_line_that_is_no_sample_is_named(at: int, folder: Path) -> None:
    lines = scrape(FRAMEWORKS[1]).splitlines()
    lines[at] = 'vllm:request_prompt_tokens_bucket{le="1" 3'
    (folder / "metrics.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        observed(folder / "metrics.txt")
    (problem,) = caught.value.problems
    assert problem.line == at + 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a: a["data"]["result"][0]["metric"].pop("__name__"), "has no __name__"),
        (lambda a: a["data"].pop("result"), "is no list"),
        (lambda a: a.update(status="error", error="query timed out"), "query timed out"),
        (lambda a: a["data"].update(result=[]), "is empty"),
        (lambda a: a["data"]["result"][0].update(values=[["x", "y"]]), "has no such pairs"),
        (lambda a: a["data"]["result"][0].update(metric=3), "is no table of labels"),
    ],
)
def test_an_answer_that_is_none_says_what_it_lacks(change: Callable[[Any], Any], said: str, folder: Path) -> None:
    answer = range_answer(FRAMEWORKS[1], [10])
    change(answer)
    (folder / "range.json").write_text(json.dumps(answer), encoding="utf-8")
    with pytest.raises(InputError, match=said):
        observed(folder / "range.json")


def test_metrics_of_something_else_name_what_would_do(folder: Path) -> None:
    (folder / "metrics.txt").write_text("# TYPE go_threads gauge\ngo_threads 7\n", encoding="utf-8")
    with pytest.raises(InputError, match="vllm:request_prompt_tokens"):
        observed(folder / "metrics.txt")


# Benchmarks


def vllm_run(**changes: Any) -> dict[str, Any]:
    return {
        "backend": "vllm",
        "request_rate": "inf",
        "request_throughput": 4.0,
        "completed": 8,
        "total_input_tokens": sum(PROMPTS),
        "total_output_tokens": sum(OUTPUTS),
        "mean_ttft_ms": 120.0,
        "median_ttft_ms": 100.0,
        "p99_ttft_ms": 400.0,
        "mean_tpot_ms": 20.0,
    } | changes


def guidellm_run() -> dict[str, Any]:
    def summary(values: tuple[float, ...], scale: float = 1.0) -> dict[str, Any]:
        array = np.array(values) * scale
        parts = {"p001": 0.1, "p01": 1, "p05": 5, "p10": 10, "p25": 25, "p50": 50, "p75": 75, "p90": 90}
        parts |= {"p95": 95, "p99": 99, "p999": 99.9}
        table = {name: float(np.percentile(array, q)) for name, q in parts.items()}
        least, most = float(array.min()), float(array.max())
        one = {"mean": float(array.mean()), "count": array.size, "min": least, "max": most, "percentiles": table}
        return {"successful": one, "errored": None}

    metrics = {
        "prompt_token_count": summary(PROMPTS),
        "output_token_count": summary(OUTPUTS),
        "time_to_first_token_ms": summary(FIRST_S, 1e3),
        "inter_token_latency_ms": summary((20.0, 22.0)),
        "requests_per_second": summary((4.0, 4.0)),
    }
    return {"metadata": {"version": 2}, "benchmarks": [{"metrics": metrics}]}


def aiperf_run(*, is_whole: bool) -> dict[str, Any]:
    def figure(values: tuple[float, ...], unit: str) -> dict[str, Any]:
        mean = {"unit": unit, "avg": float(np.mean(values))}
        if not is_whole:
            return mean
        shares = {f"p{p}": float(np.percentile(values, p)) for p in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
        return mean | shares | {"min": float(min(values)), "max": float(max(values)), "std": 0.0}

    return {
        "request_throughput": {"unit": "requests/sec", "avg": 4.0},
        "request_count": {"unit": "requests", "avg": float(len(PROMPTS))},
        "time_to_first_token": figure(tuple(1e3 * s for s in FIRST_S), "ms") if is_whole else figure(FIRST_S, "sec"),
        "inter_token_latency": figure((20.0, 22.0), "ms"),
        "input_sequence_length": figure(PROMPTS, "tokens"),
        "output_sequence_length": figure(OUTPUTS, "tokens"),
    }


BENCHES = {
    "aiperf-means": (aiperf_run(is_whole=False), float(np.mean(FIRST_S))),
    "aiperf": (aiperf_run(is_whole=True), float(np.mean(FIRST_S))),
    "means": (vllm_run(), 0.12),
    "each": (vllm_run(input_lens=list(PROMPTS), output_lens=list(OUTPUTS), request_rate=4.0), 0.12),
    "guidellm": (guidellm_run(), float(np.mean(FIRST_S))),
}


@pytest.mark.parametrize("kind", BENCHES)
def test_a_benchmark_is_its_lengths_rate_and_latencies(kind: str, folder: Path) -> None:
    run, ttft_s = BENCHES[kind]
    (folder / "run.json").write_text(json.dumps(run), encoding="utf-8")
    found = seen(folder / "run.json")
    assert found.prompts.recorded_mean == pytest.approx(np.mean(PROMPTS))
    assert found.outputs.recorded_mean == pytest.approx(np.mean(OUTPUTS))
    assert found.req_per_s == pytest.approx(4.0)
    assert dict(found.latency_s)["ttft_mean_s"] == pytest.approx(ttft_s)
    assert any("tails are not seen" in note for note in found.notes) == kind.endswith("means")
    assert written("--from", "run.json").demand_req_per_s == pytest.approx(4.0)


def test_prompts_between_two_percentiles_of_a_benchmark_are_as_many_as_their_shares_say(folder: Path) -> None:
    table = {"p001": 100, "p01": 100, "p05": 100, "p10": 200, "p25": 200, "p50": 400, "p75": 800, "p90": 900}
    run = guidellm_run()
    run["benchmarks"][0]["metrics"]["prompt_token_count"]["successful"] = {
        "mean": 450.0,
        "count": 1000,
        "min": 100,
        "max": 1000,
        "percentiles": table | {"p95": 900, "p99": 900, "p999": 900},
    }
    (folder / "run.json").write_text(json.dumps(run), encoding="utf-8")
    prompts = seen(folder / "run.json").prompts
    assert prompts.edges == (100.0, 200.0, 400.0, 800.0, 900.0, 1000.0)
    assert prompts.weights == pytest.approx((250.0, 250.0, 250.0, 249.0, 1.0))


@pytest.mark.parametrize(
    ("figure", "unit"),
    [
        ("time_to_first_token", "minutes"),
        ("inter_token_latency", None),
        ("input_sequence_length", "words"),
        ("request_throughput", "requests/min"),
    ],
)
def test_a_figure_of_aiperf_in_a_unit_that_it_does_not_have_is_named(
    figure: str, unit: str | None, folder: Path
) -> None:
    run = aiperf_run(is_whole=True)
    run[figure]["unit"] = unit
    (folder / "run.json").write_text(json.dumps(run), encoding="utf-8")
    with pytest.raises(InputError, match=f"{figure}.unit: is"):
        observed(folder / "run.json")


def test_of_several_runs_of_a_file_the_last_is_taken_and_said(folder: Path) -> None:
    runs = [vllm_run(), vllm_run(request_throughput=6.0), vllm_run(completed=0)]
    (folder / "runs.jsonl").write_text("\n".join(map(json.dumps, runs)), encoding="utf-8")
    found = seen(folder / "runs.jsonl")
    assert found.req_per_s == 6.0
    assert any("2 runs" in note for note in found.notes)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"completed": "x"}, "completed"),
        ({"completed": -1}, "completed"),
        ({"total_input_tokens": None}, "total_input_tokens"),
        ({"input_lens": [1, "x"]}, "input_lens"),
        ({"input_lens": []}, "input_lens"),
        ({"mean_ttft_ms": "fast"}, "mean_ttft_ms"),
        ({"completed": 0}, "completed"),
    ],
)
def test_a_broken_figure_of_a_benchmark_is_named(changes: dict[str, Any], key: str, folder: Path) -> None:
    (folder / "run.json").write_text(json.dumps(vllm_run(**changes)), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        observed(folder / "run.json")
    assert [problem.key for problem in caught.value.problems] == [key]


# Anything


@given(st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_file_holds_there_is_a_demand_or_one_error(folder: Path, content: bytes) -> None:
    (folder / "file").write_bytes(content)
    for columns in (None, {"input": "a", "output": "b"}):
        try:
            observed(folder / "file", columns)
        except (InputError, UsageError):
            continue


@pytest.mark.parametrize("arguments", [("--columns", COLUMNS), ("--from", "t.jsonl", "--columns", COLUMNS)])
def test_columns_are_about_a_csv(arguments: tuple[str, ...], folder: Path) -> None:
    mooncake_rows(folder / "t.jsonl", 3)
    found = new(*arguments)
    assert isinstance(found.exception, UsageError)
    assert not (folder / "mine.toml").exists()


@pytest.mark.parametrize("more_bytes", [-1, 0, 1])
@pytest.mark.parametrize("kind", ["azure", "mooncake"])
def test_a_trace_is_planned_for_as_it_is_up_to_a_size(
    kind: str, more_bytes: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond it lengths and rate are read of it: of two requests, a second apart."""
    rows = {
        "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n2026-01-01 00:00:00,10,5\n2026-01-01 00:00:01,30,7\n",
        "mooncake": '{"timestamp": 0, "input_length": 10, "output_length": 5}\n'
        '{"timestamp": 1000, "input_length": 30, "output_length": 7}\n',
    }
    path = folder / "trace"
    path.write_text(rows[kind], encoding="utf-8")
    monkeypatch.setattr(reader, "SMALL_TRACE_BYTES", path.stat().st_size + more_bytes)
    assert (observed(path) is None) is (more_bytes >= 0)


def served(*results: tuple[int, dict[str, Any]]) -> Observed:
    """What results of `vllm bench serve` tell, of so many requests of 100 tokens and answers of 10."""
    lines = [
        {"completed": n, "total_input_tokens": 100 * n, "total_output_tokens": 10 * n, "request_throughput": 4.0} | more
        for n, more in results
    ]
    return observed_bench("runs.json", benchmark_runs("runs.json", "\n".join(map(json.dumps, lines))) or [])


def test_of_several_runs_the_last_that_completed_anything_is_taken() -> None:
    one = served((0, {}), (3, {}), (0, {}))
    assert one.prompts.edges == (100.0,)
    assert one.outputs.edges == (10.0,)
    assert (one.req_per_s, one.what) == (4.0, "3 requests of a benchmark")
    assert not any("runs are in the file" in text for text in one.notes)
    two = served((3, {}), (5, {"request_rate": 9.0}))
    assert (two.req_per_s, two.what) == (9.0, "5 requests of a benchmark")
    assert any("2 runs are in the file; the last one is taken" in text for text in two.notes)
    with pytest.raises(InputError, match="is 0 in every run"):
        served((0, {}), (0, {}))


def test_lengths_that_a_run_states_one_by_one_are_counted_and_times_are_taken_in_seconds() -> None:
    lengths = {"input_lens": [100, 0, 300, 100], "output_lens": [10, 20, 30, 40]}
    times = {
        "mean_ttft_ms": 250.0,
        "median_ttft_ms": 200.0,
        "p99_ttft_ms": 900.0,
        "mean_tpot_ms": 30.0,
        "p90_ttft_ms": 0,
    }
    found = served((4, {**lengths, **times}))
    assert found.prompts.mean == pytest.approx(500 / 3)
    assert dict(found.latency_s) == pytest.approx(
        {"ttft_mean_s": 0.25, "ttft_p50_s": 0.2, "ttft_p99_s": 0.9, "tpot_mean_s": 0.03}
    )
    assert not any("only mean lengths" in text for text in found.notes)
    assert any("only mean lengths" in text for text in served((4, {})).notes)


GATEWAY = """# TYPE {0}_request_total counter
{0}_request_total{{model_name="m"}} 20
{0}_input_tokens_bucket{{le="128"}} 5
{0}_input_tokens_bucket{{le="1024"}} 20
{0}_input_tokens_bucket{{le="+Inf"}} 20
{0}_input_tokens_sum 9000
{0}_input_tokens_count 20
{0}_output_tokens_bucket{{le="256"}} 20
{0}_output_tokens_bucket{{le="+Inf"}} 20
{0}_output_tokens_sum 2400
{0}_output_tokens_count 20
"""
TENSORRT = """# HELP {0}request_success_total Requests
{0}request_success_total{{finished_reason="stop"}} 20
{0}time_to_first_token_seconds_bucket{{le="0.5"}} 20
{0}time_to_first_token_seconds_bucket{{le="+Inf"}} 20
{0}time_to_first_token_seconds_sum 4.0
{0}time_to_first_token_seconds_count 20
"""
TOKENS = "{0}prompt_tokens_total 9000\n{0}generation_tokens_total 2400\n"


@pytest.mark.parametrize("prefix", ["inference_model", "inference_objective"])
def test_a_gateway_is_counted_before_the_engine_behind_it(prefix: str, folder: Path) -> None:
    engine = "vllm:request_success_total 90\nvllm:prompt_tokens_total 900\nvllm:generation_tokens_total 900\n"
    (folder / "metrics").write_text(GATEWAY.format(prefix) + engine, encoding="utf-8")
    found = seen(folder / "metrics")
    assert found.what == "20 requests that the gateway counted"
    assert (found.prompts.recorded_mean, found.outputs.recorded_mean) == (450.0, 120.0)


@pytest.mark.parametrize("prefix", ["trtllm_", "trtllm:"])
def test_tensorrt_llm_is_read_where_it_counts_tokens_and_else_told_what_lacks(prefix: str, folder: Path) -> None:
    (folder / "metrics").write_text((TENSORRT + TOKENS).format(prefix), encoding="utf-8")
    found = seen(folder / "metrics")
    assert (found.prompts.recorded_mean, found.outputs.recorded_mean) == (450.0, 120.0)
    assert dict(found.latency_s)["ttft_mean_s"] == pytest.approx(0.2)
    (folder / "metrics").write_text(TENSORRT.format(prefix), encoding="utf-8")
    with pytest.raises(InputError, match="counts requests of TensorRT-LLM, and no tokens"):
        observed(folder / "metrics")


def test_requests_that_failed_are_said() -> None:
    assert any("3 requests failed" in text for text in served((9, {"failed": 3})).notes)
    assert not any("failed" in text for text in served((9, {"failed": 0})).notes)
