"""Seconds of prefills and decode steps with what they rest on: from the roofline, or from what was measured."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from planner.errors import InputError
from planner.notes import Note, note
from planner.profiles.measured import MeasuredInstance
from planner.profiles.stack import Band, Calibration
from planner.results.prediction import Bound, PredictionBasis
from planner.roofline.instance import instance_rates
from planner.roofline.pass_time import PassTime
from planner.studies.predict.question import Instance

Phase = Literal["prefill", "decode"]


@dataclass(frozen=True)
class Seconds:
    """A time and what it rests on; None where unknown."""

    value_s: float | None
    bound: Bound | None
    basis: PredictionBasis
    extrapolated: bool
    band: Band | None = None

    @property
    def low_s(self) -> float | None:
        """Lower end of the band [s]."""
        return None if self.value_s is None or self.band is None else self.value_s * self.band.low

    @property
    def high_s(self) -> float | None:
        """Upper end of the band [s]."""
        return None if self.value_s is None or self.band is None else self.value_s * self.band.high


@dataclass(frozen=True)
class InstanceSeconds:
    """Times of every length and batch of a question."""

    prefill: tuple[Seconds, ...]
    decode: tuple[Seconds, ...]
    notes: tuple[Note, ...] = ()
    """Where they come from, or why some are unknown."""
    stack: str | None = None
    """Stack that they were measured under, where that is not the question's."""
    pass_prompts: tuple[int, ...] = ()
    """Such prompts that a full pass takes; empty where unknown."""
    full_s: tuple[float | None, ...] = ()
    """Prefill seconds when passes are full of such prompts; empty where unknown [s]."""
    busy_s: tuple[float | None, ...] = ()
    """Of these, those that keep the instance busy [s]."""


def instance_seconds(asked: Instance, fits: bool) -> InstanceSeconds:
    """Times of a question: from the roofline where the model's shapes are known, else from what was measured.

    Args:
        fits: whether the weights fit; where they do not, nothing runs and nothing has a time.

    Returns:
        One time per length and per batch, in the order of the question.
    """
    if not asked.has_shapes:
        return _measured(asked) if fits else _unknown(asked)
    if not fits:
        return _unknown(asked)
    try:
        prefill, decode = _roofline_times(asked)
    except InputError as error:
        # A figure of the accelerator that nobody published: bytes can still be told.
        return _unknown(asked, note("no-times", f"no seconds: {error}"))
    n_cached = float(asked.question.cached_tokens)
    together = asked.instance_model.prompts_per_pass(np.asarray(asked.question.tokens, float) - n_cached, n_cached)
    full_s = _prefill_time(asked, together).total_s
    busy_s = full_s - asked.stack.factors.before_prefill_s(np.asarray(asked.question.tokens, float))
    return InstanceSeconds(
        _timed(asked, "prefill", prefill),
        _timed(asked, "decode", decode),
        pass_prompts=tuple(together.astype(int).tolist()),
        full_s=tuple(full_s.tolist()),
        busy_s=tuple(busy_s.tolist()),
    )


def untimed(found: Seconds) -> Seconds:
    """The same without a time: what does not fit never runs."""
    return replace(found, value_s=None, bound=None, band=None)


def calibration_of(asked: Instance, phase: Phase) -> Calibration | None:
    """The stack's calibration, if its points tell anything of a phase."""
    found = asked.stack.calibration
    measured = found and (found.in_sample.ttft if phase == "prefill" else found.in_sample.tpot)
    return found if measured else None


def roofline_basis(asked: Instance, phase: Phase) -> PredictionBasis:
    """Basis of seconds from the roofline."""
    if not asked.stack.derated:
        return "datasheet"
    calibration = calibration_of(asked, phase)
    if calibration is None or asked.model.architecture.basis == "inferred":
        return "inferred"
    is_known = asked.chip.is_measured or asked.hardware.name in calibration.hardware
    return "calibrated" if is_known else "inferred"


def beyond_calibration(asked: Instance, phase: Phase) -> list[bool]:
    """For each length, or each batch, True if it lies outside what the stack was calibrated on.

    The bare datasheet has no calibration that anything could lie outside of; a stack that lacks one covers nothing.
    """
    question, found = asked.question, calibration_of(asked, phase)
    sizes = question.tokens if phase == "prefill" else question.batch
    if not asked.stack.derated or found is None:
        return [asked.stack.derated] * len(sizes)
    name = "input_tokens" if phase == "prefill" else "batch"
    contexts: dict[str, float | None] = {"context_tokens": question.context_tokens} if phase == "decode" else {}
    hardware, n = asked.hardware.name, asked.n_accelerators
    return [bool(found.beyond(hardware, n, **{**contexts, name: size})) for size in sizes]


