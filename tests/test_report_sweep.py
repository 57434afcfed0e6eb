"""The figure of a sweep: its points where they were asked for, its best one, and the fleet below where that is one."""

from typing import Any

import pytest

from planner.report.chart_sweep import sweep_chart
from planner.results.plan import Plan
from planner.results.plan_sweep import PlanSweep, SweepPoint
from tests.sweep_cases import FAILURES
from tests.test_report_records import COST, PD_D, PD_P, PRFAAS, make_plan

KEY, OTHER = "pools.pd-p.n_instances", "prices.h200-sxm.usd_per_accelerator_hour"


def plan_of(n_near: int, rate: float, usd: float | None = 100.0, **changes: Any) -> Plan:
    pools = (PRFAAS, PD_P.model_copy(update={"n_instances": n_near}), PD_D)
    cost = COST.model_copy(update={"usd_per_hour": usd})
    return make_plan(pools=pools, max_throughput_req_per_s=rate, cost=cost, **changes)


def sweep(points: dict[tuple[str, ...], Plan | int], best: int | None = None) -> PlanSweep:
    """A sweep of one key or two, each point a plan or the exit code of what failed."""
    keys = [KEY] if len(next(iter(points))) == 1 else [OTHER, KEY]
    over = {key: tuple(dict.fromkeys(at[i] for at in points)) for i, key in enumerate(keys)}
    found = tuple(
        SweepPoint(set=dict(zip(keys, at, strict=True)), plan=None, failure=FAILURES[plan], exit_code=plan)
        if isinstance(plan, int)
        else SweepPoint(set=dict(zip(keys, at, strict=True)), plan=plan, failure=None)
        for at, plan in points.items()
    )
    return PlanSweep(
        scenario="small", over=over, points=found, n_points=len(found), best=best, best_by="most requests per second"
    )


def lines(axes: Any) -> dict[str, tuple[list[float], list[float]]]:
    """What is drawn by its name; of the one line of a sweep over one key, which has none, nothing."""
    return {
        str(line.get_label()).replace("_child0", ""): ([*line.get_xdata()], [*line.get_ydata()]) for line in axes.lines
    }


def test_a_line_has_its_points_by_value_the_best_a_ring_and_what_failed_a_cross_at_zero() -> None:
    above, below = sweep_chart(sweep({("6",): plan_of(6, 5.0), ("2",): plan_of(2, 3.0), ("4",): 4}, best=0)).axes
    assert lines(above) == {
        "": ([2.0, 6.0], [3.0, 5.0]),
        "best: most requests per second": ([6.0], [5.0]),
        "no plan": ([4.0], [0.0]),
    }
    assert above.get_ylim() == pytest.approx((0.0, 1.08 * 5.0))
    assert above.get_ylabel() == "requests per second at most"
    assert below.get_xlabel() == KEY
    assert [text.get_text() for text in above.get_legend().get_texts()] == ["best: most requests per second", "no plan"]
    assert {
        tick: label.get_text() for tick, label in zip(below.get_xticks(), below.get_xticklabels(), strict=True)
    } == {
        6.0: "6",
        2.0: "2",
        4.0: "4",
    }


def test_without_a_best_one_and_without_failures_one_line_needs_no_legend() -> None:
    above, _ = sweep_chart(sweep({("2",): plan_of(2, 3.0), ("6",): plan_of(6, 5.0)})).axes
    assert [*lines(above)] == [""]
    assert above.get_legend() is None


@pytest.mark.parametrize(
    ("objective", "label", "values"),
    [("min-cost", "USD per hour", [90.0, 70.0]), ("max-throughput", "requests per second at most", [3.0, 5.0])],
)
def test_what_is_drawn_is_what_the_objective_asks_for(objective: Any, label: str, values: list[float]) -> None:
    plans = [plan_of(2, 3.0, 90.0, objective=objective), plan_of(6, 5.0, 70.0, objective=objective)]
    above, _ = sweep_chart(sweep({("2",): plans[0], ("6",): plans[1]})).axes
    assert above.get_ylabel() == label
    assert next(iter(lines(above).values()))[1] == pytest.approx(values)
    mixed = sweep({("2",): plans[0], ("6",): plan_of(6, 5.0, 70.0, objective="min-ttft")})
    assert sweep_chart(mixed).axes[0].get_ylabel() == "requests per second at most"


