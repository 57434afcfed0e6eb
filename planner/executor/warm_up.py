"""Test of a run's warm-up: until those that found it empty have left, and its queues have settled."""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.executor.kernel.state import SimulationState
from planner.executor.systems import System
from planner.results.plan import PoolPlan
from planner.units import number, percent

Floats = NDArray[np.float64]
STAYS_TO_WARM_UP = 3.0
"""Mean stays of a request that a warm-up should last;"""
RELAXATIONS_TO_WARM_UP = 2.0
"""and relaxation times of the slowest queue: then what is left of having begun empty is lost in the noise of a run that
is ten times as long."""
N_TO_LEARN = 50_000
"""Requests at the most that gaps between arrivals, and their work, are learned from."""
LEAST_IDLE = 1e-6
"""Of a pool that is full, so that its time stays a number."""
SOON_S = 1e-9
STAYS = "that a request stays: figures, throughput above all, are those of a system that still fills"
QUEUES = "in which the queue of {name}, {busy} busy, settles: its waits are still those of a run that began empty"
PREFILLED = ("arrival_s", "prefill_start_s", "prefill_end_s")
DECODED = ("kv_end_s", "first_token_s", "finish_s")
"""When a request comes to a pool, its work begins, and ends."""


class Unsettled(NamedTuple):
    """Why the warm-up of a run is too short."""

    times: float
    """As many requests make it long enough [-]."""
    because: str


def relaxation_s(req_per_s: float, busy: float, arrivals_scv: float, work_scv: float) -> float:
    """Time in which a queue forgets how it began: the exponential rate at which its mean nears its steady state.

    Equation:
        rho (ca2 + cs2) / (2.8 lambda (1 - sqrt(rho))^2), with lambda / rho the rate of all servers together

    Args:
        req_per_s: arrivals [1/s].
        busy: utilisation rho [-].
        arrivals_scv: squared coefficient of variation of the gaps between arrivals [-].
        work_scv: that of the service times [-].

    Valid:
        GI/G/1; several servers as one that is as fast as all, which is right for busy pools.

    Source:
        Odoni and Roth, An Empirical Investigation of the Transient Behavior of Stationary Queueing Systems, Operations
        Research 31 (1983), for GI/G/1; also in Larson and Odoni, Urban Operations Research. The same scale, variance
        over the square of the drift, follows of reflected Brownian motion: Whitt, Planning Queueing Simulations,
        Management Science 35 (1989).

    >>> round(relaxation_s(0.9, 0.9, 1.0, 1.0)), round(relaxation_s(0.99, 0.99, 1.0, 1.0))
    (271, 28428)
    """
    idle = max(1 - sqrt(min(busy, 1.0)), LEAST_IDLE)
    return busy * (arrivals_scv + work_scv) / (2.8 * req_per_s * idle**2) if req_per_s > 0 else 0.0


def relaxation_times(plan: System, w: SimulationState, counted: slice, busy: Mapping[str, float]) -> dict[str, float]:
    """Relaxation time of every pool, by the name of its figure [s]; nan of those that served no two requests."""
    some = w.requests[counted][:N_TO_LEARN]
    seen = {name: some[name][some["finish_s"] >= 0] for name in (*PREFILLED, *DECODED, "route")}
    prefilled, decoded = (w.routes[f"{role}_pool"][seen["route"]] for role in ("prefill", "decode"))
    parts = [(pool.name, prefilled == p, PREFILLED) for p, pool in enumerate(plan.prefill)]  # decode comes over ways in
    parts += [(pool.name, decoded == d, DECODED) for d, pool in enumerate(plan.decode)]
    found = {}
    for name, mine, moments in parts:
        arrived, began, ended = (seen[moment][mine] for moment in moments)
        gaps, own_s = np.diff(np.sort(arrived)), np.nan
        if len(gaps):
            rate = 1 / max(float(gaps.mean()), SOON_S)
            own_s = relaxation_s(rate, busy[name], _scv(gaps), _scv(ended - began))
        found[f"{name} relaxation_s"] = own_s
    return found


def unsettled(pools: Sequence[PoolPlan], mean: Mapping[str, float]) -> Unsettled | None:
    """Why the warm-up of a run was too short; None where it was long enough.

    Args:
        pools: those whose queues are to settle; none of a system that is kept full.
    """
    asked = [(STAYS_TO_WARM_UP, mean["stay_s"], STAYS)]
    for pool in pools:
        what = QUEUES.format(name=pool.name, busy=percent(mean[f"utilization.{pool.name}"]))
        asked.append((RELAXATIONS_TO_WARM_UP, float(np.nan_to_num(mean[f"{pool.name} relaxation_s"])), what))
    n, each_s, what = max(asked, key=lambda one: one[0] * one[1])
    times = n * each_s / max(mean["warm_up_s"], SOON_S)
    return Unsettled(times, f"shorter than {number(n)} times the {number(each_s)} s {what}") if times > 1 else None


def _scv(values: Floats) -> float:
    """Squared coefficient of variation; 0 of what takes no time."""
    mean = float(values.mean())
    return float(values.var()) / mean**2 if mean > 0 else 0.0
