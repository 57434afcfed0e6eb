"""A day of a fleet that is bought for its busiest hour, and what else a report shows when its scenario asks for it."""

from typing import Any

import pytest

from planner.comparison import Planned, optimize, solved
from planner.errors import InputError
from planner.optimizer.layout_choice import planning_problem
from planner.report.chart_periods import hours_chart
from planner.report.figures import charts, images
from planner.report.markdown import report_markdown
from planner.results.case import Case
from planner.scenario import read_scenario
from planner.studies.case import build_case, hours_of
from tests.builders import HOME, small_with
from tests.cpu_cost import cached
from tests.test_report_records import make_case
from tests.test_report_studies import make_front, make_sensitivity

FACTORS = (0.25, 1.0, 0.5)
SOURCE = "a test's day"
CHEAP: dict[str, Any] = {"objective": "min-cost", "demand_req_per_s": 1.5}
POWER = {"usd_per_kwh": 0.5, "draw_fraction": 1.0, "idle_draw_fraction": 0.4, "pue": 1.2}


@cached
def case() -> Case:
    report = {
        "hours": {"factors": list(FACTORS), "source": SOURCE},
        "fronts": [
            {
                "against": "throughput",
                "points": 3,
                "title": "long answers",
                "set": {"workload.output_lengths.tokens": 900.0},
            },
        ],
    }
    return build_case(small_with({**CHEAP, "report": report}))


def test_the_busiest_hour_is_the_plan_and_every_other_one_is_less_busy_no_later_and_dearer_by_token() -> None:
    plan, hours = case().plan, case().hours
    assert [h.demand_req_per_s for h in hours] == pytest.approx([1.5 * f for f in FACTORS])
    low, peak, half = hours
    assert peak.ttft_p90_s == pytest.approx(plan.latency.ttft_p90_s)
    assert peak.usd_per_million_input_tokens == pytest.approx(plan.cost.usd_per_million_input_tokens)
    for pool in plan.pools:
        if pool.n_instances:
            assert peak.utilization[pool.name] == pytest.approx(pool.utilization)
            # Work is linear in the rate: thresholds are kept.
            assert low.utilization[pool.name] == pytest.approx(0.25 * pool.utilization, rel=1e-9)
    for less, more in ((low, half), (half, peak)):
        assert less.ttft_p90_s is not None
        assert more.ttft_p90_s is not None
        assert less.ttft_p90_s <= more.ttft_p90_s * (1 + 1e-9)
        assert less.usd_per_hour == pytest.approx(more.usd_per_hour)
    assert low.usd_per_million_output_tokens == pytest.approx(4 * (peak.usd_per_million_output_tokens or 0.0))


def test_power_by_use_is_paid_for_the_hours_that_are_busy() -> None:
    changes = {**CHEAP, **{f"sites.local.{key}": value for key, value in POWER.items()}}
    problem = planning_problem(small_with(changes))
    solution = solved(problem)
    hours = hours_of(problem, solution, FACTORS)
    bills = [hour.usd_per_hour or 0.0 for hour in hours]
    idle = (4 * bills[0] - bills[1]) / 3
    assert bills[2] == pytest.approx(idle + 0.5 * (bills[1] - idle))
    assert bills[0] < bills[2] < bills[1]
    assert bills[1] == pytest.approx(Planned(problem, solution).at(1.5).cost.usd_per_hour)


def test_a_report_shows_the_day_and_the_fronts_that_its_scenario_asks_for() -> None:
    text, shown = report_markdown(case()), charts(case())
    for heading in ("## Through the day", "## What every budget buys"):
        assert heading in text
    assert SOURCE in text
    assert "58.3 % of that" in text
    assert "long answers (`workload.output_lengths.tokens = 900.0`):" in text
    wanted = {"hours", "front_throughput"}
    assert wanted <= set(shown)
    for name in wanted:
        assert f"figures/{name}.png" in text
    assert set(images({"hours": shown["hours"]})) == {"hours"}
    sections = text.split("## Through the day")[1].split("## What it costs")[0]
    sections += text.split("## What every budget buys")[1].split("## What binds")[0]
    assert max(len(line) for line in sections.splitlines() if line.startswith("|")) < 100


