"""However a command ends - by a signal, a fault, a failure - there is one line, one code and one object."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from planner.cli import app, exit, main
from planner.cli.groups import KINDS, failure
from planner.cli.signals import WORDS
from planner.errors import (
    CheckFailedError,
    InfeasibleError,
    InputError,
    InputProblem,
    PlannerError,
    UndecidedError,
    UsageError,
)
from tests.test_cli_errors import TINY
from tests.test_cli_goldens import commands

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
PREPARED = """
import os, signal, sys
# Whoever starts the tests in the background has them ignore signals; a terminal does not.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""


def python(script: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PREPARED + script, *arguments]
    environment = {**ENVIRONMENT, **options.pop("environment", {})}  # type: ignore[dict-item]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload, no-any-return]


# Signals

FINDER = """
import importlib.abc
module, number = sys.argv[1], int(sys.argv[2])
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == module:
            os.kill(os.getpid(), number)
sys.meta_path.insert(0, Finder())
import planner.cli
sys.argv = ["planner", "predict", "qwen3-32b", "h200-sxm"]
planner.cli.main()
"""


@pytest.mark.parametrize(
    ("module", "number"),
    [
        *(("typer", number) for number in CODES),
        ("planner.cli.commands", signal.SIGTERM),
        ("numpy", signal.SIGHUP),
        *(("pydantic", number) for number in CODES),
        ("rich.console", signal.SIGTERM),
    ],
    ids=str,
)
def test_a_signal_while_modules_load_is_one_line_and_the_shells_code(module: str, number: signal.Signals) -> None:
    found = python(FINDER, module, str(int(number)))
    word = WORDS[number.name]
    assert (found.returncode, found.stdout, found.stderr) == (CODES[number], "", f"planner: {word}\n")


SWALLOWED = """
import planner.cli.commands as commands
from pathlib import Path
from tempfile import mkdtemp
from planner.files import scratch_prefix
folder = Path(mkdtemp(prefix=scratch_prefix()))
print(folder, flush=True)

def stuck():
    try:
        os.kill(os.getpid(), int(sys.argv[1]))
        while True: pass
    except KeyboardInterrupt:
        if sys.argv[2] == "other":
            raise ImportError("what a library makes of it")
        if sys.argv[2] == "raised":
            raise
    while True: pass

import planner.cli.exit as command_exit
command_exit.app = stuck
import planner.cli
planner.cli.main()
"""


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
@pytest.mark.parametrize("fate", ["raised", "other", "swallowed"])
def test_an_interrupt_ends_the_command_whatever_a_library_makes_of_it(fate: str, number: signal.Signals) -> None:
    found = python(SWALLOWED, str(int(number)), fate)
    assert (found.returncode, found.stderr) == (CODES[number], f"planner: {WORDS[number.name]}\n")
    if fate == "swallowed":  # nobody else could clean up
        assert not Path(found.stdout.strip()).exists()


IN_A_THREAD = """
import os, signal, sys, threading, time
import planner.cli.exit as command_exit

def fail():
    raise OSError("a library's own")

def work():
    failed = threading.Thread(target=fail)
    try:
        if sys.argv[1] == "interrupted":
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
    finally:
        failed.start()
        failed.join()

command_exit.app = work
import planner.cli
planner.cli.main()
"""


@pytest.mark.parametrize(("when", "n_told"), [("interrupted", 0), ("at work", 1)])
def test_a_thread_that_an_interrupt_ends_says_nothing_and_any_other_does(when: str, n_told: int) -> None:
    assert python(IN_A_THREAD, when).stderr.count("a library's own") == n_told


