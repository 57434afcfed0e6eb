"""Break-evens in words, in a table and in a figure."""

from planner.report.chart_break_even import NO, NONE, YES, break_even_chart
from planner.report.markdown import report_markdown
from planner.report.markdown_tables import break_even_table
from tests.test_report_records import CASES, make_break_even, make_case


def test_a_row_says_where_the_decision_turns_and_to_what() -> None:
    text = break_even_table(
        [make_break_even(), make_break_even(decides="all-h20", decision=False, below=None, above=None)]
    ).markdown()
    *_, first, second = text.splitlines()
    assert first == "| rent of an H200, USD/h | 2.5 | 0 to 10 | worth it | below 0.500 (no plan) and above 3.24 |"
    assert second == "| rent of an H200, USD/h | 2.5 | 0 to 10 | behind all-h20 | nowhere in that span |"
    assert max(map(len, text.splitlines())) <= 100


def test_the_report_explains_the_decisions_and_names_what_was_not_varied() -> None:
    text = report_markdown(make_case())
    assert "## What would turn the decision" in text
    assert "*Ahead of loaded* means a higher rate than the variant 'at 80 %'." in text
    assert "Assumed, and not varied: `prices.h20-141gb`." in text
    assert "What would turn" not in report_markdown(CASES["bare"])


def test_the_pieces_of_a_bar_follow_one_another_in_multiples_of_the_stated_value() -> None:
    chart = break_even_chart(make_case(break_even=(make_break_even(low=0.25),)))
    assert chart is not None
    (span,) = chart.spans
    assert span.pieces == ((0.1, 0.2, NONE), (0.2, 3.24 / 2.5, YES), (3.24 / 2.5, 4.0, NO))
    assert span.turns == ((0.2, "0.500"), (3.24 / 2.5, "3.24"))
    assert [color for color, _ in chart.answers] == [YES, NO, NONE]
