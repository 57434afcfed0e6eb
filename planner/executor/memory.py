"""Memory that a run takes, by its arrays, against what there is."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np

from planner.errors import InputError, InputProblem
from planner.executor.draws import Draws, read
from planner.executor.kernel.control_records import ENTRY
from planner.executor.kernel.records import PREFIX, PROMPT, REQUEST, SEQUENCE, USED
from planner.executor.prompt_blocks import numbered
from planner.executor.rebalancing import stated_rebalance
from planner.executor.run_question import RunQuestion
from planner.executor.sessions import SPARE, session_requests
from planner.jobs import HERE, Workers
from planner.scenario import Scenario
from planner.units import GB

KIB = 1024
ROOT = Path("/")
GROUPS = Path("sys/fs/cgroup")
"""Where control groups are mounted: those of version 2 there, those of version 1 below, by what they control."""
VERSION_1 = "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
VERSION_2 = "", "memory.max", "memory.current", "inactive_file"
"""Folder of a version, its files for the limit and for what is used, and the key of what can be given up at once."""


def available_bytes(root: Path = ROOT) -> int | None:
    """Memory that can be taken before something else must go [B]; None where the system does not say.

    Args:
        root: where `proc` and `sys` are.

    Source:
        proc(5), MemAvailable; Linux kernel documentation, cgroup-v1/memory.rst and cgroup-v2.rst; getrlimit(2).
    """
    found = [*_of_machine(root), *_of_groups(root), *_of_process(root)]
    return max(min(found), 0) if found else None


def _of_machine(root: Path) -> Iterator[int]:
    """Memory that is free, and that Linux would give up; elsewhere, as on macOS, all that there is."""
    try:
        yield KIB * _values(root / "proc/meminfo")["MemAvailable"]
    except (OSError, KeyError):
        with suppress(AttributeError, ValueError, OSError):
            yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_groups(root: Path) -> Iterator[int]:
    """Memory left to every group that the process is in, and to every one above it."""
    lines: list[str] = []
    with suppress(OSError):
        lines = (root / "proc/self/cgroup").read_text(encoding="ascii", errors="replace").splitlines()
    for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if controllers and "memory" not in controllers.split(","):
            continue
        below, limit, used, spare = VERSION_1 if controllers else VERSION_2
        mount = root / GROUPS / below
        group = mount / path.strip("/")
        for folder in (group, *(above for above in group.parents if above.is_relative_to(mount))):
            with suppress(OSError, ValueError):  # "max" is none; a container may not see its path
                left = int((folder / limit).read_text()) - int((folder / used).read_text())
                with suppress(OSError, KeyError):
                    left += _values(folder / "memory.stat")[spare]
                yield left


def _of_process(root: Path) -> Iterator[int]:
    """Memory that the limit on the addresses of a process leaves."""
    with suppress(ImportError, OSError, KeyError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            yield limit - KIB * _values(root / "proc/self/status")["VmSize"]


def _values(path: Path) -> dict[str, int]:
    """Whole numbers of a file of `name: number unit` or `name number` lines."""
    words = (line.replace(":", " ").split() for line in path.read_text(encoding="ascii", errors="replace").splitlines())
    return {found[0]: int(found[1]) for found in words if len(found) > 1 and found[1].isdigit()}


PACED = 2.0
"""Times the memory of a request, of a full system with colocated pools: its arrivals are those of runs before."""
NUMBER = np.dtype("f8").itemsize
BLOCK = np.dtype("i4").itemsize
DRAWN = 9 * NUMBER
"""Of a request that is being drawn: arrival, class, route, and twice its prompt, cached part and answer [B]."""
TIMES = 3 * NUMBER
"""Of a request whose replication has ended: class, TTFT and TPOT [B]."""
COUNTED = TIMES + 8 * NUMBER
"""Of a request that is counted: its times, and the columns that means are made of [B]."""
ANSWERED = TIMES + 4 * NUMBER
"""Of a request when percentiles are taken over all: its times, and both once in order and once in batches [B]."""
TURN = 18 * NUMBER
"""Of a turn of a session that is being drawn [B]."""
RECORDS = REQUEST.itemsize + 5 * NUMBER
"""Of a request whose records are wanted, while other replications run [B]."""
ALWAYS_BYTES = 50e6
"""Of a run however short it is: the shapes that are tried for the tails of its times [B]."""
PROGRAM_BYTES = 0.25e9
"""Of a process that has loaded the executor [B]."""
N_SAMPLE = 2000
"""Turns that are drawn to see how many blocks sessions have."""
DIGITS = 2
"""Of the number of requests that would fit."""


@dataclass(frozen=True)
class RunMemory:
    """Memory of the runs of a scenario."""

    scenario: Scenario
    data_dirs: Sequence[Path] = ()
    """Folders in which traces are looked for."""
    workers: Workers = HERE
    """Who shares the replications; what a cluster takes is not counted."""
    keep: bool = False
    """Whether the records of the first replication are wanted."""
    n_periods: int = 1
    """That are run, each as long."""

    def needed_bytes(self, question: RunQuestion) -> float:
        """Memory that a run takes at the most, beside what this program itself has [B].

        Equation:
            c + p + max(w n b + (N - w n) t, N a), with N requests in all, n of each replication, w of these at the same
            time, b bytes of a request while it is run, t afterwards, a when percentiles are taken, p of other
            processes, and c however short it is

        Valid:
            Within a third of peaks that were measured, of 250,000 requests a replication and more.
        """
        n_each = ceil(question.n_requests / question.n_replications) + (
            question.concurrency or self.scenario.users or 0
        )
        n_all = self.n_periods * n_each * question.n_replications
        n_workers = 0 if self.workers.dask is not None else min(self.workers.n_processes, question.n_replications)
        each, now = request_bytes(self.scenario, n_each, self.data_dirs), n_workers * n_each
        if question.is_full and self.scenario.colocated_pool is not None:
            each *= PACED
        kept = n_each * RECORDS if self.keep and question.n_replications > 1 else 0
        run = max(now * each + (n_all - now) * TIMES, n_all * ANSWERED) + kept
        return self._least_bytes(question) + run

    def _least_bytes(self, question: RunQuestion) -> float:
        """Of a run however short it is, and of the processes that share its replications [B]."""
        n_processes = min(self.workers.n_processes, question.n_replications)
        has_others = n_processes > 1 and self.workers.dask is None
        return ALWAYS_BYTES + n_processes * PROGRAM_BYTES * has_others

    def check(self, question: RunQuestion) -> float:
        """Memory that a run takes, see `needed_bytes`; up to its limit where that is stated [B].

        Raises:
            InputError: it is more than there is.
        """
        n = max(question.n_requests, question.most_requests or 0)
        need, there = self.needed_bytes(replace(question, n_requests=n, most_requests=None)), available_bytes()
        if there is not None and need > there:
            own = self._least_bytes(question)
            fitting = _rounded_down(max(n * (there - own) / (need - own), 0.0))
            allowed = f"at most {fitting:,} requests" if fitting >= question.n_replications else "a machine with more"
            more = ", or fewer --workers" if own > ALWAYS_BYTES else ""
            what = f"a run of {n:,} requests takes {need / GB:.3g} GB of memory, and {there / GB:.3g} GB are available"
            raise InputError(InputProblem(self.scenario.name, "", what, allowed + more))
        return need

    def fits(self, question: RunQuestion, n_replications: int) -> bool:
        """True if there is the memory for a run that is run on to so many replications."""
        n = question.n_requests * n_replications // question.n_replications
        try:
            self.check(replace(question, n_requests=n, n_replications=n_replications, most_requests=None))
        except InputError:
            return False
        return True


def request_bytes(scenario: Scenario, n: int, data_dirs: Sequence[Path] = ()) -> float:
    """Memory of each of so many requests of a replication while it is run [B]."""
    drawn = DRAWN if scenario.execution.sessions is None else SPARE * TURN
    cache = scenario.execution.cache
    found = REQUEST.itemsize + max(drawn, COUNTED)
    if scenario.colocated_pool is not None:
        found += SEQUENCE.itemsize
    if cache is not None:
        n_sites, n_kinds = len(scenario.sites), 2 if cache.exact_states else 1
        block = BLOCK + n_kinds * n_sites * ENTRY.itemsize
        if stated_rebalance(scenario) is not None:
            block += PREFIX.itemsize + n_sites * USED.itemsize
        found += PROMPT.itemsize + block * _blocks(scenario, n, data_dirs) / n
    return found


def _blocks(scenario: Scenario, n: int, data_dirs: Sequence[Path]) -> float:
    """Blocks of n requests that differ."""
    rules, found = scenario.execution.sessions, 0.0
    if rules is not None:
        _, blocks = session_requests(scenario, N_SAMPLE, 1 / (rules.mean_turns * rules.mean_gap_s), Draws(0))
        return n * blocks.n_numbers / N_SAMPLE
    total = sum(share for share, _ in scenario.workloads.values())
    for share, workload in scenario.workloads.values():
        trace = None if workload.trace is None else read(workload, scenario, data_dirs)
        if trace is not None and trace.blocks is not None:
            found += ceil(n * share / total / trace.n_requests) * numbered(trace)[1]
    return found


def _rounded_down(n: float) -> int:
    """A number cut to a few digits.

    >>> _rounded_down(123_456.7), _rounded_down(7.9)
    (120000, 7)
    """
    unit: int = 10 ** max(len(str(int(n))) - DIGITS, 0)
    return int(n) // unit * unit
