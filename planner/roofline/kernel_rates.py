"""Rates of kernels: the fraction of a peak that one reaches, and those that are typical of measured accelerators."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Medians over the accelerators that were measured (the [efficiency] tables of the shipped profiles); used where an
# accelerator has none of its own, and then said to be inferred.
TYPICAL_GEMM = {"bf16": (0.55, 0.72, 0.74), "fp8": (0.39, 0.50, 0.53), "fp4": (0.22, 0.30, 0.35)}


TYPICAL_MOE = {
    "bf16": (0.043, 0.13, 0.31, 0.41, 0.54),
    "fp8": (0.029, 0.094, 0.16, 0.19, 0.33),
    "fp4": (0.027, 0.082, 0.17, 0.23, 0.31),
    "w4a16": (0.075, 0.16, 0.23, 0.30, 0.30),
    "w4a8": (0.048, 0.13, 0.33, 0.42, 0.44),
}
"""Products of experts by `MOE_ROWS`, of the peak of their inputs' format."""


TYPICAL_READ = {"bf16": 0.80, "fp8": 0.70, "fp4": 0.59}


TYPICAL_MOE_READ = {"bf16": 0.95, "fp8": 0.98, "fp4": 1.0, "w4a16": 0.57, "w4a8": 0.85}
"""Of the memory bandwidth, at which products of few rows read their weights, dense ones and those of experts."""


TYPICAL_MOE_START_US = {"bf16": 29.0, "fp8": 42.0, "fp4": 30.0, "w4a16": 37.0, "w4a8": 29.0}
"""Start of a layer's experts: sorting tokens, quantising, launches."""


TYPICAL_GROUPED = {"fp8": (0.44, 0.65)}
"""Grouped products by rows of each expert, 256 and 4096; of other formats nobody told."""


TYPICAL_FRACTION = {
    "attention_prefill": 0.59,
    "attention_decode": 0.92,
    "all_reduce": 0.80,
    "all_to_all": 0.78,
    "recurrence": 0.12,
    "recurrence_decode": 0.76,
}


TYPICAL_HALF_TOKENS = 800.0


TYPICAL_TAIL_TILES = 60.0


TYPICAL_LATENCY_US = {"all_reduce_latency_us": 6.0, "recurrence_chunk_us": 4.5}


TYPICAL_BALANCE_FLOP_PER_BYTE = 250.0
"""bf16 peak over memory bandwidth of the accelerators that the typical fractions come from."""


TYPICAL_SPEEDUP = {"bf16": 1.0, "fp8": 2.0, "int8": 2.0, "fp4": 4.0, "int4": 4.0}
"""Peak of a format over the bf16 peak of those accelerators."""


@dataclass(frozen=True, eq=False)
class KernelRate:
    """Fraction of a compute peak that a kernel reaches, and how it was carried over from other accelerators."""

    fraction: NDArray[np.float64]
    """Of the peak: measured here, or typical of those that were measured."""
    relative_balance: float
    """1 where measured here; else this accelerator's peak over bandwidth relative to the typical one. What a kernel
    loses is mostly bytes and waiting, which do not shrink with the peak: in units of the products' own time the loss
    goes as peak over bandwidth."""

    def seconds(
        self, ideal_s: NDArray[np.float64], ceiling: float, busy_s: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Seconds that no stack changes, and seconds that a stack's efficiency divides.

        Equation:
            ideal (1 - r) / c + busy r / e, with r the relative balance, c the ceiling and e the fraction; a balance
            beyond the typical one only adds to the loss; busy is ideal but for attention, see `Chip.tiled_s`
        """
        r = self.relative_balance
        return ideal_s * (1 - r) / ceiling, (ideal_s if busy_s is None else busy_s) * r / self.fraction
