"""An accelerator's roofline with the operators of a prefill and a decode step under it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import atan2, degrees, pi, sqrt
from typing import TYPE_CHECKING

from planner.report import canvas, formats
from planner.results.roofline import OperatorPoint, RooflinePass, RooflineSurvey
from planner.units import TERA, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

HEIGHT_IN = 6.0
FULL_AREA = 3000.0
"""Area of a marker whose operator is the whole pass [points squared]."""
LEAST_AREA = 12.0
ROOM = 18.0
"""Right of the rightmost marker, as a ratio of intensities, where peaks are named."""
SHOWN_SHARE = 0.002
"""Operators below this part of their pass have no marker."""
NAMED_SHARE = 0.01
"""Operators below this part of their pass have a marker without a name."""
HUES = {"prefill": 1, "decode": 0}
GAPS = (3.0, 12.0, 22.0, 34.0, 48.0, 64.0, 84.0)
"""How far from its marker's rim a name is tried, nearest first [points]."""
LONG_GAP = 8.0
"""From which gap on a thin line leads from the name to its marker [points]."""
DIRECTIONS = ((1, 0), (-1, 0), (0.7, -0.7), (-0.7, 0.7), (0, 1), (0, -1), (0.7, 0.7), (-0.7, -0.7))
POINTS_PER_INCH = 72.0
NAME_SIZE = 9.0

N_SPOTS = 200
"""Spots that a line is taken for when names avoid it."""

