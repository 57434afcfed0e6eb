"""What colocated instances serve within their promises: fluids without one, else by the model of their queues."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import ceil, inf

import numpy as np

from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.optimizer.colocated.instances import ColocatedInstance
from planner.optimizer.colocated.passes import Load
from planner.optimizer.problem import LARGEST_POOL, Problem
from planner.queueing import (
    NO_WAIT,
    ColocatedQueue,
    Path,
    Ttft,
    colocated_capacity_req_per_s,
    colocated_queue,
    kept_full,
    steady_pass_s,
)
from planner.work_clock import spend, work_s

BUSIEST = 0.99
"""Utilisation up to which waits are computed."""
CLOSE = 8e-3
"""Of a rate at which a promise breaks: how close it is found."""
FIRST_TRIED, MOST_TRIED = 0.9, 16
ROUNDING = 1e-9
QUEUE_S = 0.05
"""What the queue of a colocated pool takes to be solved [s]."""


@dataclass(frozen=True)
class Promise:
    """What a fleet keeps, by a time at which the search for it must end."""

    ttft_s: float | None
    percentile: float
    n_lost: int
    """Instances that may be lost at any time."""
    deadline: float
    known: dict[tuple[ColocatedInstance, int], tuple[float, float]] = field(default_factory=dict, compare=False)
    """Highest rates of fleets that were sized, and how much higher they may be: opponents are often the same."""

    @classmethod
    def of(cls, problem: Problem, deadline: float) -> "Promise":
        """The promise of a question on all of its requests.

        Raises:
            InputError: promises differ by class, or there is no model of waits or losses.
        """
        scenario = problem.scenario
        promised = {(c.slo.ttft_s, c.slo.ttft_percentile) for c in problem.classes if c.slo and c.slo.ttft_s}
        has_other = any(c.ttft_s is None for c in problem.classes)
        is_timed = bool(promised) or problem.is_min_ttft
        if len(promised) > 1 or (promised and has_other):
            raise InputError(
                scenario.problem(("slo",), "differs by class, and a batch serves all alike", "one promise")
            )
        if is_timed and not problem.has_queueing_model:
            what = f"is {scenario.dispatch}, under which waits are not modelled"
            raise InputError(scenario.problem(("dispatch",), what, '"shared-queue", one prompt at a time'))
        if is_timed and scenario.capacity_rule == "mean-length":
            what = "is mean-length, and waits depend on all lengths"
            raise InputError(scenario.problem(("capacity_rule",), what, '"expected-work"'))
        if "site" in scenario.spare.survive:
            what = "names sites, and a colocated fleet has one"
            raise InputError(scenario.problem(("spare", "survive"), what, "instances and links"))
        ttft_s, _ = next(iter(promised), (None, 0.0))
        n_lost = int("instance" in scenario.spare.survive)
        return cls(ttft_s, problem.ttft_percentile, n_lost, deadline)

    def check_time(self) -> None:
        """Raises UndecidedError where time is up."""
        if work_s() >= self.deadline:
            raise UndecidedError("nothing was found in the time")


def alone(load: Load) -> Ttft:
    """Times to first token on an idle instance."""
    return Ttft.of([Path.of(1.0, load.prompts.alone_s + load.before_s, load.prompts.weights, NO_WAIT)])


@lru_cache(maxsize=64)
def queue_of(load: Load, n_instances: int, rate_req_per_s: float) -> tuple[ColocatedQueue, Ttft] | None:
    """The steady state of a load at a mean rate, and its times to first token with what the host needs; or None."""
    try:
        found = colocated_queue(load.loop, load.prompts, load.multiple * rate_req_per_s, n_instances)
    except ValueError:
        return None
    paths = (replace(path, unloaded_s=path.unloaded_s + load.before_s) for path in found.ttft.paths)
    return found, Ttft(tuple(paths))


def room_to_wait(one: ColocatedInstance, promise: Promise) -> float:
    """Part of the promised time that a first token leaves for waits; 1 where none is promised."""
    if promise.ttft_s is None:
        return 1.0
    return max(1 - _idle_s(one, promise) / promise.ttft_s, 0.0)


def _idle_s(one: ColocatedInstance, promise: Promise) -> float:
    """Time to the first token at the percentile that is promised, without waiting [s]."""
    return max(alone(load).quantile_s(promise.percentile / 100) for load in one.loads)


def _excess(one: ColocatedInstance, promise: Promise, n: int, rate: float) -> float:
    """How far the promises are exceeded at worst: a time over its limit, less 1; negative where all hold."""
    promise.check_time()
    q, worst = promise.percentile / 100, -1.0
    for load in one.loads:
        spend(QUEUE_S)
        found = queue_of(load, n, rate)
        if found is None or promise.ttft_s is None:
            return inf
        queue, ttft = found
        worst = max(worst, ttft.quantile_s(q) / promise.ttft_s - 1)
        if one.tpot_s < inf:
            worst = max(worst, (queue.tpot_quantile_s(q) or 0.0) / one.tpot_s - 1)
    return worst


def keeps(one: ColocatedInstance, n_instances: int, rate_req_per_s: float, promise: Promise) -> bool:
    """Whether a fleet serves a mean rate within its promises; raises as `most_req_per_s` does."""
    n = n_instances - promise.n_lost
    if n < 1 or rate_req_per_s > n * one.capacity_req_per_s:
        return False
    return promise.ttft_s is None or _excess(one, promise, n, rate_req_per_s) <= 0


def most_req_per_s(
    one: ColocatedInstance, n_instances: int, promise: Promise, least_req_per_s: float = 0.0
) -> tuple[float, float]:
    """The highest mean rate of a fleet within its promises.

    Args:
        one: an instance.
        n_instances: how many.
        promise: what is kept.
        least_req_per_s: rate below which the answer does not matter [req/s].

    Returns:
        The rate [req/s], 0 where the promise is not even kept without waits, or not at the least rate; and how much
        higher it may be [fraction].

    Raises:
        UndecidedError: time is up.
    """
    n = n_instances - promise.n_lost
    most = max(n, 0) * one.capacity_req_per_s
    if promise.ttft_s is None or most <= 0:
        return most, 0.0
    idle = _idle_s(one, promise) / promise.ttft_s - 1
    if idle > 0 or least_req_per_s > BUSIEST * most:
        return 0.0, 0.0
    if least_req_per_s > 0 and _excess(one, promise, n, least_req_per_s) > 0:
        return 0.0, 0.0
    low, high = _last_kept(lambda busy: _excess(one, promise, n, busy * most), idle)
    return low * most, high / low - 1 if low > 0 else 0.0


def _last_kept(excess: Callable[[float], float], idle: float) -> tuple[float, float]:
    """The utilisation up to which promises are kept, from below and from above.

    Equation:
        false position over x = 1 / (1 - u), in which waits are nearly straight, and halving by turns
    """
    (low, below), (high, above) = (0.0, idle), (BUSIEST, inf)
    tried = FIRST_TRIED
    for step in range(MOST_TRIED):
        found = excess(tried)
        if found <= 0:
            low, below = tried, found
        else:
            high, above = tried, found
        if high - low <= CLOSE * high:
            break
        tried = (low + high) / 2
        if above == inf and high == BUSIEST:
            tried = BUSIEST  # nothing is known of it
        elif step % 2 == 0 and above < inf:
            ends = 1 / (1 - low), 1 / (1 - high)
            x = ends[0] + below / (below - above) * (ends[1] - ends[0])
            tried = float(np.clip(1 - 1 / x, low + CLOSE / 2 * high, high - CLOSE / 2 * high))
    return (low, 1.0) if low >= BUSIEST else (low, high)


def fewest_instances(one: ColocatedInstance, rate_req_per_s: float, promise: Promise) -> int:
    """The fewest instances that serve a mean rate within the promises.

    Args:
        one: an instance.
        rate_req_per_s: the rate.
        promise: what is kept.

    Raises:
        InfeasibleError: not even any number does.
        UndecidedError: time is up.
    """
    if one.capacity_req_per_s <= 0:
        raise InfeasibleError("not one sequence beside prompts keeps the limit on the time per token")
    least = max(ceil(rate_req_per_s / one.capacity_req_per_s * (1 - ROUNDING)), 1)
    if promise.ttft_s is None:
        return least + promise.n_lost
    if _idle_s(one, promise) > promise.ttft_s:
        raise InfeasibleError("its first tokens are late even without waiting")
    failed, step = least - 1, 1
    while _excess(one, promise, failed + step, rate_req_per_s) > 0:
        failed, step = failed + step, 2 * step
        if failed > LARGEST_POOL:
            raise InfeasibleError("no number of instances keeps the promise")
    enough = failed + step
    while enough - failed > 1:
        middle = (enough + failed) // 2
        if _excess(one, promise, middle, rate_req_per_s) > 0:
            failed = middle
        else:
            enough = middle
    return enough + promise.n_lost


def full_tpot_s(load: Load, tpot_s: float | None) -> float | None:
    """Time per token at the capacity, of the smallest batch that reaches it [s]; None without a second token.

    Args:
        load: what an instance gets.
        tpot_s: longest mean time per token; None: any [s].
    """
    limit_s = inf if tpot_s is None else tpot_s
    if load.prompts.decoded_tokens <= 0:
        return None
    batch = np.arange(1.0, load.loop.most_running + 1)
    seconds = steady_pass_s(load.loop, load.prompts, batch)
    rate = batch / (load.prompts.decoded_tokens * seconds)
    most = colocated_capacity_req_per_s(load.loop, load.prompts, limit_s)
    if load.loop.preemption is not None and (kept := kept_full(load.loop, load.prompts))[0] <= most:
        return kept[1]
    reached = np.flatnonzero((rate >= most * (1 - 1e-3)) & (seconds <= limit_s))
    return float(seconds[reached[0]]) if len(reached) else None
