"""One look for every figure: sizes, colours, axes and direct labels. Matplotlib is imported when something is drawn."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from math import ceil, floor, isfinite, log10
from textwrap import wrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

WIDTH_IN = 8.0
DPI = 130
CHARACTER = 0.0142
"""Width of a small character as a share of a figure's width that bars fill most of."""
HUES = ("#0072B2", "#D55E00", "#009E73", "#AA4499", "#56B4E9", "#E69F00", "#882255", "#999933")
"""Colours that colour-blind readers tell apart (Okabe and Ito; purple, wine, olive: Tol); dark ones first, for text."""
SHADES = ((0.0, 0.0), (0.0, 0.4), (1.0, 0.5))
"""What colours are mixed with when they come again, and how much of it: nothing, black, white."""
DASHES: tuple[Any, ...] = ("solid", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
LEGEND_CHARACTERS = 84
"""In a row of a legend."""
HANDLE_CHARACTERS = 6
"""Room of the line or patch beside a label."""
LEGEND_ROW_IN = 0.23
INK = "#222222"
GREY = "#767676"
PALE = "#D8D8D8"
STYLE: dict[str, Any] = {
    "font.size": 11,
    "text.color": INK,
    "svg.hashsalt": "planner",  # the same names inside the file every time
    "text.parse_math": False,  # a dollar sign in a name is one
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "axes.axisbelow": True,
    "grid.color": "#EAEAEA",
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 10,
}


@contextmanager
def style() -> Iterator[None]:
    """Matplotlib's own defaults with the look above, whatever the user's settings are."""
    from matplotlib import style as mpl_style

    with mpl_style.context(["default", STYLE]):
        yield


def new_figure(height_in: float) -> "Figure":
    """An empty figure that lays itself out; call it within `style`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(WIDTH_IN, height_in), dpi=DPI, layout=ConstrainedLayoutEngine(wspace=0.06))
    FigureCanvasAgg(figure)
    return figure


def png(figure: "Figure", texts: dict[str, str]) -> bytes:
    """A figure as a PNG with text entries and nothing that changes from run to run."""
    return _saved(figure, format="png", dpi=DPI, metadata={"Software": None, **texts})


def svg(figure: "Figure") -> bytes:
    """A figure as an SVG with nothing that changes from run to run."""
    return _saved(figure, format="svg", metadata={"Date": None, "Creator": None})


def _saved(figure: "Figure", **options: Any) -> bytes:
    buffer = BytesIO()
    with style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # of a name in another script: a box stands for it
        figure.savefig(buffer, **options)
    return buffer.getvalue()


def hue(index: int) -> str:
    """A colour for the n-th thing: after eight they come again darker, then paler, and then repeat."""
    from matplotlib.colors import to_hex, to_rgb

    again = index // len(HUES) % len(SHADES)
    to, part = SHADES[again]
    red, green, blue = ((1 - part) * own + part * to for own in to_rgb(HUES[index % len(HUES)]))
    return to_hex((red, green, blue))


def dashes(index: int) -> Any:
    """A line style for the n-th line, so that lines on top of one another show."""
    return DASHES[index % len(DASHES)]


def broken(index: int) -> Any:
    """A line style for the n-th limit, which is never solid."""
    return DASHES[1 + index % (len(DASHES) - 1)]


def two_line_label(text: str, width: int = 30, most: int = 2) -> str:
    """A name on two lines at most, or as stated; what is longer lacks its middle.

    >>> two_line_label("a-very-long-name-of-a-pool", 16), two_line_label("abcdefghijkl", 3)
    ('a-very-long-\\nname-of-a-pool', 'ab…\\nkl')
    """
    lines = wrap(text, width)
    if len(lines) <= most:
        return "\n".join(lines)
    kept = (most * width - 1) // 2
    return "\n".join(wrap(f"{text[:kept]}…{text[-kept:]}", width, break_on_hyphens=False))


def columns(labels: Sequence[str], room: int = LEGEND_CHARACTERS) -> int:
    """Columns of a legend that fit beside one another.

    >>> columns(["P90", "mean"]), columns(["virginia-prefill-of-h200"] * 9)
    (2, 2)
    """
    longest = max((len(line) for text in labels for line in text.split("\n")), default=1)
    return max(min(room // (longest + HANDLE_CHARACTERS), len(labels)), 1)


def legend_in(labels: Sequence[str]) -> float:
    """Height of a legend above a figure [in]."""
    return LEGEND_ROW_IN * -(-len(labels) // columns(labels))


def legend_above(figure: "Figure", handles: Sequence[Any]) -> None:
    """A legend above everything, in as many columns as fit; labels are wrapped."""
    labels = [two_line_label(handle.get_label(), LEGEND_CHARACTERS - HANDLE_CHARACTERS) for handle in handles]
    figure.legend(handles, labels, loc="outside upper left", ncols=columns(labels), handlelength=1.6)


def legend_of_patches(figure: "Figure", colors: Mapping[str, int]) -> None:
    """A legend above everything, of names and colour numbers."""
    from matplotlib.patches import Patch

    legend_above(figure, [Patch(color=hue(color), label=name) for name, color in colors.items()])


def legend_over(axes: "Axes", n_columns: int | None = None) -> None:
    """A legend of what is drawn in a panel, between it and the one above it."""
    handles, labels = axes.get_legend_handles_labels()
    labels = [two_line_label(text, LEGEND_CHARACTERS - HANDLE_CHARACTERS) for text in labels]
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "borderaxespad": 0.2}
    axes.legend(handles, labels, ncols=n_columns or columns(labels), handlelength=2.2, fontsize=9, **place)


def round_ticks(low: float, high: float) -> list[float]:
    """Ones, twos and fives of every decade for a logarithmic axis, thinned over long ones.

    >>> round_ticks(600.0, 12000.0)
    [1000.0, 2000.0, 5000.0, 10000.0]
    """
    if not (0 < low <= high and isfinite(high)):
        return []
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 5 else (1,)
    every = [float(step * 10**decade) for decade in decades for step in steps]
    return [tick for tick in every if low <= tick <= high]


def token_axis(axes: "Axes", low: float, high: float, label: str) -> None:
    """A logarithmic axis of tokens with figures instead of powers."""
    log_axis(axes, "x", low, high)
    axes.set_xlabel(label)


def log_axis(axes: "Axes", which: str, low: float, high: float) -> None:
    """A logarithmic axis between two values with round figures on it."""
    from matplotlib.ticker import NullLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    if which == "x":
        axes.set_xscale("log")
        axes.set_xlim(low, high)
    else:
        axes.set_yscale("log")
        axes.set_ylim(low, high)
    ticks = round_ticks(low, high)
    axis.set_ticks(ticks, labels=[f"{tick:,.12g}" for tick in ticks])
    axis.set_minor_locator(NullLocator())


def bar_axis(axes: "Axes", names: Sequence[str]) -> None:
    """Names of horizontal bars from top to bottom, without an axis line; long ones are wrapped, and then smaller."""
    shown = [_row_label(*name.split("\n")) for name in names]
    axes.set_yticks(range(len(names)), labels=shown)
    if max(text.count("\n") for text in shown) > 1:
        axes.tick_params(axis="y", labelsize=9)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")


def _row_label(name: str, *more: str) -> str:
    """A name on two lines at most and everything else on a line of its own."""
    return "\n".join([two_line_label(name, 34 if more else 30), *(two_line_label(line, 38, 1) for line in more)])


def write_in_bar(
    axes: "Axes", bar: "Rectangle", texts: Sequence[str], character: float, line: float | None = None
) -> bool:
    """The first of some texts that fits in the middle of a bar; False where none does.

    Args:
        line: where a line crosses the bar, on one side of which the text must be.
    """
    low, high = bar.get_x(), bar.get_x() + bar.get_width()
    if line is not None and low < line < high:
        low, high = max(((low, line), (line, high)), key=lambda part: part[1] - part[0])
    text = next((text for text in texts if (len(text) + 1) * character <= high - low), "")
    if text:
        x, y = (low + high) / 2, bar.get_y() + bar.get_height() / 2
        axes.text(x, y, text, ha="center", va="center", color=_ink_on(bar), fontsize=9.5)
    return bool(text)


def _ink_on(bar: "Rectangle") -> str:
    """White or dark, whichever is easier to read on a bar."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(bar.get_facecolor())
    return "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.55 else INK


def beside(axes: "Axes", x: float, y: float, text: str, color: str = INK, weight: str = "normal") -> None:
    """Text to the right of a bar's end."""
    axes.annotate(
        text,
        (x, y),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        color=color,
        fontweight=weight,
        fontsize=10,
    )


def halo(axes: "Axes", x: float, y: float, text: str, **options: Any) -> None:
    """Text at a point, on a white ground so that lines do not cross it."""
    offset = options.pop("offset", (0, 0))
    ground = {"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    settings: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 10, "bbox": ground, **options}
    axes.annotate(text, (x, y), xytext=offset, textcoords="offset points", **settings)
