"""The demand that serving software, or the gateway before it, counted in its metrics.

Names that serving software gives its metrics.

Sources: vLLM `vllm/v1/metrics/loggers.py`; SGLang 0.5.23 `srt/observability/metrics_collector.py`; Dynamo 1.6.1
`dynamo/prometheus_names.py`; the Gateway API inference extension's guide to metrics (`inference_model_` before 1.0,
`inference_objective_` since), whose normalized time per output token counts the first one in and is no TPOT;
TensorRT-LLM's metrics as Dynamo 1.6.1 and AIPerf 0.13 filter them (`trtllm_`, and `trtllm:`).
"""

from collections.abc import Iterator
from typing import NamedTuple

from planner.errors import InputError, InputProblem
from planner.notes import Note, note
from planner.units import SECONDS_PER_HOUR
from planner.workload.observed.counted_lengths import CountedLengths, quantile
from planner.workload.observed.demand import HourRate, Observed, by_hour
from planner.workload.observed.metric_samples import Samples


class Names(NamedTuple):
    """Metrics of one framework; of several names for one thing the first that is there counts."""

    framework: str
    prompts: tuple[str, ...]
    """Histograms of prompt tokens by request."""
    outputs: tuple[str, ...]
    """Histograms of answer tokens by request."""
    requests: tuple[str, ...]
    """Counters of requests."""
    prompt_tokens: tuple[str, ...]
    """Counters of prompt tokens."""
    output_tokens: tuple[str, ...]
    """Counters of answer tokens."""
    ttft: tuple[str, ...]
    """Histograms of seconds to the first token."""
    tpot: tuple[str, ...]
    """Histograms of seconds per further token."""
    hits: tuple[tuple[str, str], ...]
    """Counters of tokens that were cached, and of those that were looked up."""


GATEWAY = ("inference_objective", "inference_model")
TRTLLM = ("trtllm_", "trtllm:")
FRAMEWORKS = (
    Names(
        "Dynamo",
        ("dynamo_frontend_input_sequence_tokens",),
        ("dynamo_frontend_output_sequence_tokens",),
        ("dynamo_frontend_requests_started_total", "dynamo_frontend_requests_total"),
        ("dynamo_frontend_input_sequence_tokens_sum",),
        ("dynamo_frontend_output_tokens_total", "dynamo_frontend_output_sequence_tokens_sum"),
        ("dynamo_frontend_time_to_first_token_seconds",),
        ("dynamo_frontend_inter_token_latency_seconds",),
        (("dynamo_frontend_cached_tokens_sum", "dynamo_frontend_input_sequence_tokens_sum"),),
    ),
    Names(
        "the gateway",
        tuple(f"{prefix}_input_tokens" for prefix in GATEWAY),
        tuple(f"{prefix}_output_tokens" for prefix in GATEWAY),
        tuple(f"{prefix}_request_total" for prefix in GATEWAY),
        tuple(f"{prefix}_input_tokens_sum" for prefix in GATEWAY),
        tuple(f"{prefix}_output_tokens_sum" for prefix in GATEWAY),
        tuple(f"{prefix}_request_ttft_seconds" for prefix in GATEWAY),
        tuple(f"{prefix}_request_tpot_seconds" for prefix in GATEWAY),
        tuple((f"{prefix}_prompt_cached_tokens_sum", f"{prefix}_input_tokens_sum") for prefix in GATEWAY),
    ),
    Names(
        "vLLM",
        ("vllm:request_prompt_tokens",),
        ("vllm:request_generation_tokens",),
        ("vllm:request_success_total",),
        ("vllm:prompt_tokens_total",),
        ("vllm:generation_tokens_total",),
        ("vllm:time_to_first_token_seconds",),
        (
            "vllm:request_time_per_output_token_seconds",
            "vllm:inter_token_latency_seconds",
            "vllm:time_per_output_token_seconds",
        ),
        (
            ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"),
            ("vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_queries_total"),
        ),
    ),
    Names(
        "SGLang",
        ("sglang:prompt_tokens_histogram",),
        ("sglang:generation_tokens_histogram",),
        ("sglang:num_requests_total",),
        ("sglang:prompt_tokens_total",),
        ("sglang:generation_tokens_total",),
        ("sglang:time_to_first_token_seconds",),
        (
            "sglang:request_time_per_output_token_seconds",
            "sglang:inter_token_latency_seconds",
            "sglang:time_per_output_token_seconds",
        ),
        (("sglang:cached_tokens_total", "sglang:prompt_tokens_total"),),
    ),
    Names(
        "TensorRT-LLM",
        tuple(f"{prefix}request_prompt_tokens" for prefix in TRTLLM),
        tuple(f"{prefix}request_generation_tokens" for prefix in TRTLLM),
        tuple(f"{prefix}request_success_total" for prefix in TRTLLM),
        tuple(f"{prefix}prompt_tokens_total" for prefix in TRTLLM),
        tuple(f"{prefix}generation_tokens_total" for prefix in TRTLLM),
        tuple(f"{prefix}time_to_first_token_seconds" for prefix in TRTLLM),
        tuple(f"{prefix}time_per_output_token_seconds" for prefix in TRTLLM),
        (),
    ),
)
"""In this order: a frontend sees every request once, and the workers behind it count some of them twice."""


