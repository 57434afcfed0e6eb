"""Predictions of measured serving points, scored."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import numpy as np

from planner.errors import InputError, Problem
from planner.notes import Note, note
from planner.profiles import Kind, StackProfile, namesake_note, stack_profile
from planner.profiles.points import ServingPoint
from planner.results.fidelity import Fidelity, FidelityGroup, LatencyError, PredictedPoint, RefusedPoints
from planner.roofline import Stack, best_stack, stack, versioned
from planner.studies.fidelity.cases import Case, Refusal, cases_of
from planner.studies.fidelity.closed_loops import is_run, run_times
from planner.studies.fidelity.loads import FloatArray, loads_of
from planner.studies.fidelity.scores import latency_error

Key = tuple[str, str, str, str]
Times = tuple[Stack, float, float, float]
"""Stack, TTFT, TPOT, and what of TTFT is its source's alone [s]."""


def fidelity(
    points: Sequence[ServingPoint], stack_name: str | None = None, *, profile: StackProfile | None = None
) -> Fidelity:
    """Measured points against predictions.

    Args:
        points: measured points.
        stack_name: stack that predicts all of them; the path of a profile predicts points of its framework at their
            own versions. None: that of each point's framework and version, or the one calibrated best for its model
            and accelerator where the framework has no profile.
        profile: a profile that takes the place of a path to one.

    Returns:
        Errors, groups and refusals.

    Raises:
        InputError: stack_name is no known stack.
    """
    cases, refused = cases_of(points)
    _check_names(cases)
    predicted = _predictions(cases, _stack_chooser(stack_name, profile))
    order = {id(point): index for index, point in enumerate(points)}
    rows = [_row(order[id(case.point)], case, *predicted[index]) for index, case in enumerate(cases)]
    rows += [_refused_row(order[id(refusal.point)], refusal) for refusal in refused]
    rows.sort(key=lambda row: row.index)
    modes = [point.mode for point in points]
    return Fidelity(
        n_points=len(points),
        n_predicted=len(cases),
        ttft=latency_error((row.predicted_ttft_s, row.ttft_s) for row in rows),
        ttft_without_source=_without_source(rows),
        tpot=latency_error((row.predicted_tpot_s, row.tpot_s) for row in rows),
        groups=_groups(rows, modes),
        refused=_refusals(refused),
        notes=(*_notes(cases), *_profile_notes(points, stack_name)),
        points=tuple(rows),
    )


def _stack_chooser(name: str | None, profile: StackProfile | None) -> Callable[[Case], Stack]:
    if name is not None and name.endswith(".toml"):
        profile = stack_profile(name)
    if profile is not None:
        return lambda case: _at_own_version(profile, case)
    if name is None:
        return _stack_of
    fixed = stack(name)
    return lambda _: fixed


def _at_own_version(profile: StackProfile, case: Case) -> Stack:
    """A profile at the version that a point ran; at its default one for points of other frameworks."""
    own = case.point.framework.casefold() == profile.framework
    return versioned(profile, (case.version or None) if own else profile.default_version)


def _predictions(cases: Sequence[Case], stack_of: Callable[[Case], Stack]) -> list[Times]:
    """Stack and times of each case, as its source measures them; cases of one stack are timed together."""
    stacks = [stack_of(case).on(case.model.name) for case in cases]
    keys = [(used.name, case.model.name) for used, case in zip(stacks, cases, strict=True)]
    by_name = dict(zip(keys, stacks, strict=True))
    results: list[Times | None] = [None] * len(cases)
    for wanted, found in by_name.items():
        indices = [index for index, key in enumerate(keys) if key == wanted]
        sources = [found.run_as.source(cases[index].point.source) or "" for index in indices]
        added_s = np.array([found.source_overheads_s.get(source, 0.0) for source in sources])
        ttft, tpot = case_times([cases[index] for index in indices], found)
        columns = zip(indices, (ttft + added_s).tolist(), tpot.tolist(), added_s.tolist(), strict=True)
        for index, first, later, added in columns:
            results[index] = (found, first, later, added)
    return [result for result in results if result is not None]


def case_times(cases: Sequence[Case], stack: Stack) -> tuple[FloatArray, FloatArray]:
    """TTFT and TPOT of cases under one stack, without what sources add: of closed loops by a run, else by formulas."""
    ttft, tpot = np.zeros(len(cases)), np.zeros(len(cases))
    run = np.array([is_run(case) for case in cases])
    for chosen, times in ((run, run_times), (~run, _formula_times)):
        if chosen.any():
            own = [case for case, mine in zip(cases, chosen, strict=True) if mine]
            ttft[chosen], tpot[chosen] = times(own, stack)
    return ttft, tpot


def _formula_times(cases: Sequence[Case], stack: Stack) -> tuple[FloatArray, FloatArray]:
    return loads_of(cases, stack.run_as, derated=stack.derated).latencies(stack.factors)


def _stack_of(case: Case) -> Stack:
    """The stack that a point ran on, or the best there is for its model and accelerator."""
    framework, version = case.point.framework.casefold(), case.version
    try:
        return stack(f"{framework}-{version}") if version else stack(framework, default_version=False)
    except InputError:
        return best_stack(case.model.name, case.hardware.name)


