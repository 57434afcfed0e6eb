"""`planner live` from measurement to table, and what the command prints of it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import planner.studies.live
from planner.cli import app
from planner.comparison import optimize
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.hybrid.live import LiveRecord, LiveRun
from planner.profiles import check_profiles, model_profile
from planner.report.live_tables import live_tables
from planner.results.live import Live, LiveCheck, LiveMachine
from planner.results.live_file import live_from
from planner.scenario import read_scenario
from planner.studies.live import LiveQuestion, LiveStudy, live
from planner.studies.predict import PredictQuestion, predict

MACHINE = LiveMachine(
    processor="Some Processor",
    system="Linux 6",
    python="3.11.7",
    numpy="2.4.6",
    n_cores=2,
    memory_bytes=16_000_000_000,
    workers={"prfaas-0": 0, "pd-p-0": 0, "pd-d-0": None},
    gemm_flop_per_s={"1": 6.6e9, "256": 1.3e11},
    memory_bytes_per_s=1.37e10,
    call_s=1e-6,
    loopback_bytes_per_s=8e8,
    busy_before_fraction=0.99,
    busy_fraction=None,
)


def check(metric: str, predicted: float, measured: float, executed: float | None = None) -> LiveCheck:
    error = predicted / measured - 1
    return LiveCheck(
        metric=metric,
        unit="s",
        predicted=predicted,
        executed=executed,
        measured=measured,
        ci_low=None,
        ci_high=None,
        relative_error=error,
        tolerance=0.15,
        holds=abs(error) <= 0.15,
    )


def answer(*checks: LiveCheck) -> Live:
    return Live(
        scenario="hybrid-live",
        machine=MACHINE,
        seed=0,
        threshold_tokens=166.0,
        link_bytes_per_s=3e6,
        offered_req_per_s=2.7,
        n_requests=48,
        n_finished=47,
        n_dropped=1,
        served_s=25.5,
        checks=checks,
    )


GOOD, BAD = check("prefill, 32 tokens", 0.05, 0.049, executed=0.0501), check("ttft_mean_s", 0.3, 0.5)


def command(monkeypatch: pytest.MonkeyPatch, found: Live, *arguments: str) -> Any:
    def study(question: LiveQuestion, **_: object) -> LiveStudy:
        assert question.minutes == 3.0
        return LiveStudy(found, (LiveRun([LiveRecord(0, 0.0, 1, 1)]),), ())

    monkeypatch.setattr(planner.studies.live, "live", study)
    return CliRunner().invoke(app, ["live", *arguments])


def test_the_table_has_every_metric_predicted_executed_and_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    found = command(monkeypatch, answer(GOOD, BAD))
    assert found.exit_code == 0, found.output
    assert "prfaas-0 on 0, pd-p-0 on 0, pd-d-0 on any" in found.stdout
    assert "47 of 48 finished, 1 dropped" in found.stdout
    (good,) = [line for line in found.stdout.splitlines() if "prefill, 32 tokens" in line]
    assert good.split()[3:] == ["0.05", "0.0501", "0.049", "+2.0", "%", "–", "15", "%", "yes"]
    (bad,) = [line for line in found.stdout.splitlines() if "ttft_mean_s" in line]
    assert bad.split()[1:] == ["0.3", "–", "0.5", "-40.0", "%", "–", "15", "%", "no"]


def test_the_json_answer_is_the_contracts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(command(monkeypatch, answer(GOOD, BAD), "--format", "json").stdout)
    assert found["schema"] == "planner.live/1"
    assert found["scenario"] == "hybrid-live"
    assert found["machine"]["n_cores"] == 2
    assert found["holds"] is False
    wanted = {
        "metric",
        "predicted",
        "executed",
        "measured",
        "ci_low",
        "ci_high",
        "relative_error",
        "tolerance",
        "holds",
    }
    assert all(wanted <= set(item) for item in found["checks"])
    assert found["checks"][1]["executed"] is None


def test_strict_exits_6_when_a_check_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    assert command(monkeypatch, answer(GOOD), "--strict").exit_code == 0
    failed = command(monkeypatch, answer(GOOD, BAD), "--strict")
    assert failed.exception is not None
    assert failed.exception.exit_code == 6
    assert "1 of 2 checks do not hold: ttft_mean_s" in str(failed.exception)


def test_tables_fit_the_terminal() -> None:
    assert len(live_tables(answer(GOOD, BAD))) == 2


def test_a_short_run_on_this_machine_gives_every_figure_and_leaves_profiles_that_hold(tmp_path: Path) -> None:
    """The whole way with a model of a few hundred thousand parameters. Only what no noise can touch is asserted."""
    said: list[str] = []
    question = LiveQuestion(minutes=0.2, model=small_model(), most_requests=40)
    found = live(question, out=tmp_path, progress=said.append)
    by_metric = {item.metric: item for item in found.live.checks}
    assert {"kv_bytes", "ttft_mean_s", "ttft_p90_s", "tpot_mean_s", "throughput_req_per_s", "link_fraction"} <= set(
        by_metric
    )
    assert sum(name.startswith("prefill, ") for name in by_metric) == 5
    assert sum(name.startswith("decode step, ") for name in by_metric) == 4
    assert by_metric["kv_bytes"].relative_error == 0
    assert by_metric["kv_bytes"].holds
    if not found.live.n_dropped:
        assert by_metric["kv_bytes"].executed == by_metric["kv_bytes"].measured
    for item in by_metric.values():
        assert min(item.predicted or 0.0, item.executed or 0.0, item.measured or 0.0) > 0, item.metric
    assert len(found.runs) == len(found.live.repeats) == 2
    assert [len(times) for times in found.live.ttft.measured_s] == [run.n_finished for run in found.live.repeats]
    assert len(found.live.ttft.executed_s) == len(found.runs[0].records)
    assert found.live.n_finished + found.live.n_dropped == found.live.n_requests
    assert said[0] == "building models"
    # What a busy machine measures of itself need not agree from one matrix product to the next.
    problems = check_profiles([tmp_path / "profiles"]).problems
    assert [p for p in problems if not (p.key.startswith("efficiency.") and " x " in p.message)] == []
    assert_predict_says_the_same(tmp_path / "profiles", by_metric)
    kept = (tmp_path / "live.json").read_text(encoding="utf-8")
    assert live_from(kept, "live.json") == found.live
    assert_simulate_says_the_same(tmp_path, by_metric)
    records = (tmp_path / "records.csv").read_text(encoding="utf-8").splitlines()
    assert len(records) == 1 + found.live.n_requests


def assert_simulate_says_the_same(folder: Path, by_metric: dict[str, LiveCheck]) -> None:
    """The scenario that is kept can be run again, by a plan of the planner's own for it; its link carries as much."""
    scenario = read_scenario(str(folder / "scenario.toml"))
    n = len((folder / "requests.csv").read_text(encoding="utf-8").splitlines()) - 1
    run, _ = simulate(scenario, optimize(scenario), RunQuestion(n, n_replications=1), data_dirs=())
    assert run.n_completed == n
    assert run.cross_site_bytes < (by_metric["kv_bytes"].executed or 0.0)
    assert run.ttft_mean_s == pytest.approx(by_metric["ttft_mean_s"].executed, rel=0.01)


