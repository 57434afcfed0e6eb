"""Figures of studies: the front of cost, and the inputs that the objective depends on most."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.report import canvas, formats
from planner.report.study_tables import sizes_text, value_heading
from planner.results.studies import Front, Sensitivity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_CHARACTERS = 20
"""Of the label of a plan; longer ones would run into one another."""
LABEL_WIDTH, LABEL_HEIGHT = 0.12, 0.05
"""Of such a label, as parts of the axes."""
LOST = 1.25
"""Length of the bar of a change without a plan, over the longest other one."""


@dataclass(frozen=True)
class FrontChart:
    """Value that each budget buys: a step at every plan of the front."""

    heading: str
    pools: str
    points: tuple[tuple[float, float, str], ...]
    """USD per hour, value, sizes."""
    falls: bool
    """Whether less is better."""

    def draw(self) -> "Figure":
        figure = canvas.new_figure(4.6)
        axes = figure.subplots()
        usd, values = [p[0] for p in self.points], [p[1] for p in self.points]
        color = canvas.hue(0)
        if self.points:
            span = (max(usd) - min(usd)) or max(usd) or 1.0
            axes.step([*usd, max(usd) + 0.06 * span], [*values, values[-1]], where="post", color=color, linewidth=2)
            axes.plot(usd, values, "o", color=color, markersize=6, markeredgecolor="white")
            axes.set_xlim(min(usd) - 0.14 * span, max(usd) + 0.16 * span)
            axes.set_ylim(0, 1.16 * max(values))
        is_short = max((len(text) for *_, text in self.points), default=0) <= MOST_CHARACTERS
        taken: list[tuple[float, float]] = []
        for number, (x, y, text) in enumerate(self.points, 1):
            place = axes.transAxes.inverted().transform(axes.transData.transform((x, y)))
            if any(abs(place[0] - a) < LABEL_WIDTH and abs(place[1] - b) < LABEL_HEIGHT for a, b in taken):
                continue
            taken.append((float(place[0]), float(place[1])))
            # Where a step leaves room: above it, to the right where it falls, to the left where it rises.
            side, shift = ("left", 3) if self.falls else ("right", -3)
            label = text if is_short else str(number)
            canvas.halo(axes, x, y, label, offset=(shift, 10), fontsize=9, ha=side, bbox=None)
        axes.grid(axis="both")
        labels = f"labels: {self.pools}" if is_short else "labels: plans, the cheapest first"
        axes.set_xlabel(canvas.two_line_label(f"USD per hour; {labels}", 80))
        axes.set_ylabel(self.heading)
        return figure


def front_chart(front: Front) -> FrontChart:
    """The curve of a front."""
    pools = " / ".join(front.points[0].n_instances) if front.points else ""
    points = tuple((p.usd_per_hour, p.value, sizes_text(p.n_instances)) for p in front.points)
    return FrontChart(value_heading(front), pools, points, front.against == "ttft")


@dataclass(frozen=True)
class Bar:
    """One change of an input."""

    row: int
    label: str
    percent: float | None
    """Change of the objective; None: no plan."""
    is_far: bool
    """Whether it is the larger of two changes to one side."""
    changes_fleet: bool


@dataclass(frozen=True)
class TornadoChart:
    """Change of the objective with each input, those that matter most at the top."""

    titles: tuple[str, ...]
    bars: tuple[Bar, ...]
    label: str

    def draw(self) -> "Figure":
        figure = canvas.new_figure(1.5 + 0.42 * len(self.titles))
        axes = figure.subplots()
        known = [abs(bar.percent) for bar in self.bars if bar.percent is not None]
        most = max(known, default=1.0) or 1.0
        for bar in sorted(self.bars, key=lambda b: not b.is_far):
            _draw_bar(axes, bar, most)
        changed = {bar.row for bar in self.bars if bar.percent != 0}
        for row in set(range(len(self.titles))) - changed:
            axes.annotate(
                "no change", (0, row), xytext=(6, 0), textcoords="offset points", va="center", color=canvas.GREY
            )
        canvas.bar_axis(axes, self.titles)
        axes.axvline(0, color=canvas.INK, linewidth=1.2)
        axes.set_xlim(-1.35 * most, 1.35 * most)
        axes.set_xlabel(self.label)
        _legend(figure)
        return figure


def _draw_bar(axes: "Axes", bar: Bar, most: float) -> None:
    lower = bar.label.startswith(("-", "5 "))
    color = canvas.hue(0 if lower else 1)
    if bar.percent is None:
        x = (-1 if lower else 1) * LOST * most
        axes.plot([x], [bar.row + (0.15 if bar.is_far else -0.15)], "x", color=color, markersize=7)
        return
    shift = -0.17 if lower else 0.17
    axes.barh(bar.row + shift, bar.percent, height=0.32, color=color, alpha=0.45 if bar.is_far else 1.0)
    if bar.changes_fleet:
        axes.plot([bar.percent], [bar.row + shift], "D", color=canvas.INK, markersize=4)


def _legend(figure: "Figure") -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Patch(color=canvas.hue(0), label="10 % less (pale: 20 %, or the band)"),
        Patch(color=canvas.hue(1), label="10 % more"),
        Line2D([], [], marker="D", color=canvas.INK, linestyle="", markersize=4, label="other sizes"),
        Line2D([], [], marker="x", color=canvas.GREY, linestyle="", markersize=7, label="no plan"),
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=4, handlelength=1.0)


def tornado_chart(found: Sensitivity) -> TornadoChart:
    """The bars of a sensitivity."""
    bars = tuple(
        Bar(
            row=row,
            label=v.label,
            percent=None if v.objective_change is None else 100 * v.objective_change,
            is_far=len(item.variations) == 2 or v.label.endswith("20 %"),
            changes_fleet=v.changes_fleet,
        )
        for row, item in enumerate(found.inputs)
        for v in item.variations
    )
    stated = f"{formats.figure(found.stated)} {found.unit}"
    titles = tuple(item.title for item in found.inputs)
    return TornadoChart(titles, bars, f"change of the objective, {stated} as stated [%]")
