"""Single figures as files."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from planner.files import make_folder, write_bytes
from planner.report import canvas
from planner.report.chart_roofline import roofline_chart
from planner.report.chart_schedulers import schedulers_chart
from planner.report.chart_studies import front_chart, tornado_chart
from planner.results.roofline import RooflineSurvey
from planner.results.scheduling import ScheduledSeries, SchedulerComparison
from planner.results.studies import Front, Sensitivity

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_roofline(survey: RooflineSurvey, path: Path) -> None:
    """Draw a roofline into a file; raises as `write_figure` does."""
    write_figure(lambda: roofline_chart(survey), path)


def write_front(front: Front, path: Path) -> None:
    """Draw a front of cost into a file; raises as `write_figure` does."""
    write_figure(front_chart(front).draw, path)


def write_tornado(found: Sensitivity, path: Path) -> None:
    """Draw a sensitivity into a file; raises as `write_figure` does."""
    write_figure(tornado_chart(found).draw, path)


def write_schedulers(found: SchedulerComparison, series: Sequence[ScheduledSeries], path: Path) -> None:
    """Draw thresholds and queues over time into a file; raises as `write_figure` does."""
    write_figure(schedulers_chart(found, series).draw, path)


def write_figure(draw: "Callable[[], Figure]", path: Path) -> None:
    """Draw into a file, whose folder is made where it is not there.

    Args:
        path: the file, whose suffix says how: .svg, or else PNG.

    Raises:
        InputError: it cannot be written.
    """
    with canvas.style():
        figure = draw()
        content = canvas.svg(figure) if path.suffix.lower() == ".svg" else canvas.png(figure, {})
    make_folder(path.parent)
    write_bytes(path, content)
