"""Column indices of a network's program: one named tuple per set of indices.

Every field is an index: of a stream, pool or group into the tuples of the problem, of a situation into those of the
program, of a cell into the cells of its group and period.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from planner.optimizer.problem import Arc
from planner.optimizer.problem_parts import Part

Share = Literal["long", "short", "between"]
"""Prompts of a stream in a cell: long under every threshold of the cell, short under every one, or between its ends."""


class PoolSizing(NamedTuple):
    """Sizes of a pool in one sizing of the network."""

    pool: int
    sizing: int
    """0 where sizes hold for all periods; the period where accelerators change roles, or are rented by it."""


class PoolInSituation(NamedTuple):
    """A pool in a situation."""

    pool: int
    situation: int


class StreamInSituation(NamedTuple):
    """A stream in a situation."""

    stream: int
    situation: int


class CellChoice(NamedTuple):
    """A cell of thresholds that a group may choose in a situation."""

    group: int
    situation: int
    cell: int


class StreamInCell(NamedTuple):
    """A stream in a situation under the thresholds of a cell."""

    stream: int
    situation: int
    cell: int


class PrefillRate(NamedTuple):
    """A part of a stream that takes an arc in a situation under the thresholds of a cell."""

    stream: int
    situation: int
    cell: int
    part: Part
    arc: Arc


class DecodeRate(NamedTuple):
    """A stream in a situation that a pool decodes."""

    stream: int
    situation: int
    pool: int


class StreamArc(NamedTuple):
    """A stream and an arc that some of it takes."""

    stream: int
    arc: Arc


class PeriodArc(NamedTuple):
    """A stream and an arc that it may take in a period."""

    stream: int
    period: int
    arc: Arc


class PrefillUse(NamedTuple):
    """A column of requests into a prefill pool, with what a unit of it asks for."""

    rate: PrefillRate
    column: int
    seconds: float
    """Instance-seconds in the pool per request [s]."""
    sent_bytes: float
    """Bytes on the link of the arc per request [B]."""


class PoolUser(NamedTuple):
    """A column of requests into a known pool in a known situation."""

    stream: int
    cell: int
    part: Part
    arc: Arc
    column: int
    seconds: float
    """Instance-seconds in the pool per request [s]."""
