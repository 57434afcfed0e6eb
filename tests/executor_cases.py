"""Small systems with service times one can calculate by hand: seconds and bytes in proportion to tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.executor.draws import Draws, blank_requests
from planner.executor.fault_schedule import fault_schedule
from planner.executor.initial_state import simulation_state
from planner.executor.kernel import SimulationState
from planner.executor.kernel.records import PROMPT
from planner.executor.prompt_blocks import PromptBlocks
from planner.executor.run import run_to_end
from planner.executor.systems import System, system
from planner.results.plan import Fleet, LinkPlan, PoolPlan
from planner.results.plan_parts import Cost, Latency
from planner.scenario import Scenario
from tests.builders import small_with

Floats = NDArray[np.float64]

TOKEN_S = 1e-5
"""Prefill seconds of a token, on either kind of instance."""
TOKEN_BYTES = 1e5
LONGEST = 10_000_000
N_LAYERS = 94
"""Of the model of the small scenario."""
STEP_S = 0.01

UNKNOWN = Latency(**dict.fromkeys(Latency.model_fields))
UNPRICED = Cost(**dict.fromkeys([n for n in Cost.model_fields if n != "missing_prices"]))
LINE = {"tokens": [1, LONGEST], "interpolation": "linear"}
PREFILL = {**LINE, "seconds": [TOKEN_S, LONGEST * TOKEN_S]}
KV = {**LINE, "bytes": [TOKEN_BYTES, LONGEST * TOKEN_BYTES]}


def scenario(changes: Mapping[str, Any] | None = None, batch: int = 1_000_000) -> Scenario:
    """The small scenario with prefill, cache and decode in proportion."""
    straight = {
        "measured.fast.prefill": PREFILL,
        "measured.fast.kv": KV,
        "measured.home.prefill": PREFILL,
        "measured.home.kv": KV,
        "measured.home.decode": {"batch": batch, "step_s": STEP_S},
        "links.wan.round_trip_ms": 0.0,
    }
    return small_with({**straight, **(changes or {})})


def fleet(
    n_fast: int = 1, n_near: int = 1, n_decode: int = 1, threshold_tokens: float = 1e9, link_gbps: float = 100.0
) -> Fleet:
    """Sizes and routing; nothing else of a plan matters to a run."""
    sizes = (("fast", "remote", "prefill", "long", n_fast), ("near", "local", "prefill", "short", n_near))
    pools = [
        PoolPlan(
            name=name,
            site=site,
            hardware="any",
            role="decode" if role == "decode" else "prefill",
            prompts="long" if prompts == "long" else "short" if prompts == "short" else None,
            n_instances=n,
            n_accelerators=8 * n,
            capacity_req_per_s=1.0,
            offered_req_per_s=1.0,
            utilization=0.5,
            usd_per_hour=None,
            basis="measured",
        )
        for name, site, role, prompts, n in (*sizes, ("decode", "local", "decode", None, n_decode))
    ]
    link = LinkPlan(
        name="wan",
        from_site="remote",
        to_site="local",
        capacity_gbps=link_gbps,
        n_ports=1,
        port_gbps=link_gbps,
        mean_gbps=0.0,
        utilization=0.0,
        usd_per_hour=None,
    )
    return Fleet(
        threshold_tokens=threshold_tokens,
        offload_fraction=0.5,
        throughput_req_per_s=1.0,
        max_throughput_req_per_s=1.0,
        pools=tuple(pools),
        links=(link,),
        latency=UNKNOWN,
        cost=UNPRICED,
    )


def asked(
    arrival_s: Sequence[float] | Floats, tokens: Any, output: Any = 1, cached: Any = 0, request_class: Any = 0
) -> Any:
    """Requests as stated."""
    requests = blank_requests(len(arrival_s))
    requests["arrival_s"], requests["total_tokens"], requests["output_tokens"] = arrival_s, tokens, output
    requests["cached_tokens"], requests["request_class"] = cached, request_class
    return requests


def chains(prompts: Sequence[Sequence[int]]) -> PromptBlocks:
    """Numbers of the blocks of every prompt, stated for each of them."""
    rows = np.zeros(len(prompts), dtype=PROMPT)
    rows["row"] = np.arange(len(prompts))
    values = np.array([b for prompt in prompts for b in prompt], dtype=np.int32)
    return PromptBlocks(values, np.cumsum([0, *map(len, prompts)]), rows, int(values.max(initial=-1)) + 1)


def ended(plan: System, requests: Any, blocks: PromptBlocks | None = None) -> SimulationState:
    """The state after the run."""
    last_s = float(requests["arrival_s"][-1]) if len(requests) else 0.0
    w = simulation_state(plan, requests, faults=fault_schedule(plan, last_s, Draws(0)), blocks=blocks)
    run_to_end(w)
    return w


def run(
    requests: Any,
    changes: Mapping[str, Any] | None = None,
    *,
    batch: int = 1_000_000,
    steps: Floats | None = None,
    memory: tuple[float, float, float] | None = None,
    blocks: PromptBlocks | None = None,
    **sizes: Any,
) -> SimulationState:
    """A run of a small system.

    Args:
        requests: what is asked.
        changes: keys of the scenario.
        batch: decode batch limit.
        steps: decode steps by batch, instead of a constant one; shape (batch + 1, 2).
        blocks: of the prompts.
        memory: of a decode instance, of a state and of a token [B].
        sizes: of the fleet.
    """
    plan = system(scenario(changes, batch), fleet(**sizes))
    (times,) = plan.decode_times
    if steps is not None:
        times = replace(times, step_s=steps, batch_limit=len(steps) - 1)
    if memory is not None:
        times = replace(times, memory_bytes=memory[0], state_bytes=memory[1], bytes_per_token=memory[2])
    return ended(replace(plan, decode_times=(times,)), requests, blocks)


def poisson_s(rng: np.random.Generator, n: int, rate: float) -> Floats:
    """Arrivals."""
    return np.cumsum(rng.exponential(1 / rate, n))


def whole_tokens(seconds: Floats) -> NDArray[np.int64]:
    """Lengths whose prefill takes these seconds, to a token."""
    return np.maximum(np.rint(seconds / TOKEN_S), 1).astype(np.int64)
