"""The first screen of a plan: what to buy, what it costs, whether its promise is kept, on thirty lines."""

import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from math import inf, log
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from typer.testing import CliRunner, Result

from planner.cli import app
from planner.cli.common import data_dirs, n_lines, print_rich
from planner.cli.optimize import Section
from planner.comparison import optimize
from planner.errors import UsageError
from planner.notes import note
from planner.profiles import hardware_profile
from planner.report.decision import doubtful_lengths, fleet_to_buy, instead, rank
from planner.report.screen import fleet_table, growth_table, latency_table, plan_screen
from planner.report.tables import SECTIONS
from planner.results.plan import Plan
from planner.results.slo_run import SloRun
from planner.scenario import bundled_scenarios, load_scenario, read_scenario
from planner.workload.lengths import LogNormalLengths

HOURS_PER_MONTH = 730
BUNDLED = ("prfaas-paper", "not-worth-it", "egress-at-scale")
POWERED = """
schema = "planner.scenario/1"
name = "powered"
objective = "min-cost"
demand_req_per_s = 3
model = { profile = "qwen3-32b", stack = "vllm" }
[sites.home]
usd_per_kwh = 0.1
pue = 1.25
draw_fraction = 0.8
idle_draw_fraction = 0.3
power_source = "a bill"
[workload]
lengths = { kind = "constant", tokens = 2000 }
output_lengths = { kind = "constant", tokens = 200 }
[pools]
p = { site = "home", hardware = "h200-sxm", role = "prefill", accelerators_per_instance = 2, n_instances = "free" }
d = { site = "home", hardware = "h200-sxm", role = "decode", accelerators_per_instance = 2, n_instances = "free" }
[prices.h200-sxm]
purchase_usd = 40000
amortized_years = 4
"""


@cache
def plan_of(name: str) -> Plan:
    """The plan of a bundled scenario, or of a text."""
    return optimize(load_scenario(name, "own.toml", Path()) if "\n" in name else read_scenario(name), data_dirs())


def command(*arguments: str, columns: int = 100) -> Result:
    """`planner optimize` on a terminal of so many columns."""
    return CliRunner().invoke(app, ["optimize", *arguments], env={"COLUMNS": str(columns)})


