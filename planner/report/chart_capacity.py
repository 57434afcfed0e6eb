"""Figures of capacity: throughput by threshold, capacity of roles by fleet, how busy everything is."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

from planner.report import canvas, formats, phrases
from planner.results.case import Case
from planner.results.plan import Fleet, Plan, Sweep
from planner.units import number, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEW = 0.005
"""A share of prompts that does not matter."""
Limit = tuple[float | None, ...]
MOST_CHARACTERS = 30
"""Of a label beside a bar, on one line."""
MOST_SIZES = 8
"""Pools whose sizes fit beside a bar."""
HEADROOM = 1.75
"""Height of the threshold figure over its peak; limits far above do not matter."""


def hues(plan: Plan) -> dict[str, int]:
    """A colour number for every pool and link, the same in all figures."""
    fleets: tuple[Fleet, ...] = (plan, *plan.baselines)
    pools = [pool.name for fleet in fleets for pool in fleet.pools]
    links = [link.name for fleet in fleets for link in fleet.links]
    return {name: index for index, name in enumerate(dict.fromkeys(pools + links))}


@dataclass(frozen=True)
class ThresholdChart:
    """Highest rate by threshold, in all and by each pool or link alone."""

    thresholds: tuple[float, ...]
    limits: tuple[tuple[str, int, Limit], ...]
    """Name, colour number, rate by threshold."""
    envelope: Limit
    chosen: float | None
    rate: float
    offload: float
    offload_ticks: tuple[tuple[float, float], ...]
    """Share of prompts above some round thresholds."""

    def draw(self) -> "Figure":
        figure = canvas.new_figure(4.6)
        axes = figure.subplots()
        top = HEADROOM * max(value or 0.0 for value in self.envelope)
        canvas.token_axis(axes, self.thresholds[0], self.thresholds[-1], "threshold [uncached tokens]")
        axes.set_ylim(0, top)
        axes.set_ylabel("capacity, requests per second")
        axes.grid(axis="y")
        for _, color, limit in self.limits:
            axes.plot(self.thresholds, _bars(limit), color=canvas.hue(color), linewidth=2.0)
        axes.plot(self.thresholds, _bars(self.envelope), color=canvas.INK, linewidth=7, alpha=0.3, zorder=1.9)
        _name_limits(axes, self, top)
        _mark_chosen(axes, self)
        _offload_axis(axes, self.offload_ticks)
        return figure


def threshold_chart(case: Case) -> ThresholdChart | None:
    """Throughput by threshold; None where there is no threshold to choose."""
    sweep, plan = case.plan.sweep, case.plan
    if sweep is None or len(sweep.threshold_tokens) < 2 or not sweep.limits_req_per_s:
        return None
    sweep = _decisive(sweep, plan.threshold_tokens)
    envelope = _envelope(tuple(sweep.limits_req_per_s.values()))
    if not any(envelope):
        return None
    colors = hues(plan)
    return ThresholdChart(
        thresholds=sweep.threshold_tokens,
        limits=tuple((name, colors.get(name, 0), limit) for name, limit in sweep.limits_req_per_s.items()),
        envelope=envelope,
        chosen=plan.threshold_tokens,
        rate=plan.max_throughput_req_per_s,
        offload=plan.offload_fraction,
        offload_ticks=_offload_ticks(sweep),
    )


def _decisive(sweep: Sweep, chosen: float | None) -> Sweep:
    """The part of a sweep in which the threshold divides the prompts at all, with the chosen one."""
    rows = zip(sweep.threshold_tokens, sweep.offload_fraction, strict=True)
    inside = [i for i, (t, share) in enumerate(rows) if FEW <= share <= 1 - FEW or t == chosen]
    if len(inside) < 2:
        return sweep
    part = slice(inside[0], inside[-1] + 1)
    return Sweep(
        threshold_tokens=sweep.threshold_tokens[part],
        offload_fraction=sweep.offload_fraction[part],
        limits_req_per_s={name: limit[part] for name, limit in sweep.limits_req_per_s.items()},
    )


def _envelope(limits: Sequence[Limit]) -> Limit:
    """The least limit at every threshold."""
    columns = ([value for value in column if value is not None] for column in zip(*limits, strict=True))
    return tuple(min(column) if column else None for column in columns)


def _offload_ticks(sweep: Sweep) -> tuple[tuple[float, float], ...]:
    thresholds, shares = sweep.threshold_tokens, sweep.offload_fraction
    ticks = canvas.round_ticks(thresholds[0], thresholds[-1])
    return tuple((tick, formats.interpolated(tick, thresholds, shares) or 0.0) for tick in ticks)


def _bars(limit: Limit) -> list[float]:
    return [float("nan") if value is None else value for value in limit]


def _name_limits(axes: "Axes", chart: ThresholdChart, top: float) -> None:
    """Each limit's name where its line is clearest of the others."""
    curves = [limit for _, _, limit in chart.limits]
    for index, (name, color, limit) in enumerate(chart.limits):
        others = [other for i, other in enumerate(curves) if i != index]
        where = _clearest(chart, limit, others, top)
        if where is not None:
            rise = ((limit[where + 1] or 0.0) - (limit[where - 1] or 0.0)) / top
            side = "center" if abs(rise) < 0.004 else "left" if rise < 0 else "right"
            offset = ({"center": 0, "left": 7, "right": -7}[side], 13)
            y = limit[where] or 0.0
            canvas.halo(
                axes, chart.thresholds[where], y, name, color=canvas.hue(color), ha=side, offset=offset, bbox=None
            )
    high = [
        f"{name} alone: {formats.figure(_least(limit))} req/s or more"
        for name, _, limit in chart.limits
        if _least(limit) > top
    ]
    axes.text(0.01, 0.98, "\n".join(high), transform=axes.transAxes, va="top", color=canvas.GREY, fontsize=9.5)


