"""Recorded requests: Mooncake JSON lines and Azure CSV, read line by line; the first broken line is named."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from planner.errors import InputError, InputProblem, shown
from planner.notes import Note, note
from planner.reading import LINE_BYTES, MIB, json_value, opened
from planner.units import time_unit_in
from planner.workload.invalid_rows import InvalidRows
from planner.workload.spec import TimeUnit, TraceFormat
from planner.workload.time_units import DATES, TimeScale, check_pace, time_scale
from planner.workload.time_units import OPTION as TIME_OPTION

_Line = tuple[int, str]

BLOCK_TOKENS = 512
"""Tokens of a block of Mooncake's traces,"""
CHAT_BLOCK_TOKENS = 16
"""and of those that number chats and turns, whose times are in seconds."""
LIKELY_BLOCK_TOKENS = tuple(2**k for k in range(3, 12))
"""Sizes of blocks that are recognised by their number."""
BLOCK_OPTION = "--block-tokens (block_tokens in a scenario)"
MOST_REQUESTS = 3_000_000
MOST_BLOCKS = 20_000_000
"""Of a trace: what a machine of a few gigabytes holds."""
MOST_BLANK = 1_000
MOST_KNOWN = 2
"""Traces that are kept after they were read."""
MAX_TOKENS = 10**9
MAX_TIME = 10**19
MIN_ID, MAX_ID = -(2**63), 2**63 - 1
GRID_S = 3.0
GRID_SLACK_S = 0.02
AZURE_COLUMNS = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]
MOONCAKE_FIELDS = ("timestamp", "input_length", "output_length")
CHAT_FIELDS = ("chat_id", "turn")


@dataclass(frozen=True, eq=False)
class Blocks:
    """Prefix-chain block hashes of all requests: request i has values[offsets[i]:offsets[i + 1]]."""

    values: NDArray[np.int64]
    offsets: NDArray[np.int64]
    block_tokens: int = BLOCK_TOKENS


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
    """Prefix blocks, where the trace records them."""

    times: TimeScale = DATES
    """Unit of its times, and how it is known."""

    notes: tuple[Note, ...] = ()
    """How it was read where that is not as its format says: units, sizes of blocks, rows that were left out."""

    @property
    def n_requests(self) -> int:
        """Number of requests."""
        return self.total_tokens.size


class _BrokenLineError(Exception):
    """Fault of a line, for the reader that knows which line it is."""

    def __init__(self, key: str, message: str, allowed: str = "") -> None:
        self.key, self.message, self.allowed = key, message, allowed


class TraceReading(NamedTuple):
    """Options for reading a trace; what is None is found out."""

    trace_format: TraceFormat = "auto"
    time_unit: TimeUnit | None = None
    block_tokens: int | None = None
    skip_invalid: bool = False


AS_FOUND = TraceReading()
"""Everything is found out, and every row must be a request."""


class _Request(NamedTuple):
    """One parsed line; time in the unit of the file, of dates in nanoseconds."""

    time: float
    is_date: bool
    total_tokens: int
    output_tokens: int
    hashes: list[int] | None


def read_trace(
    path: Path,
    trace_format: TraceFormat = "auto",
    time_unit: TimeUnit | None = None,
    block_tokens: int | None = None,
    *,
    skip_invalid: bool = False,
) -> Trace:
    """The trace in a file; `auto` takes a first line that starts with `{` for JSON lines in Mooncake's fields.

    Mooncake stamps arrivals in milliseconds on a grid of 3 s: arrivals on it are spread evenly inside their cell.
    JSON lines that number chats and turns are in seconds, with blocks of 16 tokens. Azure stamps wall-clock time to
    100 ns: arrivals count from the first request. Numbers that are times after 1970 in one unit only have that unit.

    A file is read again only where it has changed; the arrays are shared, and cannot be written.

    Args:
        time_unit: of times that are numbers; None: of the format, or as their size tells.
        block_tokens: tokens of a prefix block [tokens]; None: of the format, or as the numbers of blocks tell.
        skip_invalid: whether a few rows that are no requests are left out.

    Raises:
        InputError: naming the first line that is not text, not of the format, out of order, or whose numbers are
            impossible; times that are not of such a unit, and blocks that are not of such a size. A request must have
            a prompt and an answer, one token each at least.
    """
    return trace_read(path, TraceReading(trace_format, time_unit, block_tokens, skip_invalid))


