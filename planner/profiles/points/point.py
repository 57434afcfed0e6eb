"""One measured operating point of a serving system, and what a user may say about a file that does not."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

Mode = Literal["agg", "disagg"]
MODES: tuple[Mode, ...] = ("agg", "disagg")


@dataclass(frozen=True, slots=True)
class PointDefaults:
    """Deployment and load of measured points; None is unknown, and says nothing as a default of a file's points.

    >>> PointDefaults(hardware="h200-sxm", tp_size=8).cells()
    {'hardware': 'h200-sxm', 'tp_size': '8'}
    """

    model: str | None = None
    """Model as the file writes it, such as a Hugging Face id."""
    hardware: str | None = None
    """Accelerator as the file writes it, such as `h200_sxm`."""
    framework: str | None = None
    """Serving software as the file writes it, such as `vllm`."""
    framework_version: str | None = None
    """Version of that software."""
    precision: str | None = None
    """Precision of weights and matrix products as the file writes it; None: the checkpoint's own, or unknown."""
    kv_precision: str | None = None
    """Precision of the KV cache as the file writes it."""
    mode: Mode | None = None
    """agg: prefill and decode share the instance; disagg: they have workers of their own."""
    n_accelerators: int | None = None
    """Accelerators of the whole deployment [accelerators]."""
    tp_size: int | None = None
    """Accelerators that split one attention head group, tensor parallel [accelerators]."""
    pp_size: int | None = None
    """Pipeline stages [stages]."""
    attention_dp_size: int | None = None
    """Attention groups, or replicas, that each hold requests of their own [groups]."""
    moe_tp_size: int | None = None
    """Accelerators that split one expert [accelerators]."""
    moe_ep_size: int | None = None
    """Accelerators that the experts are dealt out to [accelerators]."""
    prefill_num_workers: int | None = None
    """Prefill workers of a disagg deployment [workers]."""
    prefill_tp_size: int | None = None
    """Accelerators that split one attention head group of a prefill worker [accelerators]."""
    decode_num_workers: int | None = None
    """Decode workers of a disagg deployment [workers]."""
    decode_tp_size: int | None = None
    """Accelerators that split one attention head group of a decode worker [accelerators]."""
    prefill_pp_size: int | None = None
    """Pipeline stages of one prefill worker [stages]."""
    prefill_attention_dp_size: int | None = None
    """Attention replicas of one prefill worker [replicas]."""
    prefill_moe_ep_size: int | None = None
    """Accelerators that a prefill worker's experts are dealt out to [accelerators]."""
    decode_pp_size: int | None = None
    """Pipeline stages of one decode worker [stages]."""
    decode_attention_dp_size: int | None = None
    """Attention replicas of one decode worker [replicas]."""
    decode_moe_ep_size: int | None = None
    """Accelerators that a decode worker's experts are dealt out to [accelerators]."""
    max_num_seqs: int | None = None
    """Most sequences that an attention replica runs at once; None: the stack's own limit [sequences]."""
    measured_date: str | None = None
    """Day of the measurement as the file writes it; YYYY-MM-DD where a benchmark tool stamped it."""
    concurrency: float | None = None
    """Requests always in flight (closed loop); where a rate is stated too, the most that may be [requests]."""
    request_rate_req_per_s: float | None = None
    """Arrival rate (open loop); None: closed loop [requests/s]."""

    def cells(self) -> Mapping[str, str]:
        """Stated defaults, by column and as text."""
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: str(value) for name, value in said.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPoint(PointDefaults):
    """Latencies of one model on one layout under one steady load; None is unknown."""

    # Known of every point.
    model: str
    hardware: str
    framework: str
    mode: Mode
    n_accelerators: int
    file: str
    """File it was read from, as the user wrote it."""
    line: int
    """Line of the file where it starts, from 1."""
    input_tokens: float
    """Prompt length, a mean where the run mixed lengths [tokens]."""
    output_tokens: float
    """Answer length, a mean where the run mixed lengths [tokens]."""
    ttft_s: float | None = None
    """Time to first token: median where the file has one, else mean, else as the file means it [s]."""
    tpot_s: float | None = None
    """Time per output token after the first, taken as `ttft_s` is [s]."""
    lengths_are_means: bool = False
    """Whether lengths are means of the requests that ran; else the nominal ones that a benchmark draws up to."""
    source: str | None = None
    """Harness or publication whose way of measuring is the same for all its points, as the file names it; None: it
    does not say."""
    length_ratio: float | None = None
    """Lengths of prompts and answers are uniform from this fraction of the nominal ones up to them; 1: fixed; None: it
    does not say."""
    draft_tokens: int | None = None
    """Tokens drafted per decode step, 0 for none; None: it does not say."""
    acceptance: float | None = None
    """Probability that a drafted token was accepted, given that those before it were; None: it does not say [1]."""
    output_tokens_per_s_per_gpu: float | None = None
    """Tokens generated per second and accelerator; None: it does not say [tokens/s]."""
    series: str | None = None
    """Run of measurements within which only load and lengths change, as the file names it; None: it does not say."""
    doubt: str | None = None
    """What the file says is odd about the point; None: nothing."""
    weight: float = 1.0
    """Share of a full vote that the point has in a fit [1]."""

    @property
    def is_batch(self) -> bool:
        """True if all requests are queued at once and none follows: a row with a throughput and no latency."""
        return self.output_tokens_per_s_per_gpu is not None and self.ttft_s is None and self.tpot_s is None

    @property
    def is_closed_loop(self) -> bool:
        """True if a new request starts when one ends, rather than at a rate of its own."""
        return self.request_rate_req_per_s is None


NO_DEFAULTS = PointDefaults()
LOAD = ("concurrency", "request_rate_req_per_s")
CONFIGURATION = tuple(field.name for field in fields(PointDefaults) if field.name not in LOAD)
"""Columns that describe the deployment rather than its load or its latencies."""
THROUGHPUT = "output_tokens_per_s_per_gpu"
"""Column of what a deployment generates, as it may stand in place of latencies."""
SIZES = tuple(name for name in CONFIGURATION if name.endswith(("_size", "_workers")))
"""Columns of the layout."""
COLUMNS = (
    *("model", "hardware", "framework", "framework_version", "precision", "kv_precision", "mode"),
    *("input_tokens", "output_tokens", "concurrency", "request_rate_req_per_s", "gpus"),
    *SIZES,
    "max_num_seqs",
    *("ttft_ms", "tpot_ms", THROUGHPUT, "measured_date", "harness", "length_ratio", "draft_tokens", "acceptance"),
    *("series", "doubt"),
)
"""Columns of a table of points, in the order in which they are written; n_accelerators is another name of gpus."""
