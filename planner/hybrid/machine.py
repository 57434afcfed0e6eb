"""Speed of one core of this machine, or its device: rate of products by height, memory bandwidth, calls, loopback.

Called inside workers, all of them at the same time: cores share memory, cache and clock. Seconds are busy ones, in
which the worker's thread ran; but for the loopback, where threads wait for each other, and for a device, which the
thread waits for. Arrays are of the library and on the device of the worker's model.
"""

import os
import platform
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from planner.hybrid.arrays import HOST, NUMPY, Backend, FloatArray, busy_clock_s, from_host, n_values, namespace
from planner.hybrid.delta_rule import CHUNK_TOKENS as DELTA_CHUNK
from planner.hybrid.delta_rule import chunked_delta_rule, delta_step
from planner.hybrid.mla import QUERY_TOKENS
from planner.hybrid.mlp import SparseMlp
from planner.hybrid.model import HybridModel
from planner.hybrid.numerics import softmax_in_place, unit_rows
from planner.hybrid.products import Products
from planner.hybrid.wire import BF16_BYTES

GEMM_ROWS = (1, 2, 4, 16, 64, 256, 1536, 4096)
STREAMED_ROWS = 256
"""Products of fewer rows are timed with weights that no cache holds, as a pass meets them."""
GEMM_SHAPES = ((512, 512), (512, 2048), (2048, 512), (1024, 1024))
"""Depth and columns of the products that are timed."""
STREAM_BYTES = 96 * 2**20
"""Of weights walked through, more than a core's own caches hold."""
LOOPBACK_BYTES = 48 * 2**20
LEAST_TIMED_S = 0.02
FP32_BYTES = 4


@dataclass(frozen=True)
class CoreRates:
    """Measured on one core, the others as busy."""

    gemm_flop_per_s: dict[int, float]
    """Rate of fp32 products by rows, mean time over shapes; weights streamed, so that few rows are bound by memory."""
    peak_flop_per_s: float
    """Best rate of any of them."""
    memory_bytes_per_s: float
    """Best of reading weights for one row and of copying, reads and writes both counted."""
    call_s: float
    """One call of the library on a single value."""
    loopback_bytes_per_s: float
    """TCP over 127.0.0.1, both ends on this core."""


@dataclass(frozen=True)
class MachineDescription:
    """Facts that a reader must know of the machine."""

    processor: str
    system: str
    python: str
    numpy: str
    n_cores: int
    """Cores that this process may use."""
    memory_bytes: int
    """Physical memory [B]."""
    torch: str | None = None
    """Version of torch, where it computes."""
    device: str | None = None
    """Name of the device that computes; None: the cores do."""
    device_memory_bytes: int | None = None
    """Its memory [B]."""


def machine_description(backend: Backend = NUMPY) -> MachineDescription:
    """This machine in words, and the device that the backend computes on."""
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return MachineDescription(
        _processor(),
        f"{platform.system()} {platform.release().partition('-')[0]}",
        platform.python_version(),
        np.__version__,
        n_cores,
        memory,
        *_device(backend),
    )


def _device(backend: Backend) -> tuple[str | None, str | None, int | None]:
    """Version of torch; name and memory of its device."""
    if backend.name == "numpy":
        return None, None, None
    import torch

    if backend.device == "cpu":
        return torch.__version__, None, None
    found = torch.cuda.get_device_properties(backend.device)
    return torch.__version__, found.name, found.total_memory


