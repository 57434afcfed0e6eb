"""The unit that a figure's key ends in, and which other unit a value out of range was probably written in."""

from collections.abc import Iterator

from planner.profiles.architectures import Range

_UNITS: tuple[tuple[str, str, dict[str, float]], ...] = (
    ("_tflops", "TFLOP/s", {"GFLOP/s": 1e-3, "PFLOP/s": 1e3, "FLOP/s": 1e-12, "TFLOP/s with sparsity": 0.5}),
    ("_tops", "TOP/s", {"GOP/s": 1e-3, "POP/s": 1e3, "OP/s": 1e-12, "TOP/s with sparsity": 0.5}),
    ("_tb_per_s", "TB/s", {"GB/s": 1e-3, "MB/s": 1e-6, "bytes/s": 1e-12}),
    (
        "_gb_per_s",
        "GB/s",
        {"MB/s": 1e-3, "TB/s": 1e3, "bytes/s": 1e-9, "GB/s of both directions together": 0.5, "Gbps": 0.125},
    ),
    ("_gbps", "Gbps", {"Mbps": 1e-3, "Tbps": 1e3, "bit/s": 1e-9, "GB/s": 8.0}),
    ("_mib", "MiB", {"KiB": 1 / 1024, "GiB": 1024.0, "bytes": 1 / 2**20}),
    ("_gb", "GB", {"MB": 1e-3, "TB": 1e3, "bytes": 1e-9}),
    ("_mhz", "MHz", {"GHz": 1e3, "kHz": 1e-3, "Hz": 1e-6}),
    ("_w", "W", {"kW": 1e3, "mW": 1e-3}),
    ("_usd_per_hour", "USD/h", {"US cents/h": 1e-2, "USD per month": 1 / 730}),
    ("_us", "us", {"ns": 1e-3, "ms": 1e3, "s": 1e6}),
    ("_ms", "ms", {"us": 1e-3, "ns": 1e-6, "s": 1e3}),
    ("_fraction", "parts of 1", {"%": 0.01}),
    ("_tokens", "tokens", {"thousand tokens": 1e3}),
    ("_tiles", "tiles", {}),
    ("_usd", "USD", {"thousand USD": 1e3, "US cents": 1e-2}),
)
"""Suffix of a key, its unit, and other units with what one of them is in it."""


def figure_unit(key: str) -> str | None:
    """Unit of a figure by its key; None for counts and years.

    >>> figure_unit("memory_bandwidth_tb_per_s"), figure_unit("nic_gbps"), figure_unit("n_sm")
    ('TB/s', 'Gbps', None)
    """
    return next((unit for suffix, unit, _ in _UNITS if key.endswith(suffix)), None)


def unit_hint(key: str, value: float, allowed: Range) -> str:
    """Hint on a value out of range: the unit it was probably written in, or at least the key's unit.

    >>> unit_hint("memory_gb", 141000, Range(64, 144))
    'memory_gb is in GB: 141000 MB are 141'
    >>> unit_hint("scaleup_gb_per_s", 900, Range(64, 450))
    'scaleup_gb_per_s is in GB/s: 900 GB/s of both directions together are 450'
    >>> unit_hint("gemm_bf16_m256_fraction", 64, Range(0.05, 1))
    'gemm_bf16_m256_fraction is in parts of 1: 64 % are 0.64'
    >>> unit_hint("tdp_w", 7, Range(300, 1000))
    'tdp_w is in W'
    >>> unit_hint("n_sm", 7, Range(66, 144))
    ''
    """
    unit = figure_unit(key)
    if unit is None:
        return ""
    meant = next(_meant(key, value, allowed), "")
    return f"{key} is in {unit}{meant}"


def _meant(key: str, value: float, allowed: Range) -> Iterator[str]:
    others = next(others for suffix, _, others in _UNITS if key.endswith(suffix))
    for unit, factor in others.items():
        if value * factor in allowed:
            yield f": {value:.10g} {unit} are {value * factor:.10g}"
    for power in (3, 6, 9, 12, -3, -6, -9, -12):
        if value / 10.0**power in allowed:
            yield f": it is {value / 10.0**power:.10g} times 1e{power}"
