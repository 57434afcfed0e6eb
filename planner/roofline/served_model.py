"""A model on one instance: prefill and decode seconds by length and batch, from shapes, rates and a stack's factors."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError, InputProblem
from planner.profiles import ModelProfile, Speculation, WeightPart
from planner.roofline.chip import Chip
from planner.roofline.engine_memory import MemorySettings
from planner.roofline.expert_traffic import EVEN_TRAFFIC, ExpertTraffic
from planner.roofline.factors import Factors
from planner.roofline.formats import IN_BF16, ProductFormats
from planner.roofline.kv_memory import kv_bytes_per_rank
from planner.roofline.layout import Layout
from planner.roofline.memory_fit import PLAIN, VOCABULARY, MemoryFit, longest_request, memory_fit
from planner.roofline.operator import FloatArray
from planner.roofline.pass_time import PassTime, pass_time
from planner.roofline.rank_work import RankWork, rank_work
from planner.roofline.sequences import Sequences
from planner.roofline.speculation import check_draft, mtp_model, tokens_per_step, with_caches_of
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
class InstanceModel:
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
    memory_settings: MemorySettings = PLAIN
    """How the stack accounts for its memory."""
    traffic: ExpertTraffic = EVEN_TRAFFIC
    """How experts that are dealt out are run."""
    formats: ProductFormats = IN_BF16
    """What products run at that the weights' format does not say."""
    speculation: Speculation | None = None
    """What drafts tokens, and how many of them are accepted; None: a step yields one token."""

    def __post_init__(self) -> None:
        """Raises InputError for more pipeline stages than the model has layers, and for drafts that cannot be."""
        n, stages = self.model.architecture.n_layers, self.layout.pp_size
        if stages > n:
            raise InputError(
                InputProblem("layout", "pp", f"is {stages}", f"at most {n}, the layers of {self.model.name}")
            )
        if self.speculation is not None and stages > 1:
            raise InputError(
                InputProblem("layout", "pp", f"is {stages} beside draft tokens", "1, where tokens are drafted")
            )
        if self.speculation is not None and self.speculation.draft is not None:
            check_draft(self.model, self.speculation.draft)

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

    @property
    def n_draft_tokens(self) -> int:
        """Tokens drafted per step."""
        return 0 if self.speculation is None else self.speculation.n_draft_tokens

    @property
    def tokens_per_step(self) -> float:
        """Tokens that a step yields of each sequence, on average; see the function of that name."""
        return 1.0 if self.speculation is None else tokens_per_step(self.speculation.acceptance)

    @cached_property
    def drafter(self) -> "InstanceModel | None":
        """Drafter on the same accelerators: another model in its checkpoint's format, or an MTP layer in this
        one's; None without speculation. Raises InputError where the model has none."""
        if self.speculation is None:
            return None
        draft = self.speculation.draft
        if draft is None:
            return replace(self, model=mtp_model(self.model), speculation=None)
        return replace(self, model=draft, precision=None, speculation=None)

    @cached_property
    def cached_model(self) -> ModelProfile:
        """The model as its caches see it: with the layers of what drafts. Of use for their bytes alone."""
        return self.model if self.drafter is None else with_caches_of(self.model, self.drafter.model)

    @cached_property
    def memory(self) -> MemoryFit:
        """Memory of one of its accelerators, beside the weights of what drafts."""
        if self.speculation is None or self.drafter is None:
            return self._memory_of(self)
        shared = VOCABULARY if self.speculation.draft is None else ()
        return self._memory_of(self, beside_bytes=self._memory_of(self.drafter, shared).weights_bytes)

    def _memory_of(
        self, one: "InstanceModel", shared: Collection[WeightPart] = (), beside_bytes: float = 0.0
    ) -> MemoryFit:
        return memory_fit(
            one.model,
            self.chip.memory_bytes,
            self.layout,
            precision=one.precision,
            settings=self.memory_settings,
            chunk_tokens=self.chunk_tokens,
            redundant_experts=self.traffic.redundant_experts,
            shared=shared,
            beside_bytes=beside_bytes,
        )

    @property
    def n_places(self) -> int:
        """Prompts that a pass takes at once: one per attention replica."""
        return self.layout.dp_size

    @property
    def most_running(self) -> float:
        """Most sequences that the engine admits on all replicas; infinite where its stack does not say.

        Each takes a token of a decode step at least, so a pass of fewer tokens holds fewer.
        """
        stated = self.memory_settings.most_running
        return inf if stated is None else self.n_places * min(stated, self.chunk_tokens)

    def prompts_per_pass(self, new_tokens: ArrayLike, cached_tokens: ArrayLike = 0.0) -> FloatArray:
        """Prompts alike that a full pass takes: on each replica as many as its tokens, or else the memory, allow.

        Equation:
            replicas max(1, min(floor(chunk / new), M)), M sequences that the memory of a replica holds

        Args:
            new_tokens: tokens to compute of each [tokens], any shape.
            cached_tokens: tokens whose cache exists already [tokens], broadcast with new_tokens.

        Returns:
            Prompts; the broadcast shape.

        Valid:
            Prompts are not split to fill a pass, which a queue of prompts of other lengths would allow.
        """
        new = np.asarray(new_tokens, float)
        held = np.floor(self.largest_batch(new + cached_tokens) / self.n_places)
        return np.asarray(self.n_places * np.maximum(np.minimum(np.floor(self.chunk_tokens / new), held), 1.0))

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
            n_prompts: prompts that begin together, spread over attention replicas: 1 to `prompts_per_pass`, broadcast.

        Returns:
            Seconds by what binds; the shape of the tokens, raveled.

        Valid:
            Middle chunks are timed as their mean, which is exact where time is linear in the cached tokens. Prompts
            that share passes are as long as one another. What drafts computes its own cache of them in the same passes.

        Source:
            Chunked prefill: Sarathi-Serve (2024).
        """
        shapes = np.broadcast_arrays(np.asarray(new_tokens, float), cached_tokens, np.asarray(n_prompts, float))
        new, cached, prompts = (np.ravel(a) for a in shapes)
        passes = prefill_passes(new, cached, self.chunk_tokens, prompts)
        work, overlap = self.prefill_work(passes.sequences), self.traffic.overlap_efficiency
        each = pass_time(work, self.factors, eager=True, overlap=overlap)
        time = each.times(passes.times).summed(passes.request, new.size)
        if self.layout.pp_size > 1:
            first = passes.is_first
            alone = each.times(first).summed(passes.request, new.size)
            time = time.times(self.slowest_stage_fraction) + alone.times(1 - self.slowest_stage_fraction)
        return time + _overhead(np.zeros_like(new) + self.factors.before_prefill_s(new + cached))

    def decode_time(self, batch: ArrayLike, context_tokens: ArrayLike) -> PassTime:
        """Seconds of one decode step, drafting included; it yields `tokens_per_step` of each sequence.

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
        alone = self._step_time(self.decode_work(np.ravel(part), np.ravel(context)), np.ravel(part))
        n_parts = np.minimum(np.ravel(count), self.layout.pp_size)
        return alone.times(np.maximum(1.0, self.slowest_stage_fraction * n_parts))

    def verification_time(self, batch: ArrayLike, context_tokens: ArrayLike) -> PassTime:
        """Seconds of the part of a decode step that verifies what was drafted: as `decode_time`, without drafting."""
        count, context = (np.ravel(a) for a in np.broadcast_arrays(np.asarray(batch, float), context_tokens))
        verified = Sequences.decode(count, context, self.n_draft_tokens + 1.0)
        return self._step_time(self.work([verified]), count)

    def _step_time(self, work: RankWork, n_sequences: FloatArray) -> PassTime:
        overlap = self.traffic.overlap_efficiency
        return pass_time(work, self.factors, self._per_replica(n_sequences), overlap=overlap)

    def token_time(self, batch: ArrayLike, context_tokens: ArrayLike) -> PassTime:
        """Seconds per token of each sequence: those of a step over the tokens that it yields.

        Equation:
            T_step / E[X], X tokens of a sequence and step

        Args:
            batch: as at `decode_time`.
            context_tokens: as at `decode_time`.

        Returns:
            Seconds by what binds; the shape, raveled.

        Source:
            Leviathan et al. 2023 (arXiv 2211.17192), theorem 3.8, with the step's own seconds.
        """
        step = self.decode_time(batch, context_tokens)
        return step if self.speculation is None else step.times(1 / self.tokens_per_step)

    def prefill_work(self, chunks: Sequences) -> RankWork:
        """Entries of passes over chunks of prompts, those of what drafts included: it has a cache of its own."""
        work = self.work([chunks])
        return work if self.drafter is None else RankWork.together([work, self.drafter.work([chunks])])

    def decode_work(self, batch: ArrayLike, context_tokens: ArrayLike, chunks: Sequences | None = None) -> RankWork:
        """Entries of decode steps: N drafted tokens and the one before them verified together, and N drafted anew.

        MTP layers go over all tokens that were verified, whose hidden states are new to them, and then over one at a
        time; another model decodes one at a time. Either goes over chunks of prompts in the same pass.
        """
        n, drafter, beside = self.n_draft_tokens, self.drafter, [] if chunks is None else [chunks]
        verified, one = (Sequences.decode(batch, context_tokens, tokens) for tokens in (n + 1.0, 1.0))
        work = self.work([*beside, verified])
        if drafter is None or self.speculation is None:
            return work
        first = drafter.work([*beside, verified if self.speculation.draft is None else one])
        return RankWork.together([work, first, drafter.work([one]).repeated(n - 1)])

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
        return np.asarray(self.n_places * np.floor(max(self.memory.cache_bytes, 0.0) / self.kv_bytes_per_rank(tokens)))

    def kv_bytes_per_rank(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """Cache and state of one request on a rank that holds it, what drafts and what is drafted included [B].

        Equation:
            K(L + N) + (N + 1) K(0): drafted tokens take their places before they are verified, and recurrences keep a
            state after each token to go back to

        Args:
            tokens: request lengths L [tokens], any shape.

        Source:
            As `kv_bytes_per_rank`; intermediate states: SGLang, python/sglang/srt/mem_cache/memory_pool.py.
        """
        n, length = self.n_draft_tokens, np.asarray(tokens, float)
        sizes = {"tp_size": self.layout.tp_size, "pp_size": self.layout.pp_size}
        held = kv_bytes_per_rank(self.cached_model, length + n, self.kv_precision, **sizes)
        if not n:
            return held
        return np.asarray(held + (n + 1) * kv_bytes_per_rank(self.model, 0.0, self.kv_precision, **sizes))

    @cached_property
    def longest_request(self) -> float:
        """Longest request whose cache fits beside the weights; infinite where no length exceeds them [tokens]."""
        return longest_request(self.cached_model, self.memory, self.layout, self.kv_precision)

    def largest_batch_within(self, context_tokens: float, tpot_s: float) -> int:
        """Largest batch that the engine admits, fits the memory and keeps the time per token within a limit, or 0.

        Equation:
            max B with B <= memory limit, B <= sequences that the engine admits, and step(B) / tokens per step <= TPOT
            limit, by bisection: a step never gets faster with more sequences

        Args:
            context_tokens: context of every sequence [tokens].
            tpot_s: longest time per token allowed [s].

        Returns:
            Sequences.
        """
        low, high = 0, int(min(float(self.largest_batch(context_tokens)), self.most_running))
        while low < high:
            # 32 candidates at a time: passes are timed together.
            tried = np.unique(np.linspace(low + 1, high, 32).astype(int))
            holds = self.token_time(tried, np.full(tried.shape, context_tokens)).total_s <= tpot_s
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
