"""Work sent to a Dask cluster of separate processes: the same answers, also where a worker dies in the middle."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from planner.cli import app
from planner.errors import InputError, LostClusterError, UsageError
from planner.jobs import Workers, answers
from tests.builders import SMALL

START_S = 60.0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def process(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", *arguments, "--no-dashboard"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def worker(address: str, folder: Path) -> subprocess.Popen[bytes]:
    options = ("--nthreads", "1", "--no-nanny", "--local-directory", str(folder), "--death-timeout", "60")
    return process("distributed.cli.dask_worker", address, *options)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a scheduler with a worker, each a process of its own."""
    distributed = pytest.importorskip("distributed", reason="needs dask[distributed]")
    address, folder = f"tcp://127.0.0.1:{free_port()}", tmp_path_factory.mktemp("dask")
    port = address.rpartition(":")[2]
    started = [process("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port)]
    try:
        started.append(worker(address, folder))
        with distributed.Client(address, timeout=START_S, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=START_S)
        yield address
    finally:
        for one in reversed(started):
            one.kill()  # how gracefully Dask ends is not what is tested
        for one in started:
            one.wait(20)


def small_file(tmp_path: Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return str(path)


def called(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def slow_square(n: int, folder: str, seconds: float) -> tuple[int, int]:
    """Leave a trace of having begun, take some time, and answer, with the process that did."""
    (Path(folder) / f"{n}-{os.getpid()}").touch()
    sleep(seconds)
    return n * n, os.getpid()


def test_a_sweep_on_a_cluster_is_the_one_on_this_machine(cluster: str, tmp_path: Path) -> None:
    arguments = ("sweep", small_file(tmp_path), "--over", "links.wan.capacity_gbps=1,10,100", "--format", "json")
    there = called(*arguments, "--dask", cluster)
    assert there.exit_code == 0, there.output
    assert there.stdout == called(*arguments).stdout


def test_replications_on_a_cluster_are_those_on_this_machine(cluster: str, tmp_path: Path) -> None:
    arguments = ("simulate", small_file(tmp_path), "--requests", "6000", "--replications", "3", "--format", "json")
    there = called(*arguments, "--dask", cluster)
    assert there.exit_code == 0, there.output
    assert there.stdout == called(*arguments).stdout


def test_a_lost_workers_jobs_are_repeated_by_another(cluster: str, tmp_path: Path) -> None:
    """Another worker joins, is killed while it works, and every answer comes all the same."""
    other = worker(cluster, tmp_path / "local")
    traces = tmp_path / "traces"
    traces.mkdir()
    jobs = [(n, str(traces), 0.4) for n in range(12)]
    killed: list[str] = []

    def kill(_: float) -> None:
        mine = [path.name for path in traces.iterdir() if path.name.endswith(f"-{other.pid}")]
        if mine and other.poll() is None:
            other.send_signal(signal.SIGKILL)
            other.wait(20)
            killed.extend(mine)

    wait_for_workers(cluster, 2)
    found = answers(slow_square, jobs, Workers(dask=cluster), kill)
    assert [answer for answer, _ in found] == [n * n for n in range(12)]
    assert killed
    begun = [path.name.partition("-")[0] for path in traces.iterdir()]
    assert len(begun) > len(set(begun)) == 12  # one job at the least was begun twice
    assert other.pid not in {pid for _, pid in found[-3:]}


def wait_for_workers(address: str, n: int) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.Client(address, timeout=START_S, set_as_default=False) as client:
        client.wait_for_workers(n, timeout=START_S)


def test_a_scheduler_that_goes_away_is_said_in_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="needs dask[distributed]")
    address = f"tcp://127.0.0.1:{free_port()}"
    scheduler = process("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", address.rpartition(":")[2])
    only = worker(address, tmp_path)
    wait_for_workers(address, 1)
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")
    try:
        jobs = [(n, str(tmp_path), 0.2) for n in range(50)]
        with pytest.raises(LostClusterError, match="the scheduler is gone"):
            answers(slow_square, jobs, Workers(dask=address), lambda _: scheduler.kill())
    finally:
        for one in (only, scheduler):
            one.kill()
            one.wait(20)


def test_a_validation_on_a_cluster_is_the_one_on_this_machine(cluster: str, tmp_path: Path) -> None:
    arguments = ("validate", small_file(tmp_path), "--requests", "6000", "--replications", "2", "--format", "json")
    assert json.loads(called(*arguments, "--dask", cluster).stdout) == json.loads(called(*arguments).stdout)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:{port}", "nonsense", "bogus://x:1"])
def test_an_address_where_nobody_answers_is_said_in_one_message(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="needs dask[distributed]")
    monkeypatch.setattr("planner.jobs.CONNECT_S", 1.0)
    before = monotonic()
    stated = address.format(port=free_port())
    found = called("sweep", small_file(tmp_path), "--over", "links.wan.capacity_gbps=5", "--dask", stated)
    assert isinstance(found.exception, InputError), found.exception
    assert f"--dask {stated}: no Dask scheduler answers" in str(found.exception)
    assert len(str(found.exception).splitlines()) == 1
    assert found.stdout == ""
    assert monotonic() - before < 20


def test_without_dask_installed_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    found = called("sweep", small_file(tmp_path), "--over", "links.wan.capacity_gbps=5", "--dask", "tcp://a:1")
    assert isinstance(found.exception, InputError)
    assert "prefill-planner[dask]" in str(found.exception)


def test_processes_and_a_cluster_are_not_asked_for_together(tmp_path: Path) -> None:
    arguments: Any = ("--over", "links.wan.capacity_gbps=5", "--dask", "tcp://a:1", "--workers", "2")
    assert isinstance(called("sweep", small_file(tmp_path), *arguments).exception, UsageError)
