"""Names that serving software gives its metrics.

Sources: vLLM `vllm/v1/metrics/loggers.py`; SGLang 0.5.23 `srt/observability/metrics_collector.py`; Dynamo 1.6.1
`dynamo/prometheus_names.py`; the Gateway API inference extension's guide to metrics (`inference_model_` before 1.0,
`inference_objective_` since), whose normalized time per output token counts the first one in and is no TPOT;
TensorRT-LLM's metrics as Dynamo 1.6.1 and AIPerf 0.13 filter them (`trtllm_`, and `trtllm:`).
"""

from typing import NamedTuple


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