def assert_predict_says_the_same(profiles: Path, by_metric: dict[str, LiveCheck]) -> None:
    """The files alone give `planner predict` the predictions that the run was held against."""
    question = PredictQuestion(
        model=str(profiles / "hybrid-small.toml"),
        hardware=str(profiles / "this-machine.toml"),
        stack=str(profiles / "hybrid-numpy.toml"),
        n_accelerators=1,
        tokens=(256,),
        batch=(8,),
        context_tokens=512,
    )
    found = predict(question)
    assert found.prefill[0].prefill_s == pytest.approx(by_metric["prefill, 256 tokens"].predicted)
    assert found.decode[0].step_s == pytest.approx(by_metric["decode step, batch 8"].predicted)


def small_model() -> Any:
    from planner.hybrid import shrunk

    return shrunk(
        model_profile("kimi-linear-48b"),
        "hybrid-small",
        n_layers=4,
        hidden_size=64,
        n_heads=2,
        head_dim=32,
        n_experts=8,
        vocab_size=256,
    )


def children(pid: int) -> list[int]:
    """Processes that a process has started."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    return [int(child) for child in text.split()]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the children of a process are read from /proc")
def test_ctrl_c_ends_the_command_with_130_and_every_worker_with_it() -> None:
    command = [sys.executable, "-m", "planner", "live"]
    # Tests may run with interrupts ignored, as in the background of a shell; the command must hear them.
    started = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    until = time.monotonic() + 30
    while len(children(started.pid)) < 4 and time.monotonic() < until:
        time.sleep(0.1)
    workers = children(started.pid)
    assert len(workers) >= 4, "three workers and what tracks their resources"
    time.sleep(1.0)
    os.killpg(started.pid, signal.SIGINT)
    out, err = started.communicate(timeout=20)
    assert (started.returncode, out) == (130, "")
    *progress, last = err.splitlines()  # a busy machine is told what it does after two seconds
    assert last == "planner: interrupted"
    assert all(line.startswith("planner: building models: ") for line in progress)
    until = time.monotonic() + 2
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
