"""Fronts and sensitivities as tables of a hundred columns, as figures and on the command line."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from planner.cli import app
from planner.errors import UsageError
from planner.report.chart_studies import FrontChart, front_chart, tornado_chart
from planner.report.figure_files import write_front, write_tornado
from planner.report.study_tables import front_tables, sensitivity_tables
from planner.results.studies import Front, FrontPoint, InputSensitivity, Sensitivity, Variation

SIZES = {"prfaas": 4, "pd-p": 1, "pd-d": 4}


def make_front(against: Any = "throughput") -> Front:
    points = [
        FrontPoint(
            budget_usd_per_hour=usd, usd_per_hour=usd, value=value, n_instances=SIZES, threshold_tokens=threshold
        )
        for usd, value, threshold in ((20.0, 0.25, None), (152.5, 2.69, 10944.0))
    ]
    return Front(against=against, percentile=95.0, points=tuple(points), notes=("50 USD/h: no plan",))


def make_variation(label: str, change: float | None, **fields: Any) -> Variation:
    usual: dict[str, Any] = {
        "factor": 1.1,
        "n_instances": None if change is None else SIZES,
        "objective": None if change is None else 152.5 * (1 + change),
        "changes_fleet": False,
        "kept_fraction": 1.0,
        "retuned_fraction": 1.0,
    }
    return Variation(label=label, objective_change=change, **{**usual, **fields})


def make_sensitivity() -> Sensitivity:
    demand = (make_variation("-20 %", -0.1), make_variation("+20 %", 0.13, changes_fleet=True, kept_fraction=0.897))
    lost = (make_variation("-10 %", 0.0), make_variation("+20 %", None, kept_fraction=None, retuned_fraction=None))
    return Sensitivity(
        objective="min-cost",
        unit="USD/h",
        stated=152.5,
        n_instances=SIZES,
        inputs=(
            InputSensitivity(key="links.wan.capacity_gbps", title="capacity of wan", variations=lost),
            InputSensitivity(key="demand_req_per_s", title="demand", variations=demand),
        ),
        notes=("no pool is timed by the roofline",),
    )


def printed(*parts: Any) -> str:
    console = Console(width=100, record=True, force_terminal=False, file=StringIO())
    for part in parts:
        console.print(part)
    return console.export_text()


def test_a_front_is_a_table_of_what_each_cost_buys() -> None:
    lines = printed(*front_tables(make_front())).splitlines()
    assert any(line.split() == ["152.50", "2.690", "4", "/", "1", "/", "4", "10,944"] for line in lines)
    assert any(line.split() == ["20.00", "0.2500", "4", "/", "1", "/", "4", "–"] for line in lines)
    assert any("50 USD/h: no plan." in line for line in lines)
    assert max(map(len, lines)) <= 100


def test_a_front_of_ttft_names_its_percentile() -> None:
    assert "TTFT P95 [s]" in printed(*front_tables(make_front("ttft")))


def test_a_sensitivity_says_what_changes_and_what_the_plan_still_serves() -> None:
    text = printed(*sensitivity_tables(make_sensitivity()))
    rows = [line.split() for line in text.splitlines()]
    assert ["demand", "-20", "%", "=", "137.25", "-10.0", "%", "all", "all"] in rows
    assert ["+20", "%", "4", "/", "1", "/", "4", "172.32", "+13.0", "%", "89.7", "%", "all"] in rows
    assert ["+20", "%", "–", "–", "–", "–", "–"] in rows
    assert max(map(len, text.splitlines())) <= 100


def test_a_tornado_has_a_bar_per_change_and_a_mark_where_a_plan_is_lost() -> None:
    chart = tornado_chart(make_sensitivity())
    assert chart.titles == ("capacity of wan", "demand")
    assert [bar.percent for bar in chart.bars] == [0.0, None, -10.0, 13.0]
    assert [bar.is_far for bar in chart.bars] == [True, True, True, True]
    assert [bar.changes_fleet for bar in chart.bars] == [False, False, False, True]


def test_the_front_of_a_chart_is_that_of_the_table() -> None:
    chart = front_chart(make_front())
    assert chart.points == ((20.0, 0.25, "4 / 1 / 4"), (152.5, 2.69, "4 / 1 / 4"))
    assert not chart.falls


@pytest.mark.parametrize(
    ("points", "n_labels"),
    [
        (((10.0, 1.0), (10.0, 4.0)), 2),
        (((10.0, 4.0), (10.1, 4.0), (60.0, 4.0)), 2),
        (((10.0, 4.0), (60.0, 4.01)), 2),
        (((10.0, 2.0), (10.1, 2.01), (10.2, 4.0), (60.0, 2.0)), 3),
    ],
)
def test_a_plan_of_a_front_has_a_label_but_where_another_has_one_at_its_place(
    points: tuple[tuple[float, float], ...], n_labels: int
) -> None:
    figure = FrontChart("req/s", "near / far", tuple((usd, value, "4 / 1") for usd, value in points), False).draw()
    assert sum(text.get_text() == "4 / 1" for text in figure.axes[0].texts) == n_labels


@pytest.mark.parametrize(("n", "labels"), [(20, ["x" * 20, "x" * 20]), (21, ["1", "2"])])
def test_plans_of_a_front_are_numbered_from_the_cheapest_where_their_sizes_are_long(n: int, labels: list[str]) -> None:
    (axes,) = FrontChart("req/s", "near / far", ((10.0, 1.0, "x" * n), (20.0, 4.0, "y")), True).draw().axes
    assert [text.get_text() for text in axes.texts] == [labels[0], "y" if n == 20 else labels[1]]
    assert axes.get_xlim() == pytest.approx((10 - 0.14 * 10, 20 + 0.16 * 10))
    assert axes.get_ylim() == pytest.approx((0, 1.16 * 4))
    steps = axes.lines[0]
    assert list(steps.get_xdata()) == pytest.approx([10.0, 20.0, 20.6])
    assert list(steps.get_ydata()) == [1.0, 4.0, 4.0]


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_figures_are_files_that_are_the_same_every_time(tmp_path: Path, suffix: str) -> None:
    one, other, third = (tmp_path / f"{i}.{suffix}" for i in range(3))
    write_front(make_front(), one)
    write_front(make_front(), other)
    write_tornado(make_sensitivity(), third)
    assert one.read_bytes() == other.read_bytes()
    assert third.stat().st_size > 5000


def test_an_empty_front_is_drawn_too(tmp_path: Path) -> None:
    write_front(Front(against="ttft", percentile=90.0, points=()), tmp_path / "empty.png")
    assert (tmp_path / "empty.png").is_file()


def test_studies_are_fields_of_the_same_json_object_and_a_figure_is_told_on_stderr(tmp_path: Path) -> None:
    figure = tmp_path / "front.png"
    arguments = ["optimize", "prfaas-paper", "--pareto", "throughput", "--points", "2", "--figure", str(figure)]
    found = CliRunner().invoke(app, [*arguments, "--format", "json"])
    assert found.exit_code == 0, found.output
    answer = json.loads(found.stdout)
    assert answer["schema"] == "planner.plan/1"
    assert "sensitivity" not in answer
    keys = {"usd_per_hour", "throughput_req_per_s", "n_instances", "threshold_tokens"}
    assert [set(row) for row in answer["pareto"]] == [keys, keys]
    assert answer["pareto"][-1]["throughput_req_per_s"] == pytest.approx(answer["max_throughput_req_per_s"], rel=1e-6)
    assert str(figure) in found.stderr.replace("\n", "")
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_a_sensitivity_on_the_command_line_has_a_row_for_every_input() -> None:
    found = CliRunner().invoke(app, ["optimize", "prfaas-paper", "--sensitivity", "--format", "json"])
    assert found.exit_code == 0, found.output
    answer = json.loads(found.stdout)["sensitivity"]
    keys = {item["key"] for item in answer["inputs"]}
    assert {"prices.h200-sxm", "prices.h20-141gb", "links.wan.capacity_gbps", "lengths", "output_lengths"} <= keys
    assert {f"pools.{name}.time_factor" for name in ("prfaas", "pd-p", "pd-d")} <= keys
    assert (answer["unit"], list(answer["n_instances"].values())) == ("req/s", [4, 3, 5])
    assert all(len(item["variations"]) == 4 for item in answer["inputs"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--points", "3"], "--points: is about --pareto"),
        (["--figure", "x.png"], "has nothing to draw"),
        (["--figure", "x.png", "--sensitivity", "--pareto", "ttft"], "draws one study, and two are asked for"),
        (["--figure", "x.pdf", "--sensitivity"], "is neither .png nor .svg"),
    ],
)
def test_what_cannot_be_asked_for_together_is_a_usage_error(arguments: list[str], message: str) -> None:
    found = CliRunner().invoke(app, ["optimize", *arguments])
    assert isinstance(found.exception, UsageError)
    assert message in str(found.exception)
