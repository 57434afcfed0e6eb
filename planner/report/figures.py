"""The figures of a report: what is plotted, told apart from how, so that a report's age shows without drawing."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from planner.report import canvas
from planner.report.chart_break_even import break_even_chart
from planner.report.chart_capacity import theta_chart, threshold_chart, utilisation_chart
from planner.report.chart_executed import executed_chart, scheduling_chart
from planner.report.chart_money import cost_chart, price_ratio_chart
from planner.report.chart_periods import hours_chart, periods_chart, schedule_chart
from planner.report.chart_requests import lengths_chart, prefill_chart
from planner.report.chart_studies import front_chart, tornado_chart
from planner.report.markdown_template import plain_record
from planner.results.case import Case

if TYPE_CHECKING:
    from dataclasses import Field

    from matplotlib.figure import Figure

DIGITS = 5
"""Significant digits of plotted data that count; the rest differs between machines."""
NOTHING = 1e-9
"""Plotted data nearer to zero than this is zero."""
LOOK = 2
"""To be raised when figures are drawn another way, so that those drawn before are stale."""
PNG_KEY = "planner-data"
"""Entry of a PNG that holds the digest of what it shows."""
NAME_KEY = "planner-figure"
"""Entry of a PNG that holds its name in its report, by which a report knows its own figures from others'."""


class Chart(Protocol):
    """Everything a figure shows, as a frozen dataclass."""

    __dataclass_fields__: "ClassVar[dict[str, Field[Any]]]"

    def draw(self) -> "Figure":
        """The figure; call it within `canvas.style`."""


CHARTS: dict[str, Callable[[Case], Chart | None]] = {
    "periods": periods_chart,
    "schedule": schedule_chart,
    "hours": hours_chart,
    "threshold": threshold_chart,
    "theta": theta_chart,
    "utilisation": utilisation_chart,
    "executed": executed_chart,
    "schedulers": scheduling_chart,
    "cost": cost_chart,
    "price_ratio": price_ratio_chart,
    "break_even": break_even_chart,
    "lengths": lengths_chart,
    "prefill": prefill_chart,
}


def charts(case: Case) -> dict[str, Chart]:
    """Contents of a case's figures, by file name without suffix; only those that make sense for it."""
    case = plain_record(case)
    found = {name: chart(case) for name, chart in CHARTS.items()}
    found |= {f"front_{item.front.against}": front_chart(item.front) for item in case.fronts}
    found |= {"sensitivity": tornado_chart(case.sensitivity)} if case.sensitivity else {}
    return {name: chart for name, chart in found.items() if chart is not None}


def digest(chart: Chart) -> str:
    """A fingerprint of what a figure shows: the same on every machine and with every version of matplotlib."""
    shown = {"look": LOOK, "chart": type(chart).__name__, "data": _rounded(asdict(chart))}
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return "0" if abs(value) < NOTHING else f"{value:.{DIGITS - 1}e}"
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value


def images(shown: Mapping[str, Chart]) -> dict[str, bytes]:
    """Figures as PNGs that know what they show, by the same names."""
    found = {}
    for name, chart in shown.items():
        with canvas.style():
            figure = chart.draw()
        found[name] = canvas.png(figure, {PNG_KEY: digest(chart), NAME_KEY: name})
    return found
