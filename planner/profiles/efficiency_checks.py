"""The gate's checks of measured efficiencies beyond their schema: in range, in order, of peaks that are there."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from math import inf

from planner.errors import InputProblem
from planner.profiles.architectures import Range
from planner.profiles.efficiency import ALL_REDUCE_RANKS, WHOLES, Efficiencies
from planner.profiles.entries import Check, CheckedFile, entries, numbers
from planner.profiles.figure_units import figure_unit, unit_hint
from planner.profiles.hardware import HardwareProfile
from planner.schema import TomlFile

SLACK = 1.15
"""How far an efficiency may exceed one that bounds it: they come from different shapes and frameworks."""

_SIZES = ("m256", "m1536", "m4096")
_FEW_ROWS = ("m2", "m4", "m16", "m64", "m256")
"""Of bf16 alone: heights of a processor whose small products were measured. A single row, which has a kernel of its own
and does nothing but read, may be faster than two."""
_WIDER = {"fp8": "bf16", "fp8_block": "bf16", "fp4": "fp8"}
"""Precisions with the wider one whose lower peak is the easier to reach."""
_RANGE_OF_PREFIX = {
    "gemm_": Range(0.05, 1),
    **dict.fromkeys(("gemm_bf16_m1_", "gemm_bf16_m2_", "gemm_bf16_m4_", "gemm_bf16_m16_"), Range(0.001, 1)),
    "weight_read_": Range(0.1, 1),
    **dict.fromkeys(("attention_prefill_", "attention_decode_"), Range(0.1, 1)),
    "attention_half_tokens": Range(10, 10_000),
    "attention_tail_tiles": Range(1, 500),
    "grouped_": Range(0.05, 1),
    "moe_": Range(0.005, 1),
    "moe_weight_read_": Range(0.1, 1),
    **{f"moe_{name}_start_us": Range(1, 1000) for name in ("bf16", "fp8", "fp4", "w4a16", "w4a8")},
    **dict.fromkeys(("all_reduce_fraction", "all_reduce_4_"), Range(0.02, 1.1)),
    "all_reduce_2_": Range(0.02, 1),
    "all_reduce_latency_us": Range(0.5, 100),
    "all_to_all_": Range(0.02, 1),
    "recurrence_fraction": Range(0.01, 1),
    "recurrence_chunk_us": Range(0.5, 100),
    "recurrence_decode_": Range(0.1, 1),
}

RANGES: Mapping[str, Range] = {
    key: allowed
    for key in Efficiencies.model_fields
    for prefix, allowed in _RANGE_OF_PREFIX.items()
    if key.startswith(prefix)
}
"""Plausible range of every efficiency; reduction inside the network lets an all-reduce exceed its link a little, but
not one of two ranks, which both send all they have either way."""

BOUNDS: tuple[tuple[str, str], ...] = (
    *((f"gemm_bf16_{fewer}_fraction", f"gemm_bf16_{more}_fraction") for fewer, more in combinations(_FEW_ROWS, 2)),
    *(
        (f"gemm_{precision}_{fewer}_fraction", f"gemm_{precision}_{more}_fraction")
        for precision in ("bf16", *_WIDER)
        for fewer, more in combinations(_SIZES, 2)
    ),
    *(
        (f"gemm_{narrow}_{size}_fraction", f"gemm_{wide}_{size}_fraction")
        for narrow, wide in _WIDER.items()
        for size in _SIZES
    ),
    ("weight_read_fp8_fraction", "weight_read_bf16_fraction"),
    ("attention_prefill_fraction", "gemm_bf16_m4096_fraction"),
    ("recurrence_fraction", "gemm_bf16_m4096_fraction"),
    ("moe_bf16_m4096_fraction", "gemm_bf16_m4096_fraction"),
    ("moe_fp8_m4096_fraction", "gemm_fp8_m4096_fraction"),
    ("moe_fp4_m4096_fraction", "gemm_fp4_m4096_fraction"),
    ("grouped_fp8_m256_fraction", "grouped_fp8_m4096_fraction"),
)
"""Pairs of efficiencies of which the first does not exceed the second by more than the slack: products of more rows
fill the accelerator better, those of narrower numbers worse, and plain products are what everything else is held to."""

_NEVER = ("datasheet", "announced")
_OF_A_DEVICE = ("measured", "derived")
_EXPLAINED = ("derived", "inferred")
_JOINED_BY = ("scaleup_domain_accelerators", "scaleup_gb_per_s", "pcie_gb_per_s")
_SERVER = 8
"""Most accelerators of a group whose all-reduce is measured."""
_REQUIRED = "memory_bandwidth_tb_per_s"
"""A whole that is asked for even where no efficiency is a fraction of it."""


def plausible_efficiencies(checked: CheckedFile) -> Iterator[InputProblem]:
    """Each efficiency lies in its range, is a fraction of a figure that is there, and agrees with the others."""
    file = checked.file
    values = numbers(file, "efficiency", RANGES)
    fitting = {key: value for key, value in values.items() if value in RANGES[key]}
    for key in (key for key in values if key not in fitting):
        yield _range_problem(file, key, values[key])
    yield from _parts_of_nothing(file, fitting)
    bounds = (*BOUNDS, *_bounds_of_groups(numbers(file, "figures", _JOINED_BY)))
    for key, message in _out_of_order(fitting, bounds).items():
        yield file.problem(("efficiency", key, "value"), message, f"at most {SLACK:g} times what bounds it")


def marked_efficiencies(checked: CheckedFile) -> Iterator[InputProblem]:
    """No efficiency is a vendor's claim, and those derived say of what."""
    if not isinstance(checked.profile, HardwareProfile):
        return
    for key, entry in entries(checked.file, "efficiency").items():
        basis = entry.get("basis")
        if basis in _NEVER:
            allowed = "what kernels reach is measured, or follows from what was; a vendor gives peaks"
            yield checked.file.problem(("efficiency", key, "basis"), f"is {basis!r}", allowed)
        elif basis in _EXPLAINED and not entry.get("note"):
            allowed = f"beside an efficiency that is {basis!r}: from what"
            yield checked.file.problem(("efficiency", key, "note"), "is required", allowed)


