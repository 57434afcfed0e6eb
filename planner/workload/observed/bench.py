"""Demand and latencies in result files of guidellm, AIPerf, `vllm bench serve` and SGLang's `bench_serving`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from planner.errors import InputError, Problem, shown
from planner.notes import note
from planner.units import MILLI
from planner.workload.observed.counted_lengths import CountedLengths, LengthCounter
from planner.workload.observed.demand import Observed

SIGNATURE = ("completed", "total_input_tokens", "total_output_tokens")
GUIDELLM = "benchmarks"
AIPERF = ("input_sequence_length", "output_sequence_length")
AIPERF_PERCENTILES = {f"p{p}": p / 100 for p in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
RATES = ("requests/sec", "requests/s")
"""Units of times and rates in AIPerf's figures."""
PERCENTILES = {
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
"""Those that guidellm writes, and the part of the requests up to each."""


def is_bench(value: Any) -> bool:
    """Whether a JSON object is a benchmark's result."""
    if not isinstance(value, Mapping):
        return False
    return isinstance(value.get(GUIDELLM), list) or {*SIGNATURE} <= value.keys() or _is_aiperf(value)


def _is_aiperf(value: Mapping[str, Any]) -> bool:
    return all(isinstance(value.get(key), Mapping) and "avg" in value[key] for key in AIPERF)


def observed_bench(name: str, runs: Sequence[tuple[int, Mapping[str, Any]]]) -> Observed:
    """The demand of the last run that completed requests.

    Args:
        name: the file, as problems call it.
        runs: results with the lines they begin in.

    Raises:
        InputError: a figure is none, or no run completed a request.
    """
    found = [one for line, run in runs for one in _of_result(name, line, run)]
    if not found:
        raise InputError(Problem(name, "completed", "is 0 in every run", "a benchmark that completed requests"))
    notes = (
        (note("last-run-taken", f"{len(found)} runs are in the file; the last one is taken"),) if len(found) > 1 else ()
    )
    return replace(found[-1], notes=(*found[-1].notes, *notes))


def _of_result(name: str, line: int, run: Mapping[str, Any]) -> Iterator[Observed]:
    if isinstance(run.get(GUIDELLM), list):
        for i, one in enumerate(run[GUIDELLM]):
            yield from _of_guidellm(_Place(name, line, f"{GUIDELLM}[{i}].metrics"), one)
        return
    place = _Place(name, line, "")
    if _is_aiperf(run):
        yield _of_aiperf(place, run)
        return
    n = place.number(run, "completed", least=0)
    if not n:
        return
    lengths = [_of_run(place, run, kind, n) for kind in ("input", "output")]
    rates = (run.get("request_rate"), run.get("request_throughput"))
    rate = next((r for r in rates if isinstance(r, int | float) and isfinite(r) and r > 0), None)
    yield Observed(
        what=f"{n:,.0f} requests of a benchmark",
        prompts=lengths[0],
        outputs=lengths[1],
        req_per_s=rate,
        latency_s=tuple(_latencies(place, run)),
        notes=() if lengths[0].edges[1:] else (MEANS,),
    )


MEANS = note(
    "tails-unknown",
    "only mean lengths are in the file (--save-detailed or --output-details writes each): tails are not seen",
)


class _Place:
    """Where in a file something stands."""

    def __init__(self, name: str, line: int, key: str) -> None:
        self.name, self.line, self.key = name, line, key

    def problem(self, key: str, message: str, allowed: str) -> InputError:
        return InputError(Problem(self.name, ".".join(filter(None, (self.key, key))), message, allowed, self.line))

    def number(self, table: Mapping[str, Any], key: str, least: float) -> float:
        """A number of a table. Raises InputError."""
        value = table.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < least:
            raise self.problem(key, f"is {shown(value)}", f"a number of {least:g} or more")
        return float(value)


def _of_run(place: _Place, run: Mapping[str, Any], kind: str, n: float) -> CountedLengths:
    """Every length where the benchmark wrote them, else the mean; a request that failed has none."""
    each = run.get(f"{kind}_lens")
    if each is None:
        mean = place.number(run, f"total_{kind}_tokens", least=n) / n
        return CountedLengths((mean,), (n,), mean)
    if not isinstance(each, list) or not all(type(item) is int and 0 <= item <= 10**9 for item in each):
        raise place.problem(f"{kind}_lens", "is no list of lengths", "whole numbers of tokens")
    counter = LengthCounter()
    kept = np.array([item for item in each if item > 0], dtype=np.int64)
    if not kept.size:
        raise place.problem(f"{kind}_lens", "has no length above 0", "whole numbers of tokens")
    counter.add(kept)
    return counter.found()


def _latencies(place: _Place, run: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for figure, kinds in (
        ("ttft", {"mean": "mean", "median": "p50", "p90": "p90", "p99": "p99"}),
        ("tpot", {"mean": "mean"}),
    ):
        for kind, ours in kinds.items():
            if run.get(key := f"{kind}_{figure}_ms"):
                yield f"{figure}_{ours}_s", place.number(run, key, least=0) * MILLI


def _of_aiperf(place: _Place, run: Mapping[str, Any]) -> Observed:
    """The demand of a run of AIPerf, whose figures state their units."""

    def within(name: str) -> tuple[_Place, Mapping[str, Any]] | None:
        found = run.get(name)
        return (_Place(place.name, place.line, name), found) if isinstance(found, Mapping) and "avg" in found else None

    count = within("request_count")
    n = count[0].number(count[1], "avg", least=1) if count else 1.0
    prompts, outputs = (_aiperf_lengths(_Place(place.name, place.line, key), run[key], n) for key in AIPERF)
    throughput, latency_s = within("request_throughput"), []
    if throughput and (unit := throughput[1].get("unit")) not in RATES:
        raise throughput[0].problem("unit", f"is {shown(unit)}", " or ".join(RATES))
    for figure, found in (("ttft", within("time_to_first_token")), ("tpot", within("inter_token_latency"))):
        if found is None:
            continue
        where, table = found
        if (unit := table.get("unit")) not in SECONDS:
            raise where.problem("unit", f"is {shown(unit)}", " or ".join(SECONDS))
        shares = {"avg": "mean", **({"p50": "p50", "p90": "p90", "p99": "p99"} if figure == "ttft" else {})}
        latency_s += [
            (f"{figure}_{ours}_s", where.number(table, key, least=0) * SECONDS[unit])
            for key, ours in shares.items()
            if key in table
        ]
    return Observed(
        what=f"{f'{n:,.0f} ' if count else ''}requests of an AIPerf benchmark",
        prompts=prompts,
        outputs=outputs,
        req_per_s=throughput and (throughput[0].number(throughput[1], "avg", least=0) or None),
        latency_s=tuple(latency_s),
        notes=()
        if prompts.edges[1:]
        else (note("tails-unknown", "only mean lengths are in the file: tails are not seen"),),
    )


def _aiperf_lengths(place: _Place, table: Mapping[str, Any], n: float) -> CountedLengths:
    """Lengths between the least, the percentiles and the greatest, or the mean where these are not all there."""
    if (unit := table.get("unit", "tokens")) != "tokens":
        raise place.problem("unit", f"is {shown(unit)}", "tokens")
    mean = place.number(table, "avg", least=1)
    if not {"min", "max", *AIPERF_PERCENTILES} <= table.keys():
        return CountedLengths((mean,), (n,), mean)
    return _between(place, table, table, AIPERF_PERCENTILES, n, mean)


def _of_guidellm(place: _Place, run: Any) -> Iterator[Observed]:
    metrics = run.get("metrics") if isinstance(run, Mapping) else None
    if not isinstance(metrics, Mapping):
        raise place.problem("", "is missing", "a report of guidellm benchmark --output-path report.json")
    prompts, outputs = (_summary(place, metrics, f"{kind}_token_count") for kind in ("prompt", "output"))
    if prompts is None or outputs is None:
        return
    rate = _successful(metrics, "requests_per_second")
    ttft, tpot = (_successful(metrics, name) for name in ("time_to_first_token_ms", "inter_token_latency_ms"))
    seconds = [
        (f"{figure}_{ours}_s", place.number(found, "mean", least=0) * MILLI)
        for figure, found, ours in (("ttft", ttft, "mean"), ("tpot", tpot, "mean"))
        if found
    ]
    percentiles = (ttft or {}).get("percentiles") or {}
    seconds += [
        (f"ttft_{p}_s", place.number(percentiles, p, 0) * MILLI) for p in ("p50", "p90", "p99") if p in percentiles
    ]
    yield Observed(
        what=f"{sum(prompts.weights):,.0f} requests of a guidellm benchmark",
        prompts=prompts,
        outputs=outputs,
        req_per_s=(rate or {}).get("mean") or None,
        latency_s=tuple(seconds),
    )


def _successful(metrics: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    found = metrics.get(name)
    found = found.get("successful") if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) and found.get("count") else None


def _summary(place: _Place, metrics: Mapping[str, Any], name: str) -> CountedLengths | None:
    """Lengths between the least, the percentiles and the greatest; None where no request came through."""
    found = _successful(metrics, name)
    if found is None:
        return None
    inner = _Place(place.name, place.line, f"{place.key}.{name}.successful")
    n, mean = inner.number(found, "count", least=1), inner.number(found, "mean", least=0)
    table = found.get("percentiles")
    if not isinstance(table, Mapping) and found.get("min") != found.get("max"):
        raise inner.problem("percentiles", f"is {shown(table)}", "a table of p001 to p999")
    return _between(inner, found, table or {}, PERCENTILES, n, mean)


def _between(
    place: _Place, ends: Mapping[str, Any], table: Mapping[str, Any], parts: Mapping[str, float], n: float, mean: float
) -> CountedLengths:
    """Lengths of n requests, of which a table has percentiles: evenly between each and the next."""
    low, high = (max(place.number(ends, key, least=0), 1.0) for key in ("min", "max"))
    if high - low < 1:
        return CountedLengths((mean,), (n,), mean)
    points = [(low, 0.0)]
    for key, part in parts.items():
        if (value := place.number(table, key, least=0)) > points[-1][0]:
            points.append((value, part))
        elif len(points) > 1:
            points[-1] = (points[-1][0], part)
    if high > points[-1][0]:
        points.append((high, 1.0))
    points[-1] = (points[-1][0], 1.0)
    shares = np.diff([part for _, part in points])
    return CountedLengths(tuple(value for value, _ in points), tuple((shares * n).tolist()), mean)


def json_runs(text: str) -> list[tuple[int, Any]] | None:
    """JSON values of a text with their lines: the whole, or one a line; None where it is neither."""
    try:
        return [(1, json.loads(text))]
    except (ValueError, RecursionError):
        pass
    try:
        return [(n, json.loads(line)) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    except (ValueError, RecursionError):
        return None
