"""Measured points from a file of any kind that holds some, told apart by its content."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from difflib import get_close_matches
from math import isclose
from pathlib import Path

from planner.benchmarks import benchmark_runs, looks_like
from planner.benchmarks.reader import ALLOWED as RESULTS
from planner.benchmarks.reader import NO_RESULT, json_chunks
from planner.errors import InputError, InputProblem, shown
from planner.profiles.points.bench_points import bench_points
from planner.profiles.points.point import COLUMNS, NO_DEFAULTS, SIZES, THROUGHPUT, PointDefaults, ServingPoint
from planner.profiles.points.row import CLOSE, Row, row_point, told_once
from planner.profiles.points.table import MOST_PROBLEMS, TableRow, table_rows
from planner.reading import TABLE_BYTES, read_text
from planner.schema import JsonFile
from planner.units import time_unit_in

ALLOWED = (
    "a CSV table with the columns model, hardware, framework, input_tokens, output_tokens, concurrency, gpus, ttft_ms "
    f"and tpot_ms; or {RESULTS}"
)


def read_points(path: Path, defaults: PointDefaults = NO_DEFAULTS) -> list[ServingPoint]:
    """Measured points of a CSV table or of a benchmark's result file.

    Args:
        path: the file; its content says what it is, not its suffix.
        defaults: what holds where the file is silent.

    Returns:
        The points in the file's order, one at least.

    Raises:
        InputError: with every problem of the file: it cannot be read, is of no kind known here, lacks something or
            states the impossible.

    >>> read_points(Path("nowhere.csv"))
    Traceback (most recent call last):
    planner.errors.InputError: nowhere.csv: cannot be read: No such file or directory (a readable file)
    """
    text = read_text(path, TABLE_BYTES)
    problems: list[InputProblem] = []
    runs = benchmark_runs(str(path), text, problems)
    if runs is not None:
        return bench_points(str(path), runs, defaults, problems)
    _check_is_table(str(path), text)
    return csv_points(str(path), text, defaults)


def _check_is_table(name: str, text: str) -> None:
    if text.lstrip().startswith(("{", "[")):
        value = JsonFile(name, json_chunks(text)[0][1], ALLOWED, is_strict=False).data
        what = looks_like(text) or (NO_RESULT if isinstance(value, Mapping) else f"is {shown(value)}")
        raise InputError(InputProblem(name, "", what, ALLOWED, 1))
    if what := looks_like(text):
        raise InputError(InputProblem(name, "", what, ALLOWED, 1))
    header = next((row for row in table_rows(name, text) if row.cells), None)
    if header is None:
        raise InputError(InputProblem(name, "", "is empty", ALLOWED))
    if not {*header.cells} & {*KNOWN}:
        message = f"does not start like measured points: {header.text[:60]!r}"
        raise InputError(InputProblem(name, "", message, ALLOWED, header.line))


KNOWN = (*COLUMNS, "n_accelerators")
REQUIRED = ("model", "hardware", "framework", "input_tokens", "output_tokens")
WHOLE_LOAD = ("output_tokens", "concurrency", "request_rate_req_per_s", "tpot_ms")
"""Columns of which a table of bare prefills has none."""
LATENCY_COLUMNS = ("ttft_ms", "tpot_ms")
ONE_OF = {
    "concurrency": ("concurrency", "request_rate_req_per_s"),
    "n_accelerators": ("n_accelerators", "gpus", "tp_size", "prefill_num_workers"),
    "ttft_ms": (*LATENCY_COLUMNS, THROUGHPUT),
}
"""Needed figures, and the columns any of which gives them."""
LAYOUT = re.compile(r"(^|_)(tp|pp|dp|ep|cp|sp)(_size)?$|parallel|_workers$")
"""Names of columns that state a layout, which decides every latency: one that is not known is refused."""
NOT_READ = "the rest is not read"
PREFILL_ALONE = {"output_tokens": "1", "concurrency": "1"}
"""What a table of bare prefills means: one request at a time, over with its first token; it is a source by itself."""


def csv_points(name: str, text: str, defaults: PointDefaults = NO_DEFAULTS) -> list[ServingPoint]:
    r"""Points of a CSV table.

    Needed are the columns model, hardware, framework, input_tokens, output_tokens, concurrency (or
    request_rate_req_per_s), one of ttft_ms, tpot_ms and output_tokens_per_s_per_gpu, and one of gpus, n_accelerators
    and tp_size. A table with none of output_tokens, concurrency and tpot_ms is one of bare prefills: one request at a
    time, one token each.
    Columns of other names are let be, but for those of a layout.

    Args:
        defaults: what holds where a cell is empty or a column absent.

    Returns:
        One point per row that is not blank, in their order.

    Raises:
        InputError: with every problem of the file.

    >>> table = "model,hardware,framework,gpus,input_tokens,ttft_ms\nm,h,vllm,8,4096,300\n"
    >>> (found,) = csv_points("x.csv", table)
    >>> found.line, found.concurrency, found.output_tokens, found.ttft_s
    (2, 1.0, 1.0, 0.3)
    """
    rows = [row for row in table_rows(name, text) if row.cells]
    if not rows:
        raise InputError(
            InputProblem(name, "", "is empty", f"a header with the columns {', '.join(REQUIRED)}, and points")
        )
    header, *body = rows
    problems = list(_header_problems(name, header, defaults))
    if not body:
        problems.append(InputProblem(name, "", "has a header but no points", "one row at least", header.line))
    absent = {problem.key for problem in problems}
    found = []
    for row in _rows(name, header.cells, body, defaults, problems):
        made = row_point(row)
        problems += [problem for problem in row.problems if problem.key not in absent]
        found += [made] if made else []
    if problems:
        problems.sort(key=lambda problem: problem.line or 0)
        raise InputError(told_once(problems, _n_read(body, problems)))
    return found


def _n_read(body: Sequence[TableRow], problems: Sequence[InputProblem]) -> int:
    """Rows that were read before there were too many problems."""
    end = next((problem.line for problem in problems if problem.message == NOT_READ), None)
    return sum(end is None or row.line < end for row in body)


def _header_problems(name: str, header: TableRow, defaults: PointDefaults) -> Iterator[InputProblem]:
    columns = header.cells
    for column in sorted({column for column in columns if columns.count(column) > 1} & {*KNOWN}):
        yield InputProblem(name, column, "is there more than once", "each column once", header.line)
    for column in _strange(columns):
        if LAYOUT.search(column.casefold()):
            near = get_close_matches(column, SIZES, 1, CLOSE)
            hint = f"did you mean '{near[0]}'?" if near else f"columns of the layout: {', '.join(SIZES)}"
            yield InputProblem(name, column, "states a layout and is not known", hint, header.line)
    for column, (ours, unit) in _other_units(columns).items():
        yield InputProblem(name, column, f"is named as a time in {unit}", f"{ours}, in milliseconds", header.line)
    given = {*columns, *defaults.cells(), *(PREFILL_ALONE if _is_prefill_alone(columns) else ())}
    needed = {column: (column,) for column in REQUIRED} | ONE_OF
    for column, choices in needed.items():
        if not given & {*choices}:
            yield _missing(name, column, choices, header)


def _missing(name: str, column: str, choices: Sequence[str], header: TableRow) -> InputProblem:
    strange = [column for column in _strange(header.cells) if column not in _other_units(header.cells)]
    near = [match for choice in choices for match in get_close_matches(choice, strange, 1, CLOSE)]
    message = f"column is missing, though there is {near[0]!r}" if near else "column is missing"
    hint = f"did you mean '{column}'?" if near else "needed: " + " or ".join(choices)
    return InputProblem(name, column, message, hint, header.line)


def _other_units(columns: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Columns of latencies in another unit than milliseconds, with the column that they stand for and their unit."""
    times = [(column, time_unit_in(column)) for column in _strange(columns)]
    return {
        column: (ours, unit)
        for column, unit in times
        for ours in LATENCY_COLUMNS
        if unit not in (None, "ms") and column.casefold().startswith(ours.removesuffix("ms"))
    }


