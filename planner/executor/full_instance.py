"""A colocated instance kept full: what it does at the most."""

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.executor.colocated_pools import Colocated
from planner.executor.draws import GOLDEN
from planner.executor.engine import EngineLoad, EngineRun, engine_run, no_faults
from planner.executor.kernel.records import Records

Floats = NDArray[np.float64]
N_TO_FILL = 20_000
"""Requests at least, beside TURNS times those in flight, of a run that shows what a full instance does."""
TURNS = 8
COUNTED = 0.4, 0.95
"""Where the answers of such a run that count begin, and end [fraction]."""
THINKING = 0.1
"""Mean time before the next request over that of an answer at the limit on the time per token."""


class Full(NamedTuple):
    """Highest rate of an instance, and the requests that keep it so."""

    in_flight: int
    """Requests that keep it so."""
    req_per_s: float
    think_s: float = 0.0
    """Mean time before each: in step with one another, requests would be served faster than independent ones [s]."""


def full_instance(one: Colocated, requests: Records, is_standing: NDArray[np.bool_]) -> Full:
    """Highest rate of an instance with all it can hold, or as much as its limit on the time per token allows.

    Args:
        requests: that reach the pool, in order; they are offered again from the first as long as more are needed.
        is_standing: whether their prompts were computed elsewhere.
    """
    most = 2 * one.most_inside
    rows = np.arange(max(N_TO_FILL, TURNS * most)) % len(requests)
    asked, is_standing = requests[rows], is_standing[rows]
    lengths = asked["total_tokens"].astype(int), asked["output_tokens"].astype(int)
    rules = one.rules(*lengths)
    times = one.times(*lengths, rules)

    def run(in_flight: int, think_s: float = 0.0) -> tuple[float, float]:
        n = max(N_TO_FILL, TURNS * in_flight)
        load = run_full_pool(one, asked[:n], is_standing[:n], Full(in_flight, 0.0, think_s))
        return closed_loop(engine_run(rules, times, load))

    limit_s = one.engine.tpot_s
    low, (rate, tpot_s) = most, run(most)
    if limit_s is None or tpot_s <= limit_s:
        return Full(most, rate)
    think_s = THINKING * limit_s * float(asked["output_tokens"].mean())
    low, high, found = 1, most, None
    while high - low > max(low // 50, 1):  # the time per token grows with those in flight
        middle = (low + high) // 2
        rate, tpot_s = run(middle, think_s)
        if tpot_s <= limit_s:
            low, found = middle, rate
        else:
            high = middle
    return Full(low, run(low, think_s)[0] if found is None else found, think_s)


def run_full_pool(
    one: Colocated,
    requests: Records,
    is_standing: NDArray[np.bool_],
    full: Full,
    faults: Records | None = None,
    max_retries: int = 0,
) -> EngineLoad:
    """A closed loop that keeps a pool full of requests, in their order, some of whose prompts were computed elsewhere.

    What a crash left may have been cached whole: the last token of a prompt is computed all the same. Those who begin
    together have parts of their answers, from next to none to the whole and spread evenly over any of the first of
    them: with answers of one length all would begin and end together for ever, as independent requests never do.
    """
    outputs = requests["output_tokens"].astype(int)
    n = min(full.in_flight, len(outputs))
    parts = (GOLDEN * np.arange(1, n + 1)) % 1.0
    outputs[:n] = np.maximum(parts * outputs[:n], np.minimum(outputs[:n], 2))
    factor, host, is_new = one.engine.time_factor, one.engine.served.factors, ~is_standing
    tokens = requests["total_tokens"].astype(int)
    return EngineLoad(
        prompt_tokens=tokens,
        output_tokens=outputs,
        delay_s=factor * host.request_overhead_s * is_new,
        host_s=factor * host.prompt_token_s * tokens * is_new,
        concurrency=full.in_flight,
        arrivals_s=full.think_s * np.random.default_rng(0).standard_exponential(len(outputs)),
        cached_tokens=np.minimum(requests["cached_tokens"], tokens - 1) * is_new,
        is_standing=is_standing,
        faults=no_faults() if faults is None else faults,
        max_retries=max_retries,
    )


def closed_loop(found: EngineRun) -> tuple[float, float]:
    """Answers per second of a closed loop [1/s], and the mean time per token after the first [s]."""
    order = np.argsort(found.done_s, kind="stable")
    first, last = (int(part * (len(order) - 1)) for part in COUNTED)
    span_s = found.done_s[order[last]] - found.done_s[order[first]]
    tpot_s = found.tpot_s[order[first : last + 1]]
    known = tpot_s[np.isfinite(tpot_s)]
    return (last - first) / span_s if span_s > 0 else inf, float(known.mean()) if known.size else 0.0
