"""Rates that kernels reach on one accelerator: its peaks and the fractions of them that were measured."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError, InputProblem
from planner.profiles import Efficiencies, Figure, HardwareProfile
from planner.profiles.efficiency import all_reduce_keys
from planner.roofline.kernel_rates import (
    TYPICAL_BALANCE_FLOP_PER_BYTE,
    TYPICAL_FRACTION,
    TYPICAL_GEMM,
    TYPICAL_GROUPED,
    TYPICAL_HALF_TOKENS,
    TYPICAL_LATENCY_US,
    TYPICAL_MOE,
    TYPICAL_MOE_READ,
    TYPICAL_MOE_START_US,
    TYPICAL_READ,
    TYPICAL_SPEEDUP,
    TYPICAL_TAIL_TILES,
    KernelRate,
)
from planner.roofline.operator import TILE_QUERIES, Tiles
from planner.units import MICRO

FORMATS = ("int4", "fp4", "int8", "fp8", "bf16")
WIDER = {"int4": ("bf16",), "fp4": ("fp8", "bf16"), "int8": ("bf16",), "fp8": ("bf16",), "bf16": ()}
"""Formats a product may run at when the accelerator has no unit for its own, narrowest first. 4-bit integers quantise
weights alone (W4A16: GPTQ, AWQ): their products take bf16 activations."""
GEMM_ROWS = (256.0, 1536.0, 4096.0)
"""Heights at which fractions of matrix products were measured."""
FEW_ROWS = (1.0, 2.0, 4.0, 16.0, 64.0)
"""Heights that are measured of processors whose small products neither their memory nor their peak explains."""
GROUPED_ROWS = (256.0, 4096.0)
"""Rows per expert at which grouped products were measured."""
MOE_ROWS = (16.0, 64.0, 256.0, 1024.0, 4096.0)
"""Rows per expert at which products of experts were measured."""


KERNEL_START_S = 4e-6
"""Start of a dense bf16 product in the tables that starts of experts come from, 3.3 to 4.7 us: one kernel."""
ATTENTION_TOKENS, ATTENTION_HEADS = 11_600.0, 32.0
"""Prompts and heads that fractions of attention were measured at: 8k to 16k tokens, and the middle of 8 to 96 heads."""
CEILING_FRACTION = 0.95
"""Of a peak that a kernel reaches where nothing but products takes time."""
MEASURED = ("measured", "derived", "inferred")
"""Bases of a fraction that rest on a measurement; a planner's default that somebody quotes does not."""
NETWORK_FRACTION = 0.8
"""Of a NIC's or host link's rate that collectives between servers, or without a scale-up link, reach."""
NETWORK_LATENCY_S = 25e-6
"""Of a small collective between servers."""
EXCHANGE_NETWORK_FRACTION = 0.92
"""Of a NIC's rate that an exchange with experts on other servers reaches: 46 to 47.5 of 50 GB/s, H100, DeepEP on 4
nodes, normal kernels from 4096 tokens on and slopes of those of low latency (AIConfigurator 0.12.0,
comm/sglang/0.5.6.post2); on H800 43 to 45 (DeepEP's README, less the copies that stay on their node)."""
EXCHANGE_LATENCY_S = 27e-6
"""Of a dispatch or a combine of nothing between servers: intercepts of the same timings over tokens."""
EXCHANGE_RANKS = 8
"""Ranks that all_to_all_fraction was measured over; its bytes count copies that stay on their own rank."""


