"""Work of one rank of an instance in a pass: operators shared out by the layout, timed at an accelerator's rates.

Kept flat, one entry per operator and pass, so that passes of any models and accelerators can be timed at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from planner.profiles import MixtureOfExperts, ModelProfile
from planner.profiles.projections import required
from planner.roofline.chip import Chip
from planner.roofline.expert_traffic import EVEN_TRAFFIC, ExpertTraffic, exchange_s, sent_values_bytes
from planner.roofline.formats import IN_BF16, ProductFormats
from planner.roofline.kernel_rates import KernelRate
from planner.roofline.layout import Layout
from planner.roofline.mlp import mlp_operators
from planner.roofline.operator import ACTIVATION_BYTES, FloatArray, Operator, is_dense
from planner.roofline.operators import pass_operators
from planner.roofline.sequences import Sequences
from planner.roofline.weights import bytes_per_weight, format_bytes, weight_formats

GEMM, MOE, ATTENTION, RECURRENCE, OTHER, COLLECTIVE, REPLICAS, EXCHANGE, GROUPED = range(9)
CLASS_OF = {"gemm": GEMM, "moe": MOE, "attention": ATTENTION, "recurrence": RECURRENCE}
KERNELS = {"moe": 2.0, "attention": 2.0, "recurrence": 2.0}
"""Kernels of an operator; all others have one. Experts that an exchange deals out sort or sum tokens. Attention turns
and stores keys."""
DECODE_KERNELS = 1.0
"""One more of attention in decode, which splits keys and sums: it starts in 9 to 14 us (AIConfigurator 0.12.0), three
times a dense product."""
PRODUCTS_OF_EXPERTS, KERNELS_BETWEEN_EXPERTS = 2, 1
"""Operators that share the start of a layer's experts, and the activation between them, which is one of its own."""
QUANTIZE_KERNELS = 1.0
"""One more where a product's inputs must be quantised first."""
SPLIT_BY_ROWS = ("o_proj", "out_proj", "down_proj", "experts_down", "shared_down_proj")
"""Products whose depth the ranks share; the others share their columns."""
FOUR_BITS = ("int4", "fp4")
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
    """GEMM, MOE, ATTENTION, RECURRENCE, OTHER, COLLECTIVE, REPLICAS, EXCHANGE or GROUPED."""
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
    """Weights at the measured rate of their format [s]."""
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

    @staticmethod
    def together(works: Iterable["RankWork"]) -> "RankWork":
        """Each pass of the first with the same pass of the others as one: its kernels follow one another at once."""
        items = tuple(works)
        arrays = {
            field.name: np.concatenate([getattr(item, field.name) for item in items])
            for field in fields(RankWork)
            if field.name != "n_passes"
        }
        return RankWork(n_passes=items[0].n_passes, **arrays)

    def repeated(self, n: float) -> "RankWork":
        """Every pass n times within one."""
        return replace(self, n_layers=n * self.n_layers)


INDICES = ("n_passes", "pass_index", "name", "work_class")
COLUMNS = tuple(field.name for field in fields(RankWork) if field.name not in INDICES)
"""Fields with a number for each entry; the others say what it is, and of which pass."""


