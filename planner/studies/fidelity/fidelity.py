"""Predictions of measured serving points, scored."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from math import isnan

import numpy as np

from planner.errors import InputError, InputProblem
from planner.notes import Note, note
from planner.profiles import Kind, StackProfile, namesake_note
from planner.profiles.points import ServingPoint
from planner.results.fidelity import Fidelity, FidelityGroup, LatencyError, PredictedPoint, RefusedPoints
from planner.roofline import Stack, best_stack, stack, stack_of_profile
from planner.studies.fidelity.cases import PointCase, Refusal, cases_of
from planner.studies.fidelity.closed_loops import is_run, run_times
from planner.studies.fidelity.doubts import point_doubts
from planner.studies.fidelity.drafting import with_drafts
from planner.studies.fidelity.loads import FloatArray, loads_of
from planner.studies.fidelity.scores import latency_error

Key = tuple[str, str, str, str]
Times = tuple[Stack, float, float, float]
"""Stack, TTFT and TPOT [s], tokens generated per second and accelerator."""


def fidelity(
    points: Sequence[ServingPoint], stack_name: str | None = None, *, profile: StackProfile | None = None
) -> Fidelity:
    """Measured points against predictions.

    Args:
        points: measured points.
        stack_name: stack that predicts all of them, or the path of a profile. None: that of each point's framework, or
            the one calibrated best for its model and accelerator where the framework has no profile.
        profile: a profile that takes the place of a path to one.

    Returns:
        Errors, groups and refusals.

    Raises:
        InputError: stack_name is no known stack.
    """
    cases, refused = cases_of(points)
    _check_names(cases)
    stack_of = _stack_chooser(stack_name, profile)
    predicted = _predictions(cases, stack_of)
    plain, predicted_s = cases, lambda own: _formula_times(own, stack_of(own[0]))[1]
    cases, drafts = with_drafts(plain, [tpot_s for _, _, tpot_s, _ in predicted], predicted_s)
    changed = [k for k, case in enumerate(cases) if case is not plain[k]]
    for k, times in zip(changed, _predictions([cases[k] for k in changed], stack_of), strict=True):
        predicted[k] = times
    order = {id(point): index for index, point in enumerate(points)}
    doubt = point_doubts(cases, [ttft_s for _, ttft_s, *_ in predicted])
    rows = [_row(order[id(case.point)], case, *predicted[k], doubt[k]) for k, case in enumerate(cases)]
    rows += [_refused_row(order[id(refusal.point)], refusal) for refusal in refused]
    rows.sort(key=lambda row: row.index)
    modes = [point.mode for point in points]
    return Fidelity(
        n_points=len(points),
        n_predicted=len(cases),
        ttft=latency_error((row.predicted_ttft_s, row.ttft_s) for row in rows),
        tpot=latency_error((row.predicted_tpot_s, row.tpot_s) for row in rows),
        throughput=_throughput_error(rows),
        groups=_groups(rows, modes),
        refused=_refusals(refused),
        doubtful=_counted((row.model, row.hardware, row.doubt) for row in rows if row.doubt),
        sound_ttft=latency_error((row.predicted_ttft_s, row.ttft_s) for row in rows if not row.doubt),
        sound_tpot=latency_error((row.predicted_tpot_s, row.tpot_s) for row in rows if not row.doubt),
        notes=(
            *_notes(cases),
            *drafts,
            *_coverage_notes(cases, [used for used, *_ in predicted]),
            *_profile_notes(points, stack_name),
        ),
        points=tuple(rows),
    )


def _stack_chooser(name: str | None, profile: StackProfile | None) -> Callable[[PointCase], Stack]:
    if profile is None and name is None:
        return _stack_of
    fixed = stack_of_profile(profile) if profile is not None else stack(name or "")
    return lambda _: fixed


def _predictions(cases: Sequence[PointCase], stack_of: Callable[[PointCase], Stack]) -> list[Times]:
    """Stack and times of each case; cases of one stack are timed together."""
    stacks = [stack_of(case) for case in cases]
    by_name = {used.name: used for used in stacks}
    results: list[Times | None] = [None] * len(cases)
    for name, found in by_name.items():
        indices = [index for index, used in enumerate(stacks) if used.name == name]
        columns = (column.tolist() for column in case_times([cases[index] for index in indices], found))
        for index, *own in zip(indices, *columns, strict=True):
            results[index] = (found, *own)
    return [result for result in results if result is not None]


def case_times(cases: Sequence[PointCase], stack: Stack) -> tuple[FloatArray, ...]:
    """TTFT, TPOT [s] and tokens per second and accelerator of cases: of closed loops by a run, else by formulas."""
    found = np.zeros((3, len(cases)))
    run = np.array([is_run(case) for case in cases])
    for chosen, times in ((run, run_times), (~run, _formula_times)):
        if chosen.any():
            own = [case for case, mine in zip(cases, chosen, strict=True) if mine]
            found[:, chosen] = times(own, stack)
    return tuple(found)


def _formula_times(cases: Sequence[PointCase], stack: Stack) -> tuple[FloatArray, ...]:
    """Means in closed form; the throughput is that of all in flight, each in what it takes, or of the stated rate."""
    loads = loads_of(cases, stack.run_as, derated=stack.derated)
    ttft, tpot = loads.latencies(stack.factors)
    points = [case.point for case in cases]
    stated = np.array([point.request_rate_req_per_s or np.nan for point in points])
    closed = np.array([point.concurrency or np.nan for point in points]) / (ttft + tpot * (loads.output_tokens - 1))
    rate = np.where(np.isnan(stated), closed, stated)
    return ttft, tpot, rate * loads.output_tokens / np.array([point.n_accelerators for point in points])


def _stack_of(case: PointCase) -> Stack:
    """The stack that a point ran on, or the best there is for its model and accelerator."""
    try:
        return stack(case.point.framework.casefold())
    except InputError:
        return best_stack(case.model.name, case.hardware.name)


def _row(
    index: int, case: PointCase, used: Stack, ttft_s: float, tpot_s: float, tokens_per_s: float, doubt: str | None
) -> PredictedPoint:
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
        tokens_per_s=point.output_tokens_per_s_per_gpu,
        predicted_tokens_per_s=None if isnan(tokens_per_s) else tokens_per_s,
        doubt=doubt,
    )


def _label(case: PointCase) -> str:
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
        throughput=_throughput_error(rows),
    )


def _throughput_error(rows: Sequence[PredictedPoint]) -> LatencyError:
    return latency_error((row.predicted_tokens_per_s, row.tokens_per_s) for row in rows)


def _notes(cases: Sequence[PointCase]) -> tuple[Note, ...]:
    """Notes on how rows were read, each once with the number of rows it is of."""
    counts = Counter(case.note for case in cases if case.note)
    return tuple(note("point-precision", f"{text} ({n:,} point{'s' * (n > 1)})") for text, n in sorted(counts.items()))


def _coverage_notes(cases: Sequence[PointCase], stacks: Sequence[Stack]) -> Iterator[Note]:
    """Notes with the number of points that lie outside what their stack was calibrated on."""
    outside: Counter[tuple[str, str]] = Counter()
    for case, used in zip(cases, stacks, strict=True):
        sizes = {"input_tokens": case.point.input_tokens, "batch": case.point.concurrency}
        n = case.decode_layout.n_accelerators
        if used.calibration and used.calibration.beyond(case.hardware.name, n, **sizes):
            outside[used.name, used.calibration.covered] += 1
    for (name, covered), n_points in sorted(outside.items()):
        text = f"{n_points:,} point{'s' * (n_points > 1)} outside what {name} was calibrated on: {covered}"
        yield note("beyond-calibration", text)


def _check_names(cases: Sequence[PointCase]) -> None:
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
                raise InputError(InputProblem(stated, "", what, "names of their own"))


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
    return _counted((refusal.point.model, refusal.point.hardware, refusal.reason) for refusal in refused)


def _counted(found: Iterable[tuple[str, str, str]]) -> tuple[RefusedPoints, ...]:
    """Points by model, accelerator and reason."""
    counts = Counter(found)
    return tuple(
        RefusedPoints(model=model, hardware=hardware, reason=reason, n=n)
        for (model, hardware, reason), n in sorted(counts.items())
    )
