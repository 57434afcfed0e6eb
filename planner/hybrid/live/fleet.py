"""The workers' processes: started with one BLAS thread each, listened to, replaced when they die, all ended at last."""

import logging
import multiprocessing
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from secrets import token_bytes
from time import monotonic
from typing import Any, Self

from planner.errors import UndecidedError
from planner.files import scratch_prefix
from planner.hybrid.live.decode_worker import decode_worker
from planner.hybrid.live.frames import TOKEN_BYTES
from planner.hybrid.live.messages import (
    Answer,
    Foreign,
    FromWorker,
    Gone,
    ModelSetup,
    Ready,
    Stop,
    Task,
    ToWorker,
    WorkerSetup,
    WorkerSpec,
)
from planner.hybrid.live.prefill_worker import prefill_worker
from planner.hybrid.live.process import ENVIRONMENT
from planner.notes import note

LOG = logging.getLogger("planner.live")
MAIN = {"prefill": prefill_worker, "decode": decode_worker}
STOP_WAIT_S = 1.0
"""How long a worker may take to end by itself."""
START_WAIT_S = 120.0
"""How long workers may take to build their models."""


@dataclass(eq=False)
class Worker:
    """One worker as the router sees it."""

    spec: WorkerSpec
    process: BaseProcess
    control: Connection
    port: int | None = None
    is_ready: bool = False

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid or 0


class Fleet:
    """Workers in processes of their own; a context, at whose end none of them is left."""

    def __init__(self, model: ModelSetup, specs: Iterable[WorkerSpec]) -> None:
        self.model = model
        self.specs = tuple(specs)
        self.workers: dict[str, Worker] = {}
        self.n_started: Counter[str] = Counter()
        self.n_foreign: Counter[str] = Counter()
        """Connections by worker that carried something else than this run's frames."""
        self._token = token_bytes(TOKEN_BYTES)
        self._attempts = count()
        self._locks = tempfile.TemporaryDirectory(prefix=scratch_prefix())
        # Spawned, not forked: a worker must import NumPy anew, with one BLAS thread.
        self._context = multiprocessing.get_context("spawn")

    def __enter__(self) -> Self:
        """Start every worker."""
        try:
            for spec in self.specs:
                self.start(spec)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End every worker."""
        self.close()

    def start(self, spec: WorkerSpec) -> None:
        """Start a worker, or another one in place of a dead one."""
        near, far = self._context.Pipe()
        setup = WorkerSetup(spec, self.model, self._token, self._lock_path(spec))
        process = self._context.Process(target=MAIN[spec.role], args=(setup, far), name=spec.name, daemon=True)
        with _worker_environment(), _no_interrupt():
            process.start()
        # Only the worker may hold its end, or its death would not be heard.
        far.close()
        self.workers[spec.name] = Worker(spec, process, near)
        self.n_started[spec.name] += 1

    def next_attempt(self) -> int:
        """A number that no earlier attempt has had: workers may still speak of those of a run that was cut short."""
        return next(self._attempts)

    def send(self, name: str, message: ToWorker) -> None:
        """Tell a worker something; one that has died says so by `messages`."""
        with suppress(OSError):
            self.workers[name].control.send(message)

    def messages(self, timeout_s: float) -> list[tuple[str, FromWorker]]:
        """Messages of workers, waiting for the first one no longer than this; Gone once for each that died."""
        by_control: dict[Any, str] = {worker.control: name for name, worker in self.workers.items()}
        heard: list[tuple[str, FromWorker]] = []
        for control in wait(list(by_control), max(timeout_s, 0.0)):
            name = by_control[control]
            try:
                heard.append((name, self._noted(name, self.workers[name].control.recv())))
            except (EOFError, OSError):
                self._bury(name)
                heard.append((name, Gone()))
        return heard

    def wait_until_ready(self, timeout_s: float = START_WAIT_S) -> None:
        """Wait until every worker has built its model.

        Raises:
            UndecidedError: one did not in time, or died.
        """
        until = monotonic() + timeout_s
        while waiting := [name for name, worker in self.workers.items() if not worker.is_ready]:
            heard = self.messages(until - monotonic())
            if not heard or any(isinstance(message, Gone) for _, message in heard):
                raise UndecidedError(f"workers did not start: {', '.join(waiting)}")

    def answers(self, tasks: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]], timeout_s: float) -> dict[str, Any]:
        """Let workers call functions at the same time.

        Args:
            tasks: by worker, a function of a module and its arguments after the model.
            timeout_s: how long the slowest may take [s].

        Raises:
            UndecidedError: one died or did not answer in time.
        """
        for name, (function, arguments) in tasks.items():
            self.send(name, Task(function, arguments))
        found: dict[str, Any] = {}
        until = monotonic() + timeout_s
        while len(found) < len(tasks):
            heard = self.messages(until - monotonic())
            dead = [name for name, message in heard if isinstance(message, Gone)]
            if dead or not heard:
                raise UndecidedError(f"no answer from {', '.join(dead or tasks)} (within {timeout_s:g} s)")
            found |= {name: message.value for name, message in heard if isinstance(message, Answer)}
        return found

    def close(self) -> None:
        """End every worker: asked first, then made to."""
        for name in self.workers:
            self.send(name, Stop())
        until = monotonic() + STOP_WAIT_S
        for worker in self.workers.values():
            worker.process.join(max(until - monotonic(), 0.0))
        for worker in self.workers.values():
            _end(worker.process)
            worker.control.close()
        self.workers.clear()
        self._locks.cleanup()

    def _noted(self, name: str, message: FromWorker) -> FromWorker:
        if isinstance(message, Ready):
            self.workers[name].port, self.workers[name].is_ready = message.port, True
        if isinstance(message, Foreign):
            self.n_foreign[name] += message.n_connections
            dropped = f"dropped {message.n_connections} connections to worker {name}: {message.reason}"
            LOG.warning("%s", note("connections-dropped", dropped))
        return message

    def _bury(self, name: str) -> None:
        worker = self.workers.pop(name)
        _end(worker.process)
        worker.control.close()

    def _lock_path(self, spec: WorkerSpec) -> str | None:
        """A file for the core of prefill workers that share one."""
        sharing = [other for other in self.specs if other.role == "prefill" and other.core == spec.core]
        if spec.role != "prefill" or spec.core is None or len(sharing) < 2:
            return None
        return str(Path(self._locks.name) / f"core-{spec.core}")


def _end(process: BaseProcess) -> None:
    """Make a process end, whatever it is doing."""
    if process.is_alive():
        process.kill()
    process.join()
    process.close()


@contextmanager
def _worker_environment() -> Iterator[None]:
    """Processes started within import NumPy with one thread, and keep the memory they had."""
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Processes started within never see Ctrl-C, which the terminal sends to all: the router ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # The first process brings a tracker of resources along, whose start would let interrupts through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def cores() -> Sequence[int]:
    """Cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