def rank_work(
    model: ModelProfile,
    chip: Chip,
    layout: Layout,
    parts: Sequence[Sequences],
    *,
    precision: str | None = None,
    kv_precision: str = "bf16",
    traffic: ExpertTraffic = EVEN_TRAFFIC,
    formats: ProductFormats = IN_BF16,
) -> RankWork:
    """Work of the busiest rank in forward passes over sequences.

    Equation:
        attention and what feeds it: an even share of the sequences per replica, of the heads per rank;
        experts: tokens over all ranks, weights of the experts that the rank holds, times what the busiest has more;
        dense MLPs and shared experts: columns over the ranks that share them, which are all of a stage, but those of a
        replica, for its own tokens, where experts are dealt out over replicas, unless the layout says otherwise;
        all-reduce after attention and after what several ranks share: 2 (n - 1) / n bytes over the bus bandwidth.
        Experts that are dealt out over replicas: dispatch and combine, see `exchange_s`.
        Stages follow one another, so that a pass goes through all layers

    Args:
        model: a model whose shapes are known.
        chip: rates of the accelerator.
        layout: parallel sizes.
        parts: sequences of the passes over all replicas; shapes that broadcast together.
        precision: number format of the weights; None: the checkpoint's own.
        kv_precision: number format of the attention cache.
        traffic: how experts that are dealt out are run.
        formats: what products run at that the weights' format does not say.

    Returns:
        Entries; the passes in the order of the raveled shape.

    Raises:
        InputError: a shape of the model or a figure of the accelerator is unknown.

    Valid:
        Experts as likely as one another; replicas as full as one another.

    Source:
        Megatron-LM (2019) for tensor parallelism; DeepSeek-V3 (2024), section 3.4, for attention replicas and what
        they compute by themselves.

    >>> from planner.profiles import hardware_profile, model_profile
    >>> chip, model = Chip(hardware_profile("h200-sxm")), model_profile("llama-3.1-70b")
    >>> work = rank_work(model, chip, Layout(tp_size=8), [Sequences.decode([1, 64], 4096)])
    >>> [float(x) for x in (work.n_layers * work.weight_s).reshape(-1, 2).sum(axis=0).round(4)]
    [0.0042, 0.0042]
    """
    counted = tuple(pass_operators(model, parts, precision=precision, kv_precision=kv_precision))
    builder = _Builder(model, chip, layout, precision, traffic, formats, parts)
    rows = _Rows.of(parts, layout, builder.dense_ranks)
    local, dense = counted, {}
    if layout.dp_size > 1:
        shares = [part.on_fullest_replica(layout.dp_size) for part in parts]
        local = tuple(pass_operators(model, shares, precision=precision, kv_precision=kv_precision))
    if builder.dense_ranks != layout.stage_size:
        dense = {operator.name: operator for operator in mlp_operators(model, rows.dense, precision)}
    for operator, own in zip(counted, local, strict=True):
        builder.add(_as_shared(operator, own, dense))
    builder.add_collectives(rows)
    return builder.work()


@dataclass(frozen=True, eq=False)
class _Rows:
    """Tokens of a pass."""

    all: FloatArray
    """Over all replicas."""
    replica: FloatArray
    """On the fullest replica."""
    dense: FloatArray
    """On the ranks that share its dense MLPs, which may be those of several replicas or a part of one's."""

    @classmethod
    def of(cls, parts: Sequence[Sequences], layout: Layout, dense_ranks: int) -> "_Rows":
        def rows(n_replicas: float) -> FloatArray:
            return np.asarray(sum(part.on_fullest_replica(n_replicas).rows for part in parts), float)

        n_sharing = dense_ranks / layout.tp_size
        dense = rows(layout.dp_size / max(n_sharing, 1.0)) * min(n_sharing, 1.0)
        return cls(rows(1.0), rows(layout.dp_size), dense)


def _as_shared(operator: Operator, own: Operator, dense: Mapping[str, Operator]) -> Operator:
    """An operator over the tokens of those who share it: all replicas, those of its dense ranks, or one."""
    if operator.split == "experts":
        return operator
    if is_dense(operator):
        return dense.get(operator.name, operator)
    return own