WORKING = """
from planner.jobs import Workers, answers
import time
import planner.cli.exit as command_exit

def work():
    for _ in answers(time.sleep, [(60.0,)] * 4, Workers(2)): pass

import joblib
command_exit.app = work
import planner.cli
print("ready", flush=True)
planner.cli.main()
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_processes_that_share_the_work_end_with_the_command(number: signal.Signals) -> None:
    command = [sys.executable, "-c", PREPARED + WORKING]
    marked = {**ENVIRONMENT, "PLANNER_TEST_MARK": f"{os.getpid()}-{number}"}
    with subprocess.Popen(command, env=marked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: len(of_mark(marked["PLANNER_TEST_MARK"])) >= 3)
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
    assert process.returncode == CODES[number]
    assert told == f"planner: {WORDS[number.name]}\n"
    wait_until(lambda: not of_mark(marked["PLANNER_TEST_MARK"]))


def of_mark(mark: str) -> list[str]:
    """Processes that were started with a mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"PLANNER_TEST_MARK={mark}".encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def wait_until(holds: Callable[[], bool], most_s: float = 90.0) -> None:
    until = time.monotonic() + most_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


LIVE = """
import planner.cli.exit as command_exit
from planner.hybrid.live import Fleet
from tests.test_hybrid_live import SETUP, WORKERS
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from planner.files import scratch_prefix

def serve():
    with TemporaryDirectory(prefix=scratch_prefix()), Fleet(SETUP, WORKERS) as fleet:
        fleet.wait_until_ready()
        print(len(list(Path(gettempdir()).glob(scratch_prefix() + "*"))), flush=True)
        fleet.messages(60.0)

if __name__ == "__main__":
    command_exit.app = serve
    import planner.cli
    planner.cli.main()
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_live_leaves_neither_folders_nor_processes_after_sigterm(tmp_path: Path) -> None:
    script = tmp_path / "serve.py"
    script.write_text(PREPARED + LIVE)
    (tmp_path / "temporary").mkdir()
    mark = f"{os.getpid()}-live"
    marked = {**ENVIRONMENT, "PLANNER_TEST_MARK": mark, "TMPDIR": str(tmp_path / "temporary")}
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, env=marked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "2\n"
        process.terminate()
        _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (143, "planner: terminated\n")
    wait_until(lambda: not of_mark(mark))
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_signal_that_is_to_be_ignored_stays_ignored() -> None:
    script = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nfrom planner.cli.signals import Signals\n"
    script += "with Signals(): os.kill(os.getpid(), signal.SIGINT); print('goes on')"
    assert python(script).stdout == "goes on\n"


# Faults of the program


@pytest.mark.parametrize("fault", [EOFError("of a pipe"), ZeroDivisionError(), BlockingIOError(11, "try again")])
def test_a_fault_is_neither_hidden_nor_taken_for_success(
    fault: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = typer.Typer()

    @broken.command()
    def fails() -> None:
        raise fault

    monkeypatch.setattr(exit, "app", broken)
    monkeypatch.setattr(sys, "argv", ["planner"])
    with pytest.raises((type(fault), SystemExit)) as caught:
        main()
    if isinstance(fault, OSError):
        assert caught.value.code == 3  # type: ignore[attr-defined]
        assert "planner: the system refuses: [Errno 11] try again" in capsys.readouterr().err
    else:
        assert caught.value is fault


def test_what_the_system_refuses_is_told_in_a_short_line_of_printable_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = typer.Typer()

    @broken.command()
    def fails() -> None:
        raise OSError(36, "File name too long\x1b[2J", "x" * 100_000)

    monkeypatch.setattr(exit, "app", broken)
    monkeypatch.setattr(sys, "argv", ["planner"])
    with pytest.raises(SystemExit, match="3"):
        main()
    message = capsys.readouterr().err
    assert message.startswith("planner: the system refuses: [Errno 36] File name too long\\x1b[2J: 'xxx")
    assert len(message) < 3_000


@pytest.mark.parametrize("code", [0, 1, 2, 7])
def test_an_exit_code_is_passed_on_as_it_is(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exit, "app", lambda: sys.exit(code))
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == code


def test_another_pipe_that_breaks_is_not_taken_for_a_reader_that_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(exit, "app", fails)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 3


# Terminals without UTF-8


PRINTING = [
    ["predict", "qwen3-32b", "h200-sxm"],
    ["profiles", "list"],
    ["profiles", "show", "prfaas-1t"],
    ["profiles", "show", "prfaas-1t", "--format", "json"],
    ["optimize", "Löwe–中.toml"],
    ["scenario", "check", "--help"],
]


@pytest.mark.parametrize(
    ("arguments", "encoding"),
    [
        *((arguments, "ascii") for arguments in PRINTING),  # what it lacks, others may have
        *((PRINTING[i], encoding) for i in (0, 4) for encoding in ("latin-1", "cp1252", "utf-8")),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value[:2]),
)
def test_whatever_the_encoding_the_answer_is_printed(arguments: list[str], encoding: str) -> None:
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "planner", *arguments]
    found = subprocess.run(command, env=environment, capture_output=True, timeout=120, check=False)
    assert found.returncode == (3 if "optimize" in arguments else 0)
    assert b"Traceback" not in found.stderr
    printed = found.stdout.decode(encoding)
    found.stderr.decode(encoding)
    if "json" in arguments:
        json.loads(printed)
    if encoding == "ascii" and arguments[0] == "predict":
        assert "+--" in printed  # frames and rules of ASCII


LOUD = """
import ctypes, importlib.abc
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "pydantic":
            os.write(1, b"written\\n")
            ctypes.CDLL(None).printf(b"kept in a buffer until the end\\n")
            print("printed to descriptor 1", file=sys.__stdout__)
