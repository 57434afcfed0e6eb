"""Stacks of a scenario that name measured points of their own: their factors, fitted before the question is posed."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from planner.errors import InputError
from planner.profiles.points import read_points
from planner.profiles.stack import ErrorSummary
from planner.progress import Progress
from planner.roofline import Factors, RunAs, stack
from planner.roofline.stack import altered
from planner.scenario import AssumedStack, Scenario
from planner.studies.fidelity.calibrate import errors_of, held_out, in_profile, measured_points
from planner.studies.fidelity.cases import cases_of
from planner.studies.fidelity.fit import EVERY, fit_in_rounds, times_as_run
from planner.studies.fidelity.scores import summary
from planner.units import percent

LEAST_MOVE = 1e-3
"""Part of a factor by which points move it, for it to be stated."""


def with_fitted_stacks(scenario: Scenario, progress: Progress = lambda _: None) -> Scenario:
    """The scenario with factors fitted to the points that its stacks name, in place of these.

    Args:
        scenario: the question; one without such a stack is returned as it is.
        progress: is told what is being fitted.

    Raises:
        InputError: a file of points cannot be read, or none of its points can be predicted.
    """
    changes: dict[str, object] = {}
    for name, own in scenario.stacks.items():
        if own.points:
            progress(f"fitting stack {name} to its points")
            factors, text = _fitted(scenario, name, own)
            changes |= {f"stacks.{name}.factors": {**own.factors, **factors}, f"stacks.{name}.points": []}
            changes |= {f"stacks.{name}.rests_on": text}
    return scenario.varied(changes) if changes else scenario


def _fitted(scenario: Scenario, name: str, own: AssumedStack) -> tuple[dict[str, float], str]:
    """Fitted factors by the keys of profiles, and what they rest on."""
    points = [point for path in own.points for point in read_points(Path(scenario.directory) / path)]
    cases, refused = cases_of(points)
    if not cases:
        why = refused[0].reason if refused else "the files have none"
        where = scenario.problem(("stacks", name, "points"), f"no point can be predicted: {why}", "one at least")
        raise InputError(where)
    base = stack(scenario.own_stacks[name].like)
    begun = altered(base, name, own.factors, own.settings)
    how, start = RunAs(begun.settings, base.harnesses), begun.factors
    measured, everything = measured_points(cases, how), np.ones(len(cases), bool)
    before = errors_of(times_as_run(measured, start, how), start, everything)
    fit, measured = fit_in_rounds(measured, start, EVERY, how, lambda _: None)
    after = held_out(measured, start, EVERY, [str(i) for i in range(len(cases))], lambda _: None)
    after = after or errors_of(measured, fit.factors, everything)
    said = [
        f"of {kind} {_mean(summary(old))} before, {_mean(summary(new))} after"
        for kind, old, new in (("TTFT", before.ttft, after.ttft), ("TPOT", before.tpot, after.tpot))
        if summary(old) is not None
    ]
    left = f" ({len(refused)} more cannot be predicted)" if refused else ""
    plural = "s" if len(cases) > 1 else ""
    text = f"{len(cases)} point{plural} of {', '.join(own.points)}{left}: mean error {'; '.join(said)}"
    return dict(in_profile(factor, fit.factors) for factor in _moved(fit.factors, start)), text


def _moved(fitted: Factors, start: Factors) -> Iterator[str]:
    """Factors that the points moved."""
    for name in EVERY:
        before, after = (float(np.asarray(getattr(factors, name))) for factors in (start, fitted))
        if abs(after - before) > LEAST_MOVE * abs(before):
            yield name


def _mean(errors: ErrorSummary | None) -> str:
    return "unknown" if errors is None else percent(errors.mean_abs)
