"""One row of text cells, checked cell by cell, into a point: what every file format is turned into first."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from math import nan, prod
from typing import Any

from planner.benchmarks.sglang_server import MAX_SIZE
from planner.errors import NAME_CHARACTERS, InputProblem, shown
from planner.profiles.points.point import MODES, SIZES, THROUGHPUT, Mode, ServingPoint
from planner.profiles.speculation import MOST_DRAFT_TOKENS
from planner.reading import unprintable
from planner.units import unit_of

LEAST_NUMBER, MAX_NUMBER = 1e-6, 10**9
"""Range of every number that is above 0: in milliseconds, from a nanosecond to eleven days."""
WORKERS = ("prefill_num_workers", "prefill_tp_size", "decode_num_workers", "decode_tp_size")
CLOSE = 0.8
"""Likeness from which a strange name is taken for a mistyped one."""
SHAPE = re.compile(r"_\d+x\d+_c\d+.*")
"""Lengths and concurrency in the name of a row's source, and what follows; what stands before names its series."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(slots=True)
class Row:
    """The cells of one point by column, and everything found wrong with them so far."""

    file: str
    line: int
    cells: Mapping[str, str]
    """What the file states, by column; an empty cell states nothing."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """What holds where the file is silent."""
    written_as: Mapping[str, str] = field(default_factory=dict)
    """The file's own name of a column, where it has another one."""
    strange: Collection[str] = ()
    """Names in the file that are no column: a missing one may be among them, mistyped."""
    remedy: str = "a value in every row"
    """How to state a missing value; {column} and {option} stand for its names."""
    problems: list[InputProblem] = field(default_factory=list)

    def stated(self, column: str) -> str | None:
        """The file's own text of a column; None where it has none."""
        return self.cells.get(column, "").strip() or None

    def text(self, column: str) -> str | None:
        """Text of a column, or its default; None where there is neither."""
        return self.stated(column) or self.defaults.get(column, "").strip() or None

    def required_text(self, column: str) -> str:
        """Text of a column; where there is none, that is a problem."""
        text = self.name(column)
        if text is None:
            self.missing(column)
        return text or ""

    def name(self, column: str) -> str | None:
        """Text of a column that answers will show; None where there is none, or after a problem."""
        text = self.text(column) or ""
        what = unprintable(text) or f"is a name of {len(text):,} characters" * (len(text) > NAME_CHARACTERS)
        if what:
            self.problem(column, what, f"at most {NAME_CHARACTERS} printable characters")
        return text or None

    def number(self, column: str, least: float = LEAST_NUMBER) -> float | None:
        """A number from `least` on; None where there is no text, or after a problem."""
        text = self.text(column)
        value = decimal(text)
        if text is None or (value is not None and value >= least):
            return value
        unit = unit_of(column)
        self.problem(column, f"is {shown(text)}", f"a number from {least:g} to {MAX_NUMBER:,} {unit}".rstrip())
        return None

    def required_number(self, column: str, least: float) -> float:
        """A number from `least` on; not a number after a problem."""
        if self.text(column) is None:
            self.missing(column)
        value = self.number(column, least)
        return nan if value is None else value

    def whole(self, column: str) -> int | None:
        """A whole number of 1 or more, also where written as 8.0; None where there is no text, or after a problem."""
        text = self.text(column)
        value = decimal(text)
        if text is None:
            return None
        if value is not None and value.is_integer() and 1 <= value <= MAX_SIZE:
            return int(value)
        self.problem(column, f"is {shown(text)}", f"a whole number from 1 to {MAX_SIZE:,}")
        return None

    def size(self, column: str) -> int | None:
        """A parallel size, of which 0 splits nothing and so is 1, or a number of workers, of which 0 are none."""
        if decimal(self.text(column)) == 0:
            return 1 if column.endswith("_size") else None
        return self.whole(column)

    def missing(self, column: str, nor: str = "") -> None:
        """Reports that nothing says what a column is, `nor` what it could be derived from."""
        near = get_close_matches(column, self.strange, n=1, cutoff=CLOSE)
        message = "is not stated" + nor + (f", though there is {near[0]!r}" if near else "")
        self.problem(column, message, self.remedy.format(column=column, option=column_option(column)))

    def problem(self, column: str, message: str, allowed: str) -> None:
        """Reports something wrong, under the name that the file gives the column."""
        key = self.written_as.get(column, column)
        self.problems.append(InputProblem(self.file, key, message, allowed, self.line))


def told_once(problems: Sequence[InputProblem], n_rows: int) -> list[InputProblem]:
    """Problems of a file's rows, what is wrong in the same way with every row as one, at the first of them.

    >>> both = [InputProblem("x.csv", "model", "is not stated", "a value in every row", line) for line in (2, 3)]
    >>> print(*told_once(both, 2))
    x.csv:2: model: is not stated, in all 2 rows (a value in every row)
    """
    counts = Counter((problem.key, problem.message, problem.allowed) for problem in problems)
    shared = {kind for kind, n in counts.items() if n == n_rows > 1}
    found: list[InputProblem] = []
    for problem in problems:
        kind = (problem.key, problem.message, problem.allowed)
        if kind not in shared:
            found.append(problem)
        elif counts.pop(kind, None):
            found.append(replace(problem, message=f"{problem.message}, in all {n_rows:,} rows"))
    return found


def column_option(column: str) -> str:
    """The command-line option that states a column for a whole file.

    >>> column_option("framework_version"), column_option("n_accelerators")
    ('--framework-version', '--accelerators')
    """
    return "--" + column.removeprefix("n_").removesuffix("_req_per_s").replace("_", "-")