def test_a_report_shows_the_sensitivity_that_its_scenario_asks_for() -> None:
    sizes = {"pools.fast.n_instances": 2, "pools.near.n_instances": 1, "pools.decode.n_instances": 9}
    few = {"workload.lengths": {"kind": "empirical", "tokens": [700.0, 4000.0, 30_000.0]}}
    stock = {f"sites.local.accelerators.{HOME}": 80}
    found = build_case(small_with({**sizes, **few, **stock, "report": {"sensitivity": True}}))
    assert found.sensitivity is not None
    assert found.sensitivity.stated == pytest.approx(found.plan.max_throughput_req_per_s)
    text = report_markdown(found)
    rows = text.split("## How much the plan rests on its inputs")[1].split("## What binds")[0]
    assert "figures/sensitivity.png" in rows
    assert max(len(line) for line in rows.splitlines() if line.startswith("|")) < 100
    assert "sensitivity" in charts(found)


def test_what_nobody_asks_for_is_not_shown() -> None:
    text = report_markdown(make_case())
    assert not {"Through the day", "What every budget buys", "How much the plan rests"} & set(text.split("## "))
    assert hours_chart(make_case()) is None


def test_inputs_that_make_no_difference_are_named_and_have_no_rows() -> None:
    found = make_sensitivity()
    still = found.inputs[1].model_copy(update={"title": "the weather", "variations": found.inputs[0].variations[:1]})
    text = report_markdown(make_case(sensitivity=found.model_copy(update={"inputs": (*found.inputs, still)})))
    assert "Neither the bill nor the best sizes change with: the weather." in text
    assert "| the weather |" not in text
    assert "| demand |" in text
    assert "- no pool is timed by the roofline." in text


def test_a_front_with_notes_names_the_budgets_without_a_plan() -> None:
    from planner.results.case import CaseFront

    fronts = (CaseFront(title="most of all", set={}, front=make_front()),)
    assert "- 50 USD/h: no plan." in report_markdown(make_case(fronts=fronts))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"demand_req_per_s": None, "objective": "max-throughput"}, r"report\.hours: are of a demand, and none is sta"),
        ({"periods": {"day": {}, "night": {"demand": 0.5}}}, r"report\.hours: are of one demand \(periods say"),
        ({"report.hours.factors": [1.2, 0.5]}, r"report\.hours\.factors\[0\]: .* 1"),
        (
            {"report.fronts": [{"against": "ttft", "title": "a"}, {"against": "ttft", "title": "b"}]},
            r"report\.fronts\[1\]\.against: is ttft again \(one front of each kind\)",
        ),
    ],
)
def test_what_cannot_be_shown_is_told_by_its_key(changes: dict[str, Any], problem: str) -> None:
    hours = {"report": {"hours": {"factors": [0.5, 1.0], "source": SOURCE}}}
    with pytest.raises(InputError, match=problem):
        small_with({**CHEAP, **hours}).varied(changes)


@pytest.mark.parametrize("name", ["rubin-groq", "ascend-h20"])
def test_reports_of_one_demand_have_a_day_whose_busiest_hour_is_the_plan(name: str) -> None:
    hours = read_scenario(name).report.hours
    assert hours is not None
    assert (len(hours.factors), max(hours.factors)) == (24, 1.0)


def test_a_day_changes_no_plan() -> None:
    with_day = small_with({**CHEAP, "report": {"hours": {"factors": [0.5, 1.0], "source": SOURCE}}})
    assert optimize(with_day).answer() == optimize(small_with(CHEAP)).answer()
    assert with_day.price_of(with_day.hardware_named(HOME)) is not None
