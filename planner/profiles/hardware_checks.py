"""The gate's checks of a hardware profile beyond its schema: plausible, consistent, sourced and marked figures.

Figures are read from the file as written, so that a file whose schema does not hold is judged as far as it can be.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from planner.errors import InputProblem, did_you_mean
from planner.profiles.architectures import GENERAL, GENERATIONS, Generation, Range
from planner.profiles.consistency import blamed, relations, too_steep
from planner.profiles.efficiency_checks import EFFICIENCY_CHECKS
from planner.profiles.entries import Check, CheckedFile, entries, numbers
from planner.profiles.figure_units import figure_unit, unit_hint
from planner.profiles.hardware import HardwareProfile
from planner.schema import TomlFile
from planner.units import BITS_PER_BYTE, GB, MIB

TABLES = ("figures", "efficiency")
"""Tables of a hardware profile that hold figures."""

_PEAKS = ("bf16_tflops", "fp8_tflops", "fp4_tflops")
_RISING = (_PEAKS, ("rent_low_usd_per_hour", "rent_high_usd_per_hour"))
_NEEDED = ("memory_gb", "memory_bandwidth_tb_per_s")
_OWN = frozenset({"measured", "derived"})
"""Bases of figures that rest on somebody's own measurement."""
_UNPUBLISHED = re.compile(r"\b(internal|confidential|NDA|not public|unpublished)\b", re.IGNORECASE)
"""What a source says that no address leads to: a design document of one's own, a datasheet that one may not share."""
_DOCUMENT = "'internal' or 'under NDA' and its day"
_REPORTED = Range(0.9, 1.08)
"""Memory that a device reports over the gigabytes it is sold with: a GiB is 1.074 GB, and error correction or a spare
stack takes some of it."""
_DAY = re.compile(r"\b20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])\b")
_SPECIFIED, _CLAIMED = ("datasheet", "measured"), ("announced",)


def known_generation(checked: CheckedFile) -> Iterator[InputProblem]:
    """The generation is one whose ranges are known, its vendor sells it, and its figures look like it."""
    file, name = checked.file, checked.file.data.get("generation")
    if not isinstance(name, str) or not name:
        return
    if name not in GENERATIONS:
        hint = f"{did_you_mean(name, GENERATIONS)}; 'other' for a part of none of them"
        yield file.problem(("generation",), f"is {name!r}", hint)
    elif _is_of_another_generation(file):
        message = f"is {name!r}, but most figures lie outside its ranges"
        yield file.problem(("generation",), message, "the family the accelerator belongs to")
    else:
        yield from _vendor_problems(file, name, GENERATIONS[name])


def plausible_figures(checked: CheckedFile) -> Iterator[InputProblem]:
    """Each figure lies in its range, and those that do agree with each other."""
    file, values = checked.file, _values(checked.file)
    name = _generation(file)
    misfits = _out_of_range(values, {**GENERAL, **GENERATIONS[name].ranges})
    for key, allowed in misfits.items():
        yield _range_problem(file, name, key, values[key], allowed)
    fitting = {key: value for key, value in values.items() if key not in misfits}
    yield from _inconsistent(file, name, fitting)


def figures_that_plan(checked: CheckedFile) -> Iterator[InputProblem]:
    """Memory, its bandwidth and a peak are there, and a domain of several accelerators has its link."""
    if not isinstance(checked.profile, HardwareProfile):
        return
    file, values = checked.file, _values(checked.file)
    for key in _NEEDED:
        if key not in values:
            yield file.problem(("figures", key), "is required", "nothing can be planned without it")
    if not any(key in values for key in (*_PEAKS, "int8_tops")):
        yield file.problem(("figures",), "has no peak", f"at least one of {', '.join((*_PEAKS, 'int8_tops'))}")
    if values.get("scaleup_domain_accelerators", 1) > 1 and "scaleup_gb_per_s" not in values:
        yield file.problem(("figures", "scaleup_gb_per_s"), "is required", "beside a domain of several accelerators")


def sourced_figures(checked: CheckedFile) -> Iterator[InputProblem]:
    """Every source is cited and says where it is; what could not be attributed is a lead, and only that."""
    if not isinstance(checked.profile, HardwareProfile):
        return
    cited = {(table, key): entry for table in TABLES for key, entry in entries(checked.file, table).items()}
    yield from _idle_or_placeless_sources(checked.file, checked.profile.sources, cited.values())
    for key, entry in cited.items():
        if (entry.get("basis") == "lead") != _is_lead(entry.get("source")):
            message = f"is {entry.get('basis')!r} with source {entry.get('source')!r}"
            allowed = "'lead' for sources whose id ends in -lead, and only for those"
            yield checked.file.problem((*key, "basis"), message, allowed)


