"""`planner optimize` in a terminal: a hundred columns, the answer first, a dash for what is unknown."""

from io import StringIO

import pytest
from rich.console import Console

from planner.report.sweep_columns import table_columns
from planner.report.table import MARK
from planner.report.tables import plan_tables
from planner.report.terminal import PRINT_WIDTH
from planner.results.plan import Plan
from planner.units import DASH
from tests.sweep_cases import sweep_of
from tests.test_report_records import CASES, LOADED, NO_COST, UNLOADED, WAN, make_class, make_plan


def printed(plan: Plan, width: int = PRINT_WIDTH) -> str:
    console = Console(file=StringIO(), width=width, highlight=False, emoji=False)
    for part in plan_tables(plan):
        console.print(part)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return str(text)


def squeezed(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("name", CASES)
def test_every_plan_fits_a_hundred_columns_with_nothing_cut_off(name: str) -> None:
    text = printed(CASES[name].plan)
    assert max(map(len, text.splitlines())) <= PRINT_WIDTH
    assert "…" not in text


@pytest.mark.parametrize("name", CASES)
def test_the_same_plan_prints_the_same(name: str) -> None:
    assert printed(CASES[name].plan) == printed(CASES[name].plan)


def test_the_answer_comes_first() -> None:
    first = squeezed("\n".join(printed(make_plan()).splitlines()[:14]))
    for part in (
        "Worth it. It serves 3.19 req/s against 3.12.",
        "4 / 3 / 5 (prfaas / pd-p / pd-d; 32 h200-sxm and 64 h20-141gb)",
        "3:5 (pd-p to pd-d)",
        "19,677 uncached tokens; longer prompts, 49.0 % of all, go to prfaas",
        "3.19 req/s, the most it serves",
        "wan 100 Gbps, 12.1 Gbps in use on average (12.1 %)",
        "182.50 USD/h",
        f"{DASH} under load (prfaas and pd-p are saturated)",
    ):
        assert part in first


def test_what_binds_is_said_in_words() -> None:
    text = printed(make_plan())
    assert "one more instance of prfaas would add 0.616 req/s to the highest rate." in text
    assert "one more Gbps on wan would add 0.0100 req/s to the highest rate." in text
    assert "several limits bind at once" in printed(make_plan(bottlenecks=()))


def test_baselines_stand_beside_the_plan() -> None:
    text = squeezed(printed(make_plan()))
    assert "homogeneous-pd 9 pd-p, 3 pd-d 2.04 1.56 x 120.00 0.578 2.20 3.43" in text
    assert "homogeneous-pd: what homogeneous-pd means" in text


def test_a_missing_price_is_a_dash_and_named() -> None:
    text = squeezed(printed(make_plan(cost=NO_COST)))
    assert f"cost {DASH} (not stated: prices.h200-sxm, links.wan)" in text
    assert f"total {DASH}" in text


def test_charges_by_volume_are_told_apart_from_rent() -> None:
    cost = make_plan().cost.model_copy(update={"usd_per_hour": 200.0})
    assert "traffic by volume" in printed(make_plan(cost=cost))
    assert "traffic by volume" not in printed(make_plan(cost=cost.model_copy(update={"usd_per_hour": 182.5})))


def test_ports_of_a_bundle_are_counted() -> None:
    link = WAN.model_copy(update={"capacity_gbps": 20.0, "n_ports": 2, "port_gbps": 10.0})
    assert "20 Gbps (2 x 10)" in printed(make_plan(links=(link,)))
    mixed = link.model_copy(update={"port_gbps": None})
    assert "20 Gbps (2 mixed ports)" in printed(make_plan(links=(mixed,)))


def test_brackets_in_names_are_printed_as_they_are() -> None:
    assert "[red]odd[/red]" in printed(make_plan(notes=("[red]odd[/red]",)))


def test_a_refusal_says_itself_that_it_is_one() -> None:
    verdict = {"worth_it": False, "because": "Cross-site prefill is not worth it here: there is no second site."}
    plan = make_plan(verdict=make_plan().verdict.model_copy(update=verdict))
    assert "Worth it." not in printed(plan)
    assert "is not worth it here" in printed(plan)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_sweep_shows_the_mean_and_the_tails_under_load_where_any_plan_knows_them(is_loaded: bool) -> None:
    """Of several classes the tails that they are promised take the place of those of all requests."""
    plan = make_plan(latency=LOADED if is_loaded else UNLOADED)
    alone = table_columns(sweep_of([plan, make_plan()]))
    shown = {column.heading.removeprefix(MARK): column.cell(plan) for column in alone if "TTFT" in column.heading}
    under_load = {"TTFT\nmean": "2.60 s", "TTFT\nP50": "2.30 s", "TTFT\nP90": "4.40 s", "TTFT\nP99": "7.20 s"}
    assert shown == (under_load if is_loaded else {"no wait:\nTTFT mean": "2.20 s", "no wait:\nTTFT P90": "3.43 s"})
    if is_loaded:
        promised = make_class("chat", 0.5, 1000.0).model_copy(update={"slo": {"ttft_s": 9.0, "ttft_percentile": 99.0}})
        two = make_plan(latency=LOADED, classes=(promised, make_class("code", 0.5, 1000.0)))
        found = [
            column.heading.removeprefix(MARK) for column in table_columns(sweep_of([two])) if "TTFT" in column.heading
        ]
        assert found == ["TTFT\nmean", "TTFT\nP90", "TTFT P99\nchat", "TTFT P90\ncode"]
