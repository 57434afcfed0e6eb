"""Whatever a demand was recorded in, told apart by its content."""

import json
from collections.abc import Mapping
from pathlib import Path

from planner.benchmarks import benchmark_runs, looks_like
from planner.benchmarks.reader import ALLOWED as RESULTS
from planner.errors import InputError, InputProblem, UsageError
from planner.reading import MIB, TABLE_BYTES, opened, read_text
from planner.workload.observed.bench import observed_bench
from planner.workload.observed.demand import Observed
from planner.workload.observed.metric_samples import exposition, query_answer
from planner.workload.observed.metrics import observed_metrics
from planner.workload.observed.request_table import AZURE, observed_mooncake, observed_table
from planner.workload.traces import AS_FOUND, AZURE_COLUMNS, MOONCAKE_FIELDS, TraceReading

SMALL_TRACE_BYTES = 16 * MIB
"""Up to here a trace is planned for as it is, request by request."""
HEAD_BYTES = 65_536
ALLOWED = (
    "a trace (JSON lines with timestamp, input_length and output_length, or CSV with the header "
    f"{','.join(AZURE_COLUMNS)}), any other CSV with --columns, metrics of vLLM, SGLang, TensorRT-LLM, Dynamo or a "
    f"gateway (Prometheus text, or JSON of a range query), or {RESULTS}"
)


def observed(path: Path, columns: Mapping[str, str] | None = None, reading: TraceReading = AS_FOUND) -> Observed | None:
    """The demand that a file tells of; None where it is a trace that is small enough to be planned for as it is.

    Args:
        path: the file; its content says what it is.
        columns: names of columns by what they are, of a CSV.
        reading: unit of its times, size of its blocks, and whether invalid rows are left out.

    Raises:
        InputError: the file is of no kind that is known, or broken: the line, what is wrong, what is allowed.
        UsageError: columns are named of what has none, or what is stated is about what the file does not have.
    """
    with opened(path) as file:
        head = file.read(HEAD_BYTES).decode("utf-8-sig", errors="replace")
    first = next((line.strip() for line in head.splitlines() if line.strip()), "")
    if columns is not None:
        if first.startswith(("{", "[", "#")):
            raise UsageError("--columns: names columns of a CSV, and this is none")
        _check_blocks(reading, "a CSV has none")
        return observed_table(path, columns, reading)
    is_azure = [cell.strip() for cell in first.split(",")] == AZURE_COLUMNS
    is_mooncake = first.startswith("{") and all(f'"{field}"' in first for field in MOONCAKE_FIELDS)
    if is_azure or is_mooncake:
        if path.stat().st_size <= SMALL_TRACE_BYTES:
            return None
        _check_blocks(reading, f"a trace of more than {SMALL_TRACE_BYTES / MIB:g} MiB is read for its lengths and rate")
        return observed_mooncake(path, reading) if is_mooncake else observed_table(path, AZURE, reading)
    return _observed_answer(path, first, reading)


def _check_blocks(reading: TraceReading, why: str) -> None:
    """Raises UsageError where blocks are stated of what they are not read of."""
    if reading.block_tokens is not None:
        raise UsageError(f"--block-tokens: is about hash_ids, and {why} (leave it out)")


def _check_rows(reading: TraceReading, *, has_times: bool = True) -> None:
    """Raises UsageError where something is stated of rows of what has none."""
    what = "metrics" if has_times else "metrics and results of benchmarks"
    _check_blocks(reading, f"{what} have none")
    if reading.skip_invalid:
        raise UsageError(f"--skip-invalid: is about rows, and {what} have none (leave it out)")
    if reading.time_unit is not None and not has_times:
        raise UsageError("--time-unit: is about times of requests, and this file has none (leave it out)")


def _observed_answer(path: Path, first: str, reading: TraceReading) -> Observed | None:
    """Metrics or a benchmark's result, which are read whole. Raises InputError or UsageError."""
    name = str(path)
    if not first:
        raise InputError(InputProblem(name, "", "is empty", ALLOWED))
    is_whole = first.startswith(("{", "[", "#")) or path.stat().st_size <= TABLE_BYTES
    text = read_text(path, TABLE_BYTES) if is_whole else first
    if (runs := benchmark_runs(name, text)) is not None:
        _check_rows(reading, has_times=False)
        return observed_bench(name, runs)
    if first.startswith(("{", "[")):
        if _is_answer(_parsed(text)):
            _check_rows(reading)
            return observed_metrics(query_answer(name, text, reading.time_unit))
        if first.startswith("{") and not looks_like(text):
            return None
    elif first.startswith("#") or _is_sample(first):
        _check_rows(reading, has_times=False)
        return observed_metrics(exposition(name, text))
    what = looks_like(text) or f"is nothing that is known: {first[:60]!r}"
    raise InputError(InputProblem(name, "", what, ALLOWED, 1))


def _parsed(text: str) -> object:
    """The JSON value of a text; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_answer(value: object) -> bool:
    """True if a value is the answer to a query, or several."""
    parts = value if isinstance(value, list) else [value]
    return bool(parts) and all(isinstance(part, Mapping) and ("data" in part or "status" in part) for part in parts)


def _is_sample(line: str) -> bool:
    """True if a line is of Prometheus' text format rather than of a table."""
    name, _, value = line.rpartition(" ")
    return bool(name) and "," not in value and not name[:1].isdigit() and _is_number(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
