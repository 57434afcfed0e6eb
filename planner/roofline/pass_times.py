"""Seconds of passes that hold prompts and sequences as a table: the roofline at knots, linear between them."""

from dataclasses import dataclass
from math import ceil, floor, log

import numpy as np
from numpy.typing import NDArray

from planner.roofline.mixed_pass import PromptTokens, mixed_pass_time
from planner.roofline.served_model import InstanceModel

FloatArray = NDArray[np.float64]
FEWEST_TOKENS = 16
"""Prompt tokens of a pass below which it takes as long as with one."""


@dataclass(frozen=True, eq=False)
class PassTimes:
    """Seconds of passes by what is in them, at knots; linear between them and beyond the last."""

    spread: FloatArray
    """Prompt tokens of all replicas over those of the fullest: 1 with one replica."""
    tokens: FloatArray
    """Prompt tokens of the fullest replica."""
    keys: FloatArray
    """Keys that each attends to, on average: (n + 1) / 2 for n tokens at the head of a prompt."""
    sequences: FloatArray
    """Sequences that decode, on all replicas together; the first is 0."""
    contexts: FloatArray
    """Their mean context, on the replica with most of it [tokens]."""
    prompt_s: FloatArray
    """Passes with prompts, by all five [s]."""
    decode_s: FloatArray
    """Passes without, by number of sequences, 0, 1, 2 and so on, and context [s]."""


@dataclass(frozen=True)
class Reach:
    """The largest passes that may come."""

    tokens_per_pass: int
    """Prompt tokens on a replica."""
    longest_prompt: int
    longest_context: int
    """Of a sequence that decodes [tokens]."""
    shortest_prompt: int
    most_running: int
    """Sequences on all replicas."""


def pass_times(served: InstanceModel, reach: Reach) -> PassTimes:
    """The roofline's seconds at knots up to the largest pass, which stand where they stand for any other.

    Args:
        served: a model on an instance, under a stack.
        reach: what passes may hold.

    Returns:
        Seconds; decode steps for every number of sequences, between knots of it in proportion.
    """
    dp = served.n_places
    spread = np.array([1.0]) if dp == 1 else np.array([1.0, float(dp)])
    tokens = np.concatenate([[1.0], knots(FEWEST_TOKENS, reach.tokens_per_pass, 2, (1.0, 1.5))])
    keys = np.concatenate([[1.0], (knots(64, reach.longest_prompt * 2, 4) + 1) / 2])
    sequences = np.concatenate([[0.0], knots(1, reach.most_running, 2)])
    contexts = knots(4 ** floor(log(max(reach.shortest_prompt, 1), 4)), reach.longest_context, 4)
    grid = np.meshgrid(spread, tokens, keys, sequences, contexts, indexing="ij")
    prompts = PromptTokens(grid[1].ravel(), grid[2].ravel(), grid[0].ravel())
    prompt_s = mixed_pass_time(served, prompts, grid[3].ravel(), grid[4].ravel()).total_s
    steps = decode_steps(served, knots(1, reach.most_running, 2, (1.0, 1.5)), contexts, reach.most_running)
    return PassTimes(spread, tokens, keys, sequences, contexts, prompt_s.reshape(grid[0].shape), steps)


def decode_steps(served: InstanceModel, batches: FloatArray, contexts: FloatArray, most: int) -> FloatArray:
    """Seconds of steps of 0, 1, 2 and so on sequences, by context; the roofline at knots of the first."""
    found = served.decode_time(batches[:, None], contexts[None, :]).total_s.reshape(len(batches), len(contexts))
    each = np.arange(most + 1, dtype=float)
    return np.stack([np.interp(each, batches, column) for column in found.T], axis=1)


def knots(low: int, reach: int, ratio: int, within: tuple[float, ...] = (1.0,)) -> FloatArray:
    """Knots at fixed places, up to the first that nothing goes beyond: tables of another reach have the same.

    >>> knots(1, 5, 2, (1.0, 1.5)).tolist(), knots(1, 5, 4).tolist()
    ([1.0, 2.0, 3.0, 4.0, 6.0], [1.0, 4.0, 16.0])
    """
    n = max(ceil(log(reach / low, ratio)), 0) + 1 if reach > low else 1
    found = np.unique(np.floor(low * np.outer(float(ratio) ** np.arange(n + 1), within)))
    return found[: int(np.searchsorted(found, reach)) + 1]