def _is_prefill_alone(columns: Sequence[str]) -> bool:
    """True if a table has prefills alone, and none of the other columns mistyped."""
    mistyped = any(get_close_matches(column, _strange(columns), 1, CLOSE) for column in WHOLE_LOAD)
    return "ttft_ms" in columns and not mistyped and not {*WHOLE_LOAD} & {*columns}


def _strange(columns: Sequence[str]) -> list[str]:
    return [column for column in columns if column not in KNOWN]


def _rows(
    name: str, columns: Sequence[str], body: Sequence[TableRow], defaults: PointDefaults, problems: list[InputProblem]
) -> Iterator[Row]:
    implied = {**PREFILL_ALONE, "harness": Path(name).stem} if _is_prefill_alone(columns) else {}
    otherwise = {**implied, **defaults.cells()}
    for line, cells, _, _ in body:
        if len(problems) > MOST_PROBLEMS:
            problems.append(InputProblem(name, "", NOT_READ, f"at most {MOST_PROBLEMS:,} problems", line))
            return
        if len(cells) != len(columns):
            problems.append(
                InputProblem(name, "", f"has {len(cells)} cells", f"{len(columns)}, as in the header", line)
            )
            continue
        row = Row(name, line, dict(zip(columns, cells, strict=True)), otherwise)
        if row.text("concurrency") is None and row.text("request_rate_req_per_s") is None:
            row.missing("concurrency", ", nor is request_rate_req_per_s")
        yield row


