"""Results of `vllm bench serve --save-result` and of SGLang's `bench_serving`: one JSON object of figures per run.

Keys are those of vllm/benchmarks/serve.py (vLLM 0.33) and sglang/bench_serving.py. Times are in milliseconds.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from planner.benchmarks.run import BenchmarkFormat, BenchmarkRun, ResultTable, Statistics, positive
from planner.benchmarks.sglang_server import MAX_SIZE, sglang_server, wrong_sizes
from planner.errors import shown
from planner.units import MILLI

SIGNATURE = ("completed", "total_input_tokens", "total_output_tokens")
FRAMEWORKS = {"vllm": "vllm", "sglang": "sglang", "trt": "trtllm", "tensorrt-llm": "trtllm", "lmdeploy": "lmdeploy"}
"""Serving software by how the benchmark's name of its client starts; a client such as `openai` says nothing."""
PERCENTILES = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
KEYS = {
    "concurrency": "max_concurrency",
    "request_rate_req_per_s": "request_rate",
    "input_tokens": "total_input_tokens",
    "output_tokens": "total_output_tokens",
}
MOST_TOKENS = 10**9
_STAMP = re.compile(r"(\d{4})(\d\d)(\d\d)-\d{6}", re.ASCII)


def _is_of(value: Mapping[str, Any]) -> bool:
    """True if a JSON object is such a result."""
    return {*SIGNATURE} <= value.keys()


def _runs(place: ResultTable) -> Iterator[BenchmarkRun]:
    """The run of a result."""
    table = place.table
    n = place.needed("completed")
    lengths = [_lengths(place, kind, n) for kind in ("input", "output")]
    ttft_s, tpot_s = (_latency(place, figure) for figure in ("ttft", "tpot"))
    for key, size in wrong_sizes(table.get("server_info")):
        place.problem(key, f"is {shown(size)}", f"a whole number from 1 to {MAX_SIZE:,}")
    if n is None or None in lengths:
        return
    yield BenchmarkRun(
        tool="a benchmark",
        line=place.line,
        n_completed=n,
        n_failed=place.number("failed") or 0.0,
        prompts=lengths[0] or Statistics(None),
        outputs=lengths[1] or Statistics(None),
        ttft_s=ttft_s,
        tpot_s=tpot_s,
        served_req_per_s=positive(place.number("request_throughput")),
        request_rate_req_per_s=_rate(place),
        concurrency=place.number("max_concurrency", 1.0),
        n_prompts=place.number("num_prompts"),
        ramp=place.text("ramp_up_strategy") or None,
        cells=_cells(place),
        keys=KEYS,
        top=table,
    )


def _rate(place: ResultTable) -> float | None:
    """The rate asked for; both tools write infinity, or its name, for none."""
    rate = place.table.get("request_rate")
    if rate == float("inf") or (isinstance(rate, str) and rate.lower() in ("inf", "infinity")):
        return None
    return place.number("request_rate", 1e-6)


def _lengths(place: ResultTable, kind: str, n: float | None) -> Statistics | None:
    """Every length where the benchmark wrote them, of those that were answered; and the mean."""
    total = place.needed(f"total_{kind}_tokens", n or 0.0)
    key = f"{kind}_lens"
    each = place.table.get(key)
    if each is None:
        each = []
    elif not isinstance(each, list) or not all(type(item) is int and 0 <= item <= MOST_TOKENS for item in each):
        place.problem(key, "is no list of lengths", "whole numbers of tokens")
        return None
    elif n and not any(each):
        place.problem(key, "has no length above 0", "whole numbers of tokens")
        return None
    if total is None or n is None:
        return None
    return Statistics(total / n if n else None, each=tuple(item for item in each if item > 0))


def _latency(place: ResultTable, figure: str) -> Statistics | None:
    """A latency, of which 0 was not measured."""
    measured = {key: value for key, value in place.table.items() if value != 0}
    keys = {f"{kind}_{figure}_ms": part for kind, part in PERCENTILES.items()}
    return ResultTable(place.file, place.line, measured, problems=place.problems).statistics(
        f"mean_{figure}_ms", {key: part for key, part in keys.items() if key in measured}, MILLI
    )


def _cells(place: ResultTable) -> dict[str, str]:
    client = place.text("backend") or place.text("endpoint_type")
    framework = next((name for start, name in FRAMEWORKS.items() if client.startswith(start)), "")
    return {
        "model": place.text("model_id"),
        "framework": framework,
        "measured_date": _STAMP.sub(r"\1-\2-\3", place.text("date")),
        **_drafts(place),
        **sglang_server(place.table.get("server_info")),
    }


def _drafts(place: ResultTable) -> dict[str, str]:
    """Drafted tokens as vLLM's server counted them: how many a step, and the one acceptance that yields its length.

    Equation:
        a + a^2 + ... + a^k = accepted tokens per step
    """
    steps, drafted, accepted = (
        place.number(f"spec_decode_{key}") for key in ("num_drafts", "draft_tokens", "accepted_tokens")
    )
    if not steps or not drafted or accepted is None or accepted > drafted:
        return {}
    k, mean = round(drafted / steps), accepted / steps
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(middle**i for i in range(1, k + 1)) < mean else (low, middle)
    return {"draft_tokens": str(k), "acceptance": repr(round(low, 9))} if k else {}


FORMAT = BenchmarkFormat("vllm bench serve --save-result or SGLang bench_serving", _is_of, _runs)
