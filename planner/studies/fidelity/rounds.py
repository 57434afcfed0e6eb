"""A fit to points that are run: runs at fixed factors and fits between them, in a few rounds.

A run says what waiting does to the latencies of a closed loop, the formulas how these move with the factors. Each round
runs the loops with the factors found so far, and multiplies the formulas by what they were off.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.roofline import Factors, RunAs, Stack
from planner.studies.fidelity.closed_loops import is_run, run_times
from planner.studies.fidelity.fit import Fit, Measured, expected, fit_factors

N_ROUNDS = 3
"""The first runs are at the priors; after the third fit latencies move by less than a per cent."""


def fit_in_rounds(
    measured: Measured,
    used: NDArray[np.bool_],
    how: RunAs,
    progress: Callable[[str], None],
    start: Factors | None = None,
) -> tuple[Fit, Measured]:
    """Factors under which runs are closest to the points, and the points with the runs under these factors.

    Args:
        measured: points.
        used: which of them to fit to.
        how: how they were run.
        progress: told of every round.
        start: factors that are expected before any point speaks; None: the priors.

    Returns:
        The fit, and the points: their `latencies` at its factors are those of the runs.
    """
    fit = expected(start=start)
    for n in range(N_ROUNDS):
        progress(f"running the points, round {n + 1} of {N_ROUNDS}")
        measured = as_run(measured, fit, how)
        fit = fit_factors(measured, used, start)
    return fit, as_run(measured, fit, how)


def as_run(measured: Measured, fit: Fit, how: RunAs) -> Measured:
    """Points with what runs at a fit's factors have over the formulas, where they are run at all."""
    plain = replace(measured, ttft_ratio=1.0, tpot_ratio=1.0, host=fit)
    factors = fit.of(measured.versions, [None] * len(measured.versions), measured.models)
    ttft, tpot = plain.latencies(factors)
    ratios = np.ones((2, len(ttft)))
    groups: dict[tuple[str, str], list[int]] = {}
    for k, case in enumerate(measured.loads.cases):
        if is_run(case):
            groups.setdefault((measured.versions[k], case.model.name), []).append(k)
    for (version, model), own in sorted(groups.items()):
        first, later = run_times([measured.loads.cases[k] for k in own], _stack(fit, version, model, how))
        ratios[:, own] = first / ttft[own], later / tpot[own]
    return replace(measured, ttft_ratio=ratios[0], tpot_ratio=ratios[1], host=fit)


def _stack(fit: Fit, version: str, model: str, how: RunAs) -> Stack:
    factors = fit.factors.with_version(*fit.ratios_of(version, model))
    return Stack(version, factors, how.settings, harnesses=how.harnesses)
