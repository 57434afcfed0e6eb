"""`planner sweep`: a plan per point, the same for any number of workers; points without a plan say why."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from planner.cli import app
from planner.errors import (
    InfeasibleError,
    InputError,
    InputProblem,
    LostClusterError,
    PlannerError,
    UndecidedError,
    UsageError,
)
from planner.report.terminal import PRINT_WIDTH
from planner.results.plan import Plan
from planner.results.plan_sweep import SweepPoint
from planner.scenario import Scenario
from tests.builders import FAST, SMALL
from tests.sweep_cases import real_plan

CLASSES = "".join(
    f"""
[classes.{name}]
share = {share}
sites = {{ local = 1.0 }}
slo = {{ ttft_s = {ttft_s} }}
workload.lengths = {{ kind = "constant", tokens = {tokens} }}
workload.output_lengths = {{ kind = "constant", tokens = 100 }}
"""
    for name, share, ttft_s, tokens in (("chat", 0.75, 5, 2000), ("code", 0.25, 30, 30000))
)


@pytest.fixture
def small_file(tmp_path: Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return str(path)


def called(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["sweep", *arguments])


def test_every_point_of_the_grid_has_the_plan_of_its_scenario(small_file: str) -> None:
    arguments = (small_file, "--over", "links.wan.capacity_gbps=5,50", "--over", "pools.fast.n_instances=1,3")
    answer = json.loads(called(*arguments, "--format", "json").stdout)
    assert answer["schema"] == "planner.sweep/1"
    points = [tuple(point["set"].values()) for point in answer["points"]]
    assert points == [("5", "1"), ("5", "3"), ("50", "1"), ("50", "3")]
    changes = ("--set", "links.wan.capacity_gbps=50", "--set", "pools.fast.n_instances=3")
    one = CliRunner().invoke(app, ["optimize", small_file, *changes, "--format", "json"])
    alone = json.loads(one.stdout)
    assert answer["points"][3]["plan"] == {key: value for key, value in alone.items() if key != "inputs"}


def test_tables_fit_their_width(small_file: str) -> None:
    found = called(small_file, "--over", "links.wan.capacity_gbps=5", "--over", "pools.fast.n_instances=1")
    assert found.exit_code == 0, found.output
    assert max(map(len, found.stdout.splitlines())) <= PRINT_WIDTH


def test_more_bandwidth_and_instances_never_serve_less(small_file: str) -> None:
    arguments = ("--over", "links.wan.capacity_gbps=1,50", "--over", "pools.fast.n_instances=0,2")
    points = json.loads(called(small_file, *arguments, "--format", "json").stdout)["points"]
    rate = {tuple(p["set"].values()): p["plan"]["max_throughput_req_per_s"] for p in points}
    for (gbps, n), value in rate.items():
        for (more_gbps, more_n), more in rate.items():
            if float(more_gbps) >= float(gbps) and int(more_n) >= int(n):
                assert more >= value * (1 - 1e-6)


def test_workers_do_not_change_the_answer(small_file: str) -> None:
    arguments = (small_file, "--over", "links.wan.capacity_gbps=1,10,100", "--format", "json")
    assert called(*arguments, "--workers", "2").stdout == called(*arguments).stdout


def test_a_point_without_a_plan_says_why(small_file: str, tmp_path: Path) -> None:
    table = tmp_path / "sweep.csv"
    found = called(
        small_file,
        "--set",
        "objective=min-cost",
        "--over",
        "demand_req_per_s=1,10000",
        "--csv",
        str(table),
        "--figure",
        str(tmp_path / "sweep.svg"),
    )
    assert found.exit_code == 0, found.output
    assert "no plan" in found.stdout
    with table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [bool(row["failure"]) for row in rows] == [False, True]
    assert float(rows[0]["throughput_req_per_s"]) == pytest.approx(1.0)
    assert (tmp_path / "sweep.svg").read_text(encoding="utf-8").startswith("<?xml")


def failing(at: dict[float, BaseException]) -> Any:
    """A planner that fails as stated where the demand is such, and plans else."""

    def plan(scenario: Scenario, *_: Any) -> Plan:
        if (error := at.get(scenario.demand_req_per_s or 0.0)) is not None:
            raise error
        return real_plan()

    return plan


FAILING = {
    "infeasible": (InfeasibleError("small: infeasible: no fleet"), 4, 0),
    "undecided": (UndecidedError("small: undecided"), 5, 5),
    "bad input": (InputError(InputProblem("small.toml", "pools.fast", "cannot be")), 3, 3),
    "a bug": (KeyError("p"), 1, 1),
}


@pytest.mark.parametrize("kind", FAILING)
def test_a_point_that_fails_leaves_the_others_as_they_are_and_decides_about_the_exit_code(
    kind: str, small_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, code, whole = FAILING[kind]
    monkeypatch.setattr("planner.studies.plan_sweep.optimize", failing({2.0: error}))
    arguments = (small_file, "--over", "demand_req_per_s=1,2,3", "--csv", str(tmp_path / "a.csv"), "--format", "json")
    found = called(*arguments)
    answer = json.loads(found.stdout)
    assert [point["exit_code"] for point in answer["points"]] == [0, code, 0]
    assert [point["plan"] is None for point in answer["points"]] == [False, True, False]
    assert (answer["complete"], answer["best"]) == (True, 0)
    assert len((tmp_path / "a.csv").read_text(encoding="utf-8").split("\n1,")) == 2
    if whole == 1:
        assert isinstance(found.exception, PlannerError)
        assert "KeyError: 'p'" in str(found.exception)
        assert "Traceback" in str(found.exception)
    else:
        assert found.exit_code == whole


def test_a_sweep_without_any_plan_is_infeasible_as_a_whole(small_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "planner.studies.plan_sweep.optimize", failing(dict.fromkeys((1.0, 2.0), FAILING["infeasible"][0]))
    )
    found = called(small_file, "--over", "demand_req_per_s=1,2")
    assert found.exit_code == 4
    assert "#1 to 2: small: infeasible: no fleet" in found.stdout


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), LostClusterError("--dask a: the scheduler is gone")])
def test_what_was_finished_before_a_sweep_stopped_is_printed_and_written(
    stop: BaseException, small_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any) -> Iterator[tuple[int, SweepPoint]]:
        for place in (2, 0):
            yield place, SweepPoint(set={"demand_req_per_s": str(place + 1)}, plan=real_plan(), failure=None)
        raise stop

    monkeypatch.setattr("planner.studies.plan_sweep.finished", stopped)
    table = tmp_path / "a.csv"
    found = called(small_file, "--over", "demand_req_per_s=1,2,3", "--csv", str(table), "--format", "json")
    answer = json.loads(found.stdout)
    assert (answer["complete"], answer["n_points"]) == (False, 3)
    assert [point["set"]["demand_req_per_s"] for point in answer["points"]] == ["1", "3"]
    assert table.read_text(encoding="utf-8").count("\n") == 3
    assert found.exit_code == (130 if isinstance(stop, KeyboardInterrupt) else 3)
    assert "stopped after 2 of 3 points" in found.stderr


def test_a_pool_that_is_only_in_some_plans_is_a_column_of_all(tmp_path: Path) -> None:
    """Dear accelerators elsewhere are not used: their pool is in the plan without instances."""
    text = SMALL[: SMALL.index("[workload]")] + CLASSES + SMALL[SMALL.index("[sites.remote]") :]
    (tmp_path / "two.toml").write_text(text, encoding="utf-8")
    demand = ("--set", "objective=min-cost", "--set", "demand_req_per_s=0.5")
    prices = ("--over", f"prices.{FAST}.usd_per_accelerator_hour=0.1,90")
    figure = ("--figure", str(tmp_path / "a.png"), "--csv", str(tmp_path / "a.csv"))
    found = called(str(tmp_path / "two.toml"), *demand, *prices, *figure)
    assert found.exit_code == 0, (found.output, found.exception)
    with (tmp_path / "a.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["n_fast"]) > 0 for row in rows] == [True, False]
    assert [int(row["n_near"]) > 0 for row in rows] == [False, True]
    assert all(row["n_decode"] for row in rows)
    assert all(row["chat_threshold_tokens"] and row["code_threshold_tokens"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (("--over", "links.wan.capacity_gbps"), UsageError, "is not KEY=A,B,..."),
        (("--over", "links.wan.capacity_gbps=1,,2"), UsageError, "is not KEY=A,B,..."),
        (("--over", "demand_req_per_s=1", "--over", "demand_req_per_s=2"), UsageError, "names demand_req_per_s again"),
        (("--over", "links.wan.capacity_gbs=1,2"), InputError, "did you mean 'capacity_gbps'?"),
        (("--over", "demand_req_per_s=1", "--figure", "a.pdf"), UsageError, "neither .png nor .svg"),
    ],
)
def test_a_grid_that_cannot_be_planned_is_said_in_one_message(
    arguments: tuple[str, ...], error: Any, said: str, small_file: str
) -> None:
    found = called(small_file, *arguments)
    assert isinstance(found.exception, error), (found.output, found.exception)
    assert said in str(found.exception)
    assert found.stdout == ""
