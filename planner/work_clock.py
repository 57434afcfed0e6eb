"""A clock of work: what a search has computed so far, in seconds that its steps take on one usual core.

Steps are counted, not timed, so that a limit of time ends the same search at the same step on a fast, slow or busy
machine, and a question has one answer. The prices of steps were measured once; they need not be exact. Where a machine
takes several times as long as counted, the clock on the wall ends the search after all, see `wall_limit`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from time import monotonic

SLOWEST = 4.0
"""Multiple of a limit after which the clock on the wall ends what runs."""
LEAST_WALL_S = 20.0
"""A limit may take this much longer on the wall in any case: short ones are mostly starting up [s]."""
LOOK_S = 5.0
"""What a look at the clock costs from then on: every limit is soon reached [s]."""
TICKS_PER_S = 2**30
"""Work adds up in whole ticks: a sum in them does not depend on what was counted before."""


@dataclass
class _Clock:
    """State of the clock, one per process."""

    ticks: int = 0
    wall_deadline: float = inf
    n_cut_offs: int = 0


_CLOCK = _Clock()


def work_s() -> float:
    """Work so far, from any zero: what `monotonic` is to time [s].

    >>> begun_s = work_s()
    >>> spend(2.0)
    >>> work_s() - begun_s
    2.0
    """
    if is_past_wall():
        spend(LOOK_S)
    return _CLOCK.ticks / TICKS_PER_S


def spend(seconds: float) -> None:
    """Count a step.

    Args:
        seconds: what it takes on one usual core, by a price that depends on its size alone [s].
    """
    _CLOCK.ticks += round(seconds * TICKS_PER_S)


@contextmanager
def wall_limit(limit_s: float) -> Iterator[None]:
    """Let the clock on the wall end what is done meanwhile, several times later than its limit.

    Args:
        limit_s: limit of what is done, in work [s]. One within another ends with the outer one at the latest.
    """
    outer = _CLOCK.wall_deadline
    _CLOCK.wall_deadline = min(outer, monotonic() + max(SLOWEST * limit_s, limit_s + LEAST_WALL_S))
    try:
        yield
    finally:
        _CLOCK.wall_deadline = outer


def is_past_wall() -> bool:
    """True if the clock on the wall is past its limit: then what is done is cut off."""
    is_past = monotonic() > _CLOCK.wall_deadline
    _CLOCK.n_cut_offs += is_past
    return is_past


def n_cut_offs() -> int:
    """Looks at the clock past the wall so far: where some were added, another run of the same may find more [count]."""
    return _CLOCK.n_cut_offs
