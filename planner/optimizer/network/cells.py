"""Cells of thresholds, and what a cell leaves of the prompts of a stream.

A cell is an interval of thresholds, with an interval of allowances for late requests. Prompts longer than its end are
long under every threshold of the cell, prompts up to its start are short under every one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.problem import Arc, Problem
from planner.optimizer.problem_parts import Part
from planner.workload.mix import RequestMix

Array = NDArray[np.float64]
PARTS: tuple[Part, ...] = ("long", "short")
N_KINDS = 192
"""Requests that stand for the lengths of a class where waits are bounded."""
N_BETWEEN = 31
"""Lengths of a continuous mix at which the ratio of two pools' times is looked at inside a cell."""


class Cell(NamedTuple):
    """An interval of thresholds, and one of allowances for long prompts: a point where the ends are equal."""

    low_tokens: float
    high_tokens: float
    low_share: float = 0.0
    high_share: float = 1.0


class Use(NamedTuple):
    """A part of a stream that takes an arc, under the thresholds and allowances of a cell."""

    stream: int
    arc: Arc
    part: Part
    cell: Cell


Cells = dict[tuple[int, int], list[Cell]]
"""Cells of every group in every period."""


def point_cell(threshold_tokens: float, share: float = 0.5) -> Cell:
    """The cell of one threshold and one allowance.

    Args:
        threshold_tokens: longest uncached length of a short prompt [tokens].
        share: part of the late requests that long prompts may have [fraction].
    """
    return Cell(threshold_tokens, threshold_tokens, share, share)


def end_of(part: Part, cell: Cell) -> float:
    """The threshold of a cell that leaves least of a part [tokens]."""
    return cell.high_tokens if part == "long" else cell.low_tokens


def lengths_between(mix: RequestMix, cell: Cell) -> tuple[Array, Array]:
    """Lengths of the requests between the ends of a cell: all of a discrete mix, else close ones.

    Returns:
        Total and cached tokens, shape (n,) each [tokens].
    """
    if mix.is_discrete:
        total, cached, _ = mix.atoms(N_KINDS)
        inside = (total - cached > cell.low_tokens) & (total - cached <= cell.high_tokens)
        return total[inside], cached[inside]
    low, high = np.clip([cell.low_tokens, cell.high_tokens], *mix.support)
    lengths = np.concatenate([[low], mix.split_points(low, high, N_BETWEEN), [high]])
    return lengths, np.zeros_like(lengths)


def mix_of(problem: Problem, group: Sequence[int]) -> RequestMix:
    """Requests of the first class of a group, on whose lengths its thresholds are laid."""
    return problem.classes[problem.streams[group[0]].request_class].mix
