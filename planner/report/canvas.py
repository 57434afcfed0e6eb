"""One look for every figure: sizes, colours, axes and direct labels. Matplotlib is imported when something is drawn."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from math import ceil, floor, isfinite, log10
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
    """A colour for the n-th thing; colours repeat after six."""
    return HUES[index % len(HUES)]


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
    """Names of horizontal bars from top to bottom, without an axis line."""
    axes.set_yticks(range(len(names)), labels=list(names))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")


def write_in_bar(axes: "Axes", bar: "Rectangle", texts: Sequence[str], character: float) -> None:
    """The first of some texts that fits in the middle of a bar, given the width of a character."""
    text = next((text for text in texts if (len(text) + 1) * character <= bar.get_width()), "")
    if text:
        x, y = bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height() / 2
        axes.text(x, y, text, ha="center", va="center", color=_ink_on(bar), fontsize=9.5)


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
