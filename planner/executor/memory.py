"""Memory that a run takes, by its arrays, against what there is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np

from planner.errors import InputError, Problem
from planner.executor.draws import Draws, read
from planner.executor.kernel.records import ENTRY, PREFIX, PROMPT, REQUEST, SEQUENCE, USED
from planner.executor.prompt_blocks import numbered
from planner.executor.rebalancing import stated_rebalance
from planner.executor.run_question import RunQuestion
from planner.executor.sessions import SPARE, session_requests
from planner.jobs import HERE, Workers
from planner.memory import available_bytes
from planner.scenario import Scenario
from planner.units import GB

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
            raise InputError(Problem(self.scenario.name, "", what, allowed + more))
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
