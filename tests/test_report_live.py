"""The report of a live run: made from the answer alone, and the committed one is what its answer gives."""

import json
import re
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from typer.testing import CliRunner

from planner.cli import app
from planner.errors import InputError
from planner.report.canvas import style
from planner.report.folder import check_folder
from planner.report.live_folder import live_answer, live_charts, live_markdown, write_live_report
from planner.results.live import Live
from planner.results.live_file import live_from

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "reports" / "live-reference"
METRICS = ("kv_bytes", "ttft_mean_s", "ttft_p90_s", "tpot_mean_s", "throughput_req_per_s", "link_fraction")


@pytest.fixture(scope="module")
def reference() -> Live:
    path = REFERENCE / "live.json"
    return live_from(path.read_text(encoding="utf-8"), str(path))


def differences(live: Live, out_dir: Path) -> list[str]:
    """Files of a folder that are not what a run gives."""
    shown = live_charts(live)
    return check_folder(out_dir, {"live.json": live_answer(live), "report.md": live_markdown(live, shown)}, shown)


def test_the_committed_report_is_what_its_answer_gives_byte_by_byte(reference: Live) -> None:
    """A measurement is not made again by CI; what is written of it is."""
    assert differences(reference, REFERENCE) == []
    assert (REFERENCE / "live.json").read_text(encoding="utf-8") == live_answer(reference)
    expected = live_markdown(reference, live_charts(reference))
    assert (REFERENCE / "report.md").read_text(encoding="utf-8") == expected


def test_no_command_that_makes_reports_anew_takes_a_measurement_for_one() -> None:
    assert not (REFERENCE / "scenario.toml").exists()
    assert "live-reference" not in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_committed_run_has_every_figure_and_says_on_what(reference: Live) -> None:
    names = [check.metric for check in reference.checks]
    assert sum(name.startswith("prefill, ") for name in names) == 5
    assert sum(name.startswith("decode step, batch ") for name in names) == 4
    assert tuple(names[9:]) == METRICS
    for check in reference.checks:
        assert None not in (check.predicted, check.executed, check.measured), check.metric
    assert reference.measured_on
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", reference.measured_on)
    assert reference.machine.n_cores >= 2
    text = "".join(path.read_text(encoding="utf-8") for path in (REFERENCE / "live.json", REFERENCE / "report.md"))
    assert not re.search(r"/tmp|/home|/root|/work|file://", text), "no path of a machine"


def test_the_figures_of_the_committed_run_follow_from_one_another(reference: Live) -> None:
    """Errors from their columns, verdicts from errors, sums from repeats, means and spreads from what was kept."""
    checks = {check.metric: check for check in reference.checks}
    for check in reference.checks:
        assert check.predicted is not None
        assert check.measured
        error = check.predicted / check.measured - 1
        assert check.relative_error == pytest.approx(error)
        assert check.holds == (abs(error) <= check.tolerance)
    assert reference.n_requests == reference.n_finished + reference.n_dropped
    assert reference.n_finished == sum(one.n_finished for one in reference.repeats)
    assert reference.ttft is not None
    times = [t for one in reference.ttft.measured_s for t in one]
    assert len(times) == reference.n_finished
    assert checks["ttft_mean_s"].measured == pytest.approx(sum(times) / len(times), rel=1e-4)
    executed = reference.ttft.executed_s
    assert checks["ttft_mean_s"].executed == pytest.approx(sum(executed) / len(executed), rel=1e-4)
    for one, own in zip(reference.repeats, reference.ttft.measured_s, strict=True):
        assert one.ttft_mean_s == pytest.approx(sum(own) / len(own), rel=1e-4)
    means = [one.ttft_mean_s for one in reference.repeats]
    assert checks["ttft_mean_s"].spread == pytest.approx((max(means) - min(means)) * len(means) / sum(means))
    for item, check in zip(reference.passes, reference.checks, strict=False):
        assert (check.predicted, check.executed) == (item.predicted_s, item.executed_s)
        assert min(item.rounds_s) <= (check.measured or 0.0) * 1.1
        assert max(item.rounds_s) >= (check.measured or 0.0) / 1.1
    for seconds in (reference.ttft.predicted_s, *reference.ttft.measured_s, executed):
        assert list(seconds) == sorted(seconds)


def test_every_row_of_a_table_has_the_cells_of_its_heading(reference: Live) -> None:
    blocks = re.findall(r"(?:^\|.*\|$\n?)+", live_markdown(reference, ()), flags=re.MULTILINE)
    assert len(blocks) == 3
    for block in blocks:
        assert len({line.count("|") - line.count(r"\|") for line in block.splitlines()}) == 1
    assert sum(len(block.splitlines()) - 2 for block in blocks) == len(reference.checks) + 14 + len(reference.repeats)


def test_a_change_of_the_answer_is_seen(reference: Live, tmp_path: Path) -> None:
    write_live_report(reference, tmp_path)
    assert differences(reference, tmp_path) == []
    (first, *others) = reference.checks
    slower = first.model_copy(update={"measured": 9.0})
    changed = reference.model_copy(update={"checks": (slower, *others)})
    assert any("report.md" in line for line in differences(changed, tmp_path))


def test_figures_show_predicted_executed_and_measured(reference: Live) -> None:
    shown = live_charts(reference)
    assert set(shown) == {"prefill", "decode", "ttft"}
    with style():
        for name, chart in shown.items():
            figure = chart.draw()
            FigureCanvasAgg(figure).draw()
            (axes,) = figure.axes
            labels = " ".join(text.get_text() for text in axes.get_legend().get_texts())
            assert all(word in labels for word in ("predicted", "executed", "measured")), name
            low, high = axes.get_ylim()
            drawn = [y for line in axes.lines for y in line.get_ydata()]
            assert low <= min(drawn) <= max(drawn) <= high, name


def test_an_answer_without_what_the_figures_show_still_makes_a_report(reference: Live, tmp_path: Path) -> None:
    """As of an executor that was not asked, and of runs before there were repeats."""
    bare = reference.model_copy(
        update={"passes": (), "lines": (), "ttft": None, "repeats": (), "checks": reference.checks[:1]}
    )
    write_live_report(bare, tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "figures/" not in text
    assert list(tmp_path.glob("figures/*")) == []


def test_the_command_shows_and_reports_an_earlier_run(tmp_path: Path) -> None:
    arguments = ["live", "--from", str(REFERENCE / "live.json")]
    told = CliRunner().invoke(app, [*arguments, "--report", str(tmp_path), "--format", "json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout) == json.loads((REFERENCE / "live.json").read_text(encoding="utf-8"))
    assert (tmp_path / "report.md").read_bytes() == (REFERENCE / "report.md").read_bytes()
    shown = CliRunner().invoke(app, arguments)
    assert "prefill, 1024 tokens" in shown.stdout
    refused = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)])
    assert "--from runs nothing" in str(refused.exception)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "run.json:1: is not JSON"),
        ('{"schema": "planner.run/1"}', "run.json: schema: is not planner.live/1"),
        ('{"schema": "planner.live/1", "scenario": 3}', "run.json: scenario"),
    ],
)
def test_what_is_no_answer_of_a_live_run_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        live_from(text, "run.json")
