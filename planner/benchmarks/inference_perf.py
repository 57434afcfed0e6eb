"""Reports of inference-perf (Kubernetes SIG Serving): `summary_lifecycle_metrics.json` and those of single stages.

Times are in seconds. Keys are those of its documented report: load_summary, successes with latency, throughput,
prompt_len and output_len, and failures.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from planner.benchmarks.run import BenchmarkFormat, BenchmarkRun, ResultTable, Statistics, positive

QUANTILES = {
    "min": 0.0,
    "p0.1": 0.001,
    "p1": 0.01,
    "p5": 0.05,
    "p10": 0.1,
    "p25": 0.25,
    "median": 0.5,
    "p75": 0.75,
    "p90": 0.9,
    "p95": 0.95,
    "p99": 0.99,
    "p99.9": 0.999,
    "max": 1.0,
}
TPOT = ("time_per_output_token", "inter_token_latency")
"""Names of the time per token after the first, the better one first."""


def _is_of(value: Mapping[str, Any]) -> bool:
    """True if a JSON object is such a report."""
    return isinstance(value.get("successes"), Mapping) and "load_summary" in value


def _runs(place: ResultTable) -> Iterator[BenchmarkRun]:
    """The run of a report; none where no request was answered."""
    found, load, failures = (place.within(key) for key in ("successes", "load_summary", "failures"))
    n = found.number("count") if found else None
    if found is None or not n:
        return
    lengths = [_statistics(found.within(key)) for key in ("prompt_len", "output_len")]
    for key, one in zip(("prompt_len", "output_len"), lengths, strict=True):
        if one is None:
            found.problem(key, "is missing", "a report with lengths of prompts and answers")
    if lengths[0] is None or lengths[1] is None:
        return
    rate = found.within("throughput")
    yield BenchmarkRun(
        tool="inference-perf",
        line=place.line,
        n_completed=n,
        n_failed=(failures and failures.number("count")) or 0.0,
        prompts=lengths[0],
        outputs=lengths[1],
        ttft_s=_statistics(found.within("latency", "time_to_first_token")),
        tpot_s=next((s for name in TPOT if (s := _statistics(found.within("latency", name)))), None),
        served_req_per_s=positive(rate.number("requests_per_sec")) if rate else None,
        request_rate_req_per_s=positive(load.number("requested_rate")) if load else None,
        concurrency=positive(load.number("concurrency")) if load else None,
        n_prompts=load.number("count") if load else None,
        keys={
            "input_tokens": "successes.prompt_len.mean",
            "output_tokens": "successes.output_len.mean",
            "request_rate_req_per_s": "load_summary.requested_rate",
        },
        top=place.table,
    )


def _statistics(place: ResultTable | None) -> Statistics | None:
    return place.statistics("mean", QUANTILES) if place else None


FORMAT = BenchmarkFormat("inference-perf", _is_of, _runs)