def decimal(text: str | None) -> float | None:
    """The number that a cell holds; None where it holds none, or one beyond any measurement.

    >>> decimal("8.0"), decimal("1e3"), decimal("inf"), decimal("1_000"), decimal(None)
    (8.0, 1000.0, None, None, None)
    """
    if text is None or not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if abs(value) <= MAX_NUMBER else None


def row_point(row: Row) -> ServingPoint | None:
    """The point in a row.

    Args:
        row: cells by the names of COLUMNS, TTFT and TPOT in milliseconds.

    Returns:
        The point in SI units, or None when `row.problems` says what is wrong.

    >>> row = Row("points.csv", 2, {"model": "m", "hardware": "h", "framework": "vllm", "input_tokens": "1024",
    ...     "output_tokens": "128", "concurrency": "8.0", "tp_size": "4", "ttft_ms": "250"})
    >>> found = row_point(row)
    >>> found.n_accelerators, found.ttft_s, found.tpot_s, found.mode
    (4, 0.25, None, 'agg')
    """
    cells: dict[str, Any] = {**_deployment(row), **_load(row), **_latencies(row), **_harness(row), **_drafts(row)}
    return None if row.problems else ServingPoint(file=row.file, line=row.line, **cells)


def _deployment(row: Row) -> dict[str, Any]:
    required = {column: row.required_text(column) for column in ("model", "hardware", "framework")}
    optional = ("framework_version", "precision", "kv_precision", "measured_date")
    known: dict[str, Any] = {column: row.name(column) for column in optional}
    mode = _mode(row)
    sizes = {column: row.size(column) for column in SIZES}
    known["max_num_seqs"] = row.whole("max_num_seqs")
    return {**required, **known, **sizes, "mode": mode, "n_accelerators": _n_accelerators(row, mode, sizes)}


def _mode(row: Row) -> Mode:
    text = row.text("mode")
    if text is not None and text not in MODES:
        row.problem("mode", f"is {shown(text)}", "allowed: agg, disagg")
    return "disagg" if text == "disagg" else "agg"


def _n_accelerators(row: Row, mode: Mode, sizes: Mapping[str, int | None]) -> int | None:
    """As stated, else as the default says, else what the layout multiplies to."""
    if row.stated("gpus") and not row.stated("n_accelerators"):
        return row.whole("gpus")
    stated, gpus = row.whole("n_accelerators"), row.whole("gpus")
    if stated and gpus and stated != gpus:
        row.problem("n_accelerators", f"is {stated}, but gpus is {gpus}", "the same number, or one of the two")
    if row.text("n_accelerators"):
        return stated
    if row.text("tp_size") is None and not (mode == "disagg" and all(map(row.text, WORKERS))):
        row.missing("n_accelerators", ", nor is gpus or tp_size")
    found = (_workers_accelerators(sizes) if mode == "disagg" else None) or _product(sizes)
    if found > MAX_SIZE:
        row.problem("n_accelerators", f"would be {found:,} by the layout", f"at most {MAX_SIZE:,}")
    return found


def _workers_accelerators(sizes: Mapping[str, int | None]) -> int | None:
    n_prefill, prefill_tp, n_decode, decode_tp = (sizes[column] for column in WORKERS)
    if n_prefill and prefill_tp and n_decode and decode_tp:
        return n_prefill * _product(sizes, "prefill_") + n_decode * _product(sizes, "decode_")
    return None


def _product(sizes: Mapping[str, int | None], side: str = "") -> int:
    """Accelerators of an instance, or of a worker of one side."""
    return prod(sizes[side + column] or 1 for column in ("tp_size", "pp_size", "attention_dp_size"))


def _load(row: Row) -> dict[str, float | None]:
    return {
        "input_tokens": row.required_number("input_tokens", 1),
        "output_tokens": row.required_number("output_tokens", 1),
        "concurrency": row.number("concurrency", 1),
        "request_rate_req_per_s": row.number("request_rate_req_per_s"),
    }


def _latencies(row: Row) -> dict[str, float | None]:
    if not any(map(row.text, ("ttft_ms", "tpot_ms", THROUGHPUT))):
        row.problem("ttft_ms", f"is not stated, nor is tpot_ms or {THROUGHPUT}", "at least one of them")
    found_ms = {name: row.number(f"{name}_ms") for name in ("ttft", "tpot")}
    found_s = {f"{name}_s": None if value is None else value / 1e3 for name, value in found_ms.items()}
    return {**found_s, THROUGHPUT: row.number(THROUGHPUT)}


def _drafts(row: Row) -> dict[str, float | None]:
    n_text, acceptance = row.text("draft_tokens"), row.number("acceptance", 0.0)
    n = decimal(n_text)
    if n_text is not None and not (n is not None and n.is_integer() and 0 <= n <= MOST_DRAFT_TOKENS):
        row.problem("draft_tokens", f"is {shown(n_text)}", f"a whole number from 0 to {MOST_DRAFT_TOKENS}")
    if acceptance is not None and acceptance > 1:
        row.problem("acceptance", f"is {acceptance:g}", "a probability from 0 to 1")
    return {"draft_tokens": None if n is None else int(n), "acceptance": acceptance}


def _harness(row: Row) -> dict[str, str | float | None]:
    ratio = row.number("length_ratio")
    if ratio is not None and ratio > 1:
        row.problem("length_ratio", f"is {ratio:g}", "above 0, at most 1: shortest over nominal length")
    series = row.text("series") or SHAPE.sub("", row.text("source") or "") or None
    return {"source": row.name("harness"), "length_ratio": ratio, "series": series, "doubt": row.text("doubt")}
