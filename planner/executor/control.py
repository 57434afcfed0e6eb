"""The scheduler's records before a run: what it may convert, what it watches, and by which rules."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, InputProblem
from planner.executor.kernel.control_records import SCHEDULER, UNIT
from planner.executor.kernel.records import LONG_LINE, N_BINS, N_LINES, NONE, SERVES, Records
from planner.results.plan import PoolPlan
from planner.scenario import Scenario


def convertible(
    scenario: Scenario, prefill: Sequence[PoolPlan], decode: Sequence[PoolPlan], places: Sequence[int]
) -> bool:
    """True if the plan's instances may change between prefill and decode.

    Args:
        places: prompts that an instance of every prefill pool takes at once.

    Raises:
        InputError: the scenario asks for it, and the plan has not one prefill pool for short prompts and one decode
            pool of the same kind of instances at one site, or an instance prefills several prompts at once.
    """
    if scenario.execution.scheduler.long_term is None:
        return False
    local = [pool for pool in prefill if pool.prompts != "long"]
    kinds = {
        (stated.site, stated.model, scenario.hardware_of(stated).name, stated.accelerators_per_instance)
        for stated in (scenario.pools[pool.key].on_layout(pool.layout) for pool in (*local, *decode))
    }
    if len(local) != 1 or len(decode) != 1 or len(kinds) != 1:
        what = "has nothing to convert: instances change between one prefill pool for short prompts and one decode pool"
        allowed = "a plan with both, of the same model, hardware and size at one site; or no long_term"
        raise InputError(scenario.problem(("execution", "scheduler", "long_term"), what, allowed))
    if places[convertible_pool(prefill)] > 1:
        what = "converts instances that prefill one prompt at a time, and these have attention replicas"
        allowed = "a layout with dp=1 for the pool that converts; or no long_term"
        raise InputError(scenario.problem(("execution", "scheduler", "long_term"), what, allowed))
    return True


def undivided(scenario: Scenario, pools: Sequence[PoolPlan]) -> list[InputProblem]:
    """Obstacle to telling waits of long prompts from those of short ones: pools that take both."""
    both = [pool.name for pool in pools if pool.role == "prefill" and pool.prompts is None]
    if not both or not scenario.execution.scheduler.is_on:
        return []
    what = f"moves thresholds by the waits of long and of short prompts, and '{both[0]}' has one queue for both"
    return [scenario.problem(("execution", "scheduler"), what, "two pools with `prompts`, or no scheduler")]


def slots(prefill: Sequence[PoolPlan], decode: Sequence[PoolPlan], converts: bool) -> tuple[list[int], list[int]]:
    """Instances that every prefill pool, and every decode pool, may ever have."""
    n_prefill, n_decode = [pool.n_instances for pool in prefill], [pool.n_instances for pool in decode]
    if converts:
        p = convertible_pool(prefill)
        n_prefill[p] = n_decode[0] = n_prefill[p] + n_decode[0]
    return n_prefill, n_decode


def convertible_pool(prefill: Sequence[PoolPlan]) -> int:
    """Index of the prefill pool whose instances may change their role."""
    return next(p for p, pool in enumerate(prefill) if pool.prompts != "long")


def units(prefill: Sequence[PoolPlan], decode: Sequence[PoolPlan], pools: Records) -> Records:
    """Units that may change their role: each is an instance of both pools, and serves in one.

    The planned prefill instances are the first of their pool, and the planned decode instances the first of theirs, so
    that faults name the same ones with and without conversions.
    """
    p = convertible_pool(prefill)
    n_prefill, n = prefill[p].n_instances, prefill[p].n_instances + decode[0].n_instances
    found = np.zeros(n, dtype=UNIT)
    found["instance"] = pools[p]["first"] + np.arange(n)
    found["decoder"] = (np.arange(n) - n_prefill) % n
    found["is_decode"] = np.arange(n) >= n_prefill
    found["state"] = SERVES
    return found


def idle_control(thresholds: NDArray[np.float64], first_actor: int) -> dict[str, Any]:
    """The fields of a state that are about its control, where there is none.

    Args:
        thresholds: of every class, as planned [tokens].
    """
    control = np.zeros(1, dtype=SCHEDULER)
    for field in ("factor", "base", "lowest", "highest"):
        control[field] = 1.0
    control["prefill_pool"] = NONE
    control["look"], control["decision"], control["first_unit"] = first_actor + np.arange(3)
    return {
        "base_thresholds": thresholds.copy(),
        "scheduler": control,
        "units": np.zeros(0, dtype=UNIT),
        "lines": np.zeros((N_LINES, 5)),
        "bins": np.zeros((N_BINS, 2)),
    }


def scheduler_fields(
    scenario: Scenario, thresholds: NDArray[np.float64], pools: Records, found: Records, first_actor: int
) -> dict[str, Any]:
    """The fields of a state that are about its control.

    Args:
        thresholds: of every class, as planned [tokens].
    """
    fields, stated = idle_control(thresholds, first_actor), scenario.execution.scheduler
    control = fields["scheduler"]
    control["is_on"] = stated.is_on
    if (short := stated.short_term) is not None:
        control["is_short_term"], control["interval_s"] = 1, short.interval_s
        control["step"], control["range"] = 1.0 + short.step_fraction, short.range_factor
        control["link_utilization"], control["tolerance_s"] = short.link_utilization, short.wait_tolerance_s
        control["doubling_s"] = short.doubling_s
    if (long := stated.long_term) is not None:
        control["is_long_term"], control["decision_interval_s"] = 1, long.interval_s
        control["warm_up_s"], control["busy_fraction"] = long.warm_up_s, long.busy_fraction
        control["min_gain"], control["n_decisions"] = long.min_gain_fraction, long.n_decisions
        control["min_observed"] = long.min_observed
        control["prefill_pool"] = int(np.flatnonzero(pools["line"] != LONG_LINE)[0])
        control["n_decode"] = found["is_decode"].sum()
        control["n_prefill"] = len(found) - int(found["is_decode"].sum())
    return {**fields, "units": found}
