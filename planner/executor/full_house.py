"""Systems that are kept full: how many requests do that, and how fast they come where parts fill at other rates."""

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from planner.executor.colocated_pools import Colocated
from planner.executor.engine import engine_run
from planner.executor.full_instance import full_instance, run_full_pool
from planner.executor.initial_state import run_to_end, simulation_state
from planner.executor.kernel.records import MIXED_CRASH, Records
from planner.executor.kernel.state import SimulationState
from planner.executor.prompt_blocks import PromptBlocks
from planner.executor.run_question import RunQuestion
from planner.executor.systems import System

Floats = NDArray[np.float64]
WAITING_PER_INSTANCE = 200
MOST_WAITING = 2000
"""Requests that a full system holds per prefill instance, and at most of all, beside those that decode: a pool runs dry
in about one of so many moments, however large it is."""


def full_house(plan: System) -> int:
    """Requests that keep every pool supplied: long queues for prefill, and full batches."""
    batches = sum(p.n_instances * t.batch_limit for p, t in zip(plan.decode, plan.decode_times, strict=True))
    batches += sum(one.pool.n_instances * one.most_inside for one in plan.colocated)
    return min(WAITING_PER_INSTANCE * plan.n_prefill, MOST_WAITING) + plan.n_prefill + 2 * batches


def n_users(plan: System, question: RunQuestion) -> int:
    """Users of a closed loop: those of the scenario, or one for each request that is kept inside; 0 of an open one."""
    if question.is_full:
        return full_house(plan)
    if question.concurrency is not None:
        return question.concurrency
    return 0 if plan.scenario.users is None else max(round((question.load or 1.0) * plan.scenario.users), 1)


def paced_s(plan: System, requests: Records, faults: Records, blocks: PromptBlocks | None) -> Floats:
    """Arrivals that keep full whatever of a system with colocated pools fills first [s].

    Each colocated pool is kept full by itself, and so is all that is before and beside them: in a closed loop through
    all of it, those who wait for the slowest part would gather so slowly that no run is long enough.

    Args:
        requests: in order of arrival; not changed.
        blocks: blocks of every prompt, where the scenario has caches.
    """
    w = simulation_state(plan, requests.copy(), faults=faults, blocks=blocks)
    run_to_end(w)
    paces = list(_paces(plan, w, requests, faults, blocks))
    order, n_first = np.arange(len(requests)), full_house(plan)
    slowest, least = np.zeros(len(requests)), -1.0
    for rows, arrival_s in paces:
        found = np.maximum.accumulate(np.interp(order, rows, arrival_s))
        if (span_s := float(found[-1] - found[min(n_first, len(found) - 1)])) > least:
            slowest, least = found, span_s
    return slowest


def _paces(
    plan: System, w: SimulationState, requests: Records, faults: Records, blocks: PromptBlocks | None
) -> Iterator[tuple[NDArray[np.int64], Floats]]:
    """Requests of every part, and how they come to keep it full."""
    ways = w.routes[w.requests["route"]]
    first = 0
    for one in plan.colocated:
        rows, is_standing = one.entering(w)
        if len(rows):
            struck, most = _own(faults, first, one.pool.n_instances), plan.scenario.execution.max_retries
            yield rows, _of_pool(one, w.requests[rows], is_standing, struck, most)
        first += one.pool.n_instances
    rows = np.flatnonzero(~np.isin(ways["prefill_pool"], [one.way_in for one in plan.colocated]))
    if len(rows):
        before = requests[rows]
        # What a colocated pool decodes is done here when its cache is there.
        before["output_tokens"][np.isin(ways["decode_pool"][rows], [one.way_out for one in plan.colocated])] = 1
        n = ceil(full_house(plan) * len(rows) / len(requests))
        own = None if blocks is None else replace(blocks, prompts=blocks.prompts[rows])
        before["arrival_s"] = 0.0
        apart = simulation_state(plan, before, users=n, faults=faults, blocks=own)
        run_to_end(apart)
        yield rows, apart.requests["arrival_s"]


def _of_pool(
    one: Colocated, asked: Records, is_standing: NDArray[np.bool_], faults: Records, max_retries: int
) -> Floats:
    full, pool = full_instance(one, asked, is_standing), one.batching(asked)
    full = full._replace(in_flight=full.in_flight * pool.n_instances)
    load = run_full_pool(one, asked, is_standing, full, faults, max_retries)
    return engine_run(pool.rules, pool.times, load, pool.n_instances).arrival_s


def _own(faults: Records, first: int, n: int) -> Records:
    """Faults of the instances of a colocated pool, by their numbers in it."""
    mine = (faults["kind"] >= MIXED_CRASH) & (faults["index"] >= first) & (faults["index"] < first + n)
    found = faults[mine].copy()
    found["index"] -= first
    return found
