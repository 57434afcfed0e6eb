"""Figures: they build for every case, cut nothing off, and carry a fingerprint of what they show."""

import string
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from planner.report.canvas import DPI, WIDTH_IN, columns, png, round_ticks, style, two_line_label
from planner.report.chart_capacity import theta_chart, threshold_chart
from planner.report.chart_executed import TtftPanel, executed_chart
from planner.report.chart_money import cost_chart, price_ratio_chart
from planner.report.chart_periods import PeriodsChart, hours_chart, periods_chart
from planner.report.chart_schedulers import Line, SchedulersChart, schedulers_chart
from planner.report.figures import CHARTS, PNG_KEY, charts, digest, images
from planner.results.case import Case
from planner.results.plan import Sweep
from planner.results.scheduling import ScheduledSeries
from planner.results.studies import Hour
from tests.cpu_cost import cached
from tests.test_report_records import CASES, COST, NO_COST, PRICES, baseline, make_case, make_period, make_plan, pool

PIXEL = 1.5


def written(figure: Figure) -> list[Text]:
    """Every text of a figure but the labels of ticks, which matplotlib also keeps for ticks out of sight."""
    legends = dict.fromkeys(figure.findobj(matplotlib.legend.Legend))
    texts = [text for legend in legends for text in legend.get_texts()]
    for axes in figure.axes:
        texts += [*axes.texts, axes.xaxis.label, axes.yaxis.label, *(c.xaxis.label for c in axes.child_axes)]
    return [text for text in texts if text.get_text()]


class Drawn(NamedTuple):
    """Where things lie in a figure, in pixels."""

    page: Bbox
    texts: list[tuple[str, Bbox]]
    spread: list[tuple[str, Bbox]]


@cached
def drawn_case(name: str) -> dict[str, Drawn]:
    """The figures of a case, drawn once."""
    found = {}
    for title, chart in charts(CASES[name]).items():
        with style():
            figure = chart.draw()
            canvas = figure.canvas
            assert isinstance(canvas, FigureCanvasAgg)
            canvas.draw()
            texts, others = ([(t.get_text(), t.get_window_extent()) for t in of(figure)] for of in (written, spread))
        found[title] = Drawn(figure.bbox.frozen(), texts, others)
    return found


@pytest.mark.parametrize("name", CASES)
def test_every_figure_builds_and_shows_its_texts_whole(name: str) -> None:
    for title, figure in drawn_case(name).items():
        for text, box in figure.texts:
            place = f"{title}: {text!r}"
            assert box.x0 >= -PIXEL, place
            assert box.x1 <= figure.page.x1 + PIXEL, place
            assert box.y0 >= -PIXEL, place
            assert box.y1 <= figure.page.y1 + PIXEL, place


@pytest.mark.parametrize("name", CASES)
def test_no_text_of_a_figure_lies_on_another(name: str) -> None:
    for title, figure in drawn_case(name).items():
        boxes = [(text, box.padded(-PIXEL)) for text, box in figure.spread]
        for (one, box), (other, another) in combinations(boxes, 2):
            assert not box.overlaps(another), f"{title}: {one!r} and {other!r}"


def spread(figure: Figure) -> list[Text]:
    """Every text of a figure, with the labels of bars, which are long."""
    rows = [label for axes in figure.axes for label in axes.get_yticklabels() if label.get_visible()]
    return [*written(figure), *(label for label in rows if len(label.get_text()) > 6)]


def test_many_things_look_different_from_one_another() -> None:
    chart: Any = charts(CASES["network"])["prefill"]
    with style():
        axes = chart.draw().axes[0]
    curves = [line for line in axes.get_lines() if line.get_label()[:1] != "_"]
    assert len({line.get_color() for line in curves}) == len(curves) == 12
    periods: Any = charts(CASES["network"])["periods"]
    with style():
        panel = periods.draw().axes[2]
    handles, labels = panel.get_legend_handles_labels()
    assert len(set(labels)) == len(labels) == 5
    assert {label for label in labels if "promised" in label} == {
        f"P90 promised to requests-of-customers-of-kind-{i}: {s}" for i, s in enumerate(("4.00 s", "4.10 s", "4.20 s"))
    }
    assert len(handles) == 5


