"""Observations of the scheduler: counts and sums of what has happened, never of what will."""

from math import log2

from planner.executor.compiled import compiled_apart
from planner.executor.kernel.records import BINS_PER_OCTAVE, N_BINS, Numbers, Records


@compiled_apart
def record_arrival(scheduler: Records, bins: Numbers, uncached_tokens: float, base_tokens: float) -> None:
    """A request of a class with that planned threshold has arrived."""
    k = bin_of(uncached_tokens, base_tokens)
    bins[k, 0] += 1.0
    bins[k, 1] += uncached_tokens
    scheduler[0].seen += 1.0


@compiled_apart
def bin_of(tokens: float, base_tokens: float) -> int:
    """Bin of a length; where no threshold moves the first if all are short, the last if all are long."""
    if base_tokens <= 0:
        return N_BINS - 1
    ratio = tokens / base_tokens
    if ratio <= 0:
        return 0
    place = log2(ratio) * BINS_PER_OCTAVE + N_BINS / 2
    return int(min(max(place, 0.0), N_BINS - 1.0))


@compiled_apart
def record_line(lines: Numbers, line: int, n: float, x: float, y: float) -> None:
    """n alike, of x together, took y together [a line's own units]; a part of one, n = 0, adds to the sums alone."""
    lines[line, 0] += n
    lines[line, 1] += x
    lines[line, 3] += y
    if n > 0:
        lines[line, 2] += x * x / n
        lines[line, 4] += x * y / n


@compiled_apart
def record_finish(scheduler: Records, n_tokens: float) -> None:
    """A request has all its tokens, so many of them decoded."""
    scheduler[0].n_done += 1.0
    scheduler[0].done_tokens += n_tokens


@compiled_apart
def record_leave(scheduler: Records, held_bytes: float) -> None:
    """A request has left a decode instance that held so much for it [B]."""
    scheduler[0].n_left += 1.0
    scheduler[0].left_bytes += held_bytes
