"""The batches of colocated pools, run on what the event loop has handed to them, and written into its records."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.executor.colocated.pools import Colocated
from planner.executor.engine.run import EngineRun, engine_run
from planner.executor.kernel.records import DROPPED, STRANDED, TOO_OFTEN, Records, World
from planner.executor.measure import sample_names
from planner.executor.systems import System

Floats = NDArray[np.float64]


def run_batches(plan: System, w: World, faults: Records, sent_to: NDArray[np.int_] | None = None) -> None:
    """Run every colocated pool on what reached it in a run that has ended; the records then tell of both.

    Args:
        plan: the system.
        w: records of the run; changed.
        faults: what happens to colocated instances.
        sent_to: instance of each request while that is up; None: the one of the least load when it comes.

    Raises:
        AssertionError: a request was lost, or had its tokens before it came; a fault of the planner.
    """
    for one in plan.colocated:
        _run(plan, w, one, faults, sent_to)


def without_steps(plan: System, requests: Records) -> None:
    """Take the steps from requests that a colocated pool decodes: the event loop is done with them at its door."""
    if plan.colocated:
        requests["luck_tokens"] = 1 - requests["output_tokens"]


def _run(plan: System, w: World, one: Colocated, faults: Records, sent_to: NDArray[np.int_] | None) -> None:
    rows, is_standing = one.entering(w)
    if not len(rows):
        return
    order = np.argsort(w.requests["kv_end_s"][rows], kind="stable")
    rows, is_standing = rows[order], is_standing[order]
    asked = w.requests[rows]
    load = one.load(
        asked,
        is_standing,
        asked["kv_end_s"],
        w.samples[:, 0],
        faults=faults,
        max_retries=plan.scenario.execution.max_retries,
    )
    load = replace(load, instances=None if sent_to is None else sent_to[rows])
    rules = one.rules(load)
    found = engine_run(rules, one.times(load, rules), load, one.pool.n_instances)
    assert len(faults) or not np.isnan(found.done_s).any(), "a request that fits was refused"
    assert not (found.begun_s < asked["kv_end_s"]).any(), "a request began before it came"
    assert not (found.done_s < found.first_s).any(), "a request ended before it began"
    _count(plan, w, one, asked["finish_s"], found)
    _write(w, rows, is_standing, found)


def _write(w: World, rows: NDArray[np.int64], is_standing: NDArray[np.bool_], found: EngineRun) -> None:
    """What became of the requests; the times of prompts that were computed elsewhere stay."""
    new = rows[~is_standing]
    w.requests["prefill_start_s"][new] = found.begun_s[~is_standing]
    for moment in ("prefill_end_s", "kv_end_s"):
        w.requests[moment][new] = found.first_s[~is_standing]
    w.requests["first_token_s"][rows], w.requests["finish_s"][rows] = found.first_s, found.done_s
    w.requests["decoder"][rows] = found.instances
    w.requests["n_retries"][rows] += found.n_retries.astype(w.requests["n_retries"].dtype)
    ends_s = np.nan_to_num(np.fmax(found.done_s, found.dropped_s), nan=0.0)
    w.clock["now_s"] = max(float(w.clock[0]["now_s"]), float(ends_s.max()))
    lost = np.isnan(found.done_s)
    w.requests["state"][rows[lost]] = DROPPED
    w.requests["reason"][rows[lost]] = np.where(np.isnan(found.dropped_s[lost]), STRANDED, TOO_OFTEN)
    w.clock["n_finished"] -= int(lost.sum())
    w.clock["n_dropped"] += int(lost.sum())


def _count(plan: System, w: World, one: Colocated, left_s: Floats, found: EngineRun) -> None:
    """Bring samples up to date: requests are inside until their last token, not only until they are handed over."""
    at_s, name = w.samples[:, 0], one.pool.name
    # A sample is taken before the request that arrives then: one that was handed over at once is not yet counted.
    gone_s, handed = np.fmax(found.done_s, found.dropped_s), np.searchsorted(np.sort(left_s), at_s, side="left")
    w.samples[:, 1] += handed - _n_by(gone_s, at_s)
    w.samples[:, 2] += _passed_s(left_s, at_s) - _passed_s(gone_s, at_s)
    w.samples[:, 3] -= handed - _n_by(found.done_s, at_s)
    busy_s = found.looks_busy_s
    columns: Mapping[str, Floats] = {
        f"{name} waiting": _n_by(found.arrival_s, at_s) - _n_by(found.begun_s, at_s),
        f"{name} batch": _n_by(found.begun_s, at_s) - _n_by(gone_s, at_s),
        f"{name} slot_s": _passed_s(found.begun_s, at_s) - _passed_s(gone_s, at_s),
        f"{name} busy_s": busy_s,
        f"{name} busy": np.diff(busy_s, prepend=0.0) / np.maximum(np.diff(at_s, prepend=0.0), 1e-12),
    }
    for i, column in enumerate(sample_names(plan)):
        if column in columns:
            w.samples[:, i] = columns[column]


def _n_by(moments: Floats, at_s: Floats) -> Floats:
    """How many moments have come by each time."""
    return np.searchsorted(np.sort(moments), at_s, side="right").astype(float)


def _passed_s(moments: Floats, at_s: Floats) -> Floats:
    """Seconds since every moment that has come by each time, added up.

    >>> _passed_s(np.array([1.0, 3.0]), np.array([0.0, 2.0, 4.0])).tolist()
    [0.0, 1.0, 4.0]
    """
    ordered = np.sort(moments)
    n = np.searchsorted(ordered, at_s, side="right")
    return np.asarray(n * at_s - np.append(0.0, np.cumsum(ordered))[n])
