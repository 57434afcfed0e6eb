"""Recorded requests: Mooncake JSON lines and Azure CSV, read line by line; the first broken line is named."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import chain
from math import ceil
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.curves import FloatArray
from planner.errors import InputError, Problem, shown
from planner.reading import LINE_BYTES, MIB, json_value, opened
from planner.workload.spec import TraceFormat

_Line = tuple[int, str]

BLOCK_TOKENS = 512
MOST_REQUESTS = 3_000_000
MOST_BLOCKS = 20_000_000
"""Of a trace: what a machine of a few gigabytes holds."""
MOST_BLANK = 1_000
MOST_KNOWN = 2
"""Traces that are kept after they were read."""
MAX_TOKENS = 10**9
MAX_TIME_MS = 10**15
MIN_ID, MAX_ID = -(2**63), 2**63 - 1
GRID_MS = 3000
GRID_SLACK_MS = 20
AZURE_COLUMNS = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]
MOONCAKE_FIELDS = ("timestamp", "input_length", "output_length")


@dataclass(frozen=True, eq=False)
class Blocks:
    """Prefix-chain block hashes of all requests: request i has values[offsets[i]:offsets[i + 1]]."""

    values: NDArray[np.int64]
    offsets: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Trace:
    """Requests in order of arrival; arrays of shape (n,)."""

    name: str
    arrival_s: NDArray[np.float64]
    """Arrival after the start of the trace [s]."""

    total_tokens: NDArray[np.int64]
    """Prompt lengths [tokens]."""

    output_tokens: NDArray[np.int64]
    """Answer lengths [tokens]."""

    blocks: Blocks | None
    """512-token prefix blocks, where the trace records them."""

    @property
    def n_requests(self) -> int:
        """Number of requests."""
        return self.total_tokens.size


class _BrokenLineError(Exception):
    """What is wrong with a line, for the reader that knows which line it is."""

    def __init__(self, key: str, message: str, allowed: str = "") -> None:
        self.key, self.message, self.allowed = key, message, allowed


class _Request(NamedTuple):
    """One parsed line; time in the format's own unit."""

    time: float
    total_tokens: int
    output_tokens: int
    hashes: list[int] | None


def read_trace(path: Path, trace_format: TraceFormat = "auto") -> Trace:
    """The trace in a file; `auto` takes a first line that starts with `{` for Mooncake's format.

    Mooncake stamps arrivals in milliseconds on a grid of 3 s: arrivals on it are spread evenly inside their cell.
    Azure stamps wall-clock time to 100 ns: arrivals count from the first request.

    A file is read again only where it has changed; the arrays are shared, and cannot be written.

    Raises:
        InputError: naming the first line that is not text, not of the format, out of order, or whose numbers are
            impossible. A request must have a prompt and an answer, one token each at least.
    """
    try:
        seen = path.stat()
    except OSError:
        return _read(path, trace_format)  # says what is wrong with it
    if not S_ISREG(seen.st_mode):
        return _read(path, trace_format)
    return _known(path, trace_format, seen.st_mtime_ns, seen.st_size, seen.st_ino)


@lru_cache(maxsize=MOST_KNOWN)
def _known(path: Path, trace_format: TraceFormat, *_: int) -> Trace:
    """A file that is read once: planning and every replication of a run ask for the same."""
    return _read(path, trace_format)


def _read(path: Path, trace_format: TraceFormat) -> Trace:
    with opened(path, "a readable trace") as file:
        found = _trace(str(path), _lines(str(path), file), trace_format)
    blocks = () if found.blocks is None else (found.blocks.values, found.blocks.offsets)
    for shared in (found.arrival_s, found.total_tokens, found.output_tokens, *blocks):
        shared.setflags(write=False)
    return found


def _trace(name: str, lines: Iterator[_Line], trace_format: TraceFormat) -> Trace:
    first = next(lines, None)
    if first is None:
        raise InputError(Problem(name, "", "is empty", "a trace of at least one request"))
    if trace_format == "auto":
        trace_format = "mooncake" if first[1].startswith("{") else "azure"
    if trace_format == "mooncake":
        return _collected(name, chain([first], lines), _mooncake_request, _mooncake_arrival_s)
    _check_header(name, *first)
    return _collected(name, lines, _azure_request, _azure_arrival_s)


def _lines(name: str, file: BinaryIO) -> Iterator[_Line]:
    """Every line with its number, stripped; blank lines may only end the file, and not many of them."""
    blank = None
    for number, raw in enumerate(iter(lambda: file.readline(LINE_BYTES + 1), b""), start=1):
        if len(raw) > LINE_BYTES:
            what = f"is longer than {LINE_BYTES / MIB:g} MiB"
            raise InputError(Problem(name, "", what, "one request a line", number))
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise InputError(Problem(name, "", f"is not UTF-8 text: {error.reason}", "a text file", number)) from None
        if blank and (text or number - blank > MOST_BLANK):
            raise InputError(Problem(name, "", "is blank", "one request a line", blank))
        if text:
            yield number, text
        else:
            blank = blank or number


def _collected(
    name: str,
    lines: Iterable[_Line],
    parse: Callable[[str], _Request],
    arrival_s: Callable[[list[float]], FloatArray],
) -> Trace:
    requests: list[_Request] = []
    n_blocks = 0
    for number, text in lines:
        try:
            request = parse(text)
            if requests:
                _check_order(requests[-1], request)
        except _BrokenLineError as error:
            raise InputError(Problem(name, error.key, error.message, error.allowed, number)) from None
        requests.append(request)
        n_blocks += len(request.hashes or ())
        if len(requests) > MOST_REQUESTS or n_blocks > MOST_BLOCKS:
            allowed = f"at most {MOST_REQUESTS:,} requests and {MOST_BLOCKS:,} blocks; plan for a part of it"
            raise InputError(Problem(name, "", "is too long a trace", allowed, number))
    if not requests:
        raise InputError(Problem(name, "", "has no requests", "a trace of at least one request"))
    times, totals, outputs, hashes = zip(*requests, strict=True)
    blocks = None if hashes[0] is None else _blocks(hashes)
    return Trace(name, arrival_s(list(times)), np.array(totals), np.array(outputs), blocks)


