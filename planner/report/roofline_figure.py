"""A roofline figure as a file."""

from pathlib import Path

from planner.errors import InputError, Problem
from planner.report import canvas
from planner.report.chart_roofline import roofline_chart
from planner.report.folder import replace_files
from planner.results import RooflineSurvey


def write_roofline(survey: RooflineSurvey, path: Path) -> None:
    """Draw a roofline into a file: written aside, then moved into place.

    Args:
        survey: what to show.
        path: the file, whose suffix says how: .svg, or else PNG.

    Raises:
        InputError: it cannot be written.
    """
    with canvas.style():
        figure = roofline_chart(survey)
        content = canvas.svg(figure) if path.suffix.lower() == ".svg" else canvas.png(figure, {})
    try:
        replace_files(path.parent, {path.name: content})
    except OSError as error:
        reason = error.strerror or str(error)
        problem = Problem(str(path), "", f"the figure cannot be written: {reason}", "a file that may be written")
        raise InputError(problem) from None
