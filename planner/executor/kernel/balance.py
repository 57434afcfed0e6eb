"""The paper's balance equations on what was observed: what each split of roles and each threshold would serve.

Equation:
    Theta_long = min(N_long / T(l_long), B_out / S_kv(l_long)), Theta_short = N_short / T(l_short),
    Theta_decode = N_decode BS / (T_step(BS) L_out), Lambda = min(Theta_long / p, Theta_short / (1 - p), Theta_decode);
    t such that Theta_long / p = Theta_short / (1 - p), roles such that Theta_long + Theta_short = Theta_decode

    T, S_kv and T_step are straight lines through what was seen, so that the mean of T is T of the mean.

Source:
    Prefill-as-a-Service, arXiv 2604.15039v2, its throughput model.
"""

from math import inf, log2
from typing import NamedTuple

from planner.executor.compiled import compiled_apart
from planner.executor.kernel.records import (
    BINS_PER_OCTAVE,
    LONG_LINE,
    N_BINS,
    SHORT_LINE,
    STEP_LINE,
    WIRE_LINE,
    Numbers,
    Records,
)

N_HALVINGS = 40
SAME = 1e-9
"""Relative variance of what a line is drawn over, below which there is but one point: the line goes through 0."""


class BalanceInputs(NamedTuple):
    """Part of the state that the equations need."""

    scheduler: Records
    lines: Numbers
    bins: Numbers
    pools: Records
    decode_pools: Records


@compiled_apart
def line_of(lines: Numbers, line: int, is_proportional: bool) -> tuple[float, float]:
    """Least squares through what was seen: value at 0 and slope; 0 where nothing was."""
    n, x, xx, y, xy = lines[line, 0], lines[line, 1], lines[line, 2], lines[line, 3], lines[line, 4]
    if x <= 0:
        return 0.0, 0.0
    spread = n * xx - x * x
    if is_proportional or spread <= SAME * x * x:
        return 0.0, y / x
    slope = max((n * xy - x * y) / spread, 0.0)
    return (y - slope * x) / n, slope


@compiled_apart
def loads(seen: BalanceInputs, place: float) -> tuple[float, float, float]:
    """Work that the observed requests ask for with a threshold at that place among the bins.

    Returns:
        Instance-seconds of prefill of the short prompts and of the long ones [s], and bytes of these on the wire [B].
    """
    is_chunked = seen.pools[0].is_chunked == 1
    a_short, b_short = line_of(seen.lines, SHORT_LINE, is_chunked)
    a_long, b_long = line_of(seen.lines, LONG_LINE, is_chunked)
    a_wire, b_wire = line_of(seen.lines, WIRE_LINE, False)
    short, long, wire = 0.0, 0.0, 0.0
    for k in range(N_BINS):
        n, x = seen.bins[k, 0], seen.bins[k, 1]
        part = min(max(place - k, 0.0), 1.0)  # of the bin that is short
        short += part * max(a_short * n + b_short * x, 0.0)
        long += (1.0 - part) * max(a_long * n + b_long * x, 0.0)
        wire += (1.0 - part) * max(a_wire * n + b_wire * x, 0.0)
    return short, long, wire


@compiled_apart
def over(work: float, capacity: float) -> float:
    """Time that work takes; none where there is none, for ever where nobody does it."""
    if work <= 0:
        return 0.0
    return work / capacity if capacity > 0 else inf


@compiled_apart
def balanced_place(seen: BalanceInputs, n_short: int, n_long: int, bytes_per_s: float) -> float:
    """Place of the threshold at which short and long prompts take equally long."""
    low, high = 1.0, N_BINS - 1.0
    for _ in range(N_HALVINGS):
        place = (low + high) / 2.0
        short, long, wire = loads(seen, place)
        if over(short, n_short) < max(over(long, n_long), over(wire, bytes_per_s)):
            low = place
        else:
            high = place
    return (low + high) / 2.0


@compiled_apart
def place_of(factor: float) -> float:
    """Place among the bins of a factor on the planned thresholds: `bin_of`, not rounded."""
    from_below = log2(factor) * BINS_PER_OCTAVE + N_BINS / 2
    return min(max(from_below, 1.0), N_BINS - 1.0)


@compiled_apart
def factor_of(place: float) -> float:
    """Factor on the planned thresholds at a place among the bins."""
    return float(2.0 ** ((place - N_BINS / 2) / BINS_PER_OCTAVE))


@compiled_apart
def prefill_rate(seen: BalanceInputs, place: float, n_short: int, n_long: int, bytes_per_s: float) -> float:
    """Rate at which the first prefill pool or the link saturates with a threshold at that place [1/s]."""
    short, long, wire = loads(seen, place)
    most_s = max(over(short, n_short), over(long, n_long), over(wire, bytes_per_s))
    return float(seen.scheduler[0].seen / most_s) if most_s > 0 else inf


@compiled_apart
def decode_rate(seen: BalanceInputs, n_decode: int) -> float:
    """Rate at which so many decode instances, their batches as full as they may be, have no place left [1/s]."""
    control = seen.scheduler[0]
    pool = seen.decode_pools[control.decode_pool]
    if control.done_tokens <= 0:
        return inf
    batch = float(pool.batch_limit)
    if control.left_bytes > 0:
        batch = max(min(batch, pool.memory_bytes * control.n_left / control.left_bytes), 1.0)
    constant, per_sequence = line_of(seen.lines, STEP_LINE, False)
    request_s = (constant + per_sequence * batch) * control.done_tokens / control.n_done
    return float(n_decode * batch / request_s)
