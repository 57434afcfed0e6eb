"""Seconds of forward passes: the roofline per operator, then latencies, collectives and overheads."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.roofline.factors import Factors, Value
from planner.roofline.operator import FloatArray
from planner.roofline.rank_work import (
    ATTENTION,
    COLLECTIVE,
    EXCHANGE,
    GEMM,
    GROUPED,
    MOE,
    RECURRENCE,
    REPLICAS,
    RankWork,
)

Bound = Literal["compute", "memory", "network", "overhead"]
FEWEST_MEASURED_ROWS = 256.0
"""Heights of dense products from which on fractions of the peak were measured; of experts fewer rows were, and their
fractions have what tiles waste in them."""
BOUNDS: tuple[Bound, ...] = ("compute", "memory", "network", "overhead")


@dataclass(frozen=True, eq=False)
class PassTime:
    """Seconds by what they are bound by; arrays of one value per pass."""

    compute_s: FloatArray
    """Operators whose products, or dependent chunks, take longer than their bytes [s]."""
    memory_s: FloatArray
    """Operators whose bytes take longer [s]."""
    network_s: FloatArray
    """Collectives [s]."""
    overhead_s: FloatArray
    """Kernel latencies, the host, and what a step costs whatever it does [s]."""

    @property
    def total_s(self) -> FloatArray:
        """Seconds of the pass [s]."""
        return self.compute_s + self.memory_s + self.network_s + self.overhead_s

    @property
    def bound(self) -> NDArray[np.str_]:
        """The largest part of each pass."""
        return np.asarray(np.asarray(BOUNDS)[np.argmax(np.stack(self._parts), axis=0)])

    def __add__(self, other: "PassTime") -> "PassTime":
        """One pass after another."""
        return PassTime(*(mine + theirs for mine, theirs in zip(self._parts, other._parts, strict=True)))

    def times(self, factor: ArrayLike) -> "PassTime":
        """The pass repeated, or a share of it."""
        f = np.asarray(factor, float)
        return PassTime(*(part * f for part in self._parts))

    def summed(self, index: NDArray[np.intp], n: int) -> "PassTime":
        """Passes added up by an index from 0 to n - 1."""
        return PassTime(*(_sums(index, part, n) for part in self._parts))

    @property
    def _parts(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        return self.compute_s, self.memory_s, self.network_s, self.overhead_s


def operator_seconds(work: RankWork, factors: Factors) -> tuple[FloatArray, FloatArray]:
    """Seconds of each entry's products and of its bytes, over all layers.

    Equation:
        products: FLOP / (peak e f) p(m), or the dependent chunks if longer; see `KernelRate` for accelerators whose
        kernels were not measured; p(m) = (1 + tile / 2m) / (1 + tile / 2M) below M = 256 rows, above which the measured
        fractions have what tiles waste in them;
        bytes: weights / (bandwidth e_w w) + activations a / bandwidth + cache / (bandwidth e_kv f_kv);
        e, e_w and e_kv measured on the accelerator, f, w, a and tile factors of the stack

    Args:
        work: entries.
        factors: the stack's.

    Returns:
        Compute and memory seconds [s], one value per entry.

    Source:
        Williams et al. 2009 (roofline); a product padded to tiles wastes half a tile on average.
    """
    kinds, index = work.work_class, work.pass_index
    efficiency = np.ones_like(work.rows)
    for kind, value in (
        (GEMM, factors.gemm_efficiency),
        (MOE, factors.moe_efficiency),
        (ATTENTION, factors.attention_efficiency),
        (RECURRENCE, factors.recurrence_efficiency),
    ):
        efficiency = np.where(kinds == kind, _per_entry(value, index), efficiency)
    half_tile = np.where((kinds == GEMM) | (kinds == GROUPED), _per_entry(factors.tile_rows, index) / 2, 0.0)
    fewer = np.clip(work.rows, 1e-9, FEWEST_MEASURED_ROWS)
    padded = (1.0 + half_tile / fewer) / (1.0 + half_tile / FEWEST_MEASURED_ROWS)
    products = np.maximum(work.fixed_s + work.kernel_s / efficiency, work.ceiling_s) * padded
    compute = np.maximum(products, work.serial_s / efficiency)
    memory = (
        work.weight_s / _per_entry(factors.weight_read_fraction, index)
        + work.activation_s * _per_entry(factors.activation_traffic, index)
        + work.kv_s / _per_entry(factors.kv_read_efficiency, index)
    )
    return work.n_layers * compute, work.n_layers * memory


def pass_time(
    work: RankWork, factors: Factors, n_sequences: ArrayLike = 1.0, *, eager: bool = False, overlap: Value = 0.0
) -> PassTime:
    """Seconds of each pass.

    Equation:
        device = sum of max(products, bytes) + kernels latency + collectives;
        host = host step + host_seq n + launch kernels, launches only where no graph replays them;
        with two micro-batches device = max(A, N) + (1 - overlap) min(A, N) where that is less than A' + N: N the
        exchange with experts, A' all else and A the same with weights read and kernels launched for each half;
        step = (device^3 + host^3)^(1/3) + overhead + overhead_seq n: the longer of the two, and somewhat more where
        they are alike, since neither ever waits for exactly nothing

    Args:
        work: entries of the passes.
        factors: the stack's.
        n_sequences: sequences n of each pass.
        eager: whether the host launches every kernel, as in passes with prefill, rather than replay a graph.
        overlap: part of the exchange with experts that two micro-batches hide, a number or one per pass; 0: there is
            one batch.

    Returns:
        Seconds by what binds; one value per pass.

    Valid:
        Operators follow one another; no overlap of products with other collectives.

    Source:
        Williams et al. 2009 (roofline); Vidur (2024) and AIConfigurator (2025) sum operators likewise.
    """
    compute, memory = operator_seconds(work, factors)
    index, n = work.pass_index, work.n_passes
    longer = compute >= memory
    latency = work.n_layers * work.n_kernels * _per_entry(factors.kernel_latency_s, index)
    own = work.n_layers * (work.transfer_s + work.latency_s * _per_entry(factors.collective_latency, index))
    network = np.where((work.work_class == COLLECTIVE) | (work.work_class == EXCHANGE), own, 0.0)
    replicas = work.n_layers * _per_entry(factors.replica_latency_s, index)
    network = network + np.where(work.work_class == REPLICAS, replicas, 0.0)
    compute_s = _sums(index, np.where(longer, compute, 0.0), n)
    memory_s = _sums(index, np.where(longer, 0.0, memory), n)
    network_s = _sums(index, network, n)
    latency_s = _sums(index, latency, n)
    if np.any(np.asarray(overlap) > 0):
        hidden_s = _hidden_s(work, factors, (compute, memory, latency), overlap)
        network_s = network_s - hidden_s
    sequences = np.asarray(n_sequences, float)
    device = compute_s + memory_s + network_s + latency_s
    host = factors.host_step_s + factors.host_sequence_s * sequences
    if eager:
        host = host + factors.eager_launch_s * _sums(index, work.n_layers * work.n_kernels, n)
    idle = np.cbrt(device**3 + host**3) - device
    after = factors.step_overhead_s + factors.sequence_overhead_s * sequences
    return PassTime(compute_s, memory_s, network_s, latency_s + idle + after)


def _hidden_s(
    work: RankWork, factors: Factors, once: tuple[FloatArray, FloatArray, FloatArray], overlap: Value
) -> FloatArray:
    """Seconds of a pass that two micro-batches save over one batch, never below 0.

    Equation:
        overlap min(A, N) - (A - A'), see `pass_time`: the two take A + N - overlap min(A, N) where one takes A' + N
    """
    (compute, memory, latency), index, n = once, work.pass_index, work.n_passes
    is_exchange = work.work_class == EXCHANGE
    own = work.n_layers * (work.transfer_s + work.latency_s * _per_entry(factors.collective_latency, index))
    exchange_s = _sums(index, np.where(is_exchange, own, 0.0), n)
    weights = work.n_layers * work.weight_s / _per_entry(factors.weight_read_fraction, index)
    one_s = _sums(index, np.maximum(compute, memory) + latency, n)
    two_s = _sums(index, np.maximum(compute, memory + weights) + 2 * latency, n)
    return np.maximum(overlap * np.minimum(two_s, exchange_s) - (two_s - one_s), 0.0)


def _sums(index: NDArray[np.intp], values: FloatArray, n: int) -> FloatArray:
    """Sums of values by an index from 0 to n - 1."""
    return np.bincount(index, values, n).astype(float, copy=False)


def _per_entry(value: Value, index: NDArray[np.intp]) -> Value:
    return value if np.ndim(value) == 0 else np.asarray(value)[index]
