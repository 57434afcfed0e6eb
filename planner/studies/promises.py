"""A promise beside a run: who keeps it, and by how much it is tightened where nobody does."""

from collections.abc import Callable
from typing import Literal

from planner.notes import note
from planner.results import Interval, Promise
from planner.scenario import Scenario

MOST_ROUNDS = 8
CLOSE = 0.97
"""Of two promises on TTFT this close to one another the stricter will do."""
SAFETY = 0.995
"""What a promise is tightened by beyond what the run showed."""
MODELLED = {"dispatch": "shared-queue", "prefill_batching": "one-at-a-time"}
"""The disciplines that waits are known for; where others are asked for, the search supposes these."""
SUPPOSED = note(
    "supposed-discipline",
    "the search supposed dispatch = shared-queue with prefill_batching = one-at-a-time, which waits are known "
    "for; the plan was run with the disciplines as stated, the other fleets were not run",
)
Say = Callable[[str], None]


def supposed(scenario: Scenario) -> dict[str, str]:
    """The disciplines that a search for a promise on TTFT supposes, where the scenario states others."""
    return {key: value for key, value in MODELLED.items() if getattr(scenario, key) != value}


def promise(
    metric: str, limit: float, executed: float, sure: Interval | None, sign: Literal[1, -1], allowed: float
) -> Promise:
    """A promise of at least the limit, or with sign -1 of at most, which the worse end of the interval must keep.

    >>> promise("ttft_p90_s", 4.0, 3.9, Interval(low=3.7, high=4.1), -1, 0.0).holds
    False
    """
    low, high = (executed, executed) if sure is None else (sure.low, sure.high)
    worse = low if sign > 0 else high
    return Promise(
        metric=metric,
        limit=limit,
        executed=executed,
        ci_low=None if sure is None else low,
        ci_high=None if sure is None else high,
        allowed=allowed,
        holds=sign * worse >= sign * limit - allowed * limit,
    )