def _processor() -> str:
    """The processor's name where the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def core_rates(model: HybridModel) -> CoreRates:
    """A task for a worker: rates of its core, or of the device that its model is on."""
    like = model.embedding
    by_shape = {rows: [gemm_flop_per_s(rows, *shape, like) for shape in GEMM_SHAPES] for rows in GEMM_ROWS}
    return CoreRates(
        # Times add up, not rates: the harmonic mean.
        gemm_flop_per_s={rows: float(len(rates) / np.sum(1 / np.array(rates))) for rows, rates in by_shape.items()},
        peak_flop_per_s=max(map(max, by_shape.values())),
        memory_bytes_per_s=max(_read_bytes_per_s(like), _copy_bytes_per_s(like)),
        call_s=_call_s(like),
        loopback_bytes_per_s=loopback_bytes_per_s(),
    )


def gemm_flop_per_s(rows: int, depth: int, columns: int, like: FloatArray = HOST) -> float:
    """Rate of [rows, depth] x [depth, columns] in fp32, another matrix of weights each time."""
    n = max(STREAM_BYTES // (FP32_BYTES * depth * columns), 1) if rows < STREAMED_ROWS else 2
    xp, weights = namespace(like), _ones(like, n, depth, columns)
    x, out = _ones(like, rows, depth), _ones(like, rows, columns)
    index = [0]

    def once() -> None:
        xp.matmul(x, weights[index[0] % n], out=out)
        index[0] += 1

    return 2 * rows * depth * columns / call_seconds(once, like)


def _ones(like: FloatArray, *shape: int) -> FloatArray:
    return from_host(np.ones(shape, np.float32), like)


def call_seconds(call: Callable[[], object], like: FloatArray = HOST) -> float:
    """Busy seconds of a call: median over batches of calls, each batch long enough to be timed."""
    call()
    n = 1
    while (took := _batch_s(call, n, like)) < LEAST_TIMED_S:
        n *= 2
    return float(np.median([took, *(_batch_s(call, n, like) for _ in range(4))])) / n


def _batch_s(call: Callable[[], object], n: int, like: FloatArray) -> float:
    began = busy_clock_s(like)
    for _ in range(n):
        call()
    return busy_clock_s(like) - began


def _read_bytes_per_s(like: FloatArray) -> float:
    """Weights read for one row."""
    rate = gemm_flop_per_s(1, 1024, 1024, like)
    return rate / 2 * FP32_BYTES


def _copy_bytes_per_s(like: FloatArray) -> float:
    n = STREAM_BYTES // FP32_BYTES // 2
    source, target = _ones(like, n), _ones(like, n)
    return 2 * FP32_BYTES * n / call_seconds(lambda: target.__setitem__(slice(None), source), like)


def _call_s(like: FloatArray) -> float:
    xp, one = namespace(like), _ones(like, 1)
    return call_seconds(lambda: xp.multiply(one, one, out=one), like)


def loopback_bytes_per_s() -> float:
    """TCP over 127.0.0.1 from one thread to another."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    with sender, receiver:
        began = perf_counter()
        thread = threading.Thread(target=sender.sendall, args=(bytes(LOOPBACK_BYTES),))
        thread.start()
        got = 0
        while got < LOOPBACK_BYTES:
            got += len(receiver.recv(2**20))
        thread.join()
        return LOOPBACK_BYTES / (perf_counter() - began)


@dataclass(frozen=True)
class KernelRates:
    """Rates that kernels of this room reach on one core; of closed forms, without what is masked."""

    attention_flop_per_s: float
    """Prefill attention, softmax included."""
    attention_read_bytes_per_s: float
    """Latents attended to by one query of all heads, in bytes of a 16-bit cache."""
    moe_flop_per_s: float
    """Routed experts with sorting and summing."""
    recurrence_flop_per_s: float
    """Delta rule by chunks, of 6 d^2 + 5 C d + C^2 FLOP per token and head."""
    state_bytes_per_s: float
    """Delta rule by token: states read and written."""


KERNEL_HEADS, KERNEL_DIM, KERNEL_TOKENS, KERNEL_BATCH = 4, 64, 1024, 8


