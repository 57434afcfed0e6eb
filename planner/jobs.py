"""Independent jobs on processes of this machine or on workers of a Dask cluster; the answers do not depend on it."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, TypeVar

from planner.errors import InputError, InputProblem, LostClusterError

Answer = TypeVar("Answer")
LOG = logging.getLogger("planner")
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
    """Answers of a function to every job, in their order.

    Args:
        function: of a module, so that workers can import it; the same arguments always give the same answer.
        jobs: arguments of each call.
        workers: who does the work.
        done: is told the fraction that is done.

    Raises:
        InputError: no scheduler answers at the address, or Dask is not installed.
        LostClusterError: a job went down with its workers REPEATS times, or the scheduler is gone.
    """
    found: dict[int, Answer] = {}
    for place, answer in finished(function, jobs, workers):
        found[place] = answer
        done(len(found) / len(jobs))
    return [found[place] for place in range(len(jobs))]


def finished(
    function: Callable[..., Answer], jobs: Sequence[tuple[Any, ...]], workers: Workers
) -> Iterator[tuple[int, Answer]]:
    """Each job's place and answer as soon as it is there, so that who is interrupted has all that was done.

    Args:
        function: of a module, so that workers can import it; the same arguments always give the same answer.
        jobs: arguments of each call.
        workers: who does the work.

    Raises:
        InputError: no scheduler answers at the address, or Dask is not installed.
        LostClusterError: a job went down with its workers REPEATS times, or the scheduler is gone.
    """
    if workers.dask is not None:
        yield from _of_cluster(function, jobs, workers.dask)
    elif min(workers.n_processes, len(jobs)) <= 1:
        yield from (_placed(function, place, job) for place, job in enumerate(jobs))
    else:
        yield from _of_processes(function, jobs, min(workers.n_processes, len(jobs)))


def _placed(function: Callable[..., Answer], place: int, job: tuple[Any, ...]) -> tuple[int, Answer]:
    return place, function(*job)


def _placed_quietly(function: Callable[..., Answer], place: int, job: tuple[Any, ...]) -> tuple[int, Answer]:
    """In a process that shares the work: what concerns all of them, the first has told."""
    if not LOG.handlers:  # else Python itself shows warnings that nobody takes
        LOG.addHandler(logging.NullHandler())
    return _placed(function, place, job)


def _of_processes(
    function: Callable[..., Answer], jobs: Sequence[tuple[Any, ...]], n_processes: int
) -> Iterator[tuple[int, Answer]]:
    from joblib import Parallel, delayed

    calls = (delayed(_placed_quietly)(function, place, job) for place, job in enumerate(jobs))
    yield from Parallel(n_jobs=n_processes, return_as="generator_unordered")(calls)


def _of_cluster(
    function: Callable[..., Answer], jobs: Sequence[tuple[Any, ...]], address: str
) -> Iterator[tuple[int, Answer]]:
    """Answers of a cluster: it repeats what a lost worker was at, and what it gives up is given to it again."""
    distributed = _distributed(address)
    try:
        client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        what = f"no Dask scheduler answers within {CONNECT_S:g} s: {reason}"
        raise InputError(InputProblem(f"--dask {address}", "", what, "tcp://host:port of a running one")) from None
    with client:
        place_of = {client.submit(function, *job, pure=False): place for place, job in enumerate(jobs)}
        given, lost = distributed.as_completed(place_of, loop=client.loop), Counter[int]()
        for future in given:
            place = place_of.pop(future)
            try:
                yield place, future.result()
            except distributed.KilledWorker:
                lost[place] += 1
                if lost[place] == REPEATS:
                    what = f"one job went down with its workers {REPEATS} times"
                    raise LostClusterError(f"--dask {address}: {what}") from None
                again = client.submit(function, *jobs[place], pure=False)
                place_of[again] = place
                given.add(again)
            except (CancelledError, distributed.client.FutureCancelledError):
                raise LostClusterError(f"--dask {address}: the scheduler is gone") from None


def _distributed(address: str) -> Any:
    try:
        import distributed
    except ImportError:
        what = "needs dask[distributed], which is not installed"
        allowed = "--workers N, or: pip install 'prefill-planner[dask]'"
        raise InputError(InputProblem(f"--dask {address}", "", what, allowed)) from None
    return distributed
