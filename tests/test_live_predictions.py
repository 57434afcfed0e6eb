"""Measurements become profiles that hold, factors are found again from times, forecasts obey their laws."""

import datetime
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from planner.hybrid.live import WorkerSpec
from planner.hybrid.timing import Timed
from planner.profiles import HardwareProfile, ModelProfile, check_profiles, hardware_profile, model_profile
from planner.profiles.stack_writer import as_written, stack_toml
from planner.roofline import Chip, Factors, InstanceModel, Layout, factors_of, kv_bytes, stack
from planner.studies.live import forecast, live_model, stratified_requests, worker_specs
from planner.studies.live.forecast import point_seconds
from planner.studies.live.measuring import hardware_toml, model_toml, write_profile
from planner.studies.live.question import OWN_POINTS
from planner.studies.live.stack_fit import (
    FREE,
    PROBE_POINTS,
    Probe,
    expected_factors,
    fitted_stack,
    probe_models,
    probes_csv,
)
from tests.live_machine import CORE, KERNELS, MACHINE

DAY = datetime.date(2026, 11, 21)


@pytest.fixture(scope="module")
def hardware(tmp_path_factory: pytest.TempPathFactory) -> HardwareProfile:
    folder = tmp_path_factory.mktemp("profiles")
    text = hardware_toml("this-machine", MACHINE, [CORE, CORE], [KERNELS, KERNELS], "file:///tmp/probes.csv")
    return hardware_profile(str(write_profile(folder, "this-machine", text)))


def timed_with(hardware: HardwareProfile, factors: Factors) -> list[Probe]:
    """Probes whose times are what the roofline says with known factors."""
    found = []
    for model in probe_models(live_model()):
        served = InstanceModel(model, Chip(hardware), Layout(), factors, chunk_tokens=512)
        seconds = [point_seconds(served, point) for point in PROBE_POINTS]
        timed = [Timed(p, (s,) * 3, (2 * s,) * 3) for p, s in zip(PROBE_POINTS, seconds, strict=True)]
        found.append(Probe(model, tuple(timed)))
    return found


TRUE_FACTORS = {
    "gemm_efficiency": 0.85,
    "moe_efficiency": 1.1,
    "attention_efficiency": 1.2,
    "recurrence_efficiency": 0.7,
    "weight_read_fraction": 0.7,
    "kernel_latency_s": 8e-6,
}


@pytest.fixture(scope="module")
def served(hardware: HardwareProfile) -> InstanceModel:
    factors = replace(expected_factors(), **TRUE_FACTORS)
    return InstanceModel(live_model(), Chip(hardware), Layout(), factors, chunk_tokens=512)


def test_profiles_made_of_measurements_pass_the_gate(hardware: HardwareProfile, tmp_path: Path) -> None:
    """All that a run writes, in one folder, as `planner profiles check DIR` judges it."""
    text = hardware_toml("this-machine", MACHINE, [CORE], [KERNELS], "file:///tmp/probes.csv")
    write_profile(tmp_path, "this-machine", text)
    probes = timed_with(hardware, expected_factors())
    fitted = fitted_stack(hardware, probes, chunk_tokens=512, day=DAY, source="file:///tmp/probes.csv")
    write_profile(tmp_path, "hybrid-numpy", stack_toml(fitted))
    for model in (live_model(), *(probe.model for probe in probes)):
        write_profile(tmp_path, model.name, model_toml(model))
    checked = check_profiles([tmp_path])
    assert checked.problems == ()
    assert checked.n_files == 7


def test_a_measured_fraction_that_the_format_has_no_room_for_is_said_to_be_moved(tmp_path: Path) -> None:
    slow = replace(KERNELS, attention_read_bytes_per_s=1e8)
    path = write_profile(tmp_path, "slow", hardware_toml("slow", MACHINE, [CORE], [slow], "file:///x"))
    found = hardware_profile(str(path)).efficiency.attention_decode_fraction
    assert found
    assert (found.value, found.basis) == (0.1, "derived")
    assert found.note
    assert "measured 0.0073" in found.note


@pytest.mark.parametrize("model", [live_model(), *probe_models(live_model())], ids=lambda model: model.name)
def test_a_model_file_reads_back_as_the_model(model: ModelProfile, tmp_path: Path) -> None:
    assert model_profile(str(write_profile(tmp_path, model.name, model_toml(model)))) == model


