"""Seconds of an instance's passes as the executor's engine reads them: the roofline at knots."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.executor.engine.run import PassTimes
from planner.roofline import PromptTokens, ServedModel, mixed_pass_time

FloatArray = NDArray[np.float64]
FEWEST_TOKENS = 16.0
STEPS = np.array([1.0, 1.5])
"""Knots within an octave of tokens and of sequences: between them products cost in proportion, to a per cent."""


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


def pass_times(served: ServedModel, reach: Reach) -> PassTimes:
    """The roofline's seconds at knots up to the largest pass.

    Args:
        served: a model on an instance, under a stack.
        reach: what passes may hold.

    Returns:
        Seconds; decode steps for every number of sequences, between knots of it in proportion.
    """
    dp = served.n_places
    spread = np.array([1.0]) if dp == 1 else np.array([1.0, float(dp)])
    tokens = np.concatenate([[1.0], octaves(FEWEST_TOKENS, reach.tokens_per_pass, STEPS)])
    most_keys = max(reach.longest_prompt, 2.0)
    keys = np.unique(np.minimum([1.0, 64.0, 256.0, 1024.0, most_keys / 4, most_keys / 2, most_keys], most_keys))
    sequences = np.concatenate([[0.0], octaves(1.0, reach.most_running, STEPS[:1])])
    contexts = np.unique([reach.shortest_prompt, reach.longest_context])
    contexts = np.unique(np.linspace(contexts[0], contexts[-1], 3)) if len(contexts) > 1 else contexts
    grid = np.meshgrid(spread, tokens, keys, sequences, contexts, indexing="ij")
    prompts = PromptTokens(grid[1].ravel(), grid[2].ravel(), grid[0].ravel())
    prompt_s = mixed_pass_time(served, prompts, grid[3].ravel(), grid[4].ravel()).total_s
    steps = decode_steps(served, octaves(1.0, reach.most_running, STEPS), contexts, reach.most_running)
    return PassTimes(spread, tokens, keys, sequences, contexts, prompt_s.reshape(grid[0].shape), steps)


def decode_steps(served: ServedModel, knots: FloatArray, contexts: FloatArray, most: int) -> FloatArray:
    """Seconds of steps of 0, 1, 2 and so on sequences, by context; the roofline at knots of the first."""
    found = served.decode_time(knots[:, None], contexts[None, :]).total_s.reshape(len(knots), len(contexts))
    each = np.arange(most + 1, dtype=float)
    return np.stack([np.interp(each, knots, column) for column in found.T], axis=1)


def octaves(low: float, high: float, steps: FloatArray) -> FloatArray:
    """Knots at some places of each octave from one value to another, both among them.

    >>> octaves(1, 7, STEPS).tolist()
    [1.0, 2.0, 3.0, 4.0, 6.0, 7.0]
    """
    n = int(np.ceil(np.log2(max(high / low, 1.0))))
    found = np.unique(np.floor(low * np.outer(2.0 ** np.arange(n + 1), steps)))
    return np.append(found[found < high], float(high))
