"""Guess at what a file is that no reader takes, so that its owner knows what to give instead."""

import json
from collections.abc import Mapping
from typing import Any

OBJECT_KEYS = (
    ({"experiments"}, "Perf Analyzer's raw records: give GenAI-Perf's profile_export_genai_perf.json beside them"),
    ({"metadata", "metrics"}, "AIPerf's records by request: give profile_export_aiperf.json beside them"),
    ({"elapsed_time", "requests_per_second"}, "a result of vllm bench throughput, which has no latencies"),
    ({"architectures"}, "a model's config.json: planner profiles import reads it"),
    ({"model_type"}, "a model's config.json: planner profiles import reads it"),
    ({"schema"}, "a file of the planner's own"),
    ({"performance", "request_info"}, "a report of trtllm-bench"),
    ({"data", "status"}, "the answer to a query of Prometheus: planner scenario new --from reads it"),
    ({"timestamp", "input_length", "output_length"}, "a trace: planner scenario new --from reads it"),
)
"""Keys of the first object of a file, and what it is."""
STARTS = (
    ("<", "a web page"),
    ("PAR1", "a Parquet file: write it as CSV"),
    ("PK\x03\x04", "an archive: unpack it"),
    ("\x1f\x8b", "compressed: unpack it"),
    ("# HELP", "metrics of Prometheus: planner scenario new --from reads them"),
    ("# TYPE", "metrics of Prometheus: planner scenario new --from reads them"),
    ("benchmarks:", "YAML: give the JSON that the tool writes as well"),
    ("metadata:", "YAML: give the JSON that the tool writes as well"),
)


def looks_like(text: str) -> str:
    """Guess at what a file is by its beginning; empty where that is unknown.

    >>> looks_like('{"model_type": "llama"}')
    "looks like a model's config.json: planner profiles import reads it"
    >>> looks_like("a,b")
    ''
    """
    head = text.lstrip("\ufeff \t\r\n")
    found = next((what for start, what in STARTS if head.startswith(start)), None) or _json_kind(head)
    return f"looks like {found}" if found else ""


def _json_kind(head: str) -> str | None:
    if not head.startswith(("{", "[")):
        return None
    try:
        value, end = json.JSONDecoder().raw_decode(head)
    except (ValueError, RecursionError):
        return None
    first: Any = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, Mapping):
        return None
    kind = next((what for keys, what in OBJECT_KEYS if keys <= first.keys()), None)
    if kind is None or not kind.startswith("a trace"):
        return kind
    if isinstance(value, list):
        return "a trace in a JSON list: one of requests has an object a line, and no brackets"
    return "a trace whose objects take several lines: it has one object a line" if "\n" in head[:end] else kind
