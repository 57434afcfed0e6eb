"""The live system as a scenario: the executor's run of it against recursions written out here."""

import datetime
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.hybrid.live import WorkerSpec
from planner.hybrid.timing import DecodePoint, Timed
from planner.profiles import hardware_profile
from planner.profiles.stack_writer import stack_toml
from planner.roofline import Chip, InstanceModel, Layout, kv_bytes, stack
from planner.scenario import load_scenario
from planner.studies.live import LivePlan, execute_live, forecast, live_model, stratified_requests, worker_specs
from planner.studies.live.execution import live_fleet, requests_csv, scenario_toml
from planner.studies.live.forecast import point_seconds
from planner.studies.live.measuring import hardware_toml, model_toml, write_profile
from planner.studies.live.question import LINK_BYTES_PER_S, OWN_POINTS
from planner.studies.live.stack_fit import PROBE_POINTS, Probe, expected_factors, fitted_stack, probe_models
from tests.live_machine import CORE, KERNELS, MACHINE

SHARED = worker_specs([0, 1])
APART = (
    WorkerSpec("a", "prfaas", "prefill", 0),
    WorkerSpec("b", "pd-p", "prefill", 1),
    WorkerSpec("c", "pd-d", "decode", 2),
)
N = 80


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Profiles as a run leaves them, of measurements that are made up."""
    found = tmp_path_factory.mktemp("live")
    profiles = found / "profiles"
    profiles.mkdir()
    text = hardware_toml("this-machine", MACHINE, [CORE], [KERNELS], "file:///made-up/probes.csv")
    hardware = hardware_profile(str(write_profile(profiles, "this-machine", text)))
    probes = []
    for model in probe_models(live_model()):
        served = InstanceModel(model, Chip(hardware), Layout(), expected_factors(), chunk_tokens=512)
        seconds = [point_seconds(served, point) for point in PROBE_POINTS]
        probes.append(Probe(model, tuple(Timed(p, (s,), (s,)) for p, s in zip(PROBE_POINTS, seconds, strict=True))))
    fitted = fitted_stack(
        hardware, probes, chunk_tokens=512, day=datetime.date(2026, 11, 22), source="file:///made-up/probes.csv"
    )
    write_profile(profiles, "hybrid-numpy", stack_toml(fitted))
    write_profile(profiles, "hybrid-live", model_toml(live_model()))
    return found


@pytest.fixture(scope="module")
def served(folder: Path) -> InstanceModel:
    used = stack(str(folder / "profiles" / "hybrid-numpy.toml"))
    hardware = hardware_profile(str(folder / "profiles" / "this-machine.toml"))
    return InstanceModel(live_model(), Chip(hardware), Layout(), used.factors, chunk_tokens=used.settings.chunk_tokens)


def plan_of(
    folder: Path, served: InstanceModel, workers: tuple[WorkerSpec, ...], stretch: float = 1.0, load: float = 0.6
) -> LivePlan:
    told = forecast(
        served,
        workers,
        stratified_requests(400, 0),
        link_bytes_per_s=LINK_BYTES_PER_S,
        loopback_bytes_per_s=8e8,
        load_fraction=load,
        stretch=stretch,
    )
    return LivePlan(
        forecast=replace(told, threshold_tokens=200.0),
        drawn=stratified_requests(N, 5),
        model="hybrid-live",
        hardware="this-machine",
        stack=folder / "profiles" / "hybrid-numpy.toml",
        stretch=stretch,
        workers=workers,
        loopback_bytes_per_s=8e8,
        folder=folder,
        points=OWN_POINTS,
    )


def first_come_first_served(arrival_s: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """When each request of one server is done."""
    ends, free = [], 0.0
    for at, took in zip(arrival_s.tolist(), seconds.tolist(), strict=True):
        free = max(at, free) + took
        ends.append(free)
    return np.array(ends)


@pytest.mark.parametrize("workers", [SHARED, APART], ids=["one prefill core", "two"])
@pytest.mark.parametrize("stretch", [1.0, 1.7])
def test_prefill_is_a_queue_per_core_in_order_of_arrival(
    folder: Path, served: InstanceModel, workers: tuple[WorkerSpec, ...], stretch: float
) -> None:
    """Both pools wait in one line where they share a core."""
    plan = plan_of(folder, served, workers, stretch)
    (folder / "requests.csv").write_text(requests_csv(plan.drawn, plan.forecast.offered_req_per_s))
    scenario = load_scenario(scenario_toml(plan), "live", folder)
    _, records = simulate(scenario, live_fleet(plan), RunQuestion(N, n_replications=1), keep=True)
    assert records is not None
    tokens = plan.drawn.input_tokens
    is_far = tokens > plan.forecast.threshold_tokens
    assert records.columns["total_tokens"].tolist() == tokens.tolist()
    assert records.columns["is_long"].astype(bool).tolist() == is_far.tolist()
    assert 0 < is_far.sum() < N
    times = np.cumsum(plan.drawn.gaps) / plan.forecast.offered_req_per_s
    arrival_s = times - times[0]
    took = records.columns["prefill_end_s"] - records.columns["prefill_start_s"]
    asked = stretch * served.prefill_time(tokens).total_s
    # A smooth curve through the roofline's seconds, which jump where a prompt outgrows a chunk.
    smooth = (tokens >= 64) & ~((tokens > 512) & (tokens < 640))
    assert took[smooth] == pytest.approx(asked[smooth], rel=0.01)
    assert took.sum() == pytest.approx(asked.sum(), rel=0.02)
    lines = [np.full(N, True)] if workers is SHARED else [is_far, ~is_far]
    for mine in lines:
        ends = first_come_first_served(arrival_s[mine], took[mine])
        assert records.columns["prefill_end_s"][mine] == pytest.approx(ends, abs=2e-6), "times of a trace are whole µs"


def test_what_crosses_is_counted_to_the_byte_and_slows_only_those_who_cross(
    folder: Path, served: InstanceModel
) -> None:
    plan = plan_of(folder, served, SHARED)
    found = execute_live(plan)
    tokens, rate = plan.drawn.input_tokens, plan.forecast.offered_req_per_s
    assert found.metrics["kv_bytes"] == pytest.approx(float(kv_bytes(live_model(), tokens).sum()), rel=1e-12)
    is_far = tokens > plan.forecast.threshold_tokens
    times = np.cumsum(plan.drawn.gaps) / rate
    seconds = served.prefill_time(tokens).total_s
    at_best = first_come_first_served(times, 0.9 * seconds) - times
    sent_s = kv_bytes(live_model(), tokens) / LINK_BYTES_PER_S
    assert (found.ttft_s >= at_best).all()
    assert (found.ttft_s[is_far] >= sent_s[is_far] * 0.99 + 0.9 * seconds[is_far] / 8).all(), "a cache needs its time"
    span_s = N / found.metrics["throughput_req_per_s"]
    assert found.metrics["link_fraction"] == pytest.approx(sent_s[is_far].sum() / span_s, rel=1e-6)
    assert span_s > times[-1]
    assert found.metrics["ttft_mean_s"] == pytest.approx(found.ttft_s.mean())


def test_service_times_are_those_of_a_core_of_ones_own(folder: Path, served: InstanceModel) -> None:
    """Whatever other programs take; short prompts are off its curve's first samples."""
    alone, crowded = (execute_live(plan_of(folder, served, SHARED, stretch)).points for stretch in (1.0, 2.5))
    for point in OWN_POINTS:
        assert crowded[point] == pytest.approx(alone[point], rel=1e-9)
        within = 0.02 if isinstance(point, DecodePoint) or point.new_tokens >= 128 else 0.3
        assert alone[point] == pytest.approx(point_seconds(served, point), rel=within)


