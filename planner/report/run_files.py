"""The records of a run as files: one row per request, or a timeline that Perfetto and chrome://tracing open."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from planner.errors import InputError, InputProblem, UsageError
from planner.files import check_writable, whole_file, write_text
from planner.results.run import RunRecords
from planner.units import BITS_PER_BYTE, BITS_PER_GBIT, MICRO

MOST_IN_A_TIMELINE = 5_000
"""Requests of a timeline: viewers get slow beyond."""
AT_ONCE = 16_384
"""Rows that are texts at the same time: a text takes ten times the memory of its number."""
RECORD_SUFFIXES = (".csv", ".parquet")
TRACK = {"prefill": 1, "link": 2, "decode": 3, "state": 4}
FINISHED = "finished"


def check_record_file(path: Path) -> None:
    """Say before any work that records cannot be written so.

    Raises:
        UsageError: an unknown kind of file.
        InputError: Parquet without pyarrow, or a folder that is not there.
    """
    if path.suffix.lower() not in RECORD_SUFFIXES:
        raise UsageError(f"--records {path}: is neither .parquet nor .csv")
    check_writable(path)
    if path.suffix.lower() == ".parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            what = "needs pyarrow, which is not installed"
            allowed = "a .csv file, or: pip install 'prefill-planner[parquet]'"
            raise InputError(InputProblem(str(path), "", what, allowed)) from None


def write_records(records: RunRecords, path: Path) -> None:
    """One row per request, by the file's suffix as CSV or Parquet; times in seconds, unknown ones empty."""
    if path.suffix.lower() == ".parquet":
        import pyarrow
        from pyarrow import parquet

        with whole_file(path) as aside:
            parquet.write_table(pyarrow.table({name: _named(records, name) for name in records.columns}), aside)
        return
    n = max(map(len, records.columns.values()), default=0)
    with whole_file(path) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        file.write(",".join(records.columns) + "\n")
        for some in (slice(first, first + AT_ONCE) for first in range(0, n, AT_ONCE)):
            columns = [_texts(_named(records, name, some)) for name in records.columns]
            file.writelines(",".join(row) + "\n" for row in zip(*columns, strict=True))


def _named(records: RunRecords, name: str, some: slice = slice(None)) -> Any:
    """A column, or some rows of it, indexes replaced by their words."""
    words = records.words.get(name)
    column = records.columns[name][some]
    return column if words is None else np.array(words)[column]


def _texts(column: Any) -> list[str]:
    if column.dtype.kind == "f":
        return ["" if value != value else repr(value) for value in column.tolist()]
    return [str(value).lower() if value in (True, False) else str(value) for value in column.tolist()]


def write_timeline(records: RunRecords, path: Path) -> None:
    """The first requests as a Chrome trace: prefill and decode by instance, transfers, and counters of the state."""
    events = [*_headings(records), *_requests(records), *_counters(records)]
    text = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, separators=(",", ":"), allow_nan=False)
    write_text(path, f"{text}\n")


def _headings(records: RunRecords) -> Iterator[dict[str, Any]]:
    for name, process in TRACK.items():
        yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}
    for role in ("prefill", "decode"):
        pools, instances = records.columns[f"{role}_pool"], records.columns[f"{role}_instance"]
        used = instances >= 0
        pairs = np.unique(np.column_stack([instances[used], pools[used]]), axis=0)
        for instance, pool in pairs.tolist():
            name = f"{records.words[f'{role}_pool'][pool]} {instance}"
            yield {"ph": "M", "name": "thread_name", "pid": TRACK[role], "tid": instance, "args": {"name": name}}


def _requests(records: RunRecords) -> Iterator[dict[str, Any]]:
    """Prefill as slices, which never overlap on an instance unless it works by chunks; the rest as spans that may."""
    finished = records.words["state"].index(FINISHED)
    n = min(len(records.columns["request"]), MOST_IN_A_TIMELINE)
    rows = zip(*(records.columns[name][:n].tolist() for name in records.columns), strict=True)
    for row in rows:
        request = dict(zip(records.columns, row, strict=True))
        if request["state"] != finished:
            continue
        about = {"total_tokens": request["total_tokens"], "cached_tokens": request["cached_tokens"]}
        yield from _span("prefill", request, "prefill_start_s", "prefill_end_s", request["prefill_instance"], about)
        if request["wire_bytes"] > 0:
            about = {"bytes": request["wire_bytes"]}
            yield from _span("link", request, "prefill_start_s", "kv_end_s", 0, about)
        if request["decode_instance"] >= 0:
            about = {"output_tokens": request["output_tokens"]}
            yield from _span("decode", request, "first_token_s", "finish_s", request["decode_instance"], about)


def _span(
    what: str, request: dict[str, Any], start: str, end: str, thread: int, about: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    common = {"name": f"request {request['request']}", "cat": what, "pid": TRACK[what], "tid": thread}
    begin_us, end_us = request[start] / MICRO, request[end] / MICRO
    if what == "prefill":
        yield {**common, "ph": "X", "ts": begin_us, "dur": end_us - begin_us, "args": about}
    else:
        yield {**common, "ph": "b", "id": request["request"], "ts": begin_us, "args": about}
        yield {**common, "ph": "e", "id": request["request"], "ts": end_us}


def _counters(records: RunRecords) -> Iterator[dict[str, Any]]:
    """Queues and batches as they were at each sample, and the links' rates since the sample before."""
    n = min(len(records.columns["request"]), MOST_IN_A_TIMELINE) - 1
    until_s = float(records.columns["arrival_s"][n]) if n >= 0 else 0.0
    time_s = records.samples["time_s"]
    shown = time_s <= until_s
    for name, values in records.samples.items():
        if name.endswith((" waiting", " batch", " transfers")) or name == "inside":
            yield from _counter(name, time_s[shown], values[shown])
        elif name.endswith(" bytes"):
            spans = np.maximum(np.diff(time_s), np.finfo(float).tiny)
            rates = np.diff(values) / spans * BITS_PER_BYTE / BITS_PER_GBIT
            yield from _counter(f"{name.removesuffix(' bytes')} Gbps", time_s[:-1][shown[1:]], rates[shown[1:]])


def _counter(name: str, time_s: Any, values: Any) -> Iterator[dict[str, Any]]:
    for moment, value in zip(time_s.tolist(), values.tolist(), strict=True):
        yield {"ph": "C", "name": name, "pid": TRACK["state"], "tid": 0, "ts": moment / MICRO, "args": {"value": value}}
