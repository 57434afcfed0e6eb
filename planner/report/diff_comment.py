"""Differences between two plans, as a comment on a pull request."""

import re
from dataclasses import replace

from planner.report import diff_words
from planner.report.formats import sentence
from planner.report.markdown_template import escaped_record
from planner.report.table import Table
from planner.results.plan_diff import PlanDiff

MOST_CHARACTERS = 65_000
"""Of a comment; GitHub takes 65,536."""
ROW_LIMITS = (1_000, 300, 100, 30, 10)
"""Rows that a table has at most, tried in this order until the comment is short enough."""
SUMMARY_ROWS = 12
"""Rows of a table outside of what is folded away."""


def diff_markdown(found: PlanDiff) -> str:
    """The difference as Markdown, whose first line is a comment that a bot finds its own last one by.

    Args:
        found: the difference.

    Returns:
        Markdown that ends in one newline, is the same for the same difference, and has at most MOST_CHARACTERS.
    """
    marked = marker(found.after.scenario)
    found = escaped_record(found)
    for limit in ROW_LIMITS:
        text = "\n\n".join([marked, *_parts(found, limit)]) + "\n"
        if len(text) <= MOST_CHARACTERS:
            break
    return text


def marker(scenario: str) -> str:
    """The first line of a comment on a scenario: no reader sees it.

    >>> marker("prfaas-paper")
    '<!-- planner diff: prfaas-paper -->'
    """
    return f"<!-- planner diff: {re.sub(r'[^a-zA-Z0-9_.]+', '-', scenario).strip('-')} -->"


def _parts(found: PlanDiff, limit: int) -> list[str]:
    """Paragraphs, tables of at most so many rows."""
    heading = f"### Capacity plan of {found.after.scenario}: {_lower(diff_words.diff_headline(found))}"
    sides = f"Before: {found.before.name}. After: {found.after.name}."
    failed = "\n".join(f"- **Fails:** {text}" for text in found.failed)
    remarks = "\n".join(f"- {text}" for text in map(sentence, diff_words.remarks_of(found)))
    if not found.is_changed:
        whole = _table(diff_words.figures_table(found, "", only_changed=False), limit)
        same = sentence(diff_words.same_words(found))
        return [heading, sides, *filter(None, [failed, same, remarks]), _folded("All figures", [whole])]
    tables = [
        ("", diff_words.figures_table(found, "", only_changed=True)),
        ("**Inputs that changed**", diff_words.inputs_table(found, "")),
        ("**Decisions that changed**", diff_words.answers_table(found, "")),
    ]
    short = [part for title, table in tables if table.rows for part in (title, _table(table, min(limit, SUMMARY_ROWS)))]
    return [
        heading,
        sides,
        *filter(None, [failed, *short, remarks]),
        _folded("What binds, and everything else", _rest(found, limit)),
    ]


def _rest(found: PlanDiff, limit: int) -> list[str]:
    """Lines that are folded away: what binds, all figures, and tables that were cut."""
    tables = [
        ("What binds:", diff_words.binds_table(found, "")),
        ("All figures:", diff_words.figures_table(found, "", only_changed=False)),
    ]
    cut = [
        ("All inputs that changed:", diff_words.inputs_table(found, "")),
        ("All decisions that changed:", diff_words.answers_table(found, "")),
    ]
    tables += [(title, table) for title, table in cut if len(table.rows) > SUMMARY_ROWS]
    parts = [part for title, table in tables if table.rows for part in (title, _table(table, limit))]
    return [*parts, sentence(diff_words.same_words(found))]


def _folded(title: str, parts: list[str]) -> str:
    return "\n\n".join([f"<details><summary>{title}</summary>", *parts, "</details>"])


def _table(table: Table, limit: int) -> str:
    """A table with as many rows as are allowed, and how many more there are."""
    more = len(table.rows) - limit
    if more <= 0:
        return table.markdown()
    return f"{replace(table, rows=table.rows[:limit]).markdown()}\n\n... and {more:,} more"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
