"""`planner predict` on the command line: tables, one JSON object, a figure, exit codes and what is said with them."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from planner.cli import app, main
from planner.report.terminal import PRINT_WIDTH
from tests.talk import without_progress

DATASHEET = ("predict", "deepseek-v3", "h200-sxm", "--stack", "datasheet")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    """Exit code of a whole run, messages included."""
    monkeypatch.setattr("sys.argv", ["planner", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


def test_the_tables_of_a_datasheet_prediction_are_what_they_were(golden: Callable[[str, str], None]) -> None:
    found = run(*DATASHEET, "--tpot-ms", "20", "--cached", "512")
    assert (found.exit_code, without_progress(found.stderr)) == (0, "")
    golden("cli/predict-deepseek-v3-datasheet.txt", found.stdout)


def test_the_refusal_of_a_model_that_does_not_fit_is_what_it_was(golden: Callable[[str, str], None]) -> None:
    found = run("predict", "prfaas-1t-inferred", "h20-96gb", "--stack", "datasheet")
    golden("cli/predict-does-not-fit.txt", f"{found.stdout}{found.exception}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("kimi-linear-48b", "h200-sxm", "--tpot-ms", "30", "--cached", "1000"),
        ("prfaas-1t", "h200-sxm"),
        ("nemotron-3-super-120b", "b200-sxm", "--layout", "tp=8,ep=8,dp=4,pp=2", "--tokens", "1000000,123456789"),
        ("gpt-oss-120b", "h100-sxm", "--batch", "1000000", "--context", "1000000", "--precision", "int4"),
    ],
)
def test_no_line_is_wider_than_the_terminal_it_is_made_for(arguments: tuple[str, ...]) -> None:
    found = run("predict", *arguments)
    assert found.exit_code == 0, found.output
    assert max(map(len, found.stdout.splitlines())) <= PRINT_WIDTH


def test_json_is_one_object_with_the_same_figures_as_the_tables() -> None:
    found = json.loads(run(*DATASHEET, "--format", "json", "--tokens", "8192", "--batch", "64").stdout)
    assert (found["model"], found["stack"]) == ("deepseek-v3", "datasheet")
    assert ([row["tokens"] for row in found["prefill"]], [row["batch"] for row in found["decode"]]) == ([8192], [64])
    text = run(*DATASHEET, "--tokens", "8192", "--batch", "64").stdout
    shown = re.search(r"8,192 +([\d.]+) (ms|s)", text)
    assert shown is not None
    unit = {"ms": 1e-3, "s": 1.0}[shown[2]]
    assert float(shown[1]) * unit == pytest.approx(found["prefill"][0]["prefill_s"], rel=5e-3)


def test_what_does_not_fit_is_answered_on_stdout_and_refused_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = ended(monkeypatch, "predict", "kimi-k2", "h20-96gb", "--format", "json")
    assert code == 4
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert not found["fits"]
    assert found["prefill"][0]["prefill_s"] is None
    assert found["prefill"][0]["kv_bytes"] == 1024 * 61 * 576 * 2
    lacking = found["lacking_bytes_per_accelerator"]
    assert f"each accelerator lacks {lacking / 1e9:.1f} GB, {8 * lacking / 1e9:.0f} GB in total" in err
    assert "would fit: 16 x h20-96gb (--layout " in err
    assert "would fit: fp4 weights (--precision fp4)" in err


def test_a_model_without_shapes_is_answered_in_tables_too() -> None:
    found = run("predict", "prfaas-1t", "h200-sxm", "--tokens", "8192,200000")
    assert found.exit_code == 0
    assert "0.720 s" in found.stdout
    assert "measured" in found.stdout
    assert re.search(r"200,000 +~ ", found.stdout)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("kimi-k3000", "h200-sxm"), 3, "did you mean"),
        (("kimi-k2", "h300-sxm"), 3, "did you mean"),
        (("kimi-k2", "h200-sxm", "--tokens", "0"), 3, "--tokens: holds 0 (whole numbers from 1"),
        (("kimi-k2", "h200-sxm", "--tokens", "1024,,8192"), 2, "--tokens 1024,,8192: holds nothing between commas"),
        (("kimi-k2", "h200-sxm", "--batch", "1,,8"), 2, "--batch 1,,8: holds nothing between commas"),
        (("kimi-k2", "h200-sxm", "--batch", ""), 2, "--batch : holds nothing"),
        (("kimi-k2", "h200-sxm", "--batch", "1e3"), 2, "holds '1e3' (whole numbers with commas"),
        (("kimi-k2", "h200-sxm", "--batch", "²"), 2, "holds '²'"),
        (("kimi-k2", "h200-sxm", "--tokens", "9" * 5000), 2, "whole numbers with commas"),
        (("kimi-k2", "h200-sxm", "--tokens", "-5"), 2, "holds '-5'"),
        (("kimi-k2", "h200-sxm", "--cached", "-5"), 3, "--cached: is -5"),
        (("kimi-k2", "h200-sxm", "--cached", "1024"), 3, "below every length"),
        (("kimi-k2", "h200-sxm", "--precision", "fp16"), 3, "'fp16' is no number format"),
        (("kimi-k2", "h200-sxm", "--kv-precision", "fp6"), 3, "--kv-precision"),
        (("kimi-k2", "h200-sxm", "--stack", "vlm"), 3, "did you mean 'vllm'?"),
        (("kimi-k2", "h200-sxm", "--layout", "tp=4", "--accelerators", "8"), 3, "but --layout tp=4 has 4"),
        (("kimi-k2", "h200-sxm", "--layout", "tp=0"), 3, "tp: is 0"),
        (("kimi-k2", "h200-sxm", "--accelerators", "0"), 3, "--accelerators: is 0"),
        (("kimi-k2", "h200-sxm", "--tpot-ms", "inf"), 3, "--tpot-ms: is inf"),
        (("kimi-k2", "h200-sxm", "--figure", "roof.jpg"), 2, "neither .png nor .svg"),
        (("prfaas-1t", "h200-sxm", "--figure", "roof.svg"), 3, "cannot show prfaas-1t"),
    ],
)
def test_a_mistake_is_answered_with_what_is_allowed(
    arguments: tuple[str, ...],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ended(monkeypatch, "predict", *arguments) == code
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


# The figure


@pytest.mark.parametrize(("name", "start"), [("roof.png", b"\x89PNG"), ("roof.svg", b"<?xml"), ("ROOF.SVG", b"<?xml")])
def test_a_figure_is_written_whole_and_the_same_every_time(name: str, start: bytes, tmp_path: Path) -> None:
    path = tmp_path / "new folder" / name
    contents = []
    for _ in range(2):
        found = run(*DATASHEET, "--figure", str(path))
        assert found.exit_code == 0, found.output
        assert f"wrote {path}" in found.stderr
        assert "wrote" not in found.stdout
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]
    assert contents[0].startswith(start)
    assert [one.name for one in path.parent.iterdir()] == [name]


def test_a_figure_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = run(*DATASHEET, "--figure", str(tmp_path / "file" / "roof.png"))
    assert "cannot be written" in str(found.exception)