@given(st.text(string.ascii_letters + "- ", min_size=1, max_size=200).filter(str.strip), st.integers(5, 40))
def test_labels_are_short_whatever_the_name(name: str, width: int) -> None:
    lines = two_line_label(name, width).split("\n")
    assert len(lines) <= 3
    assert max(map(len, lines)) <= width
    assert columns([name] * 3) >= 1


OF_A_DAY = {"periods", "schedule", "hours"}
"""Figures of demand that changes, which the usual case has none of."""


def test_a_full_case_has_every_figure() -> None:
    assert list(drawn_case("usual")) == [name for name in CHARTS if name not in OF_A_DAY]


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("no prices", {"cost", "price_ratio"}),
        ("no threshold", {"threshold"}),
        (
            "one pool",
            {"threshold", "theta", "executed", "schedulers", "price_ratio", "break_even", "lengths", "prefill"},
        ),
        ("not scheduled", {"schedulers"}),
        ("bare", {"executed", "schedulers", "price_ratio", "break_even", "prefill"}),
    ],
)
def test_figures_that_make_no_sense_are_left_out(name: str, absent: set[str]) -> None:
    assert set(CHARTS) - set(charts(CASES[name])) - OF_A_DAY == absent


def test_a_fleet_that_does_both_in_one_batch_has_one_bar_and_others_two() -> None:
    both = pool("colocated", 12, "h20-141gb", None, 2.1).model_copy(update={"role": "colocated"})
    plan = make_plan(baselines=(baseline("homogeneous-pd", 1.56), baseline("colocated", 1.5, pools=(both,))))
    chart = theta_chart(make_case(plan=plan))
    assert chart is not None
    assert [list(fleet.rows) for fleet in chart.fleets] == [["prefill", "decode"]] * 2 + [["colocated"]]
    assert chart.fleets[2].rows["colocated"][0][2] == 2.1
    with style():
        texts = {text.get_text() for text in written(chart.draw())}
    assert any(text.startswith("colocated 2.1") for text in texts)


def test_a_day_has_a_figure_of_its_own_and_one_period_has_none() -> None:
    plan = make_plan()
    day, night = make_period("day", 2.0, plan), make_period("night", 1.0, plan)
    chart = periods_chart(make_case(plan=make_plan(periods=(day, night))))
    assert chart is not None
    assert (chart.edges_h, chart.demand_req_per_s) == ((0.0, 12.0, 24.0), (2.0, 1.0))
    assert periods_chart(make_case(plan=make_plan(periods=(day,)))) is None


def test_figures_are_as_wide_as_a_page_and_the_same_every_time() -> None:
    assert {figure.page.width for figure in drawn_case("usual").values()} == {WIDTH_IN * DPI}
    assert drawn() == drawn()


def drawn(name: str = "threshold") -> bytes:
    """One figure of the usual case, drawn anew."""
    with style():
        figure = CHARTS[name](make_case()).draw()  # type: ignore[union-attr]
    return png(figure, {})


def test_a_figure_carries_the_fingerprint_of_its_data_and_no_date() -> None:
    shown = charts(CASES["one pool"])
    assert shown
    for name, image in images(shown).items():
        assert f"{PNG_KEY}\0{digest(shown[name])}".encode() in image
        for word in (b"Creation", b"tIME", b"Software"):
            assert word not in image


def test_drawing_leaves_the_settings_of_matplotlib_alone() -> None:
    before = dict(matplotlib.rcParams)
    drawn()
    assert dict(matplotlib.rcParams) == before


def test_settings_of_the_user_do_not_change_a_figure() -> None:
    usual = drawn()
    with matplotlib.rc_context({"font.size": 20.0, "axes.facecolor": "black", "savefig.dpi": 50}):
        assert drawn() == usual


def fingerprints(case: Case) -> dict[str, str]:
    return {name: digest(chart) for name, chart in charts(case).items()}


def test_rounding_noise_does_not_change_a_fingerprint() -> None:
    plan = make_plan(
        max_throughput_req_per_s=3.19 * (1 + 1e-12),
        throughput_req_per_s=3.19 * (1 - 1e-12),
        offload_fraction=0.49 + 1e-13,
    )
    assert fingerprints(make_case(plan=plan)) == fingerprints(make_case())


