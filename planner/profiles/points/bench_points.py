"""Runs of serving benchmarks as measured points."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from planner.benchmarks import BenchmarkRun, Statistics
from planner.errors import InputError, InputProblem, shown
from planner.profiles.points.point import CONFIGURATION, NO_DEFAULTS, PointDefaults, ServingPoint
from planner.profiles.points.row import Row, row_point, told_once
from planner.units import MILLI

REMEDY = "a key {column!r} in the file, as vllm bench serve --metadata {column}=VALUE writes, or the option {option}"
MOST_STRANGE = 50
"""Names of a file that are looked at for a mistyped one."""


def bench_points(
    name: str, runs: list[BenchmarkRun], defaults: PointDefaults = NO_DEFAULTS, problems: Sequence[InputProblem] = ()
) -> list[ServingPoint]:
    """Points of a benchmark's result file.

    Lengths are means over the completed requests; TTFT and TPOT are medians, or means where there is no median. What
    the benchmark cannot know (hardware, layout, precision, version) comes from keys of a point's own names in the
    file, from SGLang's server_info, or else from the defaults; these come before a tool's own name of the model.

    Args:
        name: the file, as problems name it.
        runs: its runs.
        defaults: what holds where the file is silent.
        problems: what was wrong with other runs of the file.

    Returns:
        One point per run, in their order.

    Raises:
        InputError: with every problem of the file.

    >>> run = BenchmarkRun("a tool", 1, 160, Statistics(1024.0), Statistics(128.0), Statistics(0.3, ((0.5, 0.25),)),
    ...     None, 4.0, None, 16.0, cells={"model": "m", "framework": "vllm", "hardware": "h200-sxm", "tp_size": "8"})
    >>> (found,) = bench_points("run.json", [run])
    >>> found.input_tokens, found.output_tokens, found.concurrency, found.ttft_s, found.n_accelerators
    (1024.0, 128.0, 16.0, 0.25, 8)
    """
    told = list(problems)
    found = []
    for run in runs:
        if run.n_completed == 0:
            told.append(InputProblem(name, "completed", "is 0", "a benchmark that completed requests", run.line))
            continue
        row = _row(name, run, defaults)
        made = row_point(row)
        told += row.problems
        found += [replace(made, lengths_are_means=True)] if made else []
    if told:
        told.sort(key=lambda problem: problem.line or 0)
        raise InputError(told_once(told, len(runs)))
    return found


def _row(name: str, run: BenchmarkRun, defaults: PointDefaults) -> Row:
    """A run under the column names of a table; `written_as` keeps what each is called in the file."""
    latencies = {"ttft_ms": run.ttft_s, "tpot_ms": run.tpot_s}
    figures = {
        "input_tokens": run.prompts.mean,
        "output_tokens": run.outputs.mean,
        "concurrency": run.concurrency,
        "request_rate_req_per_s": run.request_rate_req_per_s,
        **{column: _typical(found) for column, found in latencies.items()},
    }
    row = Row(
        file=name,
        line=run.line,
        cells={
            **_deployment(run, defaults),
            **{column: repr(value) for column, value in figures.items() if value is not None},
        },
        defaults=defaults.cells(),
        written_as={
            **run.keys,
            **{column: found.keys.get("median", column) for column, found in latencies.items() if found},
        },
        strange=[*islice((key for key in run.top if key not in CONFIGURATION), MOST_STRANGE)],
        remedy=REMEDY,
    )
    _check_load(row, run)
    return row


def _deployment(run: BenchmarkRun, defaults: PointDefaults) -> dict[str, str]:
    """Deployment as the file states it under a column's own name, and else as its tool wrote it.

    The name of the model that a tool wrote gives way to the defaults': a server may call its model anything.
    """
    own = {key: _text(run.top.get(key)) for key in (*CONFIGURATION, "gpus")}
    hidden = {"n_accelerators": own["gpus"], "model": defaults.model}
    known = {key: text for key, text in run.cells.items() if not hidden.get(key)}
    return known | {key: text for key, text in own.items() if text}


def _text(value: Any) -> str:
    """A JSON value as a cell; nothing for null."""
    if value is None or isinstance(value, str):
        return (value or "").strip()
    return json.dumps(value, ensure_ascii=False)


def _typical(found: Statistics | None) -> float | None:
    """A latency in milliseconds: the median, or the mean."""
    if found is None:
        return None
    value = found.mean if found.median is None else found.median
    return None if value is None else value / MILLI


def _check_load(row: Row, run: BenchmarkRun) -> None:
    """Check that the load that keeps the server busy is steady: so many requests at once, or so many a second."""
    rate, concurrency = row.text("request_rate_req_per_s"), row.number("concurrency", 1)
    if run.ramp:
        row.problem(
            "ramp_up_strategy", f"is {shown(run.ramp)}: a rising rate has no steady state", "one --request-rate"
        )
    elif rate is None and concurrency is None:
        message = "is not stated, nor is a request rate: a burst of all prompts has no steady state"
        row.problem("concurrency", message, "give a concurrency or a rate to the benchmark, or --concurrency here")
    elif rate is None and concurrency and run.n_prompts and concurrency > 1 and concurrency >= run.n_prompts:
        message = f"is {concurrency:g}, no less than the {run.n_prompts:g} prompts: a burst of all has no steady state"
        row.problem("concurrency", message, "give the benchmark several times more prompts")
