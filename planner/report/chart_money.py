"""Figures of money: the bill of every fleet, and the gain by the price of the fast accelerator."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from planner.report import canvas, formats, phrases
from planner.report.chart_capacity import hues
from planner.results.case import Case
from planner.results.plan import Fleet
from planner.units import number, usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRAFFIC = "traffic"


@dataclass(frozen=True)
class Bill:
    """The rent of one fleet, item by item."""

    label: str
    items: tuple[tuple[str, int, float], ...]
    """Pool or link, colour number, USD per hour."""
    usd_per_hour: float
    usd_per_million_input_tokens: float | None


@dataclass(frozen=True)
class CostChart:
    """Cost per hour by pool and link, and per million input tokens, for plan and baselines."""

    bills: tuple[Bill, ...]

    def draw(self) -> "Figure":
        colors = {name: color for bill in self.bills for name, color, _ in bill.items}
        figure = canvas.new_figure(1.5 + 0.55 * len(self.bills) + canvas.legend_in(list(colors)))
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=[2.1, 1])
        most = max(bill.usd_per_hour for bill in self.bills) or 1.0
        for y, bill in enumerate(self.bills):
            self._draw_bill(left, y, bill, most)
            if bill.usd_per_million_input_tokens is not None:
                right.barh(y, bill.usd_per_million_input_tokens, height=0.6, color=canvas.GREY)
                canvas.beside(
                    right, bill.usd_per_million_input_tokens, y, formats.figure(bill.usd_per_million_input_tokens)
                )
        canvas.bar_axis(left, [bill.label for bill in self.bills])
        canvas.bar_axis(right, [bill.label for bill in self.bills])
        right.tick_params(axis="y", labelleft=False)
        left.set_xlim(0, 1.24 * most)
        right.set_xlim(0, 1.3 * max(bill.usd_per_million_input_tokens or 0.0 for bill in self.bills) or 1.0)
        left.set_xlabel("USD per hour")
        right.set_xlabel("USD per million\ninput tokens")
        canvas.legend_of_patches(figure, colors)
        return figure

    @staticmethod
    def _draw_bill(axes: "Axes", y: float, bill: Bill, most: float) -> None:
        start = 0.0
        for _, color, cost_usd in bill.items:
            bar = axes.barh(y, cost_usd, height=0.6, left=start, color=canvas.hue(color), edgecolor="white")[0]
            canvas.write_in_bar(axes, bar, [number(cost_usd)], 1.65 * canvas.CHARACTER * most)
            start += cost_usd
        canvas.beside(axes, start, y, usd(bill.usd_per_hour))


def cost_chart(case: Case) -> CostChart | None:
    """The bills of all fleets that have one; None when the plan has none."""
    fleets: list[tuple[str, Fleet]] = [("plan", case.plan), *((b.name, b) for b in case.plan.baselines)]
    if not case.plan.cost.usd_per_hour:
        return None
    colors = hues(case.plan)
    colors[TRAFFIC] = len(colors)
    bills = [_bill(name, fleet, colors) for name, fleet in fleets]
    return CostChart(tuple(bill for bill in bills if bill is not None))


def _bill(name: str, fleet: Fleet, colors: dict[str, int]) -> Bill | None:
    total = fleet.cost.usd_per_hour
    if total is None:
        return None
    rents = [(pool.name, pool.usd_per_hour) for pool in fleet.pools]
    rents += [(link.name, link.usd_per_hour) for link in fleet.links]
    rents.append((TRAFFIC, phrases.traffic_charges_usd_per_hour(fleet)))
    return Bill(
        label=name,
        items=tuple((what, colors[what], usd) for what, usd in rents if usd),
        usd_per_hour=total,
        usd_per_million_input_tokens=fleet.cost.usd_per_million_input_tokens,
    )


@dataclass(frozen=True)
class PriceRatioChart:
    """Gain of the plan over a homogeneous fleet for the same money, by price ratio."""

    long_hardware: str
    home_hardware: str
    ratios: tuple[float, ...]
    curves: tuple[tuple[str, int, tuple[float, ...], float | None], ...]
    """Name, colour number, gain by ratio, break-even ratio."""
    stated: float

    def draw(self) -> "Figure":
        figure = canvas.new_figure(4.2)
        axes = figure.subplots()
        evens = [even for *_, even in self.curves if even is not None]
        reach = [*self.ratios, self.stated, *(even for even in evens if even < 2 * self.ratios[-1])]
        axes.set_xlim(min(reach) - 0.05, max(reach) + 0.1)
        gains = [100 * gain for _, _, values, _ in self.curves for gain in values]
        span = max(*gains, 0.0) - min(*gains, 0.0) or 1.0
        axes.set_ylim(min(*gains, 0.0) - 0.2 * span, max(*gains, 0.0) + 0.12 * span)
        axes.axhline(0, color=canvas.INK, linewidth=1.2)
        for index, curve in enumerate(self.curves):
            self._draw_curve(axes, index, curve)
        axes.axvline(self.stated, color=canvas.GREY, linestyle=(0, (4, 3)), linewidth=1.2)
        low = axes.get_ylim()[0]
        canvas.halo(axes, self.stated, low, f"this scenario: {self.stated:.2f}", ha="left", va="bottom", offset=(5, 6))
        axes.grid(axis="y")
        axes.set_xlabel(canvas.two_line_label(f"price of {self.long_hardware} over price of {self.home_hardware}", 80))
        axes.set_ylabel(canvas.two_line_label(f"more requests than {self.home_hardware} alone [%]", 40))
        figure.legend(loc="outside upper left", title="for the same", alignment="left", ncols=2)
        return figure

    def _draw_curve(self, axes: "Axes", index: int, curve: tuple[str, int, tuple[float, ...], float | None]) -> None:
        name, color, values, even = curve
        paint = canvas.hue(color)
        look: dict[str, Any] = {"color": paint, "linestyle": canvas.dashes(index), "linewidth": 2.2}
        percents = [100 * value for value in values]
        low, high = axes.get_xlim()
        shown = even if even is not None and low <= even <= high else None
        label = name if shown is None else f"{name}; break-even {shown:.2f}"
        axes.stairs(percents, _edges(self.ratios, even), baseline=None, label=label, **look)
        if shown is not None:
            axes.plot([shown], [0], "D", color=paint, markersize=8, markeredgecolor="white", zorder=4)


def _edges(ratios: Sequence[float], even: float | None) -> list[float]:
    """Where each gain begins and ends: half way to its neighbours, or at the break-even, which is known exactly."""
    middles = [
        even if even is not None and before < even <= after else (before + after) / 2
        for before, after in pairwise(ratios)
    ]
    return [ratios[0], *middles, max(ratios[-1], middles[-1] + 0.02)]


def price_ratio_chart(case: Case) -> PriceRatioChart | None:
    """Gain by price ratio; None where no such comparison exists."""
    prices = case.price_ratios
    if prices is None or len(prices.ratios) < 2:
        return None
    curves = [("rent of the accelerators", 0, prices.equal_cost_gain, prices.break_even_cost)]
    if prices.equal_bill_gain is not None:
        curves.append(("whole bill, link included", 1, prices.equal_bill_gain, prices.break_even_bill))
    return PriceRatioChart(
        long_hardware=prices.long_hardware,
        home_hardware=prices.home_hardware,
        ratios=prices.ratios,
        curves=tuple(curves),
        stated=prices.stated_ratio,
    )