def trace_read(path: Path, reading: TraceReading) -> Trace:
    """The trace in a file, read as asked; see `read_trace`."""
    try:
        seen = path.stat()
    except OSError:
        return _read(path, reading)  # says what is wrong with it
    if not S_ISREG(seen.st_mode):
        return _read(path, reading)
    return _known(path, reading, seen.st_mtime_ns, seen.st_size, seen.st_ino)


@lru_cache(maxsize=MOST_KNOWN)
def _known(path: Path, reading: TraceReading, *_: int) -> Trace:
    """A file that is read once: planning and every replication of a run ask for the same."""
    return _read(path, reading)


def _read(path: Path, reading: TraceReading) -> Trace:
    with opened(path, "a readable trace") as file:
        found = _trace(str(path), _lines(str(path), file), reading)
    blocks = () if found.blocks is None else (found.blocks.values, found.blocks.offsets)
    for shared in (found.arrival_s, found.total_tokens, found.output_tokens, *blocks):
        shared.setflags(write=False)
    return found


def _trace(name: str, lines: Iterator[_Line], reading: TraceReading) -> Trace:
    first = next(lines, None)
    if first is None:
        raise InputError(InputProblem(name, "", "is empty", "a trace of at least one request"))
    trace_format = reading.trace_format
    if trace_format == "auto":
        trace_format = "mooncake" if first[1].startswith("{") else "azure"
    rows = InvalidRows(name, are_skipped=reading.skip_invalid)
    if trace_format == "mooncake":
        usual = usual_times(first[1])
        is_chat = usual.basis == "fields"
        sizes = _BlockSizes(reading.block_tokens, CHAT_BLOCK_TOKENS if is_chat else BLOCK_TOKENS)
        requests = _collected(rows, chain([first], lines), sizes.request)
        scale, arrival_s = _number_times_s(name, requests, reading.time_unit, usual)
        return _of_requests(rows, requests, scale, arrival_s, sizes)
    _check_header(name, *first)
    if reading.time_unit is not None:
        what = "is stated, and the times of this format are dates"
        raise InputError(InputProblem(name, "time_unit", what, f"no {TIME_OPTION}"))
    requests = _collected(rows, lines, _azure_request)
    sizes = _BlockSizes(reading.block_tokens, BLOCK_TOKENS)
    return _of_requests(rows, requests, DATES, _since_first_s(requests, DATES), sizes)


def usual_times(line: str) -> TimeScale:
    """The unit that JSON lines such as this one usually have."""
    is_chat = all(f'"{field}"' in line for field in CHAT_FIELDS)
    return TimeScale("s", "fields") if is_chat else TimeScale("ms", "format")


def _of_requests(
    rows: InvalidRows, requests: Sequence[_Request], scale: TimeScale, arrival_s: FloatArray, sizes: "_BlockSizes"
) -> Trace:
    name = rows.name
    span_s = float(arrival_s[-1] - arrival_s[0])
    is_fractional = any(request.time % 1 for request in requests)
    check_pace(name, "timestamp", len(requests), span_s, scale, is_fractional=is_fractional)
    _, _, totals, outputs, hashes = zip(*requests, strict=True)
    block_tokens, notes = sizes.found(name, hashes[0] is not None)
    blocks = None if hashes[0] is None else _blocks(hashes, block_tokens)
    notes = (*scale.guess(), *notes, *rows.notes(len(requests)))
    return Trace(name, arrival_s, np.array(totals), np.array(outputs), blocks, scale, notes)


def _lines(name: str, file: BinaryIO) -> Iterator[_Line]:
    """Every line with its number, stripped; blank lines may only end the file, and not many of them."""
    blank = None
    for number, raw in enumerate(iter(lambda: file.readline(LINE_BYTES + 1), b""), start=1):
        if len(raw) > LINE_BYTES:
            what = f"is longer than {LINE_BYTES / MIB:g} MiB"
            raise InputError(InputProblem(name, "", what, "one request a line", number))
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise InputError(
                InputProblem(name, "", f"is not UTF-8 text: {error.reason}", "a text file", number)
            ) from None
        if blank and (text or number - blank > MOST_BLANK):
            raise InputError(InputProblem(name, "", "is blank", "one request a line", blank))
        if text:
            yield number, text
        else:
            blank = blank or number


