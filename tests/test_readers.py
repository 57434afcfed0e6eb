"""Every reader of what users hand in: a value, or one short printable message that names the file; nothing else."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.errors import MOST_LINES, InputError, InputProblem, PlannerError, UsageError, printable
from planner.profiles.catalogue import read_profile
from planner.profiles.folders import profile_dir
from planner.profiles.importer import import_profile, profile_of_config
from planner.profiles.points import PointDefaults, read_points
from planner.reading import JSON_BYTES, LINE_BYTES, MOST_DEPTH, TABLE_BYTES, TOML_BYTES, read_text
from planner.results.live_file import live_from
from planner.results.plan_file import plan_from
from planner.scenario import bundled_scenarios, load_scenario, read_scenario
from planner.schema import TomlFile
from planner.studies.fidelity.survey import FidelityNotes, read_notes
from planner.workload.traces import read_trace
from tests.campaigns.corpus import NOTES, SETTINGS, corpus
from tests.campaigns.fuzz_inputs import EXECUTED
from tests.campaigns.mutations import mutated
from tests.campaigns.small_changes import changes
from tests.test_cli_errors import TINY

Reader = Callable[[Path], Any]
READERS: Mapping[str, Reader] = {
    "scenario.toml": lambda path: read_scenario(str(path)),
    "h200-sxm.toml": read_profile,
    "qwen3-32b.toml": read_profile,
    "vllm.toml": read_profile,
    "config.json": import_profile,
    "trace.jsonl": read_trace,
    "trace.csv": read_trace,
    "points.csv": read_points,
    "result.json": read_points,
    "server.json": lambda path: read_points(path, PointDefaults(hardware="h200-sxm")),
    "plan.json": lambda path: plan_from(read_text(path), str(path)),
    "live.json": lambda path: live_from(read_text(path), str(path)),
    "notes.toml": lambda path: read_notes(path.parent),
}


@pytest.fixture(scope="module")
def good() -> dict[str, bytes]:
    """A good file for every reader, by its name."""
    known = corpus()
    traces = [case.files["trace"] for case in known["trace"]]
    points = [case.files["points"] for case in known["points"]]
    return {
        "scenario.toml": TINY.encode(),
        "h200-sxm.toml": (profile_dir("hardware") / "h200-sxm.toml").read_bytes(),
        "qwen3-32b.toml": (profile_dir("model") / "qwen3-32b.toml").read_bytes(),
        "vllm.toml": (profile_dir("stack") / "vllm.toml").read_bytes(),
        "config.json": known["config"][1].files["config.json"],
        "trace.jsonl": traces[0],
        "trace.csv": traces[-1],
        "points.csv": points[0],
        "result.json": points[2],
        "server.json": points[4],
        "plan.json": known["plan"][0].files["plan.json"],
        "live.json": known["live run"][0].files["live.json"],
        "notes.toml": NOTES.encode(),
    }


def check_message(error: PlannerError, name: str) -> None:
    lines = str(error).split("\n")
    assert error.exit_code in (InputError.exit_code, UsageError.exit_code)
    assert len(lines) <= MOST_LINES + 1
    assert all(line.isprintable() and len(line) <= 6_000 for line in lines)
    assert name in str(error)


def check_read(read: Reader, path: Path) -> None:
    try:
        read(path)
    except PlannerError as error:
        check_message(error, path.name)


FIXED = settings(
    max_examples=15, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def test_every_reader_takes_its_good_file(good: dict[str, bytes], tmp_path: Path) -> None:
    for name, content in good.items():
        (tmp_path / name).write_bytes(content)
        READERS[name](tmp_path / name)


@pytest.mark.parametrize("name", READERS)
@FIXED
@given(seed=st.integers(0, 2**32))
def test_a_broken_file_is_a_value_or_one_message(
    name: str, seed: int, good: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(mutated(good[name], Random(seed)))
    check_read(READERS[name], path)


@FIXED
@given(seed=st.integers(0, 2**32), setting=st.sampled_from(SETTINGS))
def test_a_broken_override_is_a_value_or_one_message(seed: int, setting: str) -> None:
    override = mutated(setting.encode(), Random(seed))[:100_000].decode(errors="surrogateescape")
    try:
        load_scenario(TINY, "tiny.toml", Path(), [override])
    except PlannerError as error:
        check_message(error, "--set")


@FIXED
@given(text=st.text(max_size=300))
def test_any_text_is_a_value_or_one_message(text: str) -> None:
    for read in (lambda: TomlFile("x.toml", text), lambda: profile_of_config("x.toml", text)):
        try:
            read()
        except InputError as error:
            check_message(error, "x.toml")


DEEP = {
    "dotted key": ("scenario.toml", "a." * 600 + "b = 1", "too many parts"),
    "very long dotted key": ("scenario.toml", "a." * 100_000 + "b = 1", "too many parts"),
    "dotted header": ("scenario.toml", "[" + "a." * 600 + "b]", "too many parts"),
    "quoted dotted key": ("notes.toml", "'a'. \"b\"." * 300 + "b = 1", "too many parts"),
    "array": ("scenario.toml", "a = " + "[" * 100_000, "too deep"),
    "closed array": ("scenario.toml", "a = " + "[" * 200 + "]" * 200, "too deep"),
    "inline tables of dotted keys": ("scenario.toml", ("a." * 20 + "a = {") * 9 + "}" * 9, "too deep"),
    "config": ("config.json", "[" * 100_000, "too deep"),
    "closed config": ("config.json", '{"a":' * 500 + "1" + "}" * 500, "too deep"),
    "plan": ("plan.json", '{"schema": "planner.plan/1", "pools": ' + "[" * 300 + "]" * 300 + "}", "too deep"),
    "live run": ("live.json", "[" * 100_000, "too deep"),
    "line of a trace": ("trace.jsonl", '{"timestamp": ' + "[" * 100_000, "too deep"),
    "result": ("result.json", "[" * 100_000, "too deep"),
    "key": ("scenario.toml", "k" * 100_000 + " = 1", "100,000 characters"),
    "digits": ("scenario.toml", "a = " + "9" * 5_000, "too many digits"),
    "many values": ("scenario.toml", "a = [" + "1," * 300_000 + "]", "at most 200,000"),
    "many keys": ("scenario.toml", "".join(f"a{n} = 1\n" for n in range(9_000)), "at most 5,000"),
    "many layers": ("config.json", None, "at most 10,000"),
}


@pytest.mark.parametrize("case", DEEP)
def test_what_is_too_deep_or_too_many_is_refused_by_name(case: str, good: dict[str, bytes], tmp_path: Path) -> None:
    name, text, message = DEEP[case]
    content = json.loads(good["config.json"]) | {"num_hidden_layers": 10**8}
    (tmp_path / name).write_text(json.dumps(content) if text is None else text, encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        READERS[name](tmp_path / name)
    check_message(caught.value, name)


def test_nesting_up_to_the_limit_is_taken() -> None:
    assert TomlFile("x.toml", ".".join(["a"] * MOST_DEPTH) + " = 1").data
    assert TomlFile("x.toml", 'a = "' + "a." * 600 + '"  # ' + "a." * 600 + "\nb = '''" + "\n1.2" * 100 + "'''").data


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_is_none_is_one_message(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    contents = (
        b"",
        b"\n",
        b"\x00" * 100,
        b"\xff\xfe\x00",
        b"\xef\xbb\xbf",
        "\u202e".encode(),
        b"\xef\xbb\xbf\xef\xbb\xbf{",
    )
    for content in contents:
        path.write_bytes(content)
        if name == "notes.toml" and not content.strip(b"\n\xef\xbb\xbf"):
            continue  # empty notes are notes
        with pytest.raises(InputError) as caught:
            READERS[name](path)
        check_message(caught.value, name)


@pytest.mark.parametrize("name", sorted(set(READERS) - {"notes.toml"}))
def test_a_folder_is_one_message(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=r"Is a directory|is a folder without"):
        READERS[name](tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
@pytest.mark.parametrize("name", READERS)
def test_a_file_without_permission_is_one_message(name: str, good: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(good[name])
    (tmp_path / name).chmod(0)
    with pytest.raises(InputError, match="Permission denied"):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize("name", sorted(set(READERS) - {"notes.toml"}))
def test_a_device_without_end_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"is larger than|is longer than"):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize("name", ["scenario.toml", "trace.csv", "config.json"])
def test_a_pipe_that_says_nothing_is_not_waited_for(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.reading.PATIENCE_S", 0.05)
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="it says nothing"):
        READERS[name](tmp_path / name)


def test_a_pipe_that_speaks_is_read(tmp_path: Path, good: dict[str, bytes]) -> None:
    content = good["points.csv"]
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    (tmp_path / "points.csv").write_bytes(content)
    found = read_points(Path(f"/dev/fd/{reading}"))
    os.close(reading)
    assert len(found) == len(read_points(tmp_path / "points.csv"))


LIMITS = {
    "scenario.toml": TOML_BYTES,
    "h200-sxm.toml": TOML_BYTES,
    "config.json": JSON_BYTES,
    "points.csv": TABLE_BYTES,
    "trace.csv": LINE_BYTES,
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_huge_file_is_refused_unread(name: str, tmp_path: Path) -> None:
    with (tmp_path / name).open("wb") as file:
        os.truncate(file.fileno(), 100 * LIMITS[name])  # takes no room on the disk
    assert stat.S_ISREG((tmp_path / name).stat().st_mode)
    with pytest.raises(InputError, match=r"is larger than|is longer than"):
        READERS[name](tmp_path / name)


HOSTILE = ("\x1b[31mred", "a\nb", "x" * 100_000, "\u202egnp", "\ud800", "\x9b1m", "\u2028")


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_whatever_a_problem_is_made_of_prints_as_one_short_line(text: str) -> None:
    error = InputError(InputProblem(text, text, text, text, 3))
    assert str(error).isprintable()
    assert len(str(error)) < 6_100
    assert str(error).encode()
    assert "\x1b" not in str(PlannerError(text))


@pytest.mark.parametrize("text", HOSTILE[:1] + HOSTILE[3:4], ids=ascii)
def test_names_of_files_that_reach_tables_may_not_steer_a_terminal(text: str, tmp_path: Path) -> None:
    escaped = json.dumps(text)
    with pytest.raises(InputError, match="not printable"):
        load_scenario(TINY.replace('name = "tiny"', f'name = "tiny"\ntitle = {escaped}'), "x.toml", Path())
    (tmp_path / "points.csv").write_text(f"model,hardware,framework,gpus,input_tokens,ttft_ms\n{text},h,vllm,8,4,3\n")
    with pytest.raises(InputError, match="not printable"):
        read_points(tmp_path / "points.csv")


@given(st.text(), st.integers(4, 300))
def test_printable_text_is_printable_within_its_length_and_stays_as_it_is(text: str, most: int) -> None:
    found = printable(text, most)
    assert found.isprintable()
    assert len(found) <= most
    assert printable(found, most) == found


def test_the_same_problem_of_every_row_is_one_message_with_a_count(tmp_path: Path) -> None:
    rows = "".join(f"m,h,vllm,8,1024,512,{-n},250\n" for n in range(1244))
    (tmp_path / "points.csv").write_text(
        f"model,hardware,framework,gpus,input_tokens,output_tokens,concurrency,ttft_ms\n{rows}"
    )
    with pytest.raises(InputError) as caught:
        read_points(tmp_path / "points.csv")
    (line,) = str(caught.value).split("\n")
    assert 'points.csv:2: concurrency: is "0"' in line
    assert line.endswith("and 1,243 more like it, on lines 3, 4, 5, 6, 7, ...")
    assert len(caught.value.problems) == 1244


def test_different_problems_are_told_one_by_one() -> None:
    error = InputError(InputProblem("x.csv", key, "is wrong", "", n) for n, key in enumerate("abcdef", start=1))
    assert len(str(error).split("\n")) == 6


def test_a_config_is_refused_by_its_own_name_and_keys(good: dict[str, bytes]) -> None:
    config = json.loads(good["config.json"])
    wrong = {
        "architectures": 5,
        "num_attention_heads": 10**15,
        "intermediate_size": 2**64,
        "num_hidden_layers": "many",
        "quantization_config": [[1]],
        "vocab_size": 500_000_000,
    }
    for key, value in wrong.items():
        with pytest.raises(InputError) as caught:
            profile_of_config("config.json", json.dumps(config | {key: value}))
        assert {(p.file, p.key) for p in caught.value.problems} >= {("config.json", key)}
        assert ".toml" not in str(caught.value)


def test_lists_of_lists_and_other_kinds_in_a_config_are_messages() -> None:
    for case in corpus()["config"][::7]:
        config = json.loads(case.files["config.json"])
        for key in config:
            for value in ([[1]], [{}], {"a": []}, 5, "x", -1, 1.5, True, [None]):
                try:
                    profile_of_config("config.json", json.dumps(config | {key: value}))
                except InputError as error:
                    check_message(error, "config.json")


def live(good: Mapping[str, bytes]) -> dict[str, Any]:
    return json.loads(good["live.json"])  # type: ignore[no-any-return]


def test_a_live_run_with_times_below_0_or_an_error_of_its_own_is_refused(good: dict[str, bytes]) -> None:
    def refused(content: dict[str, Any]) -> str:
        with pytest.raises(InputError) as caught:
            live_from(json.dumps(content), "live.json")
        return str(caught.value)

    assert "served_s: should be greater" in refused(live(good) | {"served_s": -1.0})
    for key, value in (("relative_error", 7.0), ("holds", None), ("ci_low", 1e29), ("predicted", -5.0)):
        content = live(good)
        check = next(c for c in content["checks"] if c["relative_error"] is not None and c["ci_high"] is not None)
        check[key] = (not check["holds"]) if value is None else value
        assert "live.json: checks[" in refused(content)


def check_sample(campaign: str, count: int, *options: str) -> None:
    """In a process of its own: children count the memory of who forked them."""
    command = [sys.executable, "-m", f"tests.campaigns.{campaign}", "--seed=0", f"--count={count}", *options]
    ended = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert f"{count} inputs, 0 that break the law" in ended.stdout, ended.stdout + ended.stderr
    assert ended.returncode == 0


def test_a_sample_of_the_campaign_breaks_no_law() -> None:
    check_sample("fuzz_inputs", 33, *(f"--kind={kind}" for kind in corpus() if kind != EXECUTED))


def test_a_sample_of_small_changes_breaks_no_law() -> None:
    # east-west takes as long as a search may, and is left to the campaign.
    check_sample("small_changes", 12, *(f"--kind={name}" for name in bundled_scenarios() if name != "east-west"))


def test_small_changes_are_the_half_the_double_and_the_ends_of_every_number() -> None:
    found = changes(["prfaas-paper"])
    sigma = {c.settings[0] for c in found if c.settings[0].startswith("workload.lengths.sigma=")}
    assert sigma == {f"workload.lengths.sigma={value}" for value in (0.5, 2.0, 1e-6, 100.0)}
    rows = [c for c in found if c.settings[-1].startswith("measured.table-5.prefill.tokens[0]=")]
    assert {c.settings[0] for c in rows} == {'capacity_rule="mean-length"'}
    assert {c.settings[-1].partition("=")[2] for c in rows} == {"512", "2048", "1", "1000000000"}
    assert {c.is_planned for c in found if c.settings[0].startswith("claims")} == {False}
    assert all(c.is_planned for c in rows)


def test_notes_are_read_as_every_other_file() -> None:
    with pytest.raises(InputError, match=r"doubts\[0\]\.ttft_above_s: .*0 to 1,000,000,000 s"):
        TomlFile("notes.toml", NOTES.replace("ttft_above_s = 3", "ttft_above_s = -3")).record(FidelityNotes)