def _idle_or_placeless_sources(
    file: TomlFile, sources: Mapping[str, str], cited: Iterable[Mapping[str, Any]]
) -> Iterator[InputProblem]:
    bases: dict[Any, set[Any]] = {}
    for entry in cited:
        bases.setdefault(entry.get("source"), set()).add(entry.get("basis"))
    for name, text in sources.items():
        if name not in bases:
            yield file.problem(("sources", name), "is cited by no figure", "cite it or leave it out")
        elif "://" not in text and not _is_lead(name):
            yield from _placeless(file, name, text, is_own=bases[name] <= _OWN)


def _placeless(file: TomlFile, name: str, text: str, is_own: bool) -> Iterator[InputProblem]:
    """A source without address states its day: an own measurement, beside by whom and how, or a document not public."""
    if not is_own and not _UNPUBLISHED.search(text):
        measured = "a text with the day where all its figures are 'measured' by yourselves"
        document = f"for a document that is not public its name with {_DOCUMENT}"
        allowed = f"an address with https://; {measured}; {document}; an id that ends in -lead for hearsay"
        yield file.problem(("sources", name), "gives no address", allowed)
    elif not _DAY.search(text):
        example = (
            "'measured by us, 2026-11-20, nvbandwidth 0.7'"
            if is_own
            else "'Chip specification 0.9, 2026-11-20, internal'"
        )
        what = "gives no day of the measurement" if is_own else "gives no day of the document"
        yield file.problem(("sources", name), what, f"such as {example}, or an address with https://")


def marked_figures(checked: CheckedFile) -> Iterator[InputProblem]:
    """An announced part has no datasheet or measured figures, one that can be had none merely announced."""
    if not isinstance(checked.profile, HardwareProfile):
        return
    status = checked.profile.status
    bases = {key: entry.get("basis") for key, entry in entries(checked.file, "figures").items()}
    wrong, right = (_SPECIFIED, _CLAIMED) if status == "announced" else (_CLAIMED, _SPECIFIED)
    odd = [key for key, basis in bases.items() if basis in wrong]
    allowed = f"no figure is {' or '.join(map(repr, wrong))} where status is {status!r}"
    if len(odd) > sum(basis in right for basis in bases.values()):
        yield checked.file.problem(("status",), f"is {status!r}, but {len(odd)} figures are {bases[odd[0]]!r}", allowed)
        return
    for key in odd:
        yield checked.file.problem(("figures", key, "basis"), f"is {bases[key]!r}", allowed)


HARDWARE_CHECKS: tuple[Check, ...] = (
    known_generation,
    plausible_figures,
    figures_that_plan,
    sourced_figures,
    marked_figures,
    *EFFICIENCY_CHECKS,
)
"""Every check of a hardware profile, in the order of their word on a key: the first one is reported."""


def _values(file: TomlFile) -> dict[str, float]:
    """Figures as written that are positive numbers; the schema reports the others."""
    return numbers(file, "figures", GENERAL)


def _is_lead(source: Any) -> bool:
    return isinstance(source, str) and source.endswith("-lead")


def _generation(file: TomlFile) -> str:
    """The file's generation where it is credible, else that of which only the general ranges are known."""
    name = file.data.get("generation")
    known = isinstance(name, str) and name in GENERATIONS
    return _variant(file) if known and not _is_of_another_generation(file) else "other"


def _variant(file: TomlFile) -> str:
    """The variant of the file's generation whose ranges hold most of its figures; the generation itself at a draw."""
    name, values = str(file.data["generation"]), _values(file)
    names = (name, *GENERATIONS[name].variants)
    return min(names, key=lambda variant: len(_out_of_range(values, GENERATIONS[variant].ranges)))


def _is_of_another_generation(file: TomlFile) -> bool:
    """True if most figures that have a range in the generation lie outside it, though they are plausible in general."""
    own = GENERATIONS[_variant(file)].ranges
    values = {key: value for key, value in _values(file).items() if key in own and value in GENERAL[key]}
    return 2 * len(_out_of_range(values, own)) > max(len(values), 3)


def _vendor_problems(file: TomlFile, name: str, generation: Generation) -> Iterator[InputProblem]:
    vendor = file.data.get("vendor")
    if generation.vendors and isinstance(vendor, str) and vendor and vendor not in generation.vendors:
        allowed = f"generation {name} is sold by {' or '.join(generation.vendors)}"
        yield file.problem(("vendor",), f"is {vendor!r}", allowed)


