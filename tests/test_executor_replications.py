"""Replications of a trace: each sees other requests, or it is said that they cannot differ."""

import json
from pathlib import Path
from typing import Any

import pytest

from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.results.run import Run
from tests.executor_cases import fleet, scenario

WARM = {"execution.warm_up_fraction": 0.0, "execution.cool_down_fraction": 0.0}


def trace(path: Path, lengths: list[int]) -> dict[str, Any]:
    """Requests far apart, at their recorded times: nothing is left to chance but where a replication begins."""
    rows = [{"timestamp": 20_000 * i + 7, "input_length": n, "output_length": 20} for i, n in enumerate(lengths)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    recorded = {"execution.arrivals": {"kind": "recorded", "at_own_rate": True}}
    return {"workload": {"trace": {"path": str(path)}}, **recorded, **WARM}


def run(changes: dict[str, Any], n_requests: int, seed: int = 0) -> Run:
    question = RunQuestion(n_requests, seed, 1.0, 4)
    return simulate(scenario(changes), fleet(threshold_tokens=4000.0), question)[0]


@pytest.mark.parametrize("n_requests", [100, 320, 1000])
def test_replications_of_recorded_requests_differ_and_their_intervals_say_by_how_much(
    n_requests: int, tmp_path: Path
) -> None:
    """Shorter than the trace, each as long as it, and longer."""
    changes = trace(tmp_path / "t.jsonl", [500 + 90 * i for i in range(80)])
    found = run(changes, n_requests)
    assert {"ttft_mean_s", "ttft_p90_s"} <= set(found.intervals)
    assert all(one.high > one.low for name, one in found.intervals.items() if name in ("ttft_mean_s", "mean_inside"))
    assert not any("replications-alike" in note for note in found.notes)
    assert run(changes, n_requests) == found
    assert run(changes, n_requests, seed=1).ttft_mean_s != found.ttft_mean_s


@pytest.mark.parametrize("lengths", [[700], [700] * 30])
def test_where_replications_cannot_differ_that_is_said_and_no_interval_given(
    lengths: list[int], tmp_path: Path
) -> None:
    found = run(trace(tmp_path / "t.jsonl", lengths), 120)
    assert found.intervals == {}
    assert all(one.intervals == {} for one in found.classes)
    assert any("all 4 replications ran the same" in note for note in found.notes)