def test_a_batch_is_never_larger_than_the_workers(folder: Path, served: InstanceModel) -> None:
    """With one place for each, decode is in turns: as many requests as are inside, less one, wait."""
    plan = plan_of(folder, served, SHARED, load=0.9)
    (folder / "requests.csv").write_text(requests_csv(plan.drawn, plan.forecast.offered_req_per_s))
    peaks = []
    for limit in (8, 1):
        changes = [f"execution.pools.pd-d.batch_limit={limit}"]
        scenario = load_scenario(scenario_toml(plan), "live", folder, changes)
        _, records = simulate(scenario, live_fleet(plan), RunQuestion(N, n_replications=1), keep=True)
        assert records is not None
        starts, ends = records.columns["first_token_s"], records.columns["finish_s"]
        peaks.append(max(int(((starts <= at) & (ends > at)).sum()) for at in starts))
    assert peaks[1] == 1
    assert 1 < peaks[0] <= 8


def test_requests_keep_their_times_to_the_microsecond() -> None:
    drawn = replace(stratified_requests(3, 0), gaps=np.array([0.5, 0.25, 1e-6]))
    lines = requests_csv(drawn, 1.0).splitlines()
    assert [line.split(",")[0][17:] for line in lines[1:]] == ["00.500000", "00.750000", "00.750001"]
