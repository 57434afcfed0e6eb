"""Units, blocks and invalid rows of traces: stated, certain and said, or refused; never read wrongly without a word."""

import json
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from planner.cli import app
from planner.errors import InputError, UsageError
from planner.notes import code_of
from planner.profiles.points.reader import csv_points
from planner.scenario import Scenario, read_scenario
from planner.workload.hits import ideal_hits
from planner.workload.observed import observed
from planner.workload.observed.demand import ArrivalCounter
from planner.workload.observed.request_table import parsed_columns
from planner.workload.requests import recorded_trace
from planner.workload.traces import read_trace

CHIP = ("--one-site", "--model", "llama-3.1-8b", "--hardware", "h100-sxm")
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
SECONDS = [0.0, 1.25, 2.5, 5.75, 9.0, 12.5, 13.25, 20.0, 21.5, 25.0, 26.0, 33.75]


@pytest.fixture(autouse=True, name="folder")
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(path: Path, times: Sequence[Any], **more: Any) -> Path:
    rows = [{"timestamp": t, "input_length": 400 + 53 * i, "output_length": 9 + i} for i, t in enumerate(times)]
    path.write_text("\n".join(json.dumps(row | more) for row in rows), encoding="utf-8")
    return path


def hashed(path: Path, block_tokens: int, lengths: Sequence[int]) -> Path:
    """Prompts that all begin alike, in blocks of a size."""
    rows = [
        {
            "timestamp": 1000 * i + 7,
            "input_length": n,
            "output_length": 5,
            "hash_ids": list(range(-(-n // block_tokens))),
        }
        for i, n in enumerate(lengths)
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def called(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def new(*arguments: str) -> tuple[Scenario, str]:
    """The scenario that is written, and what is said of it."""
    found = called("scenario", "new", "mine", "--force", *CHIP, *arguments)
    assert found.exit_code == 0, (found.output, found.exception)
    return read_scenario("mine.toml"), found.stderr


def refused(*arguments: str) -> str:
    found = called("scenario", "new", "mine", "--force", *CHIP, *arguments)
    assert isinstance(found.exception, InputError), (found.output, found.exception)
    assert not Path("mine.toml").exists()
    return str(found.exception)


# Units of JSON lines


@pytest.mark.parametrize("unit", UNITS)
def test_a_stated_unit_is_read_written_and_read_again_from_the_scenario(unit: str, folder: Path) -> None:
    lines(folder / "t.jsonl", [round(t / UNITS[unit], 6) for t in SECONDS])
    scenario, _ = new("--from", "t.jsonl", "--time-unit", unit)
    assert scenario.demand_req_per_s == pytest.approx(11 / 33.75, rel=1e-5)
    assert scenario.workload is not None
    assert scenario.workload.trace is not None
    assert scenario.workload.trace.time_unit == unit
    assert recorded_trace(scenario.workload.trace, folder).arrival_s == pytest.approx(SECONDS)


@pytest.mark.parametrize("unit", UNITS)
def test_times_after_1970_have_the_unit_that_their_size_tells_and_it_is_said(unit: str, folder: Path) -> None:
    lines(folder / "t.jsonl", [int((1_718_000_000 + t) / UNITS[unit]) for t in range(0, 60, 5)])
    scenario, said = new("--from", "t.jsonl")
    assert scenario.demand_req_per_s == pytest.approx(0.2, rel=1e-4)
    assert f"times are read in {unit}" in said


def test_dates_in_json_lines_are_dates(folder: Path) -> None:
    lines(folder / "t.jsonl", [f"2025-06-01T12:00:{t:02d}.5Z" for t in range(0, 60, 5)])
    assert read_trace(folder / "t.jsonl").arrival_s == pytest.approx(np.arange(0.0, 60.0, 5))
    assert "dates" in refused("--from", "t.jsonl", "--time-unit", "s")


def test_lines_that_number_chats_and_turns_are_in_seconds_and_that_is_said(folder: Path) -> None:
    lines(folder / "t.jsonl", [61.1 + t for t in SECONDS], chat_id=3, turn=1)
    scenario, said = new("--from", "t.jsonl")
    assert scenario.demand_req_per_s == pytest.approx(11 / 33.75, rel=1e-4)
    assert "times are read in s" in said


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (SECONDS, "req/s"),  # seconds with fractions, taken for milliseconds
        (range(12), "req/s"),  # whole seconds, all in one cell of the recorder's grid
        ([t * 10**6 for t in range(0, 3600, 10)], "req/s"),  # microseconds
        ([t * 10**9 for t in range(0, 3600, 10)], "days"),  # nanoseconds
    ],
)
def test_a_rate_or_span_that_cannot_be_is_refused_with_the_option_that_helps(
    times: Sequence[float], said: str, folder: Path
) -> None:
    lines(folder / "t.jsonl", times)
    message = refused("--from", "t.jsonl")
    assert "t.jsonl: timestamp:" in message
    assert said in message
    assert "--time-unit" in message


def test_a_stated_unit_that_makes_a_rate_nobody_has_is_refused_too(folder: Path) -> None:
    lines(folder / "t.jsonl", range(0, 40_000, 1000))
    assert "100,000 req/s" in refused("--from", "t.jsonl", "--time-unit", "ns")


def test_a_stated_unit_in_which_times_lie_after_2100_is_refused(folder: Path) -> None:
    lines(folder / "t.jsonl", [1_718_000_000_000 + 5000 * i for i in range(20)])
    assert "after the year 2100" in refused("--from", "t.jsonl", "--time-unit", "s")
    (folder / "t.csv").write_text("\n".join(["when,in,out", *["1718000000000,100,9"] * 5]), encoding="utf-8")
    assert "t.csv: when: is 1718000000000" in refused(
        "--from", "t.csv", "--columns", "arrived=when,input=in,output=out", "--time-unit", "s"
    )


def test_a_usual_unit_is_said_with_the_rate_that_follows(folder: Path) -> None:
    lines(folder / "t.jsonl", [1000.0 * t for t in SECONDS])
    _, said = new("--from", "t.jsonl")
    assert "ms is usual: 12 requests in 33.8 s" in said


# Blocks


@pytest.mark.parametrize("block_tokens", [8, 16, 64, 256, 1024])
def test_blocks_of_another_size_are_told_by_their_numbers_and_written_into_the_scenario(
    block_tokens: int, folder: Path
) -> None:
    hashed(folder / "t.jsonl", block_tokens, [700, 1250, 3001, 2040])
    scenario, said = new("--from", "t.jsonl")
    assert f"blocks of {block_tokens} tokens" in said
    assert scenario.workload is not None
    assert scenario.workload.trace is not None
    assert scenario.workload.trace.block_tokens == block_tokens
    trace = recorded_trace(scenario.workload.trace, folder)
    assert trace.notes == ()  # it is stated now
    assert trace.blocks is not None
    assert ideal_hits(trace.total_tokens, trace.blocks).tolist() == [
        0,
        -(-700 // block_tokens) * block_tokens,
        -(-1250 // block_tokens) * block_tokens,
        2040,
    ]


def test_blocks_of_512_tokens_stay_what_they_are_without_a_word(folder: Path) -> None:
    hashed(folder / "t.jsonl", 512, [100, 90])  # 128 would do as well
    trace = read_trace(folder / "t.jsonl")
    assert trace.blocks is not None
    assert trace.blocks.block_tokens == 512
    assert trace.notes == ()


@pytest.mark.parametrize(("block_tokens", "lengths"), [(100, [700, 1250]), (1024, [600, 900])])
def test_blocks_of_an_uncertain_size_are_refused_until_it_is_stated(
    block_tokens: int, lengths: list[int], folder: Path
) -> None:
    hashed(folder / "t.jsonl", block_tokens, lengths)  # no power of two, and two of them
    message = refused("--from", "t.jsonl")
    assert "hash_ids" in message
    assert "--block-tokens" in message
    assert "t.jsonl:1: hash_ids: has" in refused("--from", "t.jsonl", "--block-tokens", "64")
    scenario, _ = new("--from", "t.jsonl", "--block-tokens", str(block_tokens))
    assert scenario.workload is not None
    assert scenario.workload.trace is not None
    assert scenario.workload.trace.block_tokens == block_tokens


def test_a_stated_size_of_blocks_needs_blocks(folder: Path) -> None:
    lines(folder / "t.jsonl", [1000.0 * t for t in SECONDS])
    assert "no hash_ids" in refused("--from", "t.jsonl", "--block-tokens", "64")


# Invalid rows


def jsonl(path: Path, n: int, broken: dict[int, dict[str, Any]]) -> None:
    rows = [{"timestamp": 500 * i + 7, "input_length": 100 + i, "output_length": 9} for i in range(n)]
    path.write_text("\n".join(json.dumps(row | broken.get(i, {})) for i, row in enumerate(rows)), encoding="utf-8")


def azure(path: Path, n: int, broken: dict[int, dict[str, Any]]) -> None:
    rows = [f"2025-06-01 12:{i // 60:02d}:{i % 60:02d}" for i in range(n)]
    cells = [[row, 100 + i, broken.get(i, {}).get("output_length", 9)] for i, row in enumerate(rows)]
    header = "TIMESTAMP,ContextTokens,GeneratedTokens"
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in cells)]), encoding="utf-8")


def burst(path: Path, n: int, broken: dict[int, dict[str, Any]]) -> None:
    cells = [[3 * i, "m", 100 + i, broken.get(i, {}).get("output_length", 9)] for i in range(n)]
    header = "Timestamp,Model,Request tokens,Response tokens"
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in cells)]), encoding="utf-8")