sys.meta_path.insert(0, Finder())
import planner.cli
sys.argv = ["planner", "predict", "qwen3-32b", "h200-sxm", "--format", "json"]
planner.cli.main()
"""


@pytest.mark.skipif(os.name != "posix", reason="needs a C library to print with")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_nothing_but_the_answer_reaches_standard_output_whatever_a_library_prints(unbuffered: str) -> None:
    found = python(LOUD, environment={"PYTHONUNBUFFERED": unbuffered})
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["schema"] == "planner.prediction/1"
    assert found.stderr == ""


# Failures as JSON


def object_of(text: str) -> dict[str, object]:
    found, end = json.JSONDecoder().raw_decode(text)
    assert text[end:] == "\n"
    assert isinstance(found, dict)
    return found


BAD = "bad.toml"
NEEDED = {
    "diff": ["tiny.toml", BAD],
    "predict": ["no-model", "h200-sxm"],
    "sweep": [BAD, "--over", "links.wan.capacity_gbps=1,2"],
}
NEEDED |= {"fidelity": ["absent.csv"], "calibrate": ["absent.csv", "--stack", "vllm", "--out", "vllm.toml"]}
NEEDED |= {"size": ["no-model", "h200-sxm", "--rate", "1", "--input", "9", "--output", "9"]}
NEEDED |= {"profiles kernels": ["nowhere", "--out", "h100-sxm.toml"]}
NEEDED |= {"live": ["--from", "absent.json"], "profiles show": ["nobody"]}
OWN_ANSWER = ["profiles list", "profiles check", "scenario check", "scenario schema"]
"""Whatever becomes of these, their answer says it; a schema is asked of no file."""


def with_json() -> list[str]:
    """Commands that answer in JSON where asked."""
    top = typer.main.get_command(app)
    found = []
    for names in commands():
        command = top
        for name in names:
            command = command.commands[name]  # type: ignore[attr-defined]
        if any("--format" in parameter.opts for parameter in command.params):
            found.append(" ".join(names))
    return [name for name in found if name not in OWN_ANSWER]


def test_there_are_commands_with_json() -> None:
    assert {"optimize", "simulate", "validate", "predict", "sweep"} <= set(with_json())


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / BAD).write_text(
        TINY.replace('role = "decode"', 'role = "decoder"').replace("[model]", "[model]\nx = 1")
    )
    (tmp_path / "tiny.toml").write_text(TINY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize("command", with_json())
def test_bad_input_is_one_object_with_its_problems_where_json_is_asked_for(command: str) -> None:
    arguments = [*command.split(), *NEEDED.get(command, [BAD]), "--format", "json"]
    found = CliRunner().invoke(app, arguments)
    assert isinstance(found.exception, InputError), found.output
    answer = object_of(found.stdout)
    assert (answer["schema"], answer["exit_code"], answer["error"]) == ("planner.error/1", 3, "bad input")
    assert answer["message"] == str(found.exception)
    problems = answer["problems"]
    assert isinstance(problems, list)
    assert all(set(problem) == {"file", "line", "key", "message", "allowed"} for problem in problems)
    assert len(problems) == len(found.exception.problems) > 0
    text = CliRunner().invoke(app, arguments[:-2])
    assert (text.stdout, str(text.exception)) == ("", str(found.exception))


@pytest.mark.usefixtures("in_folder")
def test_an_infeasible_question_is_one_object_with_what_would_do() -> None:
    arguments = ["optimize", "tiny.toml", "--set", "budget_usd_per_hour=5", "--format", "json"]
    found = CliRunner().invoke(app, arguments)
    answer = object_of(found.stdout)
    assert (answer["exit_code"], answer["error"]) == (4, "infeasible")
    relaxations = answer["relaxations"]
    assert isinstance(relaxations, list)
    assert any("budget_usd_per_hour" in way for way in relaxations)
    assert all(f"  - {way}" in str(answer["message"]) for way in relaxations)


def test_an_answer_that_is_refused_after_it_was_printed_stays_the_only_object() -> None:
    found = CliRunner().invoke(app, ["predict", "deepseek-v3", "l20", "--accelerators", "1", "--format", "json"])
    assert isinstance(found.exception, InfeasibleError)
    assert object_of(found.stdout)["schema"] == "planner.prediction/1"


@pytest.mark.parametrize(
    "error",
    [
        InputError(InputProblem("x.toml", "a.b", "is wrong", "right", 3)),
        InfeasibleError("none", ["more"]),
        UndecidedError("no time"),
        CheckFailedError("does not hold"),
        OSError(28, "No space left on device"),
    ],
)
def test_every_failure_of_exit_3_to_6_has_an_object(error: PlannerError | OSError) -> None:
    found = failure(error)
    assert found is not None
    assert found["error"] == KINDS[found["exit_code"]]
    assert json.loads(json.dumps(found)) == found


def test_a_wrong_call_and_a_fault_of_the_program_have_none() -> None:
    assert failure(UsageError("no such thing")) is None
    assert failure(PlannerError("what?")) is None
    assert set(KINDS) == {3, 4, 5, 6}


@pytest.mark.parametrize("typed", ["--\x1b[31mred", "--\u202eder", "--" + "x" * 100_000, "--a\nb" * 200])
@pytest.mark.parametrize("command", [[], ["optimize"], ["scenario"], ["profiles", "check"]])
def test_what_was_typed_wrong_is_printed_escaped_and_cut(command: list[str], typed: str) -> None:
    found = CliRunner().invoke(app, [*command, typed])
    assert found.exit_code == 2
    said = [line for line in found.output.splitlines() if line]
    assert all(line.isprintable() for line in said)
    assert max(map(len, said)) <= 2100
    assert len(said) <= 60


@pytest.mark.parametrize("group", [[], ["scenario"], ["profiles"]])
def test_a_command_that_there_is_not_is_printed_escaped_and_cut(group: list[str]) -> None:
    for typed in ("\x1b[31mred", "x" * 100_000):
        found = CliRunner().invoke(app, [*group, typed])
        assert found.exit_code == 2
        assert all(line.isprintable() and len(line) <= 2100 for line in found.output.splitlines())
