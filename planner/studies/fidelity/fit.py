"""Factors of a stack from measured points: robust least squares on logarithms, drawn towards what is expected.

A closed loop is run to see what waiting does to its latencies; formulas say how these move with the factors. Each round
runs the loops with the factors found so far, and multiplies the formulas by what they were off.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from planner.progress import Progress
from planner.roofline import Factors, RunAs, Stack
from planner.roofline.factors import PRIORS, Value
from planner.studies.fidelity.closed_loops import is_run, run_times
from planner.studies.fidelity.loads import FloatArray, PassBatches

OF_A_FRAMEWORK = ("kernel_latency_s", "eager_launch_s", "request_overhead_s")
"""Factors that published points of a framework move: one each for decode, prefill and requests. Any fourth changed what
is predicted of models that the fit had not seen by less than a point, and so did all 19 with ratios of versions."""
EVERY = tuple(PRIORS)
"""Factors that points of one's own server move, beginning with those of its framework."""
TTFT_SCALE = 0.2
TPOT_SCALE = 0.1
PREFILL_SCALE = 0.1
"""Relative noise of each latency: what repeats of one configuration differ by, and a little more. A prefill is a TTFT
without others in flight, and so without a queue."""
DISTINCT_POINTS = 25
"""Points of one configuration at several loads err together; beyond so many, more say little that is new."""
FEW_POINTS = 5
"""Of so many none contradicts the others; a say that is lost would be lost to what was expected."""
N_ROUNDS = 3
"""The first runs are at the factors expected; after the third fit latencies move by less than a per cent."""
MOST_STEPS = 60
LEAST = 1e-12
"""What stands for a factor of 0, which has no logarithm."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Fitted factors."""

    factors: Factors
    names: tuple[str, ...]
    """Factors that points move."""
    spreads: dict[str, float]
    """Standard error of the logarithm of each of them."""
    prior_weight: float = 1.0
    """How much what is expected weighed against points."""


@dataclass(frozen=True, eq=False)
class MeasuredTimes:
    """Measurements that the fit is held against; NaN is not measured."""

    loads: PassBatches
    ttft_s: FloatArray
    tpot_s: FloatArray
    weight: FloatArray
    ttft_ratio: Value = 1.0
    """What runs of the points at some factors had over the formulas at the same."""
    tpot_ratio: Value = 1.0
    """The same of TPOT."""

    def latencies(self, factors: Factors) -> tuple[FloatArray, FloatArray]:
        """TTFT and TPOT by the formulas, as far off as runs found them [s]."""
        ttft, tpot = self.loads.latencies(factors)
        return np.asarray(ttft * self.ttft_ratio), np.asarray(tpot * self.tpot_ratio)


def fit_in_rounds(
    measured: MeasuredTimes, start: Factors, names: tuple[str, ...], how: RunAs, progress: Progress
) -> tuple[Fit, MeasuredTimes]:
    """Factors under which runs are closest to the points, and the points with the runs under these factors.

    Returns:
        The fit, and the points: their `latencies` at its factors are those of the runs.
    """
    everything, fit = np.ones(len(measured.weight), bool), Fit(start, names, {})
    for n in range(N_ROUNDS):
        progress(f"running the points, round {n + 1} of {N_ROUNDS}")
        measured = times_as_run(measured, fit.factors, how)
        fit = fit_factors(measured, everything, start, names)
    return fit, times_as_run(measured, fit.factors, how)


def times_as_run(measured: MeasuredTimes, factors: Factors, how: RunAs) -> MeasuredTimes:
    """Points with what runs at some factors have over the formulas, where they are run at all."""
    plain = replace(measured, ttft_ratio=1.0, tpot_ratio=1.0)
    ttft, tpot = plain.latencies(factors)
    ratios = np.ones((2, len(ttft)))
    own = [k for k, case in enumerate(measured.loads.cases) if is_run(case)]
    if own:
        stack = Stack("fitted", factors, how.settings, harnesses=how.harnesses)
        first, later, _ = run_times([measured.loads.cases[k] for k in own], stack)
        ratios[:, own] = first / ttft[own], later / tpot[own]
    return replace(measured, ttft_ratio=ratios[0], tpot_ratio=ratios[1])


def fit_factors(measured: MeasuredTimes, used: NDArray[np.bool_], start: Factors, names: tuple[str, ...]) -> Fit:
    """Factors that minimise robust residuals of log TTFT and log TPOT, drawn towards those expected.

    Equation:
        min over theta of sum w rho((log T(theta) - log T) / s) + sum max(1, n / n0) ((theta - start) / spread)^2, n the
        weight of all points; rho(z) = log(1 + z^2) (Cauchy), so that contradictory points lose their say; from where
        rho(z) = 2 (sqrt(1 + z^2) - 1), which has one minimum where this one may have several, has settled. Few points
        have the latter alone

    Args:
        measured: points.
        used: which of them to fit to; the others have no influence.
        start: what is expected, and what factors of other names are.
        names: factors that are fitted.

    Source:
        Huber and Ronchetti 2009, Robust Statistics, chapter 7; scipy.optimize.least_squares.
    """
    from scipy.optimize import least_squares

    expected = np.log([max(float(np.asarray(getattr(start, name))), LEAST) for name in names])
    spread = np.array([PRIORS[name].spread for name in names])
    weight = np.sqrt(measured.weight) * used
    prior_weight = sqrt(max(1.0, float((measured.weight * used).sum()) / DISTINCT_POINTS))
    has_ttft, has_tpot = ~np.isnan(measured.ttft_s), ~np.isnan(measured.tpot_s)
    ttft_scale = np.where(has_tpot, TTFT_SCALE, PREFILL_SCALE)

    def factors(theta: FloatArray) -> Factors:
        return replace(start, **dict(zip(names, np.exp(theta).tolist(), strict=True)))

    def residuals(theta: FloatArray, robust: Callable[[FloatArray], FloatArray]) -> FloatArray:
        ttft, tpot = measured.latencies(factors(theta))
        first = np.log(ttft / np.where(has_ttft, measured.ttft_s, ttft)) / ttft_scale
        later = np.log(tpot / np.where(has_tpot, measured.tpot_s, tpot)) / TPOT_SCALE
        drawn = prior_weight * (theta - expected) / spread
        return np.concatenate([weight * robust(first), weight * robust(later), drawn])

    found = expected
    stages = (_soft_l1, _cauchy) if (measured.weight * used).sum() > FEW_POINTS else (_soft_l1,)
    for robust in stages:
        settled = least_squares(residuals, found, x_scale=spread, max_nfev=MOST_STEPS, args=(robust,))
        found = settled.x
    jacobian = np.asarray(settled.jac)
    deviations = np.sqrt(np.diag(np.linalg.pinv(jacobian.T @ jacobian)))
    return Fit(factors(found), names, dict(zip(names, deviations.tolist(), strict=True)), prior_weight)


def _soft_l1(z: FloatArray) -> FloatArray:
    """Residual whose square is 2 (sqrt(1 + z^2) - 1), with the sign of z."""
    return np.asarray(np.sign(z) * np.sqrt(2 * (np.sqrt(1 + z * z) - 1)))


def _cauchy(z: FloatArray) -> FloatArray:
    """Residual whose square is log(1 + z^2), with the sign of z."""
    return np.asarray(np.sign(z) * np.sqrt(np.log1p(z * z)))
