"""Whatever goes wrong ends in one clear message on stderr and the exit code of its kind, never in a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from planner.cli import exit, main
from tests.builders import POOLS_HERE, SMALL
from tests.talk import without_progress

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
TINY = (
    """
schema = "planner.scenario/1"
name = "tiny"

[model]
profile = "qwen3-235b"

[workload]
lengths = { kind = "constant", tokens = 1000 }
output_lengths = { kind = "constant", tokens = 500 }

[sites.here]
accelerators = { h200-sxm = 24 }

"""
    + POOLS_HERE
    + """
[prices]
h200-sxm = { usd_per_accelerator_hour = 2.0, basis = "assumed", source = "a test" }

[measured.mine]
hardware = "h200-sxm"
n_accelerators = 8
precision = "bf16"
basis = "measured"
source = "a test"
prefill = { tokens = [64, 8192], seconds = [0.3, 1.6], interpolation = "linear" }
decode = { batch = 20, step_s = 0.025 }
"""
)
GOOD_LINE = {"timestamp": 0, "input_length": 700, "output_length": 10, "hash_ids": [0, 1]}


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of good and bad files, and the place the commands run in."""
    start, end = SMALL.index("[workload]"), SMALL.index("[sites.remote]")
    files = {
        "small.toml": SMALL,
        "tiny.toml": TINY,
        "broken.toml": SMALL.replace("[model]", "[model"),
        "unknown.toml": SMALL.replace("[model]", "[model]\nprofil = 'x'"),
        "faults.toml": SMALL.replace("capacity_gbps = 100", "capacity_gbps = -100").replace(
            "[model]", "[model]\nx = 1"
        ),
        "no-profile.toml": SMALL.replace("qwen3-235b", "mine.toml"),
        "no-trace.toml": f"{SMALL[:start]}[workload]\ntrace = {{ path = 'absent.jsonl' }}\n{SMALL[end:]}",
        "bad-trace.toml": f"{SMALL[:start]}[workload]\ntrace = {{ path = 'bad.jsonl' }}\n{SMALL[end:]}",
        "bad.jsonl": f"{json.dumps(GOOD_LINE)}\n{json.dumps(GOOD_LINE | {'input_length': -1})}\n",
        "bad.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.0,10,10\n2023-11-16 18:00:01.0,10\n",
        "bad-claim.toml": TINY + '[[claims]]\nwhat = "x"\nmetric = "plan.nothing"\npublished = 1\nsource = "x"\n',
        "bad-comparison.toml": SMALL + '[comparisons.other]\ntitle = "x"\nset = { "links.wan.capacity" = 1 }\n',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "latin.toml").write_bytes(SMALL.replace("a test", "un caf\xe9").encode("latin-1"))
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "stale").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planner(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "planner", *arguments]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False)


