"""Independent jobs on processes of this machine or on workers of a Dask cluster; the answers do not depend on it."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, TypeVar

from planner.errors import InputError, LostClusterError, Problem

Answer = TypeVar("Answer")
CONNECT_S = 10.0
"""How long a scheduler may take to answer [s]."""
REPEATS = 5
"""How often a job is given to the cluster again that went down with its workers."""


@dataclass(frozen=True)
class Workers:
    """Who does the work."""

    n_processes: int = 1
    """Of this machine."""
    dask: str | None = None
    """Address of a Dask scheduler, such as tcp://host:8786, whose workers are used instead."""


HERE = Workers()
"""This process alone."""


def answers(
    function: Callable[..., Answer],
    jobs: Sequence[tuple[Any, ...]],
    workers: Workers,
    done: Callable[[float], None] = lambda _: None,
) -> list[Answer]:
    """What a function answers to every job, in their order.

    Args:
        function: of a module, so that workers can import it; the same arguments always give the same answer.
        jobs: arguments of each call.
        workers: who does the work.
        done: is told the fraction that is done.

    Raises:
        InputError: no scheduler answers at the address, or Dask is not installed.
        LostClusterError: a job went down with its workers REPEATS times, or the scheduler is gone.
    """
    if workers.dask is not None:
        each = _of_cluster(function, jobs, workers.dask)
    elif min(workers.n_processes, len(jobs)) <= 1:
        each = (function(*job) for job in jobs)
    else:
        each = _of_processes(function, jobs, min(workers.n_processes, len(jobs)))
    found = []
    for answer in each:
        found.append(answer)
        done(len(found) / len(jobs))
    return found


def _of_processes(
    function: Callable[..., Answer], jobs: Sequence[tuple[Any, ...]], n_processes: int
) -> Iterator[Answer]:
    from joblib import Parallel, delayed

    yield from Parallel(n_jobs=n_processes, return_as="generator")(delayed(function)(*job) for job in jobs)


def _of_cluster(function: Callable[..., Answer], jobs: Sequence[tuple[Any, ...]], address: str) -> Iterator[Answer]:
    """Answers of a cluster: it repeats what a lost worker was at, and what it gives up is given to it again."""
    distributed = _distributed(address)
    try:
        client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        what = f"no Dask scheduler answers within {CONNECT_S:g} s: {reason}"
        raise InputError(Problem(f"--dask {address}", "", what, "tcp://host:port of a running one")) from None
    with client:
        given = [client.submit(function, *job, pure=False) for job in jobs]
        for place, job in enumerate(jobs):
            for _ in range(REPEATS):
                try:
                    yield given[place].result()
                    break
                except distributed.KilledWorker:
                    given[place] = client.submit(function, *job, pure=False)
                except (CancelledError, distributed.client.FutureCancelledError):
                    raise LostClusterError(f"--dask {address}: the scheduler is gone") from None
            else:
                raise LostClusterError(f"--dask {address}: one job went down with its workers {REPEATS} times")


def _distributed(address: str) -> Any:
    try:
        import distributed
    except ImportError:
        what = "needs dask[distributed], which is not installed"
        allowed = "--workers N, or: pip install 'prefill-planner[dask]'"
        raise InputError(Problem(f"--dask {address}", "", what, allowed)) from None
    return distributed