COLUMNS = ("--columns", "arrived=Timestamp,input=Request tokens,output=Response tokens")
FORMS = {"jsonl": (jsonl, (), 1), "azure": (azure, (), 2), "burst": (burst, COLUMNS, 2)}
"""How a file is written and read, and the line of its first request."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [0, -1, "failed"])
def test_a_few_failed_requests_are_left_out_when_asked_and_counted_and_named(
    form: str, value: object, folder: Path
) -> None:
    write, more, first = FORMS[form]
    write(folder / "t", 100, {i: {"output_length": value} for i in (5, 20, 40, 70)})
    message = refused("--from", "t", *more)
    assert f"t:{first + 5}:" in message
    assert "--skip-invalid" in message
    scenario, said = new("--from", "t", *more, "--skip-invalid")
    assert "4 of 100 rows are invalid and left out (4.0 %)" in said
    assert f"line {first + 5} " in said
    assert f"line {first + 40} " in said
    assert scenario.workload is not None
    if scenario.workload.trace is not None:
        assert scenario.workload.trace.skip_invalid
        assert recorded_trace(scenario.workload.trace, folder).n_requests == 96


@pytest.mark.parametrize("form", FORMS)
def test_too_many_invalid_rows_are_refused_and_a_single_one_never_is(form: str, folder: Path) -> None:
    write, more, first = FORMS[form]
    write(folder / "t", 100, {i: {"output_length": 0} for i in range(10, 16)})
    message = refused("--from", "t", *more, "--skip-invalid")
    assert "6 invalid rows of 100" in message
    assert f"line {first + 10} " in message
    assert "at most 5.0 %" in message
    write(folder / "t", 8, {3: {"output_length": 0}})
    assert "1 of 8 rows" in new("--from", "t", *more, "--skip-invalid")[1]


@pytest.mark.parametrize("is_large", [False, True])
def test_both_readers_of_traces_leave_out_the_same_rows(
    is_large: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner.workload.observed.reader.SMALL_TRACE_BYTES", 100 if is_large else 10**6)
    jsonl(folder / "t.jsonl", 200, {7: {"output_length": 0}, 9: {"input_length": None}, 11: {"timestamp": "soon"}})
    scenario, said = new("--from", "t.jsonl", "--skip-invalid")
    assert "3 of 200 rows" in said
    assert "line 8 output_length" in said
    assert scenario.demand_req_per_s == pytest.approx(196 / 99.5, rel=1e-5)


def test_a_scenario_says_what_it_leaves_out_whenever_it_is_planned(folder: Path) -> None:
    jsonl(folder / "t.jsonl", 40, {7: {"output_length": 0}})
    new("--from", "t.jsonl", "--skip-invalid")
    found = called("scenario", "check", "mine.toml")
    assert found.exit_code == 0
    assert "t.jsonl: 1 of 40 rows are invalid" in found.stderr


def test_size_reads_a_trace_as_asked_and_writes_a_scenario_that_does_the_same(folder: Path) -> None:
    lines(folder / "t.jsonl", [*SECONDS, 40.0], chat="x")
    asked = ("size", "llama-3.1-8b", "h100-sxm", "--from", "t.jsonl", "--no-run", "--format", "json")
    assert isinstance(called(*asked).exception, InputError)
    found = called(*asked, "--time-unit", "s", "--write", "w.toml")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["rate_req_per_s"] == pytest.approx(12 / 40)
    written = read_scenario("w.toml")
    assert written.workload is not None
    assert written.workload.trace is not None
    assert written.workload.trace.time_unit == "s"


@pytest.mark.parametrize("option", [("--time-unit", "s"), ("--block-tokens", "16"), ("--skip-invalid",)])
@pytest.mark.parametrize("command", [("scenario", "new", "x"), ("size", "llama-3.1-8b", "h100-sxm")])
def test_options_of_a_trace_need_one(option: tuple[str, ...], command: tuple[str, ...]) -> None:
    found = called(*command, *option)
    assert isinstance(found.exception, UsageError)
    assert option[0] in str(found.exception)


# Tables and metrics


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_a_table_of_times_after_1970_has_the_unit_that_their_size_tells(unit: str, folder: Path) -> None:
    rows = [f"{int((1_718_000_000 + 5 * i) / UNITS[unit])},100,9" for i in range(20)]
    (folder / "t.csv").write_text("\n".join(["when,in,out", *rows]), encoding="utf-8")
    found = observed(folder / "t.csv", parsed_columns("arrived=when,input=in,output=out"))
    assert found is not None
    assert found.req_per_s == pytest.approx(0.2)
    assert any(f"read in {unit}" in text for text in found.notes)


def test_a_table_in_milliseconds_that_is_read_in_seconds_is_refused_or_read_as_asked(folder: Path) -> None:
    (folder / "t.csv").write_text("\n".join(["when,in,out", *(f"{1900 * i},100,9" for i in range(90))]), "utf-8")
    columns = ("--columns", "arrived=when,input=in,output=out")
    assert "--time-unit" in refused("--from", "t.csv", *columns)
    assert new("--from", "t.csv", *columns, "--time-unit", "ms")[0].demand_req_per_s == pytest.approx(1 / 1.9, rel=1e-5)
    found = called("scenario", "new", "x", "--from", "t.csv", "--columns", "arrived_ms=when,input=in,output=out",
                   "--time-unit", "s")  # fmt: skip
    assert isinstance(found.exception, UsageError)


@pytest.mark.parametrize(
    ("column", "value"), [("tpot_s", 18.5), ("tpot_ms", 0.0185), ("ttft_s", 1500), ("ttft_ms", 0.05)]
)
def test_latencies_of_another_unit_are_refused(column: str, value: float, folder: Path) -> None:
    (folder / "t.csv").write_text("\n".join(["in,out,lat", *([f"100,9,{value}"] * 5)]), encoding="utf-8")
    with pytest.raises(InputError, match="lat: has a mean of"):
        observed(folder / "t.csv", parsed_columns(f"input=in,output=out,{column}=lat"))


@contextmanager
def little_memory() -> Iterator[None]:
    """Fails where more is taken than the counters of lengths, which have a size of their own."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