def lines_of(plan: Plan, columns: int, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("COLUMNS", str(columns))
    return n_lines(plan_screen(plan, columns, n_lines))


@pytest.mark.parametrize("name", bundled_scenarios())
def test_a_plan_fits_a_screen(name: str, monkeypatch: pytest.MonkeyPatch, data_file: Callable[[str], Path]) -> None:
    if name == "mooncake-conversation":
        monkeypatch.setenv("PLANNER_DATA", str(data_file("traces/mooncake_conversation.jsonl").parents[1]))
    plan = plan_of(name)
    assert [lines_of(plan, columns, monkeypatch) <= most for columns, most in ((100, 30), (80, 40))] == [True, True]


def test_a_column_is_left_out_where_its_rows_would_take_several_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_of("prfaas-paper")
    longer = tuple(pool.model_copy(update={"layout": "tp=8,ep=1,dp=1,pp=1"}) for pool in plan.pools)
    shown = {}
    for columns in (100, 70):
        monkeypatch.setenv("COLUMNS", str(columns))
        print_rich(*plan_screen(plan.model_copy(update={"pools": longer}), columns, n_lines))
        shown[columns] = capsys.readouterr().out
    assert "tp=8" in shown[100]
    assert "layout" not in shown[70]


def test_a_plan_of_many_pools_notes_and_fleets_fits_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("prfaas-paper")
    pools = tuple(pool.model_copy(update={"name": f"{pool.name}-{i}"}) for i in range(12) for pool in plan.pools)
    many = plan.model_copy(update={"pools": pools, "notes": plan.notes * 9, "baselines": plan.baselines * 9})
    assert lines_of(many, 100, monkeypatch) <= 30
    table = fleet_table(many)
    assert [row[0] for row in table.rows][7:9] == ["30 more", "total"]


def test_the_first_lines_say_what_to_buy_and_what_it_costs_a_month() -> None:
    said = command().stdout
    first = [line.rstrip() for line in said.splitlines()[:3]]
    assert first[0] == "prfaas-paper: served best in separate sites, as planned"
    assert first[1].split(maxsplit=1) == ["buy", "32 h200-sxm at remote, 64 h20-141gb at local, wan 100 Gbps"]
    assert f"182.50 USD/h, {182.5 * HOURS_PER_MONTH:,.0f} USD a month" in first[2]


def test_the_fleet_that_is_recommended_is_the_one_to_buy() -> None:
    plan = plan_of("not-worth-it")
    fleet = fleet_to_buy(plan)
    assert fleet.serving == plan.verdict.recommendation == "colocated"
    assert fleet.cost.usd_per_hour == min(
        b.cost.usd_per_hour or 0.0 for b in plan.baselines if b.serving == "colocated"
    )
    said = command("not-worth-it").stdout
    assert "buy        8 h200-sxm at home" in said
    assert "instead    the stated pools would cost 40.00 USD/h" in said
    assert "stated pool" in said


@pytest.mark.parametrize("name", BUNDLED)
def test_what_stands_beside_the_headline_is_a_fleet_that_can_be_had(name: str) -> None:
    plan = plan_of(name)
    assert not getattr(fleet_to_buy(plan), "beyond_stock", ())


def test_more_stock_that_would_do_without_a_site_is_said_with_its_bill() -> None:
    said = " ".join(command().stdout.split())
    assert "64 h20-141gb of the stock would serve 1.41 req/s for 80.00 USD/h" in said
    assert "with more stock than stated prefill and decode in one batch on 144 h20-141gb" in said


def test_why_no_other_fleet_does_it_is_said() -> None:
    said = " ".join(command("--set", "slo.ttft_s=6", "--no-run").stdout.split())
    assert "other fleets were tried, and none does it: such a fleet keeps the promise at no rate; " in said
    slow = re.search(r"([\d.]+) % of the prompts take over 6 s to prefill, without any wait", said)
    assert slow is not None
    # By hand: the tail of the log-normal lengths beyond the length that an H20 instance prefills in 6 s.
    scenario = read_scenario("prfaas-paper")
    measured, lengths = scenario.measured_for(scenario.pools["pd-p"]), scenario.workload.lengths
    assert measured is not None
    assert measured.prefill is not None
    assert isinstance(lengths, LogNormalLengths)
    tokens = float(np.interp(6.0, measured.prefill.seconds, measured.prefill.tokens))
    low, at, high = (
        norm.cdf((log(x) - lengths.mu) / lengths.sigma) for x in (lengths.low_tokens, tokens, lengths.high_tokens)
    )
    assert float(slow[1]) / 100 == pytest.approx((high - at) / (high - low), abs=0.01)


@pytest.mark.parametrize(
    ("notes", "said"),
    [
        ([], "nothing else was compared"),
        ([("baseline-infeasible", "serves nothing")], "another fleet does not do it: serves nothing"),
        (
            [("baseline-infeasible", "serves nothing")] * 2,
            "2 other fleets were tried, and none does it: serves nothing",
        ),
        (
            [("baseline-infeasible", "it is slow"), ("no-baseline", "nothing was found in the time")],
            "nothing else was compared: nothing was found in the time",
        ),
    ],
)
def test_that_no_fleet_does_it_is_said_only_where_that_is_known_of_all(
    notes: Sequence[tuple[str, str]], said: str
) -> None:
    told = tuple(note(code, f"no fleet-{i} to compare with: {why}") for i, (code, why) in enumerate(notes))
    plan = plan_of("prfaas-paper").model_copy(update={"baselines": (), "notes": told})
    assert instead(plan, plan) == said


def test_a_time_is_promised_executed_predicted_or_without_waiting_and_says_which() -> None:
    plan = plan_of("prfaas-paper")
    assert latency_table(plan).headings == ("latency", ">predicted under load", ">without waiting")
    run = SloRun(
        basis="executed",
        holds=True,
        requests=1000,
        percentile=90,
        promised_s=4.0,
        predicted_s=3.0,
        executed_s=3.5,
        ci_low_s=3.4,
        ci_high_s=3.6,
    )
    table = latency_table(plan.model_copy(update={"slo_run": run}))
    assert table.headings == ("latency", ">promised", ">executed", ">predicted under load", ">without waiting")
    assert table.rows[0] == ("TTFT P90", "4.00 s", "3.50 s", "3.00 s", "3.43 s")
    assert len({heading for heading in table.headings}) == len(table.headings)


def test_electricity_and_purchase_are_told_apart_from_the_bill() -> None:
    """TDP, draw and PUE by hand: all accelerators idle, and the busy ones the rest."""
    plan = plan_of(POWERED)
    tdp_usd = (hardware_profile("h200-sxm").tdp_w or 0.0) / 1000 * 1.25 * 0.1
    idle = sum(pool.n_accelerators for pool in plan.pools) * 0.3 * tdp_usd
    busy = sum(pool.n_accelerators * pool.utilization for pool in plan.pools) * 0.5 * tdp_usd
    assert plan.cost.electricity_usd_per_hour == pytest.approx(idle + busy, rel=1e-6)
    assert plan.cost.purchase_usd == 40000 * plan.n_accelerators
    bought = plan.n_accelerators * 40000 / (4 * 8760)
    assert plan.cost.usd_per_hour == pytest.approx(bought + idle + busy, rel=1e-6)
    assert plan_of("prfaas-paper").cost.electricity_usd_per_hour is None
    assert plan_of("prfaas-paper").cost.purchase_usd is None
    assert ("electricity", "of it") in [row[:2] for row in fleet_table(plan).rows]


def test_sections_are_those_of_the_option_and_are_printed_alone() -> None:
    assert tuple(Section) == tuple(SECTIONS)
    said = command("--section", "cost", "--section", "links").stdout
    titles = [line.strip() for line in said.splitlines() if line.strip() in ("links", "cost", "pools", "notes")]
    assert titles == ["links", "cost"]
    assert "served best" not in said


def test_details_follow_the_screen() -> None:
    screen, details = (command(*options).stdout for options in ((), ("--details",)))
    assert details.startswith(screen)
    for part in ("against other fleets", "what binds", "how good it is", "notes", "how an instance runs"):
        assert f"\n{part}" in details


@pytest.mark.parametrize("text", ["30%", "30 %", "30"])
def test_growth_is_planned_beside_the_demand(text: str) -> None:
    found = command("--set", "objective=min-cost", "--set", "demand_req_per_s=2", "--growth", text, "--format", "json")
    answer = json.loads(found.stdout)
    grown = answer["growth"]
    assert grown["fraction"] == 0.3
    assert grown["plan"]["throughput_req_per_s"] == pytest.approx(2.6)
    assert grown["plan"]["cost"]["usd_per_hour"] > answer["cost"]["usd_per_hour"]


def test_growth_is_shown_with_what_it_costs_more() -> None:
    plan = plan_of("prfaas-paper")
    dearer = plan.model_copy(update={"cost": plan.cost.model_copy(update={"usd_per_hour": 365.0})})
    table = growth_table(plan, dearer, 0.3)
    assert [row[-1] for row in table.rows] == ["0.0 %", "+100.0 %"]
    assert [row[4] for row in table.rows] == ["133,225", "266,450"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--growth", "x"), "is no percentage"),
        (("--growth", "-100"), "is no percentage"),
        (("--growth", "30%"), "is of a demand, and the scenario states none"),
    ],
)
def test_growth_that_cannot_be_is_a_fault_of_usage(options: Sequence[str], said: str) -> None:
    found = command(*options)
    assert isinstance(found.exception, UsageError)
    assert said in str(found.exception)


