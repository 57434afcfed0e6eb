"""Requests one a line, in a CSV of any columns or in the columns of known traces, read in memory that does not grow."""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from math import nan
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, InputProblem, UsageError, did_you_mean, shown
from planner.reading import LINE_BYTES, MIB, opened
from planner.units import MILLI
from planner.workload.invalid_rows import InvalidRows
from planner.workload.observed.clock import Clock
from planner.workload.observed.column_names import check_names, unread_columns
from planner.workload.observed.counted_lengths import LengthCounter
from planner.workload.observed.demand import ArrivalCounter, Observed
from planner.workload.observed.latencies import LatencyCounter
from planner.workload.time_units import TimeScale, check_pace, check_span, named_scale
from planner.workload.traces import (
    AS_FOUND,
    AZURE_COLUMNS,
    MAX_TOKENS,
    TraceReading,
    missing_field,
    usual_times,
)

ROLES = {
    "arrived": "seconds (or --time-unit), or a date with a time",
    "arrived_ms": "milliseconds",
    "input": f"a whole number from 1 to {MAX_TOKENS:,}",
    "output": f"a whole number from 1 to {MAX_TOKENS:,}",
    "cached": "a whole number from 0 to the prompt's length",
    "ttft_s": "seconds, 0 or more",
    "ttft_ms": "milliseconds, 0 or more",
    "tpot_s": "seconds, 0 or more",
    "tpot_ms": "milliseconds, 0 or more",
}
"""What a column may be, and what is allowed in it."""
NEEDED = ("input", "output")
TOKENS = ("input", "output", "cached")
AZURE = dict(zip(("arrived", "input", "output"), AZURE_COLUMNS, strict=True))
MOONCAKE = {"arrived": "timestamp", "input": "input_length", "output": "output_length"}
USUAL_LINE = re.compile(
    r'\{"timestamp": ?(\d+(?:\.\d+)?), ?"input_length": ?(\d+), ?"output_length": ?(\d+)'
    r'(?:, ?"hash_ids": ?\[[\d, ]*\])?\}\s*',
    re.ASCII,
)
CHUNK_ROWS = 20_000
MOST_TIME_S = 1e12

Rows = Iterator[tuple[int, Sequence[Any]]]
"""Lines with their cells, in the order of the roles."""


def parsed_columns(text: str) -> dict[str, str]:
    """Columns by what they are, of `arrived=TIME,input=PROMPT,output=ANSWER`.

    Raises:
        UsageError: it is not written so, names what is nothing, or leaves out what is needed.

    >>> parsed_columns("input=in, output=out")
    {'input': 'in', 'output': 'out'}
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        role, separator, column = (piece.strip() for piece in part.partition("="))
        if not separator or not column:
            raise UsageError(f"--columns: {shown(part)} is not ROLE=COLUMN, such as input=prompt_tokens")
        if role not in ROLES:
            raise UsageError(f"--columns: {shown(role)} is no role ({did_you_mean(role, ROLES)})")
        if role in found or (role.partition("_")[0] in {name.partition("_")[0] for name in found}):
            raise UsageError(f"--columns: {role} is named twice")
        found[role] = column
    if lacking := [role for role in NEEDED if role not in found]:
        raise UsageError(f"--columns: {lacking[0]} is not named (arrived=..., input=..., output=...)")
    return found


def observed_table(path: Path, columns: Mapping[str, str], reading: TraceReading = AS_FOUND) -> Observed:
    """The demand of a CSV by the names of its columns.

    Raises:
        InputError: at the first line that is none, or where the times cannot be of their unit.
        UsageError: two units of time are stated.
    """
    if "arrived_ms" in columns:
        if reading.time_unit not in (None, "ms"):
            raise UsageError(f"--time-unit {reading.time_unit}: arrived_ms is in milliseconds (arrived, or no unit)")
        reading = reading._replace(time_unit="ms")
        columns = {"arrived" if role == "arrived_ms" else role: column for role, column in columns.items()}
    check_names(str(path), columns, ROLES)
    usual = named_scale(str(path), columns.get("arrived", ""), reading.time_unit, TimeScale("s", "format"))
    rows = InvalidRows(str(path), are_skipped=reading.skip_invalid)
    with opened(path, "a table of requests") as file:
        table = _Csv(rows, file)
        found = _observed(rows, columns, table.cells(columns), Clock(reading.time_unit, usual))
    return replace(found, notes=(*found.notes, *unread_columns(table.header, columns)))


def observed_mooncake(path: Path, reading: TraceReading = AS_FOUND) -> Observed:
    """The demand of JSON lines in the fields of Mooncake's traces; raises as `observed_table` does."""
    rows = InvalidRows(str(path), are_skipped=reading.skip_invalid)
    with opened(path, "a readable trace") as file:
        first = file.readline(LINE_BYTES).decode("utf-8", errors="replace")
    with opened(path, "a readable trace") as file:
        return _observed(rows, MOONCAKE, _json_rows(rows, file), Clock(reading.time_unit, usual_times(first)))


