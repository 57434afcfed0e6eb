"""Kernel timings as AIConfigurator writes them, made by the equation that condenses them: what is right is known."""

from itertools import product
from pathlib import Path

import numpy as np

from planner.profiles import HardwareProfile

START_S, RATE, READ = 6e-6, {256: 0.5, 1536: 0.6, 4096: 0.7}, 0.8
"""Start, fractions of the peak by rows, and fraction of the bandwidth of dense products."""
MOE_START_S, MOE_RATE, MOE_READ = 30e-6, {16: 0.3, 64: 0.35, 256: 0.4, 1024: 0.45, 4096: 0.5}, 0.9
HEIGHTS = {256: (256,), 1536: (1024, 1536, 2048), 4096: (4096, 8192)}


def write(folder: Path, kind: str, name: str, columns: dict[str, list[object]], framework: str = "vllm/1.0") -> None:
    """One table where the wheel has it."""
    import pyarrow
    from pyarrow.parquet import write_table

    path = folder / kind / framework / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(pyarrow.table(columns), path)


def kernel_tables(folder: Path, chip: HardwareProfile) -> Path:
    """Dense products and experts in bf16 of one framework.

    Returns:
        The folder.
    """
    peak, memory = chip.peak_flop_per_s("bf16"), chip.memory_bytes_per_s
    assert peak is not None
    assert memory is not None
    few = [(m, n, k, 1.0) for m, n, k in product((1, 4, 8), (4096, 8192), (4096, 16384))]
    many = [(m, 8192, k, rate) for height, rate in RATE.items() for m in HEIGHTS[height] for k in (4096, 8192, 16384)]
    m, n, k, rate = (np.array(column, float) for column in zip(*few, *many, strict=True))
    flop_s, read_s = 2 * m * n * k / (peak * rate), 2 * n * k / (memory * READ)
    seconds = START_S + np.where(m <= 8, read_s, flop_s)
    dense = {"m": m, "n": n, "k": k, "latency": 1e3 * seconds}
    columns: dict[str, list[object]] = {name: list(values) for name, values in dense.items()}
    write(folder, "gemm", "gemm_perf", {**columns, "gemm_dtype": ["bfloat16"] * len(m)})
    write(folder, "moe", "moe_perf", experts(peak, memory))
    return folder


def experts(peak: float, memory: float) -> dict[str, list[object]]:
    """Experts in bf16, by rows of each."""
    hidden, experts = 4096.0, 64.0
    rows = [1.0, 2.0, 4.0, *MOE_RATE]
    shapes = [(height, width) for height in rows for width in (1024.0, 2048.0, 4096.0)]
    height, width = (np.array(column) for column in zip(*shapes, strict=True))
    tokens, weights = height * experts, 3 * hidden * width
    rate = np.array([MOE_RATE.get(int(h), 1.0) for h in height])
    flop_s, read_s = 2 * tokens * weights / (peak * rate), experts * weights * 2 / (memory * MOE_READ)
    seconds = MOE_START_S + np.where(height <= 8, read_s, flop_s)
    constant: dict[str, object] = {"hidden_size": hidden, "topk": 1.0, "num_experts": experts, "moe_tp_size": 1.0}
    constant |= {"moe_ep_size": 1, "moe_dtype": "bfloat16", "distribution": "balanced", "kernel_source": "made"}
    found: dict[str, list[object]] = {name: [value] * len(height) for name, value in constant.items()}
    return found | {"num_tokens": list(tokens), "inter_size": list(width), "latency": list(1e3 * seconds)}
