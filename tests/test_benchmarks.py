"""Benchmarks run: every part of each on next to nothing, so that none is out of date when it is wanted. No times."""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.queue_simulation import read_simulated

FOLDER = Path(__file__).parent / "benchmarks"
TRIED = {"engine", "executor", "network", "optimize", "predict", "queueing", "startup"}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a benchmark by its name, as if its folder were the program's."""
    monkeypatch.syspath_prepend(str(FOLDER))

    def imported(name: str) -> Any:
        monkeypatch.setattr(sys, "path", [*sys.path])
        module = importlib.import_module(f"bench_{name}")
        if hasattr(module, "N_RUNS"):
            monkeypatch.setattr(module, "N_RUNS", 1)
        return module

    return imported


def test_every_benchmark_is_tried_here() -> None:
    assert {path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py")} == TRIED


def test_the_benchmark_of_the_engine_runs(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = bench("engine")
    monkeypatch.setattr(engine, "N_REQUESTS", 70)
    exec(engine.FIRST_USE, {})
    engine.passes()
    assert capsys.readouterr().out.count("M passes/s") == len(engine.RUNS)


def test_the_benchmark_of_the_executor_runs(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    executor = bench("executor")
    monkeypatch.delenv("PLANNER_DATA", raising=False)  # the loop with caches takes long to compile
    exec(executor.FIRST_USE, {})
    executor.plain(50)
    executor.with_caches(50)
    assert "reference case, 50 requests" in capsys.readouterr().out


def test_the_benchmark_of_the_optimizer_runs(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    optimizer = bench("optimize")
    monkeypatch.setattr(optimizer, "N_RANDOM", 1)
    optimizer.phases()
    optimizer.against_enumeration()
    assert "programs solved" in capsys.readouterr().out


def test_the_benchmark_of_predictions_runs(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    predictions = bench("predict")
    predictions.in_process()
    assert "roofline_survey" in capsys.readouterr().out


def test_the_benchmark_of_queues_runs(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    queues, every = bench("queueing"), read_simulated()
    for is_poisson, kind in ((True, "Poisson"), (False, "Gamma")):
        queues.summary(kind, [row for row in every if (row[0].arrival_scv == 1.0) == is_poisson][:3])
    assert "configurations" in capsys.readouterr().out


def test_the_benchmark_of_networks_runs(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    network = bench("network")
    monkeypatch.setattr(sys, "argv", ["bench_network.py", "--seeds", "1", "--hours", "1", "--limit", "1"])
    network.main()


def test_the_benchmark_of_start_up_asks_for_commands_that_there_are(bench: Any) -> None:
    startup = bench("startup")
    assert startup.least_cpu_s(startup.BASE) > 0
    assert set(startup.GOALS) <= set(startup.COMMANDS)
    for command in startup.COMMANDS.values():
        if command[:3] == startup.PLANNER:
            subprocess.run([*command, "--help"], check=True, capture_output=True)
