"""Blocks of prompts: of each row of a trace, or session, once; a request says which row it begins with."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError
from planner.executor.draws import read
from planner.executor.kernel.records import PROMPT, Records
from planner.scenario import Scenario
from planner.workload.traces import BLOCK_TOKENS, Trace

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PromptBlocks:
    """The full blocks of every prompt; equal numbers, equal prefixes.

    A request has the first of its row's blocks, as many as its prompt fills, their numbers moved up by its shift.
    """

    values: NDArray[np.int32]
    """Numbers of the blocks of all rows."""
    offsets: Integers
    """Row i has values[offsets[i]:offsets[i + 1]]."""
    prompts: Records
    """Row and shift of every request."""
    n_numbers: int
    """All numbers that requests have are below it."""
    block_tokens: int = BLOCK_TOKENS
    """Tokens of a block."""


def trace_blocks(scenario: Scenario, requests: Records, data_dirs: Sequence[Path] = ()) -> PromptBlocks:
    """Blocks of requests that follow traces.

    A trace that has been run whole and goes on is about others: nothing of its first round is in its second.

    Raises:
        InputError: no class has a trace with block hashes, or two have blocks of different sizes.
    """
    prompts, n_numbers = np.zeros(len(requests), dtype=PROMPT), 0
    sizes: list[int] = []
    rows, counts = [np.zeros(0, dtype=np.int32)], [np.zeros(1, dtype=np.int64)]  # prompts without a trace: an empty row
    for index, (_, workload) in enumerate(scenario.workloads.values()):
        found = None if workload.trace is None else read(workload, scenario, data_dirs)
        if found is None or found.blocks is None:
            continue
        mine = np.flatnonzero(requests["request_class"] == index)
        turn = np.arange(len(mine)) // found.n_requests
        numbers, n_known = numbered(found)
        prompts["row"][mine] = requests["trace_row"][mine] + sum(map(len, counts))
        sizes.append(found.blocks.block_tokens)
        prompts["shift"][mine] = n_numbers + turn * n_known
        rows.append(numbers)
        counts.append(found.total_tokens // sizes[-1])
        n_numbers += n_known * (int(turn[-1]) + 1 if len(turn) else 0)
    if len(rows) == 1:
        allowed = "a trace with hash_ids, or no execution.cache"
        raise InputError(scenario.problem(("execution", "cache"), "no class of requests states its prefixes", allowed))
    _check_sizes(scenario, sizes)
    return PromptBlocks(np.concatenate(rows), _offsets(np.concatenate(counts)), prompts, n_numbers, sizes[0])


def _check_sizes(scenario: Scenario, sizes: Sequence[int]) -> None:
    """Raises InputError where one cache cannot hold these blocks."""
    if len(set(sizes)) > 1:
        what = f"would hold blocks of {' and '.join(map(str, sorted(set(sizes))))} tokens"
        allowed = "traces with blocks of one size, or no execution.cache"
        raise InputError(scenario.problem(("execution", "cache"), what, allowed))
    interval = 0 if scenario.execution.cache is None else scenario.execution.cache.state_interval_tokens
    if interval % sizes[0]:
        what = f"is {interval}, and the trace has blocks of {sizes[0]} tokens"
        key = ("execution", "cache", "state_interval_tokens")
        raise InputError(scenario.problem(key, what, f"a multiple of {sizes[0]}"))


@lru_cache(maxsize=1)
def numbered(trace: Trace) -> tuple[NDArray[np.int32], int]:
    """Numbers from 0 of the full blocks of every row of a trace, and how many numbers there are."""
    assert trace.blocks is not None, "only a trace with blocks is numbered"
    known, numbers = np.unique(trace.blocks.values, return_inverse=True)
    counts = trace.total_tokens // trace.blocks.block_tokens
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return numbers[np.repeat(trace.blocks.offsets[:-1], counts) + within].astype(np.int32), known.size


def session_blocks(session: Integers, total_tokens: Integers) -> PromptBlocks:
    """Blocks of the turns of sessions: those of a session's turns are alike as far as they go."""
    _, place = np.unique(session, return_inverse=True)
    most = np.zeros(int(place.max()) + 1, dtype=np.int64)
    np.maximum.at(most, place, total_tokens // BLOCK_TOKENS)
    prompts = np.zeros(len(session), dtype=PROMPT)
    prompts["row"] = place
    n_numbers = int(most.sum())
    return PromptBlocks(np.arange(n_numbers, dtype=np.int32), _offsets(most), prompts, n_numbers)


def _offsets(counts: Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(counts)])