def _least(limit: Limit) -> float:
    return min((value for value in limit if value is not None), default=0.0)


def _clearest(chart: ThresholdChart, limit: Limit, others: Sequence[Limit], top: float) -> int | None:
    """Index at which a line is farthest from the other lines, the frame and the chosen threshold."""
    low, span = log(chart.thresholds[0]), log(chart.thresholds[-1] / chart.thresholds[0])
    best, where = 0.04, None
    for i, (tokens, value) in enumerate(zip(chart.thresholds, limit, strict=True)):
        across = (log(tokens) - low) / span
        if value is None or not 0.10 <= across <= 0.90:
            continue
        gaps = [abs(value - (other[i] or 0.0)) / top for other in others if other[i] is not None]
        gaps += [0.95 - value / top, value / top]
        if chart.chosen:
            gaps.append(abs(log(tokens / chart.chosen)) / span)
        if min(gaps) > best + 1e-6:
            best, where = min(gaps), i
    return where


def _mark_chosen(axes: "Axes", chart: ThresholdChart) -> None:
    if chart.chosen is None or not chart.thresholds[0] <= chart.chosen <= chart.thresholds[-1]:
        return
    axes.vlines(chart.chosen, 0, chart.rate, color=canvas.GREY, linestyle=(0, (4, 3)), linewidth=1.2)
    axes.plot([chart.chosen], [chart.rate], "o", color=canvas.INK, markersize=8, markeredgecolor="white")
    text = f"{formats.figure(chart.rate)} req/s at {number(chart.chosen)} tokens\n{percent(chart.offload)} offloaded"
    right = chart.chosen > (chart.thresholds[0] * chart.thresholds[-1]) ** 0.5
    canvas.halo(
        axes,
        chart.chosen,
        0.0,
        text,
        ha="right" if right else "left",
        va="bottom",
        offset=(-8 if right else 8, 10),
        fontweight="bold",
    )


def _offload_axis(axes: "Axes", ticks: Sequence[tuple[float, float]]) -> None:
    top = axes.secondary_xaxis("top")
    top.set_xticks([tokens for tokens, _ in ticks], labels=[percent(share, 0) for _, share in ticks])
    top.minorticks_off()
    top.set_xlabel("share of prompts above the threshold", labelpad=6)
    top.spines["top"].set_visible(False)


@dataclass(frozen=True)
class FleetCapacity:
    """Capacity of the roles of a fleet, and the rate that results."""

    label: str
    prefill: tuple[tuple[str, int, float], ...]
    """Pool, colour number, requests of its kind per second."""
    decode: tuple[tuple[str, int, float], ...]
    rate: float
    colocated: tuple[tuple[str, int, float], ...] = ()

    @property
    def rows(self) -> dict[str, tuple[tuple[str, int, float], ...]]:
        """Pools by what they do; a fleet has those that prefill and decode, or those that do both."""
        if self.colocated:
            return {"colocated": self.colocated}
        return {"prefill": self.prefill, "decode": self.decode}


