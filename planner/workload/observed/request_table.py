"""Requests one a line, in a CSV of any columns or in the columns of known traces, read in memory that does not grow."""

import csv
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, Problem, UsageError, did_you_mean, shown
from planner.reading import LINE_BYTES, MIB, opened
from planner.units import MILLI
from planner.workload.observed.counted_lengths import LengthCounter
from planner.workload.observed.demand import MOST_WINDOWS, WINDOW_S, ArrivalCounter, Observed
from planner.workload.observed.latencies import LatencyCounter
from planner.workload.traces import AZURE_COLUMNS, MAX_TOKENS

ROLES = {
    "arrived": "seconds, or a date with a time",
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
MOONCAKE = {"arrived_ms": "timestamp", "input": "input_length", "output": "output_length"}
USUAL_LINE = re.compile(
    r'\{"timestamp": ?(\d+(?:\.\d+)?), ?"input_length": ?(\d+), ?"output_length": ?(\d+)'
    r'(?:, ?"hash_ids": ?\[[\d, ]*\])?\}\s*',
    re.ASCII,
)
CHUNK_ROWS = 20_000
MOST_TIME_S = 1e12
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

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


def observed_table(path: Path, columns: Mapping[str, str]) -> Observed:
    """The demand of a CSV by the names of its columns; raises InputError at the first line that is none."""
    with opened(path, "a table of requests") as file:
        return _observed(str(path), columns, _csv_rows(str(path), file, columns))


def observed_mooncake(path: Path) -> Observed:
    """The demand of JSON lines in the fields of Mooncake's traces; raises as `observed_table` does."""
    with opened(path, "a readable trace") as file:
        return _observed(str(path), MOONCAKE, _json_rows(str(path), file))


def _observed(name: str, columns: Mapping[str, str], rows: Rows) -> Observed:
    roles = list(columns)
    totals = _Totals()
    while chunk := list(islice(rows, CHUNK_ROWS)):
        totals.add(_numbers(name, columns, roles, chunk))
        if totals.arrivals.is_too_long:
            allowed = f"{MOST_WINDOWS * WINDOW_S / 86400:,.0f} days at most; arrived_ms for milliseconds"
            raise InputError(Problem(name, columns[roles[0]], "spans too much time", allowed, chunk[-1][0]))
    if not totals.n:
        raise InputError(Problem(name, "", "has no requests", "a line for each request"))
    return totals.found()


class _Totals:
    """What is counted over all chunks."""

    def __init__(self) -> None:
        self.n, self.prompt_tokens, self.cached_tokens = 0, 0.0, 0.0
        self.prompts, self.outputs, self.arrivals = LengthCounter(), LengthCounter(), ArrivalCounter()
        self.ttft, self.tpot = LatencyCounter(), LatencyCounter()
        self.has_times = self.has_hits = False

    def add(self, numbers: Mapping[str, NDArray[np.float64]]) -> None:
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
    name: str, columns: Mapping[str, str], roles: Sequence[str], chunk: list[tuple[int, Sequence[Any]]]
) -> dict[str, NDArray[np.float64]]:
    """Numbers of a chunk by what they are, in seconds and tokens; raises InputError at the first that is none."""
    cells = list(zip(*(row for _, row in chunk), strict=True))
    found: dict[str, NDArray[np.float64]] = {}
    for role, column in zip(roles, cells, strict=True):
        key = columns[role]
        values = _parsed(name, key, role, column, chunk)
        wrong = ~_allowed(role, values)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise InputError(Problem(name, key, f"is {shown(column[at])}", ROLES[role], chunk[at][0]))
        base, _, unit = role.partition("_")
        found[base] = values * MILLI if unit == "ms" else values
    if "cached" in found and (too_many := found["cached"] > found["input"]).any():
        at = int(np.argmax(too_many))
        message = f"is {found['cached'][at]:.0f}, and the prompt has {found['input'][at]:.0f}"
        raise InputError(Problem(name, columns["cached"], message, ROLES["cached"], chunk[at][0]))
    return found


