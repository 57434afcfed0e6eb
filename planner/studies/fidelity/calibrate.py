"""A stack profile fitted to measured points, with its errors on models and accelerators that the fit did not see."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.errors import NAME_CHARACTERS, InputError, InputProblem, printable
from planner.profiles.points import ServingPoint, weights
from planner.profiles.stack import (
    Bands,
    Calibration,
    Errors,
    Factor,
    GroupError,
    PointsFile,
    StackFactors,
    StackProfile,
    StackSettings,
)
from planner.progress import Progress
from planner.reading import TABLE_BYTES, read_bytes
from planner.roofline import Factors, RunAs
from planner.roofline.factors import PRIOR, PRIORS
from planner.studies.fidelity.calibration_request import Conventions
from planner.studies.fidelity.cases import PointCase, cases_of
from planner.studies.fidelity.doubts import point_doubts
from planner.studies.fidelity.drafting import drafting_series
from planner.studies.fidelity.fit import (
    EVERY,
    OF_A_FRAMEWORK,
    Fit,
    MeasuredTimes,
    fit_factors,
    fit_in_rounds,
    times_as_run,
)
from planner.studies.fidelity.loads import loads_of
from planner.studies.fidelity.scores import band, relative_errors, summary

FloatArray = NDArray[np.float64]
FEWEST_POINTS = 1
"""Priors carry what the points do not determine, and the profile says of which factors."""
MOVED_SPREAD = 0.9
"""A factor whose standard error is still this share of its prior's spread was not learnt from the points."""
UNITS = {
    "kernel_latency": 1e6,
    "replica_latency": 1e6,
    "sequence_overhead": 1e6,
    "host_sequence": 1e6,
    "prompt_token": 1e6,
}
UNITS |= {"eager_launch": 1e6, "step_overhead": 1e3, "host_step": 1e3, "request_overhead": 1e3}
SUFFIX = {1e6: "_us", 1e3: "_ms"}
POINTS_SOURCE, PRIOR_SOURCE, SHIPPED_SOURCE = "points", "priors", "shipped"
USUAL = Conventions()
PRIORS_CITED = "What is expected before any point speaks, planner/roofline/factors.py"
SHIPPED_CITED = "The stack that is shipped of this framework, which the fit began with"
SHIPPED_NOTE = "as shipped: the points hardly move it"