@dataclass(frozen=True)
class ThetaChart:
    """Capacity (Theta) of prefill and decode pools in every fleet beside the highest rate."""

    fleets: tuple[FleetCapacity, ...]

    def draw(self) -> "Figure":
        parts = {name: color for f in self.fleets for row in f.rows.values() for name, color, _ in row}
        figure = canvas.new_figure(1.3 + 0.85 * len(self.fleets) + canvas.legend_in(list(parts)))
        axes = figure.subplots()
        widest = max(sum(c for *_, c in row) for f in self.fleets for row in f.rows.values())
        named = set[str]()
        for y, fleet in enumerate(self.fleets):
            for role in fleet.rows:
                shift = {"prefill": -0.19, "decode": 0.19}.get(role, 0.0)
                named |= self._draw_row(axes, y + shift, fleet, widest, role)
            axes.vlines(fleet.rate, y - 0.38, y + 0.37, color=canvas.INK, linewidth=2.5)
            text = f"{formats.figure(fleet.rate)} req/s in all" if y == 0 else formats.figure(fleet.rate)
            side = "center" if fleet.rate > 0.2 * widest else "left"
            axes.text(fleet.rate, y - 0.385, text, ha=side, va="bottom", fontweight="bold")
        canvas.bar_axis(axes, [fleet.label for fleet in self.fleets])
        axes.set_ylim(len(self.fleets) - 0.45, -0.72)
        axes.set_xlim(0, 1.22 * widest)
        axes.set_xlabel("capacity [requests of its kind per second]")
        if named < parts.keys():
            canvas.legend_of_patches(figure, parts)
        return figure

    @staticmethod
    def _draw_row(axes: "Axes", y: float, fleet: FleetCapacity, widest: float, role: str) -> set[str]:
        """Bars one after the other; what is returned are the names that could be written into one."""
        parts = fleet.rows[role]
        left, named = 0.0, set[str]()
        for name, color, capacity in parts:
            bar = axes.barh(y, capacity, height=0.34, left=left, color=canvas.hue(color), edgecolor="white")[0]
            texts = [f"{name} {formats.figure(capacity)}", name]
            if canvas.write_in_bar(axes, bar, texts, canvas.CHARACTER * 1.22 * widest, fleet.rate):
                named.add(name)
            left += capacity
        if parts:
            canvas.beside(axes, left, y, role, canvas.GREY)
        return named


def theta_chart(case: Case) -> ThetaChart | None:
    """Capacity per role for the plan and every baseline; None without one to compare with."""
    colors = hues(case.plan)
    fleets: list[tuple[str, Fleet]] = [("plan", case.plan), *((b.name, b) for b in case.plan.baselines)]
    rows = tuple(
        FleetCapacity(
            label=f"{name}\n{_sizes(fleet)}",
            prefill=_role(fleet, "prefill", colors),
            decode=_role(fleet, "decode", colors),
            colocated=_role(fleet, "colocated", colors),
            rate=fleet.most_req_per_s,
        )
        for name, fleet in fleets
    )
    has_capacity = any(c > 0 for row in rows for parts in row.rows.values() for *_, c in parts)
    return ThetaChart(rows) if case.plan.baselines and has_capacity else None


def _sizes(fleet: Fleet) -> str:
    """Instances by pool, or where there are too many pools, of all."""
    n = len(fleet.pools)
    return phrases.sizes(fleet) if n <= MOST_SIZES else f"{sum(p.n_instances for p in fleet.pools)} instances"


def _role(fleet: Fleet, role: str, colors: dict[str, int]) -> tuple[tuple[str, int, float], ...]:
    return tuple(
        (p.name, colors[p.name], p.capacity_req_per_s) for p in fleet.pools if p.role == role and p.n_instances
    )


@dataclass(frozen=True)
class UtilisationChart:
    """Utilisation of every pool and link at the operating point."""

    rows: tuple[tuple[str, int, float, str], ...]
    """Label, colour number, utilisation, what of what."""
    rate: float

    def draw(self) -> "Figure":
        figure = canvas.new_figure(1.2 + 0.5 * len(self.rows))
        axes = figure.subplots()
        for y, (_, color, busy, _) in enumerate(self.rows):
            axes.barh(y, 100.0, height=0.6, color="#F1F1F1")
            axes.barh(y, 100 * busy, height=0.6, color=canvas.hue(color))
        canvas.bar_axis(axes, [label for label, *_ in self.rows])
        right = axes.secondary_yaxis("right")  # the layout makes room for labels of an axis
        right.set_yticks(range(len(self.rows)), [f"{percent(busy)}   {text}" for *_, busy, text in self.rows])
        right.tick_params(length=0)
        right.spines["right"].set_visible(False)
        axes.set_xlim(0, 100)
        axes.set_xticks([0, 25, 50, 75, 100], labels=["0", "25", "50", "75", "100 %"])
        axes.spines["bottom"].set_bounds(0, 100)
        axes.set_xlabel(f"busy at {formats.figure(self.rate)} requests per second", loc="left")
        return figure


def utilisation_chart(case: Case) -> UtilisationChart | None:
    """Pools in use and links, each with its share of capacity."""
    plan, colors = case.plan, hues(case.plan)
    pools = [
        (
            _named(p.name, f"{p.n_instances} x {p.n_accelerators // p.n_instances} {p.hardware}"),
            colors[p.name],
            p.utilization,
            f"{formats.figure(p.offered_req_per_s)} of {formats.figure(p.capacity_req_per_s)} req/s",
        )
        for p in plan.pools
        if p.n_instances
    ]
    links = [
        (
            _named(link.name, phrases.ports(link)),
            colors[link.name],
            link.utilization,
            f"{formats.figure(link.mean_gbps)} of {number(link.capacity_gbps)} Gbps",
        )
        for link in plan.links
        if link.capacity_gbps > 0
    ]
    return UtilisationChart((*pools, *links), plan.throughput_req_per_s) if pools else None


def _named(name: str, what: str) -> str:
    """A name and what it has, on a line of its own where it is long."""
    return f"{name}, {what}" if len(name) + len(what) < MOST_CHARACTERS else f"{name}\n{what}"
