"""Measured points, predicted and scored every way that a report shows, with notes."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field

from planner.profiles import StackProfile, profile_names, stack_profile
from planner.profiles.points import ServingPoint
from planner.profiles.stack import Calibration, Errors, ErrorSummary
from planner.ranges import NonNegative
from planner.reading import TABLE_BYTES, read_bytes
from planner.results.fidelity import LatencyError, PredictedPoint
from planner.results.fidelity_survey import (
    CurvePoint,
    Doubt,
    FidelitySurvey,
    HardwareScore,
    MeasuredFile,
    Peer,
    Scored,
    ScoredCurve,
    StackScore,
)
from planner.schema import StrictModel, TomlFile, is_file
from planner.studies.fidelity.catalogue_points import catalogue_points
from planner.studies.fidelity.fidelity import fidelity
from planner.studies.fidelity.scores import latency_error

NOTES = "notes.toml"
Span = tuple[NonNegative, NonNegative]


class FileNote(StrictModel):
    """Whose a file is."""

    name: str
    """File name, without folders."""
    what: str
    """What was measured."""
    source: str
    """Publisher and licence."""


class DoubtNote(StrictModel):
    """Points that contradict others; what is absent restricts nothing."""

    what: str
    """Which points."""
    why: str
    """What speaks against them."""
    model: str | None = None
    """Model profile."""
    hardware: str | None = None
    """Hardware profile."""
    framework: str | None = None
    """Serving framework."""
    input_tokens: Span | None = None
    """Shortest and longest prompt [tokens]."""
    output_tokens: Span | None = None
    """Shortest and longest answer [tokens]."""
    concurrency: Span | None = None
    """Fewest and most requests in flight."""
    ttft_above_s: NonNegative | None = None
    """TTFT that they exceed [s]."""
    unversioned: bool = False
    """Whether only those that name no version of the framework."""

    def holds(self, point: ServingPoint, model: str, hardware: str) -> bool:
        """True if a point is one of them."""
        names = ((self.model, model), (self.hardware, hardware), (self.framework, point.framework.casefold()))
        spans = (
            (self.input_tokens, point.input_tokens),
            (self.output_tokens, point.output_tokens),
            (self.concurrency, point.concurrency),
        )
        return (
            all(wanted is None or wanted == name for wanted, name in names)
            and all(_within(span, value) for span, value in spans)
            and not (self.unversioned and point.framework_version)
            and (self.ttft_above_s is None or (point.ttft_s or 0.0) > self.ttft_above_s)
        )


def _within(span: Span | None, value: float | None) -> bool:
    return span is None or (value is not None and span[0] <= value <= span[1])


class FidelityNotes(StrictModel):
    """`notes.toml` beside a report of fidelity."""

    model_config = ConfigDict(populate_by_name=True)

    schema_id: Literal["planner.fidelity-notes/1"] = Field(default="planner.fidelity-notes/1", alias="schema")
    """Format of the file."""
    title: str = "Predictions against measurements"
    """Headline."""
    notes: str = ""
    """Further paragraphs in Markdown."""
    files: tuple[FileNote, ...] = ()
    """Whose the files are."""
    doubts: tuple[DoubtNote, ...] = ()
    """Known contradictions."""
    peers: tuple[Peer, ...] = ()
    """What others are said to reach."""


def read_notes(folder: Path) -> FidelityNotes:
    """Notes of a report's folder; those of nobody where it has none.

    Raises:
        InputError: the file does not hold.
    """
    path = folder / NOTES
    return TomlFile.read(path).record(FidelityNotes) if is_file(path) else FidelityNotes()


Row = tuple[ServingPoint, PredictedPoint]
Fitted = tuple[StackProfile, Calibration]
Key = tuple[str, ...]
INFERRED = "-inferred"
"""End of the name of a model profile whose shapes were inferred, beside the published one that lacks them."""
INFERRED_NOTE = "shapes inferred, not published; no fit has seen it"


def survey(files: Sequence[tuple[Path, Sequence[ServingPoint]]], folder: Path) -> FidelitySurvey:
    """Points of files beside their predictions, and all that is known about both.

    Args:
        files: paths and points.
        folder: the report's folder, for its notes.

    Returns:
        What the report says.

    Raises:
        InputError: the notes do not hold.
    """
    notes = read_notes(folder)
    points = [point for _, found in files for point in found]
    scores = fidelity(points)
    rows = [*zip(points, scores.points, strict=True)]
    stacks = [stack_profile(name) for name in profile_names("stack")]
    fitted = [(stack, stack.calibration) for stack in stacks if stack.calibration is not None]
    serving = [row for row in rows if not _is_prefill(row[0])]
    return FidelitySurvey(
        title=notes.title,
        notes=notes.notes,
        fidelity=scores,
        files=tuple(_files(files, rows, notes)),
        by_hardware=tuple(_by_hardware(serving, notes)),
        stacks=tuple(_stack_score(stack, calibration) for stack, calibration in fitted),
        curves=(*_catalogue_curves(fitted), *_file_curves(rows, fitted)),
        doubts=tuple(_doubts(serving, notes)),
        without_doubts=_without_doubts(serving, notes),
        peers=notes.peers,
    )


def _is_prefill(point: ServingPoint) -> bool:
    return point.output_tokens <= 1


def _scored(rows: Iterable[Row]) -> Scored:
    found = [row for _, row in rows]
    return Scored(
        n=len(found),
        ttft=latency_error((row.predicted_ttft_s, row.ttft_s) for row in found),
        tpot=latency_error((row.predicted_tpot_s, row.tpot_s) for row in found),
    )


def _n_predicted(rows: Iterable[Row]) -> int:
    return sum(row.reason is None for _, row in rows)


def _files(
    files: Sequence[tuple[Path, Sequence[ServingPoint]]], rows: Sequence[Row], notes: FidelityNotes
) -> Iterator[MeasuredFile]:
    known = {note.name: note for note in notes.files}
    start = 0
    for path, points in files:
        own = rows[start : start + len(points)]
        start += len(points)
        yield _file(path, own, known.get(path.name))


def _file(path: Path, rows: Sequence[Row], note: FileNote | None) -> MeasuredFile:
    return MeasuredFile(
        name=path.name,
        sha256=_digest(path),
        what=note.what if note else None,
        source=note.source if note else None,
        models=_distinct(row.model for _, row in rows),
        hardware=_distinct(row.hardware for _, row in rows),
        frameworks=_distinct(point.framework for point, _ in rows),
        n_predicted=_n_predicted(rows),
        scored=_scored(rows),
    )


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


def _by_hardware(rows: Sequence[Row], notes: FidelityNotes) -> Iterator[HardwareScore]:
    for hardware in _distinct(row.hardware for _, row in rows):
        own = [row for row in rows if row[1].hardware == hardware]
        yield HardwareScore(
            hardware=hardware, n_predicted=_n_predicted(own), scored=_scored(own), cleared=_without_doubts(own, notes)
        )


def _stack_score(stack: StackProfile, found: Calibration) -> StackScore:
    held_out = (found.held_out_models, found.held_out_hardware)
    models, hardware = (None if errors is None else _summed(errors) for errors in held_out)
    return StackScore(
        stack=stack.name,
        models=found.models,
        hardware=found.hardware,
        in_sample=_summed(found.in_sample),
        held_out_models=models,
        held_out_hardware=hardware,
    )


def _summed(errors: Errors) -> Scored:
    n = max((summary.n for summary in (errors.ttft, errors.tpot) if summary is not None), default=0)
    return Scored(n=n, ttft=_latency(errors.ttft), tpot=_latency(errors.tpot))


def _latency(summary: ErrorSummary | None) -> LatencyError:
    if summary is None:
        return LatencyError()
    return LatencyError(mean_abs_error=summary.mean_abs, median_abs_error=summary.median_abs, bias=summary.bias)


def _catalogue_curves(stacks: Sequence[Fitted]) -> Iterator[ScoredCurve]:
    """Published curves of the model profiles; where a profile lacks shapes, by the shapes inferred for it."""
    for stack, calibration in stacks:
        points = [_with_shapes(point) for point in catalogue_points(stack.framework)]
        rows = [*zip(points, fidelity(points).points, strict=True)] if points else []
        for (model, origin), own in _grouped(rows, lambda row: (row[1].model, row[0].file)):
            is_fitted = model in calibration.models
            yield from _curve(own, origin, published=True, fitted=is_fitted, inferred=model.endswith(INFERRED))


def _with_shapes(point: ServingPoint) -> ServingPoint:
    inferred = point.model + INFERRED
    return replace(point, model=inferred) if inferred in profile_names("model") else point


def _file_curves(rows: Sequence[Row], stacks: Sequence[Fitted]) -> Iterator[ScoredCurve]:
    """Bare prefills of the files."""
    fitted_to = {file.sha256 for _, calibration in stacks for file in calibration.points}
    prefills = [row for row in rows if _is_prefill(row[0])]
    for (_, _, file), own in _grouped(prefills, lambda row: (row[1].model, row[1].hardware, row[0].file)):
        is_fitted = _digest(Path(file)) in fitted_to
        yield from _curve(own, Path(file).name, published=False, fitted=is_fitted, inferred=False)


def _digest(path: Path) -> str:
    return hashlib.sha256(read_bytes(path, TABLE_BYTES)).hexdigest()


def _grouped(rows: Sequence[Row], key_of: Callable[[Row], Key]) -> Iterator[tuple[Key, list[Row]]]:
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(key_of(row), []).append(row)
    yield from groups.items()


def _curve(rows: Sequence[Row], origin: str, *, published: bool, fitted: bool, inferred: bool) -> Iterator[ScoredCurve]:
    points = tuple(
        CurvePoint(tokens=point.input_tokens, measured_s=point.ttft_s, predicted_s=row.predicted_ttft_s)
        for point, row in rows
        if point.ttft_s is not None and row.predicted_ttft_s is not None
    )
    if points:
        first, predicted = rows[0]
        yield ScoredCurve(
            model=predicted.model,
            hardware=predicted.hardware,
            n_accelerators=first.n_accelerators,
            precision=first.precision or "",
            stack=predicted.stack or "",
            origin=origin,
            is_fitted=fitted,
            is_published=published,
            note=INFERRED_NOTE if inferred else None,
            points=points,
        )


def _doubts(rows: Sequence[Row], notes: FidelityNotes) -> Iterator[Doubt]:
    for note in notes.doubts:
        own = [row for row in rows if note.holds(row[0], row[1].model, row[1].hardware)]
        if own:
            taken = {row.index for _, row in own}
            others = [row for row in rows if row[1].index not in taken]
            yield Doubt(what=note.what, why=note.why, own=_scored(own), others=_scored(others))


def _without_doubts(rows: Sequence[Row], notes: FidelityNotes) -> Scored | None:
    if not notes.doubts:
        return None
    return _scored(
        row for row in rows if not any(note.holds(row[0], row[1].model, row[1].hardware) for note in notes.doubts)
    )
