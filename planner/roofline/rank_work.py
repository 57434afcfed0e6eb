"""What one rank of an instance does in a pass: operators shared out by the layout, timed at an accelerator's rates.

Kept flat, one entry per operator and pass, so that passes of any models and accelerators can be timed at once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from planner.profiles import MixtureOfExperts, ModelProfile
from planner.profiles.parameters import known
from planner.roofline.chip import Chip, KernelRate
from planner.roofline.layout import Layout
from planner.roofline.mlp import distinct_experts
from planner.roofline.operator import ACTIVATION_BYTES, FloatArray, Operator
from planner.roofline.operators import pass_operators
from planner.roofline.sequences import Sequences
from planner.roofline.weights import UNQUANTIZED_BYTES, bytes_per_weight

GEMM, MOE, ATTENTION, RECURRENCE, OTHER, COLLECTIVE, REPLICAS = range(7)
CLASS_OF = {"gemm": GEMM, "moe": MOE, "attention": ATTENTION, "recurrence": RECURRENCE}
KERNELS = {"moe": 2.0, "attention": 2.0, "recurrence": 2.0}
"""Kernels of an operator: experts sort or sum tokens, attention turns and stores keys; all others have one."""
QUANTIZE_KERNELS = 1.0
"""One more where a product's inputs must be quantised first."""
SPLIT_BY_ROWS = ("o_proj", "out_proj", "down_proj", "experts_down", "shared_down_proj")
"""Products whose depth the ranks share; the others share their columns."""
FORMAT_OF_BYTES = {2.0: "bf16", 1.0: "fp8"}
STAGE_LATENCY_S = 10e-6
"""Sending activations from one pipeline stage to the next."""


@dataclass(frozen=True, eq=False)
class RankWork:
    """Entries of passes on one rank, each of all layers that have the operator; arrays are flat and of one length."""

    n_passes: int
    pass_index: NDArray[np.intp]
    """Pass of each entry."""
    name: NDArray[np.str_]
    """Operator, or collective."""
    work_class: NDArray[np.intp]
    """GEMM, MOE, ATTENTION, RECURRENCE, OTHER, COLLECTIVE or REPLICAS."""
    n_layers: FloatArray
    """Times the entry happens in a pass."""
    n_kernels: FloatArray
    """Kernels each time."""
    fixed_s: FloatArray
    """Products, the part that no stack changes; negative where an accelerator's loss exceeds the typical [s]."""
    kernel_s: FloatArray
    """Products at the kernel's measured rate, which a stack's efficiency divides [s]."""
    ceiling_s: FloatArray
    """Products at the best rate of any kernel [s]."""
    rows: FloatArray
    """Height of the products, for padding [rows]."""
    serial_s: FloatArray
    """Dependent chunks one after another, whatever the number of ranks [s]."""
    weight_s: FloatArray
    """Weights at the peak memory bandwidth [s]."""
    activation_s: FloatArray
    """Activations at the peak memory bandwidth [s]."""
    kv_s: FloatArray
    """Cache and state at the measured rate [s]."""
    transfer_s: FloatArray
    """Bytes of a collective at the measured rate [s]."""
    latency_s: FloatArray
    """Latency of a collective at the accelerator's own [s]."""
    flop: FloatArray
    """For the roofline figure: operations [FLOP]."""
    moved_bytes: FloatArray
    """For the roofline figure: bytes of memory [B]."""

    @staticmethod
    def joined(works: Iterable["RankWork"]) -> "RankWork":
        """All passes of several, in order."""
        items = tuple(works)
        starts = np.cumsum([0, *(item.n_passes for item in items)])
        indices = [item.pass_index + start for item, start in zip(items, starts, strict=False)]
        arrays = {
            field.name: np.concatenate([getattr(item, field.name) for item in items])
            for field in fields(RankWork)
            if field.name not in ("n_passes", "pass_index")
        }
        return RankWork(n_passes=int(starts[-1]), pass_index=np.concatenate(indices), **arrays)