PERCENTILES = (50, 90, 99)


def observed_metrics(samples: Samples) -> Observed:
    """The demand of the first framework whose requests were counted.

    Raises:
        InputError: nobody's were, or there were none.
    """
    for names in FRAMEWORKS:
        prompts, outputs = (_lengths(samples, names, kind) for kind in ("prompt", "output"))
        if prompts is not None and outputs is not None:
            return _demand(samples, names, prompts, outputs)
    for names in FRAMEWORKS:
        if counter := next((name for name in names.requests if samples.grown(name)), None):
            what = f"counts requests of {names.framework}, and no tokens of theirs"
            front = "metrics of the frontend or gateway before it, which have lengths; or results of a benchmark"
            raise InputError(InputProblem(samples.name, counter, what, front))
    known = ", ".join(name for names in FRAMEWORKS for name in (*names.prompts, *names.outputs))
    what = "has no requests with lengths of prompts and answers"
    raise InputError(InputProblem(samples.name, "", what, f"histograms with requests in them: {known}"))


def _demand(samples: Samples, names: Names, prompts: CountedLengths, outputs: CountedLengths) -> Observed:
    counter = _requests(samples, names)
    n = samples.grown(counter) if counter else None
    rate, hours = None, tuple[HourRate, ...]()
    notes = [*samples.times.guess(), *_notes(samples, names, prompts, outputs)]
    if counter and n and samples.is_range and samples.span_s(counter) > 0:
        rate = n / samples.span_s(counter)
        start_s, counts = samples.hourly(counter, SECONDS_PER_HOUR)
        hours = by_hour([count / SECONDS_PER_HOUR for count in counts], start_s)
    else:
        notes.append(
            note("no-rate", "one scrape tells no rate: give --demand, or the answer of a range query over some hours")
        )
    return Observed(
        what=f"{'' if n is None else f'{n:,.0f} '}requests that {names.framework} counted",
        prompts=prompts,
        outputs=outputs,
        req_per_s=rate,
        hours=hours,
        hit_fraction=_hits(samples, names),
        latency_s=tuple(_latencies(samples, names)),
        notes=tuple(notes),
    )


def _requests(samples: Samples, names: Names) -> str | None:
    """The counter of requests: that of the prompts' histogram, which counts what its lengths are of."""
    counts = (*(f"{name}_count" for name in names.prompts), *names.requests)
    return next((name for name in counts if samples.grown(name)), None)


def _lengths(samples: Samples, names: Names, kind: str) -> CountedLengths | None:
    """Lengths of a histogram; where there is none, the mean by the counters of tokens and requests."""
    histograms, counters = {
        "prompt": (names.prompts, names.prompt_tokens),
        "output": (names.outputs, names.output_tokens),
    }[kind]
    for name in histograms:
        if (found := samples.buckets(name)) is not None:
            return CountedLengths.of_cumulative(*found, samples.grown(f"{name}_sum"))
    requests = next((n for name in names.requests if (n := samples.grown(name))), None)
    tokens = next((n for name in counters if (n := samples.grown(name))), None)
    if requests is None or tokens is None or tokens < requests:
        return None
    return CountedLengths((tokens / requests,), (requests,), tokens / requests)


def _hits(samples: Samples, names: Names) -> float | None:
    for cached, asked in names.hits:
        part, whole = samples.grown(cached), samples.grown(asked)
        if part is not None and whole:
            return min(max(part / whole, 0.0), 1.0)
    return None


def _latencies(samples: Samples, names: Names) -> Iterator[tuple[str, float]]:
    for figure, metrics, percentiles in (("ttft", names.ttft, PERCENTILES), ("tpot", names.tpot, ())):
        name = next((name for name in metrics if samples.buckets(name) is not None), None)
        if name is None:
            continue
        total, n = samples.grown(f"{name}_sum"), samples.grown(f"{name}_count")
        if total and n:
            yield f"{figure}_mean_s", total / n
        ends, counts = samples.buckets(name) or ([], [])
        weights = [b - a for a, b in zip([0.0, *counts], counts, strict=False)]
        for p in percentiles:
            value = quantile((0.0, *ends), weights, p / 100)
            if value < ends[-1]:  # else it lies in the open bucket, and nobody knows where
                yield f"{figure}_p{p}_s", value


def _notes(samples: Samples, names: Names, prompts: CountedLengths, outputs: CountedLengths) -> Iterator[Note]:
    for what, lengths in (("prompts", prompts), ("answers", outputs)):
        if lengths.is_exact:
            yield note(
                "tails-unknown",
                f"no histogram of {what}: all of them have the mean length, so that tails are not seen",
            )
    models = {
        dict(labels).get("model_name") or dict(labels).get("model")
        for name in (*names.prompts, *names.requests)
        for metric in (f"{name}_count", name)
        for labels in samples.series.get(metric, {})
    } - {None}
    if len(models) > 1:
        counted = f"requests of {len(models)} models are counted together: {', '.join(sorted(map(str, models)))}"
        yield note("models-counted-together", counted)
