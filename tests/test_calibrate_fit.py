"""The fit of a stack: it finds planted factors again, does not listen to contradictions, and sees only what it may.

The points are made by the model itself with factors that the test chose, so what is right is known exactly.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from planner.profiles.points import ServingPoint, weights
from planner.profiles.stack import HarnessSettings, StackSettings
from planner.roofline import FACTOR_NAMES, Factors, RunAs, Stack, stack
from planner.roofline.factors import PRIOR, PRIORS
from planner.studies.fidelity.cases import cases_of
from planner.studies.fidelity.fidelity import case_times
from planner.studies.fidelity.fit import (
    DISTINCT_POINTS,
    OF_A_FRAMEWORK,
    Fit,
    MeasuredTimes,
    fit_factors,
    fit_in_rounds,
    times_as_run,
)
from planner.studies.fidelity.loads import loads_of
from tests.cpu_cost import cached
from tests.fidelity_points import MODELS, POINT, SETTINGS, by_formulas, configurations, slower

PLAIN = RunAs(SETTINGS)
STANDARD_ERRORS = 1.5
"""How far a fit may be from the truth, in its own standard errors. Noise-free points and a truth that lies one prior
deviation away shift a linear fit by at most one: |cov_ij| / sd_j <= sd_i. The half is for what is not linear."""
TOLD = tuple(name for name in OF_A_FRAMEWORK if name != "eager_launch_s")
"""Factors that these points tell of wherever they lie; launches hide behind the accelerator unless they are slow."""
FEW = ((20,), (5, 40), (1, 22, 30), (0, 13, 26, 39), (2, 11, 20, 29, 47))
"""One to five of the configurations, by their index."""


def measured(points: Sequence[ServingPoint], how: RunAs = PLAIN) -> MeasuredTimes:
    cases, refused = cases_of(points)
    assert not refused
    return MeasuredTimes(
        loads=loads_of(cases, how),
        ttft_s=np.array([point.ttft_s for point in points], float),
        tpot_s=np.array([point.tpot_s for point in points], float),
        weight=np.array(weights(points)),
    )


def fitted(points: Sequence[ServingPoint], start: Factors = PRIOR) -> Fit:
    return fit_to(measured(points), start)


def fit_to(told: MeasuredTimes, start: Factors = PRIOR, names: tuple[str, ...] = OF_A_FRAMEWORK) -> Fit:
    return fit_factors(told, np.ones(len(told.weight), bool), start, names)


def shift(fit: Fit, name: str, truth: Factors) -> float:
    """Logarithm of a fitted factor over the true one."""
    return float(np.log(getattr(fit.factors, name) / getattr(truth, name)))


def moved(start: Factors, **deviations: float) -> Factors:
    """Factors that are prior deviations away, as many as a whole set of points is to tell of."""
    strength = max(1.0, (len(configurations()) / DISTINCT_POINTS) ** 0.5)
    found = {
        name: getattr(start, name) * float(np.exp(n * PRIORS[name].spread / strength)) for name, n in deviations.items()
    }
    return replace(start, **found)


@cached
def planted(name: str, direction: int) -> tuple[Factors, list[ServingPoint]]:
    """Points of a stack that has one factor a prior deviation away from where it is expected."""
    truth = moved(PRIOR, **{name: direction})
    return truth, by_formulas(configurations(), truth)


@cached
def fit_of_planted(name: str, direction: int) -> Fit:
    """The fit to those points."""
    return fitted(planted(name, direction)[1])


@pytest.mark.parametrize("direction", [-1, 1], ids=["below", "above"])
@pytest.mark.parametrize("name", OF_A_FRAMEWORK)
def test_a_planted_factor_is_found_within_its_standard_error_and_the_others_stay(name: str, direction: int) -> None:
    truth, found = planted(name, direction)[0], fit_of_planted(name, direction)
    assert {*found.spreads} == {*OF_A_FRAMEWORK}
    for other in OF_A_FRAMEWORK:
        assert abs(shift(found, other, truth)) <= STANDARD_ERRORS * found.spreads[other], other
    untold = np.log(getattr(PRIOR, name) / getattr(truth, name))
    left = 0.2 if name in TOLD else 1.0
    assert abs(shift(found, name, truth)) < left * abs(untold), "it has learnt most of what the points say"


@pytest.mark.parametrize(
    "signs", [(-1, 1, 1), (1, -1, 1), (1, 1, -1), (-1, 1, -1), "vllm", "trtllm", "sglang"], ids=str
)
def test_a_planted_set_of_factors_is_found_from_what_is_expected_of_any_framework(signs: tuple[int, ...] | str) -> None:
    """All of them a deviation away, or those of a shipped stack, of which some are three deviations away."""
    is_shipped = isinstance(signs, str)
    truth = stack(signs).factors if is_shipped else moved(PRIOR, **dict(zip(OF_A_FRAMEWORK, signs, strict=True)))
    points = by_formulas(configurations(), truth)
    found = fitted(points)
    for name in OF_A_FRAMEWORK:
        assert abs(shift(found, name, truth)) <= STANDARD_ERRORS * found.spreads[name], name
    for name in OF_A_FRAMEWORK if is_shipped else TOLD:
        assert abs(shift(found, name, truth)) <= 0.25 * PRIORS[name].spread, name
    for point, other in zip(points, by_formulas(points, found.factors), strict=True):
        assert other.ttft_s == pytest.approx(point.ttft_s, rel=0.06)
        assert other.tpot_s == pytest.approx(point.tpot_s, rel=0.03)


def test_what_a_request_costs_is_found_to_a_few_per_cent() -> None:
    truth, found = planted("request_overhead_s", 1)[0], fit_of_planted("request_overhead_s", 1)
    assert found.factors.request_overhead_s == pytest.approx(truth.request_overhead_s, rel=0.03)


@pytest.mark.parametrize("name", OF_A_FRAMEWORK)
def test_latencies_come_out_as_they_were_planted(name: str) -> None:
    _, points = planted(name, 1)
    again = by_formulas(points, fit_of_planted(name, 1).factors)
    for point, other in zip(points, again, strict=True):
        assert other.ttft_s == pytest.approx(point.ttft_s, rel=0.05)
        assert other.tpot_s == pytest.approx(point.tpot_s, rel=0.02)


@pytest.mark.parametrize("start", [None, "vllm", "trtllm", "sglang"])
def test_points_of_what_is_expected_leave_every_factor_there(start: str | None) -> None:
    expected = PRIOR if start is None else stack(start).factors
    found = fitted(by_formulas(configurations(), expected), expected)
    for name in FACTOR_NAMES:
        assert getattr(found.factors, name) == pytest.approx(getattr(expected, name), rel=1e-6), name


def test_factors_that_are_not_fitted_stay_as_they_were_whatever_points_say() -> None:
    start = replace(PRIOR, gemm_efficiency=0.9, host_step_s=1e-3)
    found = fitted(by_formulas(configurations(), replace(PRIOR, gemm_efficiency=0.5, tile_rows=128.0)), start)
    for name in {*FACTOR_NAMES} - {*OF_A_FRAMEWORK}:
        assert getattr(found.factors, name) == getattr(start, name)


def test_other_factors_are_fitted_by_their_names() -> None:
    truth = moved(PRIOR, gemm_efficiency=-1)
    points = by_formulas(configurations(), truth)
    found = fit_to(measured(points), PRIOR, ("gemm_efficiency",))
    assert {*found.spreads} == {"gemm_efficiency"}
    untold = abs(np.log(truth.gemm_efficiency / PRIOR.gemm_efficiency))
    assert abs(shift(found, "gemm_efficiency", truth)) <= found.spreads["gemm_efficiency"] <= untold
    assert abs(shift(found, "gemm_efficiency", truth)) < 0.4 * untold
    assert found.factors.kernel_latency_s == PRIOR.kernel_latency_s


def test_contradictions_among_the_points_do_not_move_the_fit() -> None:
    _, points = planted("kernel_latency_s", 1)
    contradicted = [*points]
    contradicted[::10] = slower(points[::10], 20.0)
    clean, robust = fit_of_planted("kernel_latency_s", 1), fitted(contradicted)
    for name in OF_A_FRAMEWORK:
        assert abs(shift(robust, name, clean.factors)) <= 0.2 * clean.spreads[name], name


def test_a_factor_that_no_point_speaks_of_stays_as_expected_with_the_priors_spread() -> None:
    dense = [point for point in configurations() if point.model == "qwen3-32b"]
    points = measured(by_formulas(dense, moved(PRIOR, kernel_latency_s=1, moe_efficiency=-1)))
    found = fit_to(points, PRIOR, (*OF_A_FRAMEWORK, "moe_efficiency"))
    assert shift(found, "moe_efficiency", PRIOR) == pytest.approx(0.0, abs=1e-6)
    spread = PRIORS["moe_efficiency"].spread / found.prior_weight
    assert found.spreads["moe_efficiency"] == pytest.approx(spread, rel=1e-3)
    assert found.spreads["kernel_latency_s"] < 0.2 * PRIORS["kernel_latency_s"].spread


def test_points_that_are_held_out_have_no_say_however_absurd() -> None:
    _, points = planted("kernel_latency_s", 1)
    held_out = np.array([point.model == [*MODELS][1] for point in points])
    absurd = [slower([p], 50.0)[0] if out else p for p, out in zip(points, held_out, strict=True)]
    without = fitted([point for point, out in zip(points, held_out, strict=True) if not out])
    found = fit_factors(measured(absurd), ~held_out, PRIOR, OF_A_FRAMEWORK)
    for name in OF_A_FRAMEWORK:
        assert shift(found, name, without.factors) == pytest.approx(0.0, abs=1e-4), name


def test_copies_of_a_point_weigh_once() -> None:
    _, points = planted("kernel_latency_s", 1)
    one, two, three = (fitted(some) for some in (points, [*points, *points], [*points, *points[:9], *points[:9]]))
    for again in (two, three):
        assert again.prior_weight == pytest.approx(one.prior_weight)
        for name in OF_A_FRAMEWORK:
            assert shift(again, name, one.factors) == pytest.approx(0.0, abs=1e-4), name


@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_of_points_does_not_change_the_fit(seed: int) -> None:
    """Of points that contradict each other as well: which of them come first decides nothing."""
    points = [*planted("eager_launch_s", 1)[1]]
    points[::10] = slower(points[::10], 3.0)
    mixed = [points[k] for k in np.random.default_rng(seed).permutation(len(points))]
    one, other = fitted(points), fitted(mixed)
    for name in OF_A_FRAMEWORK:
        assert shift(other, name, one.factors) == pytest.approx(0.0, abs=1e-6), name
        assert other.spreads[name] == pytest.approx(one.spreads[name], rel=1e-4)


def test_a_latency_that_was_not_measured_is_no_residual() -> None:
    _, points = planted("request_overhead_s", 1)
    found = fitted([replace(point, ttft_s=None) for point in points])
    assert shift(found, "request_overhead_s", PRIOR) == pytest.approx(0.0, abs=0.01)
    assert POINT.ttft_s is not None


@pytest.mark.parametrize(("votes", "weight"), [(0.1, 1.0), (1.0, 1.0), (4.0, 2.0), (9.0, 3.0)])
def test_what_is_expected_weighs_more_by_the_root_of_the_points_that_are_used(votes: float, weight: float) -> None:
    """Weights of points that are left out do not count."""
    points = measured(planted("kernel_latency_s", 1)[1][:6])
    used = np.array([True, False] * 3)
    told = replace(points, weight=np.where(used, votes * DISTINCT_POINTS / 3, 1e6))
    assert fit_factors(told, used, PRIOR, OF_A_FRAMEWORK).prior_weight == pytest.approx(weight)


# From a shipped stack, with few points


NOISE = 0.03
"""Of a latency, in its logarithm."""


@cached
def own_points(name: str) -> tuple[Factors, list[ServingPoint], MeasuredTimes]:
    """A server of a shipped framework that costs a little more per request and less per kernel, at all loads."""
    own = moved(stack(name).factors, request_overhead_s=0.5, kernel_latency_s=-0.5)
    points = by_formulas(configurations(), own)
    return own, points, measured(points)


def distance(factors: Factors, start: Factors) -> float:
    """Of two sets, in prior deviations."""
    logs = [np.log(getattr(factors, name) / getattr(start, name)) / PRIORS[name].spread for name in OF_A_FRAMEWORK]
    return float(np.linalg.norm(logs))


def misfit(told: MeasuredTimes, factors: Factors) -> float:
    """Mean absolute logarithm of TTFT and TPOT over what was measured."""
    ttft, tpot = told.latencies(factors)
    return float(np.mean(np.abs([np.log(ttft / told.ttft_s), np.log(tpot / told.tpot_s)])))


@pytest.mark.parametrize("indices", FEW, ids=len)
@pytest.mark.parametrize("name", ["vllm", "trtllm", "sglang"])
def test_few_points_move_the_shipped_stack_less_than_the_priors_and_all_loads_are_met_better(
    name: str, indices: tuple[int, ...]
) -> None:
    (own, points, everything), shipped = own_points(name), stack(name).factors
    noise = np.random.default_rng(len(indices)).normal(0.0, NOISE, len(indices))
    few = measured([slower([points[k]], float(np.exp(n)))[0] for k, n in zip(indices, noise, strict=True)])
    near, far = fit_to(few, shipped).factors, fit_to(few).factors
    assert 0.0 < distance(near, shipped) < min(distance(far, shipped), 1.0)
    assert distance(near, own) < max(distance(far, own), 0.3), "noise moves what few points tell of by so much"
    assert misfit(few, near) < misfit(few, shipped)
    assert misfit(few, near) < max(misfit(few, far), NOISE)
    assert misfit(everything, near) < max(misfit(everything, far), NOISE)
    assert misfit(everything, near) < misfit(everything, shipped)


# Rounds of runs


LOCKED = StackSettings(memory_fraction=0.9, prefill_first=True)
"""Where closed formulas are furthest from runs: all requests wait for all prompts."""
HOW = RunAs(LOCKED, {"bench": HarnessSettings(source="docs", shortest_fraction=1.0)})
SLOW = replace(PRIOR, request_overhead_s=0.06, kernel_latency_s=5.5e-6)


@cached
def run_points(factors: Factors) -> list[ServingPoint]:
    """Points that a stack with these factors makes under the harness."""
    points = [replace(point, source="bench") for point in configurations()[::2]]
    cases, _ = cases_of(points)
    ttft, tpot, _ = case_times(cases, Stack("truth", factors, HOW.settings, harnesses=HOW.harnesses))
    times = zip(points, ttft.tolist(), tpot.tolist(), strict=True)
    return [replace(point, ttft_s=first, tpot_s=later) for point, first, later in times]


@cached
def fit_to_runs(factors: Factors) -> tuple[Fit, MeasuredTimes, list[str]]:
    said: list[str] = []
    return *fit_in_rounds(measured(run_points(factors), HOW), PRIOR, OF_A_FRAMEWORK, HOW, said.append), said


def test_runs_at_what_is_expected_leave_every_factor_there() -> None:
    found, _, _ = fit_to_runs(PRIOR)
    for name in FACTOR_NAMES:
        assert getattr(found.factors, name) == pytest.approx(getattr(PRIOR, name), rel=1e-6), name


def test_runs_under_the_fit_are_those_of_the_points() -> None:
    found, points, said = fit_to_runs(SLOW)
    ttft, tpot = points.latencies(found.factors)
    assert ttft == pytest.approx(points.ttft_s, rel=0.05)
    assert tpot == pytest.approx(points.tpot_s, rel=0.05)
    for name in OF_A_FRAMEWORK:
        assert abs(shift(found, name, SLOW)) <= 0.1 * PRIORS[name].spread, name
    assert said == [f"running the points, round {n} of 3" for n in (1, 2, 3)]


def test_formulas_alone_are_far_from_such_points() -> None:
    points = measured(run_points(SLOW), HOW)
    ttft, _ = points.latencies(SLOW)
    assert np.abs(np.log(ttft / points.ttft_s)).max() > 0.5


def test_latencies_at_the_factors_of_a_round_are_those_of_its_runs() -> None:
    points = measured(run_points(SLOW), HOW)
    for already in (points, times_as_run(points, PRIOR, HOW)):
        ttft, tpot = times_as_run(already, SLOW, HOW).latencies(SLOW)
        assert ttft == pytest.approx(points.ttft_s, rel=1e-9)
        assert tpot == pytest.approx(points.tpot_s, rel=1e-9)


def test_prefills_alone_are_not_run_and_have_the_formulas() -> None:
    alone = [replace(point, output_tokens=1.0, concurrency=1.0) for point in configurations()[::6]]
    points = measured(by_formulas(alone, SLOW))
    ran = times_as_run(points, SLOW, HOW)
    assert np.asarray(ran.ttft_ratio).tolist() == np.asarray(ran.tpot_ratio).tolist() == [1.0] * len(alone)
