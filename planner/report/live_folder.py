"""The report of a live run as a folder of Markdown, figures and the answer that both follow from."""

import json
from collections.abc import Callable
from pathlib import Path

from planner.report.chart_live import live_decode_chart, live_prefill_chart, live_ttft_chart
from planner.report.figures import Chart
from planner.report.folder import REPORT, check_folder, write_folder
from planner.report.live_markdown import live_markdown
from planner.results import Live

ANSWER = "live.json"
CHARTS: dict[str, Callable[[Live], Chart | None]] = {
    "prefill": live_prefill_chart,
    "decode": live_decode_chart,
    "ttft": live_ttft_chart,
}


def write_live_report(live: Live, out_dir: Path) -> None:
    """Write report.md, live.json and figures/*.png into a folder.

    Args:
        live: the run.
        out_dir: the folder; made where it does not exist.

    Raises:
        InputError: the folder cannot be written.
    """
    shown = live_charts(live)
    write_folder(out_dir, _texts(live, shown), shown)


def check_live_report(live: Live, out_dir: Path) -> list[str]:
    """Differences of a folder from what `write_live_report` would leave, a line each."""
    shown = live_charts(live)
    return check_folder(out_dir, _texts(live, shown), shown)


def live_answer(live: Live) -> str:
    """The answer as the file has it."""
    return json.dumps(live.answer(), indent=1) + "\n"


def live_charts(live: Live) -> dict[str, Chart]:
    """Contents of the figures, by file name without suffix; only those with something to show."""
    found = ((name, chart(live)) for name, chart in CHARTS.items())
    return {name: chart for name, chart in found if chart is not None}


def _texts(live: Live, shown: dict[str, Chart]) -> dict[str, str]:
    return {ANSWER: live_answer(live), REPORT: live_markdown(live, shown)}