def _collected(rows: InvalidRows, lines: Iterable[_Line], parse: Callable[[str], _Request]) -> list[_Request]:
    requests: list[_Request] = []
    n_blocks = 0
    for number, text in lines:
        try:
            request = parse(text)
            if requests:
                _check_order(requests[-1], request)
        except _BrokenLineError as error:
            rows.add(InputProblem(rows.name, error.key, error.message, error.allowed, number))
            continue
        requests.append(request)
        n_blocks += len(request.hashes or ())
        if len(requests) > MOST_REQUESTS or n_blocks > MOST_BLOCKS:
            allowed = f"at most {MOST_REQUESTS:,} requests and {MOST_BLOCKS:,} blocks; plan for a part of it"
            raise InputError(InputProblem(rows.name, "", "is too long a trace", allowed, number))
    rows.check(len(requests))
    if not requests:
        raise InputError(InputProblem(rows.name, "", "has no requests", "a trace of at least one request"))
    return requests


def _check_order(previous: _Request, request: _Request) -> None:
    if request.is_date != previous.is_date:
        raise _BrokenLineError("timestamp", "is not of the kind of the line before", "dates in all lines or in none")
    if request.time < previous.time:
        raise _BrokenLineError("timestamp", "is earlier than the line before", "requests in order of arrival")
    if (request.hashes is None) != (previous.hashes is None):
        raise _BrokenLineError("hash_ids", "is not on every line", "on all lines or on none")


def _blocks(hashes: Sequence[list[int]], block_tokens: int) -> Blocks:
    offsets = np.cumsum([0, *map(len, hashes)])
    values = np.fromiter(chain.from_iterable(hashes), np.int64, count=int(offsets[-1]))
    return Blocks(values, offsets, block_tokens)


class _BlockSizes:
    """Sizes that the prefix blocks of all lines so far can have [tokens]."""

    def __init__(self, stated: int | None, usual: int) -> None:
        self.stated, self.usual = stated, usual
        self.possible = LIKELY_BLOCK_TOKENS if stated is None else (stated,)

    def request(self, text: str) -> _Request:
        """The request of a line of JSON. Raises _BrokenLineError."""
        request = _mooncake_request(text)
        if request.hashes is not None:
            self._narrow(len(request.hashes), request.total_tokens)
        return request

    def _narrow(self, n_ids: int, total_tokens: int) -> None:
        left = tuple(size for size in self.possible if ceil(total_tokens / size) == n_ids)
        if not left:
            size = self.usual if self.usual in self.possible else self.possible[0]
            allowed = f"{ceil(total_tokens / size)} blocks of {size} tokens for input_length {total_tokens}"
            raise _BrokenLineError("hash_ids", f"has {n_ids} ids", f"{allowed}; {BLOCK_OPTION} says another size")
        self.possible = left

    def found(self, name: str, has_blocks: bool) -> tuple[int, tuple[Note, ...]]:
        """The stated size, else that of the format, else the only one, and a note where it is not 512.

        Raises:
            InputError: several sizes fit, or one is stated of a trace without blocks.
        """
        if self.stated is not None and not has_blocks:
            what = "is stated, and the file has no hash_ids"
            raise InputError(InputProblem(name, "block_tokens", what, f"no {BLOCK_OPTION}"))
        if self.stated is not None or not has_blocks:
            return self.stated or self.usual, ()
        if self.usual not in self.possible and len(self.possible) > 1:
            what = f"has blocks of {', '.join(map(str, self.possible[:-1]))} or {self.possible[-1]} tokens"
            raise InputError(InputProblem(name, "hash_ids", what, f"{BLOCK_OPTION} says which"))
        size = self.usual if self.usual in self.possible else self.possible[0]
        text = f"hash_ids are of blocks of {size} tokens, as their numbers fit every prompt"
        return size, () if size == BLOCK_TOKENS else (note("block-size-read", text),)


def _mooncake_request(text: str) -> _Request:
    try:
        line = json_value(text, is_strict=False)
    except ValueError as error:
        reason = getattr(error, "msg", str(error))
        raise _BrokenLineError("", f"is not JSON: {reason}", "one JSON object a line") from None
    if not isinstance(line, dict):
        raise _BrokenLineError("", f"is a JSON {type(line).__name__}", "one JSON object a line")
    if missing := missing_field(line, MOONCAKE_FIELDS):
        raise _BrokenLineError(*missing)
    time = line["timestamp"]
    if is_date := isinstance(time, str) and _WALL_CLOCK.fullmatch(time) is not None:
        time = _wall_clock_ns("timestamp", time)
    elif type(time) not in (int, float) or not 0 <= time <= MAX_TIME:
        raise _BrokenLineError("timestamp", f"is {shown(time)}", "a number, 0 or more, or YYYY-MM-DD HH:MM:SS.ffffff")
    total, output = (_tokens(field, line[field]) for field in ("input_length", "output_length"))
    return _Request(time, is_date, total, output, _hashes(line.get("hash_ids")))


