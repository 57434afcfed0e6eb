"""The fit of a stack: it finds planted factors again, does not listen to contradictions, and sees only what it may.

The points are made by the model itself with factors that the test chose, so what is right is known exactly.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from planner.profiles.points import ServingPoint, weights
from planner.roofline import Factors, RunAs
from planner.studies.fidelity.cases import cases_of
from planner.studies.fidelity.fit import (
    DISTINCT_POINTS,
    LONE_SPREAD,
    N_RATIOS,
    PRIORS,
    SOURCE_PRIOR,
    VERSION_SPREAD,
    Fit,
    Measured,
    _Names,
    _priors,
    _Residuals,
    fit_factors,
)
from planner.studies.fidelity.loads import loads_of
from tests.cpu_cost import cached
from tests.fidelity_points import MODELS, POINT, SETTINGS, by_formulas, configurations, slower

AT_PRIORS = replace(Factors(), **{name: prior.value for name, prior in PRIORS.items()})
SLOWER = replace(AT_PRIORS, request_overhead_s=4 * AT_PRIORS.request_overhead_s)
IDENTIFIABLE = (
    *("gemm_efficiency", "weight_read_fraction", "kernel_latency_s", "host_step_s", "request_overhead_s"),
    "moe_efficiency",
)
STANDARD_ERRORS = 1.5
"""How far a fit may be from the truth, in its own standard errors. Noise-free points and a truth that lies one prior
deviation away shift a linear fit by at most one: |cov_ij| / sd_j <= sd_i. The half is for what is not linear."""


def measured(points: Sequence[ServingPoint]) -> Measured:
    cases, refused = cases_of(points)
    assert not refused
    return Measured(
        loads=loads_of(cases, RunAs(SETTINGS)),
        ttft_s=np.array([point.ttft_s for point in points], float),
        tpot_s=np.array([point.tpot_s for point in points], float),
        weight=np.array(weights(points)),
        versions=tuple(point.framework_version or "" for point in points),
        sources=tuple(point.source for point in points),
    )


def fitted(points: Sequence[ServingPoint]) -> Fit:
    return fit_factors(measured(points), np.ones(len(points), bool))


def shift(fit: Fit, name: str, truth: Factors) -> float:
    """Logarithm of a fitted factor over the true one."""
    return float(np.log(getattr(fit.factors, name) / getattr(truth, name)))


@cached
def planted(name: str, direction: int) -> tuple[Factors, list[ServingPoint]]:
    """Points of a stack that has one factor a prior deviation away from where it is expected."""
    prior = PRIORS[name]
    points = configurations(version=None)
    strength = max(1.0, (len(points) / DISTINCT_POINTS) ** 0.5)
    truth = replace(AT_PRIORS, **{name: prior.value * float(np.exp(direction * prior.spread / strength))})
    return truth, by_formulas(points, truth)


@cached
def fit_of_planted(name: str, direction: int) -> Fit:
    """The fit to those points."""
    return fitted(planted(name, direction)[1])


@pytest.mark.parametrize("direction", [-1, 1], ids=["below", "above"])
@pytest.mark.parametrize("name", IDENTIFIABLE)
def test_a_planted_factor_is_found_within_its_standard_error_and_the_others_stay(name: str, direction: int) -> None:
    truth, found = planted(name, direction)[0], fit_of_planted(name, direction)
    for other in PRIORS:
        assert abs(shift(found, other, truth)) <= STANDARD_ERRORS * found.spreads[other], other
    untold = np.log(PRIORS[name].value / getattr(truth, name))
    assert abs(shift(found, name, truth)) < 0.7 * abs(untold), "it has learnt most of what the points say"


def test_what_a_request_costs_is_found_to_a_few_per_cent() -> None:
    truth, found = planted("request_overhead_s", 1)[0], fit_of_planted("request_overhead_s", 1)
    assert found.factors.request_overhead_s == pytest.approx(truth.request_overhead_s, rel=0.03)


@pytest.mark.parametrize("name", IDENTIFIABLE)
def test_latencies_come_out_as_they_were_planted(name: str) -> None:
    _, points = planted(name, 1)
    again = by_formulas(points, fit_of_planted(name, 1).factors)
    for point, other in zip(points, again, strict=True):
        assert other.ttft_s == pytest.approx(point.ttft_s, rel=0.05)
        assert other.tpot_s == pytest.approx(point.tpot_s, rel=0.05)


def test_points_at_the_priors_leave_every_factor_there() -> None:
    found = fitted(by_formulas(configurations(version=None), AT_PRIORS))
    for name in PRIORS:
        assert shift(found, name, AT_PRIORS) == pytest.approx(0.0, abs=1e-6), name


def test_contradictions_among_the_points_do_not_move_the_fit() -> None:
    _, points = planted("kernel_latency_s", 1)
    contradicted = [*points]
    contradicted[::10] = slower(points[::10], 20.0)
    clean, robust = fit_of_planted("kernel_latency_s", 1), fitted(contradicted)
    for name in PRIORS:
        assert abs(shift(robust, name, clean.factors)) <= 0.2 * clean.spreads[name], name


def test_a_factor_that_no_point_speaks_of_stays_at_its_prior_with_the_priors_spread() -> None:
    found = fit_of_planted("kernel_latency_s", 1)
    for name in ("recurrence_efficiency", "replica_latency_s"):  # neither recurrent layers nor attention replicas
        assert shift(found, name, AT_PRIORS) == pytest.approx(0.0, abs=1e-6)
        assert found.spreads[name] == pytest.approx(PRIORS[name].spread / found.prior_weight, rel=1e-3)


def test_points_that_are_held_out_have_no_say_however_absurd() -> None:
    _, points = planted("kernel_latency_s", 1)
    held_out = np.array([point.model == [*MODELS][1] for point in points])
    absurd = [slower([p], 50.0)[0] if out else p for p, out in zip(points, held_out, strict=True)]
    without = fitted([point for point, out in zip(points, held_out, strict=True) if not out])
    found = fit_factors(measured(absurd), ~held_out)
    for name in PRIORS:
        assert shift(found, name, without.factors) == pytest.approx(0.0, abs=1e-4), name


def test_copies_of_a_point_weigh_once() -> None:
    _, points = planted("kernel_latency_s", 1)
    few = points[::5]
    assert 2 * len(few) <= DISTINCT_POINTS, "so that priors weigh the same in both"
    one, two = fitted(few), fitted([*few, *few])
    for name in PRIORS:
        assert shift(two, name, one.factors) == pytest.approx(0.0, abs=1e-4), name


def test_a_version_with_slower_requests_is_told_from_the_others() -> None:
    found = fitted([*_of_sources("1.0", AT_PRIORS, "ab"), *_of_sources("2.0", SLOWER, "ab")])
    slower_s = SLOWER.request_overhead_s - AT_PRIORS.request_overhead_s
    slow_s, usual_s = (found.factors.request_overhead_s * found.ratios[version][3] for version in ("2.0", "1.0"))
    assert slow_s - usual_s == pytest.approx(slower_s, rel=0.15)
    assert found.ratios["2.0"][0] / found.ratios["1.0"][0] == pytest.approx(1.0, rel=0.05)


def test_a_version_of_one_source_or_one_model_is_as_the_rest_on_any_other_model() -> None:
    usual, slow = _of_sources("1.0", AT_PRIORS, "ab"), _of_sources("2.0", SLOWER, "ab")
    slower_s = SLOWER.request_overhead_s - AT_PRIORS.request_overhead_s
    of_one_source = [replace(point, source="a") for point in slow]
    of_one_model = [point for point in slow if point.model == slow[0].model]
    for few in (of_one_source, of_one_model):
        found = fitted([*usual, *few])
        seen = {point.model for point in few}
        assert {*found.only["2.0"]} == seen
        assert "1.0" not in found.only
        usual_s, slow_s, other_s = (
            found.of([version], [None], [model]).request_overhead_s
            for version, model in (("1.0", min(seen)), ("2.0", min(seen)), ("2.0", "llama-3.1-70b"))
        )
        assert np.asarray(slow_s - usual_s) == pytest.approx(slower_s, rel=0.25)
        assert other_s == pytest.approx(found.factors.request_overhead_s)


def test_derivatives_that_move_values_together_are_those_of_each_alone() -> None:
    points = [*_of_sources("1.0", AT_PRIORS, "ab")[::6], *_of_sources("2.0", SLOWER, "bc")[::6]]
    found = measured(points)
    names = _Names(tuple(PRIORS), ("1.0", "2.0"), ("a", "b", "c"), {})
    prior, spread = _priors(names, ())
    residuals = _Residuals(found, np.ones(len(points), bool), names, prior, spread)
    theta = prior + np.random.default_rng(3).normal(0.0, 0.05, len(prior))
    step = 1e-6
    apart = [(residuals(theta + step * one) - residuals(theta - step * one)) / (2 * step) for one in np.eye(len(theta))]
    assert residuals.jacobian(theta) == pytest.approx(np.array(apart).T, rel=1e-3, abs=1e-4)


def _of_sources(version: str, truth: Factors, sources: str) -> list[ServingPoint]:
    """Points of a version, by turns of sources that add nothing of their own."""
    points = by_formulas(configurations(version=version), truth)
    return [replace(point, source=sources[index % len(sources)]) for index, point in enumerate(points)]


def test_a_version_without_points_has_the_frameworks_factors() -> None:
    found = fitted(by_formulas(configurations(version="1.0"), AT_PRIORS))
    factors = found.of(["0.1"], [None], ["qwen3-32b"])
    assert factors.kernel_latency_s == pytest.approx(found.factors.kernel_latency_s)


def test_a_latency_that_was_not_measured_is_no_residual() -> None:
    _, points = planted("request_overhead_s", 1)
    without = [replace(point, ttft_s=None) for point in points]
    found = fitted(without)
    assert shift(found, "request_overhead_s", AT_PRIORS) == pytest.approx(0.0, abs=0.01)
    assert POINT.ttft_s is not None


def test_a_version_that_one_harness_measured_leaves_the_harness_what_it_adds_to_every_request() -> None:
    """The framework's own overhead is told by points of no version; the version's harness adds 0.25 s to its own."""
    truth, added_s = AT_PRIORS, 0.25
    plain = by_formulas(configurations(version=None), truth)
    theirs = by_formulas(configurations(version="0.9"), replace(truth, source_overhead_s=added_s))
    found = fitted([*plain, *(replace(point, source="harness") for point in theirs)])
    assert found.sources_s == {"harness": pytest.approx(added_s, rel=0.1)}
    assert found.ratios["0.9"][3] == pytest.approx(1.0, abs=0.01)
    assert found.factors.request_overhead_s == pytest.approx(truth.request_overhead_s, rel=0.3)
    at_home, elsewhere = (
        found.of(["0.9"], [source], ["qwen3-32b"]).source_overhead_s for source in ("harness", "another")
    )
    assert np.asarray(at_home).tolist() == [found.sources_s["harness"]]
    assert np.asarray(elsewhere).tolist() == [0.0]


def test_a_prior_weighs_more_by_the_root_of_the_votes_that_tell_of_its_value() -> None:
    """Votes of points that are fitted alone: of all, of a version or of a source; never less than one set of points."""
    votes, used = DISTINCT_POINTS * np.array([4.0, 9.0, 16.0, 0.25]), np.array([True, True, False, True])
    told = replace(
        measured(configurations(version=None)[:4]),
        weight=votes,
        versions=("1", "2", "2", ""),
        sources=("a", "b", "a", "b"),
        ttft_s=np.array([1.0, np.nan, 1.0, 1.0]),
    )
    names = _Names(("gemm_efficiency",), ("1", "2"), ("a", "b"), {})
    prior, spread = _priors(names, frozenset())
    residuals = _Residuals(told, used, names, prior, spread)
    assert residuals.prior_weight == pytest.approx(13.25**0.5)
    ratios = [2.0, 3.0] * ((len(prior) - 3) // 2)
    assert sorted(residuals.prior_weights) == pytest.approx(sorted([13.25**0.5, *ratios, 2.0, 9.25**0.5]))
    assert residuals.weight == pytest.approx(np.sqrt(votes) * [1, 1, 0, 1])
    few = _Residuals(replace(told, weight=votes / 1000), used, names, prior, spread)
    assert few.prior_weight == 1.0


def test_a_version_that_only_one_source_tells_of_has_that_source_in_its_place() -> None:
    """The last of its ratios is what a source might have added: there it is held at 1."""
    names = _Names(("gemm_efficiency", "host_step_s"), ("1", "2"), ("a",), {})
    value, spread = _priors(names, {"2"})
    assert value == pytest.approx(
        np.log(
            [PRIORS["gemm_efficiency"].value, PRIORS["host_step_s"].value, *[1.0] * 2 * N_RATIOS, SOURCE_PRIOR.value]
        )
    )
    both = [*VERSION_SPREAD, *VERSION_SPREAD[:-1], LONE_SPREAD]
    assert spread.tolist() == [PRIORS[name].spread for name in names.factors] + both + [SOURCE_PRIOR.spread]