def test_pools_are_stacked_above_each_value_with_their_sizes_where_these_fit_in() -> None:
    """Of 21 instances at the most, 2 are enough for a number and 1 is not."""
    tall, low = plan_of(12, 5.0), plan_of(1, 3.0)
    _, below = sweep_chart(sweep({("12",): tall, ("1",): low})).axes
    stacks = [[(*segment[0], *segment[1]) for segment in drawn.get_segments()] for drawn in below.collections]
    assert stacks == [
        [(12.0, 0.0, 12.0, 4.0), (1.0, 0.0, 1.0, 4.0)],
        [(12.0, 4.0, 12.0, 16.0), (1.0, 4.0, 1.0, 5.0)],
        [(12.0, 16.0, 12.0, 21.0), (1.0, 5.0, 1.0, 10.0)],
    ]
    labels = {(*text.get_position(), text.get_text()) for text in below.texts}
    assert labels == {
        (12.0, 2.0, "4"),
        (12.0, 10.0, "12"),
        (12.0, 18.5, "5"),
        (1.0, 2.0, "4"),
        (1.0, 7.5, "5"),
    }
    assert below.get_ylim() == pytest.approx((0.0, 1.08 * 21))
    assert {drawn.get_linewidth()[0] for drawn in below.collections} == {24.0}
    assert [text.get_text() for text in below.get_legend().get_texts()] == ["pd-d", "pd-p", "prfaas"]


@pytest.mark.parametrize(("n", "width"), [(15, 24.0), (20, 18.0), (400, 2.0)])
def test_bars_get_narrower_where_there_are_many(n: int, width: float) -> None:
    plan = plan_of(2, 3.0)
    _, below = sweep_chart(sweep({(str(i),): plan for i in range(n)})).axes
    assert {drawn.get_linewidth()[0] for drawn in below.collections} == {width}
    assert len(below.texts) == (3 * n if width == 24.0 else 0)


def test_of_two_keys_the_last_is_the_axis_and_the_first_the_lines() -> None:
    points: dict[tuple[str, ...], Plan | int] = {
        (price, n): plan_of(int(n), rate) for price, rate in (("2", 3.0), ("4", 5.0)) for n in ("2", "100")
    }
    (axes,) = sweep_chart(sweep(points)).axes
    assert lines(axes) == {
        "h200-sxm.usd_per_accelerator_hour = 2": ([2.0, 100.0], [3.0, 3.0]),
        "h200-sxm.usd_per_accelerator_hour = 4": ([2.0, 100.0], [5.0, 5.0]),
    }
    assert axes.get_xscale() == "log", "100 is more than thirty times 2"
    assert len(axes.get_legend().get_texts()) == 2


@pytest.mark.parametrize(("values", "scale"), [(("2", "60"), "linear"), (("2", "61"), "log"), (("0", "61"), "linear")])
def test_an_axis_is_logarithmic_over_a_wide_span_above_zero(values: tuple[str, ...], scale: str) -> None:
    _, below = sweep_chart(sweep({(value,): plan_of(2, 3.0) for value in values})).axes
    assert below.get_xscale() == scale


def test_words_stand_side_by_side() -> None:
    above, below = sweep_chart(sweep({("free",): plan_of(2, 3.0), ("none",): plan_of(6, 5.0)})).axes
    assert next(iter(lines(above).values())) == ([0.0, 1.0], [3.0, 5.0])
    assert [label.get_text() for label in below.get_xticklabels()] == ["free", "none"]


def test_where_no_plan_was_found_there_is_no_fleet_to_draw() -> None:
    (axes,) = sweep_chart(sweep({("2",): 4, ("6",): 4})).axes
    assert lines(axes)["no plan"] == ([2.0, 6.0], [0.0, 0.0])


@pytest.mark.parametrize("n", [3, 15])
def test_of_many_lines_a_dozen_are_named_beside_what_failed(n: int) -> None:
    points: dict[tuple[str, ...], Plan | int] = {(str(i), k): plan_of(2, 3.0) for i in range(n) for k in ("1", "2")}
    points |= {("0", "3"): 4}
    (axes,) = sweep_chart(sweep(points)).axes
    named = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(named) == min(n, 12) + 1
    assert named[-1] == "no plan"


@pytest.mark.parametrize(("n", "n_columns"), [(4, 1), (5, 2)])
def test_a_legend_of_more_than_four_lines_has_two_columns(n: int, n_columns: int) -> None:
    points: dict[tuple[str, ...], Plan | int] = {(str(i), k): plan_of(2, 3.0) for i in range(n) for k in ("1", "2")}
    (axes,) = sweep_chart(sweep(points)).axes
    assert axes.get_legend()._ncols == n_columns
