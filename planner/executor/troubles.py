"""The faults of a run in order of time: those stated, and crashes at random."""

from collections.abc import Iterator

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
    RESTART,
    SLOW,
    Records,
)
from planner.executor.systems import System
from planner.results import PoolPlan
from planner.scenario import Fault, LinkExecution
from planner.units import bytes_per_s

SECONDS_PER_DAY = 86_400.0
Row = tuple[float, int, int, float]


def troubles(plan: System, horizon_s: float, draws: Draws) -> Records:
    """Everything that happens to instances and links.

    Args:
        plan: the system.
        horizon_s: time up to which crashes at random are drawn [s].
        draws: where randomness comes from.

    Returns:
        Records in order of time.

    Raises:
        InputError: a fault names a link or an instance that the plan does not have.
    """
    rows: list[Row] = []
    for index, fault in enumerate(plan.scenario.execution.faults):
        rows += _stated(plan, index, fault)
    for is_decode, pools, slots in ((False, plan.prefill, plan.prefill_slots), (True, plan.decode, plan.decode_slots)):
        first = 0
        for pool, n in zip(pools, slots, strict=True):
            rows += _random(plan, pool, first, is_decode, horizon_s, draws)
            first += n
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
    i, is_decode = _instance(plan, index, fault)
    begins, ends = (DECODE_CRASH, DECODE_RESTART) if is_decode else (CRASH, RESTART)
    if fault.kind == "slow":
        begins = ends = DECODE_SLOW if is_decode else SLOW
    yield from _and_its_end(fault, (fault.at_s, begins, i, fault.slowdown or 0.0), ends, 1.0)


def _and_its_end(fault: Fault, row: Row, kind: int, value: float) -> Iterator[Row]:
    yield row
    if fault.duration_s is not None:
        yield row[0] + fault.duration_s, kind, row[2], value


def _instance(plan: System, index: int, fault: Fault) -> tuple[int, bool]:
    """Index of the instance that a fault names, among all of its role."""
    for is_decode, pools, slots in ((False, plan.prefill, plan.prefill_slots), (True, plan.decode, plan.decode_slots)):
        first, wanted = 0, fault.instance
        for pool, n in zip(pools, slots, strict=True):
            mine = pool.n_instances if pool.key == fault.pool else 0
            if wanted < mine:
                return first + wanted, is_decode
            first, wanted = first + n, wanted - mine
    what = f"the plan has no instance {fault.instance} of '{fault.pool}'"
    sizes = ", ".join(f"{pool.name} {pool.n_instances}" for pool in (*plan.prefill, *plan.decode))
    raise InputError(plan.scenario.problem(("execution", "faults", index, "instance"), what, f"instances: {sizes}"))


def _random(plan: System, pool: PoolPlan, first: int, is_decode: bool, horizon_s: float, draws: Draws) -> Iterator[Row]:
    """Crashes of every instance of a pool: exponential times up, the same time down."""
    stated = plan.scenario.execution.pools.get(pool.key)
    if stated is None or stated.mean_days_between_crashes is None:
        return
    begins, ends = (DECODE_CRASH, DECODE_RESTART) if is_decode else (CRASH, RESTART)
    for i in range(pool.n_instances):
        random, time_s = draws.generator(f"crashes: {pool.name} {i}"), 0.0
        while True:
            time_s += random.standard_exponential() * stated.mean_days_between_crashes * SECONDS_PER_DAY
            if time_s > horizon_s:
                break
            yield time_s, begins, first + i, 0.0
            time_s += stated.restart_s
            yield time_s, ends, first + i, 0.0
