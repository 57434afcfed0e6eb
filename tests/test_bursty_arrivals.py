"""Bursts of a trace are run where fleets are run, and nothing is decided by fleets that were planned without them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.executor.run_question import RunQuestion
from planner.notes import code_of
from planner.results.size import Size
from planner.scenario import Price, load_scenario
from planner.studies.size import SizeQuestion, sized
from planner.workload.spec import Workload

CHIP, RATE = "h100-sxm", 40.0
N_ROWS, IN_A_BURST, GAP_MS = 4000, 400, 20


def trace(folder: Path, name: str, times_ms: np.ndarray) -> str:
    rows = [{"timestamp": int(t), "input_length": 1500, "output_length": 100} for t in times_ms]
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return name


def even(folder: Path) -> str:
    return trace(folder, "even.jsonl", np.arange(N_ROWS) * 10 * GAP_MS)


def bursty(folder: Path) -> str:
    """As many requests in as long, ten times as dense for a tenth of the time."""
    row = np.arange(N_ROWS)
    return trace(folder, "bursty.jsonl", row // IN_A_BURST * IN_A_BURST * 10 * GAP_MS + row % IN_A_BURST * GAP_MS)


def question(folder: Path, name: str) -> SizeQuestion:
    workload = Workload.model_validate({"trace": {"path": name}})
    prices = {CHIP: Price(usd_per_accelerator_hour=2.0)}
    promises: dict[str, Any] = {"ttft_s": 0.5, "stack": "vllm"}
    return SizeQuestion("llama-3.1-8b", (CHIP,), RATE, workload, prices, directory=folder, **promises)


def codes(size: Size) -> set[str | None]:
    return set(map(code_of, size.notes))


def test_a_bursty_trace_takes_more_than_one_with_the_same_requests_at_even_times(tmp_path: Path) -> None:
    found = [sized(question(tmp_path, made(tmp_path)), RunQuestion(8000, 0, None, 4)).size for made in (even, bursty)]
    for kind in ("colocated", "disaggregated"):
        few, many = (getattr(size, kind) for size in found)
        assert many.n_accelerators > few.n_accelerators, kind
        assert few.slo_run.holds
        assert many.slo_run.basis == "executed"
        if many.slo_run.holds:
            assert many.slo_run.ci_high_s <= 0.5
        else:
            assert not found[1].disaggregation.decided


def test_what_is_predicted_of_a_trace_is_said_to_leave_its_bursts_out_and_decides_nothing(tmp_path: Path) -> None:
    size = sized(question(tmp_path, bursty(tmp_path)), None).size
    assert "bursts-in-runs-alone" in codes(size)
    assert not size.disaggregation.decided
    for fleet in (size.colocated, size.disaggregated):
        assert fleet is not None
        assert fleet.slo_run is not None
        assert (fleet.slo_run.basis, fleet.slo_run.holds) == ("predicted", None)


def test_the_scenario_of_a_size_keeps_the_arrivals_of_its_trace(tmp_path: Path) -> None:
    text = sized(question(tmp_path, bursty(tmp_path)), None).scenario_text
    assert text is not None
    scenario = load_scenario(text, "asked.toml", tmp_path)
    assert scenario.execution.arrivals is not None
    assert scenario.execution.arrivals.kind == "recorded"
    assert scenario.workload is not None
    assert scenario.workload.arrivals.squared_cv == 16  # the most that gaps state


SCENARIO = """
schema = "planner.scenario/1"
name = "one-site"
objective = "min-cost"
demand_req_per_s = 20.0
[model]
profile = "llama-3.1-8b"
stack = "vllm"
[slo]
ttft_s = 1.0
[workload]
lengths = { kind = "constant", tokens = 1500.0 }
output_lengths = { kind = "constant", tokens = 200.0 }
[sites.here]
[pools.prefill]
site = "here"
hardware = "h100-sxm"
role = "prefill"
accelerators_per_instance = 1
[pools.decode]
site = "here"
hardware = "h100-sxm"
role = "decode"
accelerators_per_instance = 1
[prices.h100-sxm]
usd_per_accelerator_hour = 2.0
"""
BURSTS = {
    "of the workload": 'workload.arrivals={kind="gamma",squared_cv=4.0}',
    "of the run": 'execution.arrivals={kind="bursts",rate_factor=6.0,mean_calm_s=40.0,mean_burst_s=8.0}',
}


def verdict(folder: Path, *overrides: str, text: str = SCENARIO) -> dict[str, Any]:
    path = folder / "asked.toml"
    path.write_text(text, encoding="utf-8")
    options = [part for override in overrides for part in ("--set", override)]
    found = CliRunner().invoke(app, ["optimize", str(path), *options, "--no-run", "--format", "json"])
    assert found.exit_code == 0, found.output
    said: dict[str, Any] = json.loads(found.stdout)["verdict"]["disaggregation"]
    return said


@pytest.mark.parametrize("bursts", BURSTS)
def test_colocated_fleets_that_were_planned_without_bursts_decide_nothing(bursts: str, tmp_path: Path) -> None:
    said = verdict(tmp_path, BURSTS[bursts])
    assert (said["decided"], said["worth_it"]) == (False, False)
    assert "independent users (Poisson)" in said["because"]


def test_independent_users_are_decided_on(tmp_path: Path) -> None:
    said = verdict(tmp_path)
    assert said["decided"]
    assert "Poisson" not in said["because"]


def test_bursts_do_not_matter_where_no_time_is_promised(tmp_path: Path) -> None:
    text = SCENARIO.replace("[slo]\nttft_s = 1.0\n", "")
    said = verdict(tmp_path, BURSTS["of the workload"], text=text)
    assert said["decided"]
    assert "Poisson" not in said["because"]
