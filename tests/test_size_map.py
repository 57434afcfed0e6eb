"""Maps of sizes: questions, cells, and the report that is made of them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from typer.testing import CliRunner

from planner.cli import app
from planner.errors import CheckFailedError, InputError, UsageError
from planner.executor.run_question import RunQuestion
from planner.report.canvas import style
from planner.report.chart_size_map import gain_text
from planner.report.size_map_report import check_size_map, size_map_charts, size_map_markdown, write_size_map
from planner.results.plan import Plan
from planner.results.size_map import SizeMap, SizeMapCell
from planner.results.slo_run import SloRun
from planner.studies.size import KINDS, best_fleet_of
from planner.studies.size_map import SizeMapQuestion, _demands, size_map, size_map_question
from planner.workload.requests import request_mix
from tests.deploy_cases import UNPRICED, plan, pool

ROOT = Path(__file__).parent.parent
COMMITTED = ROOT / "reports" / "disaggregate-or-not"
TEXT = """
schema = "planner.size-map/1"
name = "small"
title = "A small map"
models = ["llama-3.1-8b"]
hardware = ["h200-sxm"]
prompt_tokens_per_s = 20_000
tpot_ms = [30]
n_requests = 2000

[[traffic]]
name = "chat"
prompt_tokens = [500, 4000]
prompt_sigma = 0.5
output_tokens = 50
output_sigma = 0.5
ttft_s = 0.5
ttft_s_per_1k_tokens = 0.5