def _row(index: int, case: Case, used: Stack, ttft_s: float, tpot_s: float, added_s: float) -> PredictedPoint:
    point = case.point
    return PredictedPoint(
        index=index,
        model=case.model.name,
        hardware=case.hardware.name,
        framework=" ".join(filter(None, (point.framework, point.framework_version))),
        stack=used.name,
        label=_label(case),
        ttft_s=point.ttft_s,
        tpot_s=point.tpot_s,
        predicted_ttft_s=ttft_s,
        predicted_tpot_s=None if point.output_tokens <= 1 else tpot_s,
        source_overhead_s=added_s,
    )


def _label(case: Case) -> str:
    point = case.point
    load = f"C {point.concurrency:g}" if point.concurrency else f"{point.request_rate_req_per_s or 0:g}/s"
    precision = case.precision or case.model.precision
    if case.is_disaggregated:
        workers = f"{case.n_prefill_workers}x{case.prefill_layout.n_accelerators}"
        shape = f"{workers} P + {case.n_decode_workers}x{case.decode_layout.n_accelerators} D"
    else:
        shape = str(case.decode_layout)
    return f"{precision}, {shape}, {point.input_tokens:g}/{point.output_tokens:g}, {load}"


def _refused_row(index: int, refusal: Refusal) -> PredictedPoint:
    point = refusal.point
    return PredictedPoint(
        index=index,
        model=point.model,
        hardware=point.hardware,
        framework=" ".join(filter(None, (point.framework, point.framework_version))),
        stack=None,
        label=f"{point.input_tokens:g}/{point.output_tokens:g}",
        ttft_s=point.ttft_s,
        tpot_s=point.tpot_s,
        predicted_ttft_s=None,
        predicted_tpot_s=None,
        reason=refusal.reason,
    )


def _without_source(rows: Sequence[PredictedPoint]) -> LatencyError | None:
    """Errors of TTFT without what sources add; None where none of these points has such a source."""
    if not any(row.source_overhead_s for row in rows):
        return None
    pairs = [(row.predicted_ttft_s, row.ttft_s, row.source_overhead_s) for row in rows]
    return latency_error((None if found is None else found - added, measured) for found, measured, added in pairs)


def _groups(rows: Sequence[PredictedPoint], modes: Sequence[str]) -> tuple[FidelityGroup, ...]:
    members: dict[Key, list[PredictedPoint]] = {}
    for row in rows:
        key = (row.model, row.hardware, row.framework.partition(" ")[0], modes[row.index])
        members.setdefault(key, []).append(row)
    return tuple(_group(key, found) for key, found in sorted(members.items()))


def _group(key: Key, rows: Sequence[PredictedPoint]) -> FidelityGroup:
    model, hardware, framework, mode = key
    return FidelityGroup(
        model=model,
        hardware=hardware,
        framework=framework,
        mode=mode,
        n=len(rows),
        n_predicted=sum(row.reason is None for row in rows),
        ttft=latency_error((row.predicted_ttft_s, row.ttft_s) for row in rows),
        tpot=latency_error((row.predicted_tpot_s, row.tpot_s) for row in rows),
    )


def _notes(cases: Sequence[Case]) -> tuple[Note, ...]:
    """What is to be known of how rows were read, each once with how many rows it is of."""
    counts = Counter(case.note for case in cases if case.note)
    return tuple(note("point-precision", f"{text} ({n:,} point{'s' * (n > 1)})") for text, n in sorted(counts.items()))


def _check_names(cases: Sequence[Case]) -> None:
    """Raises InputError where two files of one name are compared: cases are told apart by the names of profiles."""
    owners: dict[tuple[str, str], tuple[str, object]] = {}
    for case in cases:
        for kind, stated, found in (
            ("model", case.point.model, case.model),
            ("hardware", case.point.hardware, case.hardware),
        ):
            first, other = owners.setdefault((kind, found.name), (stated, found))
            if other is not found and other != found:
                what = f"and {first} are two {kind} profiles of the name {found.name}"
                raise InputError(Problem(stated, "", what, "names of their own"))


def _profile_notes(points: Sequence[ServingPoint], stack_name: str | None) -> Iterator[Note]:
    """Profiles given by path that have names of the catalogue."""
    named: list[tuple[str, Kind]] = []
    for point in points:
        named += [(point.model, "model"), (point.hardware, "hardware")]
    if stack_name is not None:
        named.append((stack_name, "stack"))
    for name, kind in dict.fromkeys(named):
        with suppress(InputError):  # told of its points
            yield from namesake_note(name, kind)


def _refusals(refused: Sequence[Refusal]) -> tuple[RefusedPoints, ...]:
    counts = Counter((refusal.point.model, refusal.point.hardware, refusal.reason) for refusal in refused)
    return tuple(
        RefusedPoints(model=model, hardware=hardware, reason=reason, n=n)
        for (model, hardware, reason), n in sorted(counts.items())
    )
