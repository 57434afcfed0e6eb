"""An explanation says what the plan says: every number in it is one of the plan's figures, at the place it names."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.comparison import optimize
from planner.errors import InfeasibleError
from planner.report.explained import explanation, explanation_tables
from planner.report.explained_worth import figure_of
from planner.report.formats import figure, seconds, small_percent
from planner.results.explanation import Explanation
from planner.results.plan import Plan
from planner.results.plan_file import plan_from
from planner.scenario import load_scenario
from planner.units import number, percent, usd
from tests.builders import POOLS_HERE, SMALL, small_with
from tests.cpu_cost import cached

DAY = {"night": {"hours": 12.0, "demand": 0.5}, "noon": {"hours": 12.0}}
ONE_SITE = {"sites.remote": None, "pools.fast": None, "links.wan": None}
PROMISE = {"ttft_s": 6.0, "ttft_percentile": 90.0}
QUESTIONS: dict[str, dict[str, Any]] = {
    "most requests": {},
    "most requests that keep a promise": {"slo": PROMISE},
    "least cost": {"objective": "min-cost", "demand_req_per_s": 3.0},
    "least cost under a promise": {"objective": "min-cost", "demand_req_per_s": 3.0, "slo": PROMISE},
    "least TTFT": {"objective": "min-ttft", "demand_req_per_s": 3.0},
    "a day": {"objective": "min-cost", "demand_req_per_s": 3.0, "periods": DAY},
    "a day under a promise": {"objective": "min-cost", "demand_req_per_s": 3.0, "periods": DAY, "slo": PROMISE},
    "no prices": {"prices": {}},
    "another discipline": {"objective": "min-cost", "demand_req_per_s": 3.0, "dispatch": "round-robin"},
    "a narrow link": {"links.wan.capacity_gbps": 2},
}


@cached
def plan(question: str) -> Plan:
    return optimize(small_with(QUESTIONS[question]))


def one_site() -> Plan:
    parts = re.split(r"^(?=\[)", SMALL, flags=re.MULTILINE)
    left = [p for p in parts if not re.match(r"\[(sites.remote|pools|links|measured.fast)", p)]
    text = "".join(left).replace("sites.local", "sites.here") + POOLS_HERE
    return optimize(load_scenario(text, "here.toml", Path()))


def renderings(value: Any) -> Iterator[str]:
    """How people may read a figure."""
    if isinstance(value, (int, float)):
        yield from (figure(abs(value)), number(abs(value)), number(value, 4), usd(abs(value)), percent(value))
        yield from (seconds(value), small_percent(value), figure(1000 * value))


def numbers(text: str) -> list[str]:
    return re.findall(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?", text)


def without_names(text: str, answer: Mapping[str, Any]) -> str:
    """The text without names, which may have digits in them, and what is the same in every plan."""
    kinds = ("pools", "links", "periods", "baselines", "classes")
    names = [item["name"] for kind in kinds for item in answer[kind]]
    names += [item["constraint"] for item in answer["bottlenecks"]]
    names += [item["hardware"] for item in answer["pools"]] + ["P90", "90 % band"]
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, "")
    return re.sub(r"less than 0.01 %|more ports? of \d+ Gbps|(?<=\d)(?= ?Gbps more)", "", text)


def check(found: Explanation, of: Plan) -> None:
    answer = json.loads(json.dumps(of.answer()))
    assert 0 < len(found.lines) <= 10
    assert len({line.topic for line in found.lines}) == len(found.lines)
    for line in found.lines:
        assert line.figures, line.topic
        assert all(figure_of(answer, ground.figure) == ground.value for ground in line.figures)
        told = {n for ground in line.figures for text in renderings(ground.value) for n in numbers(text)}
        assert set(numbers(without_names(line.text, answer))) <= told, line


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_number_of_an_explanation_is_a_figure_of_the_plan(question: str) -> None:
    found = explanation(plan(question))
    check(found, plan(question))
    topics = [line.topic for line in found.lines]
    assert {"rate", "busiest", "cost", "gap", "basis"} <= set(topics)
    assert ("link" in topics) <= any(link.mean_gbps for link in plan(question).links)


def test_the_plan_of_one_site_is_explained_without_threshold_and_link() -> None:
    found = explanation(one_site())
    check(found, one_site())
    assert not {"threshold", "link"} & {line.topic for line in found.lines}


def text_of(question: str, topic: str) -> str:
    return next(line.text for line in explanation(plan(question)).lines if line.topic == topic)


def test_what_is_full_is_told_as_full_and_nothing_else_is() -> None:
    full = [pool.name for pool in plan("most requests").pools if pool.utilization > 1 - 1e-6]
    assert full
    assert all(name in text_of("most requests", "busiest").split(" full")[0] for name in full)
    assert text_of("least cost", "busiest").startswith("Nothing is full.")


def test_a_promise_is_explained_by_what_it_costs_and_its_absence_is_said() -> None:
    assert "without it" in text_of("least cost under a promise", "promise")
    assert text_of("least cost", "promise").startswith("No TTFT is promised")
    assert "goodput" in text_of("most requests that keep a promise", "rate")


def test_the_rate_of_a_day_names_its_highest_demand() -> None:
    assert "in noon" in text_of("a day", "rate")


def test_a_loaded_ttft_that_is_unknown_is_told_with_the_reason() -> None:
    assert "would only grow" in text_of("most requests", "TTFT")
    assert "no model of waits" in text_of("another discipline", "TTFT")
    assert "prices are missing" in text_of("no prices", "cost")


def test_a_file_and_its_plan_are_explained_alike_in_both_forms(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan("least cost").answer()), encoding="utf-8")
    found = CliRunner().invoke(app, ["explain", str(file), "--format", "json"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout) == json.loads(json.dumps(explanation(plan("least cost")).answer()))
    shown = CliRunner().invoke(app, ["explain", str(file)]).stdout
    assert all(line.figures[0].figure in shown for line in explanation(plan("least cost")).lines)
    assert explanation_tables(explanation(plan("least cost")))


def test_optimize_explains_its_plan_as_explain_does_and_its_answer_is_still_that_plan(tmp_path: Path) -> None:
    asked = ["optimize", "not-worth-it", "--explain"]
    made = CliRunner().invoke(app, [*asked, "--format", "json"])
    assert made.exit_code == 0, made.output
    file = tmp_path / "plan.json"
    file.write_text(made.stdout, encoding="utf-8")
    apart = CliRunner().invoke(app, ["explain", str(file), "--format", "json"])
    assert apart.exit_code == 0, apart.output
    assert json.loads(made.stdout)["explanation"] == json.loads(apart.stdout)
    shown, lines = CliRunner().invoke(app, asked).stdout, CliRunner().invoke(app, ["explain", str(file)]).stdout
    assert shown.endswith(lines)
    assert lines not in CliRunner().invoke(app, asked[:-1]).stdout


def test_studies_around_a_plan_do_not_keep_it_from_being_read() -> None:
    studies = ["--pareto", "throughput", "--points", "1", "--explain", "--growth", "10%"]
    answer = CliRunner().invoke(app, ["optimize", "not-worth-it", *studies, "--format", "json"]).stdout
    around = {"pareto", "explanation", "growth"}
    assert around <= json.loads(answer).keys()
    read = plan_from(answer, "plan.json").answer()
    assert read.keys() == json.loads(answer).keys() - around


def test_what_has_no_plan_is_not_explained_but_says_why() -> None:
    asked = ["--set", "objective=min-cost", "--set", "demand_req_per_s=1000", "--format", "json"]
    found = CliRunner().invoke(app, ["explain", "prfaas-paper", *asked])
    assert isinstance(found.exception, InfeasibleError)
    answer = json.loads(found.stdout)
    assert answer["error"] == "infeasible"
    assert answer["relaxations"]