def _check_order(previous: _Request, request: _Request) -> None:
    if request.time < previous.time:
        raise _BrokenLineError("timestamp", "is earlier than the line before", "requests in order of arrival")
    if (request.hashes is None) != (previous.hashes is None):
        raise _BrokenLineError("hash_ids", "is not on every line", "on all lines or on none")


def _blocks(hashes: Sequence[list[int]]) -> Blocks:
    offsets = np.cumsum([0, *map(len, hashes)])
    return Blocks(np.fromiter(chain.from_iterable(hashes), np.int64, count=int(offsets[-1])), offsets)


def _mooncake_request(text: str) -> _Request:
    try:
        line = json_value(text, is_strict=False)
    except ValueError as error:
        reason = getattr(error, "msg", str(error))
        raise _BrokenLineError("", f"is not JSON: {reason}", "one JSON object a line") from None
    if not isinstance(line, dict):
        raise _BrokenLineError("", f"is a JSON {type(line).__name__}", "one JSON object a line")
    if missing := [field for field in MOONCAKE_FIELDS if field not in line]:
        raise _BrokenLineError(missing[0], "is missing", "fields: " + ", ".join(MOONCAKE_FIELDS))
    time = line["timestamp"]
    if type(time) not in (int, float) or not 0 <= time <= MAX_TIME_MS:
        raise _BrokenLineError("timestamp", f"is {shown(time)}", "milliseconds, 0 or more")
    total, output = (_tokens(field, line[field]) for field in ("input_length", "output_length"))
    return _Request(time, total, output, _hashes(line.get("hash_ids"), total))


def _tokens(key: str, value: Any) -> int:
    if type(value) is int and 1 <= value <= MAX_TOKENS:
        return value
    raise _BrokenLineError(key, f"is {shown(value)}", f"a whole number from 1 to {MAX_TOKENS:,}")


def _hashes(ids: Any, total_tokens: int) -> list[int] | None:
    if ids is None:
        return None
    if not isinstance(ids, list) or not set(map(type, ids)) <= {int}:
        raise _BrokenLineError("hash_ids", "is not a list of whole numbers", "one id per block")
    n_blocks = ceil(total_tokens / BLOCK_TOKENS)
    if len(ids) != n_blocks:
        allowed = f"{n_blocks} blocks of {BLOCK_TOKENS} tokens for input_length {total_tokens}"
        raise _BrokenLineError("hash_ids", f"has {len(ids)} ids", allowed)
    if min(ids) < MIN_ID or max(ids) > MAX_ID:
        raise _BrokenLineError("hash_ids", "has an id outside 64 bits", f"{MIN_ID} to {MAX_ID}")
    return ids


def _mooncake_arrival_s(times_ms: list[float]) -> FloatArray:
    """Seconds after the first, or after the first cell's start when all times lie on the recorder's grid.

    Request k of n in a cell arrives (k + 1/2) / n of the cell after its start.
    """
    times = np.array(times_ms, dtype=np.float64)
    cells = np.rint(times / GRID_MS)
    if (np.abs(times - cells * GRID_MS) > GRID_SLACK_MS).any():
        return np.asarray((times - times[0]) / 1e3)
    _, start, cell, n = np.unique(cells, return_index=True, return_inverse=True, return_counts=True)
    within = (np.arange(times.size) - start[cell] + 0.5) / n[cell]
    return np.asarray((cells - cells[0] + within) * GRID_MS / 1e3)


def _check_header(name: str, number: int, text: str) -> None:
    if [column.strip() for column in text.split(",")] != AZURE_COLUMNS:
        raise InputError(
            Problem(
                name,
                "",
                f"does not start like a trace: {text[:60]!r}",
                f"a JSON object or the header {','.join(AZURE_COLUMNS)}",
                number,
            )
        )


def _azure_request(text: str) -> _Request:
    cells = [cell.strip() for cell in text.split(",")]
    if len(cells) != len(AZURE_COLUMNS):
        raise _BrokenLineError("", f"has {len(cells)} columns", ",".join(AZURE_COLUMNS))
    time, total, output = cells
    return _Request(
        _wall_clock_ns(time), _tokens(AZURE_COLUMNS[1], _whole(total)), _tokens(AZURE_COLUMNS[2], _whole(output)), None
    )


def _whole(text: str) -> int | str:
    """The number a cell holds, or the cell itself when it holds none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else text


_WALL_CLOCK = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?", re.ASCII)


def _wall_clock_ns(text: str) -> int:
    """Nanoseconds after 1970, of a time that is UTC unless it says otherwise."""
    match = _WALL_CLOCK.fullmatch(text)
    try:
        seconds = _epoch_s(match[1] + (match[3] or "Z")) if match else None
    except (ValueError, OverflowError):
        seconds = None
    if match is None or seconds is None:
        raise _BrokenLineError(AZURE_COLUMNS[0], f"is {shown(text)}", "YYYY-MM-DD HH:MM:SS.fffffff")
    return seconds * 10**9 + int((match[2] or "").ljust(9, "0"))


@lru_cache(maxsize=16)
def _epoch_s(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp())


def _azure_arrival_s(times_ns: list[float]) -> FloatArray:
    return np.array([(time - times_ns[0]) / 1e9 for time in times_ns])
