"""Fits to points that are run: rounds of runs and fits end where the runs are those of the points."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from planner.profiles.points import ServingPoint
from planner.profiles.stack import HarnessSettings, StackSettings
from planner.roofline import Factors, RunAs, Stack
from planner.studies.fidelity.cases import cases_of
from planner.studies.fidelity.fidelity import case_times
from planner.studies.fidelity.fit import HOST, PRIORS, Fit, Measured, expected
from planner.studies.fidelity.loads import loads_of
from planner.studies.fidelity.rounds import as_run, fit_in_rounds
from tests.cpu_cost import cached
from tests.fidelity_points import configurations

LOCKED = StackSettings(memory_fraction=0.9, prefill_first=True)
"""Where closed formulas are furthest from runs: all requests wait for all prompts."""
HOW = RunAs(LOCKED, {"bench": HarnessSettings(source="docs", shortest_fraction=1.0)})
SLOW = replace(expected().factors, request_overhead_s=0.06, gemm_efficiency=0.85)


def run_points(factors: Factors) -> list[ServingPoint]:
    """Points that a stack with these factors makes under the harness."""
    points = [replace(point, source="bench") for point in configurations(version=None)[::2]]
    cases, _ = cases_of(points)
    ttft, tpot = case_times(cases, Stack("truth", factors, HOW.settings, harnesses=HOW.harnesses))
    times = zip(points, ttft.tolist(), tpot.tolist(), strict=True)
    return [replace(point, ttft_s=first, tpot_s=later) for point, first, later in times]


def measured(points: Sequence[ServingPoint]) -> Measured:
    cases, _ = cases_of(points)
    return Measured(
        loads=loads_of(cases, HOW),
        ttft_s=np.array([point.ttft_s for point in points], float),
        tpot_s=np.array([point.tpot_s for point in points], float),
        weight=np.ones(len(points)),
        versions=("",) * len(points),
        sources=tuple(point.source for point in points),
    )


@cached
def fit_of(factors: Factors) -> tuple[Fit, Measured]:
    points = run_points(factors)
    return fit_in_rounds(measured(points), np.ones(len(points), bool), HOW, lambda _: None)


def test_points_at_the_priors_leave_every_factor_there() -> None:
    found, _ = fit_of(expected().factors)
    for name, prior in PRIORS.items():
        assert getattr(found.factors, name) == pytest.approx(prior.value, rel=1e-6), name


def test_runs_under_the_fit_are_those_of_the_points() -> None:
    found, points = fit_of(SLOW)
    ttft, tpot = points.latencies(found.factors)
    assert ttft == pytest.approx(points.ttft_s, rel=0.05)
    assert tpot == pytest.approx(points.tpot_s, rel=0.05)


def test_formulas_alone_are_far_from_such_points() -> None:
    points = measured(run_points(SLOW))
    ttft, _ = points.latencies(SLOW)
    assert np.abs(np.log(ttft / points.ttft_s)).max() > 0.5


def test_latencies_at_the_factors_of_a_round_are_those_of_its_runs() -> None:
    points = measured(run_points(SLOW))
    fit = replace(expected(), factors=SLOW)
    ttft, tpot = as_run(points, fit, HOW).latencies(SLOW)
    assert ttft == pytest.approx(points.ttft_s, rel=1e-9)
    assert tpot == pytest.approx(points.tpot_s, rel=1e-9)


def test_prefills_alone_set_no_time_of_the_host() -> None:
    """What a table has of constant seconds is as well its way of measuring."""
    slow = replace(expected().factors, eager_launch_s=80e-6, host_step_s=6e-3, gemm_efficiency=0.8)
    alone = [replace(point, output_tokens=1.0, concurrency=1.0) for point in configurations(version=None)[::2]]
    ttft, _ = measured(alone).loads.latencies(slow)
    points = [replace(point, ttft_s=first, tpot_s=None) for point, first in zip(alone, ttft.tolist(), strict=True)]
    found, _ = fit_in_rounds(measured(points), np.ones(len(points), bool), HOW, lambda _: None)
    for name in HOST:
        assert getattr(found.factors, name) == pytest.approx(PRIORS[name].value, rel=1e-4), name
    assert found.factors.gemm_efficiency < 1.0
    assert found.factors.request_overhead_s > PRIORS["request_overhead_s"].value


def test_what_a_source_adds_is_added_to_runs_as_it_is() -> None:
    points = replace(measured(run_points(SLOW)), ttft_ratio=3.0)
    without, _ = points.latencies(SLOW)
    with_it, _ = points.latencies(replace(SLOW, source_overhead_s=0.25))
    assert with_it - without == pytest.approx(np.full(len(without), 0.25))
