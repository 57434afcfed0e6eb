"""Explanation of a plan's numbers in ten statements at the most: each is made of the plan's own figures."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from planner.report import explained_load as load
from planner.report import explained_worth as worth
from planner.report.cited_figures import Grounds
from planner.report.table import Table
from planner.report.terminal import printed
from planner.results import ExplainedLine, Explanation, Plan, Topic

if TYPE_CHECKING:
    from rich.console import RenderableType

MOST_LINES = 10
LINES: tuple[tuple[Topic, Callable[[Plan, Grounds], str | None]], ...] = (
    ("rate", load.rate),
    ("busiest", load.busiest),
    ("one more", worth.one_more),
    ("threshold", load.threshold),
    ("link", load.link),
    ("TTFT", load.ttft),
    ("promise", worth.promise),
    ("cost", worth.cost),
    ("other fleets", worth.other_fleets),
    ("gap", worth.gap),
    ("basis", worth.basis),
)
"""In the order that they are read in."""
FIRST_LEFT_OUT: tuple[Topic, ...] = ("link",)
"""What gives way where there is more to say than fits: how busy links are stands with the busiest, too."""


def explanation(plan: Plan) -> Explanation:
    """Explanation of how the numbers of a plan hang together.

    Args:
        plan: the answer of `planner optimize`.

    Returns:
        At most ten statements, each with the figures of the plan that it rests on.
    """
    at, found = Grounds(plan), []
    for topic, line in LINES:
        text = line(plan, at)
        figures = at.taken()
        if text is not None:
            found.append(ExplainedLine(topic=topic, text=text, figures=figures))
    spare = FIRST_LEFT_OUT if len(found) > MOST_LINES else ()
    return Explanation(scenario=plan.scenario, lines=tuple(line for line in found if line.topic not in spare))


def explanation_tables(found: Explanation) -> list["RenderableType"]:
    """An explanation for people: what is said, and where the plan has the figures."""
    rows = ((line.topic, f"{line.text}\n({', '.join(g.figure for g in line.figures)})") for line in found.lines)
    caption = "in brackets: where the plan's JSON has the figures"
    table = printed(Table.of(f"how the numbers of {found.scenario} hang together", ("about", "because"), rows, caption))
    return [] if table is None else [table]
