"""What scheduling is worth: the same requests in every row, every pattern tried, and what cannot be tried said."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.comparison import optimize
from planner.errors import InputError
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.report.terminal import PRINT_WIDTH
from planner.results.plan import Plan
from planner.results.scheduling import ScheduledSeries, SchedulerComparison
from planner.scenario import Scenario, read_scenario
from planner.studies.scheduling import compare_schedulers, patterns_of
from tests.cpu_cost import cached
from tests.json_forms import Only, faults

COMPARED = {
    "schema": Only("planner.schedulers/1"),
    "scenario": str,
    "seed": int,
    "load": float,
    "n_requests": int,
    "n_replications": int,
    "patterns": [{"name": str, "text": str}],
    "notes": [str],
}
QUESTION = RunQuestion(6000, seed=3, load=0.8, n_replications=1)


@cached
def planned() -> tuple[Scenario, Plan]:
    scenario = read_scenario("prfaas-paper")
    return scenario, optimize(scenario)


@cached
def compared() -> tuple[SchedulerComparison, tuple[ScheduledSeries, ...]]:
    return compare_schedulers(*planned(), QUESTION)


def test_every_pattern_is_run_with_every_kind_of_scheduling() -> None:
    found, series = compared()
    assert [pattern.name for pattern in found.patterns] == ["steady", "bursts", "diurnal", "brownout"]
    assert len(found.runs) == len(series) == 16
    assert {run.scheduler for run in found.runs} == {"static", "short-term", "long-term", "both"}
    assert not found.notes


def test_static_rows_are_the_run_without_a_scheduler() -> None:
    scenario, plan = planned()
    run, _ = simulate(scenario, plan, QUESTION)
    static = compared()[0].run("steady", "static")
    assert static.ttft_p90_s == run.ttft_p90_s
    assert static.throughput_req_per_s == run.throughput_req_per_s
    assert static.threshold_low_tokens == static.threshold_high_tokens == plan.threshold_tokens
    assert static.mean_instances == {pool.name: float(pool.n_instances) for pool in plan.pools}


def test_the_short_term_moves_the_threshold_within_its_bounds_and_the_long_term_keeps_all_instances() -> None:
    found, _ = compared()
    planned_tokens = planned()[1].threshold_tokens
    assert planned_tokens is not None
    for run in found.runs:
        low, high = run.threshold_low_tokens, run.threshold_high_tokens
        assert low is not None
        assert high is not None
        assert low <= planned_tokens <= high
        if run.scheduler == "short-term":
            assert planned_tokens / 4.0001 <= low < high <= 4.0001 * planned_tokens
            assert run.n_conversions == 0
        total = run.mean_instances["pd-p"] + run.mean_instances["pd-d"]
        assert total <= 8 + 1e-9
        if run.n_conversions == 0:
            assert total == pytest.approx(8)


def test_in_a_brownout_both_together_have_the_shortest_waits() -> None:
    found, _ = compare_schedulers(*planned(), RunQuestion(40_000, seed=1, load=0.8, n_replications=1))
    p99 = {name: found.run("brownout", name).ttft_p99_s for name in ("static", "short-term", "both")}
    assert p99["both"] < 0.5 * p99["short-term"] < 0.5 * p99["static"]


def test_what_the_scenario_states_is_a_pattern_and_its_scheduler_the_one_that_is_tried() -> None:
    scenario, plan = planned()
    varied = scenario.varied(
        {
            "execution.arrivals": {"kind": "gamma", "squared_cv": 4.0},
            "execution.scheduler.short_term.range_factor": 1.01,
        }
    )
    assert [p.name for p in patterns_of(varied, plan, QUESTION)][:2] == ["as stated", "steady"]
    found, _ = compare_schedulers(varied, plan, RunQuestion(2000, load=0.8, n_replications=1))
    for pattern in found.patterns:
        run = found.run(pattern.name, "short-term")
        assert run.threshold_high_tokens == pytest.approx(run.threshold_low_tokens, rel=0.021)
    assert found.run("as stated", "static").ttft_p90_s > found.run("steady", "static").ttft_p90_s


def test_a_plan_without_roles_to_change_is_compared_without_the_long_term() -> None:
    scenario, plan = planned()
    naive = next(b for b in plan.baselines if b.name == "naive-heterogeneous-pd")
    found, _ = compare_schedulers(scenario, naive, RunQuestion(1000, load=0.7, n_replications=1))
    assert {run.scheduler for run in found.runs} == {"static", "short-term"}
    assert found.notes[0].startswith("no long term: the plan has nothing to convert")
    assert found.runs[0].threshold_low_tokens is None


def test_turns_of_sessions_are_compared_without_bursts_and_days() -> None:
    scenario, plan = planned()
    turns = {"mean_turns": 4.0, "new_tokens": {"kind": "constant", "tokens": 800}, "mean_gap_s": 60.0}
    varied = scenario.varied({"execution.sessions": turns, "execution.cache": {}})
    found, _ = compare_schedulers(varied, plan, RunQuestion(1000, load=0.5, n_replications=1))
    assert [pattern.name for pattern in found.patterns] == ["steady", "brownout"]


def called(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["schedulers", *arguments])


@pytest.fixture
def plan_file(tmp_path: Path) -> str:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(planned()[1].answer()), encoding="utf-8")
    return str(path)


def test_the_command_prints_tables_and_one_object_and_draws(plan_file: str, tmp_path: Path) -> None:
    short = ("--plan", plan_file, "--requests", "4000", "--replications", "2", "--load", "0.8")
    found = called(*short, "--format", "json", "--figure", str(tmp_path / "control.svg"))
    assert found.exit_code == 0, found.output
    assert not faults(json.loads(found.stdout), COMPARED)
    assert called(*short, "--format", "json").stdout == found.stdout
    assert (tmp_path / "control.svg").read_text(encoding="utf-8").count("<svg") == 1
    table = called(*short)
    assert max(map(len, table.stdout.splitlines())) <= PRINT_WIDTH
    assert "brownout" in table.stdout


def test_a_run_says_what_its_scheduler_did(plan_file: str) -> None:
    short = ("--plan", plan_file, "--requests", "4000", "--replications", "2")
    on = ("--set", "execution.scheduler={short_term = {}, long_term = {}}")
    found = CliRunner().invoke(app, ["simulate", *short, *on, "--format", "json"])
    seen = json.loads(found.stdout)["scheduler"]
    assert seen["factor_low"] <= 1 <= seen["factor_high"]
    assert set(seen["mean_instances"]) == {"prfaas", "pd-p", "pd-d"}
    assert "times the planned" in CliRunner().invoke(app, ["simulate", *short, *on]).stdout
    off = CliRunner().invoke(app, ["simulate", *short, "--format", "json"])
    assert "scheduler" not in json.loads(off.stdout)


def test_a_part_of_a_day_is_said_to_be_one(plan_file: str) -> None:
    day = ("--set", 'execution.arrivals={kind = "diurnal", swing_fraction = 0.3}')
    found = CliRunner().invoke(
        app, ["simulate", "--plan", plan_file, "--requests", "4000", *day, "--format", "json", "--load", "0.7"]
    )
    assert any("of a day" in note for note in json.loads(found.stdout)["notes"])


def test_a_figure_that_cannot_be_written_is_said_before_any_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    found = called("--figure", str(tmp_path / "file" / "figure.svg"))
    assert isinstance(found.exception, InputError)