def rank_work(
    model: ModelProfile,
    chip: Chip,
    layout: Layout,
    parts: Sequence[Sequences],
    *,
    precision: str | None = None,
    kv_precision: str = "bf16",
) -> RankWork:
    """Work of the busiest rank in forward passes over sequences.

    Equation:
        attention and what feeds it: an even share of the sequences per replica, of the heads per rank;
        dense MLPs: columns over all ranks of a stage; experts: tokens over all ranks, weights of the experts that the
        rank holds; all-reduce after attention and after the MLP: 2 (n - 1) / n bytes over the bus bandwidth. Attention
        replicas with experts dealt out dispatch and combine instead: each token goes to the groups of its experts.
        Stages follow one another, so that a pass goes through all layers

    Args:
        model: a model whose shapes are known.
        chip: rates of the accelerator.
        layout: parallel sizes.
        parts: sequences of the passes over all replicas; shapes that broadcast together.
        precision: number format of the weights; None: the checkpoint's own.
        kv_precision: number format of the attention cache.

    Returns:
        Entries; the passes in the order of the raveled shape.

    Raises:
        InputError: a shape of the model or a figure of the accelerator is unknown.

    Valid:
        Experts as likely as one another; replicas as full as one another.

    Source:
        Megatron-LM (2019) for tensor parallelism; DeepSeek-V3 (2024), section 3.4, for attention replicas.

    >>> from planner.profiles import hardware_profile, model_profile
    >>> chip, model = Chip(hardware_profile("h200-sxm")), model_profile("llama-3.1-70b")
    >>> work = rank_work(model, chip, Layout(tp_size=8), [Sequences.decode([1, 64], 4096)])
    >>> [float(x) for x in (work.n_layers * work.weight_s).reshape(-1, 2).sum(axis=0).round(4)]
    [0.0036, 0.0036]
    """
    counted = tuple(pass_operators(model, parts, precision=precision, kv_precision=kv_precision))
    local = counted
    if layout.dp_size > 1:
        shares = [_share(part, layout.dp_size) for part in parts]
        local = tuple(pass_operators(model, shares, precision=precision, kv_precision=kv_precision))
    builder = _Builder(model, chip, layout, precision)
    for operator, own in zip(counted, local, strict=True):
        builder.add(operator if _is_of_all_replicas(operator) else own)
    rows = np.asarray(sum(part.rows for part in parts), float)
    builder.add_collectives(rows)
    return builder.work()


def _share(part: Sequences, dp_size: int) -> Sequences:
    """Sequences of the fullest replica: an even share, but a whole one at least."""
    n = np.minimum(part.n_sequences, np.maximum(part.n_sequences / dp_size, 1.0))
    return Sequences(part.phase, n, part.new_tokens, part.cached_tokens)


def _is_of_all_replicas(operator: Operator) -> bool:
    """Whether attention replicas share the operator: MLPs and experts, not attention or the vocabulary."""
    return operator.split in ("experts", "columns") or operator.part in ("shared_experts", "latent", "dense_mlp")