def test_changed_data_change_the_fingerprint_of_the_figure_that_shows_them() -> None:
    gains = PRICES.model_copy(update={"equal_cost_gain": (0.36, 0.17, 0.03, -0.06)})
    before, after = fingerprints(make_case()), fingerprints(make_case(price_ratios=gains))
    assert {name for name in before if before[name] != after[name]} == {"price_ratio"}


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (0.4, 20.0), (128.0, 131072.0), (1.0, 1e9), (3.0, 4.0)])
def test_round_ticks_lie_within_their_axis(low: float, high: float) -> None:
    ticks = round_ticks(low, high)
    assert all(low <= tick <= high for tick in ticks)
    assert len(ticks) <= 16
    assert ticks == sorted(set(ticks))


def test_thresholds_are_marked_with_the_share_of_prompts_beyond_them_from_one_end_of_the_sweep_to_the_other() -> None:
    chart, sweep = threshold_chart(make_case()), make_plan().sweep
    assert chart is not None
    assert sweep is not None
    ticks = (1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0, 50_000.0, 100_000.0)
    shares = np.interp(ticks, sweep.threshold_tokens, sweep.offload_fraction)
    assert [tick for tick, _ in chart.offload_ticks] == [tick for tick in ticks if tick <= chart.thresholds[-1]]
    assert [share for _, share in chart.offload_ticks] == pytest.approx([*shares][: len(chart.offload_ticks)])
    assert chart.envelope == tuple(
        min(limit[i] for limit in sweep.limits_req_per_s.values() if limit[i] is not None)
        for i in range(len(chart.thresholds))
    )


@pytest.mark.parametrize(("shares", "n_shown"), [((1.0, 0.5, 0.4, 0.0), 2), ((1.0, 0.5, 0.0, 0.0), 4)])
def test_thresholds_are_shown_where_they_divide_the_prompts(shares: tuple[float, ...], n_shown: int) -> None:
    """All of them where fewer than two do."""
    limits = {"near": (1.0, 2.0, 3.0, 4.0)}
    sweep = Sweep(threshold_tokens=(1e3, 2e3, 4e3, 8e3), offload_fraction=shares, limits_req_per_s=limits)
    chart = threshold_chart(make_case(plan=make_plan(sweep=sweep, threshold_tokens=None)))
    assert chart is not None
    assert len(chart.thresholds) == len(chart.envelope) == n_shown


def test_gains_by_price_have_a_colour_each_and_end_half_way_to_the_next_ratio_or_at_the_break_even() -> None:
    chart = price_ratio_chart(make_case())
    assert chart is not None
    assert [color for _, color, *_ in chart.curves] == [*range(len(chart.curves))]
    curve = ("rent", 0, (0.2, 0.1, -0.1), 1.4)
    drawn = replace(chart, ratios=(1.0, 1.5, 2.5), curves=(curve,), stated=1.2).draw().axes[0]
    (steps,) = (patch for patch in drawn.patches if isinstance(patch, StepPatch))
    assert steps.get_data().values.tolist() == pytest.approx([20.0, 10.0, -10.0])
    assert steps.get_data().edges.tolist() == pytest.approx([1.0, 1.4, 2.0, 2.5])
    assert steps.get_label() == "rent; break-even 1.40"
    assert drawn.get_xlim() == pytest.approx((0.95, 2.6))
    assert drawn.get_ylim() == pytest.approx((-10 - 0.2 * 30, 20 + 0.12 * 30))
    (even,) = (line for line in drawn.lines if line.get_marker() == "D")
    assert [*even.get_xdata(), *even.get_ydata()] == [1.4, 0]


