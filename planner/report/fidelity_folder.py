"""The report of predictions against measurements as a folder of Markdown and figures."""

import shlex
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from planner.markdown_text import as_code, code, unescaped
from planner.report import fidelity_tables as cells
from planner.report import formats
from planner.report.chart_fidelity import curves_chart, scatter_chart, spread_chart
from planner.report.figures import Chart
from planner.report.folder import REPORT, check_folder, write_folder
from planner.report.markdown_template import escaped_record, rendered
from planner.report.table import Table
from planner.results.fidelity import LatencyError
from planner.results.fidelity_survey import FidelitySurvey, HardwareScore, Scored, ScoredCurve
from planner.units import DASH, number, percent

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


TEMPLATE = "fidelity.md.jinja"
SHORT_DIGEST = 12
ERROR_HEADINGS = (">TTFT mean", ">median", ">bias", ">TPOT mean", ">median", ">bias")


def fidelity_markdown(survey: FidelitySurvey, figures: Collection[str]) -> str:
    """The report; figures are referred to as `figures/NAME.png`.

    Returns:
        Markdown that ends in one newline and is the same for the same survey; it holds no measured value that is not
        published in a profile.
    """
    survey = escaped_record(survey)
    return rendered(
        TEMPLATE,
        survey=survey,
        fidelity=survey.fidelity,
        figures=figures,
        formats=formats,
        percent=percent,
        error_table=error_table(survey),
        files_table=files_table(survey),
        groups_table=groups_table(survey),
        hardware_table=hardware_table(survey),
        stacks_table=stacks_table(survey),
        curves_table=curves_table(survey),
        curve_points_table=curve_points_table(survey),
        contradictions_table=contradictions_table(survey),
        worst_table=cells.worst_table(survey.fidelity.points),
        refused_table=cells.refused_table(survey.fidelity),
        command=command(survey),
    )


def error_table(survey: FidelitySurvey) -> Table:
    """Errors of each file in a line."""
    rows = (
        [as_code(file.name), f"{file.n_predicted:,} of {file.scored.n:,}", *_errors(file.scored)]
        for file in survey.files
    )
    return Table.untitled(["points", ">predicted", *ERROR_HEADINGS], rows)


def files_table(survey: FidelitySurvey) -> Table:
    """Table of what was measured, and whose it is; aggregates only."""
    rows = (
        [
            as_code(file.name),
            file.what or DASH,
            ", ".join(file.models),
            ", ".join(file.hardware),
            ", ".join(file.frameworks),
            file.source or DASH,
            f"`{file.sha256[:SHORT_DIGEST]}`",
        ]
        for file in survey.files
    )
    return Table.untitled(["file", "what", "models", "accelerators", "frameworks", "from", "sha256"], rows)


def groups_table(survey: FidelitySurvey) -> Table:
    """Errors by model, accelerator and framework."""
    headings = ["model", "hardware", "framework", "mode", ">points", *ERROR_HEADINGS]
    rows = (
        [g.model, g.hardware, g.framework, g.mode, cells.of_points(g), *_latencies(g.ttft, g.tpot)]
        for g in survey.fidelity.groups
    )
    return Table.untitled(headings, rows)


def hardware_table(survey: FidelitySurvey) -> Table:
    """Errors on each accelerator, then what others are said to reach."""
    headings = ["points", ">TTFT mean", ">cleared", ">median", ">TPOT mean", ">cleared", ">median", ">answered"]
    rows = [_hardware_cells(row) for row in survey.by_hardware]
    rows += [[peer.what, peer.ttft, "", "", peer.tpot, "", "", peer.answered] for peer in survey.peers]
    return Table.untitled(headings, rows)


