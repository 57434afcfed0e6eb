"""A report's folder reproduces: its scenario leads to the same files, its command works, and it knows its inputs."""

import json
import os
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from planner.cli import app
from planner.errors import CheckFailedError, UsageError
from planner.profiles.catalogue import profile_paths
from planner.profiles.toml_text import toml_value
from planner.report.folder import with_inputs
from planner.report.markdown import report_markdown
from planner.report.reproduce import Reproduction
from planner.scenario import Move, load_scenario
from planner.studies.plan_inputs import case_digest
from planner.toml_lines import string_spans
from tests.test_report_records import make_case

TRACE = [{"timestamp": 250 * i, "input_length": 600 * (1 + i % 40), "output_length": 100 + i % 9} for i in range(200)]
QUESTION = """# What is asked of one's own chip.
schema = "planner.scenario/1"
name = "own"
title = "An own chip"

[model]
profile = "parts/own-model.toml"   # beside the scenario

[workload]
trace = { path = 'traces/own.jsonl' }

[sites.local]
accelerators = { "parts/own-chip.toml" = 24 }

[pools.near]
site = "local"
hardware = "parts/own-chip.toml"
role = "prefill"

[pools.decode]
site = "local"
hardware = "parts/own-chip.toml"
role = "decode"

[prices]
"parts/own-chip.toml" = { usd_per_accelerator_hour = 2.0, basis = "assumed", source = "a test" }

[[break_even]]
key = 'prices."parts/own-chip.toml".usd_per_accelerator_hour'
title = "rent, USD/h"
low = 1
high = 4
"""


