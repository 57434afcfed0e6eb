"""What a sweep says: every pool under its own name, the best point, every width, every kind of plan, every failure."""

import csv
import re
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from planner.report.chart_sweep import objective_measure, sweep_chart
from planner.report.sweep_columns import csv_columns, table_columns
from planner.report.sweep_tables import sweep_tables, write_sweep_csv
from planner.results.plan import Plan
from planner.results.plan_sweep import PlanSweep, SweepPoint
from planner.scenario import Scenario, load_scenario
from planner.studies.plan_sweep import best_point
from tests.builders import SMALL
from tests.sweep_cases import plan_with, sweep_of

POOLS = ("near", "far", "decode", "prefill-of-the-east", "p", "q7", "decode-in-the-middle")
CLASSES = ("chat", "code", "a-class-with-a-long-name")
SITES = ("east", "west")
TOKENS = st.none() | st.floats(0, 1e5)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A plan with any of the pools, links, classes and periods."""
    pools = draw(st.dictionaries(st.sampled_from(POOLS), st.integers(0, 9999), min_size=1))
    links = draw(st.dictionaries(st.sampled_from(("wan", "east-west")), st.floats(0, 800)))
    thresholds = draw(st.dictionaries(st.sampled_from(CLASSES), TOKENS, min_size=1))
    at_sites = st.dictionaries(st.sampled_from(SITES), TOKENS, min_size=1)
    of_classes = st.dictionaries(st.sampled_from(sorted(thresholds)), at_sites)
    periods = draw(st.dictionaries(st.sampled_from(("day", "night")), of_classes))
    usd, seconds = draw(st.none() | st.floats(0, 1e6)), draw(st.none() | st.floats(1e-3, 1e3))
    return plan_with(pools, links, thresholds, periods, seconds=seconds, usd_per_hour=usd)


sweeps = st.builds(
    sweep_of,
    st.lists(plans() | st.sampled_from([3, 4, 5]), min_size=1, max_size=5),
    st.sampled_from(["objective", "prices.h200-sxm.usd_per_accelerator_hour"]),
)


def printed(found: PlanSweep, width: int = 100) -> str:
    text = StringIO()
    console = Console(file=text, width=width, highlight=False, markup=False, emoji=False)
    for part in sweep_tables(found, width):
        console.print(part)
    return text.getvalue()


def rows(found: PlanSweep, folder: Path) -> list[dict[str, str]]:
    write_sweep_csv(found, folder / "sweep.csv")
    with (folder / "sweep.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def row_starts(text: str) -> list[str]:
    """The number of every row, in the order printed."""
    return re.findall(r"^ *(\d+) [ *] ", text, flags=re.MULTILINE)


@given(sweeps)
def test_every_cell_of_the_csv_is_that_of_its_own_plan(found: PlanSweep) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        read = rows(found, Path(folder))
    names = {pool.name for plan in found.plans for pool in plan.pools}
    assert len(read) == len(found.points)
    for row, point in zip(read, found.points, strict=True):
        assert {name for name in row if name.startswith("n_")} == {f"n_{name}" for name in names}
        of_plan = {pool.name: str(pool.n_instances) for pool in point.plan.pools} if point.plan else {}
        assert all(row[f"n_{name}"] == of_plan.get(name, "") for name in names)
        assert row["exit_code"] == str(point.exit_code)
        assert row["failure"] == (point.failure or "")
        for period in point.plan.periods if point.plan else ():
            for name, sites in period.thresholds.items():
                for site, tokens in sites.items():
                    cell = row[f"{period.name}_{name}_{site}_threshold_tokens"]
                    assert cell == ("" if tokens is None else str(tokens))


@given(sweeps, st.sampled_from([60, 80, 100]))
def test_tables_of_any_sweep_fit_their_width_and_have_a_row_for_every_point_in_each(
    found: PlanSweep, width: int
) -> None:
    text = printed(found, width)
    assert max(map(len, text.splitlines())) <= width
    starts = row_starts(text)
    n = len(found.points)
    assert len(starts) % n == 0
    assert all(starts[i : i + n] == [str(k + 1) for k in range(n)] for i in range(0, len(starts), n))


def test_sizes_stand_below_the_names_of_their_pools_also_where_plans_differ_in_them() -> None:
    found = sweep_of([plan_with({"d": 1, "far": 2}), plan_with({"p": 4, "d": 3}), 4])
    lines = printed(found).splitlines()
    heading = next(line for line in lines if "USD/h" in line)
    ends = {name: re.search(rf" {name}\b", heading).end() for name in ("p", "d", "far")}  # type: ignore[union-attr]
    body = [line for line in lines if re.match(r" *\d+ [ *] ", line)]
    cells = [{name: line[:end].split()[-1] for name, end in ends.items()} for line in body[:3]]
    assert cells == [
        {"p": "–", "d": "1", "far": "2"},
        {"p": "4", "d": "3", "far": "–"},
        {"p": "–", "d": "–", "far": "–"},
    ]


def test_the_same_reason_of_many_points_is_one_message_with_their_numbers() -> None:
    text = printed(sweep_of([4, plan_with({"p": 1}), 4, 4, 5]))
    assert "#1, 3 to 4: infeasible: no fleet serves it" in text
    assert "#5: undecided in 1 s" in text
    assert text.count("no fleet serves it") == 1


def test_loaded_times_to_first_token_stand_there_where_any_plan_knows_them() -> None:
    known, saturated = plan_with({"p": 1}, seconds=2.0), plan_with({"p": 1}, seconds=None)
    assert "no wait" not in printed(sweep_of([known, saturated]))
    assert {"P50", "P90", "P99"} <= set(printed(sweep_of([known, saturated])).split())
    assert "P99" not in printed(sweep_of([saturated])).split()


def test_a_class_is_shown_at_the_percentile_that_it_is_promised() -> None:
    plan = plan_with({"p": 1}, thresholds={"chat": 1.0, "code": 2.0})
    promised = plan.classes[1].model_copy(update={"slo": {"ttft_s": 4.0, "ttft_percentile": 99.0}})
    found = sweep_of([plan.model_copy(update={"classes": (plan.classes[0], promised)})])
    heading = " ".join(printed(found).split())
    assert "TTFT P90 TTFT P99" in heading
    assert "chat code" in heading


# The best point


def scenario_of(**changes: object) -> Scenario:
    return load_scenario(SMALL, "small.toml", Path(), [f"{key}={value}" for key, value in changes.items()])


def points_of(plans: list[Plan | None]) -> list[SweepPoint]:
    return [SweepPoint(set={"x": str(i)}, plan=plan, failure=None if plan else "x") for i, plan in enumerate(plans)]


USD = st.none() | st.floats(1, 1e4)


@given(st.lists(st.none() | st.tuples(USD, st.floats(1, 100)), min_size=1, max_size=6))
def test_the_best_point_is_the_cheapest_or_the_fastest_as_the_objective_says(
    drawn: list[tuple[float | None, float] | None],
) -> None:
    found: list[Plan | None] = [
        None if one is None else plan_with({"p": 1}, usd_per_hour=one[0], max_throughput_req_per_s=one[1])
        for one in drawn
    ]

    def at(index: int | None, figure: int) -> float | None:
        one = None if index is None else drawn[index]
        return one[figure] if one else None

    rates = [one[1] for one in drawn if one]
    best, rule = best_point(points_of(found), [scenario_of()] * len(found))
    assert at(best, 1) == (pytest.approx(max(rates), rel=1e-5) if rates else None)
    assert "req/s" in rule
    cheapest = [scenario_of(objective="min-cost", demand_req_per_s=1.0)] * len(found)
    plans = [p and p.model_copy(update={"objective": "min-cost"}) for p in found]
    costs = [one[0] for one in drawn if one and one[0] is not None]
    best, rule = best_point(points_of(plans), cheapest)
    assert at(best, 0) == (pytest.approx(min(costs), rel=1e-5) if costs else None)
    assert rule == "least USD/h"


def test_of_equal_points_the_cheapest_is_the_best_and_of_equally_cheap_ones_the_first() -> None:
    found: list[Plan | None] = [
        plan_with({"p": 1}, usd_per_hour=usd, max_throughput_req_per_s=5.0) for usd in (9.0, 3.0, 3.0)
    ]
    assert best_point(points_of(found), [scenario_of()] * 3)[0] == 1


def test_where_demands_differ_the_best_is_the_cheapest_per_request_and_where_objectives_do_there_is_none() -> None:
    plans: list[Plan | None] = [
        plan_with({"p": 1}, usd_per_hour=usd, throughput_req_per_s=rate, objective="min-cost")
        for usd, rate in ((10.0, 1.0), (15.0, 2.0))
    ]
    asked = [scenario_of(objective="min-cost", demand_req_per_s=rate) for rate in (1.0, 2.0)]
    assert best_point(points_of(plans), asked) == (1, "least USD per request, because demands differ")
    best, rule = best_point(points_of(plans), [asked[0], scenario_of()])
    assert best is None
    assert "objectives differ" in rule


# Figures


@given(sweeps)
def test_any_sweep_can_be_drawn_with_every_plan_on_it(found: PlanSweep) -> None:
    figure = sweep_chart(found)
    axes = figure.axes[0]
    value = objective_measure(found).value
    known = sorted(v for plan in found.plans if (v := value(plan)) is not None)
    drawn = sorted(y for line in axes.get_lines() if line.get_marker() == "o" for y in line.get_ydata())
    assert drawn == pytest.approx(known)
    crosses = [x for line in axes.get_lines() if line.get_marker() == "x" for x in line.get_xdata()]
    assert len(crosses) == len(found.points) - len(found.plans)
    assert axes.get_ylim()[1] >= max(known, default=0.0)
    if found.plans:  # every instance is in a bar
        bars = [segment for bar in figure.axes[1].collections for segment in bar.get_segments()]  # type: ignore[attr-defined]
        assert sum(top - low for (_, low), (_, top) in bars) == sum(p.n_instances for q in found.plans for p in q.pools)


@pytest.mark.parametrize(
    ("values", "is_logarithmic", "places"),
    [
        (("1", "10", "100"), True, [1, 10, 100]),
        (("0", "10", "100"), False, [0, 10, 100]),
        (("1", "2", "3"), False, [1, 2, 3]),
        (("free", "2", "3"), False, [0, 1, 2]),
    ],
)
def test_numbers_are_drawn_at_their_values_and_words_side_by_side(
    values: tuple[str, ...], is_logarithmic: bool, places: list[float]
) -> None:
    plan = plan_with({"p": 1})
    points = tuple(SweepPoint(set={"a.b": value}, plan=plan, failure=None) for value in values)
    found = PlanSweep(scenario="s", over={"a.b": values}, points=points, n_points=3, best=None, best_by="")
    axes = sweep_chart(found).axes[0]
    assert (axes.get_xscale() == "log") == is_logarithmic
    assert list(axes.get_lines()[0].get_xdata()) == places


@pytest.mark.parametrize(
    ("links", "words"), [({"wan": 10.0}, ("none leaves", "all leave")), ({}, ("none is long", "all are long"))]
)
@pytest.mark.parametrize("thresholds", [{"all": 131072.0}, {"chat": 131072.0, "code": 127.0}])
def test_a_threshold_that_divides_nothing_is_told_in_words_and_any_other_as_a_length(
    thresholds: dict[str, float], links: dict[str, float], words: tuple[str, str]
) -> None:
    plans = [
        plan_with({"near": 1}, links, thresholds, offload_fraction=offloaded, threshold_tokens=None)
        for offloaded in (0.0, 0.5, 1.0)
    ]
    cells = [[c.cell(plan) for c in table_columns(sweep_of(plans)) if "threshold" in c.heading] for plan in plans]
    assert cells[0] == [words[0]] * len(thresholds)
    assert cells[1] == [f"{tokens:,.0f}" for tokens in thresholds.values()]
    assert cells[2] == [words[1]] * len(thresholds)
    csv = {c.heading: c.cell(plans[0]) for c in csv_columns(sweep_of(plans))}
    assert [value for heading, value in csv.items() if heading.endswith("_threshold_tokens")] in (
        [],
        [*thresholds.values()],
    )
