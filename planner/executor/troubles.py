"""The faults of a run in order of time: those stated, and crashes at random."""

from collections.abc import Iterator

import numpy as np

from planner.errors import InputError
from planner.executor.draws import Draws
from planner.executor.engine.records import CRASHES, FAULT, RESTARTS, SLOWS
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
    batched = {one.pool.key for one in plan.colocated}
    for index, fault in enumerate(plan.scenario.execution.faults):
        rows += () if fault.pool in batched else _stated(plan, index, fault)
    for pool, first, places, is_decode in _records(plan):
        rows += _random(plan, pool, (first, places), is_decode, horizon_s, draws)
    rows.sort(key=lambda row: row[0])
    return np.array(rows, dtype=FAULT_RECORD)


def batch_troubles(plan: System, horizon_s: float, draws: Draws) -> Records:
    """Everything that happens to colocated instances, as the engine knows it; arguments and errors of `troubles`."""
    rows: list[Row] = []
    for one in plan.colocated:
        for index, fault in enumerate(plan.scenario.execution.faults):
            rows += _of_batch(plan, one.pool, index, fault)
        rows += _random(plan, one.pool, (0, 1), False, horizon_s, draws)
    rows.sort(key=lambda row: row[0])
    kinds = {CRASH: CRASHES, RESTART: RESTARTS, SLOW: SLOWS}
    return np.array([(time_s, kinds[kind], i, value) for time_s, kind, i, value in rows], dtype=FAULT)


def _of_batch(plan: System, pool: PoolPlan, index: int, fault: Fault) -> Iterator[Row]:
    """A fault of a colocated instance."""
    if fault.pool != pool.key:
        return
    if fault.instance >= pool.n_instances:
        what = f"the plan has no instance {fault.instance} of '{fault.pool}'"
        key = ("execution", "faults", index, "instance")
        raise InputError(plan.scenario.problem(key, what, f"instances: {pool.name} {pool.n_instances}"))
    begins, ends = (SLOW, SLOW) if fault.kind == "slow" else (CRASH, RESTART)
    yield from _and_its_end(fault, (fault.at_s, begins, fault.instance, fault.slowdown or 0.0), ends, 1.0)


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
    own, is_decode = _instance(plan, index, fault)
    begins, ends = (DECODE_CRASH, DECODE_RESTART) if is_decode else (CRASH, RESTART)
    if fault.kind == "slow":
        begins = ends = DECODE_SLOW if is_decode else SLOW
    for i in own:
        yield from _and_its_end(fault, (fault.at_s, begins, i, fault.slowdown or 0.0), ends, 1.0)


def _and_its_end(fault: Fault, row: Row, kind: int, value: float) -> Iterator[Row]:
    yield row
    if fault.duration_s is not None:
        yield row[0] + fault.duration_s, kind, row[2], value


def _records(plan: System) -> Iterator[tuple[PoolPlan, int, int, bool]]:
    """Every pool with its first record among all of its role, the records of an instance, and whether it decodes.

    A prefill instance has a record for each of its places, a decode instance one.
    """
    prefill = zip(plan.prefill, plan.prefill_slots, plan.places, strict=True)
    decode = zip(plan.decode, plan.decode_slots, [1] * len(plan.decode), strict=True)
    for is_decode, pools in ((False, prefill), (True, decode)):
        first = 0
        for pool, n, places in pools:
            if pool.role != "colocated":
                yield pool, first, places, is_decode
            first += n


def _instance(plan: System, index: int, fault: Fault) -> tuple[range, bool]:
    """Records of the instance that a fault names, among all of its role."""
    wanted = fault.instance
    for pool, first, places, is_decode in _records(plan):
        mine = pool.n_instances if pool.key == fault.pool else 0
        if wanted < mine:
            return range(first + wanted * places, first + (wanted + 1) * places), is_decode
        wanted -= mine
    what = f"the plan has no instance {fault.instance} of '{fault.pool}'"
    sizes = ", ".join(f"{pool.name} {pool.n_instances}" for pool in plan.pools)
    raise InputError(plan.scenario.problem(("execution", "faults", index, "instance"), what, f"instances: {sizes}"))


def _random(
    plan: System, pool: PoolPlan, own: tuple[int, int], is_decode: bool, horizon_s: float, draws: Draws
) -> Iterator[Row]:
    """Crashes of every instance of a pool, all its records at once: exponential times up, the same time down."""
    first, places = own
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
            records = range(first + i * places, first + (i + 1) * places)
            yield from ((time_s, begins, record, 0.0) for record in records)
            time_s += stated.restart_s
            yield from ((time_s, ends, record, 0.0) for record in records)
