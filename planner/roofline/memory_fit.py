"""Fit of weights and caches in an instance's memory: how many sequences it holds, and how long one may be."""

from collections.abc import Collection
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.profiles import ModelProfile, WeightPart
from planner.roofline.engine_memory import MemorySettings, Rank, expert_padding, rank_memory
from planner.roofline.kv_memory import BLOCK_TOKENS, kv_bytes_per_rank
from planner.roofline.layout import Layout
from planner.roofline.stages import slowest_stage_fraction
from planner.roofline.weights import weights_bytes

DEALT_OUT: tuple[WeightPart, ...] = ("experts",)
DENSE: tuple[WeightPart, ...] = ("dense_mlp", "shared_experts")
COPIED: tuple[WeightPart, ...] = ("router", "latent", "norms")
VOCABULARY: tuple[WeightPart, ...] = ("embedding", "lm_head")
PLAIN = MemorySettings()
"""Memory without the accounting of any engine."""
LONGEST_TOKENS = 1 << 30
"""Above any length of a workload."""


@dataclass(frozen=True)
class MemoryFit:
    """One accelerator's memory under a model, a layout and a precision."""

    memory_bytes: float
    """Memory that serving may use [B]."""
    weights_bytes: float
    """Weights of the fullest rank [B]."""
    workspace_bytes: float
    """What the engine holds beside weights and caches: activations, logits, graphs and buffers [B]."""
    fraction: float = 1.0
    """Part of the accelerator's memory that the engine uses, in its own sense."""

    @property
    def cache_bytes(self) -> float:
        """Memory that is left for caches; negative when weights do not fit [B]."""
        return self.memory_bytes - self.weights_bytes - self.workspace_bytes

    @property
    def fits(self) -> bool:
        """True if there is room for any cache at all."""
        return self.cache_bytes > 0

    @property
    def lacking_bytes(self) -> float:
        """Bytes that one accelerator lacks; 0 when it fits [B]."""
        return max(-self.cache_bytes, 0.0)


def memory_fit(
    model: ModelProfile,
    memory_bytes: float,
    layout: Layout,
    *,
    precision: str | None = None,
    settings: MemorySettings = PLAIN,
    chunk_tokens: float = 8192,
    redundant_experts: int = 0,
    shared: Collection[WeightPart] = (),
    beside_bytes: float = 0.0,
) -> MemoryFit:
    """Memory of one accelerator: what serving may use, and what weights and workspace take of it.

    Equation:
        experts (1 + R / E) / (tp dp), R copies among E; dense MLPs and shared experts over the ranks that share them,
        tp where experts are dealt out over replicas and tp dp elsewhere; the rest / tp, but routers, latent
        projections and norms whole; of all that, a stage has the part of its layers, but of the vocabulary 1 / pp,
        which goes to stages with fewer layers

    Args:
        model: a model whose shapes are known.
        memory_bytes: memory of one accelerator [B].
        layout: parallel sizes.
        precision: number format of the weights; None: the checkpoint's own.
        settings: how the stack accounts for its memory.
        chunk_tokens: tokens of a pass [tokens].
        redundant_experts: copies of experts in every layer beside the model's own.
        shared: parts whose weights are there already, as those that MTP layers share with their model.
        beside_bytes: weights of what else is loaded, as of a model that drafts [B].

    Returns:
        The fit of the fullest rank.

    Raises:
        InputError: a shape is unknown.

    Valid:
        Layers of equal size; stages with as many as whole layers allow.

    Source:
        Workspace: the engine's own accounting, see `planner.roofline.engine_memory`.

    >>> from planner.profiles import model_profile
    >>> memory_fit(model_profile("llama-3.1-70b"), 80e9, Layout(tp_size=2), precision="fp8").fits
    True
    """
    moe = model.architecture.moe
    dense = layout.dense_ranks(moe is not None)
    ranks = {**dict.fromkeys(DEALT_OUT, layout.stage_size), **dict.fromkeys(DENSE, dense), **dict.fromkeys(COPIED, 1)}
    parts = {part: n for part, n in weights_bytes(model, precision).items() if part not in shared}
    loaded = {part: n / ranks.get(part, layout.tp_size) for part, n in parts.items()}
    if moe is not None and "experts" in loaded:
        loaded["experts"] *= expert_padding(model, layout, precision, settings)
        loaded["experts"] *= 1 + redundant_experts / moe.n_experts
    vocabulary = sum(loaded.get(part, 0.0) for part in VOCABULARY)
    weights = beside_bytes + _fullest_stage(model, sum(loaded.values()) - vocabulary, vocabulary, layout.pp_size)
    rank = Rank(model, memory_bytes, layout, weights, chunk_tokens, settings, beside_bytes > 0)
    found = rank_memory(rank)
    return MemoryFit(found.usable_bytes, weights, found.workspace_bytes, rank.fraction)


