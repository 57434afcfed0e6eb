"""Times the kernels that a served model consists of on this machine's accelerator, and writes them as CSV.

    python measure_kernels.py OUT.csv [--seconds 400] [--only kda dense]

It needs PyTorch 2.11 or later with Triton on a CUDA device; fla-core for recurrences, fa3-fwd for attention, and the
extensions of vLLM for FlashKDA and FlashMLA. What is not there is left out and said on stderr. Rows are written as they
are measured.

Method: kernels run one after another under a CUDA graph, which is replayed and timed with events; a row has the median
over replays of the mean over its kernels, gaps between kernels included. Weights, caches and states rotate among copies
of more than four times the second-level cache, so that they come from memory; activations stay where the last kernel
left them. Inputs are random. KDA, grouped bf16 products and attention over caches are compared with references first.
"""

import argparse
import csv
import math
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import torch
import triton
import triton.language as tl
from torch.nn import functional
from triton.runtime import Autotuner, KernelInterface

Call = Callable[[], object]
Calls = Sequence[Call]

DEVICE = "cuda"
COLUMNS = (
    "operator",
    "kernel",
    "format",
    "model",
    "tp",
    "phase",
    "sequences",
    "tokens",
    "cached",
    "n",
    "k",
    "routing",
    "groups",
    "seconds",
    "spread_fraction",
    "device",
)
ROTATED_BYTES = 256e6
"""Copies of what must come from memory take so much together; the second-level cache has 50 MB."""
MOST_COPIES = 128
ROUND_S, MEASURED_S = 1e-3, 12e-3
"""One replay takes so long at least, and all replays of a row about so long."""
MOST_RESERVED_BYTES = 30e9
"""Memory of earlier graphs is given back above."""
MOST_ERROR = 0.02
"""Relative error of a bf16 or fp8 kernel that is right."""
HEAD_DIM = 128

