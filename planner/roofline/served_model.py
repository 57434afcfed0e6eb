"""A model on one instance: prefill and decode seconds by length and batch, from shapes, rates and a stack's factors."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError, Problem
from planner.profiles import ModelProfile
from planner.roofline.chip import Chip
from planner.roofline.expert_traffic import EVEN_TRAFFIC, ExpertTraffic
from planner.roofline.factors import Factors
from planner.roofline.formats import IN_BF16, ProductFormats
from planner.roofline.layout import Layout
from planner.roofline.memory_fit import RUNTIME_BYTES, MemoryFit, largest_batch, longest_request, memory_fit
from planner.roofline.operator import FloatArray
from planner.roofline.pass_time import PassTime, pass_time
from planner.roofline.rank_work import RankWork, rank_work
from planner.roofline.sequences import Sequences
from planner.roofline.stages import slowest_stage_fraction


@dataclass(frozen=True, eq=False)
class PrefillPasses:
    """Passes that prefill requests by chunks: first, middle and last ones; flat arrays of one length."""

    sequences: Sequences
    """One chunk each, or one of every prompt that goes along."""
    request: NDArray[np.intp]
    """Request that each pass belongs to."""
    times: FloatArray
    """How often the pass happens; middle chunks are counted together, at their mean of cached tokens."""

    @property
    def is_first(self) -> FloatArray:
        """1 for the first chunk of each request, else 0."""
        first = np.zeros_like(self.times)
        first[np.unique(self.request, return_index=True)[1]] = 1.0
        return first


def prefill_passes(
    new_tokens: FloatArray, cached_tokens: FloatArray, chunk_tokens: int, n_prompts: ArrayLike = 1.0
) -> PrefillPasses:
    """Chunks of requests, or of several that go through their passes together.

    Args:
        new_tokens: tokens to compute of each request [tokens], flat.
        cached_tokens: tokens cached already of each [tokens], flat.
        chunk_tokens: most tokens of a prompt in a pass.
        n_prompts: prompts of that kind in each pass, one per attention replica; a number, or one per request.

    Returns:
        Up to three kinds of pass per request.

    >>> passes = prefill_passes(np.array([100.0, 20000.0]), np.zeros(2), 8192)
    >>> passes.request.tolist(), passes.sequences.new_tokens.tolist(), passes.times.tolist()
    ([0, 1, 1, 1], [100.0, 8192.0, 8192.0, 3616.0], [1.0, 1.0, 1.0, 1.0])
    """
    new, cached, chunk = new_tokens, cached_tokens, float(chunk_tokens)
    n_before_last = np.ceil(new / chunk) - 1
    n_middle = np.maximum(n_before_last - 1, 0.0)
    several = n_before_last > 0
    tokens = np.stack(
        [np.minimum(new, chunk), np.full_like(new, chunk), np.where(several, new - n_before_last * chunk, 1.0)]
    )
    before = np.stack(
        [cached, cached + chunk * (1 + np.maximum(n_middle - 1, 0.0) / 2), cached + n_before_last * chunk]
    )
    times = np.stack([np.ones_like(new), n_middle, several.astype(float)])
    # Request by request, in the order in which they happen.
    kept = times.T.ravel() > 0
    request = np.repeat(np.arange(new.size), 3)[kept]
    together = np.broadcast_to(np.asarray(n_prompts, float), new.shape)[request]
    sequences = Sequences.prefill(tokens.T.ravel()[kept], before.T.ravel()[kept], together)
    return PrefillPasses(sequences, request, times.T.ravel()[kept])


@dataclass(frozen=True, eq=False)
class ServedModel:
    """One model on one instance under one software stack."""

    model: ModelProfile
    chip: Chip
    layout: Layout
    factors: Factors
    precision: str | None = None
    """Number format of weights and products; None: the checkpoint's own."""
    kv_precision: str = "bf16"
    """Number format of the attention cache."""
    chunk_tokens: int = 8192
    """Most tokens of one prefill pass on an attention replica."""
    memory_fraction: float = 0.9
    """Part of the memory that the stack uses."""
    runtime_bytes: float = RUNTIME_BYTES
    """What the serving process itself takes of one accelerator [B]."""
    traffic: ExpertTraffic = EVEN_TRAFFIC
    """How experts that are dealt out are run."""
    formats: ProductFormats = IN_BF16
    """What products run at that the weights' format does not say."""

    def __post_init__(self) -> None:
        """Raises InputError for more pipeline stages than the model has layers."""
        n, stages = self.model.architecture.n_layers, self.layout.pp_size
        if stages > n:
            raise InputError(Problem("layout", "pp", f"is {stages}", f"at most {n}, the layers of {self.model.name}"))

    @property
    def weights_precision(self) -> str:
        """Number format of the weights: the one asked for, else the checkpoint's own."""
        return self.precision or self.model.precision

    @property
    def product_precision(self) -> str:
        """Format that products run at: a wider one where the chip has no unit for the weights', or inputs are wider.

        Raises InputError.
        """
        stored_so = self.precision in (None, self.model.precision)
        return self.formats.of(self.chip, self.weights_precision, self.model if stored_so else None)

    @property
    def slowest_stage_fraction(self) -> float:
        """Share of the layers that the largest pipeline stage has."""
        return slowest_stage_fraction(self.model.architecture.n_layers, self.layout.pp_size)

    @cached_property
    def memory(self) -> MemoryFit:
        """Memory of one of its accelerators."""
        return memory_fit(
            self.model,
            self.chip.memory_bytes,
            self.layout,
            precision=self.precision,
            memory_fraction=self.memory_fraction,
            chunk_tokens=self.chunk_tokens,
            runtime_bytes=self.runtime_bytes,
            redundant_experts=self.traffic.redundant_experts,
        )

    @property
    def n_places(self) -> int:
        """Prompts that a pass takes at once: one per attention replica."""
        return self.layout.dp_size

    def prefill_time(
        self, new_tokens: ArrayLike, cached_tokens: ArrayLike = 0.0, n_prompts: ArrayLike = 1.0
    ) -> PassTime:
        """Seconds from a request's arrival to its first token, alone on the instance or beside others like it.

        Equation:
            what a request and its tokens cost before + the sum over chunks of the pass that computes them; under pp
            stages chunks follow one another at the pace of the slowest stage, a share f of the layers:
            f T + (1 - f) T_first

        Args:
            new_tokens: tokens to compute [tokens], any shape.
            cached_tokens: tokens whose cache exists already [tokens], broadcast with new_tokens.
            n_prompts: prompts that begin together, each on an attention replica of its own: 1 to `n_places`, broadcast.

        Returns:
            Seconds by what binds; the shape of the tokens, raveled.

        Valid:
            Middle chunks are timed as their mean, which is exact where time is linear in the cached tokens. Prompts
            that share passes are as long as one another.

        Source:
            Chunked prefill: Sarathi-Serve (2024).
        """
        shapes = np.broadcast_arrays(np.asarray(new_tokens, float), cached_tokens, np.asarray(n_prompts, float))
        new, cached, prompts = (np.ravel(a) for a in shapes)
        passes = prefill_passes(new, cached, self.chunk_tokens, prompts)
        each = pass_time(
            self.work([passes.sequences]), self.factors, eager=True, overlap=self.traffic.overlap_efficiency
        )
        time = each.times(passes.times).summed(passes.request, new.size)
        if self.layout.pp_size > 1:
            first = passes.is_first
            alone = each.times(first).summed(passes.request, new.size)
            time = time.times(self.slowest_stage_fraction) + alone.times(1 - self.slowest_stage_fraction)
        return time + _overhead(np.zeros_like(new) + self.factors.before_prefill_s(new + cached))

    def decode_time(self, batch: ArrayLike, context_tokens: ArrayLike) -> PassTime:
        """Seconds of one decode step.

        Equation:
            the way of a part through all stages, or as many turns of the slowest stage, a share f of the layers, as
            there are parts: T max(1, f min(B, pp))

        Args:
            batch: sequences decoded together over all replicas, any shape.
            context_tokens: keys each new token attends to [tokens], broadcast with batch.

        Returns:
            Seconds by what binds; the shape, raveled.

        Valid:
            Under pp stages the batch runs as pp parts, one per stage at any time: a token takes a part's way through
            all stages.

        Source:
            As `pass_time`; GPipe (2019) for the parts.
        """
        count, context = np.broadcast_arrays(np.asarray(batch, float), context_tokens)
        part = np.maximum(count / self.layout.pp_size, np.minimum(count, 1.0))
        sequences = Sequences.decode(np.ravel(part), np.ravel(context))
        overlap, count_each = self.traffic.overlap_efficiency, self._per_replica(sequences.n_sequences)
        alone = pass_time(self.work([sequences]), self.factors, count_each, overlap=overlap)
        n_parts = np.minimum(np.ravel(count), self.layout.pp_size)
        return alone.times(np.maximum(1.0, self.slowest_stage_fraction * n_parts))

    def work(self, parts: list[Sequences]) -> RankWork:
        """Entries of passes over sequences."""
        return rank_work(
            self.model,
            self.chip,
            self.layout,
            parts,
            precision=self.precision,
            kv_precision=self.kv_precision,
            traffic=self.traffic,
            formats=self.formats,
        )

    def largest_batch(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """Sequences whose caches fit together, each reserving that many tokens."""
        return largest_batch(self.model, self.memory, self.layout, tokens, self.kv_precision)

    @cached_property
    def longest_request(self) -> float:
        """Longest request whose cache fits beside the weights; infinite where no length exceeds them [tokens]."""
        return longest_request(self.model, self.memory, self.layout, self.kv_precision)

    def largest_batch_within(self, context_tokens: float, tpot_s: float) -> int:
        """Largest batch that fits the memory and keeps the step within a limit; 0 when not even one sequence does.

        Equation:
            max B with B <= memory limit and step(B) <= TPOT limit, by bisection: a step never gets faster with more
            sequences

        Args:
            context_tokens: context of every sequence [tokens].
            tpot_s: longest step allowed [s].

        Returns:
            Sequences.
        """
        low, high = 0, int(self.largest_batch(context_tokens))
        while low < high:
            # 32 candidates at a time: passes are timed together.
            tried = np.unique(np.linspace(low + 1, high, 32).astype(int))
            holds = self.decode_time(tried, np.full(tried.shape, context_tokens)).total_s <= tpot_s
            if holds.all():
                return int(tried[-1])
            first_bad = int(np.argmin(holds))
            low, high = (int(tried[first_bad - 1]) if first_bad else low), int(tried[first_bad]) - 1
        return low

    def _per_replica(self, n_sequences: FloatArray) -> FloatArray:
        return np.maximum(n_sequences / self.layout.dp_size, np.minimum(n_sequences, 1.0))


def _overhead(seconds: FloatArray) -> PassTime:
    zero = np.zeros_like(seconds)
    return PassTime(zero, zero, zero, seconds)