def scraped(times: Sequence[float]) -> str:
    """The answer to a range query in which a server serves one request every ten seconds."""
    counts = {"vllm:request_prompt_tokens_count": 1, "vllm:request_success_total": 1}
    counts |= {"vllm:prompt_tokens_total": 500, "vllm:generation_tokens_total": 60}
    result = [
        {"metric": {"__name__": name}, "values": [[t, str(each * 30 * i)] for i, t in enumerate(times)]}
        for name, each in counts.items()
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


@pytest.mark.parametrize("unit", UNITS)
def test_a_scrape_in_another_unit_has_the_demand_of_one_in_seconds_and_says_so(unit: str, folder: Path) -> None:
    (folder / "range.json").write_text(scraped([(1.718e9 + 300 * i) / UNITS[unit] for i in range(25)]), "utf-8")
    scenario, said = new("--from", "range.json")
    assert scenario.demand_req_per_s == pytest.approx(0.1, rel=1e-6)
    assert f"read in {unit}" in said


@pytest.mark.parametrize("at", [0, 7, 24])
def test_one_sample_in_another_unit_is_refused_in_little_memory(at: int, folder: Path) -> None:
    times = [1.718e9 + 300 * i for i in range(25)]
    times[at] *= 1000
    (folder / "range.json").write_text(scraped(times), encoding="utf-8")
    with little_memory(), pytest.raises(InputError, match=r"data\.result\[0\]\.values: has the time 1718.*--time-unit"):
        observed(folder / "range.json")


@pytest.mark.parametrize("last", ["1e12", "1718000000", "99999999999"])
def test_memory_is_bounded_by_rows_and_not_by_the_time_they_span(last: str, folder: Path) -> None:
    (folder / "t.csv").write_text("\n".join(["when,in,out", "0,100,9", "5,100,9", f"{last},100,9"]), "utf-8")
    with little_memory(), pytest.raises(InputError, match=r"t\.csv:4: when: spans .* days"):
        observed(folder / "t.csv", parsed_columns("arrived=when,input=in,output=out"))


def test_two_years_of_few_requests_are_counted_hour_by_hour_in_little_memory() -> None:
    counter = ArrivalCounter()
    counter.add(np.linspace(0.0, 690 * 86_400.0, 50))
    with little_memory():
        assert len(counter.hours()) in (0, 24)


# Units in names


NAMES = {
    "s": ("arrival_s", "seconds", "Start (sec)"),
    "ms": ("ts_ms", "timestampMs", "epoch_ms_utc", "arrival [milliseconds]"),
    "us": ("ts_us", "time_usec", "arrival (µs)"),
    "ns": ("start_time_ns", "timeNanos"),
}


def table(path: Path, column: str, times: Sequence[float], latency: str = "lat", value: float = 0.5) -> Path:
    """A CSV of requests with a column of times and one of latencies."""
    rows = [f"{t:.12g},{400 + 53 * i},{9 + i},{value}" for i, t in enumerate(times)]
    path.write_text("\n".join([f"{column},in,out,{latency}", *rows]), encoding="utf-8")
    return path


@pytest.mark.parametrize(("unit", "column"), [(unit, name) for unit, names in NAMES.items() for name in names])
def test_a_unit_in_the_name_of_a_column_of_times_is_read_so_and_said(unit: str, column: str, folder: Path) -> None:
    table(folder / "t.csv", column, [round(100 * t / UNITS[unit]) for t in SECONDS])
    scenario, said = new("--from", "t.csv", "--columns", f"arrived={column},input=in,output=out")
    assert scenario.demand_req_per_s == pytest.approx(11 / 3375, rel=1e-4)
    assert f"times are read in {unit}: the name of their column says so" in said


@pytest.mark.parametrize(
    ("column", "times", "more", "said"),
    [
        ("ts_ms", SECONDS, ("--time-unit", "s"), "t.csv: ts_ms: is named as a time in ms, and s is stated"),
        ("ts_ms", [1.718e9 + t for t in SECONDS], (), "ts_ms: is 1718000000, in s a time of the years 2000 to 2100"),
        ("start_minutes", SECONDS, (), "start_minutes: is named as a time in minutes"),
        ("arrival (min)", SECONDS, (), "arrival (min): is named as a time in minutes"),
    ],
)
def test_a_unit_in_a_name_that_something_else_contradicts_is_refused(
    column: str, times: Sequence[float], more: tuple[str, ...], said: str, folder: Path
) -> None:
    table(folder / "t.csv", column, times)
    assert said in refused("--from", "t.csv", "--columns", f"arrived={column},input=in,output=out", *more)


def test_a_role_in_milliseconds_takes_no_column_that_is_named_in_another_unit(folder: Path) -> None:
    table(folder / "t.csv", "ts_us", [1000.0 * t for t in SECONDS])
    columns = ("--columns", "arrived_ms=ts_us,input=in,output=out")
    assert "ts_us: is named as a time in us, and ms is stated" in refused("--from", "t.csv", *columns)


@pytest.mark.parametrize(
    ("role", "latency", "said"),
    [
        ("ttft_s", "ttft_ms", "ttft_ms=ttft_ms"),
        ("tpot_ms", "latency_s", "tpot_s=latency_s"),
        ("ttft_s", "latency_us", "times in s or ms"),
    ],
)
def test_latencies_whose_name_states_another_unit_than_their_role_are_refused(
    role: str, latency: str, said: str, folder: Path
) -> None:
    table(folder / "t.csv", "when", SECONDS, latency, 0.02)
    with pytest.raises(InputError, match=f"{latency}: is named as a time in .*{said}"):
        observed(folder / "t.csv", parsed_columns(f"arrived=when,input=in,output=out,{role}={latency}"))


@pytest.mark.parametrize("column", ["cached_pct", "hitRatio", "cache_hit_percent"])
def test_a_share_is_not_read_as_tokens(column: str, folder: Path) -> None:
    table(folder / "t.csv", "when", SECONDS, column, 45)
    with pytest.raises(InputError, match=f"{column}: is named as a share, and cached counts tokens"):
        observed(folder / "t.csv", parsed_columns(f"arrived=when,input=in,output=out,cached={column}"))


@pytest.mark.parametrize(
    ("role", "column", "said"),
    [
        ("output", "total_tokens", "a total"),
        ("output", "max_tokens", "a limit"),
        ("input", "prompt_chars", "chars"),
        ("input", "promptBytes", "bytes"),
        ("output", "PromptTokens", "input tokens"),
        ("input", "completion_tokens", "output tokens"),
        ("cached", "input_tokens", "input tokens"),
    ],
)
def test_a_column_whose_name_says_other_tokens_is_not_read_as_those_of_its_role(
    role: str, column: str, said: str, folder: Path
) -> None:
    table(folder / "t.csv", "when", SECONDS, column, 45)
    columns = {"arrived": "when", "input": "in", "output": "out", role: column}
    with pytest.raises(InputError, match=f"{column}: is named as {said}, and {role} counts tokens of its own"):
        observed(folder / "t.csv", columns)


def test_columns_that_are_not_read_are_named(folder: Path) -> None:
    table(folder / "t.csv", "when", SECONDS, "status", 500)
    found = observed(folder / "t.csv", parsed_columns("arrived=when,input=in,output=out"))
    assert found is not None
    assert [text for text in found.notes if code_of(text) == "columns-not-read"] == [
        'every row counts, whatever "status" says: not read (note: columns-not-read)'
    ]


def test_json_lines_with_a_unit_in_the_name_of_their_times_are_told_how_to_be_read(folder: Path) -> None:
    row = {"timestamp_us": 1000, "input_length": 500, "output_length": 9}
    (folder / "t.jsonl").write_text(json.dumps(row), encoding="utf-8")
    with pytest.raises(InputError, match=r"timestamp: is missing, though there is .timestamp_us. .*--time-unit us"):
        read_trace(folder / "t.jsonl")


@pytest.mark.parametrize(("column", "unit"), [("ttft_s", "s"), ("tpot_us", "us")])
def test_points_with_latencies_in_another_unit_are_refused_rather_than_left_out(column: str, unit: str) -> None:
    header = "model,hardware,framework,gpus,input_tokens,output_tokens,concurrency"
    with pytest.raises(InputError) as error:
        csv_points("p.csv", f"{header},{column}\nm,h,vllm,8,4096,100,4,0.3\n")
    assert f"{column}: is named as a time in {unit} ({column[:4]}_ms, in milliseconds)" in str(error.value)
    assert "did you mean" not in str(error.value)


# Bursts beyond what gaps state


def test_a_record_burstier_than_gaps_state_is_planned_with_the_most_and_that_is_said(folder: Path) -> None:
    times = [60_000 * burst + i for burst in range(40) for i in range(100)]
    lines(folder / "t.jsonl", times)
    scenario, said = new("--from", "t.jsonl")
    assert scenario.workload is not None
    assert scenario.workload.arrivals.squared_cv == 16
    assert "squared_cv is 16 at most: plans count on fewer bursts than there are" in said
    assert "# squared_cv is 16 at most" in Path("mine.toml").read_text(encoding="utf-8")
    lines(folder / "t.jsonl", [1000 * i for i in range(2000)])
    assert "at most" not in new("--from", "t.jsonl")[1]