def test_factors_are_found_again_from_times_that_were_made_with_them(
    hardware: HardwareProfile, served: InstanceModel
) -> None:
    """What counts is the served model, which is no probe: its times come back within a few per cent."""
    probes = timed_with(hardware, served.factors)
    fitted = fitted_stack(hardware, probes, chunk_tokens=512, day=DAY, source="made up")
    again = replace(served, factors=factors_of(fitted))
    for point in OWN_POINTS:
        assert point_seconds(again, point) == pytest.approx(point_seconds(served, point), rel=0.06)
    assert fitted.calibration
    assert fitted.calibration.in_sample.ttft
    assert fitted.calibration.in_sample.ttft.mean_abs < 0.04


def test_a_stack_file_gives_the_factors_that_were_fitted(hardware: HardwareProfile, tmp_path: Path) -> None:
    fitted = fitted_stack(
        hardware, timed_with(hardware, expected_factors()), chunk_tokens=512, day=DAY, source="made up"
    )
    path = write_profile(tmp_path, "hybrid-numpy", stack_toml(fitted))
    read = stack(str(path))
    assert vars(read.factors) == vars(factors_of(as_written(fitted)))
    assert read.settings.chunk_tokens == 512
    assert {n for n, f in fitted.factors if f.basis == "calibrated"} == set(FREE)


def test_no_probe_is_the_served_model_and_the_points_file_has_them_all(hardware: HardwareProfile) -> None:
    probes = timed_with(hardware, expected_factors())
    shapes = [probe.model.architecture for probe in probes]
    assert live_model().architecture not in shapes
    lines = probes_csv(probes).splitlines()
    assert len(lines) == 1 + len(probes) * len(PROBE_POINTS)
    assert all(line.count(",") == lines[0].count(",") for line in lines)


SHARED = worker_specs([0, 1])
APART = (
    WorkerSpec("a", "prfaas", "prefill", 0),
    WorkerSpec("b", "pd-p", "prefill", 1),
    WorkerSpec("c", "pd-d", "decode", 2),
)