def missing_field(line: Mapping[str, Any], fields: Iterable[str]) -> tuple[str, str, str] | None:
    """The first field that a line lacks, what is wrong, and what is allowed; a time under another name is found."""
    lacking = next((field for field in fields if field not in line), None)
    if lacking is None:
        return None
    allowed = f"fields: {', '.join(fields)}"
    near = next((key for key in line if key.casefold().startswith(lacking)), None)
    if near is None:
        return lacking, "is missing", allowed
    unit = time_unit_in(near)
    renamed = f"{lacking} in its place{'' if unit is None else f', with --time-unit {unit}'}"
    return lacking, f"is missing, though there is {shown(near)}", f"{renamed}; {allowed}"


def _tokens(key: str, value: Any) -> int:
    if type(value) is int and 1 <= value <= MAX_TOKENS:
        return value
    raise _BrokenLineError(key, f"is {shown(value)}", f"a whole number from 1 to {MAX_TOKENS:,}")


def _hashes(ids: Any) -> list[int] | None:
    if ids is None:
        return None
    if not isinstance(ids, list) or not set(map(type, ids)) <= {int}:
        raise _BrokenLineError("hash_ids", "is not a list of whole numbers", "one id per block")
    if ids and (min(ids) < MIN_ID or max(ids) > MAX_ID):
        raise _BrokenLineError("hash_ids", "has an id outside 64 bits", f"{MIN_ID} to {MAX_ID}")
    return ids


def _number_times_s(
    name: str, requests: Sequence[_Request], stated: TimeUnit | None, usual: TimeScale
) -> tuple[TimeScale, FloatArray]:
    """The unit of times, and seconds after the first; of all on the recorder's grid, after the start of its cell.

    Request k of n in a cell arrives (k + 1/2) / n of the cell after its start. Times of one cell that differ are on no
    grid: nothing tells so.
    """
    if requests[0].is_date:
        if stated is not None:
            what = "is stated, and the times are dates"
            raise InputError(InputProblem(name, "time_unit", what, f"no {TIME_OPTION}"))
        return DATES, _since_first_s(requests, DATES)
    scale = time_scale(name, "timestamp", requests[0].time, stated, usual)
    times = np.array([float(request.time) for request in requests]) * scale.seconds
    cells = np.rint(times / GRID_S)
    is_off = (np.abs(times - cells * GRID_S) > GRID_SLACK_S).any() or (cells[0] == cells[-1] and times[0] != times[-1])
    if is_off:
        return scale, _since_first_s(requests, scale)
    _, start, cell, n = np.unique(cells, return_index=True, return_inverse=True, return_counts=True)
    within = (np.arange(times.size) - start[cell] + 0.5) / n[cell]
    return scale, np.asarray((cells - cells[0] + within) * GRID_S)


def _since_first_s(requests: Sequence[_Request], scale: TimeScale) -> FloatArray:
    return np.array([(request.time - requests[0].time) * scale.seconds for request in requests])


def _check_header(name: str, number: int, text: str) -> None:
    if [column.strip() for column in text.split(",")] != AZURE_COLUMNS:
        raise InputError(
            InputProblem(
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
    key, *lengths = AZURE_COLUMNS
    prompt, answer = (_tokens(column, _whole(cell)) for column, cell in zip(lengths, (total, output), strict=True))
    return _Request(_wall_clock_ns(key, time), True, prompt, answer, None)


def _whole(text: str) -> int | str:
    """The number a cell holds, or the cell itself when it holds none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else text


_WALL_CLOCK = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?", re.ASCII)


def _wall_clock_ns(key: str, text: str) -> int:
    """Nanoseconds after 1970, of a time that is UTC unless it says otherwise."""
    match = _WALL_CLOCK.fullmatch(text)
    try:
        seconds = _epoch_s(match[1] + (match[3] or "Z")) if match else None
    except (ValueError, OverflowError):
        seconds = None
    if match is None or seconds is None:
        raise _BrokenLineError(key, f"is {shown(text)}", "YYYY-MM-DD HH:MM:SS.fffffff")
    return seconds * 10**9 + int((match[2] or "").ljust(9, "0"))


@lru_cache(maxsize=16)
def _epoch_s(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp())