@dataclass(frozen=True)
class PointsOf:
    """Points of one file, or of the catalogue."""

    path: Path | None
    """File; None: curves of the model profiles."""
    points: tuple[ServingPoint, ...]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Errors of points predicted by fits that did not see their group."""

    ttft: FloatArray
    tpot: FloatArray


def calibrated_stack(
    name: str,
    framework: str,
    files: Sequence[PointsOf],
    *,
    settings: StackSettings,
    conventions: Conventions = USUAL,
    start: Factors | None = None,
    described: str | None = None,
    day: date,
    progress: Progress = lambda _: None,
) -> StackProfile:
    """A stack profile from measured points of one framework.

    Args:
        name: name of the profile.
        framework: framework that the points must be of.
        files: measured points.
        settings: how the framework is run.
        conventions: how benchmarks run it, and the sources that say so.
        start: factors of the framework, all of which the points move; None: nothing is known of it, and they move few.
        described: whose the points are, for the profile's sources.
        day: date that the profile bears.
        progress: told what is being fitted.

    Returns:
        The profile: factors, errors in sample, with each model and with each accelerator held out.

    Raises:
        InputError: too few points of the framework can be predicted.
    """
    how = RunAs(settings, conventions.harnesses)
    measured, kept = _points_of(framework, files, how)
    begun, names = (PRIOR, OF_A_FRAMEWORK) if start is None else (start, EVERY)
    if start is None:  # one's own server may be as slow as it is
        measured, kept = _sound(measured, kept, begun, how)
    progress(f"fitting {len(kept)} points")
    everything = np.ones(len(kept), bool)
    fit, measured = fit_in_rounds(measured, begun, names, how, progress)
    in_sample = errors_of(measured, fit.factors, everything)
    held_models = held_out(measured, begun, names, [case.model.name for case in kept], progress)
    held_hardware = held_out(measured, begun, names, [case.hardware.name for case in kept], progress)
    factors = _factors(fit, is_shipped=start is not None)
    return StackProfile(
        schema_id="planner.stack/1",
        name=name,
        title=f"{framework}, calibrated",
        sources={**_sources(files, factors, described), **conventions.sources},
        framework=framework,
        settings=settings,
        settings_sources=dict(conventions.settings_sources),
        harnesses=dict(conventions.harnesses),
        factors=factors,
        calibration=Calibration(
            date=day.isoformat(),
            source=POINTS_SOURCE,
            points=_files(files, kept),
            models=tuple(sorted({case.model.name for case in kept})),
            hardware=tuple(sorted({case.hardware.name for case in kept})),
            **_ranges(measured, kept),
            in_sample=_summaries(in_sample),
            held_out_models=None if held_models is None else _summaries(held_models),
            held_out_hardware=None if held_hardware is None else _summaries(held_hardware),
            model_bands=_bands(held_models),
            hardware_bands=_bands(held_hardware or held_models),
            groups=_groups(measured, fit, kept),
        ),
    )


def _points_of(framework: str, files: Sequence[PointsOf], how: RunAs) -> tuple[MeasuredTimes, tuple[PointCase, ...]]:
    points = [point for file in files for point in file.points if point.framework.casefold() == framework]
    cases, _ = cases_of(point for point in points if not point.is_batch)
    if len(cases) < FEWEST_POINTS:
        message = f"{len(cases)} points of {framework} can be predicted, of {len(points)} given"
        raise InputError(
            InputProblem("points", "", message, f"at least {FEWEST_POINTS}; planner fidelity says why not")
        )
    return measured_points(cases, how), tuple(cases)


def _sound(
    measured: MeasuredTimes, cases: tuple[PointCase, ...], expected: Factors, how: RunAs
) -> tuple[MeasuredTimes, tuple[PointCase, ...]]:
    """Points without those that are doubtful, or draft tokens and do not say so, at the factors that are expected; all
    of them where none is left."""
    ttft_s, tpot_s = times_as_run(measured, expected, how).latencies(expected)
    drafting = {k for series in drafting_series(cases, tpot_s.tolist()) for k in series}
    whose = enumerate(zip(cases, point_doubts(cases, ttft_s), strict=True))
    sound = tuple(case for k, (case, doubt) in whose if doubt is None and k not in drafting)
    return (measured_points(sound, how), sound) if 0 < len(sound) < len(cases) else (measured, cases)


def measured_points(cases: Sequence[PointCase], how: RunAs) -> MeasuredTimes:
    """Points that can be predicted, as a fit takes them; copies count once."""
    return MeasuredTimes(
        loads=loads_of(cases, how),
        ttft_s=np.array([_or_nan(case.point.ttft_s) for case in cases]),
        tpot_s=np.array([_or_nan(case.point.tpot_s) for case in cases]),
        weight=np.array(weights([case.point for case in cases])),
    )


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def errors_of(measured: MeasuredTimes, factors: Factors, of: NDArray[np.bool_]) -> HeldOut:
    """Relative errors of some points by some factors."""
    ttft, tpot = measured.latencies(factors)
    return HeldOut(
        relative_errors(ttft[of], measured.ttft_s[of]),
        relative_errors(tpot[of], measured.tpot_s[of]),
    )


def held_out(
    measured: MeasuredTimes,
    start: Factors,
    names: tuple[str, ...],
    labels: Sequence[str],
    progress: Progress,
) -> HeldOut | None:
    """Errors of each group under a fit to all others; None with a single group."""
    of_group, groups = np.array(labels), sorted(set(labels))
    if len(groups) < 2:
        return None
    found = []
    for group in groups:
        progress(f"fitting without {group}")
        own = of_group == group
        found.append(errors_of(measured, fit_factors(measured, ~own, start, names).factors, own))
    return HeldOut(np.concatenate([f.ttft for f in found]), np.concatenate([f.tpot for f in found]))


def _summaries(errors: HeldOut) -> Errors:
    return Errors(ttft=summary(errors.ttft), tpot=summary(errors.tpot))


def _bands(errors: HeldOut | None) -> Bands:
    """Bands from what was held out; none where nothing was, since a fit knows too much of its own points."""
    if errors is None:
        return Bands()
    return Bands(prefill=band(errors.ttft), decode=band(errors.tpot))


def _groups(measured: MeasuredTimes, fit: Fit, kept: Sequence[PointCase]) -> tuple[GroupError, ...]:
    keys = [(case.model.name, case.hardware.name) for case in kept]
    found = []
    for model, hardware in sorted(set(keys)):
        own = np.array([key == (model, hardware) for key in keys])
        errors = _summaries(errors_of(measured, fit.factors, own))
        found.append(
            GroupError(
                model=model,
                hardware=hardware,
                n_points=int(own.sum()),
                version=_usual([case.version for case, mine in zip(kept, own, strict=True) if mine]),
                ttft_mean_abs=errors.ttft.mean_abs if errors.ttft else None,
                tpot_mean_abs=errors.tpot.mean_abs if errors.tpot else None,
            )
        )
    return tuple(found)


def _factors(fit: Fit, *, is_shipped: bool) -> StackFactors:
    """Fitted values; one that the points say nothing about stays near what was expected and is called assumed."""
    stated = {name: in_profile(name, fit.factors) for name in fit.names}
    return StackFactors(
        **{key: _factor(fit, name, value, is_shipped=is_shipped) for name, (key, value) in stated.items()}
    )


def in_profile(name: str, factors: Factors) -> tuple[str, float]:
    """Key and value of a factor in the units of stack profiles.

    >>> in_profile("kernel_latency_s", PRIOR)
    ('kernel_latency_us', 4.0)
    """
    stem = name.removesuffix("_s")
    key = stem + SUFFIX[UNITS[stem]] if stem in UNITS else name
    return key, float(f"{float(np.asarray(getattr(factors, name))) * UNITS.get(stem, 1.0):.10g}")


def _factor(fit: Fit, name: str, value: float, *, is_shipped: bool) -> Factor:
    prior, spread = PRIORS[name], fit.spreads[name]
    if spread > MOVED_SPREAD * prior.spread / fit.prior_weight:
        source, why = (SHIPPED_SOURCE, SHIPPED_NOTE) if is_shipped else (PRIOR_SOURCE, prior.why)
        return Factor(value=value, source=source, basis="assumed", note=why)
    return Factor(value=value, source=POINTS_SOURCE, basis="calibrated", spread_fraction=round(spread, 4))


def _usual(versions: Sequence[str]) -> str | None:
    """The version that most points name; None where that is none in particular."""
    counts = Counter(versions)
    return max(sorted(counts), key=lambda version: counts[version], default="") or None


def _files(files: Sequence[PointsOf], kept: Sequence[PointCase]) -> tuple[PointsFile, ...]:
    used = {id(case.point) for case in kept}
    return tuple(
        PointsFile(
            name=_file_name(file, files),
            sha256=_digest(file),
            n_points=len(file.points),
            n_used=sum(id(point) in used for point in file.points),
        )
        for file in files
        if file.points
    )


def _file_name(file: PointsOf, files: Sequence[PointsOf]) -> str:
    """Name of a file without its folders, unless another one has the same."""
    if file.path is None:
        return "model profiles"
    same = [other for other in files if other.path is not None and other.path.name == file.path.name]
    return printable(file.path.name if len(same) == 1 else str(file.path), NAME_CHARACTERS)


def _digest(file: PointsOf) -> str:
    text = repr(file.points).encode() if file.path is None else read_bytes(file.path, TABLE_BYTES)
    return hashlib.sha256(text).hexdigest()


def _ranges(measured: MeasuredTimes, kept: Sequence[PointCase]) -> dict[str, tuple[int, int]]:
    prompts = [case.point.input_tokens for case in kept]
    contexts = [case.point.input_tokens + case.point.output_tokens / 2 for case in kept]
    sizes = [case.decode_layout.n_accelerators for case in kept]
    batches = measured.loads.batch.tolist()
    columns = {"input_tokens": prompts, "context_tokens": contexts, "batch": batches, "n_accelerators": sizes}
    return {name: (round(min(values)), round(max(values))) for name, values in columns.items()}


def _sources(files: Sequence[PointsOf], factors: StackFactors, described: str | None) -> dict[str, str]:
    """Sources that the profile cites: its points, and what the fit began with where a factor stayed there."""
    names = ", ".join("measured curves of the model profiles" if f.path is None else f.path.name for f in files)
    sources = {POINTS_SOURCE: f"Measured serving points: {names}" + (f" ({described})" if described else "")}
    if any(factor.source == PRIOR_SOURCE for factor in factors.stated.values()):
        sources[PRIOR_SOURCE] = PRIORS_CITED
    if any(factor.source == SHIPPED_SOURCE for factor in factors.stated.values()):
        sources[SHIPPED_SOURCE] = SHIPPED_CITED
    return sources
