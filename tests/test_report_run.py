"""The figure and the files of a run: what is drawn and written of records made by hand."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.report import run_files
from planner.report.chart_run import RunChart, run_chart
from planner.report.run_files import write_records, write_timeline
from planner.results.run import Run, RunRecords, TtftCurve

N, WARM_UP, COUNTED = 50, 10, 30
SAMPLES_S = np.array([0.0, 10.0, 20.0, 40.0, 50.0])
SENT = np.array([0.0, 5e9, 5e9, 25e9, 25e9])


def records(times: float = 1.0, **changes: Any) -> RunRecords:
    """A request every second, whose first token comes after as many tenths as its number; all times by a factor."""
    arrival_s = times * np.arange(N)
    columns = {
        "request": np.arange(N),
        "state": np.zeros(N, np.int64),
        "arrival_s": arrival_s,
        "prefill_start_s": arrival_s + 0.01,
        "prefill_end_s": arrival_s + 0.05,
        "kv_end_s": arrival_s + 0.07,
        "first_token_s": arrival_s + 0.1 * np.arange(N),
        "finish_s": arrival_s + 9.0,
        "prefill_pool": np.zeros(N, np.int64),
        "prefill_instance": np.arange(N) % 2,
        "decode_pool": np.ones(N, np.int64),
        "decode_instance": np.where(np.arange(N) % 5 == 4, -1, 0),
        "wire_bytes": np.where(np.arange(N) % 2 == 0, 1000, 0),
        "total_tokens": np.full(N, 800),
        "cached_tokens": np.full(N, 100),
        "output_tokens": np.full(N, 30),
    }
    words = {"state": ("finished", "dropped"), "prefill_pool": ("near", "decode"), "decode_pool": ("near", "decode")}
    samples = {
        "time_s": times * SAMPLES_S,
        "near waiting": np.array([0, 3, 1, 2, 0]),
        "wan bytes": SENT,
        "inside": np.array([1, 2, 3, 4, 5]),
    }
    return RunRecords(columns | changes, words, WARM_UP, COUNTED, samples)


def run(**changes: Any) -> Run:
    stated = {"scenario": "small", "load": 0.8, "concurrency": None, "offered_req_per_s": 2.5}
    return Run.model_construct(**{**stated, "pools": {"near": None}, "links": {"wan": None}, **changes})


def chart(of: RunRecords | None = None, predicted: TtftCurve | None = None, gbps: float = 10.0) -> RunChart:
    return run_chart(run(), of or records(), {"wan": gbps, "other": 1.0}, predicted)


def test_a_chart_of_a_run_has_the_requests_that_count_and_the_rate_since_the_moment_before() -> None:
    found = chart()
    assert found.title == "small, 2.5 req/s: one replication of 50 requests"
    assert found.counted_s == (10.0, 39.0)
    assert found.queues == {"near": ((0.0, 10.0, 20.0, 40.0, 50.0), (0.0, 3.0, 1.0, 2.0, 0.0))}
    moments = np.linspace(0, 50, 5)
    time_s, rate = found.links["wan"]
    assert time_s == pytest.approx(moments[1:])
    sent = np.interp(moments, SAMPLES_S, SENT)
    assert rate == pytest.approx([(b - a) * 8 / 1e9 / 12.5 for a, b in pairwise(sent)])
    seconds, shares = found.ttft
    assert (shares[0], shares[-2:], max(shares[:-2])) == (0.0, (0.995, 0.999), 0.99)
    assert (seconds[0], float(np.interp(0.5, shares, seconds))) == pytest.approx((1.0, 2.45))
    assert found.capacity_gbps == {"wan": 10.0}


@pytest.mark.parametrize(
    ("changes", "load"), [({"load": None}, "kept full"), ({"concurrency": 64, "load": None}, "64 requests inside")]
)
def test_a_run_at_no_rate_says_what_it_keeps_going(changes: dict[str, Any], load: str) -> None:
    assert run_chart(run(**changes), records(), {"wan": 1.0}, None).title.startswith(f"small, {load}: ")


def test_requests_without_a_first_token_are_in_no_distribution() -> None:
    first_s = records().columns["first_token_s"].copy()
    first_s[WARM_UP + 1 :] = np.nan
    assert set(chart(records(first_token_s=first_s)).ttft[0]) == {1.0}
    assert set(chart(records(first_token_s=np.full(N, np.nan))).ttft[0]) == {0.0}


def xy(line: Any) -> tuple[list[float], list[float]]:
    return [float(x) for x in line.get_xdata()], [float(y) for y in line.get_ydata()]


@pytest.mark.parametrize(("times", "unit", "seconds"), [(1.0, "seconds", 1.0), (300.0, "hours", 3600.0)])
def test_queues_and_links_are_drawn_over_one_time_with_what_is_not_counted_in_grey(
    times: float, unit: str, seconds: float
) -> None:
    found = chart(records(times))
    queues, links, _ = found.draw().axes
    drawn = xy(queues.lines[0])
    assert drawn[0] == pytest.approx(times * SAMPLES_S / seconds)
    assert drawn[1] == [0.0, 3.0, 1.0, 2.0, 0.0]
    spans = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in queues.patches]
    edges = [(0.0, 10 * times / seconds), (39 * times / seconds, 50 * times / seconds)]
    assert [end for span in spans for end in span] == pytest.approx([end for edge in edges for end in edge])
    for axes in (queues, links):
        assert axes.get_xlim() == pytest.approx((0.0, 50 * times / seconds))
        assert axes.get_ylim()[0] == 0.0
    assert links.get_xlabel().startswith(f"time, {unit};")


@pytest.mark.parametrize(("until_s", "unit"), [(7200.0, "seconds"), (7201.0, "hours")])
def test_more_than_two_hours_are_told_in_hours(until_s: float, unit: str) -> None:
    _, links, _ = replace(chart(), counted_s=(10.0, until_s)).draw().axes
    assert links.get_xlabel().startswith(f"time, {unit};")


@pytest.mark.parametrize(("gbps", "is_drawn"), [(8.0, True), (15.9, True), (16.1, False), (0.0, False)])
def test_a_link_has_its_capacity_where_that_is_not_far_above_what_is_used(gbps: float, is_drawn: bool) -> None:
    """The most that is sent in a stretch of 12.5 s is 12.5 GB: 8 Gbps."""
    _, links, _ = chart(gbps=gbps).draw().axes
    assert [xy(line)[1] for line in links.lines[1:]] == ([[gbps, gbps]] if is_drawn else [])


@pytest.mark.parametrize(
    ("fractions", "is_marks"), [((0.5, 0.9, 0.99), True), ((0.1, 0.5, 0.9, 0.99), False), (None, False)]
)
def test_the_distribution_names_its_quantiles_beside_those_that_are_predicted(
    fractions: tuple[float, ...] | None, is_marks: bool
) -> None:
    known = None if fractions is None else TtftCurve(tuple(10 * f for f in fractions), fractions, 1.0)
    *_, last = chart(predicted=known).draw().axes
    texts = [text.get_text() for text in last.texts]
    predicted = ("5", "9", "9.9")
    executed = ("2.45", "3.61", "3.87")
    ends = [f"; {s} s predicted" if known else "" for s in predicted]
    assert texts == [f"P{p}  {s} s{end}" for p, s, end in zip(("50", "90", "99"), executed, ends, strict=True)]
    curves = [line for line in last.lines if line.get_label() == "predicted by queueing"]
    assert len(curves) == (known is not None)
    for curve in curves:
        assert (curve.get_linestyle() == "None") is is_marks
        assert xy(curve)[0] == pytest.approx([10 * f for f in fractions or ()])
    assert last.get_xlim() == pytest.approx((0.0, 1.25 * chart().ttft[0][-1]))


def test_without_links_a_run_is_drawn_in_two_rows() -> None:
    assert len(run_chart(run(links={}), records(), {}, None).draw().axes) == 2
    short = records()
    lone = RunRecords(short.columns, short.words, WARM_UP, COUNTED, {k: v[:1] for k, v in short.samples.items()})
    assert run_chart(run(), lone, {"wan": 1.0}, None).links == {}


def events(of: RunRecords, folder: Path) -> list[dict[str, Any]]:
    write_timeline(of, folder / "timeline.json")
    found: list[dict[str, Any]] = json.loads((folder / "timeline.json").read_text())["traceEvents"]
    return found


def test_a_timeline_has_every_step_of_a_finished_request_on_its_track_in_microseconds(tmp_path: Path) -> None:
    state = np.zeros(N, np.int64)
    state[7] = 1
    found = events(records(state=state), tmp_path)
    tracks = {one["args"]["name"]: one["pid"] for one in found if one["name"] == "process_name"}
    assert len(set(tracks.values())) == len(tracks) == 4
    threads = {(one["pid"], one["tid"], one["args"]["name"]) for one in found if one["name"] == "thread_name"}
    prefill, decode = tracks["prefill"], tracks["decode"]
    assert threads == {(prefill, 0, "near 0"), (prefill, 1, "near 1"), (decode, 0, "decode 0")}
    of_one = [one for one in found if one["name"] == "request 6"]
    assert [(one["pid"], one["tid"], one["ph"], round(one["ts"])) for one in of_one] == [
        (prefill, 0, "X", 6_010_000),
        (tracks["link"], 0, "b", 6_010_000),
        (tracks["link"], 0, "e", 6_070_000),
        (decode, 0, "b", 6_600_000),
        (decode, 0, "e", 15_000_000),
    ]
    assert round(of_one[0]["dur"]) == 40_000
    assert not [one for one in found if one["name"] == "request 7"], "it was dropped"
    assert len([one for one in found if one["name"] == "request 9"]) == 1, "neither sent nor decoded"


def test_a_timeline_counts_what_was_sampled_until_its_last_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "MOST_IN_A_TIMELINE", 21)
    found = events(records(), tmp_path)
    assert {one["name"] for one in found if one["name"].startswith("request")} == {f"request {i}" for i in range(21)}
    counted = {
        name: [(one["ts"] / 1e6, one["args"]["value"]) for one in found if one["ph"] == "C" and one["name"] == name]
        for name in ("near waiting", "inside", "wan Gbps")
    }
    assert counted["near waiting"] == [(0.0, 0), (10.0, 3), (20.0, 1)]
    assert counted["inside"] == [(0.0, 1), (10.0, 2), (20.0, 3)]
    assert counted["wan Gbps"] == [(0.0, 4.0), (10.0, 0.0)]


def test_records_have_a_row_for_every_request_however_few_are_made_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kv_end_s = np.where(np.arange(N) % 2 == 0, np.arange(N) + 0.07, np.nan)
    monkeypatch.setattr(run_files, "AT_ONCE", 7)
    write_records(records(kv_end_s=kv_end_s, kept=np.arange(N) % 3 == 0), tmp_path / "run.csv")
    first, *rows = (line.split(",") for line in (tmp_path / "run.csv").read_text().splitlines())
    assert first == [*records().columns, "kept"]
    assert len(rows) == N
    table = [dict(zip(first, row, strict=True)) for row in rows]
    assert [row["request"] for row in table] == [str(i) for i in range(N)]
    assert [row["kv_end_s"] for row in table[:3]] == ["0.07", "", "2.07"]
    assert [row["kept"] for row in table[:4]] == ["true", "false", "false", "true"]
    assert {(row["state"], row["prefill_pool"], row["decode_pool"]) for row in table} == {
        ("finished", "near", "decode")
    }
