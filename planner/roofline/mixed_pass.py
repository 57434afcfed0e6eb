"""Seconds of passes that carry chunks of prompts and one token of every running sequence."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from planner.errors import InputError, InputProblem
from planner.roofline.operator import FloatArray
from planner.roofline.pass_time import PassTime, pass_time
from planner.roofline.sequences import Sequences
from planner.roofline.served_model import InstanceModel


@dataclass(frozen=True, eq=False)
class PromptTokens:
    """Prompt tokens of passes; arrays that broadcast together."""

    tokens: ArrayLike
    """On the replica that has most of them, above 0 [tokens]."""
    keys: ArrayLike
    """Keys that each attends to, on average: (n + 1) / 2 for whole prompts of n tokens [tokens]."""
    spread: ArrayLike = 1.0
    """Tokens on all replicas over those of this one: 1 where it alone prefills."""

    def sequences(self) -> Sequences:
        """The same as prompts alike: one with a cached prefix where keys are many, else several without.

        Equation:
            keys a of a chunk of p tokens after c cached ones: a = c + (p + 1) / 2; where a is less than that of one
            prompt, p / n prompts of n = 2 a - 1 tokens each

        >>> PromptTokens(8192, 512.5).sequences().n_sequences.tolist()
        8.0
        """
        p, a, spread = np.broadcast_arrays(*(np.asarray(x, float) for x in (self.tokens, self.keys, self.spread)))
        each = np.clip(2.0 * a - 1.0, 1.0, p)
        cached = np.maximum(a - (p + 1.0) / 2.0, 0.0)
        return Sequences("prefill", spread * p / each, each, cached, p / each)


def mixed_pass_time(
    served: InstanceModel, prompts: PromptTokens, batch: ArrayLike, context_tokens: ArrayLike
) -> PassTime:
    """Seconds of one pass with prompts in it.

    Equation:
        the pass over chunks and decoding sequences together: weights are read once, products have the rows of both,
        attention is that of each; see `rank_work` and `pass_time`. The host launches every kernel

    Args:
        served: the model on an instance.
        prompts: what the pass carries of prompts.
        batch: sequences that decode in it, over all replicas; 0: none [sequences], broadcast.
        context_tokens: their mean context [tokens], broadcast.

    Returns:
        Seconds by what binds; the common shape, raveled.

    Raises:
        InputError: tokens are drafted, which is modelled in steps without prompts alone.

    Valid:
        Under pp stages the pass goes through all of them with the part of the batch that one holds.

    Source:
        Chunked prefill beside decodes: Sarathi-Serve (2024).

    >>> from planner.profiles import hardware_profile, model_profile
    >>> from planner.roofline import Chip, Factors, Layout
    >>> served = InstanceModel(model_profile("llama-3.1-8b"), Chip(hardware_profile("h200-sxm")), Layout(), Factors())
    >>> chunk = PromptTokens(2048, 1024.5)
    >>> alone, beside = mixed_pass_time(served, chunk, [0, 64], 4096).total_s
    >>> bool(alone < beside < alone + served.decode_time(64, 4096).total_s[0])
    True
    """
    if served.speculation is not None:
        what = "is not modelled where passes hold prompts and decoding sequences"
        allowed = "prefill and decode on instances of their own, or no draft tokens"
        raise InputError(InputProblem("speculation", "draft_tokens", what, allowed))
    chunks = prompts.sequences()
    shapes = (chunks.n_sequences, np.asarray(batch, float), np.asarray(context_tokens, float))
    shape = np.broadcast_shapes(*(np.shape(a) for a in shapes))
    flat = [np.broadcast_to(a, shape).ravel() for a in (chunks.new_tokens, chunks.cached_tokens, *shapes)]
    new, cached, count, decoding, context = flat
    least = np.broadcast_to(chunks.least_on_replica, shape).ravel()
    parts = [np.zeros(count.size) for _ in PARTS]
    for is_mixed in (False, True):
        chosen = (decoding > 0) == is_mixed
        if chosen.any():
            chunk = Sequences("prefill", count[chosen], new[chosen], cached[chosen], least[chosen])
            found = _pass(served, chunk, decoding[chosen], context[chosen], is_mixed)
            for part, name in zip(parts, PARTS, strict=True):
                part[chosen] = getattr(found, name)
    return PassTime(*parts)


PARTS = ("compute_s", "memory_s", "network_s", "overhead_s")


def _pass(served: InstanceModel, chunk: Sequences, batch: FloatArray, context: FloatArray, is_mixed: bool) -> PassTime:
    """Passes all with decoding sequences, or all without."""
    part = np.maximum(batch / served.layout.pp_size, np.minimum(batch, 1.0))
    on_replica = np.maximum(part / served.n_places, np.minimum(part, 1.0))
    work = served.work([*_sequences(chunk, part, context, is_mixed)])
    n = chunk.least_on_replica + on_replica
    return pass_time(work, served.factors, n, eager=True, overlap=served.traffic.overlap_efficiency)


def _sequences(chunk: Sequences, part: FloatArray, context: FloatArray, is_mixed: bool) -> Iterator[Sequences]:
    yield chunk
    if is_mixed:
        yield Sequences.decode(part, context)