def _roofline_times(asked: Instance) -> tuple[PassTime, PassTime]:
    batch = np.asarray(asked.question.batch, float)
    decode = asked.instance_model.decode_time(batch, np.full_like(batch, asked.question.context_tokens))
    return _prefill_time(asked, 1), decode


def _prefill_time(asked: Instance, n_prompts: ArrayLike) -> PassTime:
    """Seconds of every length, with so many prompts like it at once."""
    new_tokens = np.asarray(asked.question.tokens, float) - asked.question.cached_tokens
    return asked.instance_model.prefill_time(new_tokens, float(asked.question.cached_tokens), n_prompts)


def _timed(asked: Instance, phase: Phase, time: PassTime) -> tuple[Seconds, ...]:
    basis, values, bounds = roofline_basis(asked, phase), time.total_s.tolist(), time.bound.tolist()
    rows = zip(values, bounds, beyond_calibration(asked, phase), strict=True)
    return tuple(Seconds(value, bound, basis, beyond, _band(asked, phase, beyond)) for value, bound, beyond in rows)


def _band(asked: Instance, phase: Phase, beyond: bool) -> Band | None:
    """Of what resembles the points: from models held out; of what does not: from accelerators held out, if any were."""
    found = calibration_of(asked, phase)
    if found is None:
        return None
    near: Band | None = getattr(found.model_bands, phase)
    far: Band | None = getattr(found.hardware_bands, phase)
    return (far or near) if beyond else near


def _unknown(asked: Instance, *notes: Note) -> InstanceSeconds:
    def rows(phase: Phase) -> tuple[Seconds, ...]:
        basis = roofline_basis(asked, phase)
        return tuple(Seconds(None, None, basis, beyond) for beyond in beyond_calibration(asked, phase))

    return InstanceSeconds(rows("prefill"), rows("decode"), notes)


def _measured(asked: Instance) -> InstanceSeconds:
    """Curves and points of the model's profile; unknown wherever it has none for this instance."""
    unknown = _unknown(asked)
    notes = [
        note(
            "times-from-profile",
            f"shapes of {asked.model.name} are not known, so its seconds are those that its profile holds",
        )
    ]
    rows: dict[Phase, tuple[Seconds, ...]] = {"prefill": unknown.prefill, "decode": unknown.decode}
    for phase in rows:
        if found := profile_entry(asked, phase):
            rows[phase] = READERS[phase](asked, found[1], rows[phase])
            notes.append(note("times-of-instance", f"{phase}: {found[0]}, {found[1].basis}{_run_by(found[1])}"))
        else:
            where = f"{asked.n_accelerators} x {asked.hardware.name} at {asked.precision}"
            notes.append(note("no-times", f"{phase}: no seconds, as the profile holds none of {where}"))
    ran_under = next((found[1].stack for phase in rows if (found := profile_entry(asked, phase))), None)
    return InstanceSeconds(rows["prefill"], rows["decode"], tuple(notes), ran_under)


def profile_entry(asked: Instance, phase: Phase) -> tuple[str, MeasuredInstance] | None:
    """Name and figures of the instance in the model's profile that was timed in a phase on these accelerators."""
    entries = asked.measured.items()
    return next(((name, one) for name, one in entries if getattr(one, phase) is not None), None)


def _prefill_read(asked: Instance, found: MeasuredInstance, unknown: tuple[Seconds, ...]) -> tuple[Seconds, ...]:
    values = measured_prefill_s(asked, found)
    return tuple(Seconds(value, None, found.basis, beyond) for value, beyond in values) or unknown


def measured_prefill_s(asked: Instance, found: MeasuredInstance) -> list[tuple[float, bool]]:
    """Seconds of each length by a measured curve, and whether it, or its cached part, lies outside the curve."""
    service, question = instance_rates(asked.model, found, asked.question.kv_precision).prefill, asked.question
    if service is None:
        return []
    beyond = service.curve.is_extrapolated(question.tokens)
    if question.cached_tokens:
        beyond = beyond | service.curve.is_extrapolated(question.cached_tokens)
    seconds = service.seconds(question.tokens, question.cached_tokens)
    return list(zip(seconds.tolist(), beyond.tolist(), strict=True))


def _decode_read(asked: Instance, found: MeasuredInstance, unknown: tuple[Seconds, ...]) -> tuple[Seconds, ...]:
    """The step at the one batch that was measured."""
    point, question = found.decode, asked.question
    if point is None:
        return unknown
    beyond = point.context_tokens not in (None, question.context_tokens)
    step = Seconds(point.step_s, None, found.basis, beyond)
    return tuple(step if batch == point.batch else row for batch, row in zip(question.batch, unknown, strict=True))


def _run_by(found: MeasuredInstance) -> str:
    return f", {found.stack}" if found.stack else ""


READERS: dict[Phase, Callable[[Instance, MeasuredInstance, tuple[Seconds, ...]], tuple[Seconds, ...]]] = {
    "prefill": _prefill_read,
    "decode": _decode_read,
}
