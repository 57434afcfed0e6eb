"""Kernel timings of AIConfigurator's wheel, condensed into the [efficiency] figures of a hardware profile.

One rule reads every table. A kernel that does F operations on W bytes takes

    L = t0 + max(F / (P f), W / (B w))

P the accelerator's dense peak, B its memory bandwidth, t0 its start, w the slope of what only reads; f, by the rows of
a product, is the median over shapes of F / (P (L - t0)). So a figure is one of the kernel, whatever the size of the
matrix that it was measured with. The start of a dense product is left to the software, whose kernel latency stands for
it; that of a layer's experts, which is many kernels, is a figure.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, InputProblem
from planner.profiles import Efficiencies, HardwareProfile
from planner.profiles.base import Precision
from planner.profiles.toml_text import toml_value
from planner.units import MICRO

FloatArray = NDArray[np.float64]
PACKAGE = "aiconfigurator_core"
FORMATS: dict[str, tuple[str, Precision, float]] = {
    "bfloat16": ("bf16", "bf16", 2.0),
    "fp8": ("fp8", "fp8", 1.0),
    "fp8_block": ("fp8_block", "fp8", 1.0),
    "nvfp4": ("fp4", "fp4", 0.5625),
    "int4_wo": ("w4a16", "bf16", 0.53125),
    "w4a16_mxfp4": ("w4a16", "bf16", 0.53125),
    "w4a8_mxfp4_mxfp8": ("w4a8", "fp8", 0.53125),
}
"""By the names of the tables: what profiles call it, format of its products, and bytes of a weight with its scales."""
MOE_FORMATS: dict[str, tuple[str, Precision, float]] = {
    **{name: own for name, own in FORMATS.items() if name != "fp8"},
    "fp8_block": ("fp8", "fp8", 1.0),
}
"""The same of experts, whose fp8 checkpoints have a scale per block of 128."""
GEMM_ROWS = {256: (256, 256), 1536: (1024, 2048), 4096: (4096, 16384)}
MOE_ROWS = {16: (12, 20), 64: (48, 80), 256: (192, 320), 1024: (768, 1280), 4096: (2048, 6000)}
"""Rows of each figure, and of the products that it is a median over."""
FEW_ROWS = 8
"""Rows up to which a product does nothing but read its weights."""
SHAPES = (1024, 32768)
"""Least and most of columns and depths that count."""
LARGE = 16e6
"""Weights of a matrix from which on it is one that a pass spends its time in."""
NARROWEST = 256
"""Least width of an expert on its rank."""
MOST_STARTING = 0.5
"""Part of its time that a product may spend on starting before it tells nothing of a rate."""
FASTEST = 2.0
"""Fraction of the memory bandwidth beyond which timings are of something else: such as the host, where no graph replays
them."""
FEWEST = 3
"""Timings that make a figure."""
CACHED_BYTES = 200e6
"""Of a KV cache, or of experts, that no second-level cache holds [B]."""


@dataclass(frozen=True)
class KernelFigure:
    """One efficiency: the median over frameworks of medians over shapes."""

    key: str
    value: float
    low: float
    """Least of any framework."""
    high: float
    """Most of any framework."""
    of: tuple[str, ...]
    """Frameworks, with versions and numbers of timings."""

    @property
    def toml(self) -> str:
        """The line of a profile."""
        note = f"{', '.join(self.of)}; range {self.low:.3g}-{self.high:.3g}"
        return f'{self.key} = {{ value = {self.value:.3g}, source = "kernels", basis = "derived", note = "{note}" }}'


def kernel_figures(hardware: HardwareProfile, folder: Path) -> list[KernelFigure]:
    """Efficiencies of an accelerator from a folder of kernel timings.

    Args:
        hardware: the accelerator, with its peaks and memory bandwidth.
        folder: its timings, as `installed_timings` finds them: gemm, moe and attention by framework and version.

    Returns:
        Figures by key; where nothing was timed there is none.

    Raises:
        InputError: pyarrow is not installed, the folder has no timings, or the profile no memory bandwidth.

    Source:
        AIConfigurator (2025), systems/data; Williams et al. 2009 (roofline).
    """
    found: dict[str, list[tuple[str, float]]] = defaultdict(list)
    reading = {"gemm": _gemm, "moe": _moe, "attention": _decode}
    for kind, read in reading.items():
        for framework, table in _tables(folder, kind):
            for key, value, n in read(table, hardware):
                if key in Efficiencies.model_fields:
                    found[key].append((f"{framework} ({n})", value))
    if not found:
        raise InputError(
            InputProblem(str(folder), "", "has no kernel timings", "gemm, moe and attention, each by framework")
        )
    return [_figure(key, found[key]) for key in sorted(found)]


def _figure(key: str, told: Sequence[tuple[str, float]]) -> KernelFigure:
    most = 1.0 if key.endswith("_fraction") else inf  # more than all of it: what is read stays in part in a cache
    numbers = [min(value, most) for _, value in told]
    return KernelFigure(key, float(np.median(numbers)), min(numbers), max(numbers), tuple(name for name, _ in told))


def _tables(folder: Path, kind: str) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
    """Tables of the newest version of each framework that has one, as columns."""
    name = {"gemm": "gemm_perf", "moe": "moe_perf", "attention": "generation_attention_perf"}[kind]
    for framework in sorted(path for path in (folder / kind).glob("*") if path.is_dir()):
        files = sorted(framework.glob(f"*/{name}.parquet"), key=_version)
        largest = max((path.stat().st_size for path in files), default=0)
        whole = [path for path in files if path.stat().st_size > largest / 2]  # others are of a few models
        if whole:
            yield f"{framework.name} {whole[-1].parent.name}", _columns(whole[-1])


def _version(path: Path) -> list[int]:
    """Numbers of the version whose folder holds a table: 0.5.6 before 0.5.14."""
    return [int(number) for number in re.findall(r"[0-9]+", path.parent.name)]


def installed_timings(hardware: HardwareProfile) -> Path:
    """Folder of an accelerator's kernel timings in the installed wheel.

    Raises:
        InputError: the wheel is not installed, or has no timings of the accelerator.
    """
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        allowed = "pip install aiconfigurator-core, or the folder of an accelerator's timings"
        raise InputError(InputProblem("profiles kernels", "", f"{PACKAGE} is not installed", allowed))
    data = Path(spec.submodule_search_locations[0]) / "systems" / "data"
    names = (hardware.name.replace("-", "_"), *hardware.aliases)
    found = next((data / name for name in names if (data / name).is_dir()), None)
    if found is None:
        known = ", ".join(sorted(path.name for path in data.iterdir() if path.is_dir()))
        raise InputError(
            InputProblem("profiles kernels", "", f"{PACKAGE} has no timings of {hardware.name}", f"of {known}")
        )
    return found


def with_figures(text: str, figures: Sequence[KernelFigure], cited: str) -> str:
    """A hardware profile with figures in place of those of the same keys, and with where they come from.

    Args:
        text: the profile, one figure a line.
        figures: what takes their place; those of new keys come last.
        cited: source of all of them.

    >>> figure = KernelFigure("moe_fp8_start_us", 50.0, 45.0, 58.0, ("vllm (689)",))
    >>> print(with_figures('name = "x"', [figure], "a wheel"))
    name = "x"
    <BLANKLINE>
    [sources]
    kernels = "a wheel"
    <BLANKLINE>
    [efficiency]
    moe_fp8_start_us = { value = 50, source = "kernels", basis = "derived", note = "vllm (689); range 45-58" }
    <BLANKLINE>
    """
    lines = text.rstrip("\n").split("\n")
    lines = _with_lines(lines, "sources", {"kernels": f"kernels = {toml_value(cited)}"})
    return "\n".join(_with_lines(lines, "efficiency", {figure.key: figure.toml for figure in figures})) + "\n"


def _with_lines(lines: list[str], table: str, own: Mapping[str, str]) -> list[str]:
    """Lines of a file with some keys of a table set."""
    if f"[{table}]" not in lines:
        lines = [*lines, "", f"[{table}]"]
    start = lines.index(f"[{table}]") + 1
    end = next((i for i in range(start, len(lines)) if lines[i].startswith("[")), len(lines))
    while lines[end - 1] == "":
        end -= 1
    keys = [line.partition("=")[0].strip() for line in lines[start:end]]
    kept = [own.get(key, line) for key, line in zip(keys, lines[start:end], strict=True)]
    return [*lines[:start], *kept, *(line for key, line in own.items() if key not in keys), *lines[end:]]


def _columns(path: Path) -> dict[str, NDArray[Any]]:
    try:
        from pyarrow.parquet import read_table
    except ImportError:
        raise InputError(InputProblem(str(path), "", "needs pyarrow", "pip install pyarrow")) from None

    try:
        table = read_table(path)
    except (OSError, ValueError) as error:  # pyarrow's own are of these kinds
        raise InputError(InputProblem(str(path), "", f"cannot be read: {error}", "a Parquet file")) from error
    return _Columns({name: np.asarray(table[name].to_pylist()) for name in table.column_names}, path)


class _Columns(dict[str, NDArray[Any]]):
    """Columns of a table, which says what it lacks."""

    def __init__(self, columns: Mapping[str, NDArray[Any]], path: Path) -> None:
        super().__init__(columns)
        self.path = path

    def __missing__(self, name: str) -> NDArray[Any]:
        raise InputError(
            InputProblem(str(self.path), "", f"has no column {name}", "a table of AIConfigurator's collector")
        )


@dataclass(frozen=True, eq=False)
class _Timings:
    """Kernels of one format and name."""

    rows: FloatArray
    flop_s: FloatArray
    """At the peak [s]."""
    read_s: FloatArray
    """Weights at the memory bandwidth [s]."""
    seconds: FloatArray
    reads: NDArray[np.bool_]
    """Those that tell what reading weights takes."""

    def figures(self, kind: str, name: str, heights: Mapping[int, tuple[int, int]]) -> Iterator[tuple[str, float, int]]:
        """The fraction of the memory bandwidth of few rows, then that of the peak by rows."""
        few = self.reads & (self.rows <= FEW_ROWS)
        if few.sum() < FEWEST:
            return
        start_s, fraction = _line(self.read_s[few], self.seconds[few])
        if not 0 < fraction <= FASTEST:
            return
        prefix = "weight_read" if kind == "gemm" else "moe_weight_read"
        yield f"{prefix}_{name}_fraction", fraction, int(few.sum())
        if kind == "moe":
            yield f"moe_{name}_start_us", start_s / MICRO, int(few.sum())
        tells = self.seconds * MOST_STARTING > start_s
        for height, (low, high) in heights.items():
            own = tells & (self.rows >= low) & (self.rows <= high)
            if own.sum() >= FEWEST:
                rate = np.median(self.flop_s[own] / (self.seconds[own] - start_s))
                yield f"{kind}_{name}_m{height}_fraction", float(rate), int(own.sum())


def _line(ideal_s: FloatArray, seconds: FloatArray) -> tuple[float, float]:
    """Start and slope of seconds over ideal ones, of least relative squares: t0 and the fraction that is reached."""
    a = np.stack([1 / seconds, ideal_s / seconds], axis=1)
    start, slope = np.linalg.lstsq(a, np.ones(len(seconds)), rcond=None)[0]
    if start < 0:
        start, slope = 0.0, float(np.median(seconds / ideal_s))
    return float(start), float(1 / slope)


def _gemm(table: Mapping[str, NDArray[Any]], hardware: HardwareProfile) -> Iterator[tuple[str, float, int]]:
    """Dense products."""
    m, n, k = (table[name].astype(float) for name in ("m", "n", "k"))
    usual = (np.minimum(n, k) >= SHAPES[0]) & (np.maximum(n, k) <= SHAPES[1]) & (n * k >= LARGE)
    for dtype, (name, products, width) in FORMATS.items():
        own = usual & (table["gemm_dtype"] == dtype)
        peak = hardware.peak_flop_per_s(products)
        if own.any() and peak:
            seconds = table["latency"][own] / 1e3
            weights = n[own] * k[own]
            flop_s, read_s = 2 * m[own] * weights / peak, weights * width / _bandwidth(hardware)
            timings = _Timings(m[own], flop_s, read_s, seconds, np.ones_like(m[own], bool))
            yield from timings.figures("gemm", name, GEMM_ROWS)


def _moe(table: Mapping[str, NDArray[Any]], hardware: HardwareProfile) -> Iterator[tuple[str, float, int]]:
    """Gated experts of one rank that holds them all; of kernels the fastest.

    Reading is told by even routing, whose experts are known to the one; products by every routing that was timed.
    """
    names = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size")
    n, hidden, inter, top, experts, ranks = (table[name].astype(float) for name in names)
    even = table["distribution"] == "balanced"
    visits = n * top
    visited = np.where(even, np.minimum(experts, visits), experts * (1 - (1 - top / experts) ** n))
    weights, width = 3 * hidden * inter / ranks, inter / ranks
    gated = np.char.find(table["kernel_source"].astype(str), "nongated") < 0
    usual = gated & (table["moe_ep_size"] == 1) & (width >= NARROWEST)
    for dtype, (name, products, bytes_each) in MOE_FORMATS.items():
        peak = hardware.peak_flop_per_s(products)
        found = []
        for kernel in sorted(set(table["kernel_source"][usual & (table["moe_dtype"] == dtype)])) if peak else ():
            own = usual & (table["moe_dtype"] == dtype) & (table["kernel_source"] == kernel)
            flop_s = 2 * visits[own] * weights[own] / (peak or 1.0)
            read_s = visited[own] * weights[own] * bytes_each / _bandwidth(hardware)
            reads = even[own] & (read_s * _bandwidth(hardware) >= CACHED_BYTES)
            timings = _Timings((visits / visited)[own], flop_s, read_s, table["latency"][own] / 1e3, reads)
            found.append(list(timings.figures("moe", name, MOE_ROWS)))
        yield from max(found, key=_rate_of_all, default=[])


def _rate_of_all(figures: Sequence[tuple[str, float, int]]) -> float:
    return sum(value for key, value, _ in figures if key.endswith("_fraction"))


def _decode(table: Mapping[str, NDArray[Any]], hardware: HardwareProfile) -> Iterator[tuple[str, float, int]]:
    """Decode attention over a bf16 cache, up to eight query heads per KV head, no window."""
    batch, heads, kv_heads, dim = (
        table[name].astype(float) for name in ("batch_size", "num_heads", "num_key_value_heads", "head_dim")
    )
    keys = table["step"].astype(float) + table["isl"].astype(float)
    own = (table["kv_cache_dtype"] == "bfloat16") & (table.get("window_size", 0 * batch) == 0) & (dim == 128)
    read = batch * keys * 2 * np.maximum(kv_heads, 1) * dim * 2.0
    own &= (heads <= 8 * np.maximum(kv_heads, 1)) & (read >= CACHED_BYTES)
    if own.sum() >= FEWEST:
        _, fraction = _line(read[own] / _bandwidth(hardware), table["latency"][own] / 1e3)
        yield "attention_decode_fraction", fraction, int(own.sum())


def _bandwidth(hardware: HardwareProfile) -> float:
    if hardware.memory_bytes_per_s is None:
        raise InputError(InputProblem(hardware.name, "figures.memory_bandwidth_tb_per_s", "is unknown", "a figure"))
    return hardware.memory_bytes_per_s
