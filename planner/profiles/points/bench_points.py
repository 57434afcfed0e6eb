"""Result files of serving benchmarks: `vllm bench serve --save-result` and SGLang's `bench_serving`."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

from planner.errors import InputError, Problem, shown
from planner.profiles.points.point import CONFIGURATION, NO_DEFAULTS, PointDefaults, ServingPoint
from planner.profiles.points.row import Row, decimal, point, told_once
from planner.profiles.points.sglang_server import MAX_SIZE, sglang_server, wrong_sizes
from planner.profiles.points.table import MOST_POINTS
from planner.schema import JsonFile

Result = Mapping[str, Any]

FRAMEWORKS = {"vllm": "vllm", "sglang": "sglang", "trt": "trtllm", "tensorrt-llm": "trtllm", "lmdeploy": "lmdeploy"}
"""Serving software by how the benchmark's name of its client starts; a client such as `openai` says nothing."""
SIGNATURE = ("completed", "total_input_tokens", "total_output_tokens")
MOST_PROBLEMS = 1_000
"""Problems after which a file is read no further: names are compared for each."""
MOST_STRANGE = 50
"""Names of a file that are looked at for a mistyped one."""
OBJECTS = "one JSON object, or one a line"
ALLOWED = "results of vllm bench serve --save-result or of SGLang bench_serving"
REMEDY = "a key {column!r} in the file, as vllm bench serve --metadata {column}=VALUE writes, or the option {option}"
_VALUE = re.compile(r"^(?=[^\s}\]])", re.MULTILINE)
"""Where a JSON value may start: a line that is not indented and closes nothing."""
_STAMP = re.compile(r"(\d{4})(\d\d)(\d\d)-\d{6}", re.ASCII)


def bench_points(name: str, text: str, defaults: PointDefaults = NO_DEFAULTS) -> list[ServingPoint]:
    """Points of a benchmark's result file.

    Lengths are means over the completed requests; TTFT and TPOT are medians, or means where there is no median. What
    the benchmark cannot know (hardware, layout, precision, version) comes from keys of a point's own names in the
    file, from SGLang's server_info, or else from the defaults.

    Args:
        name: the file, as problems name it.
        text: its content, JSON objects one after the other.
        defaults: what holds where the file is silent.

    Returns:
        One point per object, in their order.

    Raises:
        InputError: with every problem of the file.

    >>> run = {"backend": "vllm", "model_id": "m", "hardware": "h200-sxm", "tp_size": "8", "request_rate": "inf",
    ...     "max_concurrency": 16, "num_prompts": 160, "completed": 160, "total_input_tokens": 163840,
    ...     "total_output_tokens": 20480, "median_ttft_ms": 250.0, "median_tpot_ms": 12.5}
    >>> (found,) = bench_points("run.json", json.dumps(run))
    >>> found.input_tokens, found.output_tokens, found.concurrency, found.ttft_s, found.n_accelerators
    (1024.0, 128.0, 16.0, 0.25, 8)
    """
    problems: list[Problem] = []
    found, n_results = [], 0
    for line, result in _objects(name, text, problems):
        n_results += 1
        row = _row(name, line, result, defaults)
        made = point(row)
        problems += row.problems
        found += [replace(made, lengths_are_means=True)] if made else []
    if problems:
        raise InputError(told_once(problems, n_results))
    return found


def _objects(name: str, text: str, problems: list[Problem]) -> Iterator[tuple[int, Result]]:
    """Every benchmark result with the line it starts in; whatever else there is becomes a problem."""
    for index, (line, chunk) in enumerate(_chunks(text)):
        if len(problems) > MOST_PROBLEMS or index >= MOST_POINTS:
            allowed = f"at most {MOST_POINTS:,}, and {MOST_PROBLEMS:,} problems"
            problems.append(Problem(name, "", "the rest is not read", allowed, line))
            return
        try:
            value = JsonFile(name, chunk, OBJECTS, is_strict=False, line=line).data
        except InputError as error:
            problems += error.problems
            continue
        if isinstance(value, dict) and {*SIGNATURE} <= value.keys():
            yield line, value
        else:
            problems.append(_foreign(name, line, value))
            if index == 0:  # Then it is some other file, and no line of it a result.
                return


def _chunks(text: str) -> list[tuple[int, str]]:
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


def _foreign(name: str, line: int, value: Any) -> Problem:
    if not isinstance(value, dict):
        return Problem(name, "", f"is {shown(value)}", f"{OBJECTS}: {ALLOWED}", line)
    absent = [key for key in SIGNATURE if key not in value]
    return Problem(name, absent[0], "is missing: this is no result of a serving benchmark", ALLOWED, line)


