"""The report of predictions against measurements as a folder of Markdown and figures."""

from collections.abc import Callable
from pathlib import Path

from planner.report.chart_fidelity import curves_chart, scatter_chart, spread_chart
from planner.report.fidelity_markdown import fidelity_markdown
from planner.report.figures import Chart
from planner.report.folder import REPORT, check_folder, write_folder
from planner.results import FidelitySurvey

CHARTS: dict[str, Callable[[FidelitySurvey], Chart | None]] = {
    "scatter": scatter_chart,
    "spread": spread_chart,
    "prefill": curves_chart,
}


def write_fidelity_report(survey: FidelitySurvey, out_dir: Path) -> None:
    """Write report.md and figures/*.png into a folder.

    Args:
        survey: what to report.
        out_dir: the folder; made where it does not exist.

    Raises:
        InputError: the folder cannot be written.
    """
    shown = fidelity_charts(survey)
    write_folder(out_dir, {REPORT: fidelity_markdown(survey, shown)}, shown)


def check_fidelity_report(survey: FidelitySurvey, out_dir: Path) -> list[str]:
    """Differences of a folder from what `write_fidelity_report` would leave, a line each."""
    shown = fidelity_charts(survey)
    return check_folder(out_dir, {REPORT: fidelity_markdown(survey, shown)}, shown)


def fidelity_charts(survey: FidelitySurvey) -> dict[str, Chart]:
    """Contents of the figures, by file name without suffix; only those with something to show."""
    found = ((name, chart(survey)) for name, chart in CHARTS.items())
    return {name: chart for name, chart in found if chart is not None}
