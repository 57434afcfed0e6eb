"""Predictions against measurements as a report in Markdown."""

import re
import shlex
from collections.abc import Collection, Iterator
from importlib.resources import files
from types import SimpleNamespace

from planner.markdown_text import as_code, code, unescaped
from planner.report import fidelity_tables as cells
from planner.report import formats
from planner.report.markdown_tables import table
from planner.report.record_text import escaped_record
from planner.results import FidelitySurvey, HardwareScore, LatencyError, Scored, ScoredCurve
from planner.units import DASH, number, percent

TEMPLATE = "fidelity.md.jinja"
SHORT_DIGEST = 12
ERROR_HEADINGS = (">TTFT mean", ">median", ">bias", ">TPOT mean", ">median", ">bias")


def fidelity_markdown(survey: FidelitySurvey, figures: Collection[str]) -> str:
    """The report; figures are referred to as `figures/NAME.png`.

    Args:
        survey: what to report.
        figures: names of the figures there are.

    Returns:
        Markdown that ends in one newline and is the same for the same survey; it holds no measured value that is not
        published in a profile.
    """
    from jinja2 import Environment, StrictUndefined

    survey = escaped_record(survey)
    environment = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, autoescape=False)
    template = files("planner.report").joinpath("templates", TEMPLATE).read_text(encoding="utf-8")
    text = environment.from_string(template).render(
        survey=survey, fidelity=survey.fidelity, figures=figures, tables=TABLES, formats=formats, percent=percent
    )
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def headline(survey: FidelitySurvey) -> str:
    """Errors of each file in a line."""
    rows = (
        [as_code(file.name), f"{file.n_predicted:,} of {file.scored.n:,}", *_errors(file.scored)]
        for file in survey.files
    )
    return table(["points", ">predicted", *ERROR_HEADINGS], rows)


def files_table(survey: FidelitySurvey) -> str:
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
    return table(["file", "what", "models", "accelerators", "frameworks", "from", "sha256"], rows)


def groups(survey: FidelitySurvey) -> str:
    """Errors by model, accelerator and framework."""
    headings = ["model", "hardware", "framework", "mode", ">points", *ERROR_HEADINGS]
    rows = (
        [g.model, g.hardware, g.framework, g.mode, cells.of_points(g), *_latencies(g.ttft, g.tpot)]
        for g in survey.fidelity.groups
    )
    return table(headings, rows)


def by_hardware(survey: FidelitySurvey) -> str:
    """Errors on each accelerator, then what others are said to reach."""
    headings = ["points", ">TTFT mean", ">cleared", ">median", ">TPOT mean", ">cleared", ">median", ">answered"]
    rows = [_hardware_cells(row) for row in survey.by_hardware]
    rows += [[peer.what, peer.ttft, "", "", peer.tpot, "", "", peer.answered] for peer in survey.peers]
    return table(headings, rows)


def _hardware_cells(row: HardwareScore) -> list[str]:
    cleared = row.cleared or Scored(n=0, ttft=LatencyError(), tpot=LatencyError())
    pairs = ((row.scored.ttft, cleared.ttft), (row.scored.tpot, cleared.tpot))
    errors = [[_mean(own), _mean(others), percent(own.median_abs_error)] for own, others in pairs]
    return [row.hardware, *errors[0], *errors[1], f"{row.n_predicted:,} of {row.scored.n:,}"]


def stacks(survey: FidelitySurvey) -> str:
    """Each shipped stack on what it was fitted to, and on what it did not see."""
    rows = []
    for stack in survey.stacks:
        parts = {
            "in sample": stack.in_sample,
            f"{len(stack.models)} models, each held out": stack.held_out_models,
            f"{len(stack.hardware)} accelerators, each held out": stack.held_out_hardware,
        }
        rows += [[stack.stack, name, number(one.n), *_errors(one)] for name, one in parts.items() if one]
    return table(["stack", "points", ">n", *ERROR_HEADINGS], rows)


def curves(survey: FidelitySurvey) -> str:
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
    return table(["model", "instance", "weights", "stack", "from", ">lengths", ">mean error", ""], rows)


def _origin(curve: ScoredCurve) -> str:
    return curve.origin if curve.is_published else as_code(curve.origin)


def curve_points(survey: FidelitySurvey) -> str:
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
    return table(["model", "hardware", ">tokens", ">measured s", ">predicted s", ">error"], rows)


def whole_percent(fraction: float) -> str:
    """A signed difference to the whole per cent: coarse, so that what it is a difference to is not given away.

    >>> whole_percent(0.1712), whole_percent(-0.0316), whole_percent(0.004)
    ('+17 %', '-3 %', '0 %')
    """
    rounded = round(100 * fraction)
    return f"{rounded:+d} %" if rounded else "0 %"


def doubts(survey: FidelitySurvey) -> str:
    """Known contradictions and what they cost."""
    headings = ["points", ">n", ">their TTFT mean", ">TPOT mean", ">without them: TTFT mean", ">TPOT mean"]
    rows = [[doubt.what, number(doubt.own.n), *_means(doubt.own), *_means(doubt.others)] for doubt in survey.doubts]
    if survey.without_doubts is not None and rows:
        rows.append(["all of these", "", "", "", *_means(survey.without_doubts)])
    return table(headings, rows)


def worst(survey: FidelitySurvey) -> str:
    """Points that are predicted worst: configuration and errors."""
    return cells.worst_table(survey.fidelity.points).markdown()


def refused(survey: FidelitySurvey) -> str:
    """Points without a prediction."""
    return cells.refused_table(survey.fidelity).markdown()


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


TABLES = SimpleNamespace(
    headline=headline,
    files=files_table,
    groups=groups,
    by_hardware=by_hardware,
    stacks=stacks,
    curves=curves,
    curve_points=curve_points,
    doubts=doubts,
    worst=worst,
    refused=refused,
    command=command,
)
"""The tables by the names that the template has for them."""