SAME_FRACTION = 1e-9
"""Measured values this close are one value: writing a figure out and reading it again moves its last digits [1]."""


def weights(points: Sequence[ServingPoint]) -> list[float]:
    """Weights that let copies of one measurement count as one.

    Equation:
        w_i = 1 / n_i, with n_i the points of the same day and configuration whose values are those of point i

    Args:
        points: measured points.

    Returns:
        A weight per point, in their order, shape (n,) [1]; those of copies add up to 1.

    Valid:
        Copies agree in every field but file, line and weight, and in TTFT and TPOT to a part in 1e9. Repeated
        measurements differ by far more and count in full.

    >>> from planner.profiles.points.reader import csv_points
    >>> head = "model,hardware,framework,gpus,input_tokens,output_tokens,concurrency,tpot_ms"
    >>> rows = ["m,h,vllm,8,1024,1024,8,12.5", "m,h,vllm,8,1024,1024,8,12.500000000000002", "m,h,vllm,8,1024,1024,8,13"]
    >>> weights(csv_points("x.csv", "\\n".join([head, *rows])))
    [0.5, 0.5, 1.0]
    """
    groups: dict[tuple[object, ...], list[list[int]]] = {}
    for index, point in enumerate(points):
        clusters = groups.setdefault(_configuration(point), [])
        same = next((c for c in clusters if _same_values(points[c[0]], point)), None)
        if same is None:
            clusters.append([index])
        else:
            same.append(index)
    n_copies = {index: len(c) for clusters in groups.values() for c in clusters for index in c}
    return [1 / n_copies[index] for index in range(len(points))]


def _configuration(point: ServingPoint) -> tuple[object, ...]:
    return astuple(replace(point, file="", line=0, weight=1.0, ttft_s=None, tpot_s=None))


def _same_values(one: ServingPoint, other: ServingPoint) -> bool:
    return _same(one.ttft_s, other.ttft_s) and _same(one.tpot_s, other.tpot_s)


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return isclose(one, other, rel_tol=SAME_FRACTION)