def _row(name: str, line: int, result: Result, defaults: PointDefaults) -> Row:
    """A result under the column names of a table; `written_as` keeps what each is called in the file."""
    latencies = {f"{figure}_ms": _latency(result, figure) for figure in ("ttft", "tpot")}
    row = Row(
        file=name,
        line=line,
        cells={**_configuration(result), **{column: text for column, (_, text) in latencies.items()}},
        defaults=defaults.cells(),
        written_as={column: key for column, (key, _) in latencies.items()} | {"concurrency": "max_concurrency"},
        strange=[*islice((key for key in result if key not in CONFIGURATION), MOST_STRANGE)],
        remedy=REMEDY,
    )
    row.cells = {**row.cells, **_mean_tokens(row, result), **_load(row, result)}
    for key, size in wrong_sizes(result.get("server_info")):
        row.problem(key, f"is {shown(size)}", f"a whole number from 1 to {MAX_SIZE:,}")
    return row


def _latency(result: Result, figure: str) -> tuple[str, str]:
    """Key and text of a median, or of the mean; both tools write 0 for what they could not measure."""
    keys = [f"{kind}_{figure}_ms" for kind in ("median", "mean")]
    for key in keys:
        text = _text(result.get(key))
        if text and decimal(text) != 0:
            return key, text
    return keys[0], ""


def _configuration(result: Result) -> dict[str, str]:
    known = {
        "model": _text(result.get("model_id")),
        "framework": _framework(result),
        "measured_date": _STAMP.sub(r"\1-\2-\3", _text(result.get("date"))),
        **sglang_server(result.get("server_info")),
    }
    own = {key: _text(result.get(key)) for key in (*CONFIGURATION, "gpus")}
    if own["gpus"]:
        known.pop("n_accelerators", None)
    return known | {key: text for key, text in own.items() if text}


def _framework(result: Result) -> str:
    client = _text(result.get("backend")) or _text(result.get("endpoint_type"))
    return next((framework for start, framework in FRAMEWORKS.items() if client.startswith(start)), "")


def _text(value: Any) -> str:
    """A JSON value as a cell; nothing for null."""
    if value is None or isinstance(value, str):
        return (value or "").strip()
    return json.dumps(value, ensure_ascii=False)


def _mean_tokens(row: Row, result: Result) -> dict[str, str]:
    """Mean prompt and answer lengths of the completed requests."""
    totals = {column: _total(row, result, f"total_{column}") for column in ("input_tokens", "output_tokens")}
    completed = _total(row, result, "completed")
    if completed is None:
        return dict.fromkeys(totals, "1")
    return {column: "1" if total is None else repr(total / completed) for column, total in totals.items()}


def _total(row: Row, result: Result, key: str) -> float | None:
    """A count of the result, 1 at least; None after a problem."""
    text = _text(result[key])
    value = float(text) if re.fullmatch(r"\d{1,18}(\.0*)?", text, re.ASCII) else 0.0
    if value >= 1:
        return value
    row.problem(key, f"is {shown(result[key])}", "a whole number of 1 or more")
    return None


def _load(row: Row, result: Result) -> dict[str, str]:
    """What keeps the server busy: so many requests at once, or so many a second."""
    rate, concurrency = _text(result.get("request_rate")), _text(result.get("max_concurrency"))
    if rate.lower() in ("inf", "infinity"):
        rate = ""
    if ramp := _text(result.get("ramp_up_strategy")):
        row.problem("ramp_up_strategy", f"is {shown(ramp)}: a rising rate has no steady state", "one --request-rate")
    elif not rate and not concurrency:
        message = "is not stated, nor is request_rate: a burst of all prompts has no steady state"
        row.problem("concurrency", message, "give --max-concurrency or --request-rate to the benchmark")
    elif not rate and _is_burst(result, concurrency):
        message = f"is {concurrency}, no less than num_prompts: a burst of all prompts has no steady state"
        row.problem("concurrency", message, "give the benchmark several times more --num-prompts")
    return {"request_rate_req_per_s": rate, "concurrency": concurrency}


def _is_burst(result: Result, concurrency: str) -> bool:
    """Whether every prompt starts at once; one alone is no burst."""
    n_prompts, at_once = decimal(_text(result.get("num_prompts"))), decimal(concurrency)
    return n_prompts is not None and at_once is not None and at_once > 1 and at_once >= n_prompts