[prices]
h200-sxm = { usd_per_accelerator_hour = 2.5, basis = "assumed" }
"""


def question(text: str = TEXT) -> SizeMapQuestion:
    return size_map_question(text, "map.toml")


def fleet(usd: float, *roles: str, holds: bool = True) -> Plan:
    known = {"requests": 10, "percentile": 90.0, "promised_s": 1.0, "predicted_s": 0.5, "decided": True}
    seen = {"executed_s": 0.5, "ci_low_s": 0.4, "ci_high_s": 0.6, "basis": "executed", "holds": holds}
    cost = UNPRICED.model_copy(update={"usd_per_hour": usd})
    stated = {"layout": "tp=2,ep=1,dp=1,pp=1", "n_instances": 3}
    pools = tuple(pool(role, role, **stated) for role in roles)
    return plan("size", pools, cost=cost, slo_run=SloRun.model_validate({**known, **seen}))


def cell(
    prompt: float, tpot_s: float, together: float | None, apart: float | None, holds: bool = True, model: str = "m"
) -> SizeMapCell:
    return SizeMapCell(
        model=model,
        hardware="h200-sxm",
        traffic="chat",
        rate_req_per_s=1.0,
        input_tokens=prompt,
        output_tokens=50.0,
        ttft_s=1.0,
        tpot_s=tpot_s,
        colocated=None if together is None else fleet(together, "colocated", holds=holds),
        disaggregated=None if apart is None else fleet(apart, "prefill", "decode"),
        failure="too short" if together is None and apart is None else None,
    )


CELLS = (
    cell(500, 0.02, 30.0, 20.0),
    cell(2000, 0.02, 20.0, 25.0),
    cell(500, 0.05, None, 25.0),
    cell(2000, 0.05, 20.0, None, holds=False),
    cell(500, 0.02, None, None, model="other"),
    cell(2000, 0.02, 0.1 + 0.2, 0.3, model="other"),
)
MAP = SizeMap(
    title="A map",
    notes="",
    sources=("a source",),
    percentile=90.0,
    usd_per_accelerator_hour={"h200-sxm": 2.5},
    prices=("h200-sxm: a list (quoted)",),
    cells=CELLS,
)


def test_a_gain_is_what_serving_together_costs_more() -> None:
    assert CELLS[0].gain == pytest.approx(0.5)
    others = ["only apart", "only together?", "neither", "same cost"]
    assert [gain_text(one) for one in CELLS] == ["+50 %", "−20 %", *others]


def test_the_report_is_what_it_was(golden: Callable[[str, str], None]) -> None:
    golden("reports/size_map.md", size_map_markdown(MAP))


def test_the_figure_shows_every_cell_and_its_texts_whole() -> None:
    (chart,) = size_map_charts(MAP).values()
    with style():
        figure = chart.draw()
        canvas = figure.canvas
        assert isinstance(canvas, FigureCanvasAgg)
        canvas.draw()
    shown = [text for axes in figure.axes for text in axes.texts]
    assert sorted(text.get_text() for text in shown) == sorted(gain_text(one) for one in CELLS)
    for axes in figure.axes:
        for text in axes.texts:
            assert axes.bbox.contains(*text.get_window_extent().get_points()[0])
            assert axes.bbox.contains(*text.get_window_extent().get_points()[1])


def test_a_folder_is_current_after_it_is_written(tmp_path: Path) -> None:
    write_size_map(MAP, tmp_path)
    assert check_size_map(MAP, tmp_path) == []
    other = MAP.model_copy(update={"cells": CELLS[1:]})
    assert [line.split(":")[0] for line in check_size_map(other, tmp_path)] == ["report.md", "figures/gain.png"]


def test_every_cell_is_the_answer_of_size() -> None:
    asked = question()
    found = size_map(asked)
    assert [(c.input_tokens, c.ttft_s, c.rate_req_per_s) for c in found.cells] == [(500, 0.75, 40.0), (4000, 2.5, 5.0)]
    for one, (_, _, size) in zip(found.cells, _demands(asked), strict=True):
        for kind, roles in KINDS.items():
            alone = best_fleet_of(size, roles, RunQuestion(asked.n_requests, 0, None, 4), 60.0)
            assert getattr(one, kind) == alone.plan


def test_lengths_have_the_means_that_are_stated() -> None:
    for traffic, prompt, size in _demands(question()):
        mix = request_mix(size.workload, Path(), ())
        assert mix.mean_total_tokens == pytest.approx(prompt, rel=0.02)
        assert mix.mean_output_tokens == pytest.approx(traffic.output_tokens, rel=0.02)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("tpot_ms = [30]", "tpot_ms = []", "tpot_ms"),
        ("[[traffic]]", "traffic = []\n[[other]]", "other"),
        ("h200-sxm = {", "h100-sxm = {", "prices"),
        ("prompt_sigma = 0.5\noutput", "prompt_sigma = 0\noutput", "prompt_sigma"),
        ('name = "small"', 'name = "small"\nspeed = 1', "speed"),
    ],
)
def test_what_a_map_cannot_be_is_told_with_its_line(old: str, new: str, key: str) -> None:
    with pytest.raises(InputError) as caught:
        question(TEXT.replace(old, new))
    (problem,) = caught.value.problems
    assert key in problem.key
    assert problem.line is not None


def test_the_command_writes_a_map_and_checks_it(tmp_path: Path) -> None:
    file = tmp_path / "map.toml"
    file.write_text(TEXT.replace("[500, 4000]", "[500]"))
    words = ["report", str(file), "--out", str(tmp_path)]
    with pytest.raises(CheckFailedError, match=r"report\.md: is missing"):
        CliRunner().invoke(app, [*words, "--check"], catch_exceptions=False)
    assert CliRunner().invoke(app, words).exit_code == 0
    assert CliRunner().invoke(app, [*words, "--check"]).exit_code == 0
    with pytest.raises(UsageError, match="map of sizes"):
        CliRunner().invoke(app, [*words, "--set", "a=1"], catch_exceptions=False)


@pytest.mark.parametrize(
    "stated",
    [
        "schema = 'planner.size-map/1'",
        '"schema" = "planner.size-map/1"',
        'schema="planner.size-map/1"',
        """  schema = \'\'\'planner.size-map/1\'\'\'""",
    ],
)
def test_a_map_is_known_by_its_key_however_that_is_written(stated: str, tmp_path: Path) -> None:
    file = tmp_path / "any-name.toml"
    file.write_text(TEXT.replace('schema = "planner.size-map/1"', stated))
    with pytest.raises(UsageError, match="map of sizes"):
        CliRunner().invoke(app, ["report", str(file), "--out", "new", "--set", "a=1"], catch_exceptions=False)


def test_a_scenario_that_only_mentions_maps_is_none(tmp_path: Path) -> None:
    file = tmp_path / "map.toml"
    notes = 'notes = """\nA map begins with\nschema = "planner.size-map/1"\n"""\n'
    file.write_text(notes + 'schema = "planner.scenario/1"\nname = "mine"\n')
    with pytest.raises(InputError, match="model"):
        CliRunner().invoke(app, ["report", str(file), "--out", "new"], catch_exceptions=False)


def test_the_committed_map_is_a_question_and_has_its_report() -> None:
    asked = question((COMMITTED / "map.toml").read_text())
    text = (COMMITTED / "report.md").read_text()
    assert text.startswith(f"# {asked.title}\n")
    for model in asked.models:
        for chip in asked.hardware:
            assert f"## {model} on {chip}" in text
    assert (COMMITTED / "figures" / "gain.png").exists()
