"""Observations of a demand, as a new scenario states them."""

import json
from typing import Any

from planner.notes import Note, note
from planner.studies.instance_size import RequestLengths
from planner.units import number, percent
from planner.workload.observed import CountedLengths, Observed

PER_LINE = 12
"""Numbers on a line."""


def request_lengths(seen: Observed) -> RequestLengths:
    """Mean, P90 and longest prompt, and the mean answer."""
    prompts = seen.prompts
    return RequestLengths(prompts.mean, prompts.quantile(0.9), prompts.longest, seen.outputs.mean)


def observed_facts(seen: Observed, source: str) -> dict[str, Any]:
    """Facts about it that the template of the workload writes."""
    busiest = max((hour.req_per_s for hour in seen.hours), default=0.0)
    return {
        "what": seen.what,
        "source": json.dumps(f"{seen.what} in {source}"),
        "mean_tokens": round(seen.prompts.mean),
        "tables": [(name, _lengths(lengths)) for name, lengths in _named(seen)],
        "hits": seen.hit_fraction and f"{seen.hit_fraction:.4g}",
        "periods": [(hour.name, f"{hour.req_per_s / busiest:.4g}") for hour in seen.hours],
        "is_day": len(seen.hours) == 24,
        "latency": [(name, f"{value:.4g}") for name, value in seen.latency_s],
        "dispersion": seen.dispersion,
    }


def planned_req_per_s(seen: Observed) -> tuple[float | None, str]:
    """The rate to plan for: of the busiest hour where hours are known, else the mean; and where it comes from."""
    if seen.hours:
        mean = "" if seen.req_per_s is None else f"; {number(seen.req_per_s)} req/s over all of the time"
        return max(hour.req_per_s for hour in seen.hours), f"of the busiest hour{mean}"
    return seen.req_per_s, "as recorded: the mean over all of the time"


def observed_notes(seen: Observed) -> list[Note]:
    """Notes that a reader should hear of."""
    errors = ((what, _error(lengths)) for what, lengths in _named(seen))
    return [*seen.notes, *(note("lengths-in-buckets", f"{what}: {text}") for what, text in errors if text)]


def _named(seen: Observed) -> tuple[tuple[str, CountedLengths], ...]:
    return (("lengths", seen.prompts), ("output_lengths", seen.outputs))


def _error(lengths: CountedLengths) -> str:
    """Error of buckets, in words; nothing of lengths that are kept as they are."""
    if lengths.is_exact:
        return ""
    text = f"buckets up to {percent(lengths.widest_fraction)} wide"
    if lengths.mean_error is None or lengths.recorded_mean is None:
        return text
    mean = f"{number(lengths.mean, 4)} tokens, {number(lengths.recorded_mean, 4)} as counted"
    return f"{text}; their mean is {mean} ({100 * lengths.mean_error:+.2f} %)"


def _lengths(lengths: CountedLengths) -> dict[str, Any]:
    kind = "constant" if len(lengths.edges) == 1 else "empirical" if lengths.is_exact else "histogram"
    return {
        "kind": kind,
        "error": _error(lengths),
        "tokens": _numbers(lengths.edges),
        "weights": _numbers(lengths.weights),
    }


def _numbers(values: tuple[float, ...]) -> str:
    """Numbers of an array, a dozen on a line; a single one by itself."""
    texts = [f"{value:.10g}" for value in values]
    if len(texts) <= PER_LINE:
        return ", ".join(texts)
    lines = [", ".join(texts[i : i + PER_LINE]) for i in range(0, len(texts), PER_LINE)]
    return "\n    " + ",\n    ".join(lines) + ",\n"
