"""Measured points from a file of any kind that holds some, told apart by its content."""

from collections.abc import Mapping
from pathlib import Path

from planner.benchmarks import benchmark_runs, looks_like
from planner.benchmarks.reader import ALLOWED as RESULTS
from planner.benchmarks.reader import NO_RESULT, json_chunks
from planner.errors import InputError, Problem, shown
from planner.profiles.points.bench_points import bench_points
from planner.profiles.points.csv_points import KNOWN, csv_points
from planner.profiles.points.point import NO_DEFAULTS, PointDefaults, ServingPoint
from planner.profiles.points.table import table_rows
from planner.reading import TABLE_BYTES, read_text
from planner.schema import JsonFile

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
    problems: list[Problem] = []
    runs = benchmark_runs(str(path), text, problems)
    if runs is not None:
        return bench_points(str(path), runs, defaults, problems)
    _check_is_table(str(path), text)
    return csv_points(str(path), text, defaults)


def _check_is_table(name: str, text: str) -> None:
    if text.lstrip().startswith(("{", "[")):
        value = JsonFile(name, json_chunks(text)[0][1], ALLOWED, is_strict=False).data
        what = looks_like(text) or (NO_RESULT if isinstance(value, Mapping) else f"is {shown(value)}")
        raise InputError(Problem(name, "", what, ALLOWED, 1))
    if what := looks_like(text):
        raise InputError(Problem(name, "", what, ALLOWED, 1))
    header = next((row for row in table_rows(name, text) if row.cells), None)
    if header is None:
        raise InputError(Problem(name, "", "is empty", ALLOWED))
    if not {*header.cells} & {*KNOWN}:
        message = f"does not start like measured points: {header.text[:60]!r}"
        raise InputError(Problem(name, "", message, ALLOWED, header.line))
