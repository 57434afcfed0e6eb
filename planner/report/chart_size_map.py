"""Where prefill and decode apart are worth it, as a figure: a panel for each model and accelerator."""

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from planner.report import canvas
from planner.results.size_map import SizeMap, SizeMapCell
from planner.units import MILLI, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STRONG = 0.5
"""Gain from which on colours no longer deepen [fraction]."""
PER_ROW = 2
ROW_IN, HEAD_IN = 0.42, 1.5
DARK = 0.55
"""Part of the strongest colour from which on text on it is white."""


@dataclass(frozen=True)
class Square:
    """One demand in a panel."""

    column: int
    row: int
    text: str
    gain: float
    """What its colour shows [fraction]; 0 where nothing can be compared."""


@dataclass(frozen=True)
class Panel:
    """A model on an accelerator."""

    title: str
    squares: tuple[Square, ...]


@dataclass(frozen=True)
class SizeMapChart:
    """Gains over prompt length and limit on the time per token."""

    columns: tuple[str, ...]
    rows: tuple[str, ...]
    panels: tuple[Panel, ...]

    def draw(self) -> "Figure":
        """The figure; call it within `canvas.style`."""
        n_rows = -(-len(self.panels) // PER_ROW)
        figure = canvas.new_figure(n_rows * (HEAD_IN + ROW_IN * len(self.rows)))
        axes = figure.subplots(n_rows, PER_ROW, squeeze=False).ravel()
        for place, panel in zip(axes, self.panels, strict=False):
            self._draw(place, panel)
        for place in axes[len(self.panels) :]:
            place.set_visible(False)
        return figure

    def _draw(self, axes: "Axes", panel: Panel) -> None:
        from matplotlib.patches import Rectangle

        for square in panel.squares:
            part = max(-1.0, min(square.gain / STRONG, 1.0))
            hue = canvas.HUES[0] if part > 0 else canvas.HUES[1]
            box = Rectangle((square.column, square.row), 1, 1, facecolor=hue, alpha=abs(part), edgecolor="none")
            axes.add_patch(box)
            ink = "white" if abs(part) > DARK else canvas.INK
            axes.text(square.column + 0.5, square.row + 0.5, square.text, ha="center", va="center", color=ink, size=9)
        axes.set_xlim(0, len(self.columns))
        axes.set_ylim(0, len(self.rows))
        axes.set_xticks([i + 0.5 for i in range(len(self.columns))], self.columns)
        axes.set_yticks([i + 0.5 for i in range(len(self.rows))], self.rows)
        axes.tick_params(length=0)
        axes.set_title(panel.title)
        axes.set_xlabel("mean prompt [tokens]")
        axes.set_ylabel("TPOT limit [ms]")


def size_map_chart(found: SizeMap) -> SizeMapChart:
    """Contents of a map's figure."""
    prompts = sorted({cell.input_tokens for cell in found.cells})
    limits = sorted({cell.tpot_s for cell in found.cells})
    kinds = dict.fromkeys((cell.model, cell.hardware) for cell in found.cells)
    at = {(c.model, c.hardware, c.input_tokens, c.tpot_s): c for c in found.cells}
    panels = (
        Panel(
            f"{model} on {hardware}",
            tuple(
                Square(i, k, gain_text(cell), cell.gain or 0.0)
                for (i, prompt), (k, limit) in product(enumerate(prompts), enumerate(limits))
                if (cell := at.get((model, hardware, prompt, limit))) is not None
            ),
        )
        for model, hardware in kinds
    )
    columns = tuple(f"{prompt:,.0f}" for prompt in prompts)
    return SizeMapChart(columns, tuple(number(limit / MILLI) for limit in limits), tuple(panels))


def gain_text(cell: SizeMapCell) -> str:
    """A gain in a word or two; with a question mark where a run does not show that all promises are kept."""
    if cell.colocated is None and cell.disaggregated is None:
        return "neither"
    mark = "" if cell.is_kept else "?"
    if cell.gain is None:
        return f"only {'apart' if cell.colocated is None else 'together'}{mark}"
    if cell.gain == 0:
        return f"same cost{mark}"
    return f"{100 * cell.gain:+.0f} %{mark}".replace("-", "−")
