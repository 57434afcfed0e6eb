"""`planner fidelity` from outside: the contract's JSON, tables, the file with predicted columns, and refusals."""

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from planner.cli import app
from planner.cli.point_options import POINT_OPTIONS
from planner.errors import CheckFailedError, InputError, UsageError
from planner.profiles.points import ServingPoint
from planner.profiles.points.point import CONFIGURATION, LOAD
from planner.profiles.points.row import column_option
from tests.fidelity_points import POINT, configurations, made_by, shown, written
from tests.json_forms import MAYBE, Only, faults

LATENCY = {"mean_abs_error": MAYBE, "median_abs_error": MAYBE, "bias": MAYBE}
FORM = {
    "schema": Only("planner.fidelity/1"),
    "n_points": int,
    "n_predicted": int,
    "ttft": LATENCY,
    "tpot": LATENCY,
    "groups": [
        {
            "model": str,
            "hardware": str,
            "framework": str,
            "mode": str,
            "n": int,
            "n_predicted": int,
            "ttft": LATENCY,
            "tpot": LATENCY,
        }
    ],
    "refused": [{"model": str, "hardware": str, "reason": str, "n": int}],
}
ADDED = ("predicted_ttft_ms", "predicted_tpot_ms", "ttft_error", "tpot_error", "stack", "refused")
RESULT = {
    "backend": "vllm",
    "model_id": "Qwen/Qwen3-32B",
    "request_rate": "inf",
    "max_concurrency": 16,
    "num_prompts": 160,
    "completed": 160,
    "total_input_tokens": 163840,
    "total_output_tokens": 81920,
    "median_ttft_ms": 250.0,
    "median_tpot_ms": 12.5,
}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["fidelity", *map(str, arguments)])


def points(n: int = 12) -> list[ServingPoint]:
    """Points whose predictions are exact."""
    return made_by("vllm", configurations()[:n])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "points.csv", points())


def unknown(of: Sequence[ServingPoint]) -> list[ServingPoint]:
    return [replace(point, model="nobody/Nothing-7B") for point in of]


def test_the_json_is_of_the_contracts_form_and_alone_on_stdout(tmp_path: Path) -> None:
    found = run(written(tmp_path / "x.csv", [*points(), *unknown(points(1))]), "--format", "json")
    answer = json.loads(found.stdout)
    assert faults(answer, FORM) == []
    assert (answer["n_points"], answer["n_predicted"], len(answer["refused"])) == (13, 12, 1)
    assert answer["ttft"]["mean_abs_error"] == pytest.approx(0.0, abs=1e-9)


def test_tables_fit_a_hundred_columns_and_say_what_was_refused(tmp_path: Path) -> None:
    found = run(written(tmp_path / "x.csv", [*points(48), *unknown(points(1))]))
    assert found.exit_code == 0, found.output
    assert max(map(len, found.stdout.splitlines())) <= 100
    for text in ("48 of 49 predicted", "TTFT", "TPOT", "gpt-oss-120b", "refused", "is no model profile", "worst"):
        assert text in found.stdout


def test_out_adds_columns_to_every_row_and_leaves_the_rest_to_the_letter(tmp_path: Path) -> None:
    path, out = tmp_path / "points.csv", tmp_path / "out.csv"
    written(path, [*points(), replace(POINT, precision="fp3")])
    noted = path.read_text().replace("\n", ",note\n", 1)
    path.write_text(noted.replace("2026-01-31,,,,,,\n", '2026-01-31,,,,,,,"a, b"\n'))
    found = run(path, "--out", out)
    before, after = path.read_text().splitlines(), out.read_text().splitlines()
    assert isinstance(found.exception, CheckFailedError)
    assert all(new.startswith(f"{old},") for old, new in zip(before, after, strict=True))
    rows = [*csv.DictReader(after)]
    assert {*ADDED} <= rows[0].keys()
    assert float(rows[0]["predicted_ttft_ms"]) == pytest.approx(float(rows[0]["ttft_ms"]))
    assert float(rows[0]["tpot_error"]) == pytest.approx(0.0, abs=1e-6)
    assert (rows[0]["stack"], rows[0]["refused"]) == ("vllm", "")
    assert rows[-1]["predicted_ttft_ms"] == ""
    assert "fp3" in rows[-1]["refused"]


def test_out_does_not_overwrite_the_points(file: Path) -> None:
    before = file.read_bytes()
    link = file.with_name("link.csv")
    link.symlink_to(file)
    for out in (file, file.parent / "." / "points.csv", link):
        found = run(file, "--out", out)
        assert isinstance(found.exception, UsageError)
        assert file.read_bytes() == before


def test_several_files_are_scored_together_but_not_written_into_one(file: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "other.csv", points(5))
    found = run(file, other, "--format", "json")
    assert json.loads(found.stdout)["n_points"] == 17
    assert isinstance(run(file, other, "--out", tmp_path / "x.csv").exception, UsageError)