def forecast_of(served: InstanceModel, workers: tuple[WorkerSpec, ...], **changes: float) -> object:
    known = {"link_bytes_per_s": 3e6, "loopback_bytes_per_s": 8e8, "load_fraction": 0.5}
    return forecast(served, workers, stratified_requests(400, 0), **{**known, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [SHARED, APART], ids=["one prefill core", "two"])
def test_no_threshold_carries_more_than_the_chosen_one(served: InstanceModel, workers: tuple[WorkerSpec, ...]) -> None:
    """By brute force over all lengths, with each limit written out anew."""
    found = forecast(
        served,
        workers,
        drawn := stratified_requests(400, 0),
        link_bytes_per_s=3e6,
        loopback_bytes_per_s=8e8,
        load_fraction=0.5,
    )
    tokens = drawn.input_tokens
    seconds = served.prefill_time(tokens).total_s
    sizes = kv_bytes(served.model, tokens)
    best = 0.0
    for t in range(1100):
        far = tokens > t
        busy = [seconds.mean()] if workers is SHARED else [seconds[far].sum() / 400, seconds[~far].sum() / 400]
        limits = [1 / b for b in busy if b] + ([3e6 * 400 / sizes[far].sum()] if far.any() else [])
        best = max(best, min(limits))
    assert found.capacity_req_per_s == pytest.approx(best, rel=1e-9)
    assert found.offered_req_per_s == pytest.approx(0.5 * best, rel=1e-9)


def test_where_both_pools_share_a_core_both_are_at_work_within_what_the_link_carries(served: InstanceModel) -> None:
    """Every threshold carries as much there; rounding must not choose one that leaves a pool idle."""
    tokens = stratified_requests(400, 0).input_tokens
    for stretch in (0.9, 1.0, 2.0, 3.3):
        wide, narrow = (
            forecast_of(served, SHARED, link_bytes_per_s=rate, stretch=stretch).threshold_tokens  # type: ignore[attr-defined]
            for rate in (1e9, 2e5)
        )
        assert (tokens > wide).mean() == pytest.approx(0.5, abs=0.02)
        assert narrow > wide


def test_a_wider_link_never_lowers_capacity_and_more_load_never_shortens_the_wait(served: InstanceModel) -> None:
    capacities = [forecast_of(served, APART, link_bytes_per_s=rate).capacity_req_per_s for rate in (1e6, 3e6, 1e8)]  # type: ignore[attr-defined]
    assert capacities == sorted(capacities)
    waits = [forecast_of(served, SHARED, load_fraction=load).ttft_mean_s for load in (0.1, 0.5, 0.9)]  # type: ignore[attr-defined]
    assert waits == sorted(waits)
    assert waits[0] > float(served.prefill_time(stratified_requests(400, 0).input_tokens).total_s.mean())


def test_a_machine_that_is_half_ours_serves_half_as_fast(served: InstanceModel) -> None:
    whole, half = (forecast_of(served, SHARED, link_bytes_per_s=1e9, stretch=s) for s in (1.0, 2.0))
    assert half.capacity_req_per_s == pytest.approx(whole.capacity_req_per_s / 2)  # type: ignore[attr-defined]


def test_workers_share_a_core_only_where_there_are_too_few() -> None:
    for n in range(1, 12):
        specs = worker_specs(range(n))
        assert {spec.pool for spec in specs} == {"prfaas", "pd-p", "pd-d"}
        assert {spec.core for spec in specs} == set(range(n))
        assert len(specs) == max(n, 3)


@pytest.mark.parametrize("n", [7, 60, 400])
def test_every_n_th_part_of_each_distribution_gives_one_request(n: int) -> None:
    """So that few requests show the mean that is planned for, in an order that says nothing."""
    drawn = stratified_requests(n, 3)
    edges = -np.log1p(-np.arange(1, n) / n)
    assert np.histogram(drawn.gaps, [0, *edges, np.inf])[0].tolist() == [1] * n
    long = stratified_requests(20_000, 0)
    assert drawn.input_tokens.mean() == pytest.approx(long.input_tokens.mean(), rel=0.6 / n)
    assert long.gaps.mean() == pytest.approx(1.0, rel=1e-3)
    if n == 400:
        assert abs(np.corrcoef(drawn.gaps, drawn.input_tokens)[0, 1]) < 0.15


def test_requests_are_drawn_from_the_seed_and_within_their_range() -> None:
    first, again, other = stratified_requests(200, 1), stratified_requests(200, 1), stratified_requests(200, 2)
    assert np.array_equal(first.input_tokens, again.input_tokens)
    assert not np.array_equal(first.input_tokens, other.input_tokens)
    assert first.input_tokens.min() >= 32
    assert first.input_tokens.max() <= 1024
    requests = first.first(50).requests(10.0, 99, 1)
    assert [request.arrival_s for request in requests] == sorted(request.arrival_s for request in requests)
    assert [len(request.tokens) for request in requests] == first.input_tokens[:50].tolist()
    assert 3 < requests[-1].arrival_s < 8


@pytest.mark.parametrize("has_experts", [True, False])
def test_probes_are_as_wide_as_the_served_model_or_half_as_wide_again(has_experts: bool) -> None:
    """Of half its vocabulary, and with as many experts, or four where it has none."""
    served = model_profile("kimi-linear-48b")
    if not has_experts:
        dense = served.architecture.model_copy(update={"moe": None})
        served = served.model_copy(update={"architecture": dense})
    shapes = served.architecture
    probes = {one.name.removeprefix("probe-"): one.architecture for one in probe_models(served)}
    widths = {probe: found.hidden_size for probe, found in probes.items()}
    assert shapes.hidden_size is not None
    assert shapes.vocab_size is not None
    assert widths.pop("wide") == 3 * shapes.hidden_size // 2
    assert set(widths.values()) == {shapes.hidden_size}
    assert {found.vocab_size for found in probes.values()} == {shapes.vocab_size // 2}
    assert {found.moe.n_experts for found in probes.values() if found.moe} == {
        shapes.moe.n_experts if shapes.moe else 4
    }
    layers = {
        probe: [group.kind for group in found.attention for _ in range(group.n_layers)]
        for probe, found in probes.items()
    }
    assert {probe: (kinds.count("kda"), kinds.count("mla")) for probe, kinds in layers.items()} == {
        "delta": (4, 0),
        "latent": (0, 3),
        "experts": (2, 1),
        "wide": (3, 1),
    }