def test_fleets_are_ordered_by_the_promised_percentile_and_unknown_times_come_last() -> None:
    """A TTFT without waiting is no TTFT under load: it does not stand in for one that is unknown."""
    plan = plan_of("prfaas-paper")
    one = plan.classes[0].model_copy(update={"slo": {"ttft_s": 3.0, "ttft_percentile": 99.0}})
    asked = plan.model_copy(update={"objective": "min-ttft", "classes": (one,)})
    times = {"ttft_p50_s": 1.0, "ttft_p90_s": 2.0, "ttft_p99_s": 5.0, "ttft_unloaded_p90_s": 0.1}
    known = plan.model_copy(update={"latency": plan.latency.model_copy(update=times)})
    unknown = plan.model_copy(update={"latency": plan.latency.model_copy(update={**times, "ttft_p99_s": None})})
    assert rank(asked, known) == 5.0
    assert rank(asked, unknown) == inf


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("51.0 % of the prompts of near are outside", True),
        ("25.0 % of the prompts of near are outside", False),
        ("many prompts of near are outside", False),
    ],
)
def test_prompts_beyond_measured_lengths_stand_beside_the_decision_from_a_quarter_on(text: str, said: bool) -> None:
    plan = plan_of("not-worth-it")
    other = plan.model_copy(update={"notes": (note("lengths-extrapolated", text),)})
    assert doubtful_lengths(other) == (text if said else "")