def _observed(rows: InvalidRows, columns: Mapping[str, str], lines: Rows, clock: Clock) -> Observed:
    roles, name, key = list(columns), rows.name, columns.get("arrived", "")
    totals = _Totals()
    while chunk := list(islice(lines, CHUNK_ROWS)):
        totals.add(_numbers(rows, columns, roles, chunk, clock))
        check_span(name, key, totals.arrivals.span_s, clock.scale, chunk[-1][0])
    rows.check(totals.n)
    if not totals.n:
        raise InputError(InputProblem(name, "", "has no requests", "a line for each request"))
    check_pace(name, key, totals.n, totals.arrivals.span_s, clock.scale, is_fractional=clock.is_fractional)
    for role, column in columns.items():
        if (base := role.partition("_")[0]) in ("ttft", "tpot"):
            (totals.ttft if base == "ttft" else totals.tpot).check(name, column, base)
    notes = clock.scale.notes(totals.n, totals.arrivals.span_s) if totals.has_times else ()
    return replace(totals.found(), notes=(*notes, *rows.notes(totals.n)))


class _Totals:
    """Counts over all chunks."""

    def __init__(self) -> None:
        self.n, self.prompt_tokens, self.cached_tokens = 0, 0.0, 0.0
        self.prompts, self.outputs, self.arrivals = LengthCounter(), LengthCounter(), ArrivalCounter()
        self.ttft, self.tpot = LatencyCounter(), LatencyCounter()
        self.has_times = self.has_hits = False

    def add(self, numbers: Mapping[str, NDArray[np.float64]]) -> None:
        if not numbers["input"].size:
            return
        self.n += numbers["input"].size
        self.prompts.add(numbers["input"].astype(np.int64))
        self.outputs.add(numbers["output"].astype(np.int64))
        if "arrived" in numbers:
            self.has_times = True
            self.arrivals.add(numbers["arrived"])
        if "cached" in numbers:
            self.has_hits = True
            self.cached_tokens += float(numbers["cached"].sum())
        self.prompt_tokens += float(numbers["input"].sum())
        for counter, name in ((self.ttft, "ttft"), (self.tpot, "tpot")):
            if name in numbers:
                counter.add(numbers[name])

    def found(self) -> Observed:
        arrivals = self.arrivals if self.has_times else None
        return Observed(
            what=f"{self.n:,} requests",
            prompts=self.prompts.found(),
            outputs=self.outputs.found(),
            req_per_s=None if arrivals is None else arrivals.req_per_s,
            hours=() if arrivals is None else arrivals.hours(),
            dispersion=None if arrivals is None else arrivals.dispersion(),
            hit_fraction=self.cached_tokens / self.prompt_tokens if self.has_hits else None,
            latency_s=(*self.ttft.named("ttft", (50, 90, 99)), *self.tpot.named("tpot", ())),
        )


def _numbers(
    rows: InvalidRows,
    columns: Mapping[str, str],
    roles: Sequence[str],
    chunk: list[tuple[int, Sequence[Any]]],
    clock: Clock,
) -> dict[str, NDArray[np.float64]]:
    """Numbers of the valid rows of a chunk by what they are, in seconds and tokens.

    Raises:
        InputError: at the first row that is invalid, where none may be left out.
    """
    cells = list(zip(*(row for _, row in chunk), strict=True))
    found, wrong = dict[str, NDArray[np.float64]](), dict[str, NDArray[np.bool_]]()
    for role, column in zip(roles, cells, strict=True):
        base, _, unit = role.partition("_")
        values = clock.times_s(rows.name, columns[role], column) if role == "arrived" else _parsed(column)
        wrong[role] = ~_allowed(role, values)
        found[base] = values * MILLI if unit == "ms" else values
    if "cached" in found:
        wrong["cached"] |= found["cached"] > found["input"]
    is_wrong = np.logical_or.reduce(list(wrong.values()))
    for at in np.flatnonzero(is_wrong).tolist():
        place = next(i for i, role in enumerate(roles) if wrong[role][at])
        role = roles[place]
        rows.add(InputProblem(rows.name, columns[role], f"is {shown(cells[place][at])}", ROLES[role], chunk[at][0]))
    return {base: values[~is_wrong] for base, values in found.items()}


def _parsed(column: Sequence[Any]) -> NDArray[np.float64]:
    """Numbers of a column; NaN, which is allowed nowhere, of what is no number at all."""
    try:
        return np.array(column, dtype=np.float64)
    except (ValueError, TypeError):
        return np.array([_number(cell) for cell in column])


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (ValueError, TypeError, OverflowError):
        return nan