def _fullest_stage(model: ModelProfile, layer_bytes: float, vocabulary_bytes: float, n_stages: int) -> float:
    """Weights on the fullest stage: those of its layers, or the mean over stages where the vocabulary fills others."""
    largest = slowest_stage_fraction(model.architecture.n_layers, n_stages)
    return max(largest * layer_bytes, (layer_bytes + vocabulary_bytes) / n_stages)


def largest_batch(
    model: ModelProfile,
    fit: MemoryFit,
    layout: Layout,
    tokens: ArrayLike,
    kv_precision: str = "bf16",
    block_tokens: int = BLOCK_TOKENS,
) -> NDArray[np.float64]:
    """Sequences whose caches fit an instance together.

    Equation:
        dp floor(cache bytes of a rank / bytes of one sequence on a rank)

    Args:
        model: a model whose attention shapes are known.
        fit: memory of one accelerator.
        layout: parallel sizes.
        tokens: length that each sequence reserves [tokens], any shape.
        kv_precision: number format of the attention cache.
        block_tokens: tokens of a cache block.

    Returns:
        Sequences, the shape of tokens; 0 when not even one fits.

    Source:
        PagedAttention (vLLM, 2023): memory is the batch limit.

    >>> from planner.profiles import model_profile
    >>> model, layout = model_profile("llama-3.1-70b"), Layout(tp_size=8)
    >>> largest_batch(model, memory_fit(model, 141e9, layout), layout, [4096, 131072]).tolist()
    [632.0, 19.0]
    """
    per_rank = kv_bytes_per_rank(
        model, tokens, kv_precision, tp_size=layout.tp_size, pp_size=layout.pp_size, block_tokens=block_tokens
    )
    return layout.dp_size * np.floor(max(fit.cache_bytes, 0.0) / per_rank)


def longest_request(
    model: ModelProfile,
    fit: MemoryFit,
    layout: Layout,
    kv_precision: str = "bf16",
    block_tokens: int = BLOCK_TOKENS,
) -> float:
    """Longest request whose cache and state fit beside the weights: what an instance can prefill at all.

    Equation:
        max L, in whole blocks, with bytes of L on a rank <= cache bytes of the rank

    Args:
        model: a model whose attention shapes are known.
        fit: memory of one accelerator.
        layout: parallel sizes; a request lies on one of the dp replicas.
        kv_precision: number format of the attention cache.
        block_tokens: tokens of a cache block.

    Returns:
        Length, prefix that is cached included [tokens]; 0 where none fits, infinite where windows and states bound the
        bytes of any length.

    Source:
        A prompt's blocks are all held until its last token is computed: PagedAttention (vLLM, 2023).

    >>> from planner.profiles import model_profile
    >>> model, layout = model_profile("llama-3.1-70b"), Layout(tp_size=8)
    >>> longest_request(model, memory_fit(model, 141e9, layout), layout)
    2592384.0
    """
    sizes = {"tp_size": layout.tp_size, "pp_size": layout.pp_size, "block_tokens": block_tokens}
    low, high = 0, LONGEST_TOKENS // block_tokens
    while low < high:
        middle = (low + high + 1) // 2
        holds = kv_bytes_per_rank(model, middle * block_tokens, kv_precision, **sizes) <= fit.cache_bytes
        low, high = (middle, high) if holds else (low, middle - 1)
    return inf if low * block_tokens >= LONGEST_TOKENS else float(low * block_tokens)
