"""The faults of a run in order of time: those stated, and crashes at random."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from planner.errors import InputError
from planner.executor.draws import Draws
from planner.executor.kernel.records import (
    BACKGROUND,
    CRASH,
    DECODE_CRASH,
    DECODE_RESTART,
    DECODE_SLOW,
    FAULT_RECORD,
    LINK_HEALTH,
    MIXED_CRASH,
    MIXED_RESTART,
    MIXED_SLOW,
    RESTART,
    SLOW,
    Records,
)
from planner.executor.systems import System
from planner.results.plan import PoolPlan
from planner.scenario import Fault, LinkExecution
from planner.units import bytes_per_s

SECONDS_PER_DAY = 86_400.0
Row = tuple[float, int, int, float]


def fault_schedule(plan: System, horizon_s: float, draws: Draws) -> Records:
    """Everything that happens to instances and links.

    Args:
        horizon_s: time up to which crashes at random are drawn [s].

    Raises:
        InputError: a fault names a link or an instance that the plan does not have.
    """
    rows: list[Row] = []
    for index, fault in enumerate(plan.scenario.execution.faults):
        rows += _stated(plan, index, fault)
    for own in _records(plan):
        rows += _random(plan, own, horizon_s, draws)
    rows.sort(key=lambda row: row[0])
    return np.array(rows, dtype=FAULT_RECORD)


def _stated(plan: System, index: int, fault: Fault) -> Iterator[Row]:
    if fault.link is not None and fault.kind not in ("crash", "slow"):
        k = next((k for k, link in enumerate(plan.links) if link.name == fault.link), None)
        if k is None:
            raise InputError(
                plan.scenario.problem(("execution", "faults", index), f"the plan has no link '{fault.link}'")
            )
        usual = plan.scenario.execution.links.get(fault.link, LinkExecution()).background_gbps
        if fault.kind == "background":
            kind, value, after = BACKGROUND, bytes_per_s(fault.background_gbps or 0.0), bytes_per_s(usual)
        else:
            kind, value, after = LINK_HEALTH, fault.left_fraction or 0.0, 1.0
        yield from _and_its_end(fault, (fault.at_s, kind, k, value), kind, after)
        return
    own, (begins, ends, slows) = _instance(plan, index, fault)
    if fault.kind == "slow":
        begins = ends = slows
    for i in own:
        yield from _and_its_end(fault, (fault.at_s, begins, i, fault.slowdown or 0.0), ends, 1.0)


def _and_its_end(fault: Fault, row: Row, kind: int, value: float) -> Iterator[Row]:
    yield row
    if fault.duration_s is not None:
        yield row[0] + fault.duration_s, kind, row[2], value


class Own(NamedTuple):
    """The records of a pool's instances, among all of their kind."""

    pool: PoolPlan
    first: int
    places: int
    """Of an instance: a prefill instance has a record for each prompt that it takes at once, others have one."""
    kinds: tuple[int, int, int]
    """Of faults: crash, restart, other speed."""


def _records(plan: System) -> Iterator[Own]:
    """Every pool, with where the records of its instances stand."""
    decode_places, batched = [1] * len(plan.decode), [one.pool for one in plan.colocated]
    for pools, slots, places, kinds in (
        (plan.prefill, plan.prefill_slots, plan.places, (CRASH, RESTART, SLOW)),
        (plan.decode, plan.decode_slots, decode_places, (DECODE_CRASH, DECODE_RESTART, DECODE_SLOW)),
        (batched, [pool.n_instances for pool in batched], [1] * len(batched), (MIXED_CRASH, MIXED_RESTART, MIXED_SLOW)),
    ):
        first = 0
        for pool, n, each in zip(pools, slots, places, strict=True):
            if n > 0:
                yield Own(pool, first, each, kinds)
            first += n


def _instance(plan: System, index: int, fault: Fault) -> tuple[range, tuple[int, int, int]]:
    """Records of the instance that a fault names, among all of its kind, and the kinds of faults that they have."""
    wanted = fault.instance
    for pool, first, places, kinds in _records(plan):
        mine = pool.n_instances if pool.key == fault.pool else 0
        if wanted < mine:
            return range(first + wanted * places, first + (wanted + 1) * places), kinds
        wanted -= mine
    what = f"the plan has no instance {fault.instance} of '{fault.pool}'"
    sizes = ", ".join(f"{pool.name} {pool.n_instances}" for pool in plan.pools)
    raise InputError(plan.scenario.problem(("execution", "faults", index, "instance"), what, f"instances: {sizes}"))


def _random(plan: System, own: Own, horizon_s: float, draws: Draws) -> Iterator[Row]:
    """Crashes of every instance of a pool, all its records at once: exponential times up, the same time down."""
    stated = plan.scenario.execution.pools.get(own.pool.key)
    if stated is None or stated.mean_days_between_crashes is None:
        return
    begins, ends, _ = own.kinds
    for i in range(own.pool.n_instances):
        random, time_s = draws.generator(f"crashes: {own.pool.name} {i}"), 0.0
        while True:
            time_s += random.standard_exponential() * stated.mean_days_between_crashes * SECONDS_PER_DAY
            if time_s > horizon_s:
                break
            records = range(own.first + i * own.places, own.first + (i + 1) * own.places)
            yield from ((time_s, begins, record, 0.0) for record in records)
            time_s += stated.restart_s
            yield from ((time_s, ends, record, 0.0) for record in records)