def _allowed(role: str, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which numbers are of a role; NaN and infinities are of none."""
    if role in TOKENS:
        least = 0 if role == "cached" else 1
        fits = (values >= least) & (values <= MAX_TOKENS) & (values == np.floor(values))
    elif role == "arrived":
        fits = np.abs(values) <= MOST_TIME_S
    else:
        fits = values >= 0
    return np.asarray(fits & np.isfinite(values), dtype=np.bool_)


class _Csv:
    """A CSV with a header, read once, as a pipe has it."""

    def __init__(self, rows: InvalidRows, file: BinaryIO) -> None:
        self._rows, self._reader = rows, csv.reader(_texts(rows.name, file), strict=True)
        with self._is_csv():
            self.header = [cell.strip() for cell in next(self._reader, [])]

    def cells(self, columns: Mapping[str, str]) -> Rows:
        """Lines with the cells of some columns. Raises InputError."""
        places = [_place(self._rows.name, self.header, column) for column in columns.values()]
        with self._is_csv():
            for row in self._reader:
                if len(row) == len(self.header):
                    yield self._reader.line_num, [row[i] for i in places]
                elif row:
                    what = f"has {len(row)} cells, and the header {len(self.header)}"
                    self._rows.add(
                        InputProblem(self._rows.name, "", what, "as many cells as columns", self._reader.line_num)
                    )

    @contextmanager
    def _is_csv(self) -> Iterator[None]:
        try:
            yield
        except csv.Error as error:
            what, line = f"is not CSV: {error}", self._reader.line_num
            raise InputError(InputProblem(self._rows.name, "", what, "cells with commas in quotes", line)) from None


def _place(name: str, header: list[str], column: str) -> int:
    if column not in header:
        message = "is empty" if not header else f"has no column {shown(column)}"
        allowed = did_you_mean(column, header) if header else "a header with the names of the columns"
        raise InputError(InputProblem(name, "", message, allowed, 1))
    if header.count(column) > 1:
        raise InputError(InputProblem(name, column, "is the name of two columns", "one column of each name", 1))
    return header.index(column)


def _json_rows(rows: InvalidRows, file: BinaryIO) -> Rows:
    """Fields of JSON lines: by their form where it is the usual one, else many at once, else one by one."""
    fields = tuple(MOONCAKE.values())
    lines = ((n, text) for n, text in enumerate(_texts(rows.name, file), 1) if text.strip())
    while chunk := list(islice(lines, CHUNK_ROWS)):
        found = _usual_rows(chunk) or _loaded_rows(chunk, fields)
        if found is None:
            yield from _single_rows(rows, chunk, fields)
        else:
            yield from ((number, row) for (number, _), row in zip(chunk, found, strict=True))


def _single_rows(rows: InvalidRows, chunk: Sequence[tuple[int, str]], fields: Sequence[str]) -> Rows:
    for number, text in chunk:
        found = _json_row(rows.name, number, text, fields)
        if isinstance(found, InputProblem):
            rows.add(found)
        else:
            yield number, found


def _usual_rows(chunk: Sequence[tuple[int, str]]) -> list[Sequence[Any]]:
    """Fields of lines that all have the usual form, none where one has not: most of a line are ids nobody needs."""
    found = [USUAL_LINE.fullmatch(text) for _, text in chunk]
    return [] if None in found else [match.groups() for match in found if match is not None]


def _loaded_rows(chunk: Sequence[tuple[int, str]], fields: Sequence[str]) -> list[Sequence[Any]] | None:
    """Fields of lines read as one list; None where some line is broken."""
    try:
        values = json.loads("[" + ",".join(text for _, text in chunk) + "]")
        return [[value[field] for field in fields] for value in values]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _json_row(name: str, number: int, text: str, fields: Iterable[str]) -> list[Any] | InputProblem:
    """The fields of a line, or what is wrong with it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", str(error))
        return InputProblem(name, "", f"is not JSON: {reason}", "one JSON object a line", number)
    if not isinstance(value, dict):
        return InputProblem(name, "", f"is a JSON {type(value).__name__}", "one JSON object a line", number)
    if missing := missing_field(value, fields):
        return InputProblem(name, *missing, number)
    return [value[field] for field in fields]


def _texts(name: str, file: BinaryIO) -> Iterator[str]:
    for number, raw in enumerate(iter(lambda: file.readline(LINE_BYTES + 1), b""), start=1):
        if len(raw) > LINE_BYTES:
            what = f"is longer than {LINE_BYTES / MIB:g} MiB"
            raise InputError(InputProblem(name, "", what, "one request a line", number))
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                InputProblem(name, "", f"is not UTF-8 text: {error.reason}", "a text file", number)
            ) from None