def _parsed(
    name: str, key: str, role: str, column: Sequence[Any], chunk: list[tuple[int, Sequence[Any]]]
) -> NDArray[np.float64]:
    """Numbers of a column; NaN would pass for one, so it is refused with what is no number at all."""
    try:
        return np.array(column, dtype=np.float64)
    except (ValueError, TypeError):
        if role == "arrived" and (times := _times_s(column)) is not None:
            return times
    parse: Callable[[Any], float] = _time_s if role == "arrived" else float
    found = np.empty(len(column))
    for i, cell in enumerate(column):
        try:
            found[i] = parse(cell)
        except (ValueError, TypeError, OverflowError):
            raise InputError(Problem(name, key, f"is {shown(cell)}", ROLES[role], chunk[i][0])) from None
    return found


def _allowed(role: str, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which numbers are of a role; NaN and infinities are of none."""
    if role in TOKENS:
        least = 0 if role == "cached" else 1
        fits = (values >= least) & (values <= MAX_TOKENS) & (values == np.floor(values))
    elif role.startswith("arrived"):
        fits = np.abs(values) <= MOST_TIME_S / (MILLI if role.endswith("_ms") else 1)
    else:
        fits = values >= 0
    return np.asarray(fits & np.isfinite(values), dtype=np.bool_)


def _times_s(column: Sequence[Any]) -> NDArray[np.float64] | None:
    """Seconds since 1970 of dates that say no time zone, all at once; None where some are anything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # how numpy says that there is a zone
        try:
            times = np.array(column, dtype="datetime64[ns]")
        except (ValueError, TypeError, Warning):
            return None
    return None if np.isnat(times).any() else times.astype(np.int64) / 1e9


def _time_s(text: Any) -> float:
    """Seconds since 1970 of a date with a time, UTC unless it says otherwise; a number is itself."""
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text.strip())
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH).total_seconds()


def _csv_rows(name: str, file: BinaryIO, columns: Mapping[str, str]) -> Rows:
    reader = csv.reader(_texts(name, file), strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        places = [_place(name, header, column) for column in columns.values()]
        for row in reader:
            if len(row) == len(header):
                yield reader.line_num, [row[i] for i in places]
            elif row:
                what = f"has {len(row)} cells, and the header {len(header)}"
                raise InputError(Problem(name, "", what, "as many cells as columns", reader.line_num))
    except csv.Error as error:
        raise InputError(
            Problem(name, "", f"is not CSV: {error}", "cells with commas in quotes", reader.line_num)
        ) from None


def _place(name: str, header: list[str], column: str) -> int:
    if column not in header:
        message = "is empty" if not header else f"has no column {shown(column)}"
        allowed = did_you_mean(column, header) if header else "a header with the names of the columns"
        raise InputError(Problem(name, "", message, allowed, 1))
    if header.count(column) > 1:
        raise InputError(Problem(name, column, "is the name of two columns", "one column of each name", 1))
    return header.index(column)


def _json_rows(name: str, file: BinaryIO) -> Rows:
    """Fields of JSON lines: by their form where it is the usual one, else many at once, else one by one."""
    fields = tuple(MOONCAKE.values())
    lines = ((n, text) for n, text in enumerate(_texts(name, file), 1) if text.strip())
    while chunk := list(islice(lines, CHUNK_ROWS)):
        rows = _usual_rows(chunk) or _loaded_rows(chunk, fields)
        if rows is None:
            rows = [_json_row(name, number, text, fields) for number, text in chunk]
        yield from ((number, row) for (number, _), row in zip(chunk, rows, strict=True))


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


def _json_row(name: str, number: int, text: str, fields: Iterable[str]) -> list[Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", str(error))
        raise InputError(Problem(name, "", f"is not JSON: {reason}", "one JSON object a line", number)) from None
    if not isinstance(value, dict):
        raise InputError(Problem(name, "", f"is a JSON {type(value).__name__}", "one JSON object a line", number))
    for field in fields:
        if field not in value:
            raise InputError(Problem(name, field, "is missing", f"fields: {', '.join(fields)}", number))
    return [value[field] for field in fields]


def _texts(name: str, file: BinaryIO) -> Iterator[str]:
    for number, raw in enumerate(iter(lambda: file.readline(LINE_BYTES + 1), b""), start=1):
        if len(raw) > LINE_BYTES:
            what = f"is longer than {LINE_BYTES / MIB:g} MiB"
            raise InputError(Problem(name, "", what, "one request a line", number))
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(Problem(name, "", f"is not UTF-8 text: {error.reason}", "a text file", number)) from None