def _hardware_cells(row: HardwareScore) -> list[str]:
    cleared = row.cleared or Scored(n=0, ttft=LatencyError(), tpot=LatencyError())
    pairs = ((row.scored.ttft, cleared.ttft), (row.scored.tpot, cleared.tpot))
    errors = [[_mean(own), _mean(others), percent(own.median_abs_error)] for own, others in pairs]
    return [row.hardware, *errors[0], *errors[1], f"{row.n_predicted:,} of {row.scored.n:,}"]


def stacks_table(survey: FidelitySurvey) -> Table:
    """Each shipped stack on what it was fitted to, and on what it did not see."""
    rows = []
    for stack in survey.stacks:
        parts = {
            "in sample": stack.in_sample,
            f"{len(stack.models)} models, each held out": stack.held_out_models,
            f"{len(stack.hardware)} accelerators, each held out": stack.held_out_hardware,
        }
        rows += [[stack.stack, name, number(one.n), *_errors(one)] for name, one in parts.items() if one]
    return Table.untitled(["stack", "points", ">n", *ERROR_HEADINGS], rows)


def curves_table(survey: FidelitySurvey) -> Table:
    """Mean errors of bare prefills, a line per curve."""
    rows = (
        [
            curve.model,
            f"{curve.n_accelerators} x {curve.hardware}",
            curve.precision or DASH,
            curve.stack,
            _origin(curve),
            number(len(curve.points)),
            percent(sum(abs(point.error) for point in curve.points) / len(curve.points)),
            curve.note or ("fitted to" if curve.is_fitted else "not fitted to"),
        ]
        for curve in survey.curves
    )
    return Table.untitled(["model", "instance", "weights", "stack", "from", ">lengths", ">mean error", ""], rows)


def _origin(curve: ScoredCurve) -> str:
    return curve.origin if curve.is_published else as_code(curve.origin)


def curve_points_table(survey: FidelitySurvey) -> Table:
    """Every length; seconds only where a profile publishes them."""
    rows = (
        [
            curve.model,
            curve.hardware,
            f"{point.tokens:,.0f}",
            formats.figure(point.measured_s) if curve.is_published else DASH,
            formats.figure(point.predicted_s) if curve.is_published else DASH,
            formats.signed_percent(point.error) if curve.is_published else whole_percent(point.error),
        ]
        for curve in survey.curves
        for point in curve.points
    )
    return Table.untitled(["model", "hardware", ">tokens", ">measured s", ">predicted s", ">error"], rows)


def whole_percent(fraction: float) -> str:
    """A signed difference to the whole per cent: coarse, so that what it is a difference to is not given away.

    >>> whole_percent(0.1712), whole_percent(-0.0316), whole_percent(0.004)
    ('+17 %', '-3 %', '0 %')
    """
    rounded = round(100 * fraction)
    return f"{rounded:+d} %" if rounded else "0 %"


def contradictions_table(survey: FidelitySurvey) -> Table:
    """Known contradictions and what they cost."""
    headings = ["points", ">n", ">their TTFT mean", ">TPOT mean", ">without them: TTFT mean", ">TPOT mean"]
    rows = [[doubt.what, number(doubt.own.n), *_means(doubt.own), *_means(doubt.others)] for doubt in survey.doubts]
    if survey.without_doubts is not None and rows:
        rows.append(["all of these", "", "", "", *_means(survey.without_doubts)])
    return Table.untitled(headings, rows)


def command(survey: FidelitySurvey) -> str:
    """Command that regenerates the report, in its folder."""
    return code(shlex.join(["planner", "fidelity", *(unescaped(file.name) for file in survey.files), "--report", "."]))


def _errors(scored: Scored) -> list[str]:
    return _latencies(scored.ttft, scored.tpot)


def _latencies(ttft: LatencyError, tpot: LatencyError) -> list[str]:
    return [*cells.error_cells(ttft), *cells.error_cells(tpot)]


def _means(scored: Scored) -> Iterator[str]:
    yield from (_mean(scored.ttft), _mean(scored.tpot))


def _mean(error: LatencyError) -> str:
    return percent(error.mean_abs_error)