def test_the_bill_of_a_fleet_is_drawn_item_by_item_with_what_is_left_for_traffic() -> None:
    """Rents of 80, 30 and 50 USD/h and 22.5 for the link, of 185: 2.5 for what it carries."""
    chart = cost_chart(make_case(plan=make_plan(cost=COST.model_copy(update={"usd_per_hour": 185.0}))))
    assert chart is not None
    plan = chart.bills[0]
    assert (plan.label, plan.usd_per_hour) == ("plan", 185.0)
    items = {name: usd for name, _, usd in plan.items}
    rents = {pool.name: pool.usd_per_hour for pool in make_plan().pools} | {"wan": make_plan().links[0].usd_per_hour}
    assert items == pytest.approx(rents | {"traffic": 2.5})
    colors = {name: color for bill in chart.bills for name, color, _ in bill.items}
    assert len({*colors.values()}) == len(colors)
    left, right = chart.draw().axes[:2]
    bars = [(bar.get_x(), bar.get_width()) for bar in left.patches][: len(plan.items)]
    starts = [sum(list(items.values())[:i]) for i in range(len(items))]
    assert [start for start, _ in bars] == pytest.approx(starts)
    assert [width for _, width in bars] == pytest.approx([*items.values()])
    assert left.get_xlim() == pytest.approx((0, 1.24 * max(bill.usd_per_hour for bill in chart.bills)))
    known = [bill.usd_per_million_input_tokens for bill in chart.bills if bill.usd_per_million_input_tokens is not None]
    assert [bar.get_width() for bar in right.patches] == pytest.approx(known)
    assert right.get_xlim() == pytest.approx((0, 1.3 * max(known)))
    assert len(right.texts) == len(known)
    assert cost_chart(make_case(plan=make_plan(cost=NO_COST))) is None


def make_hour(rate: float, busy: float, ttft_s: float | None, usd: float | None = None) -> Hour:
    return Hour(
        demand_req_per_s=rate,
        utilization={"near": busy, "wan": busy / 2},
        ttft_mean_s=ttft_s,
        ttft_p90_s=None if ttft_s is None else 2 * ttft_s,
        usd_per_hour=None,
        usd_per_million_input_tokens=usd,
        usd_per_million_output_tokens=None,
    )


def test_a_day_by_the_hour_has_a_step_for_every_hour_and_gaps_where_nothing_is_known() -> None:
    hours = (make_hour(2.0, 0.5, 1.5, 0.4), make_hour(4.0, 0.8, None, 0.2))
    chart = hours_chart(make_case(hours=hours))
    assert chart is not None
    panels = chart.draw().axes
    drawn = [[patch.get_data().values.tolist() for patch in axes.patches] for axes in panels]
    assert drawn[0] == [[2.0, 4.0]]
    assert drawn[1] == [pytest.approx([50.0, 80.0]), pytest.approx([25.0, 40.0])]
    assert drawn[2] == [pytest.approx([3.0, np.nan], nan_ok=True), pytest.approx([1.5, np.nan], nan_ok=True)]
    assert drawn[3] == [[0.4, 0.2]]
    assert [patch.get_data().edges.tolist() for axes in panels for patch in axes.patches] == [[0, 1, 2]] * 6
    tops = [4.0, 80.0, 3.0, 0.4]
    assert [axes.get_ylim() for axes in panels] == [pytest.approx((0, 1.1 * top)) for top in tops]
    assert [axes.get_legend() is not None for axes in panels] == [False, True, True, False]
    assert panels[-1].get_xlim() == (0.0, 2.0)
    unknown = hours_chart(make_case(hours=(make_hour(2.0, 0.5, None),) * 3))
    assert unknown is not None
    assert len(unknown.draw().axes) == 2, "neither times nor prices are known"
    assert hours_chart(make_case()) is None


def test_a_panel_of_what_was_executed_has_intervals_around_its_points_and_room_above_them() -> None:
    panel = TtftPanel("mean", 2.0, ((0.1, 0.9), (2.0, 4.0)), ((0.5, 0.8), (2.5, 3.5), (2.4, 3.0), (2.8, 4.4)))
    axes = Figure().subplots()
    panel.draw(axes)
    assert axes.get_xlim() == (0.0, 1.0)
    assert axes.get_ylim() == pytest.approx((0.0, 1.25 * 4.4))
    no_queue, predicted, points = axes.lines[:3]
    assert {*no_queue.get_ydata()} == {2.0}
    assert (list(predicted.get_xdata()), list(predicted.get_ydata())) == ([0.1, 0.9], [2.0, 4.0])
    assert (list(points.get_xdata()), list(points.get_ydata())) == ([0.5, 0.8], [2.5, 3.5])
    (bars,) = axes.collections
    ends = [[y for _, y in segment] for segment in bars.get_segments()]
    assert ends == [pytest.approx([2.4, 2.8]), pytest.approx([3.0, 4.4])]
    assert [text.get_text() for text in axes.texts] == ["2.50 s", "3.50 s"]
    alone = Figure().subplots()
    replace(panel, no_queue_s=None).draw(alone)
    assert len(alone.lines) < len(axes.lines)


