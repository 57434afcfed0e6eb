"""`planner scenario`: what it starts is sound as it stands, what it checks is checked whole, nothing is overwritten."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from planner.cli import app
from planner.errors import InputError
from planner.scenario import Scenario, bundled_scenarios, read_scenario
from planner.schema import TomlFile
from tests.builders import SMALL

MOONCAKE = "".join(
    f"{json.dumps({'timestamp': 1000 * i, 'input_length': n, 'output_length': 20, 'hash_ids': list(range(i + 2))})}\n"
    for i, n in enumerate((600, 1100, 1600, 2100))
)
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:00:{i:02}.5000000,{1000 + 700 * i},{10 + i}\n" for i in range(5)
)


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traces of mine").mkdir()
    (tmp_path / "traces of mine" / 'moon "cake".jsonl').write_text(MOONCAKE, encoding="utf-8")
    (tmp_path / "azure.csv").write_text(AZURE, encoding="utf-8")
    return tmp_path


def planner(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def done(*arguments: str) -> str:
    found = planner(*arguments)
    assert found.exit_code == 0, (found.output, found.exception)
    return found.stdout


def failed(*arguments: str) -> str:
    """What is said of scenarios that do not hold: on stdout as a gate's list, else as every bad input's message."""
    found = planner("scenario", "check", *arguments)
    if "--format" in arguments:
        assert found.exit_code == 3, (found.output, found.exception)
        return found.stdout
    assert isinstance(found.exception, InputError), (found.output, found.exception)
    return f"{found.stdout}{found.exception}\n"


def refused(*arguments: str) -> str:
    found = planner(*arguments)
    assert isinstance(found.exception, InputError)
    assert found.stdout == ""
    return str(found.exception)


def test_a_new_scenario_can_be_checked_and_planned_as_it_stands() -> None:
    assert done("scenario", "new", "fleet") == "fleet.toml: edit it, then run: planner optimize fleet.toml\n"
    assert done("scenario", "check", "fleet.toml") == "fleet.toml: holds (3 pools, 1 link, 1 class)\n"
    plan = json.loads(done("optimize", "fleet.toml", "--format", "json"))
    assert plan["scenario"] == "fleet"
    assert plan["cost"]["usd_per_hour"] > 0


def test_hints_in_a_new_scenario_are_keys_that_work(in_folder: Path) -> None:
    done("scenario", "new", "fleet")
    text = (in_folder / "fleet.toml").read_text(encoding="utf-8")
    commented = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ") and " = " in line]
    assert len(commented) >= 8
    start = text.index("# [measured.my-h200-sxm]")
    measured = "\n".join(line.removeprefix("# ") for line in text[start:].splitlines())
    stated = {line for line in commented if line.startswith(("demand", "budget"))}
    head = re.sub(r"^# (demand|budget|\[slo|ttft)", r"\1", text[:start], flags=re.MULTILINE)
    uncommented = head + measured
    scenario = TomlFile("fleet.toml", uncommented).record(Scenario)
    assert scenario.slo is not None
    assert scenario.slo.ttft_s == 4.0
    assert (len(stated), scenario.demand_req_per_s, scenario.budget_usd_per_hour) == (2, 2.0, 200.0)
    assert scenario.measured["my-h200-sxm"].decode is not None


@pytest.mark.parametrize(
    ("trace", "mean", "rate"), [('traces of mine/moon "cake".jsonl', 1350, "1"), ("azure.csv", 2400, "1")]
)
def test_a_scenario_from_a_trace_plans_for_its_requests(trace: str, mean: int, rate: str, in_folder: Path) -> None:
    (in_folder / "cases").mkdir()
    done("scenario", "new", "cases/real", "--from", trace)
    text = (in_folder / "cases" / "real.toml").read_text(encoding="utf-8")
    n_requests = 4 if "moon" in trace else 5
    assert f"{n_requests} requests, mean prompt {mean} tokens, {rate} req/s as recorded" in text
    done("scenario", "check", "cases/real.toml")
    plan = json.loads(done("optimize", "cases/real.toml", "--format", "json"))
    assert plan["classes"][0]["mean_total_tokens"] == mean
    assert (plan["objective"], plan["throughput_req_per_s"]) == ("min-cost", float(rate))


def test_only_a_trace_with_blocks_is_offered_ideal_hits(in_folder: Path) -> None:
    done("scenario", "new", "one", "--from", 'traces of mine/moon "cake".jsonl')
    done("scenario", "new", "two", "--from", "azure.csv")
    assert '"ideal"' in (in_folder / "one.toml").read_text(encoding="utf-8")
    assert '"ideal"' not in (in_folder / "two.toml").read_text(encoding="utf-8")
    plan = json.loads(done("optimize", "one.toml", "--set", "workload.prefix_hits=ideal", "--format", "json"))
    assert plan["classes"][0]["cached_fraction"] > 0.5
    assert "no block hashes" in refused("optimize", "two.toml", "--set", "workload.prefix_hits=ideal")


def test_a_trace_of_one_request_makes_a_scenario(in_folder: Path) -> None:
    (in_folder / "one.jsonl").write_text(MOONCAKE.splitlines()[0], encoding="utf-8")
    done("scenario", "new", "short", "--from", "one.jsonl")
    done("scenario", "check", "short.toml")


@pytest.mark.parametrize(
    ("name", "file", "called"),
    [
        ("My_Fleet", "My_Fleet.toml", "my-fleet"),
        ("my fleet.toml", "my fleet.toml", "my-fleet"),
        ("v1.5", "v1.5.toml", "v1-5"),
        ("7", "7.toml", "7"),
    ],
)
def test_a_file_may_have_any_name_that_yields_one(name: str, file: str, called: str) -> None:
    done("scenario", "new", name)
    assert read_scenario(file).name == called


@pytest.mark.parametrize("name", ["", ".toml", "--.toml", "é"])
def test_a_name_without_letters_or_digits_is_refused(name: str, in_folder: Path) -> None:
    before = sorted(in_folder.iterdir())
    assert "letters or digits" in refused("scenario", "new", "--", name)
    assert sorted(in_folder.iterdir()) == before


def test_an_existing_file_is_never_overwritten(in_folder: Path) -> None:
    (in_folder / "mine.toml").write_text("my work", encoding="utf-8")
    (in_folder / "link.toml").symlink_to(in_folder / "gone.toml")
    for name in ("mine", "mine.toml", "link"):
        assert "exists already" in refused("scenario", "new", name)
    assert (in_folder / "mine.toml").read_text(encoding="utf-8") == "my work"
    assert not (in_folder / "gone.toml").exists()


def test_a_scenario_that_cannot_be_written_leaves_nothing(in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Path) -> None:
        raise OSError(28, "No space left on device")

    before = sorted(in_folder.iterdir())
    monkeypatch.setattr(Path, "replace", full)
    assert "cannot be written: No space left on device" in refused("scenario", "new", "fleet")
    assert sorted(in_folder.iterdir()) == before


@pytest.mark.parametrize("name", sorted({*bundled_scenarios()} - {"mooncake-conversation"}))
def test_bundled_scenarios_hold_by_name_and_by_path(name: str) -> None:
    assert done("scenario", "check", name).startswith(f"{name}: holds (")
    path = str(bundled_scenarios()[name])
    assert done("scenario", "check", path).startswith(f"{path}: holds (")


def test_a_check_covers_comparisons(in_folder: Path) -> None:
    text = SMALL + '[comparisons.a]\ntitle = "x"\n[comparisons.a.set]\ntitle = "y"\n"links.wan.capacity" = 1\n'
    (in_folder / "mine.toml").write_text(text, encoding="utf-8")
    line = text.count("\n")
    place = f'mine.toml:{line}: comparisons.a.set."links.wan.capacity"'
    assert failed("mine.toml").startswith(f"{place}: links.wan.capacity: unknown key")


BROKEN = {
    "unknown key": SMALL.replace("round_trip_ms", "round_trip"),
    "unknown name": SMALL.replace('profile = "qwen3-235b"', 'profile = "qwen3-235"'),
    "no trace": SMALL[: SMALL.index("[workload]")]
    + "[workload]\ntrace = { path = 'gone.csv' }\n"
    + SMALL[SMALL.index("[sites.remote]") :],
    "no TOML": "a = \n",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_gate_of_several_files_says_every_problem_of_each_and_what_holds(kind: str, in_folder: Path) -> None:
    (in_folder / "good.toml").write_text(SMALL, encoding="utf-8")
    for name in ("bad.toml", "worse.toml"):
        (in_folder / name).write_text(BROKEN[kind], encoding="utf-8")
    text = failed("bad.toml", "good.toml", "worse.toml")
    assert "good.toml: holds (3 pools, 1 link, 1 class)\n" in text
    listed = json.loads(failed("bad.toml", "good.toml", "worse.toml", "--format", "json"))
    assert len(listed) == 2
    assert all(set(one) == {"schema", "file", "line", "key", "message"} for one in listed)
    assert {one["schema"] for one in listed} == {"planner.problem/1"}
    notes = failed("bad.toml", "good.toml", "worse.toml", "--format", "github").splitlines()
    for one, note in zip(listed, notes, strict=True):
        place = one["file"] + ("" if one["line"] is None else f",line={one['line']}")
        assert note.startswith(f"::error file={place}::")
        assert f"{one['file']}" in text
    if kind != "no trace":  # that one is missing at its own place
        assert [one["file"] for one in listed] == ["bad.toml", "worse.toml"]


def test_a_gate_that_holds_says_so_in_every_format(in_folder: Path) -> None:
    for name in ("a.toml", "b.toml"):
        (in_folder / name).write_text(SMALL, encoding="utf-8")
    lines = [f"{name}.toml: holds (3 pools, 1 link, 1 class)" for name in "ab"]
    assert done("scenario", "check", "a.toml", "b.toml", "a.toml").splitlines() == lines
    assert done("scenario", "check", "a.toml", "b.toml", "--format", "github").splitlines() == lines
    assert json.loads(done("scenario", "check", "a.toml", "--format", "json")) == []


def test_a_missing_file_is_a_problem_of_the_gate(in_folder: Path) -> None:
    (in_folder / "good.toml").write_text(SMALL, encoding="utf-8")
    text = failed("gone.toml", "prfaas-papr", "good.toml")
    assert "gone.toml: cannot be read" in text
    assert "did you mean 'prfaas-paper'?" in text
    assert "good.toml: holds" in text


def schema_nodes(node: Any) -> list[dict[str, Any]]:
    """Every object of a JSON Schema."""
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [node] * isinstance(node, dict) + [found for item in inner for found in schema_nodes(item)]


def test_the_schema_describes_exactly_what_the_reader_takes() -> None:
    schema = json.loads(done("scenario", "schema"))
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["additionalProperties"] is False
    assert {"schema", "name", "model", "sites", "pools"} <= set(schema["required"])
    assert not {"directory", "origin"} & set(schema["properties"])
    for node in schema_nodes(schema):
        if "$ref" in node:
            assert node["$ref"].removeprefix("#/$defs/") in schema["$defs"]
        if node.get("type") == "object" and "properties" in node and "title" in node:
            assert node["additionalProperties"] is False


def test_every_key_of_the_schema_but_plain_ones_is_described() -> None:
    schema = json.loads(done("scenario", "schema"))
    records = ("Pool", "Link", "LinkTier", "Site", "Price", "Routing", "ModelChoice", "Claim", "Comparison")
    for record in (*records, "WorkloadClass", "Slo", "Period", "Spare", "Measurement"):
        for name, field in schema["$defs"][record]["properties"].items():
            assert field.get("description"), f"{record}.{name}"


@pytest.mark.parametrize("name", sorted(bundled_scenarios()))
def test_the_schema_knows_every_top_key_of_the_bundled_scenarios(name: str) -> None:
    known = set(json.loads(done("scenario", "schema"))["properties"])
    assert set(TomlFile.read(bundled_scenarios()[name]).data) <= known


def test_the_data_folders_of_the_environment_are_looked_in(in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, end = SMALL.index("[workload]"), SMALL.index("[sites.remote]")
    text = f"{SMALL[:start]}[workload]\ntrace = {{ path = 'azure.csv' }}\n{SMALL[end:]}"
    (in_folder / "cases").mkdir()
    (in_folder / "cases" / "mine.toml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("PLANNER_DATA", "")
    assert "cases/mine.toml:9: workload.trace.path: 'azure.csv' is not there" in failed("cases/mine.toml")
    monkeypatch.setenv("PLANNER_DATA", os.pathsep.join(["nowhere", str(in_folder)]))
    assert "holds" in done("scenario", "check", "cases/mine.toml")


@pytest.mark.parametrize("name", ["chat.toml", "scenario.toml", "deep/er/chat.toml"])
def test_scenarios_of_any_name_are_found_in_a_folder_and_other_files_are_not(name: str, in_folder: Path) -> None:
    path = in_folder / "all" / name
    path.parent.mkdir(parents=True)
    path.write_text(SMALL, encoding="utf-8")
    others = {"pyproject.toml": "[project]\n", "chip.toml": 'schema = "planner.hardware/1"\n', ".hidden/s.toml": SMALL}
    for other, text in others.items():
        (in_folder / "all" / other).parent.mkdir(exist_ok=True)
        (in_folder / "all" / other).write_text(text, encoding="utf-8")
    held = f"all/{name}: holds (3 pools, 1 link, 1 class)\n"
    assert done("scenario", "check", "all") == held
    named = [f"all/{other}" for other in (*others, name) if not other.startswith(".")]
    assert done("scenario", "check", "--skip-others", *named) == held
    assert "all/chip.toml" in failed(*named)


@pytest.mark.parametrize("arguments", [("--skip-others",), ("--skip-others", "--format", "json")])
def test_files_among_which_no_scenario_is_are_passed_over_where_that_is_asked_for(
    arguments: tuple[str, ...], in_folder: Path
) -> None:
    (in_folder / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    said = done("scenario", "check", *arguments, "pyproject.toml")
    assert said == ("[]\n" if "json" in arguments else "no scenario is among these files\n")
    assert "pyproject.toml" in failed("pyproject.toml")


def test_a_folder_without_any_scenario_is_told(in_folder: Path) -> None:
    (in_folder / "empty").mkdir()
    assert "empty" in failed("empty")


def test_the_bundled_scenarios_are_listed_and_shown_as_they_are(tmp_path: Path) -> None:
    listed = CliRunner().invoke(app, ["scenario", "list"])
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in bundled_scenarios())
    shown = CliRunner().invoke(app, ["scenario", "show", "not-worth-it"]).stdout
    (tmp_path / "mine.toml").write_text(shown, encoding="utf-8")
    assert read_scenario(str(tmp_path / "mine.toml")).model_dump() == read_scenario("not-worth-it").model_dump()
