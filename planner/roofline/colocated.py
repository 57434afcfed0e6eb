"""Seconds of the passes of an instance that prefills and decodes, as a function of what is in them on a replica."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from planner.roofline.kv_memory import kv_bytes_per_rank
from planner.roofline.mixed_pass import PromptTokens, mixed_pass_time
from planner.roofline.operator import FloatArray
from planner.roofline.served_model import InstanceModel

FEWEST_TOKENS = 16.0
NEGLIGIBLE = 1e-9
N_TOKENS, N_BATCHES = 18, 9
"""Knots of passes with prompts, up to the largest."""


@dataclass(frozen=True)
class MeanRequest:
    """The mean request, as far as passes depend on it."""

    prompt_tokens: float
    """Mean prompt [tokens]."""
    keys: float
    """Keys that a prompt token attends to, on average over tokens: E[n (n + 1)] / (2 E[n]) [tokens]."""
    context_tokens: float
    """Context of a token that is generated, on average over these [tokens]."""
    context_scv: float = 0.0
    """Squared coefficient of variation of it [fraction]."""
    lengths: tuple[FloatArray, FloatArray] | None = None
    """Lengths of prompts [tokens] and their shares; None: all like the mean."""
    prompts_per_token: float = 0.0
    """Prompts that come for every token that a sequence decodes: one over the tokens of an answer [1/tokens]."""

    def chunks(self, chunk_tokens: float) -> float:
        """Passes that a prompt takes by itself on a replica, on average."""
        tokens, weights = self.lengths or (np.array([self.prompt_tokens]), np.ones(1))
        return max(float(np.ceil(tokens / chunk_tokens) @ weights), NEGLIGIBLE)


@dataclass(frozen=True, eq=False)
class MixedPasses:
    """Seconds of passes by prompt tokens and decoding sequences of a replica; made by `mixed_passes`."""

    tokens: FloatArray
    """Knots of prompt tokens, above 0."""
    batches: FloatArray
    """Knots of sequences, from 0."""
    prompt_s: FloatArray
    """Passes with prompts, by both [s]."""
    decode_s: FloatArray
    """Steps without, by number of sequences from 0 to the most [s]."""

    def __call__(self, tokens: ArrayLike, batch: ArrayLike) -> FloatArray:
        """Seconds of passes [s], linear between knots; without prompt tokens a decode step.

        Args:
            tokens: prompt tokens on the replica [tokens], any shape.
            batch: decoding sequences on it [sequences], broadcast.
        """
        p, b = np.broadcast_arrays(np.asarray(tokens, float), np.asarray(batch, float))
        decode_s = np.interp(b, np.arange(len(self.decode_s)), self.decode_s)
        i, u = _place(self.tokens, p)
        k, v = _place(self.batches, b)
        table = self.prompt_s
        low = (1 - v) * table[i, k] + v * table[i, k + 1]
        high = (1 - v) * table[i + 1, k] + v * table[i + 1, k + 1]
        return np.asarray(np.where(p > 0, (1 - u) * low + u * high, decode_s))


def _place(knots: FloatArray, x: FloatArray) -> tuple[np.ndarray, FloatArray]:
    """The knot before each x, and how far it is to the next; 0 before the first, as at the last beyond it."""
    low = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    return low, np.clip((x - knots[low]) / (knots[low + 1] - knots[low]), 0.0, 1.0)


def mixed_passes(served: InstanceModel, request: MeanRequest, most_running: int) -> MixedPasses:
    """Seconds of the passes of an instance, by what is in them on one of its attention replicas.

    Equation:
        the roofline's at knots, see `mixed_pass_time` and `ServedModel.decode_time`; replicas step together, at the
        pace of the fullest one. Of the R - 1 others each has a chunk with the chance f = 1 - exp(-b x c) of b sequences
        that bring x prompts a token, of c chunks each: with (1 - f)^(R - 1) none has, and a pass is that of this one
        alone; else it is that of the larger of its own tokens and a chunk, with the tokens of all

    Args:
        served: the model on an instance; a pass takes its `chunk_tokens` on each replica.
        request: what is in passes.
        most_running: most sequences on a replica.

    Returns:
        Seconds; steps without prompts at every number of sequences.

    Raises:
        InputError: a shape or a figure is unknown.

    Valid:
        Contexts and depths of prompts at their means; chunks of replicas independent of one another.

    Source:
        Chunked prefill beside decodes: Sarathi-Serve (2024); replicas apart as a mean field.

    >>> from planner.profiles import hardware_profile, model_profile
    >>> from planner.roofline import Chip, Factors, Layout
    >>> served = InstanceModel(model_profile("llama-3.1-8b"), Chip(hardware_profile("h200-sxm")), Layout(), Factors())
    >>> seconds = mixed_passes(served, MeanRequest(2000.0, 1000.5, 2150.0), 64)
    >>> bool(seconds(0, 64) < seconds(2000, 0) < seconds(2000, 64) < seconds(2000, 0) + seconds(0, 64))
    True
    """
    budget, n = float(served.chunk_tokens), served.n_places
    tokens = np.unique(np.concatenate([[1.0], np.geomspace(FEWEST_TOKENS, max(budget, 32.0), N_TOKENS)]))
    batches = np.unique(np.round(np.concatenate([[0.0], np.geomspace(1.0, max(most_running, 1), N_BATCHES)])))
    p, b = (grid.ravel() for grid in np.meshgrid(tokens, batches, indexing="ij"))
    each = np.arange(1.0, max(most_running, 1) + 1)
    steps_s = served.decode_time(n * each, _contexts(served, request, n * each)).total_s

    def seconds(own: FloatArray, batch: FloatArray, spread: FloatArray | float = 1.0) -> FloatArray:
        prompts = PromptTokens(own, request.keys, spread)
        return mixed_pass_time(served, prompts, n * batch, _contexts(served, request, n * batch)).total_s

    prompt_s = seconds(p, b)
    if n > 1 and request.prompts_per_token > 0:
        one = _Others.of(request, budget, n, b)
        largest = np.maximum(p, one.chunk)
        beside_s = seconds(largest, b, (p + one.n_busy * one.chunk) / largest)
        prompt_s = prompt_s + one.chance * (beside_s - prompt_s)
        one = _Others.of(request, budget, n, batches)
        beside_s = np.interp(each, batches, seconds(one.chunk, batches, one.n_busy))
        steps_s = steps_s + np.interp(each, batches, one.chance) * np.maximum(beside_s - steps_s, 0.0)
    decode_s = np.concatenate([steps_s[:1], steps_s])
    return MixedPasses(tokens, batches, prompt_s.reshape(len(tokens), len(batches)), decode_s)


class _Others(NamedTuple):
    """Chunks of prompts on the other replicas of an instance, by the sequences of each."""

    chance: FloatArray
    """That any of them has one [fraction]."""
    n_busy: FloatArray
    """How many have one, where any has."""
    chunk: FloatArray
    """Tokens of it [tokens]."""

    @classmethod
    def of(cls, request: MeanRequest, budget: float, n_replicas: int, batch: FloatArray) -> "_Others":
        """Of replicas with so many sequences each."""
        prompts, chunks = batch * request.prompts_per_token, request.chunks(budget)
        busy = np.maximum(-np.expm1(-prompts * chunks), NEGLIGIBLE)
        chance = 1.0 - (1.0 - busy) ** (n_replicas - 1)
        tokens = np.maximum(request.prompt_tokens / chunks, prompts * request.prompt_tokens / busy)
        return cls(chance, (n_replicas - 1) * busy / chance, np.clip(tokens, 1.0, budget))


def _contexts(served: InstanceModel, request: MeanRequest, batch: FloatArray) -> FloatArray:
    """Mean context of sequences on the fullest replica, by how many all have [tokens]."""
    return request.context_tokens * fullest_context(batch, served.n_places, request.context_scv)


def linear_memory(served: InstanceModel, low_tokens: float, high_tokens: float) -> tuple[float, float]:
    """Room of a replica, and what a sequence takes of it whatever its length, both in tokens.

    Equation:
        bytes of a sequence = fixed + slope tokens, through those of two lengths: room = cache bytes of a rank / slope,
        fixed / slope

    Args:
        served: the model on an instance.
        low_tokens: a short length [tokens].
        high_tokens: a long one [tokens].

    Returns:
        Both [tokens].

    Source:
        As `kv_bytes_per_rank`.

    >>> from planner.profiles import hardware_profile, model_profile
    >>> from planner.roofline import Chip, Factors, Layout
    >>> served = InstanceModel(model_profile("llama-3.1-8b"), Chip(hardware_profile("h200-sxm")), Layout(), Factors())
    >>> room, fixed = linear_memory(served, 1000, 9000)
    >>> bool(room * 131072 <= served.memory.cache_bytes * (1 + 1e-12)), fixed  # 128 KiB per token
    (True, 0.0)
    """
    ends = np.array([low_tokens, max(high_tokens, low_tokens + 1.0)])
    sizes = {"tp_size": served.layout.tp_size, "pp_size": served.layout.pp_size, "block_tokens": 1}
    low, high = kv_bytes_per_rank(served.model, ends, served.kv_precision, **sizes).tolist()
    slope = max((high - low) / float(ends[1] - ends[0]), high * 1e-9)
    return served.memory.cache_bytes / slope, max(high - slope * float(ends[1]), 0.0) / slope


N_DEVIATES = 4001
"""Points of the integral of the greatest of some deviates."""
FARTHEST = 8.0


def mean_greatest(n: int) -> float:
    """Mean of the greatest of n independent standard normal deviates.

    Equation: the integral of x d(Phi(x)^n)

    >>> [round(mean_greatest(n), 3) for n in (1, 2, 8)]
    [0.0, 0.564, 1.424]
    """
    if n == 1:
        return 0.0
    x = np.linspace(-FARTHEST, FARTHEST, N_DEVIATES)
    density = np.exp(-(x**2) / 2)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    power = (below / below[-1]) ** n
    return float(((x[1:] + x[:-1]) / 2) @ np.diff(power))


def fullest_context(batch: ArrayLike, n_replicas: int, context_scv: float) -> FloatArray:
    """Context of the fullest replica over that of a mean one.

    Equation: of b sequences each replica has m = max(b / R, 1), dealt out to the one with the fewest: the fullest has
        (1 - 1 / R) / 2 more, as numbers are whole; contexts add up to m c + g_R sqrt(m v) c there, g_R the mean
        greatest of R normal deviates: 1 + ((1 - 1 / R) / 2 + g_R sqrt(m v)) / m

    Args:
        batch: sequences b of all replicas [sequences], any shape.
        n_replicas: replicas R.
        context_scv: squared coefficient of variation v of contexts [fraction].

    Returns:
        Factor, the shape of `batch`; 1 with one replica.

    Valid: contexts independent of one another.

    Source: order statistics: David and Nagaraja (2003).

    >>> fullest_context([8.0, 800.0], 8, 0.25).round(3).tolist()
    [2.149, 1.076]
    """
    each = np.maximum(np.asarray(batch, float) / n_replicas, 1.0)
    uneven = (1.0 - 1.0 / n_replicas) / 2
    return np.asarray(1.0 + (uneven + mean_greatest(n_replicas) * np.sqrt(each * context_scv)) / each)