DENSE = (  # model, tp, operator, columns n, depth k of one rank
    ("kimi-linear-48b", 1, "in_proj", 12576, 2304),
    ("kimi-linear-48b", 1, "o_proj", 2304, 4096),
    ("kimi-linear-48b", 1, "q_proj", 6144, 2304),
    ("kimi-linear-48b", 1, "kv_b_proj", 8192, 512),
    ("kimi-linear-48b", 1, "shared_gate_up_proj", 2048, 2304),
    ("kimi-linear-48b", 1, "shared_down_proj", 2304, 1024),
    ("kimi-linear-48b", 1, "gate_up_proj", 18432, 2304),
    ("llama-3.1-8b", 1, "qkv_proj", 6144, 4096),
    ("llama-3.1-8b", 1, "o_proj", 4096, 4096),
    ("llama-3.1-8b", 1, "gate_up_proj", 28672, 4096),
    ("llama-3.1-8b", 1, "down_proj", 4096, 14336),
    ("llama-3.1-70b", 8, "qkv_proj", 1280, 8192),
    ("llama-3.1-70b", 8, "o_proj", 8192, 1024),
    ("llama-3.1-70b", 8, "gate_up_proj", 7168, 8192),
    ("llama-3.1-70b", 8, "down_proj", 8192, 3584),
)
DENSE_ROWS = (1, 4, 16, 64, 256, 1536, 4096, 16384)
EXPERTS = (  # model, experts, of which a token visits, operator, columns n, depth k
    ("kimi-linear-48b", 256, 8, "experts_gate_up", 2048, 2304),
    ("kimi-linear-48b", 256, 8, "experts_down", 2304, 1024),
    ("gpt-oss-120b", 128, 4, "experts_gate_up", 5760, 2880),
)
EXPERT_TOKENS = (16, 64, 256, 1024, 4096, 8192, 16384, 32768, 131072)
KDA_HEADS = 32
KDA_PROMPTS = (  # sequences of so many tokens
    *((1, tokens) for tokens in (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)),
    *((8, 1024), (4, 4096), (16, 2048)),
)
FLASH_KDA_HEADS = (
    *(("kimi-linear-48b", tp, KDA_HEADS // tp) for tp in (1, 2, 4, 8)),
    *(("kimi-k3", tp, 96 // tp) for tp in (1, 2, 4, 8)),
)
DECODE_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
GDN_HEADS = (16, 32)
"""Of keys and of values."""
GDN_TOKENS = (1024, 4096, 16384, 65536)
PROMPTS = (  # new and cached tokens
    *((tokens, 0) for tokens in (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)),
    *((2048, cached) for cached in (6144, 30720, 63488)),
    (8192, 57344),
)
DECODE_TOKENS = (1024, 4096, 16384, 65536, 131072)
MOST_CACHE_BYTES = 12e9


class TimeUpError(Exception):
    """A section has had its time."""


class Sheet:
    """The rows of the file."""

    def __init__(self, path: Path, end_s: float) -> None:
        self.file = path.open("w", newline="", encoding="utf-8")
        self.rows = csv.DictWriter(self.file, COLUMNS, restval="")
        self.rows.writeheader()
        self.device = torch.cuda.get_device_name()
        self.end_s = self.section_end_s = end_s

    def begin(self, limit_s: float) -> None:
        """A section of so many seconds at most."""
        self.section_end_s = min(time.monotonic() + limit_s, self.end_s)

    def time(self, make: Callable[[], Calls], **shape: object) -> None:
        """Measures calls that are made for it and writes one row; a kernel that refuses the shape is said and left out.

        Raises:
            TimeUpError: the section's time is over.
        """
        if time.monotonic() > self.section_end_s:
            raise TimeUpError
        if torch.cuda.memory_reserved() > MOST_RESERVED_BYTES:
            torch.cuda.empty_cache()  # which cannot be done while a graph is captured
        try:
            seconds, spread = median_seconds(make())
        except Exception as error:
            said(f"left out {shape}: {type(error).__name__} {str(error).splitlines()[:1]}")
            return
        self.rows.writerow(
            ({"tp": 1, "cached": 0, "sequences": 1, "format": "bf16"} if "model" in shape else {})
            | shape
            | {"seconds": f"{seconds:.4g}", "spread_fraction": f"{spread:.3f}", "device": self.device}
        )
        self.file.flush()


def said(text: str) -> None:
    print(f"{time.monotonic() - STARTED_S:7.1f} s  {text}", file=sys.stderr, flush=True)


def median_seconds(calls: Calls) -> tuple[float, float]:
    """Median seconds of one call and the relative distance between the quartiles, over replays of a graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls[:3]:
            call()
        torch.cuda.synchronize()
        once_s = eager_seconds(calls)
        rounds = max(1, math.ceil(ROUND_S / once_s / len(calls)))
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        try:
            for call in [*calls] * rounds:
                call()
        finally:
            graph.capture_end()
    torch.cuda.current_stream().wait_stream(side)
    n_calls = rounds * len(calls)
    first_s = statistics.median(replayed(graph, 3)) / n_calls
    found = [each / n_calls for each in replayed(graph, min(max(5, round(MEASURED_S / n_calls / first_s)), 40))]
    low, middle, high = statistics.quantiles(found, n=4)
    return middle, (high - low) / middle


def eager_seconds(calls: Calls) -> float:
    """Seconds of a call without a graph, its launch included: how many of them a replay should have."""
    start_s = time.perf_counter()
    for call in calls:
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start_s) / len(calls)


def replayed(graph: torch.cuda.CUDAGraph, n: int) -> list[float]:
    """Seconds of each of n replays, after one that is not timed."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(n + 1)]
    graph.replay()
    marks[0].record()
    for mark in marks[1:]:
        graph.replay()
        mark.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) / 1e3 for start, end in pairwise(marks)]


def check(name: str, got: torch.Tensor, want: torch.Tensor) -> None:
    """Raises ArithmeticError for a kernel that computes something else than its reference."""
    got, want = got.double(), want.double()
    error = float((got - want).norm() / want.norm())
    said(f"{name}: relative error {error:.1e}")
    if not error < MOST_ERROR:
        raise ArithmeticError(f"{name} is wrong by {error}")


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device=DEVICE, dtype=torch.bfloat16)


def n_copies(one_bytes: float) -> int:
    """Copies that do not fit in the cache."""
    return min(max(1, math.ceil(ROTATED_BYTES / one_bytes)), MOST_COPIES)


def found(module: str) -> object | None:
    """A module, or None where it is not installed or does not load."""
    try:
        return import_module(module)
    except Exception as error:
        said(f"without {module}: {type(error).__name__} {error}")
        return None


def vllm_kernels(name: str) -> object | None:
    """Operators of one of vLLM's compiled extensions, without vLLM itself; None where there is none that loads."""
    package = find_spec("vllm")
    if package is None or package.origin is None:
        said("without vllm")
        return None
    try:
        torch.ops.load_library(str(Path(package.origin).with_name(f"{name}.abi3.so")))
    except OSError as error:
        said(f"without {name}: {error}")
        return None
    return getattr(torch.ops, name)


# Recurrences

BOUND = -5.0
GATES = {"softplus": {}, "bounded": {"safe_gate": True, "lower_bound": BOUND}}
"""Kimi Linear's gate; and one that is bounded below, whose products of a chunk fit matrix units."""
INSIDE = dict.fromkeys(("use_qk_l2norm_in_kernel", "use_gate_in_kernel", "use_beta_sigmoid_in_kernel"), True)
"""What kernels of a recurrence compute beside it: norms of queries and keys, gates."""


def kda(sheet: Sheet) -> None:
    ops = import_module("fla.ops.kda")
    for choice in ((1,), (2, 4, 8)):
        tuned([kda_call(ops, 1, 8192, KDA_HEADS // tp, gate) for tp in choice for gate in GATES])
        if choice == (1,):
            check_kda(ops)
        for tp in choice:
            triton_kda(sheet, ops, tp)


def triton_kda(sheet: Sheet, ops: object, tp: int) -> None:
    heads = KDA_HEADS // tp
    row = {"operator": "recurrence", "model": "kimi-linear-48b", "tp": tp}
    for gate in GATES:
        prefill = row | {"phase": "prefill", "kernel": f"fla-chunk-kda-{gate}"}
        for sequences, tokens in KDA_PROMPTS:
            make = partial(kda_call, ops, sequences, tokens, heads, gate)
            sheet.time(lambda make=make: [make()], sequences=sequences, tokens=tokens, **prefill)
    for batch in DECODE_BATCHES:
        decode = row | {"phase": "decode", "kernel": "fla-fused-recurrent-kda"}
        sheet.time(partial(kda_steps, ops, batch, heads), sequences=batch, tokens=1, cached=1, **decode)


def kda_inputs(sequences: int, tokens: int, heads: int) -> dict[str, torch.Tensor]:
    inputs = {name: normal(sequences, tokens, heads, HEAD_DIM) for name in ("q", "k", "v", "g")}
    inputs["beta"] = normal(sequences, tokens, heads)
    inputs["A_log"] = torch.rand(heads, device=DEVICE)
    inputs["dt_bias"] = torch.randn(heads * HEAD_DIM, device=DEVICE)
    return inputs


def kda_call(ops: object, sequences: int, tokens: int, heads: int, gate: str) -> Call:
    inputs = kda_inputs(sequences, tokens, heads)
    return lambda: ops.chunk_kda(**inputs, output_final_state=True, **INSIDE, **GATES[gate])


def kda_steps(ops: object, batch: int, heads: int) -> Calls:
    inputs = kda_inputs(batch, 1, heads)
    step = partial(ops.fused_recurrent_kda, **inputs, output_final_state=True, **INSIDE)
    return [partial(step, initial_state=state) for state in states(batch, heads)]


def states(sequences: int, heads: int) -> list[torch.Tensor]:
    one_bytes = 8.0 * sequences * heads * HEAD_DIM**2  # read and written
    return [torch.randn(sequences, heads, HEAD_DIM, HEAD_DIM, device=DEVICE) for _ in range(n_copies(one_bytes))]


def flash_kda(sheet: Sheet) -> None:
    """FlashKDA of Kimi Linear's heads, and of Kimi K3's."""
    flash = vllm_kernels("_flashkda_C")
    if flash is None:
        return
    check_kda_kernel("FlashKDA", "bounded", lambda inputs: flash_kda_call(flash, inputs)())
    for model, tp, heads in FLASH_KDA_HEADS:
        row = {"operator": "recurrence", "model": model, "tp": tp, "phase": "prefill", "kernel": "flash-kda"}
        for sequences, tokens in KDA_PROMPTS:
            inputs = partial(kda_inputs, sequences, tokens, heads)
            make = lambda inputs=inputs: [flash_kda_call(flash, inputs())]  # noqa: E731
            sheet.time(make, sequences=sequences, tokens=tokens, **row)


def flash_kda_call(flash: object, inputs: dict[str, torch.Tensor]) -> Call:
    q, k, v, g, beta = (inputs[name] for name in ("q", "k", "v", "g", "beta"))
    sequences, tokens, heads, dim = q.shape
    out = torch.full_like(v, math.nan)
    state = torch.empty(sequences, heads, dim, dim, device=DEVICE)
    n_bytes = flash.get_workspace_size(sequences * tokens, heads, sequences)
    workspace = torch.empty(n_bytes, dtype=torch.uint8, device=DEVICE)
    bias = inputs["dt_bias"].view(heads, dim)

    def call() -> torch.Tensor:
        flash.fwd(q, k, v, g, beta, dim**-0.5, out, workspace, inputs["A_log"], bias, BOUND, None, state, None)
        return out

    return call


def check_kda(ops: object) -> None:
    for gate, options in GATES.items():
        check_kda_kernel(
            f"chunk_kda {gate}", gate, lambda inputs, options=options: ops.chunk_kda(**inputs, **INSIDE, **options)[0]
        )
    check_kda_kernel("fused_recurrent_kda", "softplus", lambda inputs: ops.fused_recurrent_kda(**inputs, **INSIDE)[0])


def check_kda_kernel(name: str, gate: str, kernel: Callable[[dict[str, torch.Tensor]], torch.Tensor]) -> None:
    """Against the recurrence as it is defined, token by token."""
    inputs = kda_inputs(1, 200, KDA_HEADS)
    q, k, v, g, beta = (inputs[name].float() for name in ("q", "k", "v", "g", "beta"))
    raw, rate = g + inputs["dt_bias"].view(KDA_HEADS, HEAD_DIM), inputs["A_log"].exp()[:, None]
    decay = BOUND * torch.sigmoid(rate * raw) if gate == "bounded" else -rate * functional.softplus(raw)
    q, k, beta = functional.normalize(q, dim=-1) * HEAD_DIM**-0.5, functional.normalize(k, dim=-1), beta.sigmoid()
    state, want = torch.zeros(KDA_HEADS, HEAD_DIM, HEAD_DIM, device=DEVICE), torch.empty_like(v)
    for t in range(v.shape[1]):
        state = state * decay[0, t].exp()[..., None]
        new = beta[0, t, :, None] * (v[0, t] - torch.einsum("hk,hkv->hv", k[0, t], state))
        state = state + torch.einsum("hk,hv->hkv", k[0, t], new)
        want[0, t] = torch.einsum("hk,hkv->hv", q[0, t], state)
    check(name, kernel(inputs), want)


def gdn(sheet: Sheet) -> None:
    ops = import_module("fla.ops.gated_delta_rule")
    sizes = {tp: tuple(heads // tp for heads in GDN_HEADS) for tp in (1, 4)}
    for tp, heads in sizes.items():
        tuned([gdn_call(ops.chunk_gated_delta_rule, 1, 8192, *heads)])
        row = {"operator": "recurrence", "model": "qwen3-next-80b", "tp": tp}
        prefill = row | {"phase": "prefill", "kernel": "fla-chunk-gated-delta-rule"}
        for tokens in GDN_TOKENS:
            make = partial(gdn_call, ops.chunk_gated_delta_rule, 1, tokens, *heads)
            sheet.time(lambda make=make: [make()], tokens=tokens, **prefill)
        for batch in DECODE_BATCHES:
            decode = row | {"phase": "decode", "kernel": "fla-fused-recurrent-gated-delta-rule"}
            sheet.time(partial(gdn_steps, ops, batch, *heads), sequences=batch, tokens=1, cached=1, **decode)


def gdn_call(kernel: Callable[..., object], sequences: int, tokens: int, n_keys: int, n_values: int) -> Call:
    q, k = (normal(sequences, tokens, n_keys, HEAD_DIM) for _ in range(2))
    v = normal(sequences, tokens, n_values, HEAD_DIM)
    g = functional.logsigmoid(torch.randn(sequences, tokens, n_values, device=DEVICE))
    beta = torch.rand(sequences, tokens, n_values, device=DEVICE).bfloat16()
    return partial(kernel, q, k, v, g=g, beta=beta, output_final_state=True, use_qk_l2norm_in_kernel=True)


def gdn_steps(ops: object, batch: int, n_keys: int, n_values: int) -> Calls:
    step = gdn_call(ops.fused_recurrent_gated_delta_rule, batch, 1, n_keys, n_values)
    return [partial(step, initial_state=state) for state in states(batch, n_values)]


def tuned(calls: Calls) -> None:
    """Lets Triton choose the configurations of the kernels in these calls, and keeps them for shapes that follow."""
    compile_ahead(calls)
    said("compiled")
    for call in calls:
        call()
    keep_tuned()
    said("tuned")


def compile_ahead(calls: Calls) -> None:
    """Compiles all that Triton would choose among in these calls, side by side: it takes seconds instead of minutes.

    Kernels are compiled and not run, so that the calls compute nothing.
    """
    tune = Autotuner.run

    def compile_only(self: Autotuner, *args: object, warmup: bool, **kwargs: object) -> None:  # noqa: ARG001
        self.warmup(*args, **kwargs)

    Autotuner.run = compile_only
    try:
        with ThreadPoolExecutor() as pool, triton.AsyncCompileMode(pool, ignore_errors=True):
            for call in calls:
                call()
    finally:
        Autotuner.run = tune


def keep_tuned() -> None:
    """Kernels of recurrences keep what was chosen last for any number of heads, but the one that walks the chunks."""
    for name, module in list(sys.modules.items()):
        if name.startswith("fla."):
            for kernel in list(vars(module).values()):
                for tuner in tuners(kernel):
                    if tuner.cache and "fwd_kernel_h" not in tuner.base_fn.__name__:
                        tuner.configs = [[*tuner.cache.values()][-1]]


def tuners(kernel: object) -> Iterator[Autotuner]:
    """Autotuners among the decorators of a kernel."""
    while isinstance(kernel, KernelInterface):
        if isinstance(kernel, Autotuner):
            yield kernel
        kernel = getattr(kernel, "fn", None)


# Products of experts


@triton.jit
def grouped_kernel(
    rows_ptr,
    weights_ptr,
    out_ptr,
    tile_group_ptr,
    tile_start_ptr,
    tile_end_ptr,
    n,
    k,
    BLOCK_M: tl.constexpr,  # noqa: N803
    BLOCK_N: tl.constexpr,  # noqa: N803
    BLOCK_K: tl.constexpr,  # noqa: N803
):
    """One tile of rows of one expert times a tile of that expert's columns; weights are [expert, n, k]."""
    tile = tl.program_id(1)
    group = tl.load(tile_group_ptr + tile).to(tl.int64)
    start, end = tl.load(tile_start_ptr + tile), tl.load(tile_end_ptr + tile)
    m_at = start + tl.arange(0, BLOCK_M)
    n_at = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k_at = tl.arange(0, BLOCK_K)
    a = rows_ptr + m_at.to(tl.int64)[:, None] * k + k_at[None, :]
    b = weights_ptr + group * n * k + (n_at % n)[None, :] * k + k_at[:, None]
    inside = (m_at < end)[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(tl.cdiv(k, BLOCK_K)):
        left = k_at < k - step * BLOCK_K
        total = tl.dot(
            tl.load(a, mask=inside & left[None, :], other=0.0), tl.load(b, mask=left[:, None], other=0.0), total
        )
        a += BLOCK_K
        b += BLOCK_K
    out = out_ptr + m_at.to(tl.int64)[:, None] * n + n_at[None, :]
    tl.store(out, total.to(out_ptr.dtype.element_ty), mask=inside & (n_at < n)[None, :])


GROUPED_BLOCKS = {  # by rows of a tile: columns, depth, warps, stages
    16: ((64, 128, 4, 4), (128, 128, 4, 4)),
    64: ((128, 64, 4, 4), (256, 64, 8, 3)),
    128: ((128, 64, 8, 4), (256, 64, 8, 3)),
}


def grouped_call(
    rows: torch.Tensor, weights: torch.Tensor, sizes: torch.Tensor, block_m: int, blocks: tuple[int, int, int, int]
) -> Call:
    """Products by Triton, as the kernels of vLLM and SGLang: tiles of rows, each of one expert."""
    block_n, block_k, warps, stages = blocks
    counts = sizes.tolist()
    starts = [sum(counts[:group]) for group in range(len(counts))]
    tiles = [
        (group, start + at, start + count)
        for group, (start, count) in enumerate(zip(starts, counts, strict=True))
        for at in range(0, count, block_m)
    ]
    of_tile = torch.tensor(tiles, dtype=torch.int32, device=DEVICE).T.contiguous()
    n, k = weights.shape[1:]
    out = torch.full((rows.shape[0], n), math.nan, device=DEVICE, dtype=torch.bfloat16)
    grid = (triton.cdiv(n, block_n), len(tiles))

    def call() -> torch.Tensor:
        grouped_kernel[grid](
            rows,
            weights,
            out,
            *of_tile,
            n,
            k,
            BLOCK_M=block_m,
            BLOCK_N=block_n,
            BLOCK_K=block_k,
            num_warps=warps,
            num_stages=stages,
        )
        return out

    return call


def visits(tokens: int, n_experts: int, n_chosen: int, routing: str) -> torch.Tensor:
    """Rows of each expert where every token draws different ones: all alike, or by a power of their rank.

    Gumbel's trick: the largest of log weight + noise are drawn without replacement, by weight.
    """
    ranks = torch.arange(1, n_experts + 1, device=DEVICE, dtype=torch.float32)
    weights = -ranks.log() if routing == "zipf" else torch.zeros_like(ranks)
    noise = -torch.empty(tokens, n_experts, device=DEVICE).exponential_().log()
    chosen = (weights + noise).topk(n_chosen, dim=1).indices
    return torch.bincount(chosen.flatten(), minlength=n_experts)


def grouped(sheet: Sheet) -> None:
    check_grouped()
    for model, n_experts, n_chosen, operator, n, k in EXPERTS:
        weights = normal(n_experts, n, k)
        weights_fp8 = weights.to(torch.float8_e4m3fn)
        for tokens in EXPERT_TOKENS:
            rows = normal(tokens * n_chosen, k)
            for routing in ("even", "zipf"):
                sizes = visits(tokens, n_experts, n_chosen, routing)
                shape = {
                    "operator": operator,
                    "model": model,
                    "tokens": tokens,
                    "n": n,
                    "k": k,
                    "routing": routing,
                    "groups": int((sizes > 0).sum()),
                }
                time_grouped(sheet, rows, weights, weights_fp8, sizes, shape)


def time_grouped(
    sheet: Sheet,
    rows: torch.Tensor,
    weights: torch.Tensor,
    weights_fp8: torch.Tensor,
    sizes: torch.Tensor,
    shape: dict[str, object],
) -> None:
    ends = sizes.cumsum(0).to(torch.int32)
    mean = rows.shape[0] / max(int((sizes > 0).sum()), 1)
    sheet.time(lambda: [lambda: functional.grouped_mm(rows, weights.mT, offs=ends)], kernel="torch-grouped-mm", **shape)
    block_m = 16 if mean <= 16 else 64 if mean <= 96 else 128
    for blocks in GROUPED_BLOCKS[block_m]:
        kernel = "triton-" + "x".join(map(str, (block_m, *blocks)))
        make = partial(grouped_call, rows, weights, sizes, block_m, blocks)
        sheet.time(lambda make=make: [make()], kernel=kernel, **shape)
    rows_fp8 = rows.to(torch.float8_e4m3fn)
    row_scale = torch.ones(rows.shape[0], device=DEVICE)
    column_scale = torch.ones(weights.shape[:2], device=DEVICE)

    def by_rows() -> torch.Tensor:
        return torch._scaled_grouped_mm(
            rows_fp8,
            weights_fp8.mT,
            row_scale,
            column_scale,
            offs=ends,
            out_dtype=torch.bfloat16,
            use_fast_accum=True,
        )

    sheet.time(lambda: [by_rows], kernel="torch-scaled-grouped-mm-rowwise", **shape | {"format": "fp8"})


def check_grouped() -> None:
    rows, weights = normal(300, 256), normal(4, 384, 256)
    sizes = torch.tensor([100, 0, 7, 193], device=DEVICE)
    groups = torch.repeat_interleave(torch.arange(4, device=DEVICE), sizes)
    want = torch.einsum("mk,mnk->mn", rows.float(), weights.float()[groups])
    check("grouped_mm", functional.grouped_mm(rows, weights.mT, offs=sizes.cumsum(0).to(torch.int32)), want)
    for block_m, choices in GROUPED_BLOCKS.items():
        for blocks in choices:
            check(f"grouped_kernel {block_m} {blocks}", grouped_call(rows, weights, sizes, block_m, blocks)(), want)


# Dense products


def dense(sheet: Sheet) -> None:
    for model, tp, operator, n, k in DENSE:
        for name, of_format in DENSE_KERNELS.items():
            width = 2 if name == "bf16" else 1
            first = normal(n, k).to(torch.bfloat16 if name == "bf16" else torch.float8_e4m3fn)
            weights = [first, *(first.clone() for _ in range(n_copies(width * n * k) - 1))]
            for rows in DENSE_ROWS:
                shape = {"operator": operator, "model": model, "tp": tp, "tokens": rows, "n": n, "k": k}
                make = partial(of_format, rows, weights)
                sheet.time(make, kernel=f"cublas-{name}", format=name.partition("-")[0], **shape)


def bf16_calls(rows: int, weights: list[torch.Tensor]) -> Calls:
    a = normal(rows, weights[0].shape[1])
    return [partial(torch.mm, a, w.t()) for w in weights]


def fp8_calls(rows: int, weights: list[torch.Tensor], scales: Callable[[int, int, int], tuple[object, ...]]) -> Calls:
    n, k = weights[0].shape
    a = normal(rows, k).to(torch.float8_e4m3fn)
    scale_a, recipe_a, scale_b, recipe_b = scales(rows, n, k)
    fast = recipe_a != functional.ScalingType.BlockWise1x128
    return [
        lambda w=w: functional.scaled_mm(
            a, w.t(), scale_a, recipe_a, scale_b, recipe_b, output_dtype=torch.bfloat16, use_fast_accum=fast
        )
        for w in weights
    ]


def one_scale(_rows: int, _n: int, _k: int) -> tuple[object, ...]:
    one = torch.ones((), device=DEVICE)
    return one, functional.ScalingType.TensorWise, one, functional.ScalingType.TensorWise


def row_scales(rows: int, n: int, _k: int) -> tuple[object, ...]:
    kind = functional.ScalingType.RowWise
    return torch.ones(rows, 1, device=DEVICE), kind, torch.ones(1, n, device=DEVICE), kind


def block_scales(rows: int, n: int, k: int) -> tuple[object, ...]:
    """Scales of 128 values of a row, and of 128 by 128 weights; depth runs fastest, in fours."""
    kind = functional.ScalingType
    of_rows = torch.ones(k // 128, rows, device=DEVICE).t()
    of_blocks = torch.ones(math.ceil(n / 128), 4 * math.ceil(k / 512), device=DEVICE).t()
    return of_rows, kind.BlockWise1x128, of_blocks, kind.BlockWise128x128


DENSE_KERNELS: dict[str, Callable[[int, list[torch.Tensor]], Calls]] = {
    "bf16": bf16_calls,
    "fp8-tensorwise": lambda rows, weights: fp8_calls(rows, weights, one_scale),
    "fp8-rowwise": lambda rows, weights: fp8_calls(rows, weights, row_scales),
    "fp8-blockwise": lambda rows, weights: fp8_calls(rows, weights, block_scales),
}

# Attention


def attention(sheet: Sheet) -> None:
    fa3 = found("fa3_fwd_interface")
    if fa3 is not None:
        check_fa3(fa3)
    for model, tp, n_heads, n_kv_heads, qk, v in (
        ("llama-3.1-8b", 1, 32, 8, 128, 128),
        ("kimi-linear-48b", 1, 32, 32, 192, 128),
        ("llama-3.1-70b", 8, 8, 1, 128, 128),
    ):
        operator = "mla_attention" if qk != v else "attention"
        for new, cached in PROMPTS:
            shape = {"operator": operator, "model": model, "tp": tp, "phase": "prefill", "tokens": new}
            queries = normal(1, new, n_heads, qk)
            keys, values = normal(1, new + cached, n_kv_heads, qk), normal(1, new + cached, n_kv_heads, v)
            for kernel, call in prompt_calls(fa3, queries, keys, values):
                sheet.time(lambda call=call: [call], kernel=kernel, cached=cached, **shape)


def prompt_calls(
    fa3: object | None, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
) -> Iterator[tuple[str, Call]]:
    if fa3 is not None:
        yield "flash-attention-3", lambda: fa3.flash_attn_func(queries, keys, values, causal=True)
    if queries.shape[1] < keys.shape[1]:
        return
    q, k, v = (x.transpose(1, 2) for x in (queries, keys, values))

    def cudnn() -> torch.Tensor:
        with torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.CUDNN_ATTENTION]):
            shared = q.shape[1] != k.shape[1]
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=shared)

    yield "cudnn", cudnn


def check_fa3(fa3: object) -> None:
    q, k, v = normal(1, 300, 8, 128), normal(1, 300, 2, 128), normal(1, 300, 2, 128)
    plain = (x.transpose(1, 2).float() for x in (q, k, v))
    with torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.MATH]):
        want = functional.scaled_dot_product_attention(*plain, is_causal=True, enable_gqa=True).transpose(1, 2)
    check("flash_attn_func", fa3.flash_attn_func(q, k, v, causal=True), want)
    cached = fa3.flash_attn_with_kvcache(q[:, -1:], k, v, causal=True)
    check("flash_attn_with_kvcache", cached, want[:, -1:])


def decode_attention(sheet: Sheet) -> None:
    fa3 = import_module("fa3_fwd_interface")
    for model, tp, n_heads, n_kv_heads in (("llama-3.1-8b", 1, 32, 8), ("llama-3.1-70b", 8, 8, 1)):
        row = {"operator": "attention", "model": model, "tp": tp, "phase": "decode", "kernel": "flash-attention-3"}
        for batch, context in decode_shapes(4.0 * n_kv_heads * HEAD_DIM):
            make = partial(head_steps, fa3, batch, context, n_heads, n_kv_heads)
            sheet.time(make, sequences=batch, tokens=1, cached=context - 1, **row)
    latent_attention(sheet, fa3)


def head_steps(fa3: object, batch: int, context: int, n_heads: int, n_kv_heads: int) -> Calls:
    q, lengths = normal(batch, 1, n_heads, HEAD_DIM), torch.full((batch,), context, dtype=torch.int32, device=DEVICE)
    caches = [
        [normal(batch, context, n_kv_heads, HEAD_DIM) for _ in range(2)]
        for _ in range(n_copies(4.0 * batch * context * n_kv_heads * HEAD_DIM))
    ]
    return [partial(fa3.flash_attn_with_kvcache, q, *kv, cache_seqlens=lengths, causal=True) for kv in caches]


LATENT, ROPE, MLA_HEADS = 576, 64, 32
"""Values of a token in MLA's cache, of which the last are turned by position; heads of Kimi Linear."""


def latent_attention(sheet: Sheet, fa3: object) -> None:
    """Absorbed MLA: all heads read one latent, which serves for keys and values."""
    steps = {"flash-attention-3": partial(latent_steps, fa3)}
    flash_mla = vllm_kernels("_flashmla_C")
    if flash_mla is not None:
        steps["flash-mla"] = partial(flash_mla_steps, flash_mla)
    for name, make in steps.items():
        check_latent(name, make)
    row = {"operator": "mla_attention", "model": "kimi-linear-48b", "phase": "decode"}
    for batch, context in decode_shapes(2.0 * LATENT):
        for name, make in steps.items():
            shape = row | {"sequences": batch, "tokens": 1, "cached": context - 1}
            sheet.time(lambda make=make, at=(batch, context): make(*latents(*at)), kernel=name, **shape)


def latents(batch: int, context: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    copies = range(n_copies(2.0 * LATENT * batch * context))
    return normal(batch, 1, MLA_HEADS, LATENT), [normal(batch, context, 1, LATENT) for _ in copies]


def latent_steps(fa3: object, q: torch.Tensor, caches: list[torch.Tensor]) -> Calls:
    at = LATENT - ROPE
    lengths = torch.full((len(q),), caches[0].shape[1], dtype=torch.int32, device=DEVICE)
    qv, turned = q[..., :at].contiguous(), q[..., at:].contiguous()
    step = partial(fa3.flash_attn_with_kvcache, turned, qv=qv, cache_seqlens=lengths, causal=True)
    return [partial(step, k_cache=each[..., at:], v_cache=each[..., :at]) for each in caches]


def flash_mla_steps(flash_mla: object, q: torch.Tensor, caches: list[torch.Tensor]) -> Calls:
    """Over pages of 64 tokens; how the work is divided is found by the first call and used by the others."""
    batch, context = caches[0].shape[:2]
    lengths = torch.full((batch,), context, dtype=torch.int32, device=DEVICE)
    pages = torch.arange(batch * context // 64, dtype=torch.int32, device=DEVICE).view(batch, -1)

    def step(cache: torch.Tensor, *plan: object) -> Sequence[torch.Tensor]:
        scale, paged = LATENT**-0.5, cache.view(-1, 64, 1, LATENT)
        return flash_mla.dense_decode_fwd(q, paged, LATENT - ROPE, lengths, pages, scale, True, *plan, None)

    _, _, *plan = step(caches[0], None, None)
    return [partial(step, each, *plan) for each in caches]


def check_latent(name: str, make: Callable[[torch.Tensor, list[torch.Tensor]], Calls]) -> None:
    q, cache = normal(2, 1, MLA_HEADS, LATENT), normal(2, 128, 1, LATENT)
    scores = torch.einsum("bqhd,btqd->bqht", q.float(), cache.float()) * LATENT**-0.5
    want = torch.einsum("bqht,btqd->bqhd", scores.softmax(-1), cache[..., : LATENT - ROPE].float())
    got = make(q, [cache])[0]()
    check(name, got if isinstance(got, torch.Tensor) else got[0], want)


def decode_shapes(token_bytes: float) -> Iterator[tuple[int, int]]:
    for context in DECODE_TOKENS:
        for batch in (1, 8, 32, 128):
            if batch * context * token_bytes <= MOST_CACHE_BYTES:
                yield batch, context


# Memory, latency, convolution


def memory(sheet: Sheet) -> None:
    small = torch.zeros(32, device=DEVICE)
    sheet.time(lambda: [partial(small.add_, 1.0)] * 100, operator="launch", kernel="torch-add", format="fp32", n=32)
    for n_bytes in (2**20, 2**24, 2**26, 2**28, 2**30, 2**32):
        sheet.time(partial(copy_calls, n_bytes), operator="copy", kernel="torch-neg", format="int64", n=n_bytes)


def copy_calls(n_bytes: int) -> Calls:
    values = n_bytes // 8
    pairs = [[torch.randint(9, (values,), device=DEVICE) for _ in range(2)] for _ in range(n_copies(2 * n_bytes))]
    return [partial(torch.neg, a, out=b) for a, b in pairs]


def convolution(sheet: Sheet) -> None:
    conv = import_module("fla.modules.causal_conv1d").causal_conv1d
    channels = 3 * KDA_HEADS * HEAD_DIM
    weight = normal(channels, 4)
    row = {"operator": "short_conv", "model": "kimi-linear-48b", "phase": "prefill", "kernel": "fla-causal-conv1d"}
    for tokens in (1024, 4096, 16384, 65536):
        call = partial(conv, normal(1, tokens, channels), weight, activation="silu")
        compile_ahead([call])
        sheet.time(lambda call=call: [call], tokens=tokens, **row)


SECTIONS: tuple[tuple[Callable[[Sheet], None], float], ...] = (
    (memory, 10.0),
    (flash_kda, 40.0),
    (kda, 180.0),
    (attention, 50.0),
    (decode_attention, 40.0),
    (grouped, 60.0),
    (dense, 80.0),
    (gdn, 60.0),
    (convolution, 20.0),
)
"""In order, with the most seconds that each may take."""


def described() -> str:
    """The machine and what ran on it."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm,power.limit", "--format=csv,noheader"]
    lines = [subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()]
    lines.append(f"CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}")
    for name in ("torch", "triton", "fla-core", "fa3-fwd", "vllm"):
        try:
            lines.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            lines.append(f"{name} not installed")
    return "; ".join(lines)


def main() -> str | None:
    """Measures all sections; says which failed, for the shell too."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=420.0, help="of all sections together")
    parser.add_argument("--only", nargs="*", help="names of sections")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    said(described())
    sheet, failed = Sheet(arguments.out, STARTED_S + arguments.seconds), []
    for section, limit_s in SECTIONS:
        if arguments.only and section.__name__ not in arguments.only:
            continue
        said(f"section {section.__name__}")
        sheet.begin(limit_s)
        try:
            with torch.inference_mode():
                section(sheet)
        except TimeUpError:
            said(f"section {section.__name__} is out of time")
        except Exception:  # what the others measure is not lost
            traceback.print_exc()
            failed.append(section.__name__)
        torch.cuda.empty_cache()
    return f"failed: {', '.join(failed)}" if failed else None


STARTED_S = time.monotonic()

if __name__ == "__main__":
    sys.exit(main())