def efficiencies_of_a_device(checked: CheckedFile) -> Iterator[InputProblem]:
    """Nothing was measured on a part that cannot be had; where much was, it can be had."""
    if not isinstance(checked.profile, HardwareProfile) or checked.profile.status != "announced":
        return
    figures, efficiencies = (entries(checked.file, table) for table in ("figures", "efficiency"))
    n_claimed = sum(entry.get("basis") == "announced" for entry in figures.values())
    bases = {key: entry.get("basis") for key, entry in efficiencies.items()}
    odd = [key for key, basis in bases.items() if basis in _OF_A_DEVICE]
    allowed = f"no efficiency is {' or '.join(map(repr, _OF_A_DEVICE))} where status is 'announced'"
    if len(odd) > n_claimed:
        message = f"is 'announced', but {len(odd)} efficiencies are {bases[odd[0]]!r}"
        yield checked.file.problem(("status",), message, allowed)
        return
    for key in odd:
        yield checked.file.problem(("efficiency", key, "basis"), f"is {bases[key]!r}", allowed)


EFFICIENCY_CHECKS: tuple[Check, ...] = (
    plausible_efficiencies,
    marked_efficiencies,
    efficiencies_of_a_device,
)
"""Every check of the efficiencies of a hardware profile."""


def _range_problem(file: TomlFile, key: str, value: float) -> InputProblem:
    allowed = f"{RANGES[key]} {figure_unit(key)}; {unit_hint(key, value, RANGES[key])}"
    return file.problem(("efficiency", key, "value"), f"is {value:.10g}", allowed)


def _parts_of_nothing(file: TomlFile, values: Mapping[str, float]) -> Iterator[InputProblem]:
    """Fractions of a peak or a link that the file does not give; not the one required anyway."""
    figures = entries(file, "figures")
    for key, whole in WHOLES.items() if figures else ():
        if key in values and whole not in figures and whole != _REQUIRED:
            message = f"is a fraction of {whole}, which has no figure"
            yield file.problem(("efficiency", key), message, f"absent, or beside figures.{whole}")


def _bounds_of_groups(figures: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """The slower and the faster of two all-reduces, as in `BOUNDS`, where it is known what joins a whole server.

    More ranks of a scale-up domain bring more links, or a switch that adds up. More ranks without one share the links
    of their hosts.
    """
    pairs = combinations(ALL_REDUCE_RANKS, 2)
    domain, link, host = (figures.get(key, inf) for key in _JOINED_BY)
    if domain >= _SERVER:
        yield from pairs
    elif domain == 1 and link <= host:
        yield from ((more, fewer) for fewer, more in pairs)


def _out_of_order(values: Mapping[str, float], bounds: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Efficiencies to blame for broken bounds: the one in all of them, else of each the one that is too high."""
    known = [pair for pair in bounds if all(key in values for key in pair)]
    broken = [(low, high) for low, high in known if values[low] > SLACK * values[high]]
    shared = set[str]() if len(broken) < 2 else set.intersection(*map(set, broken))
    if len(shared) == 1:
        (key,), (low, high) = shared, broken[0]
        return {key: _above(low, high, values) if key == low else _below(low, high, values)}
    return {low: _above(low, high, values) for low, high in reversed(broken)}


def _above(low: str, high: str, values: Mapping[str, float]) -> str:
    return f"is {values[low]:.10g}, more than {SLACK:g} x {high} = {values[high]:.10g}"


def _below(low: str, high: str, values: Mapping[str, float]) -> str:
    return f"is {values[high]:.10g}, and {low} = {values[low]:.10g} is more than {SLACK:g} times that"