@dataclass(frozen=True)
class Chip:
    """Rates of one accelerator that time a pass; with `derated` false the bare datasheet."""

    hardware: HardwareProfile
    derated: bool = True

    def product_format(self, weight_format: str) -> str:
        """Format that products run at: the weights' own, or the next wider one that the accelerator has a peak for.

        Raises:
            InputError: no peak is known at all.
        """
        for name in (weight_format, *WIDER[weight_format]):
            if self._peak(name):
                return name
        allowed = "a profile with bf16_tflops, or with the peak of the weights' format"
        raise InputError(
            InputProblem(self.hardware.name, "figures", f"has no peak for {weight_format} products", allowed)
        )

    def peak_flop_per_s(self, product_format: str) -> float:
        """Dense peak at a format that `product_format` gave [FLOP/s]."""
        return self._peak(product_format) or 0.0

    @property
    def memory_bytes_per_s(self) -> float:
        """Peak memory bandwidth [B/s].

        Raises:
            InputError: unknown.
        """
        return self._required(self.hardware.memory_bytes_per_s, "memory_bandwidth_tb_per_s")

    @property
    def memory_bytes(self) -> float:
        """Memory, as the device reports it where that is known [B].

        Raises:
            InputError: unknown.
        """
        return self._required(self.hardware.memory_bytes, "memory_gb")

    def gemm_rate(self, product_format: str, rows: ArrayLike) -> KernelRate:
        """Rate of a large matrix product by its height.

        Equation:
            straight between the measured heights of 256, 1536 and 4096 rows, in the logarithm of the height; constant
            outside. Where 1 to 64 rows were measured, powers of the height between these and 256: what reads weights
            takes one time whatever the height

        Args:
            product_format: number format of the product.
            rows: its rows, any shape.

        Returns:
            The rate; its fraction has the shape of rows.

        >>> from planner.profiles import hardware_profile
        >>> Chip(hardware_profile("h200-sxm")).gemm_rate("bf16", [64, 256, 8192]).fraction.tolist()
        [0.742, 0.742, 0.78]
        """
        if not self.derated:
            return KernelRate(np.ones_like(np.asarray(rows, float)), 1.0)
        typical = TYPICAL_GEMM.get(product_format, TYPICAL_GEMM["fp8"])
        own = [self._figure(f"gemm_{product_format}_m{int(height)}_fraction") for height in GEMM_ROWS]
        known = [value / usual for value, usual in zip(own, typical, strict=True) if value is not None]
        # A height that was not measured is as far from the typical value as those that were.
        scale = float(np.mean(known)) if known else 1.0
        points = [usual * scale if value is None else value for value, usual in zip(own, typical, strict=True)]
        height, few = np.log(np.maximum(rows, 1.0)), self._few_rows(product_format)
        fraction = np.interp(height, np.log(GEMM_ROWS), points)
        if few:
            fractions = [*few.values(), points[0]]
            fewer = np.exp(np.interp(height, np.log([*few, GEMM_ROWS[0]]), np.log(fractions)))
            fraction = np.where(height < np.log(GEMM_ROWS[0]), fewer, fraction)
        return KernelRate(fraction, 1.0 if known else self._relative_balance(product_format))

    def tiled_s(self, ideal_s: NDArray[np.float64], tiles: Tiles, peak_flop_per_s: float) -> NDArray[np.float64]:
        """Seconds of attention's products with what its tiles lose, over that at the lengths of the measured fraction.

        Equation:
            (T (1 + n / 2k) + a t) / (1 + (n + 2 a q / h) / L), with T the products' time at the peak, k the keys of a
            query on average (half of a prompt that is all new), n the half length: to start a tile and to end it takes
            as long as so many keys; t the longest tile of q queries at the peak, which one processor computes while
            others run dry, so that the time of a tiles is lost; L and h the tokens and heads of the measured fraction

        Args:
            ideal_s: products at the peak [s].
            tiles: how they divide.
            peak_flop_per_s: of their format [FLOP/s].

        Returns:
            Seconds at the peak, to be divided by the measured fraction [s].

        Valid:
            4 to 8 per cent off on average over 1,300 to 2,000 timings of each of 24 kernels: A100, H100, H200, L40S,
            B200, B300, GB200 and GB300, 256 to 16k tokens, 4 to 96 query heads, 1 to 8 prompts, head dimension 128.

        Source:
            Form: Dao 2023 (FlashAttention-2), section 3.2, on filling processors with tiles; figures: AIConfigurator's
            timings, see the profiles.
        """
        if not self.derated:
            return ideal_s
        half, tail = self._half_tokens, self._figure("attention_tail_tiles") or TYPICAL_TAIL_TILES
        usual = 1 + (half + 2 * tail * TILE_QUERIES / ATTENTION_HEADS) / ATTENTION_TOKENS
        starting = 1 + half / 2 / np.maximum(tiles.mean_keys, 1.0)
        found = (ideal_s * starting + tail * tiles.longest_flop / peak_flop_per_s) / usual
        return np.where(ideal_s > 0, found, 0.0)

    @property
    def _half_tokens(self) -> float:
        """The half length; where only a fraction was measured, typical of the typical balance, see `KernelRate`."""
        own = self._figure("attention_half_tokens")
        is_measured = self._figure("attention_prefill_fraction") is not None
        return own or TYPICAL_HALF_TOKENS * (self._relative_balance("bf16") if is_measured else 1.0)

    def moe_rate(self, kernel: str, product_format: str, rows: ArrayLike) -> KernelRate:
        """Rate of grouped products of experts by the rows of each.

        Equation:
            straight between the measured 16, 64, 256, 1024 and 4096 rows in the logarithm of the rows, constant
            outside; rows that were not measured are as far from the typical fraction as those that were

        Args:
            kernel: number format of the weights, or w4a16 and w4a8 where 4 bits meet inputs of bf16 and of fp8.
            product_format: number format of the products.
            rows: rows per expert, any shape.

        >>> from planner.profiles import hardware_profile
        >>> Chip(hardware_profile("h100-sxm")).moe_rate("w4a16", "bf16", [1, 64, 8192]).fraction.round(2).tolist()
        [0.1, 0.18, 0.43]
        """
        if not self.derated:
            return KernelRate(np.ones_like(np.asarray(rows, float)), 1.0)
        typical = TYPICAL_MOE.get(kernel, TYPICAL_MOE["fp8"])
        own = [self._figure(f"moe_{kernel}_m{int(height)}_fraction") for height in MOE_ROWS]
        known = [value / usual for value, usual in zip(own, typical, strict=True) if value is not None]
        scale = float(np.mean(known)) if known else 1.0
        points = [usual * scale if value is None else value for value, usual in zip(own, typical, strict=True)]
        fraction = np.interp(np.log(np.maximum(rows, 1.0)), np.log(MOE_ROWS), points)
        few = self._few_rows(product_format)
        if few:
            fewer = self.gemm_rate(product_format, np.minimum(rows, GEMM_ROWS[0])).fraction
            whole = self.gemm_rate(product_format, GEMM_ROWS[0]).fraction
            fraction = np.where(np.less(rows, GEMM_ROWS[0]), np.minimum(fraction, points[2] * fewer / whole), fraction)
        return KernelRate(fraction, 1.0 if known else self._relative_balance(product_format))

    def weight_fraction(self, kernel: str, *, of_experts: bool) -> float:
        """Fraction of the memory bandwidth at which a product reads its weights.

        Args:
            kernel: as `moe_rate` takes it.
            of_experts: whether they are of experts.
        """
        prefix, typical = ("moe_weight_read", TYPICAL_MOE_READ) if of_experts else ("weight_read", TYPICAL_READ)
        usual = typical.get(kernel, typical["fp8"])
        return min(self._or_typical(f"{prefix}_{kernel}_fraction", usual), 1.0)

    def moe_kernels(self, kernel: str) -> float:
        """Kernels whose start takes as long as that of a layer's experts.

        Args:
            kernel: as `moe_rate` takes it.

        >>> from planner.profiles import hardware_profile
        >>> Chip(hardware_profile("h20-141gb")).moe_kernels("bf16")
        7.25
        """
        usual = TYPICAL_MOE_START_US.get(kernel, TYPICAL_MOE_START_US["fp8"])
        own = self._figure(f"moe_{kernel}_start_us")
        return MICRO * (usual if own is None else own) / KERNEL_START_S

    def grouped_rate(self, product_format: str, rows: ArrayLike) -> KernelRate:
        """Rate of grouped products of experts whose tokens lie side by side, by the rows of each expert.

        Equation:
            straight between 256 and 4096 rows in the logarithm of the rows, constant outside; where nobody measured a
            format, as sorting kernels

        Args:
            product_format: number format of the products.
            rows: rows per expert, any shape.

        >>> from planner.profiles import hardware_profile
        >>> Chip(hardware_profile("h800-sxm")).grouped_rate("fp8", [128, 1024, 8192]).fraction.round(3).tolist()
        [0.441, 0.544, 0.647]
        """
        typical = TYPICAL_GROUPED.get(product_format)
        if not self.derated or typical is None:
            return self.moe_rate(product_format, product_format, rows)
        own = [self._figure(f"grouped_{product_format}_m{int(height)}_fraction") for height in GROUPED_ROWS]
        known = [value for value in own if value is not None]
        points = known if len(known) == len(GROUPED_ROWS) else typical
        fraction = np.interp(np.log(np.maximum(rows, 1.0)), np.log(GROUPED_ROWS), points)
        return KernelRate(fraction, 1.0 if points is known else self._relative_balance(product_format))

    def _few_rows(self, product_format: str) -> dict[float, float]:
        """Measured fractions by height, below those that every accelerator is measured at."""
        found = ((height, self._figure(f"gemm_{product_format}_m{int(height)}_fraction")) for height in FEW_ROWS)
        return {height: value for height, value in found if value is not None}

    def kernel_rate(self, name: str) -> KernelRate:
        """Rate of prefill attention (attention_prefill) or a recurrence."""
        if not self.derated:
            return KernelRate(np.ones(()), 1.0)
        found = self._figure(f"{name}_fraction")
        if found is None:
            return KernelRate(np.asarray(TYPICAL_FRACTION[name]), self._relative_balance("bf16"))
        return KernelRate(np.asarray(found), 1.0)

    def carried(self, rate: KernelRate, measured_in: str, product_format: str) -> KernelRate:
        """Rate of a kernel in another format than it was measured in.

        Equation:
            what the kernel loses, bytes and all that is between its products, takes as long at any format: in units of
            the products' own time it goes as the peak

        Args:
            rate: of the kernel as measured.
            measured_in: format that it was measured in.
            product_format: format that it runs at.

        Returns:
            The rate, over the peak of its own format.

        >>> from planner.profiles import hardware_profile
        >>> chip = Chip(hardware_profile("h200-sxm"))
        >>> measured = chip.kernel_rate("attention_prefill")
        >>> [float(sum(chip.carried(measured, "bf16", f).seconds(np.ones(()), 0.95)).round(2)) for f in ("bf16", "fp8")]
        [1.69, 2.33]
        """
        if not self.derated or measured_in == product_format:
            return rate
        ratio = self.peak_flop_per_s(product_format) / self.peak_flop_per_s(measured_in)
        return KernelRate(rate.fraction, rate.relative_balance * ratio)

    def read_fraction(self, name: str) -> float:
        """Fraction of the memory bandwidth at which attention_decode or recurrence_decode reads its cache."""
        return self._or_typical(f"{name}_fraction", TYPICAL_FRACTION[name])

    @property
    def recurrence_chunk_s(self) -> float:
        """Serial time of one chunk of 64 tokens of a chunkwise recurrence [s]."""
        return self._latency_s("recurrence_chunk_us")

    def collective_bytes_per_s(self, n_ranks: int) -> float:
        """Bus bandwidth of a large all-reduce over that many ranks [B/s].

        Equation:
            within a scale-up domain f B_link, f the fraction measured over the smallest group that holds the ranks,
            typical where none was; beyond, rings pass every domain over the NICs of all its ranks side by side:
            min(f B_link, d B_nic)

        Args:
            n_ranks: ranks, of which domains have d each.

        Source:
            NCCL's rings, one per NIC; on 4 nodes of 8 B200 the bus bandwidth is 8 times 0.74 of a NIC's (S. Bekman, ML
            Engineering, network). NCCL reaches 20, 5.2 and 1.4 of 32 GB/s over 2, 4 and 8 L40S, and 315, 348 and 460
            of 450 over as many H200 (AIConfigurator's timings).
        """
        key = self.all_reduce_key(n_ranks)
        fraction = self._or_typical(key or "all_reduce_fraction", TYPICAL_FRACTION["all_reduce"])
        link = self._scaleup_bytes_per_s(n_ranks)
        if link is not None:
            return link * fraction
        domain = self.hardware.n_scaleup_domain_accelerators or 1
        inside = self._scaleup_bytes_per_s(domain)
        if inside is None:
            return self.network_bytes_per_s
        return min(inside * fraction, domain * self.network_bytes_per_s)

    def all_reduce_key(self, n_ranks: int) -> str | None:
        """Efficiency of the smallest group measured that holds so many ranks; None: none was measured.

        >>> from planner.profiles import hardware_profile
        >>> [Chip(hardware_profile("l40s")).all_reduce_key(n) for n in (2, 3, 5)]
        ['all_reduce_2_fraction', 'all_reduce_4_fraction', 'all_reduce_fraction']
        """
        return next((key for key in all_reduce_keys(n_ranks) if self._figure(key) is not None), None)

    @property
    def network_bytes_per_s(self) -> float:
        """Rate that collectives and hand-overs reach on one accelerator's NIC, or on its host link [B/s]."""
        return self._nic_bytes_per_s * (NETWORK_FRACTION if self.derated else 1.0)

    def hand_over_bytes_per_s(self, n_accelerators: int, n_senders: int) -> float:
        """Rate at which a pipeline stage of so many ranks hands activations on, each its part of them [B/s].

        Args:
            n_accelerators: of all stages: where one scale-up link joins them, they use it.
        """
        if self._scaleup_bytes_per_s(n_accelerators) is not None:
            return self.collective_bytes_per_s(n_accelerators)
        return n_senders * self.network_bytes_per_s

    def dispatch_bytes_per_s(self, n_ranks: int) -> float:
        """Rate at which a rank sends tokens to experts on others, without copies that stay on it [B/s]."""
        link = self._scaleup_bytes_per_s(n_ranks)
        if link is None:
            return self._nic_bytes_per_s * (EXCHANGE_NETWORK_FRACTION if self.derated else 1.0)
        return link * self.read_fraction("all_to_all") * ((1 - 1 / EXCHANGE_RANKS) if self.derated else 1.0)

    def exchange_latency_s(self, n_ranks: int) -> float | None:
        """Time of a dispatch or combine of nothing between servers; None where one scale-up link joins all [s]."""
        if self._scaleup_bytes_per_s(n_ranks) is not None:
            return None
        return EXCHANGE_LATENCY_S if self.derated else 0.0

    def collective_latency_s(self, n_ranks: int) -> float:
        """Time of a small all-reduce over that many ranks [s]."""
        if not self.derated:
            return 0.0
        inside = self._scaleup_bytes_per_s(n_ranks) is not None
        return self._latency_s("all_reduce_latency_us") if inside else NETWORK_LATENCY_S

    @property
    def ceiling(self) -> float:
        """Fraction of a compute peak that no kernel exceeds."""
        return CEILING_FRACTION if self.derated else 1.0

    @property
    def is_measured(self) -> bool:
        """True if matrix products were measured on this very accelerator, or on one that differs in memory only."""
        found = (getattr(self.hardware.efficiency, f"gemm_bf16_m{int(height)}_fraction") for height in GEMM_ROWS)
        return any(figure is not None and figure.basis in MEASURED for figure in found)

    @property
    def _nic_bytes_per_s(self) -> float:
        """Of one accelerator, to other servers or where there is no scale-up link."""
        rates = (self.hardware.nic_bytes_per_s, self.hardware.pcie_bytes_per_s)
        return self._required(min((rate for rate in rates if rate), default=None), "nic_gbps")

    def _scaleup_bytes_per_s(self, n_ranks: int) -> float | None:
        domain = self.hardware.n_scaleup_domain_accelerators
        inside = domain is None or n_ranks <= domain
        return self.hardware.scaleup_bytes_per_s if inside else None

    def _relative_balance(self, product_format: str) -> float:
        """A format's peak over memory bandwidth, relative to the accelerators that the typical fractions come from."""
        peak, rate = self._peak(product_format), self.hardware.memory_bytes_per_s
        usual = TYPICAL_BALANCE_FLOP_PER_BYTE * TYPICAL_SPEEDUP[product_format]
        return peak / rate / usual if peak and rate else 1.0

    def _latency_s(self, key: str) -> float:
        if not self.derated:
            return 0.0
        found = self._figure(key)
        return (TYPICAL_LATENCY_US[key] if found is None else found) * MICRO

    def _or_typical(self, key: str, usual: float) -> float:
        if not self.derated:
            return 1.0
        found = self._figure(key)
        return usual if found is None else found

    def _peak(self, name: str) -> float | None:
        return self.hardware.peak_flop_per_s(name) if name != "int4" else None  # type: ignore[arg-type]

    def _figure(self, key: str) -> float | None:
        if key not in Efficiencies.model_fields:
            return None
        figure: Figure | None = getattr(self.hardware.efficiency, key)
        return None if figure is None else figure.value

    def _required(self, value: float | None, key: str) -> float:
        if value is None:
            allowed = "a figure to time passes with"
            raise InputError(InputProblem(self.hardware.name, f"figures.{key}", "is unknown", allowed))
        return value