def test_figures_of_what_was_executed_have_the_means_and_the_tails_of_every_load() -> None:
    case = make_case()
    chart, found = executed_chart(case), case.executed
    assert chart is not None
    assert found is not None
    means, tails = [at.ttft_mean_s for at in found.loads], [at.ttft_p90_s for at in found.loads]
    for panel, of_loads in zip(chart.panels, (means, tails), strict=True):
        assert panel.executed[0] == tuple(at.load for at in found.loads)
        assert panel.executed[1] == tuple(one.executed for one in of_loads)
        assert [*zip(*panel.executed[2:], strict=True)] == [one.interval for one in of_loads]
        assert panel.no_queue_s == of_loads[0].by_paper
    assert executed_chart(make_case(executed=None)) is None


@pytest.mark.parametrize(("longest", "scale"), [(40.0, "linear"), (41.0, "symlog")])
def test_schedulers_are_drawn_over_hours_in_thousands_of_tokens(longest: float, scale: str) -> None:
    """A logarithmic axis from where the longest queue is more than twenty times the typical one."""
    lines = (
        Line("static", (0.0, 1.0, 2.0), (), (2.0, 2.0, 2.0)),
        Line("both", (0.0, 1.0, 2.0), (1000.0, 3000.0, 2000.0), (1.0, longest, 2.0)),
    )
    threshold, queue = SchedulersChart((("bursts", lines),)).draw().axes
    assert threshold.get_title() == "bursts"
    (line,) = threshold.lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([0.0, 1.0, 2.0], [1.0, 3.0, 2.0])
    assert [list(line.get_ydata()) for line in queue.lines] == [[2.0, 2.0, 2.0], [1.0, longest, 2.0]]
    assert [line.get_linewidth() for line in queue.lines] == [3.0, 1.3]
    assert queue.get_yscale() == scale


def test_series_of_schedulers_are_means_of_neighbours_over_all_pools() -> None:
    time_s = np.arange(256.0) * 36.0
    series = ScheduledSeries(
        pattern="bursts",
        scheduler="both",
        time_s=time_s,
        threshold_tokens=np.arange(256.0),
        waiting={"near": np.ones(256), "far": np.full(256, 2.0)},
    )
    comparison: Any = SimpleNamespace(patterns=(SimpleNamespace(name="steady"), SimpleNamespace(name="bursts")))
    (steady, nothing), (bursts, (line,)) = schedulers_chart(comparison, [series]).patterns
    assert (steady, nothing, bursts) == ("steady", (), "bursts")
    assert len(line.time_h) == 128
    assert line.time_h[:2] == pytest.approx((0.005, 0.025))
    assert line.threshold_tokens[:2] == pytest.approx((0.5, 2.5))
    assert {*line.n_waiting} == {3.0}


def test_a_day_is_drawn_in_steps_of_its_demand_its_use_and_its_times_with_what_is_promised() -> None:
    chart = PeriodsChart(
        edges_h=(0.0, 8.0, 24.0),
        demand_req_per_s=(2.0, 5.0),
        busy=(("near", (0.5, 0.75)), ("wan", (0.1, 0.2))),
        ttft_s=(("P90", (2.0, 3.0)), ("mean", (1.0, 1.5))),
        promises_s=(("P90 promised", 4.0),),
    )
    demand, busy, ttft = chart.draw().axes
    drawn = [[patch.get_data().values.tolist() for patch in axes.patches] for axes in (demand, busy, ttft)]
    assert drawn == [[[2.0, 5.0]], [[50.0, 75.0], [10.0, 20.0]], [[2.0, 3.0], [1.0, 1.5]]]
    assert {tuple(patch.get_data().edges) for axes in (demand, busy, ttft) for patch in axes.patches} == {
        (0.0, 8.0, 24.0)
    }
    (promised,) = ttft.lines
    assert {*promised.get_ydata()} == {4.0}
    assert busy.get_ylim() == (0.0, 100.0)
    assert ttft.get_ylim() == pytest.approx((0.0, 1.1 * 4.0))
    assert ttft.get_xlim() == (0.0, 24.0)
    assert [axes.get_ylabel().split()[0] for axes in (demand, busy, ttft)] == ["requests", "busy", "TTFT"]
