"""Relations among the peaks of one accelerator, and the figure to blame when they do not hold."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from planner.profiles.architectures import Generation
from planner.units import TERA

CLOCK_TOLERANCE = 0.01
"""Peaks are printed with three digits or more."""
RATIO_TOLERANCE = 0.03
"""Datasheets round each precision by itself, and some from slightly different clocks."""
_MHZ = 1e6
MOST_PER_STEP = 5.0
"""A dense peak over that of numbers twice as wide: a multiplier of half the width takes a quarter of the area, so that
four fit where one was. The steepest step of a shipped part is 4.4, of rubin-vr200."""
_STEPS = (
    ("bf16_tflops", "fp8_tflops", 1),
    ("bf16_tflops", "int8_tops", 1),
    ("bf16_tflops", "fp4_tflops", 2),
    ("fp8_tflops", "int8_tops", 1),
    ("fp8_tflops", "fp4_tflops", 1),
)
"""Peaks of wider and of narrower numbers, and how often the width is halved between them."""


@dataclass(frozen=True)
class Relation:
    """Figures that determine each other, whether they agree, and what to say when they do not."""

    keys: frozenset[str]
    holds: bool
    message: str


def relations(generation: Generation, values: Mapping[str, float], clock_is_the_peaks: bool = True) -> list[Relation]:
    """Every equation of a generation whose figures are all known."""
    clock = _clock(generation, values) if clock_is_the_peaks else ()
    return [*_ratios(generation, values), *clock]


def blamed(found: Iterable[Relation]) -> dict[str, str]:
    """Figures to blame with what is wrong: those of a failing equation which no other equation clears.

    One wrong figure spoils all its equations and no other, so of the figures in every failing equation those are left
    that appear in none that holds; where that leaves several, each may be the wrong one.

    >>> holds = Relation(frozenset({"bf16", "int8"}), True, "")
    >>> fails = Relation(frozenset({"bf16", "fp8"}), False, "is not twice")
    >>> blamed([holds, fails])
    {'fp8': 'is not twice'}
    """
    equations = tuple(found)
    failing = [equation for equation in equations if not equation.holds]
    if not failing:
        return {}
    cleared = frozenset[str]().union(*(equation.keys for equation in equations if equation.holds))
    shared = frozenset.intersection(*(equation.keys for equation in failing))
    touched = frozenset[str]().union(*(equation.keys for equation in failing))
    suspects = (shared - cleared) or (touched - cleared) or touched
    return {key: next(e.message for e in failing if key in e.keys) for key in sorted(suspects)}


def too_steep(values: Mapping[str, float]) -> Iterator[tuple[str, str, str, str]]:
    """Peaks that no part can have beside its peak of wider numbers.

    Yields:
        The wider and the narrower peak's key, how they stand to each other, and what is allowed.

    >>> [words for *_, words, _ in too_steep({"bf16_tflops": 100.0, "fp8_tflops": 800.0, "int8_tops": 200.0})]
    ['fp8_tflops = 800 is 8 x bf16_tflops = 100']
    """
    for wider, key, n_steps in _STEPS:
        most = MOST_PER_STEP**n_steps
        if wider in values and key in values and values[key] > most * values[wider]:
            ratio = values[key] / values[wider]
            words = f"{key} = {values[key]:.10g} is {ratio:.3g} x {wider} = {values[wider]:.10g}"
            yield wider, key, words, f"at most {most:g} x, both dense"


def _ratios(generation: Generation, values: Mapping[str, float]) -> Iterator[Relation]:
    for key, ratio in generation.peaks_per_bf16.items():
        if key in values and "bf16_tflops" in values:
            peak, bf16 = values[key], values["bf16_tflops"]
            message = f"{key} = {peak:.10g} is not {ratio:g} x bf16_tflops = {bf16:.10g}"
            yield Relation(frozenset({key, "bf16_tflops"}), _near(peak, ratio * bf16, RATIO_TOLERANCE), message)


def _clock(generation: Generation, values: Mapping[str, float]) -> Iterator[Relation]:
    flop, keys = generation.bf16_flop_per_clock_per_sm, ("n_sm", "boost_clock_mhz", "bf16_tflops")
    if flop is None or not all(key in values for key in keys):
        return
    n_sm, clock_mhz, bf16 = (values[key] for key in keys)
    product = n_sm * clock_mhz * _MHZ * flop / TERA
    message = f"{n_sm:g} x {clock_mhz:g} MHz x {flop} FLOP per clock give {product:.4g}, not bf16_tflops = {bf16:.10g}"
    if _near(2 * product, bf16, CLOCK_TOLERANCE):
        # Twice the peak is printed for sparse products, of all precisions or of one: it is not the clock's fault.
        peaks = frozenset({"bf16_tflops", *generation.peaks_per_bf16} & values.keys())
        yield Relation(peaks, False, f"{message}: twice as much, as with sparsity")
    else:
        yield Relation(frozenset(keys), _near(product, bf16, CLOCK_TOLERANCE), message)


def _near(value: float, wanted: float, tolerance: float) -> bool:
    return abs(value - wanted) <= tolerance * wanted
