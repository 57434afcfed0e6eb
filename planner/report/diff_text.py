"""Differences between two plans, for a terminal of a hundred columns."""

from typing import TYPE_CHECKING

from planner.report import diff_words
from planner.report.formats import sentence
from planner.report.terminal import frame, printed, remarks
from planner.results.plan_diff import PlanDiff

if TYPE_CHECKING:
    from rich.console import RenderableType


def diff_tables(found: PlanDiff) -> list["RenderableType"]:
    """A difference for people: the sentence, its causes, what is decided otherwise, figures, and what binds."""
    rows = [
        ("in short", sentence(diff_words.diff_headline(found))),
        ("before", found.before.name),
        ("after", found.after.name),
        *(("fails", text) for text in found.failed),
    ]
    parts = (
        frame("two plans", rows),
        printed(diff_words.inputs_table(found, "inputs that changed")),
        printed(diff_words.answers_table(found, "decisions that changed")),
        printed(diff_words.figures_table(found, "figures that changed", only_changed=True)),
        printed(diff_words.binds_table(found, "what binds")),
        remarks("notes", map(sentence, (*diff_words.remarks_of(found), diff_words.same_words(found)))),
    )
    return [part for part in parts if part is not None]
