"""Colocated pools as they are run: their doors in the event loop, and the engines behind them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.curves import Curve, PrefillService
from planner.errors import InputError
from planner.executor.kernel.records import FINISHED, Records
from planner.executor.kernel.state import SimulationState
from planner.executor.passes import BatchingPool, EngineRules
from planner.executor.service import DecodeTimes, PrefillTimes, chosen_pool, wire_curve
from planner.results.plan import PoolPlan
from planner.roofline import ColocatedEngine, PassTimes, Reach, colocated_engine, linear_memory, pass_times
from planner.scenario import PoolExecution, Scenario, at_pool, instance_spec, requests_of
from planner.units import GB

FREE = Curve.affine(0.0, 0.0)
WAY_OUT = DecodeTimes(1, np.ones((2, 2)), inf, 0.0, 0.0)
"""Of the decode pool that stands for one, which is never entered."""


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
    wire: Curve
    """Bytes of a cache between sites by length [B]."""
    mean_tokens: tuple[float, float]
    """Mean prompt and answer of all requests that it serves."""

    @property
    def way_in_times(self) -> PrefillTimes:
        """Of the prefill pool that stands for it: it takes no time."""
        return PrefillTimes(PrefillService(FREE), self.wire, FREE, 1)

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

    def longest_request(self, requests: Records) -> float:
        """Tokens of a prompt with its answer that a replica holds, if it holds nothing else, of requests that come."""
        if not len(requests):
            return inf
        whole = requests["total_tokens"] + requests["output_tokens"]
        room, fixed = self.room_tokens(float(max(requests["total_tokens"].min() // 2, 1)), float(whole.max()))
        return room - fixed

    def entering(self, w: SimulationState) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Requests that reach its batch, and whether their prompts were computed elsewhere."""
        way = w.routes[w.requests["route"]]
        is_standing = way["prefill_pool"] != self.way_in
        comes = (w.requests["state"] == FINISHED) & (way["decode_pool"] == self.way_out)
        comes &= ~is_standing | (w.requests["output_tokens"] > 1)  # one token is made where the prompt is
        rows = np.flatnonzero(comes)
        return rows, is_standing[rows]

    @property
    def door(self) -> PoolPlan:
        """The pool as the event loop knows it, on its way in or out: without instances of its own."""
        return self.pool.model_copy(update={"n_instances": 0, "prompts": "short"})

    def batching(self, requests: Records) -> BatchingPool:
        """The pool of the event loop, for requests that may come to it."""
        prompts, outputs = (requests[name].astype(int) for name in ("total_tokens", "output_tokens"))
        rules, factor, host = self.rules(prompts, outputs), self.engine.time_factor, self.engine.served.factors
        return BatchingPool(
            rules,
            self.times(prompts, outputs, rules),
            self.pool.n_instances,
            self.way_in,
            host_token_s=float(factor * host.prompt_token_s),
            delay_s=float(factor * host.request_overhead_s),
        )

    def rules(self, prompts: NDArray[np.int_], outputs: NDArray[np.int_]) -> EngineRules:
        """Rules by which its instances form passes of requests of such lengths [tokens]."""
        one, served = self.engine, self.engine.served
        longest = float((prompts + outputs).max())
        room, fixed = self.room_tokens(float(max(prompts.min() // 2, 1)), longest)
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

    def times(self, prompts: NDArray[np.int_], outputs: NDArray[np.int_], rules: EngineRules) -> PassTimes:
        """Seconds of the passes that requests of such lengths may make."""
        longest = int((prompts + outputs).max())
        found = pass_times(
            self.engine.served,
            Reach(
                # Whoever gave way computes its answer so far again, with its prompt.
                tokens_per_pass=max(rules.tokens_per_pass, 0 if rules.splits_prompts else longest),
                longest_prompt=longest,
                longest_context=longest,
                shortest_prompt=int(prompts.min()),
                most_running=min(len(prompts), rules.most_running * rules.n_replicas),
            ),
        )
        factor = self.engine.time_factor
        return replace(found, prompt_s=factor * found.prompt_s, decode_s=factor * found.decode_s)


def colocated_pools(
    scenario: Scenario, pools: Iterable[PoolPlan], n_prefill: int, n_decode: int, data_dirs: Sequence[Path] = ()
) -> tuple[Colocated, ...]:
    """The colocated ones among pools, behind so many prefill and decode pools.

    Raises:
        InputError: an instance cannot be timed, tokens are drafted for its model, or instances beside it are to change
            their roles.
    """
    found = [pool for pool in pools if pool.role == "colocated"]
    if found and scenario.execution.scheduler.long_term is not None:
        what = f"balances prefill and decode by themselves, and '{found[0].name}' does both"
        key = ("execution", "scheduler", "long_term")
        raise InputError(scenario.problem(key, what, "short_term alone, or no colocated pool"))
    return tuple(_colocated(scenario, pool, n_prefill + k, n_decode + k, data_dirs) for k, pool in enumerate(found))


def _colocated(scenario: Scenario, pool: PoolPlan, way_in: int, way_out: int, data_dirs: Sequence[Path]) -> Colocated:
    stated = chosen_pool(scenario, pool.key, pool.layout).on_passes(pool.tokens_per_pass)
    asked = instance_spec(scenario, stated)
    if asked.speculation is not None:
        what = "drafts tokens, and passes of colocated instances make one of each sequence"
        raise InputError(scenario.problem(("pools", pool.key), what, "a model without speculation, or other pools"))
    try:
        engine = colocated_engine(asked)
    except InputError as error:
        raise InputError(at_pool(scenario, pool.key, error.problems)) from None
    limits = scenario.execution.pools.get(pool.key, PoolExecution())
    wire = wire_curve(engine.served, asked.kv_precision)
    return Colocated(pool, engine, way_in, way_out, limits, wire, _mean_tokens(scenario, pool, data_dirs))


def _mean_tokens(scenario: Scenario, pool: PoolPlan, data_dirs: Sequence[Path]) -> tuple[float, float]:
    """Mean prompt and answer over all requests that a pool serves [tokens]."""
    classes = scenario.classes_of(scenario.pools[pool.key])
    mixes = [(scenario.workloads[name][0], requests_of(scenario, name, data_dirs)) for name in classes]
    total = sum(share for share, _ in mixes)
    prompt = sum(share * mix.mean_total_tokens for share, mix in mixes) / total
    return prompt, sum(share * mix.mean_output_tokens for share, mix in mixes) / total