def ended(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `planner` in this process."""
    monkeypatch.setattr(sys, "argv", ["planner", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    captured = capsys.readouterr()
    return int(caught.value.code or 0), captured.out, captured.err


FAILURES: dict[str, tuple[list[str], int, str]] = {
    "unknown command": (["optimise"], 2, "No such command"),
    "unknown option": (["optimize", "--sett", "x=1"], 2, "No such option"),
    "an option that is a key": (["optimize", "--slo-ttft", "2"], 2, "a key of the scenario: --set slo.ttft_s=SECONDS"),
    "a demand as an option": (["sweep", "--demand", "2"], 2, "--set demand_req_per_s=REQ_PER_S"),
    "the beginning of a key": (["optimize", "--set", "demand=2"], 3, "did you mean 'demand_req_per_s'?"),
    "an option twice": (["optimize", "--seed", "1", "--seed", "2"], 2, "--seed: is given 2 times (once)"),
    "an option of a command of a group twice": (
        ["scenario", "new", "x", "--demand", "1", "--demand=2"],
        2,
        "--demand: is given 2 times (once)",
    ),
    "unknown format": (["optimize", "--format", "yaml"], 2, "--format"),
    "no command of a group": (["scenario"], 2, "Usage:"),
    "missing option": (["report"], 2, "--out"),
    "missing argument": (["scenario", "new"], 2, "NAME"),
    "one argument too many": (["scenario", "schema", "x"], 2, "unexpected extra argument"),
    "override that is no pair": (["optimize", "--set", "x"], 2, "planner: --set x: not KEY=VALUE"),
    "negative time limit": (["optimize", "--time-limit", "-1"], 2, "--time-limit"),
    "time limit not a number": (["optimize", "--time-limit", "nan"], 2, "--time-limit"),
    "unknown scenario": (["optimize", "prfaas-papr"], 3, "did you mean 'prfaas-paper'?"),
    "scenario file missing": (["scenario", "check", "absent.toml"], 3, "absent.toml: cannot be read: No such file"),
    "scenario that is a folder": (["optimize", "folder.toml"], 3, "folder.toml: is a folder without scenario.toml"),
    "scenario that is no text": (["optimize", "latin.toml"], 3, "latin.toml: is not UTF-8 text"),
    "scenario that is no TOML": (["optimize", "broken.toml"], 3, "broken.toml:5: is not valid TOML"),
    "unknown key": (["optimize", "unknown.toml"], 3, "unknown.toml:6: model.profil: unknown key (did you mean"),
    "profile missing": (["optimize", "no-profile.toml"], 3, "no-profile.toml:6: model.profile: 'mine.toml' cannot"),
    "trace missing": (["scenario", "check", "no-trace.toml"], 3, "no-trace.toml:9: workload.trace.path: 'absent"),
    "trace with a broken line": (["optimize", "bad-trace.toml"], 3, "bad.jsonl:2: input_length: is -1"),
    "new from a broken trace": (["scenario", "new", "x", "--from", "bad.csv"], 3, "bad.csv:3: has 2 columns"),
    "new from no trace": (["scenario", "new", "x", "--from", "absent.csv"], 3, "absent.csv: trace.path: is not there"),
    "new from a folder": (["scenario", "new", "x", "--from", "."], 3, "cannot be read: Is a directory"),
    "new without a name": (["scenario", "new", "--", "-"], 3, "is '-'"),
    "new where there is no folder": (["scenario", "new", "no/where/x"], 3, "no/where/x.toml: cannot be written"),
    "negative number": (["optimize", "--set", "demand_req_per_s=-1"], 3, "--set demand_req_per_s=-1: should be"),
    "not a number": (["optimize", "--set", "budget_usd_per_hour=nan"], 3, "finite number, got NaN"),
    "number beyond reason": (["optimize", "--set", "pools.pd-p.n_instances=9999999"], 3, "less than or equal to"),
    "fleet beyond reason": (["optimize", "--set", "sites.local.accelerators.h20-141gb=99999999"], 3, "at most 10,"),
    "ratio beyond reason": (["optimize", "--set", "routing.prefill_to_decode=99999999999:1"], 3, '"99999999999:1"'),
    "length beyond reason": (["optimize", "--set", "workload.output_lengths.tokens=1e300"], 3, "less than or equal to"),
    "comparison that cannot be": (["scenario", "check", "bad-comparison.toml"], 3, "comparisons.other.set"),
    "profile unknown": (["profiles", "show", "h200-smx"], 3, "did you mean 'h200-sxm'?"),
    "report of an unknown figure": (["report", "bad-claim.toml", "--out", "out"], 3, "'plan.nothing': no 'nothing'"),
    "report into a file": (["report", "tiny.toml", "--out", "tiny.toml"], 3, "tiny.toml: cannot be written"),
    "budget too small": (["optimize", "tiny.toml", "--set", "budget_usd_per_hour=5"], 4, "budget_usd_per_hour"),
    "no instances": (["optimize", "tiny.toml", "--set", "pools.decode.n_instances=0"], 4, "pools.decode.n_instances"),
    "report that is not there": (["report", "tiny.toml", "--out", "stale", "--check"], 6, "report.md: is missing"),
    "profile that does not hold": (["profiles", "check", "small.toml"], 6, ""),
}  # fmt: skip
ANSWERED = {"profile that does not hold"}
"""The answer of a check is what it found, on stdout."""
SEEN_FROM_OUTSIDE = """unknown command, unknown option, override that is no pair, unknown key, scenario that is no text,
trace with a broken line, budget too small, report that is not there, profile that does not hold"""


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_has_its_exit_code_and_its_message(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, code, message = FAILURES[name]
    found, out, err = ended(capsys, monkeypatch, *arguments)
    assert found == code
    assert message in " ".join(err.split())
    assert bool(out) is (name in ANSWERED)
    if code not in (2, 6):
        assert err.startswith("planner: ")


@pytest.mark.parametrize("name", SEEN_FROM_OUTSIDE.replace("\n", " ").split(", "))
def test_a_failed_command_has_no_traceback_and_no_answer(name: str) -> None:
    arguments, code, message = FAILURES[name]
    found = planner(*arguments)
    assert found.returncode == code
    assert message in found.stderr
    assert "Traceback" not in found.stderr
    assert bool(found.stdout) is (name in ANSWERED)


def test_a_failed_report_leaves_no_folder(
    in_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ended(capsys, monkeypatch, "report", "bad-claim.toml", "--out", "out")[0] == 3
    assert not (in_folder / "out").exists()


def test_all_problems_of_a_file_are_printed_one_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = ended(capsys, monkeypatch, "optimize", "faults.toml")
    assert code == 3
    assert [line.removeprefix("planner: ").split(": ")[1] for line in err.splitlines()] == [
        "model.x",
        "links.wan.capacity_gbps",
    ]


def test_the_check_of_a_current_report_exits_0_and_of_a_changed_one_6(
    in_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("report", "tiny.toml", "--out", "out")
    assert ended(capsys, monkeypatch, *asked)[0] == 0
    assert ended(capsys, monkeypatch, *asked, "--check")[0] == 0
    report = in_folder / "out" / "report.md"
    report.write_text(report.read_text(encoding="utf-8").replace("tiny", "tinier", 1), encoding="utf-8")
    code, _, told = ended(capsys, monkeypatch, *asked, "--check")
    assert code == 6
    assert "report.md: line 1 differs" in told
    assert "Run: planner report tiny.toml --out out" in told


@pytest.mark.parametrize(
    "arguments", [["scenario", "schema"], ["profiles", "show", "prfaas-1t"], ["optimize", "--help"]]
)
def test_a_reader_that_leaves_early_ends_the_command_as_other_programs_end(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "planner", *arguments]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        complaints = process.stderr.read().decode()
        assert process.wait(timeout=60) == 141
    assert complaints == ""


def test_head_gets_its_line() -> None:
    command = f"{sys.executable} -m planner scenario schema | head -1"
    found = subprocess.run(["bash", "-c", command], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr) == ("{\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_answer_that_cannot_be_written_is_said_and_fails() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "planner", "profiles", "list"]
        found = subprocess.run(command, env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert found.returncode == 3
    assert found.stderr == "planner: the system refuses: [Errno 28] No space left on device\n"


DRIVER = """
import os, signal, sys
import planner.report.folder as folder, planner.studies.case as case
place, name, nth = sys.argv[1:4]
module = {"folder": folder, "case": case, "os": os}[place]
original, calls = getattr(module, name), []

# Whoever starts the tests in the background has them ignore the signal; a terminal does not.
signal.signal(signal.SIGINT, signal.default_int_handler)

def interrupted(*arguments, **options):
    calls.append(name)
    if len(calls) == int(nth):
        os.kill(os.getpid(), signal.SIGINT)
    return original(*arguments, **options)

setattr(module, name, interrupted)
sys.argv = ["planner", *sys.argv[4:]]
from planner.cli import main
main()
"""
MOMENTS = {
    "while planning": ("case", "optimized", 1),
    "while drawing": ("folder", "images", 1),
    "while moving files into place": ("folder", "move_into_place", 3),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupted_report_exits_130_with_the_old_report_whole_and_nothing_left_over(
    moment: str, in_folder: Path
) -> None:
    out = in_folder / "out"
    out.mkdir()
    (out / "report.md").write_text("the old report\n", encoding="utf-8")
    place, name, nth = MOMENTS[moment]
    command = [sys.executable, "-c", DRIVER, place, name, str(nth), "report", "tiny.toml", "--out", "out"]
    found = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False)
    told = without_progress(found.stderr)
    assert (found.returncode, found.stdout, told) == (130, "", "planner: interrupted\n")
    assert (out / "report.md").read_text(encoding="utf-8") == "the old report\n"
    assert not [path for path in out.rglob("*") if path.name.startswith(".")]


def test_an_interrupted_first_report_leaves_no_folder(in_folder: Path) -> None:
    place, name, nth = MOMENTS["while drawing"]
    command = [sys.executable, "-c", DRIVER, place, name, str(nth), "report", "tiny.toml", "--out", "out"]
    assert subprocess.run(command, env=ENVIRONMENT, capture_output=True, timeout=120, check=False).returncode == 130
    assert not (in_folder / "out").exists()


def test_a_fault_of_the_program_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(exit, "app", fails)
    with pytest.raises(ZeroDivisionError):
        main()


def test_every_exit_code_of_the_house_but_1_and_5_is_shown_here() -> None:
    assert {code for _, code, _ in FAILURES.values()} == {2, 3, 4, 6}