def _out_of_range(values: Mapping[str, float], ranges: Mapping[str, Range]) -> dict[str, Range]:
    """Range of each figure that lies outside it."""
    return {key: ranges[key] for key, value in values.items() if key in ranges and value not in ranges[key]}


def _range_problem(file: TomlFile, name: str, key: str, value: float, allowed: Range) -> InputProblem:
    where = f" in generation {name}" if allowed is not GENERAL[key] else ""
    unit = figure_unit(key)
    hint = unit_hint(key, value, allowed)
    text = f"{allowed}{f' {unit}' if unit else ''}{where}{f'; {hint}' if hint else ''}"
    return file.problem(("figures", key, "value"), f"is {value:.10g}", text)


def _inconsistent(file: TomlFile, name: str, values: Mapping[str, float]) -> Iterator[InputProblem]:
    generation = GENERATIONS[name]
    for key in (key for key in generation.lacks if key in values):
        message = f"is {values[key]:.10g}, but generation {name} has no unit for it"
        yield file.problem(("figures", key, "value"), message, "absent")
    wrong = blamed(relations(generation, values, _clock_is_the_peaks(file)))
    for key, message in wrong.items():
        allowed = "they agree" if len(wrong) == 1 else f"they agree; {' or '.join(wrong)} is wrong"
        yield file.problem(("figures", key, "value"), message, allowed)
    known = {key: value for key, value in values.items() if key not in wrong and key not in generation.lacks}
    falling = {key: (message, allowed) for key, message, allowed in _falling(known)}
    rising = {key: value for key, value in known.items() if key not in falling}
    steep = {key: (message, allowed) for _, key, message, allowed in too_steep(rising)}
    for key, (message, allowed) in (falling | steep).items():
        yield file.problem(("figures", key, "value"), message, allowed)
    yield from _link_problems(file, known)
    yield from _memory_problems(file, known)


def _clock_is_the_peaks(file: TomlFile) -> bool:
    """True if the clock is the one at which the peaks hold, and not the highest a device was seen to report."""
    return entries(file, "figures").get("boost_clock_mhz", {}).get("basis") != "measured"


def _falling(values: Mapping[str, float]) -> Iterator[tuple[str, str, str]]:
    """Figures that should not fall along a list of them, yet do: key, what it is, what is allowed."""
    for keys in _RISING:
        for before, after in pairwise(key for key in keys if key in values):
            low, high = values[before], values[after]
            if high < low:
                yield after, f"is {high:.10g}, less than {before} = {low:.10g}", f"{after} >= {before}"


def _memory_problems(file: TomlFile, values: Mapping[str, float]) -> Iterator[InputProblem]:
    """A device that reports another memory than the one it is sold with."""
    sold_gb, reported = values.get("memory_gb"), values.get("reported_memory_mib")
    if not sold_gb or not reported:
        return
    allowed = Range(_REPORTED.low * sold_gb * GB / MIB, _REPORTED.high * sold_gb * GB / MIB)
    if reported not in allowed:
        message = f"is {reported:.10g} MiB or {reported * MIB / GB:.4g} GB beside memory_gb = {sold_gb:.10g}"
        hint = unit_hint("reported_memory_mib", reported, allowed)
        yield file.problem(("figures", "reported_memory_mib", "value"), message, f"{_REPORTED} of what is sold; {hint}")


def _link_problems(file: TomlFile, values: Mapping[str, float]) -> Iterator[InputProblem]:
    """A scale-up link that is slower than the way around it, or does not join whole servers."""
    link, n_joined = values.get("scaleup_gb_per_s"), values.get("scaleup_domain_accelerators")
    nic, pcie, n_in_node = (values.get(key) for key in ("nic_gbps", "pcie_gb_per_s", "accelerators_per_node"))
    domain_key = ("figures", "scaleup_domain_accelerators", "value")
    if n_joined is None:
        return
    if n_joined > 1 and link and nic and BITS_PER_BYTE * link < nic:
        message = f"is {link:.10g}, less than nic_gbps = {nic:.10g} or {nic / BITS_PER_BYTE:.10g} GB/s"
        yield file.problem(("figures", "scaleup_gb_per_s", "value"), message, "at least the network")
    if n_joined == 1 and link and pcie and link > pcie:
        message = f"is 1, but scaleup_gb_per_s = {link:.10g} is more than pcie_gb_per_s = {pcie:.10g}"
        yield file.problem(domain_key, message, "the accelerators that link joins")
    if n_joined > 1 and n_in_node and max(n_joined, n_in_node) % min(n_joined, n_in_node):
        message = f"is {n_joined:.10g} beside accelerators_per_node = {n_in_node:.10g}"
        yield file.problem(domain_key, message, "whole servers, or an equal part of one")
