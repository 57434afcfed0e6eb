"""`planner simulate`: the contract's fields, the same bytes for a seed, files, and messages for what cannot be run."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from planner.cli import app
from planner.errors import InputError, UsageError
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.report import canvas
from planner.report.chart_run import RunChart, run_chart
from planner.report.terminal import PRINT_WIDTH
from planner.results.plan_file import plan_from
from planner.scenario import read_scenario
from planner.studies.predicted_ttft import predicted_ttft
from tests.cpu_cost import cached
from tests.json_forms import MAYBE, Only, faults

RUN = {
    "schema": Only("planner.run/1"),
    "scenario": str,
    "prefix_hit_fraction": MAYBE,
    "utilization": {"prfaas": float, "pd-p": float, "pd-d": float},
    "links": {"wan": {"mean_gbps": float, "peak_gbps": float}},
    **dict.fromkeys(("seed", "n_requests", "n_completed", "n_dropped"), int),
    **dict.fromkeys(("simulated_s", "throughput_req_per_s", "offload_fraction", "cross_site_bytes"), float),
    **dict.fromkeys(("ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "tpot_mean_s", "tpot_p90_s"), float),
}
SHORT = ("--requests", "4000", "--replications", "2")


def called(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *arguments])


@cached
def plan_text() -> str:
    found = CliRunner().invoke(app, ["optimize", "--format", "json"])
    assert found.exit_code == 0
    return found.stdout


@pytest.fixture
def plan_file(tmp_path: Path) -> str:
    path = tmp_path / "plan.json"
    path.write_text(plan_text(), encoding="utf-8")
    return str(path)


def test_the_answer_has_the_fields_of_the_contract(plan_file: str) -> None:
    found = called("--plan", plan_file, *SHORT, "--format", "json")
    assert found.exit_code == 0, found.output
    answer = json.loads(found.stdout)
    assert not faults(answer, RUN)
    assert next(iter(answer)) == "schema"
    assert (answer["n_requests"], answer["n_completed"], answer["n_dropped"]) == (4000, 4000, 0)
    assert answer["load"] == 0.8
    assert answer["prefix_hit_fraction"] is None


def test_the_same_seed_prints_the_same_bytes_and_another_does_not(plan_file: str) -> None:
    texts = [called("--plan", plan_file, *SHORT, "--seed", s, "--format", "json").stdout for s in ("5", "5", "6")]
    assert texts[0] == texts[1] != texts[2]


def test_tables_fit_their_width(plan_file: str) -> None:
    found = called("--plan", plan_file, *SHORT)
    assert found.exit_code == 0
    assert max(map(len, found.stdout.splitlines())) <= PRINT_WIDTH
    assert re.search(r"waits for prefill .*%", found.stdout)


def test_promises_stand_beside_the_run_with_what_came_of_each() -> None:
    found = called("--set", "slo.ttft_s=60", "--load", "0.5", *SHORT)
    assert found.exit_code == 0, found.output
    assert re.search(r"ttft_p90_s +60 .* kept", found.stdout)


def test_a_plan_is_read_back_as_it_was_written() -> None:
    plan = plan_from(plan_text(), "plan.json")
    assert json.loads(plan_text()) == plan.answer()


def test_records_and_timeline_hold_what_happened(plan_file: str, tmp_path: Path) -> None:
    records, trace = tmp_path / "requests.csv", tmp_path / "timeline.json"
    found = called("--plan", plan_file, *SHORT, "--records", str(records), "--trace", str(trace))
    assert found.exit_code == 0, found.output
    with records.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2000
    assert {row["state"] for row in rows} == {"finished"}
    assert {row["prefill_pool"] for row in rows} == {"prfaas", "pd-p"}
    assert all(float(row["first_token_s"]) >= float(row["kv_end_s"]) for row in rows)
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "b", "e", "C"}
    prefills = [event for event in events if event["ph"] == "X"]
    assert len(prefills) == 2000
    for begin, end in (("b", "e"),):
        assert sum(e["ph"] == begin for e in events) == sum(e["ph"] == end for e in events)


def test_a_figure_shows_queues_links_and_ttft_beside_the_predicted_one(plan_file: str, tmp_path: Path) -> None:
    path = tmp_path / "run.svg"
    found = called("--plan", plan_file, *SHORT, "--figure", str(path))
    assert found.exit_code == 0, found.output
    assert path.read_text(encoding="utf-8").startswith("<?xml")


@cached
def drawn(load: float | None) -> RunChart:
    scenario, plan = read_scenario("prfaas-paper"), plan_from(plan_text(), "plan.json")
    question = RunQuestion(40_000, 2, load, 2, is_full=load is None)
    run, kept = simulate(scenario, plan, question, keep=True)
    assert kept is not None
    rate = run.offered_req_per_s
    curve = None if rate is None else predicted_ttft(scenario, plan, rate)
    return run_chart(run, kept, {"wan": plan.links[0].capacity_gbps}, curve)


def test_the_figure_holds_the_run_and_what_queueing_predicts() -> None:
    chart = drawn(0.8)
    assert chart.predicted is not None
    assert chart.predicted.seconds == tuple(sorted(chart.predicted.seconds))
    assert chart.predicted.fractions == tuple(sorted(chart.predicted.fractions))
    for share in (0.5, 0.9):
        executed = np.interp(share, chart.ttft[1], chart.ttft[0])
        predicted = np.interp(share, chart.predicted.fractions, chart.predicted.seconds)
        assert executed == pytest.approx(predicted, rel=0.1)
    assert set(chart.queues) == {"prfaas", "pd-p", "pd-d"}
    assert np.mean(chart.links["wan"][1]) == pytest.approx(9.7, rel=0.05)
    assert 0 < chart.counted_s[0] < chart.counted_s[1] < chart.queues["prfaas"][0][-1]


def test_a_full_system_is_drawn_without_a_prediction() -> None:
    chart = drawn(None)
    assert chart.predicted is None
    assert min(chart.queues["prfaas"][1][len(chart.queues["prfaas"][1]) // 4 : -60]) > 0
    with canvas.style():
        chart.draw()


def test_parquet_holds_the_same_records(plan_file: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "requests.parquet"
    assert called("--plan", plan_file, *SHORT, "--records", str(path)).exit_code == 0
    table = parquet.read_table(path)
    assert table.num_rows == 2000
    assert set(table.column("prefill_pool").to_pylist()) == {"prfaas", "pd-p"}


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (("--load", "0"), UsageError, "--load 0.0: is no load"),
        (("--load", "nan"), UsageError, "is no load"),
        (("--requests", "3", "--replications", "4"), UsageError, "does not share out --requests 3"),
        (("--records", "requests.xlsx"), UsageError, "neither .parquet nor .csv"),
        (("--trace", "timeline.txt"), UsageError, "is not .json"),
        (("--figure", "run.pdf"), UsageError, "neither .png nor .svg"),
        (("--records", "no/such/folder.csv"), InputError, "cannot be written"),
        (("--plan", "missing.json"), InputError, "cannot be read"),
        (
            ("--set", "execution.links.wan2.connections=4"),
            InputError,
            "is no link of the scenario (did you mean 'wan'?)",
        ),
        (("--set", "execution.links.wan.conections=4"), InputError, "did you mean 'connections'?"),
        (("--set", "execution.warm_up_fraction=2"), InputError, "execution.warm_up_fraction"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_message(arguments: tuple[str, ...], error: Any, said: str) -> None:
    found = called("prfaas-paper", *arguments)
    assert isinstance(found.exception, error), (found.output, found.exception)
    assert said in str(found.exception)
    assert found.stdout == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[1]", "is not planner.plan/1"),
        ('{"schema": "planner.run/1"}', "is not planner.plan/1"),
        ('{"schema": "planner.plan/1", "scenario": 3}', "scenario: "),
    ],
)
def test_a_file_that_is_no_plan_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text, encoding="utf-8")
    found = called("--plan", str(path))
    assert isinstance(found.exception, InputError)
    assert said in str(found.exception)


def test_a_plan_of_another_scenario_is_refused(plan_file: str) -> None:
    found = called("prfaas-roofline", "--plan", plan_file)
    assert isinstance(found.exception, InputError)
    assert "is 'prfaas-paper', and the scenario is 'prfaas-roofline'" in str(found.exception)


def test_a_full_system_is_said_to_be_so(plan_file: str) -> None:
    found = called("--plan", plan_file, "--requests", "6000", "--replications", "2", "--full", "--format", "json")
    answer = json.loads(found.stdout)
    assert answer["load"] is None
    assert answer["notes"]


def test_workers_do_not_change_the_answer(plan_file: str) -> None:
    arguments = ("--plan", plan_file, "--requests", "8000", "--replications", "3", "--format", "json")
    assert called(*arguments, "--workers", "2").stdout == called(*arguments).stdout
