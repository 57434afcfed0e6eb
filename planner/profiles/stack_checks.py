"""The gate's checks of a stack profile beyond its schema: plausible factors, fitted to something that is named."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, TypeGuard

from planner.errors import InputProblem, did_you_mean
from planner.profiles.architectures import Range
from planner.profiles.entries import HUGE, Check, CheckedFile, entries
from planner.profiles.figure_units import figure_unit, unit_hint
from planner.profiles.folders import Kind
from planner.profiles.stack import Band, Calibration, StackProfile, StackSettings
from planner.schema import FieldError, TomlFile
from planner.toml_lines import KeyPath

_EFFICIENCY = Range(0.05, 3)
RANGES: Mapping[str, Range] = {
    "gemm_efficiency": _EFFICIENCY,
    "moe_efficiency": _EFFICIENCY,
    "attention_efficiency": _EFFICIENCY,
    "recurrence_efficiency": _EFFICIENCY,
    "tile_rows": Range(0, 512),
    "weight_read_fraction": Range(0.3, 1.5),
    "kv_read_efficiency": _EFFICIENCY,
    "activation_traffic": Range(0.5, 10),
    "kernel_latency_us": Range(0, 50),
    "collective_latency": Range(0.05, 10),
    "replica_latency_us": Range(0, 1000),
    "step_overhead_ms": Range(0, 20),
    "sequence_overhead_us": Range(0, 500),
    "host_step_ms": Range(0, 50),
    "host_sequence_us": Range(0, 500),
    "eager_launch_us": Range(0, 500),
    "request_overhead_ms": Range(0, 1000),
    "prompt_token_us": Range(0, 100),
    "burst": Range(0, 5),
}
"""Plausible range of every factor, in the unit of its key."""

HIGHEST_LOW, LOWEST_HIGH = 1.2, 0.8
"""A band of measured over predicted that lies wholly beyond these is a bias, which the fit should have removed."""

_SPANS = ("input_tokens", "context_tokens", "batch", "n_accelerators")
_LISTS = ("points", "models", "hardware")


def plausible_factors(checked: CheckedFile) -> Iterator[InputProblem]:
    """Each factor lies in its range, judged as the file writes it."""
    for key, entry in entries(checked.file, "factors").items():
        value = entry.get("value")
        if key in RANGES and _is_number(value) and value not in RANGES[key]:
            yield _range_problem(checked.file, key, value)


def named_framework(checked: CheckedFile) -> Iterator[InputProblem]:
    """The framework is the file's name, or begins it: `--stack` finds both vllm and vllm-mine by their names."""
    stated, stem = checked.file.data.get("framework"), Path(checked.file.name).stem
    if isinstance(stated, str) and stated and stem != stated and not stem.startswith(f"{stated}-"):
        allowed = f"the file's name, {stem!r}, or what comes before a '-' of it"
        yield checked.file.problem(("framework",), f"is {stated!r}", allowed)


def cited_sources(checked: CheckedFile) -> Iterator[InputProblem]:
    """Every source is cited, and what the framework states says where."""
    if not isinstance(checked.profile, StackProfile):
        return
    factors, found = checked.profile.factors.stated, checked.profile.calibration
    cited = {factor.source for factor in factors.values()} | ({found.source} if found else set())
    cited |= {run.source for run in checked.profile.harnesses.values()} | {*checked.profile.settings_sources.values()}
    quoted = {factor.source for factor in factors.values() if factor.basis == "quoted"}
    for name, text in checked.profile.sources.items():
        if name not in cited:
            allowed = "cite it or leave it out"
            yield checked.file.problem(
                ("sources", name), "is cited by no factor, setting, harness or calibration", allowed
            )
        elif name in quoted and "://" not in text:
            yield checked.file.problem(("sources", name), "gives no address", "https:// for factors that are 'quoted'")


def sourced_settings(checked: CheckedFile) -> Iterator[InputProblem]:
    """Who is cited for a setting is a source, and what they are cited for a setting."""
    if not isinstance(checked.profile, StackProfile):
        return
    for setting, source in checked.profile.settings_sources.items():
        key = ("settings_sources", setting)
        if setting not in StackSettings.model_fields:
            yield checked.file.problem(key, "is no setting", did_you_mean(setting, StackSettings.model_fields))
        elif source not in checked.profile.sources:
            yield checked.file.problem(key, f"is {source!r}", f"one of [sources]: {', '.join(checked.profile.sources)}")


def fitted_to_points(checked: CheckedFile) -> Iterator[InputProblem]:
    """Each factor called calibrated was fitted to the points of a calibration."""
    if not isinstance(checked.profile, StackProfile) or checked.profile.calibration:
        return
    fitted = [key for key, factor in checked.profile.factors.stated.items() if factor.basis == "calibrated"]
    if fitted:
        others = f", as are {len(fitted) - 1} others" if len(fitted) > 1 else ""
        message = f"is 'calibrated'{others}, but there is no [calibration]"
        yield checked.file.problem(("factors", fitted[0], "basis"), message, "say which points it was fitted to")


