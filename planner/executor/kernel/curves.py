"""Seconds and bytes by length, from the tabulated pieces of curves."""

from planner.executor.compiled import compiled
from planner.executor.kernel.records import Numbers
from planner.executor.kernel.state import SimulationState


@compiled
def value(curves: Numbers, curve: int, tokens: float) -> float:
    """A curve at a token count: the piece is the first whose upper end is not below it."""
    low, high = 0, curves.shape[1] - 1
    while low < high:
        middle = (low + high) >> 1
        if curves[curve, middle, 0] < tokens:
            low = middle + 1
        else:
            high = middle
    x = tokens - curves[curve, low, 1]
    c3, c2 = curves[curve, low, 5], curves[curve, low, 4]
    return curves[curve, low, 2] + x * (curves[curve, low, 3] + x * (c2 + x * c3))


@compiled
def prefill_s(w: SimulationState, pool: int, done_tokens: float, end_tokens: float) -> float:
    """Seconds from `done_tokens` in the cache to `end_tokens`; from 0 on with the constant overhead."""
    curve = w.pools[pool].prefill_curve
    if done_tokens == 0:
        return value(w.curves, curve, end_tokens)
    return value(w.curves, curve, end_tokens) - value(w.curves, curve, done_tokens)


@compiled
def whole_prefill_s(w: SimulationState, pool: int, r: int) -> float:
    """Seconds of a request's prefill, alone: T(total) - T(cached), not below the constant overhead."""
    request = w.requests[r]
    seconds = prefill_s(w, pool, request.cached_tokens, request.prompt_tokens)
    return seconds if request.cached_tokens == 0 else max(seconds, w.pools[pool].floor_s)
