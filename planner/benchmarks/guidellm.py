"""Reports of `guidellm benchmark` (or `guidellm run`), in JSON or in CSV: several runs, each with its statistics.

Names are those of `benchmarks.json` and `benchmarks.csv` (guidellm 0.8). Its time per output token counts the first
token in; the inter token latency is that of the others.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from planner.benchmarks.run import BenchmarkFormat, BenchmarkRun, ResultTable, Statistics, positive
from planner.units import MILLI

RUNS = "benchmarks"
PARTS = {
    "p001": 0.001,
    "p01": 0.01,
    "p05": 0.05,
    "p10": 0.1,
    "p25": 0.25,
    "p50": 0.5,
    "p75": 0.75,
    "p90": 0.9,
    "p95": 0.95,
    "p99": 0.99,
    "p999": 0.999,
}
"""Percentiles as they are named, and the part of the requests up to each."""
CSV_PARTS = ("min", "p001", "p01", "p05", "p10", "p25", "p75", "p90", "p95", "p99", "max")
"""What the list of percentiles of the CSV holds, in its order; the median has a column of its own."""
COLUMNS = {
    "prompt_token_count": ("Token Metrics", "Successful Input Tokens"),
    "output_token_count": ("Token Metrics", "Successful Output Tokens"),
    "time_to_first_token_ms": ("Time to First Token", "Successful ms"),
    "inter_token_latency_ms": ("Inter Token Latency", "Successful ms"),
    "requests_per_second": ("Server Throughput", "Successful Requests/Sec"),
}
"""Columns of the CSV by metric: the first two rows of its header; the third names the statistic."""


def _is_of(value: Mapping[str, Any]) -> bool:
    """True if a JSON object is such a report."""
    return isinstance(value.get(RUNS), list)


def _is_table(rows: Sequence[Sequence[str]]) -> bool:
    """True if rows of a CSV are such a report."""
    return len(rows) > 2 and rows[0][:1] == ["Run Info"] and "Successful Input Tokens" in rows[1]


def _from_table(rows: Sequence[Sequence[str]]) -> dict[str, Any]:
    """The report that the JSON has, of the rows of the CSV: three of a header, then a run each."""
    header = list(zip_longest(*rows[:3], fillvalue=""))
    return {RUNS: [_run_of_row(dict(zip(header, row, strict=False))) for row in rows[3:] if any(row)]}


def _run_of_row(cells: Mapping[tuple[str, ...], str]) -> dict[str, Any]:
    metrics: dict[str, Any] = {}
    count = _value(cells.get(("Request Counts", "Successful", ""), ""))
    for metric, column in COLUMNS.items():
        mean, median, listed = (_value(cells.get((*column, name), "")) for name in ("Mean", "Median", "Percentiles"))
        table = {"mean": mean, "count": count}
        if isinstance(listed, list) and len(listed) == len(CSV_PARTS):
            parts = dict(zip(CSV_PARTS, listed, strict=True))
            table |= {"min": parts.pop("min"), "max": parts.pop("max"), "percentiles": {**parts, "p50": median}}
        if mean is not None:
            metrics[metric] = {"successful": table}
    metrics["request_totals"] = {"errored": _value(cells.get(("Request Counts", "Errored", ""), ""))}
    strategy = cells.get(("Benchmark", "Strategy", ""), "")
    kind, _, value = strategy.partition("@")
    asked = {"type_": kind, "streams" if kind == "concurrent" else "rate": _value(value)}
    backend = _value(cells.get(("Run Info", "Backend", ""), ""))
    return {"metrics": metrics, "config": {"strategy": asked, "backend": backend}}


def _value(text: str) -> Any:
    """A cell that holds JSON; its text where it holds none, nothing where it is empty."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return text


def _runs(place: ResultTable) -> Iterator[BenchmarkRun]:
    """The runs of a report in which requests were answered."""
    for i, run in enumerate(place.table[RUNS]):
        key = f"{RUNS}[{i}]"
        if not isinstance(run, Mapping) or not isinstance(run.get("metrics"), Mapping):
            place.problem(f"{key}.metrics", "is missing", "a report of guidellm benchmark --output-path report.json")
            continue
        inner = ResultTable(place.file, place.line, run, place.named(key), place.problems)
        metrics = ResultTable(place.file, place.line, run["metrics"], f"{inner.key}.metrics", place.problems)
        lengths = [_statistics(metrics, f"{kind}_token_count") for kind in ("prompt", "output")]
        if lengths[0] is not None and lengths[1] is not None:
            yield _run(inner, metrics, lengths[0], lengths[1], place.table)


def _run(
    place: ResultTable, metrics: ResultTable, prompts: Statistics, outputs: Statistics, top: Mapping[str, Any]
) -> BenchmarkRun:
    rate = metrics.within("requests_per_second", "successful")
    counted = metrics.within("prompt_token_count", "successful")
    n = counted.number("count") if counted else None
    totals = metrics.within("request_totals")
    return BenchmarkRun(
        tool="guidellm",
        line=place.line,
        n_completed=n,
        n_failed=(totals and totals.number("errored")) or 0.0,
        prompts=prompts,
        outputs=outputs,
        ttft_s=_statistics(metrics, "time_to_first_token_ms", MILLI),
        tpot_s=_statistics(metrics, "inter_token_latency_ms", MILLI),
        served_req_per_s=positive(rate.number("mean")) if rate else None,
        n_prompts=n,
        cells=_cells(place),
        top=top,
        keys={
            "input_tokens": metrics.named("prompt_token_count.successful.mean"),
            "output_tokens": metrics.named("output_token_count.successful.mean"),
        },
        **_load(place),
    )


def _statistics(metrics: ResultTable, name: str, scale: float = 1.0) -> Statistics | None:
    """Statistics of the requests that were answered; None where there are none."""
    inner = metrics.within(name, "successful")
    if inner is None or not inner.table.get("count"):
        return None
    table = inner.within("percentiles")
    if table is None and inner.table.get("min") != inner.table.get("max"):
        inner.problem("percentiles", "is missing", "a table of p001 to p999")
        return None
    parts = table.table if table else {}
    ends = {key: inner.table.get(key) for key in ("min", "max")}
    flat = ResultTable(inner.file, inner.line, {**inner.table, **parts, **ends}, inner.key, inner.problems)
    return flat.statistics("mean", {"min": 0.0, **PARTS, "max": 1.0}, scale)


def _load(place: ResultTable) -> dict[str, Any]:
    """Load that was asked for: streams always in flight, or a rate."""
    strategy = place.within("config", "strategy") or place.within("args", "strategy")
    kind = strategy.text("type_") if strategy else ""
    streams = 1.0 if kind == "synchronous" else strategy.number("streams", 1.0) if strategy else None
    rising = strategy.number("rampup_duration") if strategy and kind != "concurrent" else None
    return {
        "concurrency": streams,
        "request_rate_req_per_s": strategy.number("rate", 1e-6) if strategy else None,
        "ramp": f"{kind} over {rising:g} s" if rising else None,
    }


def _cells(place: ResultTable) -> dict[str, str]:
    backend = place.within("config", "backend") or place.within("args", "backend")
    model = backend.text("model") if backend else ""
    return {"model": model, "framework": "vllm" if backend and backend.text("kind").startswith("vllm") else ""}


FORMAT = BenchmarkFormat("guidellm (JSON or CSV)", _is_of, _runs, _is_table, _from_table)
