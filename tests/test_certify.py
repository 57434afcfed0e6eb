"""`planner optimize --certify`: what is promised is kept by a run, tightened where it was not, or refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from planner.cli import app
from planner.errors import CheckFailedError, InfeasibleError, InputError, UsageError
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.promises.certify import certified_plan
from planner.report.terminal import PRINT_WIDTH
from planner.results.plan import Plan
from planner.results.plan_file import plan_from
from tests.builders import SMALL, small_with
from tests.cpu_cost import cached

SIZES = {
    "pools.fast.n_instances": 2,
    "pools.near.n_instances": 2,
    "pools.decode.n_instances": 3,
    "routing.threshold_tokens": 11_000,
}
SLO = {"slo": {"ttft_s": 4.0, "ttft_percentile": 90.0}}
QUESTION = RunQuestion(40_000, 1)


@cached
def plan(**changes: Any) -> Plan:
    stated = {key.replace("__", "."): value for key, value in changes.items()}
    return certified_plan(small_with({**SIZES, **SLO, **stated}), QUESTION)


def called(tmp_path: Path, *arguments: str) -> Result:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return CliRunner().invoke(app, ["optimize", str(path), "--certify", "--requests", "8000", *arguments])


def sizes() -> list[str]:
    """The fleet as options."""
    return [part for key, n in SIZES.items() for part in ("--set", f"{key}={n}")]


@pytest.mark.parametrize("dispatch", ["shared-queue", "round-robin"])
def test_a_certified_promise_is_kept_by_an_independent_run(dispatch: str) -> None:
    found = plan(dispatch=dispatch)
    scenario = small_with({**SIZES, **SLO, "dispatch": dispatch})
    run, _ = simulate(scenario, found, RunQuestion(80_000, 77, 1.0))
    assert run.ttft_p90_s <= 4.0 * 1.02  # another seed: within its own noise
    assert found.certified is not None
    assert all(p.holds for p in found.certified.promises)
    promise = next(p for p in found.certified.promises if p.metric == "ttft_p90_s")
    assert promise.limit == 4.0
    assert promise.ci_high is not None
    assert promise.ci_high <= 4.0


def test_a_discipline_that_waits_more_is_tightened_and_not_more_than_it_needs() -> None:
    modelled, other = plan(), plan(dispatch="round-robin")
    assert modelled.certified is not None
    assert other.certified is not None
    first, *_ = other.certified.rounds
    assert first.broken == ("ttft_p90_s",)
    assert first.ttft_s == 4.0
    chosen = other.certified.rounds[other.certified.chosen]
    assert not chosen.broken
    assert chosen.ttft_s is not None
    assert chosen.ttft_s < 4.0
    assert other.throughput_req_per_s < modelled.throughput_req_per_s
    promise = next(p for p in other.certified.promises if p.metric == "ttft_p90_s")
    assert promise.executed > 0.85 * promise.limit
    assert other.classes[0].slo == {"ttft_s": 4.0, "ttft_percentile": 90.0}
    assert other.latency.ttft_mean_s is None
    assert {"ttft_mean_s", "ttft_p90_s"} <= set(other.certified.unpredicted)


def test_without_certify_a_promise_that_nothing_models_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    changes = ("--set", "slo.ttft_s=4", "--set", "dispatch=round-robin")
    found = CliRunner().invoke(app, ["optimize", str(path), *changes])
    assert isinstance(found.exception, InputError)
    assert "--certify" in str(found.exception)


def test_a_rate_that_the_run_does_not_serve_is_not_claimed() -> None:
    """Every decode instance is slower than it was measured: what is claimed falls to what the run serves."""
    faults = [{"kind": "slow", "pool": "decode", "instance": i, "at_s": 0.0, "slowdown": 2.5} for i in range(3)]
    scenario = small_with({**SIZES, "execution.faults": faults})
    found = certified_plan(scenario, QUESTION)
    assert found.certified is not None
    assert found.certified.rounds[0].broken == ("throughput_req_per_s",)
    most, _ = simulate(scenario, found, RunQuestion(40_000, 5, is_full=True))
    assert found.throughput_req_per_s == pytest.approx(most.throughput_req_per_s, rel=0.02)
    assert found.throughput_req_per_s == pytest.approx(3 * 20 / (2.5 * 0.025 * 500), rel=0.03)
    assert found.max_throughput_req_per_s > 1.2 * found.throughput_req_per_s


def test_a_cheapest_fleet_that_breaks_its_promise_gets_more_instances() -> None:
    changes = {
        "objective": "min-cost",
        "demand_req_per_s": 3.0,
        "dispatch": "round-robin",
        "slo": {"ttft_s": 3.0},
        "pools.near.n_instances": 4,
        "pools.decode.n_instances": 3,
        "pools.fast.max_instances": 6,
        "sites.remote.accelerators.h100-sxm": 48,
        "sites.local.accelerators.h200-sxm": 80,
        "routing.threshold_tokens": 9000,
    }
    found = certified_plan(small_with(changes), QUESTION)
    modelled = certified_plan(small_with({**changes, "dispatch": "shared-queue"}), QUESTION)
    assert found.certified is not None
    assert found.certified.rounds[0].broken == ("ttft_p90_s",)
    assert found.throughput_req_per_s == pytest.approx(3.0)
    assert (found.cost.usd_per_hour or 0) > (modelled.cost.usd_per_hour or 0)


def test_the_least_ttft_is_stated_as_the_run_bears_it_out() -> None:
    found = certified_plan(small_with({**SIZES, "objective": "min-ttft", "demand_req_per_s": 2.0}), QUESTION)
    assert found.certified is not None
    promise = next(p for p in found.certified.promises if p.metric == "ttft_p90_s")
    assert promise.holds
    assert promise.limit < 1.15 * promise.executed


def test_the_answer_says_what_was_certified_and_is_read_back(tmp_path: Path) -> None:
    arguments = ("--set", "slo.ttft_s=5", "--set", "demand_req_per_s=1.5", *sizes(), "--seed", "3")
    text = called(tmp_path, *arguments)
    assert max(map(len, text.stdout.splitlines())) <= PRINT_WIDTH
    assert "certified by running it" in text.stdout
    arguments = (*arguments, "--format", "json")
    found = called(tmp_path, *arguments)
    assert found.exit_code == 0, found.output
    answer = json.loads(found.stdout)
    assert answer["certified"]["n_requests"] == 8000
    assert answer["certified"]["seed"] == 3
    assert answer["certified"]["confidence"] == 0.95
    assert answer["throughput_req_per_s"] == answer["certified"]["req_per_s"] == pytest.approx(1.5)
    assert {c["metric"] for c in answer["certified"]["checks"]} >= {"ttft_mean_s", "utilization.decode"}
    assert plan_from(found.stdout, "plan.json").answer() == answer


def test_a_plan_that_was_not_certified_says_nothing_of_it(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    assert "certified" not in json.loads(CliRunner().invoke(app, ["optimize", str(path), "--format", "json"]).stdout)


def test_where_no_plan_holds_the_last_one_is_named_and_a_check_fails(tmp_path: Path) -> None:
    crash = 'execution.faults=[{kind = "crash", pool = "fast", instance = 0, at_s = 0.0}]'
    changes = ("--set", "objective=min-cost", "--set", "demand_req_per_s=2.3", "--set", crash)
    found = called(tmp_path, *changes, *sizes())
    assert isinstance(found.exception, CheckFailedError)
    assert found.exception.exit_code == 6
    assert "throughput_req_per_s" in str(found.exception)
    assert found.stdout == ""


@pytest.mark.parametrize(
    ("at_s", "said"),
    [(0.0, "not one request that counts has finished"), (3000.0, "requests were dropped, more than 10.0 %")],
)
def test_requests_that_are_dropped_are_late(at_s: float, said: str) -> None:
    """The link is lost for good: none of those prefilled elsewhere arrives, and a crash leaves their pool empty."""
    faults = [
        {"kind": "link-loss", "link": "wan", "at_s": 0.0},
        *({"kind": "crash", "pool": "near", "instance": i, "at_s": at_s} for i in range(2)),
    ]
    changes = {**SIZES, "slo": {"ttft_s": 60.0}, "demand_req_per_s": 0.5, "execution.faults": faults}
    with pytest.raises(CheckFailedError, match=said):
        certified_plan(small_with(changes), RunQuestion(8_000, 1))


def test_what_has_no_plan_at_all_is_infeasible_and_not_a_failed_check(tmp_path: Path) -> None:
    found = called(tmp_path, "--set", "objective=min-cost", "--set", "demand_req_per_s=1000")
    assert isinstance(found.exception, InfeasibleError)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (("--pareto", "throughput"), UsageError, "--certify: is about one plan"),
        (("--set", 'execution.arrivals={kind="recorded"}'), InputError, "not all requests come from one trace"),
    ],
)
def test_what_cannot_be_certified_is_said_in_one_message(
    arguments: tuple[str, ...], error: Any, said: str, tmp_path: Path
) -> None:
    found = called(tmp_path, *arguments)
    assert isinstance(found.exception, error), (found.output, found.exception)
    assert said in str(found.exception)
    assert len(str(found.exception).splitlines()) == 1
    assert found.stdout == ""


def test_runs_are_about_certify_only() -> None:
    found = CliRunner().invoke(app, ["optimize", "--requests", "100"])
    assert isinstance(found.exception, UsageError)