Spot = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, bottom, right, top [pixels]."""


@dataclass(frozen=True)
class Marker:
    """One operator with its marker."""

    point: OperatorPoint
    color: str

    @property
    def area(self) -> float:
        """Area by share of the pass [points squared]."""
        return max(FULL_AREA * self.point.share, LEAST_AREA)

    @property
    def radius(self) -> float:
        """Radius [points]."""
        return sqrt(self.area / pi)

    @property
    def xy(self) -> tuple[float, float]:
        """FLOP per byte, TFLOP/s."""
        return self.point.intensity_flop_per_byte, self.point.flop_per_s / TERA


def roofline_chart(survey: RooflineSurvey) -> "Figure":
    """Intensity against operations per second reached, both logarithmic; call it within `canvas.style`.

    Returns:
        The figure; areas of markers are their operators' shares of the pass.
    """
    figure = canvas.new_figure(HEIGHT_IN)
    axes = figure.subplots()
    markers = [marker for one in survey.passes for marker in _markers(one)]
    _frame(axes, survey, markers)
    _ceilings(axes, survey)
    for marker in sorted(markers, key=lambda marker: -marker.area):
        axes.scatter(*marker.xy, s=marker.area, color=marker.color, alpha=0.7, edgecolor="white", linewidth=0.8)
    axes.set_title(survey.title, pad=24)
    axes.text(0, 1.02, survey.subtitle, transform=axes.transAxes, color=canvas.GREY, fontsize=9.5, va="bottom")
    _legend(figure, survey.passes)
    figure.draw_without_rendering()
    _slope_text(axes, survey.memory_bytes_per_s)
    _name_markers(figure, axes, survey, markers)
    return figure


def _markers(one: RooflinePass) -> list[Marker]:
    color = canvas.hue(HUES[one.phase])
    return [Marker(point, color) for point in one.points if point.share >= SHOWN_SHARE]


def _frame(axes: "Axes", survey: RooflineSurvey, markers: Sequence[Marker]) -> None:
    peak = max(survey.peaks_flop_per_s.values())
    ridge = peak / survey.memory_bytes_per_s
    across, up = zip(*(marker.xy for marker in markers), strict=True)
    canvas.log_axis(axes, "x", min(*across, ridge) / 2.5, max(*across, ridge) * ROOM)
    canvas.log_axis(axes, "y", min(*up, peak / TERA) / 2.5, peak / TERA * 2.2)
    axes.set_xlabel("operations per byte of memory moved [FLOP/B]")
    axes.set_ylabel("operations per second of one accelerator [TFLOP/s]")
    axes.grid()


def _ceilings(axes: "Axes", survey: RooflineSurvey) -> None:
    """The slope of the memory up to the highest peak, and every peak from the slope on, by name."""
    for start, end in _ceiling_lines(axes, survey):
        axes.plot([start[0], end[0]], [start[1], end[1]], color=canvas.INK, linewidth=1.6)
    right = axes.get_xlim()[1]
    for name, peak in survey.peaks_flop_per_s.items():
        text = f"{name} peak {peak / TERA:,.4g} TFLOP/s"
        axes.annotate(text, (right, peak / TERA), (-2, 3), textcoords="offset points", ha="right", fontsize=9.5)


def _ceiling_lines(axes: "Axes", survey: RooflineSurvey) -> Iterator[tuple[Spot, Spot]]:
    rate, (left, right) = survey.memory_bytes_per_s, axes.get_xlim()
    top = max(survey.peaks_flop_per_s.values())
    yield (left, left * rate / TERA), (top / rate, top / TERA)
    for peak in survey.peaks_flop_per_s.values():
        yield (peak / rate, peak / TERA), (right, peak / TERA)


def _slope_text(axes: "Axes", rate: float) -> None:
    """The bandwidth, written along its line; the axes must have their final size."""
    (left, _), (bottom, _) = axes.get_xlim(), axes.get_ylim()
    start = 1.3 * max(left, bottom * TERA / rate)
    here, there = (axes.transData.transform((x, x * rate / TERA)) for x in (start, 10 * start))
    axes.annotate(
        f"memory {rate / TERA:,.4g} TB/s",
        (start, start * rate / TERA),
        (-2, 5),
        textcoords="offset points",
        fontsize=9.5,
        rotation=degrees(atan2(there[1] - here[1], there[0] - here[0])),
        rotation_mode="anchor",
    ).set_in_layout(False)


def _legend(figure: "Figure", passes: Sequence[RooflinePass]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker="o", linestyle="", markersize=9, color=canvas.hue(HUES[one.phase]), label=_label(one))
        for one in passes
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=1, fontsize=9.5)


def _label(one: RooflinePass) -> str:
    shown = sum(point.share for point in one.points if point.share >= SHOWN_SHARE)
    rest = f"{percent(max(1 - shown, 0.0), 0)} collectives, moving of data and the host"
    return f"{one.title} in {formats.seconds(one.seconds)}; not shown: {rest}"


def _name_markers(figure: "Figure", axes: "Axes", survey: RooflineSurvey, markers: Sequence[Marker]) -> None:
    """Names of the operators that take longest, each where it covers no other name, marker or line."""
    scale = figure.dpi / POINTS_PER_INCH
    centres = [_pixels(axes, marker.xy) for marker in markers]
    covered = [_around(x, y, scale * marker.radius) for (x, y), marker in zip(centres, markers, strict=True)]
    for start, end in _ceiling_lines(axes, survey):
        covered += _along(*(_pixels(axes, spot) for spot in (start, end)))
    names = [_box_of(text.get_window_extent()) for text in axes.texts]
    frame = _box_of(axes.get_window_extent())
    for i in sorted(range(len(markers)), key=lambda i: -markers[i].point.share):
        if markers[i].point.share >= NAMED_SHARE:
            _name(axes, markers[i], centres[i], covered, names, frame, scale)


def _name(
    axes: "Axes", marker: Marker, centre: Spot, covered: list[Box], names: list[Box], frame: Box, scale: float
) -> None:
    """One name at the nearest free place, or none where all are taken; what it takes is added to what is covered."""
    for gap, box in _places(centre, _text_size(axes, marker), scale * marker.radius, scale):
        leader = list(_along(centre, _middle(box))) if gap > LONG_GAP else []
        free = not any(_overlap(box, other) for other in (*covered, *names))
        if free and _inside(box, frame) and not any(_overlap(spot, other) for spot in leader for other in names):
            covered += leader
            names.append(box)
            x, y = _middle(box)
            _write_name(axes, marker, ((x - centre[0]) / scale, (y - centre[1]) / scale), bool(leader))
            return


def _write_name(axes: "Axes", marker: Marker, offset: Spot, has_leader: bool) -> None:
    line = {"arrowstyle": "-", "color": marker.color, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0}
    axes.annotate(
        marker.point.name,
        marker.xy,
        offset,
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=NAME_SIZE,
        color=marker.color,
        arrowprops=line if has_leader else None,
    ).set_in_layout(False)


def _text_size(axes: "Axes", marker: Marker) -> Spot:
    """Width and height of a name [pixels]."""
    text = axes.text(0, 0, marker.point.name, fontsize=NAME_SIZE)
    left, bottom, right, top = _box_of(text.get_window_extent())
    text.remove()
    return right - left, top - bottom


def _along(start: Spot, end: Spot) -> Iterator[Box]:
    """Small boxes along a line."""
    for step in range(1, N_SPOTS):
        part = step / N_SPOTS
        yield _around(start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1]), 2.0)


def _pixels(axes: "Axes", spot: Spot) -> Spot:
    x, y = axes.transData.transform(spot)
    return float(x), float(y)


def _places(centre: Spot, size: Spot, radius: float, scale: float) -> Iterator[tuple[float, Box]]:
    """Boxes of a name around its marker, nearest first."""
    half_x, half_y = size[0] / 2, size[1] / 2
    for gap in GAPS:
        for across, up in DIRECTIONS:
            x = centre[0] + across * (radius + gap * scale) + _sign(across) * half_x
            y = centre[1] + up * (radius + gap * scale) + _sign(up) * half_y
            yield gap, (x - half_x, y - half_y, x + half_x, y + half_y)


def _around(x: float, y: float, radius: float) -> Box:
    return (x - radius, y - radius, x + radius, y + radius)


def _box_of(extent: "Bbox") -> Box:
    return (extent.x0, extent.y0, extent.x1, extent.y1)


def _middle(box: Box) -> Spot:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _inside(box: Box, frame: Box) -> bool:
    return frame[0] <= box[0] and box[2] <= frame[2] and frame[1] <= box[1] and box[3] <= frame[3]


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
