"""Differences between two plans, in words and tables that a terminal and a comment share."""

from math import inf
from typing import Any

from planner.notes import Note, note
from planner.report.formats import SMALL, figure, signed_percent, small_percent
from planner.report.table import Table
from planner.results.plan_diff import BindChange, FigureChange, PlanDiff, ValueChange
from planner.units import DASH, number, percent, unit_of, usd

SHOWN_DIGITS, MOST_DIGITS, ALL_DIGITS = 6, 9, 17
MONEY = ("USD/h", "USD")
FIGURE_HEADINGS = ("", ">before", ">after", ">change")
VALUE_HEADINGS = ("key", "before", "after")
BIND_HEADINGS = ("constraint", "one more gains", ">before", ">after")
NOT_STATED = "not stated"
LENGTH = 120
"""Most characters of a value."""


def diff_headline(found: PlanDiff) -> str:
    """The difference in a sentence: first what it costs, else what it serves."""
    if not found.is_changed:
        return "No change"
    for name, noun in (("usd_per_hour", "The bill"), ("throughput_req_per_s", "The rate")):
        item = found.figure(name)
        if item is None or not item.is_changed:
            continue
        before, after = figure_texts(item)
        if item.change is None:
            known = "is not known before" if item.before is None else "is not known any more"
            return f"{noun} {known}: {before} to {after} {item.unit}"
        verb = "rises" if item.change > 0 else "falls"
        return f"{noun} {verb} from {before} to {after} {item.unit} ({change_text(item)})"
    decisions = "The decisions change" if found.answers else "No decision changes"
    return f"{decisions}; bill and rate stay"


def figures_table(found: PlanDiff, title: str, only_changed: bool) -> Table:
    """Figures before and after."""
    rows = [
        (item.title, *_figure_cells(item), "same" if item.before == item.after else change_text(item))
        for item in found.figures
        if item.is_changed or not only_changed
    ]
    return Table.of(title, FIGURE_HEADINGS, rows)


def inputs_table(found: PlanDiff, title: str) -> Table:
    """Inputs that changed; what a scenario does not state is at its default."""
    return Table.of(title, VALUE_HEADINGS, [(item.key, *_value_texts(item, NOT_STATED)) for item in found.inputs])


def answers_table(found: PlanDiff, title: str) -> Table:
    """Decisions that changed."""
    return Table.of(title, VALUE_HEADINGS, [(item.key, *_value_texts(item, DASH)) for item in found.answers])


def binds_table(found: PlanDiff, title: str) -> Table:
    """Table of what binds before and after."""
    return Table.of(title, BIND_HEADINGS, [(b.constraint, b.unit, *_bind_texts(b)) for b in found.binds])


def remarks_of(found: PlanDiff) -> list[Note]:
    """Notes that a reader must know to use it."""
    lines: list[Note] = []
    if found.n_within_gaps:
        lines.append(
            note(
                "within-gaps",
                f"{found.n_within_gaps} more figures differ by less than {small_percent(found.noise_fraction)}, "
                "within the plans' gaps: no change that is known",
            )
        )
    lines += [
        note(
            "inputs-unknown",
            f"the plan of {name} does not carry its inputs, so what caused the change is not known: plan it again",
        )
        for name in found.inputs_unknown
    ]
    if not found.inputs and not found.inputs_unknown and found.is_changed:
        lines.append(note("no-input-changed", "no input changed: the searches ended with different plans"))
    lines += [
        note(
            "plan-has-gap",
            f"the plan of {side.name} is the best that its search found, up to {percent(side.gap, 2)} from its bound",
        )
        for side in dict.fromkeys((found.before, found.after))
        if side.gap > SMALL
    ]
    return lines


def same_words(found: PlanDiff) -> str:
    """Number of things that are the same, in words."""
    return f"{number(found.n_unchanged - found.n_within_gaps)} figures, decisions and binding constraints are the same"


def figure_texts(item: FigureChange) -> tuple[str, str]:
    """A figure before and after, with as many digits as set them apart where they changed."""
    texts = tuple(_figure(value, item.unit, 3) for value in (item.before, item.after))
    for digits in range(3, MOST_DIGITS + 1):
        if texts[0] != texts[1] or item.before == item.after or not item.is_changed:
            break
        texts = tuple(_figure(value, item.unit, digits) for value in (item.before, item.after))
    return texts[0], texts[1]


def _figure(value: float | None, unit: str, digits: int) -> str:
    if unit in MONEY and digits == 3 and (value is None or value >= 1):
        return usd(value)
    if unit == "fraction":
        return percent(value, digits - 2)
    return number(value, digits) if unit == "" else figure(value, digits)


def _figure_cells(item: FigureChange) -> tuple[str, str]:
    """A figure before and after with its unit, and what is promised of it."""
    unit = "" if item.unit == "fraction" else item.unit
    promised = (item.promised_before, item.promised_after)
    texts = (f"{text} {unit}".rstrip() if text != DASH else text for text in figure_texts(item))
    before, after = (
        text if limit is None else f"{text} (promised: {figure(limit)} {unit})"
        for text, limit in zip(texts, promised, strict=True)
    )
    return before, after


def change_text(item: FigureChange) -> str:
    """The change of a figure; what was not there before, or is not now, has none."""
    fraction = item.change_fraction
    if fraction is None:
        return DASH
    if fraction == inf:
        return "new"
    small = 0 < abs(fraction) < SMALL * 5
    return f"{100 * fraction:+.2g} %" if small else signed_percent(fraction)


def _value_texts(item: ValueChange, absent: str) -> tuple[str, str]:
    """A value before and after, with as many digits as set them apart; the unit is in its key."""
    for digits in (SHOWN_DIGITS, MOST_DIGITS, ALL_DIGITS):
        before, after = (absent if v is None else _value(v, item.key, digits) for v in (item.before, item.after))
        if before != after:
            break
    return before, after


def _value(value: Any, key: str, digits: int) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,.{digits}g} {unit_of(key)}".rstrip()
    if isinstance(value, list | tuple):
        value = ", ".join(_value(item, "", digits) for item in value) or "none"
    text = "stated" if value == {} else str(value)
    return text if len(text) <= LENGTH else f"{text[: LENGTH - 3]}..."


def _bind_texts(item: BindChange) -> tuple[str, str]:
    before, after = ("does not bind" if price is None else figure(price) for price in (item.before, item.after))
    return before, after
