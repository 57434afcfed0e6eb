"""A run says what memory it takes, and one that does not fit is refused before anything is planned or allocated."""

import re
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from planner.cli import app, exit, main
from planner.cli.memory import check_memory
from planner.errors import InputError
from planner.executor import memory
from planner.executor.kernel.control_records import ENTRY
from planner.executor.kernel.records import PROMPT
from planner.executor.memory import BLOCK, RunMemory, available_bytes, request_bytes
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.jobs import Workers
from planner.results.plan import Fleet
from planner.results.run import Run
from planner.scenario import Scenario
from tests import colocated_cases, executor_cases
from tests.builders import SMALL
from tests.test_cli_files import WorkHasBegunError, no_work

__all__ = ["no_work"]
SESSIONS = {"mean_turns": 5.0, "new_tokens": {"kind": "constant", "tokens": 400}, "mean_gap_s": 60.0}
CACHED = {"execution.sessions": SESSIONS, "execution.cache": {"exact_states": False}}
CACHED |= {"workload.lengths": {"kind": "constant", "tokens": 3000}}


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets what the machine has [B]."""

    def sets(n_bytes: float) -> None:
        monkeypatch.setattr("planner.executor.memory.available_bytes", lambda: int(n_bytes))

    return sets


def plain() -> tuple[Scenario, Fleet]:
    return executor_cases.scenario(), executor_cases.fleet()


def cached() -> tuple[Scenario, Fleet]:
    return executor_cases.scenario(CACHED), executor_cases.fleet()


def colocated() -> tuple[Scenario, Fleet]:
    return colocated_cases.chat(), colocated_cases.fleet()


def peak_bytes(scenario: Scenario, fleet: Fleet, question: RunQuestion, *, keep: bool) -> float:
    simulate(scenario, fleet, replace(question, n_requests=200))  # what loads once is no part of it
    tracemalloc.start()
    try:
        simulate(scenario, fleet, question, keep=keep)
        return float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("case", "n", "n_replications", "keep"),
    [
        pytest.param(plain, 60_000, 1, False, id="plain"),
        pytest.param(plain, 160_000, 4, False, id="replications"),
        pytest.param(plain, 160_000, 4, True, id="records"),
        pytest.param(cached, 40_000, 1, False, id="caches"),
        pytest.param(colocated, 300_000, 1, False, id="colocated"),
    ],
)
def test_what_a_request_more_takes_is_what_is_said(
    case: Callable[[], tuple[Scenario, Fleet]], n: int, n_replications: int, keep: bool
) -> None:
    scenario, fleet = case()
    questions = [RunQuestion(each, load=0.5, n_replications=n_replications) for each in (n // 2, n)]
    said = [RunMemory(scenario, keep=keep).needed_bytes(question) for question in questions]
    seen = [peak_bytes(scenario, fleet, question, keep=keep) for question in questions]
    assert said[1] - said[0] == pytest.approx(seen[1] - seen[0], rel=0.25)
    assert said[1] > 0.75 * seen[1]


def test_processes_of_their_own_take_more_and_a_cluster_takes_nothing_here() -> None:
    scenario, question = executor_cases.scenario(), RunQuestion(1_000_000)
    need = [RunMemory(scenario, (), by).needed_bytes(question) for by in (Workers(1), Workers(4), Workers(64))]
    assert need[0] < need[1] == need[2]
    assert RunMemory(scenario, (), Workers(1, "tcp://host:1")).needed_bytes(question) < need[0]


# Refusals

RUNS = {
    "simulate small.toml --requests 8000000": 8_000_000,
    "simulate small.toml --requests 8000 --most-requests 9000000": 9_000_000,
    "simulate small.toml --requests 8000000 --replications 1 --records x.csv": 8_000_000,
    "validate small.toml --requests 8000000": 8_000_000,
    "validate small.toml --most-requests 9000000": 9_000_000,
    "schedulers small.toml --requests 8000000": 8_000_000,
    "optimize promised.toml --requests 8000000": 8_000_000,
    "optimize promised.toml --most-requests 9000000": 9_000_000,
    "optimize small.toml --certify --requests 8000000": 8_000_000,
    "optimize small.toml --current fleet.json --requests 8000000": 8_000_000,
}


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "promised.toml").write_text(SMALL + "[slo]\nttft_s = 20.0\n")
    (tmp_path / "fleet.json").write_text('{"pools": {"fast": 1, "near": 1, "decode": 1}}')
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("no_work", "in_folder")
@pytest.mark.parametrize("command", RUNS)
def test_a_run_that_does_not_fit_is_refused_before_any_work(command: str, there: Callable[[float], None]) -> None:
    there(300e6)
    found = CliRunner().invoke(app, command.split())
    assert isinstance(found.exception, InputError), found.exception
    said = str(found.exception)
    assert f"a run of {RUNS[command]:,} requests takes " in said
    assert "0.3 GB are available" in said
    fitting = int(re.findall(r"at most ([\d,]+) requests", said)[0].replace(",", ""))
    assert 0 < fitting < RUNS[command]
    smaller = re.sub(r"\d{7,}", str(fitting), command)
    with pytest.raises(WorkHasBegunError):
        CliRunner().invoke(app, smaller.split(), catch_exceptions=False)


@pytest.mark.parametrize(
    ("n", "said"), [(4_000_000, ""), (40_000_000, "planner: 40,000,000 requests take up to 3.1 GB of memory\n")]
)
def test_a_large_run_says_what_it_takes(
    n: int, said: str, there: Callable[[float], None], capsys: pytest.CaptureFixture[str]
) -> None:
    there(1e12)
    check_memory(executor_cases.scenario(), RunQuestion(n))
    assert capsys.readouterr() == ("", said)


def test_whoever_runs_a_plan_is_refused_what_does_not_fit(there: Callable[[float], None]) -> None:
    there(60e6)
    with pytest.raises(InputError, match="GB are available"):
        simulate(*plain(), RunQuestion(10_000_000))


def test_a_run_goes_on_only_as_far_as_memory_reaches(there: Callable[[float], None]) -> None:
    scenario, fleet = plain()
    question = RunQuestion(4000, load=0.5, most_requests=64_000)

    def run() -> Run:
        return simulate(scenario, fleet, question, enough=lambda _: False)[0]

    there(1e12)
    assert run().n_asked == 64_000
    there(RunMemory(scenario).needed_bytes(replace(question, n_requests=8000, n_replications=8)))
    assert run().n_asked == 8000


def test_a_system_that_does_not_say_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.executor.memory.available_bytes", lambda: None)
    assert RunMemory(executor_cases.scenario()).check(RunQuestion(10**9)) > 1e10


def test_memory_that_runs_out_all_the_same_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise MemoryError("Unable to allocate 38.1 GiB")

    monkeypatch.setattr(exit, "app", fails)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 3
    assert capsys.readouterr().err == "planner: there is not the memory for it: Unable to allocate 38.1 GiB\n"


# What there is

MEMINFO = "MemTotal:  1000000 kB\nMemAvailable:  800000 kB\n"
V2, V1 = "0::/box/inner\n", "4:cpu,cpuacct:/\n5:memory:/box/inner\n0::/\n"


def machine(root: Path, groups: str, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": MEMINFO, "proc/self/cgroup": groups, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("groups", "files", "kib"),
    [
        ("", {}, 800_000),
        (V2, {"box/inner/memory.max": "max\n", "box/inner/memory.current": "1\n"}, 800_000),
        (V2, {"box/inner/memory.max": "409600\n", "box/inner/memory.current": "102400\n"}, 300),
        (V2, {"box/memory.max": "409600\n", "box/memory.current": "102400\n"}, 300),
        (V2, {"memory.max": "409600\n", "memory.current": "307200\n", "memory.stat": "inactive_file 102400\n"}, 200),
        (V2, {"memory.max": "1024\n", "memory.current": "2048\n"}, 0),
        (V1, {f"memory/box/memory.{n}_in_bytes": v for n, v in (("limit", "409600"), ("usage", "204800"))}, 200),
        (V1, {f"memory/memory.{n}_in_bytes": v for n, v in (("limit", "409600"), ("usage", "204800"))}, 200),
    ],
)
def test_what_is_available_is_the_least_of_machine_and_groups(
    groups: str, files: dict[str, str], kib: int, tmp_path: Path
) -> None:
    root = machine(tmp_path, groups, {f"sys/fs/cgroup/{name}": text for name, text in files.items()})
    assert available_bytes(root) == 1024 * kib


def test_the_limit_of_the_process_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    root = machine(tmp_path, "", {"proc/self/status": "Name:\tpython\nVmSize:\t  100 kB\n"})
    monkeypatch.setattr(resource, "getrlimit", lambda _: (400 * 1024, resource.RLIM_INFINITY))
    assert available_bytes(root) == 300 * 1024


def test_where_there_is_no_proc_all_memory_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(memory.os, "sysconf", sizes.__getitem__, raising=False)
    assert available_bytes(tmp_path) == 4_096_000


def test_a_system_without_any_of_it_does_not_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(memory.os, "sysconf", raising=False)
    assert available_bytes(tmp_path) is None


def test_caches_of_exact_states_keep_a_second_entry_for_every_block_at_every_site() -> None:
    without = executor_cases.scenario({key: value for key, value in CACHED.items() if key != "execution.cache"})
    runs, exact = (
        executor_cases.scenario(CACHED | {"execution.cache": {"exact_states": is_}}) for is_ in (False, True)
    )
    none, one, two = (request_bytes(scenario, 1000) for scenario in (without, runs, exact))
    entries = len(runs.sites) * ENTRY.itemsize
    n_blocks = (one - none - PROMPT.itemsize) / (BLOCK + entries)
    assert two - one == pytest.approx(n_blocks * entries)
