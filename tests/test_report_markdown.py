"""The cost report: the decision first, everything it rests on after, nothing about what is absent."""

import re

import pytest

from planner.report.figures import charts
from planner.report.markdown import report_markdown
from planner.report.table import Table
from planner.results.case import ComparedPlan
from planner.units import DASH
from tests.test_report_records import CASES, PRICES, make_case, make_claim, make_plan

SECTIONS = [
    "What to run",
    "What it costs",
    "Latency",
    "Run request by request",
    "Against other fleets",
    "At which price it pays",
    "What would turn the decision",
    "What binds",
    "What the capacity rule is worth",
    "Published figures",
    "Variants",
    "How good the plan is",
    "The requests",
    "Service times",
    "Inputs, assumptions and sources",
]


def sections(text: str) -> list[str]:
    return re.findall(r"^## (.+)$", text, re.MULTILINE)


@pytest.mark.parametrize("name", CASES)
def test_a_report_is_the_same_for_the_same_case(name: str) -> None:
    assert report_markdown(CASES[name]) == report_markdown(CASES[name].model_copy(deep=True))


@pytest.mark.parametrize("name", CASES)
def test_a_report_is_tidy(name: str) -> None:
    text = report_markdown(CASES[name])
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "\n\n\n" not in text
    assert not re.search(r"[ \t]$", text, re.MULTILINE)
    assert not re.search(r"None|nan|Undefined|\{\{|\{%", text)


@pytest.mark.parametrize("name", CASES)
def test_every_row_of_a_table_has_as_many_cells_as_its_heading(name: str) -> None:
    for block in re.findall(r"(?:^\|.*\n)+", report_markdown(CASES[name]), re.MULTILINE):
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(counts) == 1, block


@pytest.mark.parametrize("name", CASES)
def test_exactly_the_figures_of_the_case_are_shown(name: str) -> None:
    shown = re.findall(r"^!\[.+\]\(figures/(\w+)\.png\)$", report_markdown(CASES[name]), re.MULTILINE)
    assert sorted(shown) == sorted(charts(CASES[name]))


def test_the_decision_stands_in_the_first_screen() -> None:
    first = "\n".join(report_markdown(make_case()).splitlines()[:14])
    for part in (
        "# An example",
        "**served best in separate sites, as planned.**",
        "4 / 3 / 5",
        "3:5",
        "19,677",
        "wan 100 Gbps",
        "182.50 USD/h",
        "0.578",
    ):
        assert part in first


def test_a_full_case_has_every_section_in_order() -> None:
    assert sections(report_markdown(make_case())) == SECTIONS


def test_sections_without_data_are_left_out() -> None:
    kept = ["What to run", "What it costs", "Latency", "What binds", "How good the plan is", "The requests"]
    text = report_markdown(CASES["one pool"])
    assert sections(text) == [*kept, "Inputs, assumptions and sources"]
    assert "| link |" not in text


def test_missing_prices_are_dashes_and_named() -> None:
    text = report_markdown(CASES["no prices"])
    assert "| **cost** | unknown: not stated: prices.h200-sxm, links.wan |" in text
    assert "The bill is unknown, because the scenario does not state prices.h200-sxm, links.wan." in text
    assert "figures/cost.png" not in text


def test_a_saturated_pool_has_no_loaded_latency_and_the_reason_is_given() -> None:
    text = report_markdown(make_case())
    assert f"| all requests | {DASH} | {DASH} | {DASH} | {DASH} | 2.20 s | 3.43 s | 25.0 ms |" in text
    assert "because prfaas and pd-p are saturated at 3.19 req/s" in text


def test_classes_have_their_own_threshold_and_latency() -> None:
    text = report_markdown(CASES["several classes"])
    assert "| **threshold** | chat 13,886, documents 15,428; 49.0 % of all prompts go to prfaas |" in text
    assert "| documents | 2.60 s |" in text


def test_the_capacity_rules_are_compared_and_the_shortfall_is_stated() -> None:
    text = report_markdown(make_case())
    assert "a fleet seems to serve 1.1 % more" in text
    assert "would hold 3.178 req/s: 1.5 % less than it promises" in text
    same = make_case(other_rule=make_plan(capacity_rule="mean-length"), rule_shortfall=0.0)
    assert "Both rules agree here" in report_markdown(same)


def test_published_figures_are_inputs_or_results_and_a_miss_is_explained() -> None:
    text = report_markdown(make_case())
    assert "Results within their tolerance: 1 of 2." in text
    assert "1 figure is an input" in text
    assert "| threshold | 19,400 tokens | 19,514 tokens | +0.6 % | 3.0 % | result, holds |" in text
    assert "| Theta of PD-P | 19,400 tokens | 19,514 tokens | +0.6 % | – | input: a point of the curve |" in text
    assert "**result, differs**" in text
    assert "- egress: another length is meant" in text


def test_published_figures_are_grouped_by_where_they_were_published() -> None:
    text = report_markdown(
        make_case(claims=(make_claim("a"), make_claim("b", source="another paper"), make_claim("c")))
    )
    assert text.count("From a paper, Table 6:") == text.count("From another paper:") == 1


def test_a_figure_the_plan_does_not_have_is_a_dash() -> None:
    claim = make_claim("threshold", planned=None, difference=None, holds=None)
    assert f"| threshold | 19,400 tokens | {DASH} |" in report_markdown(make_case(claims=(claim,)))


def test_a_variant_without_a_plan_says_why() -> None:
    text = report_markdown(make_case())
    assert f"| without a second site | {DASH} | no plan | {DASH} |" in text
    assert "- without a second site: no instance fits" in text


def test_waiting_times_of_variants_show_where_any_has_them() -> None:
    assert "its TTFT mean" in report_markdown(make_case())
    variant = ComparedPlan(name="x", title="x", plan=make_plan())
    assert "its TTFT mean" not in report_markdown(make_case(comparisons=(variant,)))


def test_the_price_at_which_it_pays_is_stated() -> None:
    text = report_markdown(make_case())
    assert "serves more below a ratio of 3.00" in text
    assert "serves more below a ratio of 2.44 if the link is paid too" in text
    assert "| 2.00 | 128 | +17.0 % | +2.0 % |" in text
    unlinked = PRICES.model_copy(update={"equal_bill_gain": None, "break_even_bill": None, "break_even_cost": None})
    text = report_markdown(make_case(price_ratios=unlinked))
    assert "serves more at every price ratio looked at" in text
    assert "if the link is paid too" not in text


def test_a_report_names_its_sources_and_how_to_make_it_again() -> None:
    text = report_markdown(make_case())
    assert "- **price of h200-sxm** (quoted): a price list" in text
    assert "- Every figure is made up." in text
    assert "- A paper" in text
    assert text.endswith("in this folder: `planner report scenario.toml --out .`\n")


def test_text_in_a_cell_cannot_break_the_table() -> None:
    assert Table.untitled(["a", ">b"], [["x|y\nz", "1"]]).markdown() == "| a | b |\n|---|---:|\n| x\\|y z | 1 |"
