"""`planner validate`: promises beside their run, exit 6 where one is broken, and what counts as broken."""

import json
from functools import cache
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from planner.cli import app
from planner.errors import CheckFailedError
from planner.report import PRINT_WIDTH
from planner.results import Interval
from planner.studies.validation import check
from tests.json_forms import Only, faults

FORM = {
    "schema": Only("planner.validation/1"),
    "scenario": str,
    "holds": bool,
    "checks": [
        {
            "metric": str,
            **dict.fromkeys(("predicted", "executed", "ci_low", "ci_high", "relative_error", "tolerance"), float),
            "holds": bool,
        }
    ],
}


@cache
def called(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["validate", *arguments])


@cache
def answer(*arguments: str) -> Any:
    return json.loads(called(*arguments, "--format", "json").stdout)


def test_the_reference_plan_keeps_its_promises() -> None:
    found = answer("--requests", "100000")
    assert not faults(found, FORM)
    assert found["holds"]
    assert found["load"] == 0.8
    metrics = {c["metric"]: c for c in found["checks"]}
    assert {"ttft_mean_s", "ttft_p90_s", "max_throughput_req_per_s", "links.wan.mean_gbps"} <= set(metrics)
    assert all(c["holds"] == (abs(c["relative_error"]) <= c["tolerance"]) for c in found["checks"])
    assert called("--requests", "100000", "--format", "json").exit_code == 0


def test_the_papers_rule_promises_more_than_a_running_system_keeps() -> None:
    found = {c["metric"]: c for c in answer("--requests", "100000", "--set", "capacity_rule=mean-length")["checks"]}
    rate = found["max_throughput_req_per_s"]
    assert rate["predicted"] > rate["ci_high"]
    assert rate["relative_error"] > 0.005


def test_a_promise_that_a_crash_breaks_is_named_and_ends_with_a_failed_check() -> None:
    crashes = 'execution.faults=[{kind = "crash", pool = "prfaas", at_s = 0.0}]'
    ended = called("--requests", "20000", "--set", crashes)
    assert isinstance(ended.exception, CheckFailedError)
    assert "ttft_mean_s" in str(ended.exception)
    assert max(map(len, ended.stdout.splitlines())) <= PRINT_WIDTH
    assert "fails" in ended.stdout


def test_a_discipline_without_a_model_is_run_and_said_to_be_unpredicted() -> None:
    found = answer("--requests", "20000", "--load", "0.6", "--set", "prefill_batching=chunked")
    assert {"ttft_mean_s", "ttft_p90_s"} <= set(found["unpredicted"])
    assert "ttft_mean_s" not in {c["metric"] for c in found["checks"]}


@pytest.mark.parametrize(
    ("predicted", "executed", "interval", "holds"),
    [
        (1.0, 1.04, None, True),
        (1.0, 1.06, None, False),
        (1.0, 1.06, Interval(low=1.03, high=1.09), True),  # not refuted
        (1.0, 1.2, Interval(low=1.1, high=1.3), False),
        (1.0, 0.9, Interval(low=0.8, high=0.97), True),
        (0.0, 0.0, None, True),
        (0.5, 0.0, None, False),
    ],
)
def test_a_promise_is_broken_where_the_whole_interval_is_beyond_the_tolerance(
    predicted: float, executed: float, interval: Interval | None, holds: bool
) -> None:
    assert check("ttft_mean_s", predicted, executed, interval).holds is holds


@pytest.mark.parametrize(
    "arguments",
    [
        ("mooncake-conversation", "--requests", "48000"),
        ("not-worth-it", "--requests", "40000"),
    ],
)
@pytest.mark.slow
def test_bundled_scenarios_can_be_validated(arguments: tuple[str, ...]) -> None:
    found = answer(*arguments)
    assert not faults(found, FORM)
