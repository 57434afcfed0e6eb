"""Measured points from a file of any kind that holds some, told apart by its content."""

from pathlib import Path

from planner.errors import InputError, Problem
from planner.profiles.points.bench_points import bench_points
from planner.profiles.points.csv_points import KNOWN, csv_points
from planner.profiles.points.point import NO_DEFAULTS, PointDefaults, ServingPoint
from planner.profiles.points.table import table_rows
from planner.reading import TABLE_BYTES, read_text

ALLOWED = (
    "a CSV table with the columns model, hardware, framework, input_tokens, output_tokens, concurrency, gpus, ttft_ms "
    "and tpot_ms; or results of vllm bench serve --save-result or of SGLang bench_serving"
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
    if is_bench_result(text):
        return bench_points(str(path), text, defaults)
    _check_is_table(str(path), text)
    return csv_points(str(path), text, defaults)


def is_bench_result(text: str) -> bool:
    """Whether a file's content is JSON, as benchmarks write it, rather than a table.

    >>> is_bench_result(' {"completed": 3}'), is_bench_result("model,hardware")
    (True, False)
    """
    return text.lstrip().startswith(("{", "["))


def _check_is_table(name: str, text: str) -> None:
    header = next((row for row in table_rows(name, text) if row.cells), None)
    if header is None:
        raise InputError(Problem(name, "", "is empty", ALLOWED))
    if not {*header.cells} & {*KNOWN}:
        message = f"does not start like measured points: {header.text[:60]!r}"
        raise InputError(Problem(name, "", message, ALLOWED, header.line))