@pytest.mark.parametrize(("n_unknown", "code"), [(0, 0), (2, 0), (3, 6), (48, 6)])
@pytest.mark.parametrize("form", ["text", "json"])
def test_fewer_than_95_per_cent_answered_exits_6_after_the_answer(
    n_unknown: int, code: int, form: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "x.csv", [*points(48)[n_unknown:], *unknown(points(48)[:n_unknown])])
    found = run(path, "--format", form)
    error = found.exception
    assert (error.exit_code if isinstance(error, CheckFailedError) else found.exit_code) == code
    assert f"{48 - n_unknown}" in found.stdout
    if code:
        assert f"{48 - n_unknown} of 48 points are predicted" in str(error)


def test_a_file_without_any_answer_is_still_an_answer(tmp_path: Path) -> None:
    found = run(written(tmp_path / "x.csv", unknown(points(2))), "--format", "json")
    assert faults(json.loads(found.stdout), FORM) == []
    assert isinstance(found.exception, CheckFailedError)


def test_a_benchmarks_result_is_answered_with_what_the_options_say(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(RESULT))
    said = ("--hardware", "h200-sxm", "--tp-size", "4", "--precision", "bf16", "--framework-version", "0.19.0")
    found = run(path, *said, "--format", "json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["groups"][0]["hardware"] == "h200-sxm"
    out = tmp_path / "out.csv"
    assert run(path, *said, "--out", out).exit_code == 0
    assert {*ADDED} <= next(csv.DictReader(out.read_text().splitlines())).keys()


def test_what_a_file_lacks_is_named_with_the_option_that_states_it(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(RESULT))
    error = str(run(path).exception)
    assert "--hardware" in error
    assert "--accelerators" in error


def test_there_is_an_option_for_everything_a_reader_may_miss() -> None:
    assert tuple(POINT_OPTIONS) == (*CONFIGURATION, *LOAD)
    for command in ("fidelity", "calibrate"):
        text = CliRunner().invoke(app, [command, "--help"]).stdout
        assert all(f"{column_option(column)} " in text for column in POINT_OPTIONS), command


def test_every_unreadable_file_is_named(tmp_path: Path, file: Path) -> None:
    (tmp_path / "bad.csv").write_text("hello\n1\n")
    error = run(tmp_path / "absent.csv", file, tmp_path / "bad.csv").exception
    assert isinstance(error, InputError)
    assert [problem.file.rpartition("/")[2] for problem in error.problems] == ["absent.csv", "bad.csv"]


def test_one_stack_may_be_named_and_a_wrong_one_is_answered_with_the_choice(file: Path) -> None:
    found = run(file, "--stack", "datasheet", "--format", "json")
    assert json.loads(found.stdout)["tpot"]["bias"] < 0
    assert "vllm" in str(run(file, "--stack", "vlm").exception)


@pytest.mark.parametrize(
    "arguments", [("--check",), ("--report", "r", "--out", "x"), ("--report", "r", "--stack", "vllm")]
)
def test_options_that_do_not_go_together_are_refused(arguments: tuple[str, ...], file: Path) -> None:
    assert isinstance(run(file, *arguments).exception, UsageError)


def test_a_report_is_written_then_current_then_stale(tmp_path: Path, file: Path) -> None:
    folder = tmp_path / "report"
    assert run(file, "--report", folder).exit_code == 0
    assert {path.name for path in (folder / "figures").iterdir()} == {"scatter.png", "spread.png", "prefill.png"}
    assert run(file, "--report", folder, "--check").stdout == f"{folder} is current\n"
    text = (folder / "report.md").read_text()
    assert shown(text, points()) == []
    (folder / "report.md").write_text(text.replace("0.0 %", "1.0 %", 1))
    error = run(file, "--report", folder, "--check").exception
    assert isinstance(error, CheckFailedError)
    assert "report.md: line" in str(error)
    assert f"planner fidelity {file} --report {folder}" in str(error)


def test_notes_of_a_report_that_do_not_hold_are_named_by_line(tmp_path: Path, file: Path) -> None:
    (tmp_path / "notes.toml").write_text('schema = "planner.fidelity-notes/1"\ntitel = "x"\n')
    error = run(file, "--report", tmp_path).exception
    assert isinstance(error, InputError)
    assert "notes.toml:2: titel: unknown key (did you mean 'title'?)" in str(error)


def test_the_committed_report_is_current(data_file: Callable[[str], Path]) -> None:
    root = Path(__file__).resolve().parents[1]
    files = [data_file(f"measured/{name}.csv") for name in ("serving_points", "serving_points_2", "h20_prefill")]
    found = run(*files, "--report", root / "reports" / "fidelity", "--check")
    assert found.exit_code == 0, found.exception
