"""TTFT and TPOT of an instance that prefills and decodes in one closed loop, as serving benchmarks run it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.roofline.factors import Value
from planner.roofline.operator import FloatArray


@dataclass(frozen=True)
class Benchmark:
    """Rules by which a closed-loop benchmark draws and counts its requests."""

    prompts_per_slot: float = 10.0
    """Requests of a run over those in flight: the first of each slot arrive together."""
    shortest_fraction: float = 0.8
    """Lengths are uniform from this fraction of the nominal one up to it."""

    @property
    def mean_fraction(self) -> float:
        """Mean length over the nominal one."""
        return (1.0 + self.shortest_fraction) / 2


SERVING_BENCHMARK = Benchmark()
"""Settings of InferenceMAX and of AIConfigurator's silicon runs: ten prompts per slot, lengths from 0.8 to 1."""


@dataclass(frozen=True, eq=False)
class LoopTimes:
    """Service times of one operating point each; arrays of one shape."""

    prefill_s: FloatArray
    """First token of a request alone on the instance, overheads included [s]."""
    interference_s: FloatArray
    """What one prompt's prefill adds to the passes of the others, shared with those that its passes took beside it
    [s]."""
    step_s: FloatArray
    """A decode step of the batch [s]."""
    together_s: FloatArray | None = None
    """What prompts add to the passes when every attention replica prefills one [s]; None: one replica."""
    n_replicas: Value = 1.0
    """Attention replicas, each with a queue and a batch of its own."""
    tokens_per_step: Value = 1.0
    """Tokens that a step yields of each sequence, on average: more than 1 where tokens are drafted."""


@dataclass(frozen=True, eq=False)
class LoopLatency:
    """Latencies that a benchmark would report."""

    ttft_s: FloatArray
    """Mean time to first token [s]."""
    tpot_s: FloatArray
    """Mean time per output token after the first [s]."""


def closed_loop_latency(
    times: LoopTimes,
    concurrency: FloatArray,
    batch: FloatArray,
    output_tokens: FloatArray,
    *,
    burst: Value = 1.0,
    is_shared: ArrayLike = True,
    benchmark: Benchmark = SERVING_BENCHMARK,
) -> LoopLatency:
    """Mean TTFT and TPOT with a constant number of requests in flight.

    Equation:
        TPOT = D / Y + (B - 1) X / L, Y tokens per step: while a request decodes L tokens, each of the others is
        replaced once and prefilled;
        TTFT = T + one step + waiting. Waiting, on each of R replicas with c = C / R requests: in the first of n rounds
        all prompts arrive at once, and each pass of X' + D takes one per replica, (X' + D) (c - 1) / 2 on average; in
        a later round k they arrive over a window of c (X' + D) + (1 - r) L TPOT sqrt(k), by which the burst and the
        spread of lengths have drawn them apart, and queue like M/D/1 at the load c X' / window. Where memory holds
        B < C, the others wait (C - B) / B TPOT L more

    Args:
        times: service times; T, X, D, and X' where there are R replicas.
        concurrency: requests in flight C.
        batch: most that are in the batch at once, B.
        output_tokens: mean tokens generated per request, L [tokens].
        burst: weight of the first round's waiting, a factor of the stack.
        is_shared: whether prefill and decode share the instance; where not, prefill does not hold up decode.
        benchmark: rounds n and shortest length r.

    Returns:
        Means over all requests of a run; the shape of the arguments.

    Valid:
        One request per slot; prompts prefilled one pass each, first come first served; replicas equally full.

    Source:
        Little's law over a slot; M/D/1: Pollaczek and Khinchine.

    >>> one = np.ones(1)
    >>> times = LoopTimes(prefill_s=0.2 * one, interference_s=0.1 * one, step_s=0.01 * one)
    >>> closed_loop_latency(times, 1 * one, 1 * one, 1000 * one).tpot_s.tolist()
    [0.01]
    >>> closed_loop_latency(times, 11 * one, 11 * one, 1000 * one).ttft_s.round(7).tolist()
    [0.2751168]
    """
    b, n_rounds = batch, benchmark.prompts_per_slot
    c = np.maximum(concurrency / times.n_replicas, np.minimum(concurrency, 1.0))
    together = times.interference_s if times.together_s is None else times.together_s
    held_up_s = np.where(is_shared, (b - 1.0) * times.interference_s / output_tokens, 0.0)
    tpot = times.step_s / times.tokens_per_step + held_up_s
    passes = together + times.step_s
    spread = (1.0 - benchmark.shortest_fraction) * output_tokens * tpot
    waiting = burst * passes * (c - 1.0) / 2 / n_rounds
    waiting = waiting + _later_rounds(together, c, c * passes, spread, n_rounds)
    in_memory = np.maximum(concurrency - b, 0.0) / b * tpot * output_tokens
    return LoopLatency(times.prefill_s + times.step_s + waiting + in_memory, tpot)


def _later_rounds(
    service_s: FloatArray, c: FloatArray, drawn_apart_s: FloatArray, spread_s: FloatArray, n_rounds: float
) -> NDArray[np.float64]:
    """Waiting in rounds 2 to n, over all rounds; a request alone meets nobody."""
    total = np.zeros_like(service_s)
    for k in range(1, int(n_rounds)):
        load = (c - 1.0) * service_s / (drawn_apart_s + spread_s * np.sqrt(k))
        total = total + service_s / 2 * load / (1.0 - load)
    return np.asarray(total / n_rounds)
