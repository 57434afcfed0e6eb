"""Common parts of every worker's process around its work: environment, pipe and core."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection

from planner.hybrid.live.messages import FromWorker, WorkerSetup
from planner.threads import BLAS_THREADS

ENVIRONMENT = {
    **dict.fromkeys(BLAS_THREADS, "1"),
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
}
"""Of a worker, which is one core. The C library is told to keep memory that was freed: else each pass gets its arrays
from the system anew, and has to touch every page of them. Other systems ignore what they do not know."""


class Outbox:
    """A worker's end of its pipe, for several threads."""

    def __init__(self, control: Connection) -> None:
        self._control, self._lock = control, threading.Lock()

    def send(self, message: FromWorker) -> None:
        """Tell the router; where it has gone, nobody."""
        with self._lock, suppress(OSError):
            self._control.send(message)


def pin(setup: WorkerSetup) -> None:
    """Stay on the worker's core, where the system has such a thing and the core is ours to use."""
    core = setup.spec.core
    if core is not None and hasattr(os, "sched_setaffinity"):
        with suppress(OSError):
            os.sched_setaffinity(0, {core})


@contextmanager
def core_held(setup: WorkerSetup) -> Iterator[None]:
    """Hold the worker's core against others pinned to it. The lock ends with the process, however that ends."""
    if setup.lock_path is None:
        yield
        return
    import fcntl

    with open(setup.lock_path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