def own_profile(folder: Path, kind: str, like: str, name: str) -> None:
    """A shipped profile under another name."""
    text = next(path for path in profile_paths(kind) if path.stem == like).read_text()
    text = re.sub(r"^aliases = \[[^\]]*\]\n", "", text, flags=re.MULTILINE)
    (folder / f"{name}.toml").write_text(text.replace(f'name = "{like}"', f'name = "{name}"', 1))


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    """A scenario with profiles and a trace of its own in folders beside it."""
    folder = tmp_path / "asked"
    (folder / "parts").mkdir(parents=True)
    (folder / "traces").mkdir()
    own_profile(folder / "parts", "hardware", "h200-sxm", "own-chip")
    own_profile(folder / "parts", "model", "qwen3-235b", "own-model")
    (folder / "traces" / "own.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in TRACE))
    path = folder / "my.toml"
    path.write_text(QUESTION)
    return path


def called(command: str) -> Result:
    program, *arguments = shlex.split(command)
    assert program == "planner"
    return CliRunner().invoke(app, arguments)


def regenerating(report: Path) -> str:
    """The command at the end of a report."""
    (last,) = (line for line in report.read_text().splitlines() if line.startswith("To regenerate"))
    found = re.fullmatch(r"To regenerate, in this folder.*?: (`+)(.*?) ?\1", last)
    assert found is not None
    return found[2]


@pytest.mark.parametrize("data", [False, True], ids=["trace beside it", "trace in a data folder"])
def test_a_report_is_made_again_from_its_folder_and_checked_from_elsewhere(
    asked: Path, tmp_path: Path, data: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if data:
        shutil.move(asked.parent / "traces", tmp_path / "data" / "traces")
        monkeypatch.setenv("PLANNER_DATA", str(tmp_path / "data"))
    out, elsewhere = tmp_path / "answers" / "own", tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(asked.parent)
    chip = 'sites.local.accelerators."parts/own-chip.toml"=16'
    first = called(f"planner report my.toml --out ../answers/own --set {shlex.quote(chip)} --set name=other")
    assert first.exit_code == 0, first.output

    copied, text = (out / "scenario.toml").read_text(), (out / "report.md").read_text()
    assert tomllib.loads(copied)["pools"]["near"]["hardware"] == "../../asked/parts/own-chip.toml"
    assert "# beside the scenario" in copied
    assert copied.replace("../../asked/", "") == QUESTION
    assert ("`traces/own.jsonl` in `PLANNER_DATA`" in text) == data
    assert "- Changed from `scenario.toml`: " in text

    asked.unlink()  # the folder is what is left
    monkeypatch.chdir(out)
    again = regenerating(out / "report.md")
    assert called(again).exit_code == 0
    assert ((out / "scenario.toml").read_text(), (out / "report.md").read_text()) == (copied, text)

    monkeypatch.chdir(elsewhere)
    from_there = again.replace("scenario.toml --out .", f"{out} --out {out}")
    assert called(f"{from_there} --check").exit_code == 0
    assert called(f"{from_there} --check --inputs").exit_code == 0
    stale = called(f"planner report {out} --out {out} --check")  # without what was changed
    assert isinstance(stale.exception, CheckFailedError)


def test_a_report_knows_its_inputs_by_their_digest(asked: Path) -> None:
    """Of every input one figure is changed and set back."""
    folder = out = asked.parent
    inputs = case_digest(load_scenario(QUESTION, str(asked), folder), QUESTION, ())
    (out / "report.md").write_text(with_inputs("# A report\n", inputs))
    ask = f"planner report {asked} --out {out} --check --inputs"
    assert called(ask).exit_code == 0
    for name, old, new in (
        ("parts/own-chip.toml", "tdp_w = { value = 700", "tdp_w = { value = 701"),
        ("parts/own-model.toml", "vocab_size = 151936", "vocab_size = 151937"),
        ("traces/own.jsonl", '"output_length": ', '"output_length": 1'),
        ("my.toml", "# beside the scenario", "# elsewhere"),
    ):
        path = folder / name
        text = path.read_text()
        assert old in text, name
        path.write_text(text.replace(old, new, 1))
        stale = called(ask).exception
        assert isinstance(stale, CheckFailedError), name
        assert "report.md: was made from other inputs" in str(stale)
        assert f"Run: planner report {asked} --out {out}" in str(stale)
        path.write_text(text)
    assert called(ask).exit_code == 0
    (out / "report.md").write_text("# A report\n")
    assert "does not say from which inputs" in str(called(ask).exception)
    assert isinstance(called(f"planner report {asked} --out {out} --inputs").exception, UsageError)


def test_a_report_says_what_it_depends_on_beside_its_scenario() -> None:
    text = report_markdown(make_case(), Reproduction(("name=a `b`",), 5.0, ("my trace.jsonl",)))
    assert "with the folder of `my trace.jsonl` in `PLANNER_DATA`" in text
    assert "- Changed from `scenario.toml`: ``name=a `b` ``.\n" in text
    assert text.endswith("``planner report scenario.toml --out . --set 'name=a `b`' --time-limit 5``\n")
    assert report_markdown(make_case()).endswith("in this folder: `planner report scenario.toml --out .`\n")


PARTS = st.text("ab c'\\é.", min_size=1, max_size=6).map(lambda name: f"x{name}y")
PATHS = st.lists(PARTS, min_size=1, max_size=3).map(lambda parts: "/".join(parts) + ".toml")


@given(PATHS, st.sampled_from(["q", "q/r", "../s", "../../t/u"]))
def test_paths_lead_to_the_same_files_from_anywhere_and_back(path: str, folder: str) -> None:
    here = Path("/some/case")
    there = Path(os.path.normpath(here / folder))
    text = f"# {path}\n[model]\nprofile = {toml_value(path)} # why\n[prices]\n{toml_value(path)} = {{ a = 1 }}\n"
    moved = Move(here, there).text(text)
    data = tomllib.loads(moved)
    for found in (data["model"]["profile"], *data["prices"]):
        assert os.path.normpath(there / found) == str(here / path)
    assert moved.startswith(f"# {path}\n[model]\nprofile = ")
    assert Move(there, here).text(moved) == Move(here, here).text(text) == text


def test_names_absolute_paths_and_other_texts_stay() -> None:
    text = 'title = "see parts.toml here"\nmodel.profile = "qwen3-32b"\npools.a.hardware = "/x/y.toml"\n'
    assert Move(Path("/a"), Path("/b")).text(text) == text
    assert Move(Path("/a"), Path("/b")).text("not [ toml") == "not [ toml"


@pytest.mark.parametrize(
    ("override", "moved"),
    [
        ("model.profile=m.toml", 'model.profile="../a/m.toml"'),
        ('workload.trace.path="t.jsonl"', 'workload.trace.path="../a/t.jsonl"'),
        ('workload.trace={path="t.jsonl"}', 'workload.trace={ path = "../a/t.jsonl" }'),
        ('prices."c.toml".basis=quoted', 'prices."../a/c.toml".basis="quoted"'),
        ("pools.near.n_instances=3", "pools.near.n_instances=3"),
        ("nothing", "nothing"),
    ],
)
def test_overrides_move_with_their_scenario(override: str, moved: str) -> None:
    assert Move(Path("/a"), Path("/b")).override(override) == moved


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=5),
    st.text("ab_", min_size=1, max_size=4),
)
def test_every_text_in_quotes_is_found_where_it_is(values: list[str], key: str) -> None:
    text = f"# \"no\"\n{key} = {toml_value(values)}\n[t]\n'k' = {{ \"l\" = 'm' }}\n"
    spans = list(string_spans(text))
    assert [content for *_, content in spans] == [*values, "k", "l", "m"]
    assert all(text[start] in "'\"" and text[end - 1] == text[start] for start, end, _ in spans)