class _Builder:
    """Collects entries for one chip and layout."""

    def __init__(self, model: ModelProfile, chip: Chip, layout: Layout, precision: str | None) -> None:
        self.model, self.chip, self.layout, self.precision = model, chip, layout, precision
        self.columns: dict[str, list[NDArray[np.generic]]] = {}
        self.n_passes = 1

    def add(self, operator: Operator) -> None:
        chip = self.chip
        work_class = CLASS_OF.get(operator.kind, OTHER)
        products = self._product_format(operator)
        share, kv_share = self._shares(operator)
        flop = operator.flop * share
        memory = chip.memory_bytes_per_s
        activations = self._activation_bytes(operator, share)
        moved = operator.weight_bytes * share + activations + operator.kv_bytes * kv_share
        rows = operator.gemm.m if operator.gemm else np.ones_like(operator.flop)
        ideal = flop / chip.peak_flop_per_s(products)
        fixed, kernel = self._rate(operator, products, rows).seconds(ideal, chip.ceiling)
        self._append(
            operator.name,
            work_class,
            n_layers=float(operator.n_layers),
            n_kernels=self._n_kernels(operator),
            fixed_s=fixed,
            kernel_s=kernel,
            ceiling_s=ideal / chip.ceiling,
            rows=rows,
            serial_s=np.zeros_like(flop) if operator.serial_steps is None else self._serial_s(operator),
            weight_s=operator.weight_bytes * share / memory,
            activation_s=activations / memory,
            kv_s=operator.kv_bytes * kv_share / (memory * self._kv_fraction(operator)),
            flop=flop,
            moved_bytes=moved,
        )

    def add_collectives(self, rows: FloatArray) -> None:
        layout, architecture = self.layout, self.model.architecture
        hidden = known(architecture.hidden_size, "hidden_size")
        n_mixers = sum(group.n_layers for group in architecture.attention)
        n_mlps = architecture.n_sparse_layers + architecture.n_dense_layers
        own = ACTIVATION_BYTES * hidden * rows
        if layout.tp_size > 1:
            per_replica = np.maximum(own / layout.dp_size, np.minimum(own, ACTIVATION_BYTES * hidden))
            self._append_collective("all_reduce_attention", n_mixers, layout.tp_size, per_replica)
        if layout.dp_size > 1 and layout.ep_size > 1 and architecture.moe:
            self._append_dispatch(architecture.n_sparse_layers, architecture.moe, own)
            n_mlps = architecture.n_dense_layers
        if layout.stage_size > 1 and n_mlps:
            self._append_collective("all_reduce_mlp", n_mlps, layout.stage_size, own)
        if layout.dp_size > 1:
            n_all = architecture.n_sparse_layers + architecture.n_dense_layers
            self._append("replicas", REPLICAS, n_layers=float(n_all), n_kernels=0.0, shape_of=rows)
        if layout.pp_size > 1:
            rate = self.chip.collective_bytes_per_s(layout.n_accelerators)
            self._append(
                "stage_hand_over",
                COLLECTIVE,
                n_layers=layout.pp_size - 1.0,
                n_kernels=0.0,
                transfer_s=own / rate,
                latency_s=np.full_like(rows, STAGE_LATENCY_S if self.chip.derated else 0.0),
            )

    def work(self) -> RankWork:
        joined = {name: np.concatenate(parts) for name, parts in self.columns.items()}
        return RankWork(n_passes=self.n_passes, **joined)

    def _append_collective(self, name: str, n_layers: int, n_ranks: int, n_bytes: FloatArray) -> None:
        rate = self.chip.collective_bytes_per_s(n_ranks)
        self._append(
            name,
            COLLECTIVE,
            n_layers=float(n_layers),
            n_kernels=0.0,
            transfer_s=2 * (n_ranks - 1) / n_ranks * n_bytes / rate,
            latency_s=np.full_like(n_bytes, self.chip.collective_latency_s(n_ranks)),
        )

    def _append_dispatch(self, n_layers: int, moe: MixtureOfExperts, own: FloatArray) -> None:
        """Each rank sends its share of the tokens to the groups that hold their experts, and gets the sums back."""
        layout, n = self.layout, self.layout.stage_size
        copies = float(distinct_experts(layout.ep_size, 1, moe.n_experts_per_token))
        sent = 2 * own / n * copies * (n - 1) / n
        rate = self.chip.dispatch_bytes_per_s(n)
        self._append(
            "expert_dispatch",
            COLLECTIVE,
            n_layers=float(n_layers),
            n_kernels=0.0,
            transfer_s=sent / rate,
            latency_s=np.full_like(own, 2 * self.chip.collective_latency_s(n)),
        )

    def _append(
        self,
        name: str,
        work_class: int,
        *,
        n_layers: float,
        n_kernels: float,
        shape_of: FloatArray | None = None,
        **arrays: FloatArray,
    ) -> None:
        """One entry per pass; columns that are not given are zero."""
        shape = np.shape(next(iter(arrays.values())) if shape_of is None else shape_of)
        self.n_passes = n = int(np.prod(shape))
        row: dict[str, NDArray[np.generic]] = {
            "pass_index": np.arange(n),
            "name": np.full(n, name),
            "work_class": np.full(n, work_class),
            "n_layers": np.full(n, n_layers),
            "n_kernels": np.full(n, n_kernels),
        }
        for field in fields(RankWork):
            if field.name not in (*row, "n_passes"):
                row[field.name] = np.broadcast_to(arrays.get(field.name, 0.0), shape).ravel()
        for key, values in row.items():
            self.columns.setdefault(key, []).append(values)

    def _shares(self, operator: Operator) -> tuple[float, float]:
        """Parts of an operator's work and of its cache that one rank has."""
        layout = self.layout
        if operator.split == "none":
            return 1.0, 1.0
        ranks = layout.stage_size if _is_of_all_replicas(operator) else layout.tp_size
        share = 1 / min(ranks, operator.n_shards or ranks)
        return share, 1 / min(ranks, operator.n_kv_shards or ranks)

    def _activation_bytes(self, operator: Operator, share: float) -> FloatArray:
        """Inputs and outputs of a rank: a product split by columns reads its whole input, one split by rows writes its
        whole output, whatever the number of ranks."""
        gemm = operator.gemm
        if gemm is None or operator.split not in ("heads", "columns", "experts"):
            return operator.activation_bytes * share
        n_dealt = self.layout.ep_size if operator.split == "experts" else 1
        rows, narrow = gemm.m * gemm.n_products / n_dealt, share * n_dealt
        if operator.n_shards is not None:  # products of single heads: whole ones on each rank
            return operator.activation_bytes * share
        by_rows = operator.name in SPLIT_BY_ROWS
        return ACTIVATION_BYTES * rows * (gemm.n * (1.0 if by_rows else narrow) + gemm.k * (narrow if by_rows else 1.0))

    def _product_format(self, operator: Operator) -> str:
        """Format of an operator's products: its weights', where they are quantised; attention runs in bf16."""
        return self.chip.product_format(self._weight_format(operator))

    def _weight_format(self, operator: Operator) -> str:
        if operator.part is None or operator.gemm is None:
            return "bf16"
        width = bytes_per_weight(self.model, operator.part, self.precision)
        if width == UNQUANTIZED_BYTES:
            return "bf16"
        named = self.precision or self.model.precision
        return named if named in ("int4", "int8", "fp4") else FORMAT_OF_BYTES.get(width, "fp8")

    def _n_kernels(self, operator: Operator) -> float:
        weights = self._weight_format(operator)
        # Where products run wider than the weights, these are expanded inside the product and inputs stay as they are.
        quantises = operator.gemm is not None and weights != "bf16" and self.chip.product_format(weights) == weights
        return KERNELS.get(operator.kind, 1.0) + QUANTIZE_KERNELS * quantises * self.chip.derated

    def _rate(self, operator: Operator, products: str, rows: FloatArray) -> KernelRate:
        match operator.kind:
            case "gemm":
                return self.chip.gemm_rate(products, rows)
            case "moe":
                return self.chip.moe_rate(products, rows)
            case "recurrence":
                return self.chip.kernel_rate("recurrence")
            case _:
                return self.chip.kernel_rate("attention_prefill")

    def _kv_fraction(self, operator: Operator) -> float:
        return self.chip.read_fraction("recurrence_decode" if operator.kind == "recurrence" else "attention_decode")

    def _serial_s(self, operator: Operator) -> FloatArray:
        steps = operator.serial_steps
        return np.zeros_like(operator.flop) if steps is None else steps * self.chip.recurrence_chunk_s