def kernel_rates(model: HybridModel) -> KernelRates:
    """A task for a worker: rates of the kernels that are no plain products, at shapes of no model in particular."""
    draw = Drawing(np.random.default_rng(0), model.embedding)
    return KernelRates(
        _attention_flop_per_s(draw),
        _attention_read_bytes_per_s(draw),
        _moe_flop_per_s(draw),
        _recurrence_flop_per_s(draw),
        _state_bytes_per_s(draw),
    )


@dataclass(frozen=True, eq=False)
class Drawing:
    """Makes arrays of normal values in a library and on a device."""

    rng: np.random.Generator
    like: FloatArray

    def __call__(self, *shape: int) -> FloatArray:
        """Values of one shape."""
        return from_host(self.rng.standard_normal(shape, np.float32), self.like)

    def decays(self, *shape: int) -> FloatArray:
        """Log decays, at most 0."""
        return from_host(-np.abs(self.rng.standard_normal(shape, np.float32)), self.like)

    def filled(self, value: float, *shape: int) -> FloatArray:
        """One value everywhere."""
        return from_host(np.full(shape, value, np.float32), self.like)


def _attention_flop_per_s(draw: Drawing) -> float:
    """One block of queries after many keys, as it is in the midst of a long prompt."""
    q = draw(KERNEL_HEADS, QUERY_TOKENS, KERNEL_DIM)
    k, v = draw(KERNEL_HEADS, KERNEL_TOKENS, KERNEL_DIM), draw(KERNEL_HEADS, KERNEL_TOKENS, KERNEL_DIM)
    took = call_seconds(lambda: softmax_in_place(q @ k.swapaxes(-1, -2)) @ v, draw.like)
    return 4 * KERNEL_HEADS * QUERY_TOKENS * KERNEL_TOKENS * KERNEL_DIM / took


def _attention_read_bytes_per_s(draw: Drawing) -> float:
    latents, q = draw(KERNEL_TOKENS, 4 * KERNEL_DIM), draw(KERNEL_HEADS, 4 * KERNEL_DIM)
    took = call_seconds(lambda: softmax_in_place(q @ latents.T) @ latents, draw.like)
    return BF16_BYTES * n_values(latents) / took


def _moe_flop_per_s(draw: Drawing) -> float:
    n, hidden, width, per_token = 16, 512, 256, 4
    weights = draw(n, hidden, 2 * width), draw(n, width, hidden)
    mlp = SparseMlp(draw(hidden, n), None, *weights, shared=None, n_experts_per_token=per_token)
    x = draw(KERNEL_TOKENS, hidden) / 100
    took = call_seconds(lambda: mlp(Products(), x), draw.like)
    return 6 * KERNEL_TOKENS * per_token * hidden * width / took


def _recurrence_flop_per_s(draw: Drawing) -> float:
    shape, d = (KERNEL_HEADS, KERNEL_TOKENS, KERNEL_DIM), KERNEL_DIM
    state = draw.filled(0, KERNEL_HEADS, d, d)
    q, k, v = draw(*shape), unit_rows(draw(*shape)), draw(*shape)
    decay, beta = draw.decays(*shape) / 10, draw.filled(0.5, *shape[:2])
    took = call_seconds(lambda: chunked_delta_rule(Products(), state, q, k, v, decay, beta), draw.like)
    per_token = 6 * d * d + 5 * DELTA_CHUNK * d + DELTA_CHUNK**2
    return KERNEL_HEADS * KERNEL_TOKENS * per_token / took


def _state_bytes_per_s(draw: Drawing) -> float:
    shape = (KERNEL_BATCH, KERNEL_HEADS, KERNEL_DIM)
    state = draw.filled(0, *shape, KERNEL_DIM)
    q, k, v = draw(*shape), unit_rows(draw(*shape)), draw(*shape)
    decay, beta = draw.decays(*shape), draw.filled(0.5, *shape[:2])
    took = call_seconds(lambda: delta_step(Products(), state, q, k, v, decay, beta), draw.like)
    return 2 * FP32_BYTES * n_values(state) / took
