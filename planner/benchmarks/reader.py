"""Results of serving benchmarks, told apart by their content: adding a format is its module and its name here."""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from planner.benchmarks import aiperf, bench_serving, guidellm, inference_perf
from planner.benchmarks.run import BenchmarkFormat, BenchmarkRun, ResultTable
from planner.errors import InputError, InputProblem, shown
from planner.schema import JsonFile

FORMATS = (bench_serving.FORMAT, aiperf.FORMAT, guidellm.FORMAT, inference_perf.FORMAT)
ALLOWED = "results of " + ", ".join(each.name for each in FORMATS)
NO_RESULT = "is no result of a serving benchmark"
OBJECTS = "one JSON object, or one a line"
MOST_PROBLEMS = 1_000
"""Problems after which a file is read no further: names are compared for each."""
MOST_RUNS = 100_000
HEAD_ROWS = 4
_VALUE = re.compile(r"^(?=[^\s}\]])", re.MULTILINE)
"""Where a JSON value may start: a line that is not indented and closes nothing."""


def benchmark_runs(name: str, text: str, problems: list[InputProblem] | None = None) -> list[BenchmarkRun] | None:
    """Runs of a benchmark's result file; None where the text begins as no format does.

    Args:
        name: the file, as problems call it.
        text: its content: JSON objects one after the other, or a CSV.
        problems: gets every problem of the file, what follows a result and is none included; None: they are raised.

    Raises:
        InputError: with every problem, unless they are collected.

    >>> run = {"completed": 2, "total_input_tokens": 20, "total_output_tokens": 8, "median_ttft_ms": 90.0}
    >>> (found,) = benchmark_runs("run.json", json.dumps(run)) or ()
    >>> found.prompts.mean, found.ttft_s.median
    (10.0, 0.09)
    """
    told: list[InputProblem] = [] if problems is None else problems
    table = _table(text)
    if table is not None:
        found = list(_runs(name, 1, *table, told))
    elif (values := json_values(name, text, told)) is None:
        return None
    else:
        found = [run for line, value in values for run in _read(name, line, value, told)]
    if told and problems is None:
        raise InputError(told)
    return found


def _table(text: str) -> tuple[BenchmarkFormat, Mapping[str, Any]] | None:
    """The format of a CSV, and its content as the object that its JSON has."""
    if text.lstrip().startswith(("{", "[")):
        return None
    head = _rows("\n".join(text.splitlines()[:HEAD_ROWS]))
    found = next((each for each in FORMATS if each.is_table(head)), None)
    return None if found is None else (found, found.from_table(_rows(text)))


def _rows(text: str) -> list[list[str]]:
    try:
        return list(csv.reader(text.splitlines()))
    except csv.Error:
        return []


def json_values(name: str, text: str, problems: list[InputProblem]) -> list[tuple[int, Any]] | None:
    """JSON values of a text with their lines; None where the first is no result of a benchmark."""
    if not text.lstrip().startswith("{"):
        return None
    found: list[tuple[int, Any]] = []
    for line, chunk in json_chunks(text):
        if len(problems) > MOST_PROBLEMS or len(found) >= MOST_RUNS:
            allowed = f"at most {MOST_RUNS:,}, and {MOST_PROBLEMS:,} problems"
            problems.append(InputProblem(name, "", "the rest is not read", allowed, line))
            break
        try:
            value = JsonFile(name, chunk, OBJECTS, is_strict=False, line=line).data
        except InputError as error:
            problems += error.problems
            continue
        if not found and not problems and format_of(value) is None:
            return None
        found.append((line, value))
    return found or None


def format_of(value: Any) -> BenchmarkFormat | None:
    """The format of a JSON value; None where it is of none."""
    return next((each for each in FORMATS if isinstance(value, Mapping) and each.is_of(value)), None)


def _read(name: str, line: int, value: Any, problems: list[InputProblem]) -> Iterator[BenchmarkRun]:
    known = format_of(value)
    if known is None:
        what = f"is {shown(value)}" if not isinstance(value, Mapping) else NO_RESULT
        problems.append(InputProblem(name, "", what, f"{OBJECTS}: {ALLOWED}", line))
        return
    yield from _runs(name, line, known, value, problems)


def _runs(
    name: str, line: int, known: BenchmarkFormat, value: Mapping[str, Any], problems: list[InputProblem]
) -> Sequence[BenchmarkRun]:
    place = ResultTable(name, line, value, problems=[])
    found = list(known.runs(place))
    problems += place.problems
    return [] if place.problems else found


def json_chunks(text: str) -> list[tuple[int, str]]:
    """Text of each JSON value with the line it starts in: the whole file where that is one value."""
    starts = [match.start() for match in _VALUE.finditer(text)] or [0]
    if len(starts) > 1 and _is_json(text):
        starts = starts[:1]
    found, line, counted = [], 1, 0
    for start, end in pairwise([*starts, len(text)]):
        line, counted = line + text.count("\n", counted, start), start
        found.append((line, text[start:end].rstrip()))
    return found


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
