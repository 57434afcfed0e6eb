"""Figure of break-evens: over which values of each uncertain input the decision stays as it is."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.report import canvas, formats
from planner.results.case import BreakEvenResult, Case

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

YES, NO, NONE = 0, 1, -1
"""Colour number of a decision; the last is grey."""
LEAST = 0.01
"""Left end of a bar that begins at zero, as a share of the stated value."""


@dataclass(frozen=True)
class InputSpan:
    """One input: pieces of its span, as multiples of the stated value, each with its decision."""

    title: str
    pieces: tuple[tuple[float, float, int], ...]
    """From, to, colour number."""
    turns: tuple[tuple[float, str], ...]
    """Where the decision turns, and the value as text."""


ROOM = 0.2
"""Of a row, under the last one: for the figure of a turn."""


@dataclass(frozen=True)
class BreakEvenChart:
    """Every input's span on one axis, 1 being what the scenario states."""

    spans: tuple[InputSpan, ...]
    answers: tuple[tuple[int, str], ...]
    """Colour numbers with what they mean."""

    def draw(self) -> "Figure":
        figure = canvas.new_figure(1.6 + 0.46 * len(self.spans))
        axes = figure.subplots()
        ends = [x for span in self.spans for low, high, _ in span.pieces for x in (low, high)]
        canvas.log_axis(axes, "x", min(ends) / 1.15, max(ends) * 1.15)
        for y, span in enumerate(self.spans):
            _draw(axes, y, span)
        canvas.bar_axis(axes, [span.title for span in self.spans])
        below, above = axes.get_ylim()
        axes.set_ylim(below + ROOM, above)
        axes.axvline(1.0, color=canvas.INK, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.set_xlabel("times the stated value")
        _legend(figure, self.answers)
        return figure


def _draw(axes: "Axes", y: int, span: InputSpan) -> None:
    for low, high, color in span.pieces:
        axes.barh(y, high - low, left=low, height=0.34, color=_color(color), edgecolor="none")
    for x, text in span.turns:
        axes.plot([x, x], [y - 0.27, y + 0.27], color=canvas.INK, linewidth=2.0)
        canvas.halo(axes, x, y, text, offset=(0, -15), fontsize=8.5)


def _color(number: int) -> str:
    return canvas.PALE if number == NONE else canvas.hue(number)


def _legend(figure: "Figure", answers: tuple[tuple[int, str], ...]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=_color(color), label=text) for color, text in answers]
    figure.legend(handles=handles, loc="outside upper left", ncols=min(len(handles), 4), handlelength=1.0)


def break_even_chart(case: Case) -> BreakEvenChart | None:
    """The spans of all inputs; None where no break-even was looked for."""
    if not any(item.is_found for item in case.break_even):
        return None
    spans = tuple(_span(item) for item in case.break_even if item.is_found)
    used = {color for span in spans for *_, color in span.pieces}
    meanings = {YES: "the plan is worth it, or ahead", NO: "it is not, or behind", NONE: "no plan"}
    return BreakEvenChart(spans, tuple((color, text) for color, text in meanings.items() if color in used))


def _span(item: BreakEvenResult) -> InputSpan:
    turns = [turn for turn in (item.below, item.above) if turn is not None]
    marks = [_multiple(item, value) for value in (item.low, *(turn.value for turn in turns), item.high)]
    answers = [item.decision]
    if item.below is not None:
        answers.insert(0, item.below.decision)
    if item.above is not None:
        answers.append(item.above.decision)
    pieces = zip(marks, marks[1:], map(_color_number, answers), strict=False)
    against = "" if item.decides == "verdict" else f"\nagainst {item.decides}"
    return InputSpan(
        title=item.title + against,
        pieces=tuple(pieces),
        turns=tuple((_multiple(item, turn.value), formats.figure(turn.value)) for turn in turns),
    )


def _multiple(item: BreakEvenResult, value: float) -> float:
    """A value over the stated one, kept off zero for the logarithmic axis."""
    return max(value / (item.stated or 1.0), LEAST)


def _color_number(answer: bool | None) -> int:
    return NONE if answer is None else YES if answer else NO