def meant_harnesses(checked: CheckedFile) -> Iterator[InputProblem]:
    """Each harness of a framework has one meaning: one budget of a pass, looks by rising load, a known usual one."""
    if not isinstance(checked.profile, StackProfile):
        return
    harnesses, usual = checked.profile.harnesses, checked.profile.settings.usual_harness
    for name, run in harnesses.items():
        if run.tokens_per_pass is not None and run.tokens_beyond_prompt is not None:
            key = ("harnesses", name, "tokens_beyond_prompt")
            yield checked.file.problem(key, "is there beside tokens_per_pass", "one of the two")
        starts = [rule.from_concurrency for rule in run.polling]
        if starts != sorted({*starts}):
            message = f"begins at {', '.join(map(str, starts))} requests in flight"
            yield checked.file.problem(("harnesses", name, "polling"), message, "rising, each once")
    if usual is not None and usual not in harnesses:
        allowed = f"one of [harnesses]: {', '.join(harnesses) or 'none is there'}"
        yield checked.file.problem(("settings", "usual_harness"), f"is {usual!r}", allowed)


def plausible_calibration(checked: CheckedFile) -> Iterator[InputProblem]:
    """A calibration names its points once each, its spans rise, and its bands hold what was predicted."""
    if not isinstance(checked.profile, StackProfile) or not checked.profile.calibration:
        return
    found = checked.profile.calibration
    faults = (*_list_faults(found), *_points_faults(found), *_span_faults(found), *_band_faults(found))
    for key, message, allowed in faults:
        yield checked.file.problem(("calibration", *key), message, allowed)


STACK_CHECKS: tuple[Check, ...] = (
    plausible_factors,
    named_framework,
    cited_sources,
    sourced_settings,
    fitted_to_points,
    meant_harnesses,
    plausible_calibration,
)
"""Every check of a stack profile, in the order of their word on a key: the first one is reported."""


def stack_references(found: StackProfile) -> Iterator[tuple[KeyPath, Kind, str]]:
    """Names of other profiles in a calibration: key, kind and name."""
    if not found.calibration:
        return
    for index, name in enumerate(found.calibration.models):
        yield ("calibration", "models", index), "model", name
    for index, name in enumerate(found.calibration.hardware):
        yield ("calibration", "hardware", index), "hardware", name
    for index, group in enumerate(found.calibration.groups):
        yield ("calibration", "groups", index, "model"), "model", group.model
        yield ("calibration", "groups", index, "hardware"), "hardware", group.hardware


_Found = Iterator[tuple[KeyPath, str, str]]


def _is_number(value: Any) -> TypeGuard[float]:
    """True if a value is a number that the schema takes; it reports the others."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < HUGE


def _range_problem(file: TomlFile, key: str, value: float) -> InputProblem:
    unit, hint = figure_unit(key), unit_hint(key, value, RANGES[key])
    allowed = f"{RANGES[key]}{f' {unit}' if unit else ''}{f'; {hint}' if hint else ''}"
    return file.problem(("factors", key, "value"), f"is {value:.10g}", allowed)


def _list_faults(found: Calibration) -> _Found:
    for key in _LISTS:
        if not getattr(found, key):
            yield (key,), "is empty", "what the factors were fitted to"
    names = {"points": [file.name for file in found.points], "models": found.models, "hardware": found.hardware}
    groups = [f"{group.model} on {group.hardware}" for group in found.groups]
    for key, items in {**names, "groups": groups}.items():
        for index in _repeats(items):
            yield (key, index), f"repeats {items[index]}", "each once"


def _repeats(items: Sequence[str]) -> Iterator[int]:
    return (index for index, item in enumerate(items) if item in items[:index])


def _points_faults(found: Calibration) -> _Found:
    try:
        date.fromisoformat(found.date)
    except ValueError:
        yield ("date",), f"is {found.date!r}", "a day of the calendar, such as 2026-01-31"
    for index, file in enumerate(found.points):
        if file.n_used > file.n_points:
            yield ("points", index, "n_used"), f"is {file.n_used}", f"0 to n_points = {file.n_points}"


def _span_faults(found: Calibration) -> _Found:
    for key in _SPANS:
        low, high = getattr(found, key)
        if low > high:
            yield (key,), f"is {low} to {high}", "the lowest first"


def _band_faults(found: Calibration) -> _Found:
    for table, bands in (("model_bands", found.model_bands), ("hardware_bands", found.hardware_bands)):
        for key, band in bands:
            for fault in _faults_of(band) if band else ():
                allowed = f"low < high, low < {HIGHEST_LOW:g}, high > {LOWEST_HIGH:g}: measured over predicted"
                yield (table, key, *fault.key), fault.message, allowed


def _faults_of(band: Band) -> Iterator[FieldError]:
    if band.low >= band.high:
        yield FieldError(("low",), f"is {band.low:.10g}, not below high = {band.high:.10g}")
    elif band.low >= HIGHEST_LOW:
        yield FieldError(("low",), f"is {band.low:.10g}")
    elif band.high <= LOWEST_HIGH:
        yield FieldError(("high",), f"is {band.high:.10g}")
