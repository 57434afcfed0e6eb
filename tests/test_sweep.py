"""`planner sweep`: a plan per point, the same for any number of workers; points without a plan say why."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from planner.cli import app
from planner.errors import InputError, UsageError
from planner.report import PRINT_WIDTH
from tests.builders import SMALL


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
    assert answer["points"][3]["plan"] == json.loads(one.stdout)


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


@pytest.mark.slow
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
