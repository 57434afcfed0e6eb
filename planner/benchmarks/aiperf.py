"""Results of AIPerf and of GenAI-Perf, in JSON or in CSV: figures that state their unit, each with its percentiles.

Names are those of `profile_export_aiperf.json` and `.csv` (AIPerf 0.13) and `profile_export_genai_perf.json` and
`.csv` (GenAI-Perf 0.0.16), and of the older ones, whose `input_config` is otherwise.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.benchmarks.run import SECONDS, BenchmarkFormat, BenchmarkRun, ResultTable, Statistics, first_of, positive
from planner.errors import shown

LENGTHS = ("input_sequence_length", "output_sequence_length")
QUANTILES = {"min": 0.0, **{f"p{p}": p / 100 for p in (1, 5, 10, 25, 50, 75, 90, 95, 99)}, "max": 1.0}
RATES = dict.fromkeys(("requests/sec", "requests/s", "per sec", "requests per second"), 1.0)
"""Units of rates."""
TOKENS = {"tokens": 1.0}
HEADER = re.compile(r"(?P<name>[^(]*?)\s*(?:\((?P<unit>[^()]*)\))?")
"""Name of a figure in a CSV, with its unit."""
NOT_STATED = ("", "N/A")
_NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?", re.ASCII)


def _is_of(value: Mapping[str, Any]) -> bool:
    """True if a JSON object is such a result: it has lengths of prompts and answers with their mean."""
    return all(isinstance(value.get(key), Mapping) and "avg" in value[key] for key in LENGTHS)


def _is_table(rows: Sequence[Sequence[str]]) -> bool:
    """True if rows of a CSV are such a result."""
    return bool(rows) and [cell.strip() for cell in rows[0][:2]] in (["Metric", "avg"], ["Metric", "Value"])


def _from_table(rows: Sequence[Sequence[str]]) -> dict[str, Any]:
    """The object that the JSON of the same run has, of a CSV's rows: a header, then figures, once or twice.

    >>> _from_table([["Metric", "avg", "p99"], ["Inter Token Latency (ms)", "1,008.50", "N/A"]])
    {'inter_token_latency': {'unit': 'ms', 'avg': 1008.5}}
    """
    found: dict[str, Any] = {}
    header: Sequence[str] = ()
    for row in rows:
        cells = [cell.strip() for cell in row]
        if cells[:1] == ["Metric"]:
            header = ["avg" if cell == "Value" else cell for cell in cells]
        elif "Metric" in cells or not header:
            header = ()  # what follows is of the accelerators
        elif len(cells) > 1 and (name := HEADER.fullmatch(cells[0])):
            table = {"unit": name["unit"]} if name["unit"] else {}
            stated = {key: cell for key, cell in zip(header[1:], cells[1:], strict=False) if cell not in NOT_STATED}
            key = name["name"].strip().lower().replace(" ", "_")
            found[key] = table | {key: _number(cell) for key, cell in stated.items()}
    return found


def _number(cell: str) -> float | str:
    return float(cell.replace(",", "")) if _NUMBER.fullmatch(cell) else cell


def _runs(place: ResultTable) -> Iterator[BenchmarkRun]:
    """The run of a result."""
    prompts, outputs = (_figure(place, name, TOKENS, least=1.0) for name in LENGTHS)
    n, n_failed = (_count(place, name) for name in ("request_count", "error_request_count"))
    load = _load(place)
    if prompts is None or outputs is None:
        return
    yield BenchmarkRun(
        tool="AIPerf" if "aiperf_version" in place.table else "AIPerf or GenAI-Perf",
        line=place.line,
        n_completed=n,
        n_failed=n_failed or 0.0,
        prompts=prompts,
        outputs=outputs,
        ttft_s=_figure(place, "time_to_first_token", SECONDS),
        tpot_s=_figure(place, "inter_token_latency", SECONDS),
        served_req_per_s=positive(getattr(_figure(place, "request_throughput", RATES), "mean", None)),
        request_rate_req_per_s=load["rate"],
        concurrency=load["concurrency"],
        n_prompts=n,
        cells={"model": _model(place), "measured_date": place.text("start_time")[:10]},
        keys={"input_tokens": f"{LENGTHS[0]}.avg", "output_tokens": f"{LENGTHS[1]}.avg"},
        top=place.table,
    )


def _count(place: ResultTable, name: str) -> float | None:
    inner = place.within(name)
    return inner.number("avg") if inner else None


def _figure(place: ResultTable, name: str, units: Mapping[str, float], least: float = 0.0) -> Statistics | None:
    """A figure in its plain unit; None where it is absent or its unit is none of these."""
    inner = place.within(name)
    if inner is None:
        return None
    unit = inner.table.get("unit", "tokens" if units is TOKENS else None)
    if not isinstance(unit, str) or unit not in units:
        inner.problem("unit", "is missing" if unit is None else f"is {shown(unit)}", " or ".join(units))
        return None
    return inner.statistics("avg", QUANTILES, units[unit], least)


def _phases(place: ResultTable) -> ResultTable | None:
    """The phase that is measured, of those that newer versions list."""
    config = place.within("input_config")
    phases = config.table.get("phases") if config else None
    listed = phases if isinstance(phases, list) else []
    measured = [p for p in listed if isinstance(p, Mapping) and p.get("kind", "profiling") == "profiling"]
    if not config or not measured:
        return None
    return ResultTable(config.file, config.line, measured[-1], config.named("phases"), config.problems)


def _load(place: ResultTable) -> dict[str, float | None]:
    """Concurrency and rate that were asked for, wherever a version of the tools states them."""
    config = ("input_config",)
    places = [
        _phases(place),
        place.within(*config, "loadgen"),
        place.within(*config, "perf_analyzer", "stimulus"),
        place.within(*config),
    ]
    found = {}
    for name, keys in {"concurrency": ("concurrency",), "rate": ("rate", "request_rate")}.items():
        stated = first_of(places, *keys)
        found[name] = stated[0].number(stated[1], 1e-6) if stated else None
    return found


def _model(place: ResultTable) -> str:
    config = place.within("input_config")
    if config is None:
        return ""
    models = config.within("models")
    items = models.table.get("items") if models else None
    if models and isinstance(items, list) and len(items) == 1 and isinstance(items[0], Mapping):
        return ResultTable(place.file, place.line, items[0]).text("name")
    places = [config.within("endpoint"), config]
    stated = first_of(places, "model_names", "model", "models")
    return stated[0].text(stated[1]) if stated else ""


FORMAT = BenchmarkFormat("AIPerf or GenAI-Perf (JSON or CSV)", _is_of, _runs, _is_table, _from_table)
