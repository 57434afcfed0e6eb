"""A colocated pool as it is run: its place in the event loop, and the engine behind it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.curves import Curve, PrefillService
from planner.errors import InputError
from planner.executor.engine.run import EngineLoad, EngineRules, PassTimes, no_faults
from planner.executor.kernel.records import FINISHED, Records, World
from planner.executor.pass_times import Reach, pass_times
from planner.executor.service import DecodeTimes, PrefillTimes, chosen_pool
from planner.results import PoolPlan
from planner.roofline import ColocatedEngine, colocated_engine, linear_memory
from planner.scenario import PoolExecution, Scenario, asked_instance, at_pool, requests_of
from planner.units import GB

FREE = Curve.affine(0.0, 0.0)
WAY_IN = PrefillTimes(PrefillService(FREE), FREE, FREE, 1)
"""Of the prefill pool that stands for a colocated one: it takes no time."""
WAY_OUT = DecodeTimes(1, np.ones((2, 2)), inf, 0.0, 0.0)
"""Of the decode pool that stands for one: no request has steps left for it."""


@dataclass(frozen=True, eq=False)
class Colocated:
    """A pool whose instances prefill and decode in one batch."""

    pool: PoolPlan
    engine: ColocatedEngine
    way_in: int
    """Index of the prefill pool that stands for it."""
    way_out: int
    """Index of the decode pool that stands for it."""
    limits: PoolExecution
    """What the scenario states of it for the run."""
    mean_tokens: tuple[float, float]
    """Mean prompt and answer of all requests."""

    @property
    def most_inside(self) -> int:
        """Requests of mean lengths that an instance holds at once, half of their answers made."""
        prompt, output = self.mean_tokens
        room, fixed = self.room_tokens(max(prompt / 2, 1.0), prompt + output)
        return self.engine.served.n_places * max(min(self.most_running, ceil(room / (fixed + prompt + output / 2))), 1)

    @property
    def most_running(self) -> int:
        """Most requests that a replica admits at once, by rule."""
        stated = self.limits.batch_limit
        return self.engine.most_running if stated is None else max(stated // self.engine.served.n_places, 1)

    def room_tokens(self, low_tokens: float, high_tokens: float) -> tuple[float, float]:
        """Memory of a replica, and what a sequence takes of it whatever its length, see `linear_memory` [tokens]."""
        served, stated = self.engine.served, self.limits.memory_gb
        room, fixed = linear_memory(served, low_tokens, high_tokens)
        if stated is not None:
            room *= stated * GB / served.n_places / served.memory.cache_bytes
        return room, fixed

    def entering(self, w: World) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Requests that reach its batch, and whether their prompts were computed elsewhere."""
        way = w.routes[w.requests["route"]]
        is_standing = way["prefill_pool"] != self.way_in
        comes = (w.requests["state"] == FINISHED) & (way["decode_pool"] == self.way_out)
        comes &= ~is_standing | (w.requests["output_tokens"] > 1)  # one token is made where the prompt is
        rows = np.flatnonzero(comes)
        return rows, is_standing[rows]

    def door(self, n_instances: int) -> PoolPlan:
        """The pool as the event loop knows it, on its way in or out."""
        return self.pool.model_copy(update={"n_instances": n_instances, "prompts": "short"})

    def rules(self, load: EngineLoad) -> EngineRules:
        """How its instances form passes of a load."""
        one, served = self.engine, self.engine.served
        longest = float((load.prompt_tokens + load.output_tokens).max())
        room, fixed = self.room_tokens(float(max(load.prompt_tokens.min() // 2, 1)), longest)
        return EngineRules(
            tokens_per_pass=served.chunk_tokens,
            room_tokens=room,
            sequence_tokens=fixed,
            n_replicas=served.n_places,
            most_running=self.most_running,
            is_prefill_first=one.is_prefill_first,
            splits_prompts=one.splits_prompts,
            reserves_output=one.reserves_output,
        )

    def times(self, load: EngineLoad, rules: EngineRules) -> PassTimes:
        """Seconds of the passes that a load may make."""
        longest = int((load.prompt_tokens + load.output_tokens).max())
        found = pass_times(
            self.engine.served,
            Reach(
                # Whoever gave way computes its answer so far again, with its prompt.
                tokens_per_pass=max(rules.tokens_per_pass, 0 if rules.splits_prompts else longest),
                longest_prompt=longest,
                longest_context=longest,
                shortest_prompt=int(load.prompt_tokens.min()),
                most_running=min(len(load.prompt_tokens), rules.most_running * rules.n_replicas),
            ),
        )
        factor = self.engine.time_factor
        return replace(found, prompt_s=factor * found.prompt_s, decode_s=factor * found.decode_s)

    def load(
        self,
        requests: Records,
        is_standing: NDArray[np.bool_],
        arrivals_s: ArrayLike = 0.0,
        looks_s: ArrayLike = (),
        concurrency: int | None = None,
        faults: Records | None = None,
        max_retries: int = 0,
    ) -> EngineLoad:
        """What is asked of it.

        Args:
            requests: in the order in which they reach it.
            is_standing: whether their prompts were computed elsewhere.
            arrivals_s: when they reach it, in an open loop [s].
            looks_s: moments at which the seconds spent in passes are wanted [s].
            concurrency: requests in flight, in a closed loop.
            faults: what happens to instances.
            max_retries: how often a request starts again after crashes.
        """
        factor, host, is_new = self.engine.time_factor, self.engine.served.factors, ~is_standing
        tokens = requests["total_tokens"].astype(int)
        return EngineLoad(
            prompt_tokens=tokens,
            output_tokens=requests["output_tokens"].astype(int),
            delay_s=factor * (host.request_overhead_s + host.source_overhead_s) * is_new,
            host_s=factor * host.prompt_token_s * tokens * is_new,
            arrivals_s=arrivals_s,
            concurrency=concurrency,
            cached_tokens=requests["cached_tokens"] * is_new,
            is_standing=is_standing,
            looks_s=looks_s,
            faults=no_faults() if faults is None else faults,
            max_retries=max_retries,
        )


def colocated_pools(
    scenario: Scenario, pools: Iterable[PoolPlan], n_prefill: int, n_decode: int, data_dirs: Sequence[Path] = ()
) -> tuple[Colocated, ...]:
    """The colocated ones among pools, behind so many prefill and decode pools.

    Raises:
        InputError: an instance cannot be timed, or tokens are drafted for its model.
    """
    found = [pool for pool in pools if pool.role == "colocated"]
    if not found:
        return ()
    _check(scenario, found, n_prefill, n_decode)
    (pool,) = found
    limits = scenario.execution.pools.get(pool.key, PoolExecution())
    return (Colocated(pool, _engine(scenario, pool), n_prefill, n_decode, limits, _mean_tokens(scenario, data_dirs)),)


def _mean_tokens(scenario: Scenario, data_dirs: Sequence[Path]) -> tuple[float, float]:
    """Mean prompt and answer over all requests [tokens]."""
    mixes = [(share, requests_of(scenario, name, data_dirs)) for name, (share, _) in scenario.workloads.items()]
    total = sum(share for share, _ in mixes)
    prompt = sum(share * mix.mean_total_tokens for share, mix in mixes) / total
    return prompt, sum(share * mix.mean_output_tokens for share, mix in mixes) / total


def _check(scenario: Scenario, pools: Sequence[PoolPlan], n_prefill: int, n_decode: int) -> None:
    """Raises InputError for what is not run beside a colocated pool."""
    pool, execution = pools[0], scenario.execution
    beside = f"beside the colocated pool '{pool.name}'"
    if len(pools) + n_decode > 1:
        what = f"has other pools that decode {beside}"
        raise InputError(scenario.problem(("pools",), what, "one colocated pool that decodes everything"))
    stated = execution.pools.get(pool.key, PoolExecution())
    crash = ("pools", pool.key, "mean_days_between_crashes")
    crashes: list[str | int] = [
        index for index, fault in enumerate(execution.faults) if fault.pool == pool.key and fault.kind == "crash"
    ]
    routed = f"is of an instance whose requests would be routed again, which is not run {beside} and a prefill pool"
    found = [
        scenario.problem(("execution", *key), what, allowed)
        for is_asked, key, what, allowed in (
            (execution.cache is not None, ("cache",), f"is not run {beside}", "prefix_hits, or no colocated pool"),
            (execution.scheduler.is_on, ("scheduler",), f"is not run {beside}", "none, or no colocated pool"),
            (n_prefill > 0 and stated.mean_days_between_crashes is not None, crash, routed, "leave it out"),
            (n_prefill > 0 and bool(crashes), ("faults", *crashes[:1]), routed, "no prefill pool, or other faults"),
        )
        if is_asked
    ]
    if found:
        raise InputError(found)


def _engine(scenario: Scenario, pool: PoolPlan) -> ColocatedEngine:
    stated = chosen_pool(scenario, pool.key, pool.layout).on_passes(pool.tokens_per_pass)
    asked = asked_instance(scenario, stated)
    if asked.speculation is not None:
        what = "drafts tokens, and passes of colocated instances make one of each sequence"
        raise InputError(scenario.problem(("pools", pool.key), what, "a model without speculation, or other pools"))
    try:
        return colocated_engine(asked)
    except InputError as error:
        raise InputError(at_pool(scenario, pool.key, error.problems)) from None