class _Builder:
    """Collects entries for one chip and layout."""

    def __init__(
        self,
        model: ModelProfile,
        chip: Chip,
        layout: Layout,
        precision: str | None,
        traffic: ExpertTraffic,
        formats: ProductFormats,
        parts: Sequence[Sequences],
    ) -> None:
        self.formats = formats
        self.model, self.chip, self.layout, self.precision, self.traffic = model, chip, layout, precision, traffic
        self.dense_ranks = layout.dense_ranks(model.architecture.moe is not None)
        self.shape = np.broadcast_shapes(*(part.n_sequences.shape for part in parts))
        self.entries: list[tuple[str, int, dict[str, FloatArray | float]]] = []
        self.is_grouped = traffic.is_grouped and layout.deals_out_experts
        self.is_decode = all(part.phase == "decode" for part in parts)
        self.decodes = any(part.phase == "decode" for part in parts)

    def add(self, operator: Operator) -> None:
        """One entry, or several of some of the layers each where its weights have several formats."""
        if operator.part is None or operator.gemm is None:
            self._add(operator, "bf16", 1.0)
            return
        mean = bytes_per_weight(self.model, operator.part, self.precision)
        for name, share in weight_formats(self.model, operator.part, self.precision).items():
            times = format_bytes(self.model, name, self.precision) / mean
            own = operator if times == 1.0 else replace(operator, weight_bytes=operator.weight_bytes * times)
            self._add(own, name, share)

    def _add(self, operator: Operator, weights: str, share_of_layers: float) -> None:
        chip = self.chip
        work_class = CLASS_OF.get(operator.kind, OTHER)
        if work_class == MOE and self.is_grouped:
            work_class = GROUPED
        products = self._product_format(operator, weights)
        share, kv_share = self._shares(operator)
        busiest = self.traffic.imbalance if operator.split == "experts" and self.layout.ep_size > 1 else 1.0
        flop = operator.flop * share * busiest
        memory = chip.memory_bytes_per_s
        activations = self._activation_bytes(operator, share) * busiest
        moved = operator.weight_bytes * share + activations + operator.kv_bytes * kv_share
        rows = operator.gemm.m if operator.gemm else np.ones_like(operator.flop)
        weight_rate = memory * chip.weight_fraction(self._kernel(weights, products), of_experts=operator.kind == "moe")
        peak = chip.peak_flop_per_s(products)
        ideal = flop / peak
        busy = ideal if operator.tiles is None else chip.tiled_s(ideal, operator.tiles, peak)
        fixed, kernel = self._rate(operator, weights, products, rows).seconds(ideal, chip.ceiling, busy)
        self._append(
            operator.name,
            work_class,
            n_layers=operator.n_layers * share_of_layers,
            n_kernels=self._n_kernels(operator, weights),
            fixed_s=fixed,
            kernel_s=kernel,
            ceiling_s=ideal / chip.ceiling,
            rows=rows,
            serial_s=np.zeros_like(flop) if operator.serial_steps is None else self._serial_s(operator),
            weight_s=operator.weight_bytes * share / weight_rate,
            activation_s=activations / memory,
            kv_s=operator.kv_bytes * kv_share / (memory * self._kv_fraction(operator)),
            flop=flop,
            moved_bytes=moved,
        )

    def add_collectives(self, rows: _Rows) -> None:
        layout, architecture, moe = self.layout, self.model.architecture, self.model.architecture.moe
        width = ACTIVATION_BYTES * required(architecture.hidden_size, "hidden_size")
        n_mixers = sum(group.n_layers for group in architecture.attention)
        n_dense, n_sparse = architecture.n_dense_layers, architecture.n_sparse_layers
        self._append_all_reduce("all_reduce_attention", n_mixers, layout.tp_size, width * rows.replica)
        n_gathered = n_dense if self.dense_ranks > layout.tp_size else 0
        if moe is not None and layout.deals_out_experts:
            self._append_exchange(n_sparse, moe, rows.replica)
            n_shared = n_sparse if moe.n_shared_experts else 0
            self._append_all_reduce("all_reduce_mlp", n_dense + n_shared, self.dense_ranks, width * rows.dense)
        else:
            self._append_all_reduce("all_reduce_mlp", n_dense, self.dense_ranks, width * rows.dense)
            self._append_all_reduce("all_reduce_experts", n_sparse, layout.stage_size, width * rows.all)
            n_gathered += n_sparse if layout.dp_size > 1 else 0
        if n_gathered:
            self._append("replicas", REPLICAS, n_layers=float(n_gathered), n_kernels=0.0)
        if layout.pp_size > 1:
            self._append_hand_over(width * rows.all)

    def work(self) -> RankWork:
        n_entries, n_passes = len(self.entries), prod(self.shape)
        columns = {name: np.zeros((n_entries, *self.shape)) for name in COLUMNS}
        for i, (_, _, given) in enumerate(self.entries):
            for name, values in given.items():
                columns[name][i] = values
        names, work_classes, _ = zip(*self.entries, strict=True)
        return RankWork(
            n_passes=n_passes,
            pass_index=np.tile(np.arange(n_passes), n_entries),
            name=np.repeat(np.array(names), n_passes),
            work_class=np.repeat(np.array(work_classes), n_passes),
            **{name: values.ravel() for name, values in columns.items()},
        )

    def _append_hand_over(self, n_bytes: FloatArray) -> None:
        """From stage to stage."""
        self._append(
            "stage_hand_over",
            COLLECTIVE,
            n_layers=self.layout.pp_size - 1.0,
            n_kernels=0.0,
            transfer_s=n_bytes / self.chip.hand_over_bytes_per_s(self.layout.n_accelerators, self.layout.stage_size),
            latency_s=np.full_like(n_bytes, STAGE_LATENCY_S if self.chip.derated else 0.0),
        )

    def _append_all_reduce(self, name: str, n_layers: int, n_ranks: int, n_bytes: FloatArray) -> None:
        if n_ranks == 1 or n_layers == 0:
            return
        rate = self.chip.collective_bytes_per_s(n_ranks)
        self._append(
            name,
            COLLECTIVE,
            n_layers=float(n_layers),
            n_kernels=0.0,
            transfer_s=2 * (n_ranks - 1) / n_ranks * n_bytes / rate,
            latency_s=np.full_like(n_bytes, self.chip.collective_latency_s(n_ranks)),
        )

    def _append_exchange(self, n_layers: int, moe: MixtureOfExperts, rows: FloatArray) -> None:
        """Each rank sends its part of its replica's tokens to the ranks of their experts, and gets the sums back.

        Where they are laid side by side, prompts' tokens are copied once for every expert before its products and
        summed after them; kernels of low latency, in decode, write them where they belong.
        """
        outer = moe.latent_size or required(self.model.architecture.hidden_size, "hidden_size")
        values, n_ranks = rows / self.layout.tp_size * outer, self.layout.stage_size
        network_s = self.chip.exchange_latency_s(n_ranks)
        sent_s = exchange_s(moe, self.chip, self.layout, self.traffic, values, is_decode=self.is_decode)
        self._append(
            "expert_exchange",
            EXCHANGE,
            n_layers=float(n_layers),
            n_kernels=0.0,
            transfer_s=sent_s + 2 * (network_s or 0.0),
            latency_s=np.full_like(rows, 2 * self.chip.collective_latency_s(n_ranks) if network_s is None else 0.0),
        )
        if self.is_grouped and not self.is_decode:
            moved = values * moe.n_experts_per_token * sent_values_bytes(self.traffic)
            self._append(
                "experts_permutation",
                OTHER,
                n_layers=float(n_layers),
                n_kernels=2.0,
                activation_s=moved / self.chip.memory_bytes_per_s,
                moved_bytes=moved,
            )

    def _append(self, name: str, work_class: int, *, n_layers: float, n_kernels: float, **columns: FloatArray) -> None:
        """One entry per pass; columns that are not given are zero."""
        self.entries.append((name, work_class, {"n_layers": n_layers, "n_kernels": n_kernels, **columns}))

    def _shares(self, operator: Operator) -> tuple[float, float]:
        """Parts of an operator's work and of its cache that one rank has."""
        layout = self.layout
        if operator.split == "none":
            return 1.0, 1.0
        ranks = layout.stage_size if operator.split == "experts" else layout.tp_size
        ranks = self.dense_ranks if is_dense(operator) else ranks
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

    def _product_format(self, operator: Operator, weights: str) -> str:
        """Format of an operator's products: its weights' with their inputs', where they are quantised; else bf16."""
        if operator.kind == "attention" and operator.gemm is None:
            return self.chip.product_format(self.formats.attention)
        stored_so = self.precision in (None, self.model.precision)
        return self.formats.of(self.chip, weights, self.model if stored_so else None)

    def _n_kernels(self, operator: Operator, weights: str) -> float:
        # Where products run wider than the weights, these are expanded inside the product and inputs stay as they are.
        quantises = operator.gemm is not None and weights != "bf16" and self.chip.product_format(weights) == weights
        if operator.kind == "moe" and not self.is_grouped and self.chip.derated:
            kernels = self.chip.moe_kernels(self._kernel(weights, self._product_format(operator, weights)))
            return (kernels - KERNELS_BETWEEN_EXPERTS) / PRODUCTS_OF_EXPERTS
        splits = self.decodes and operator.kind == "attention"
        more = QUANTIZE_KERNELS * quantises * self.chip.derated + DECODE_KERNELS * splits
        return KERNELS.get(operator.kind, 1.0) + more

    def _kernel(self, weights: str, products: str) -> str:
        """Name of the kernels measured for some weights: their format; of 4 bits in wider products, both widths."""
        if weights in FOUR_BITS and products not in FOUR_BITS:
            return "w4a16" if products == "bf16" else "w4a8"
        return weights if self.chip.product_format(weights) == weights else products

    def _rate(self, operator: Operator, weights: str, products: str, rows: FloatArray) -> KernelRate:
        """Of the kernel that was measured for the weights' format, or else for that which products run at."""
        chip = self.chip
        own = weights if chip.product_format(weights) == weights else products
        match operator.kind:
            case "gemm":
                return chip.carried(chip.gemm_rate(own, rows), own, products)
            case "moe" if self.is_grouped:
                return chip.carried(chip.grouped_rate(own, rows), own, products)
            case "moe":
                return chip.moe_rate(self._kernel(weights, products), products, rows)
            case "recurrence":
                return chip.kernel_rate("recurrence")
            case _:
                return chip.carried(chip.kernel_rate("attention_prefill"), "bf16", products)

    def _kv_fraction(self, operator: Operator) -> float:
        return self.chip.read_fraction("recurrence_decode" if operator.kind == "recurrence" else "attention_decode")

    def _serial_s(self, operator: Operator) -> FloatArray:
        steps = operator.serial_steps
        return np.zeros_like(operator.flop) if steps is None else steps * self.chip.recurrence_chunk_s
